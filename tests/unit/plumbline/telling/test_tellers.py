"""Whoever shows findings says the same number of the same thing: console, page, annex, notebook and JSON."""

import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from html import unescape

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from attacks import LEVELS
from plumbline.audit.console import print_answer, print_glance
from plumbline.judge.answer import Answer, ColumnAnswer, PartyAnswer
from plumbline.judge.federation_part import HEADLINE, LevelVerdict
from plumbline.judge.first_screen import document_of
from plumbline.judge.glance import DISCLOSES, KEEPS, joining_words
from plumbline.judge.measures import Interval
from plumbline.judge.persons import PersonFindings
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.training import TrainingFinding
from plumbline.notebook import ShownFindings
from plumbline.report.annex import columns_table
from plumbline.report.html import environment
from plumbline.telling.document import LIGHT_WORDS, Cell, ColumnLine, Glance, Light
from plumbline.telling.numbers import percent

# Of a page: its matrix and its ranking.
_PAGE = """{% from "elements/ranking.html" import ranking with context %}
{% from "elements/parts.html" import matrix, joined %}<h1>{{ glance.sentence }}</h1>
{{ joined(glance) }}{{ matrix(glance, light_words) }}
{{ ranking(document.columns, "") }}"""
LEARNS = ("how many bank learns", "how many shop learns", "of how many bank learns half")
LIGHTS: st.SearchStrategy[Light] = st.sampled_from(tuple(LIGHT_WORDS))


@dataclass(frozen=True, eq=False, repr=False)
class Made(ShownFindings):
    """Findings of no run."""

    answer: Answer
    glance: Glance
    predictions: PredictionFindings = field(default_factory=lambda: PredictionFindings(records=0))
    training: tuple[TrainingFinding, ...] = ()
    persons: PersonFindings = field(default_factory=PersonFindings)


@st.composite
def columns(draw: st.DrawFn, number: int) -> ColumnAnswer:
    """Draw a verdict on a column: with a part, with nothing left to tell, or with no attack."""
    low, mean, high = sorted(draw(st.lists(st.floats(0, 1), min_size=3, max_size=3)))
    case = draw(st.sampled_from(["told", "known anyway", "not measured"]))
    verdict = LevelVerdict(
        HEADLINE,
        "its mean",
        draw(st.floats(1e-3, 1)),
        "" if case == "not measured" else "half_star",
        None if case == "not measured" else draw(st.floats(0, 1)),
        Interval(mean, low, high) if case == "told" else None,
    )
    levels = tuple(verdict if level == HEADLINE else LevelVerdict(level, "its mean", 1.0) for level in LEVELS)
    light: Light = draw(LIGHTS)
    return ColumnAnswer(
        party="passive",
        column=f"column{number}",
        kind="number",
        features=(number,),
        levels=levels,
        light=light,
        unit=10.0,
    )


@st.composite
def findings(draw: st.DrawFn) -> Made:
    """Draw an answer on one to four columns, and a matrix."""
    every = tuple(draw(columns(number)) for number in range(draw(st.integers(1, 4))))
    sessions = draw(st.sampled_from([(1,), (1, 7)]))
    cells = st.builds(Cell, LIGHTS, st.integers(0, 9).map("{} of 9".format))
    rows = tuple((name, tuple(draw(cells) for _ in 2 * sessions)) for name in ("columns", "labels", "persons"))
    glance = Glance("Three of nine leak.", (KEEPS, DISCLOSES), sessions, rows, learns=LEARNS)
    stakes, change = (draw(st.fixed_dictionaries({name: LIGHTS for name, _ in rows})) for _ in range(2))
    glance = replace(glance, joining=joining_words(stakes, {"less": change}))
    parties = (PartyAnswer("active", "grey", "Nothing."), PartyAnswer("passive", "red", "Much."))
    return Made(Answer(("It leaks.",), "red", parties, every), glance)


def words_of(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def on_console(made: Made) -> str:
    text = io.StringIO()
    console = Console(file=text, width=200)
    print_glance(console, made.glance)
    print_answer(console, made.answer)
    return text.getvalue()


def on_page(made: Made) -> str:
    page = environment().from_string(_PAGE)
    return page.render(glance=made.glance, light_words=LIGHT_WORDS, document=made.document)


def line_about(column: str, text: str) -> str:
    """Find what follows a column's name up to another column's."""
    return re.split(rf"(?!{column})column\d", text.split(f"{column} ", 1)[1])[0]


def said(line: ColumnLine) -> Sequence[str]:
    return [words for words in (line.guess, line.attack, line.share) if words]


@settings(max_examples=12, deadline=None)
@given(made=findings())
def test_every_teller_says_the_same_number_of_the_same_column(made: Made) -> None:
    document = made.document
    assert document == document_of(made.answer, made.glance)
    console, notebook = " ".join(on_console(made).split()), words_of(made._repr_html_())
    page = words_of(on_page(made))
    table = columns_table(made.answer.columns, 10)
    for line, row, verdict in zip(document.columns, table.rows, made.answer.columns, strict=True):
        part = verdict.levels[LEVELS.index(HEADLINE)].part
        assert line.share == (line.without if part is None else percent(part.mean))
        # The console ranks on a line of its own, after the sentences.
        for teller in (console.split("What becomes of each column")[1], notebook, page):
            about = line_about(line.column, teller)
            assert all(words in about for words in said(line)), (teller, said(line))
        for teller in (console, notebook):
            assert line.interval in line_about(line.column, teller.split("part (95 %)")[1])
        assert row[2:4] == (Cell(line.light, LIGHT_WORDS[line.light]), line.guess)
        assert row[4] == (line.attack or "not measured")


@settings(max_examples=12, deadline=None)
@given(made=findings())
def test_every_teller_shows_the_same_matrix(made: Made) -> None:
    told = [cell.words for _, cells in made.glance.rows for cell in cells]
    for teller in (on_console(made), words_of(on_page(made)), words_of(made._repr_html_())):
        assert made.glance.sentence in teller
        assert all(words in teller for words in (made.glance.joining, *LEARNS))
        matrix = teller.split("discloses them", 1)[1]
        assert re.findall(r"\d of 9", matrix)[: len(told)] == told
    content = json.loads(json.dumps(asdict(made.document)))
    assert content["matrix"]["joining"] == made.glance.joining
    assert [cell["words"] for _, cells in content["matrix"]["rows"] for cell in cells] == told
    parts = [one.part.mean if one.part else None for one in made.document.columns]
    assert [one["part"] and one["part"]["mean"] for one in content["columns"]] == parts
