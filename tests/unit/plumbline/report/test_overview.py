"""Known answers of the first screen: who is ranked where, beside which guess."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from plumbline.charts.marks import Trace
from plumbline.judge.answer import Answer, ColumnAnswer, without_part
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.findings import Findings
from plumbline.judge.measures import Interval
from plumbline.judge.training import TrainingFinding
from plumbline.report.html import environment
from plumbline.report.page import labels_by_epoch, ranked_levels
from plumbline.telling.document import ColumnLine
from tests.harness.charts import marks_of
from tests.harness.findings import attack, column, findings, levels
from tests.harness.parsed import Element, parsed


def answer(name: str, error: float, *, known: tuple[LevelVerdict, ...] = ()) -> ColumnAnswer:
    told = levels("half_star", error)
    return ColumnAnswer(
        party="passive",
        column=name,
        kind="number",
        light="red",
        levels=told,
        features=(0,),
        known=known,
        known_as="within 5",
        unit=100.0,
    )


def found(*columns: ColumnAnswer) -> Findings:
    predictions = findings(attack("half_star", column("a", 0.06)))
    made = Findings.__new__(Findings)
    object.__setattr__(made, "predictions", predictions)
    object.__setattr__(made, "answer", Answer((), "red", (), columns))
    return made


def test_columns_are_ranked_by_their_part_and_keep_the_number_of_their_card() -> None:
    ranking = {level: lines for level, _, lines in ranked_levels(found(answer("little", 0.09), answer("much", 0.01)))}
    assert list(ranking) == ["nothing", "marginals"]
    rows = ranking["marginals"]
    assert [(row.column, row.number, row.share) for row in rows] == [
        ("much", 2, "90 %"),
        ("little", 1, "10 %"),
    ]
    bar = drawn(rows)[0]
    _, part, whisker = bar.all("rect")
    assert [part.attributes["width"], whisker.attributes["x"], whisker.attributes["width"]] == [
        "90.00%",
        "85.00%",
        "10.00%",
    ]
    assert bar.one("title").text == "much: 90 % (85 to 95) of what was unknown"


def drawn(lines: Sequence[ColumnLine]) -> list[Element]:
    """The bars of a ranking."""
    page = environment().from_string('{% from "elements/ranking.html" import ranking %}{{ ranking(lines, "Ranked") }}')
    return list(parsed(page.render(lines=lines)).all("svg"))


def test_what_chance_explains_has_another_colour_than_a_leak() -> None:
    by_chance = tuple(replace(one, part=Interval(0.1, 0.0, 0.2)) for one in levels("half_star", 0.09))
    chance = replace(answer("chance", 0.09), levels=by_chance)
    for verdict, style in ((chance, "harmless"), (answer("leak", 0.01), "leak")):
        (bar,) = drawn(ranked_levels(found(verdict))[1][2])
        assert list(bar.all("rect"))[1].attributes["class"] == style
    unmeasured = replace(answer("none", 0.01), levels=tuple(replace(one, part=None) for one in by_chance))
    (bar,) = drawn(ranked_levels(found(unmeasured))[1][2])
    assert len(list(bar.all("rect"))) == 1


def test_what_could_be_guessed_anyway_stands_beside_what_is_known_with_the_federation() -> None:
    known = (LevelVerdict("marginals", "its densest value", 0.69, "half_star", 0.26),)
    (row,) = ranked_levels(found(answer("age", 0.01, known=known)))[1][2]
    assert row.anyway == "± 31.6 → ± 10; within 5 in 74 % of records, 31 % by guessing"
    worse = tuple(replace(one, error=0.9) for one in known)
    (row,) = ranked_levels(found(answer("age", 0.01, known=worse)))[1][2]
    assert row.anyway == "± 31.6 → ± 10"
    known_anyway = tuple(replace(one, e0=0.09, error=0.01) for one in known)
    (row,) = ranked_levels(found(answer("age", 0.01, known=known_anyway)))[1][2]
    assert row.anyway == "± 31.6 → ± 10"


def test_no_part_is_said_in_words() -> None:
    assert without_part(LevelVerdict("marginals", "its mean", 0.0, "half_star", 0.0)) == "known anyway"
    assert without_part(LevelVerdict("marginals", "its mean", 0.1)) == "not measured"


def test_labels_that_are_told_and_those_of_them_that_are_right_are_drawn_apart() -> None:
    levels_of = (LevelVerdict("nothing", "any", 0.5), LevelVerdict("marginals", "most frequent", 0.4))
    followed = TrainingFinding(
        *("label_recovery", "passive", "", 0.1, "labels", 0.7, 1.0, (0.6, 0.7)),
        levels_of,
        so_far=(0.0, 0.3, 0.7),
        told_so_far=(0.0, 0.5, 0.7),
    )
    silent = replace(followed, attack="own_part", so_far=(0.0, 0.0, 0.0), told_so_far=(0.0, 0.0, 0.0))
    told, right = labels_by_epoch([followed, silent, TrainingFinding("x", "passive", "", 0.1)])
    # Of what nothing is told, nothing is right or wrong: no line at 0 stands beneath the guess's.
    assert [style for style, _ in told.key] == ["s1", "s2"]
    assert [style for style, _ in right.key] == ["s1", "guess"]
    found_line, guess = (one for one in marks_of(right, Trace) if one.style in ("s1", "guess"))
    # 60 % of those told in the second epoch is what guessing gets.
    assert found_line.points[0][1] == pytest.approx(guess.points[0][1])
    assert found_line.points[1][1] < guess.points[1][1]
    assert labels_by_epoch([TrainingFinding("x", "passive", "", 0.1)]) == []
