"""What an audit shows on the console: the verdict, readable at 80 columns; and, where asked, all that it rests on."""

import re
from collections.abc import Iterator
from dataclasses import replace

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from plumbline.audit.request import Verbosity
from plumbline.judge.answer import Answer, short
from plumbline.judge.findings import Findings
from plumbline.judge.first_screen import document_of
from plumbline.judge.remedies import measures_of
from plumbline.judge.summary import expectations
from plumbline.judge.variant_results import then_how
from plumbline.report import run_tables as tables
from plumbline.report.cards import evidence_of
from plumbline.telling.document import NOT_MEASURED, Cell, Glance, Light, Shade, Table
from plumbline.terminal import shown_text
from services.common.run_records import NOT_APPLICABLE

# Rows of a table of columns, and of these, whose hits are told beneath it.
_MOST_COLUMNS, _MOST_HITS = 20, 5
# Of columns, and of what would help, where the answer is on one screen.
_MOST_IN_SHORT, _MOST_MEASURES = 5, 3
# Letters of a number with its interval, which stays on one line; of a row's name that does, at most; of a cell that is
# a sentence, and how many columns stand in a line with it.
_A_NUMBER, _A_NAME, _A_SENTENCE, _MOST_BESIDE_A_SENTENCE = len("100 % (100 to 100)"), 32, 60, 3
# How a light is shown: its colour as a ground and of letters, and a word for who sees none.
_LIGHTS: dict[Light, tuple[str, str, str]] = {
    "red": ("bold white on red", "bold red", "RED"),
    "amber": ("bold black on yellow", "yellow", "AMBER"),
    "green": ("bold white on green", "green", "GREEN"),
    "grey": ("bold white on bright_black", "bright_black", "GREY"),
}
_CAPTION = (
    "How far the best guess and the best attack are off, typically and in the table's units, or how often they are "
    "right; part: how much of a guess's squared error, or of its wrong names, the attack removes. An interval is of "
    "one column by itself; colours allow for many columns, of which some look told by chance."
)
_ONE_SESSION = " One: the part after one session alone."


def print_findings(console: Console, findings: Findings, elapsed: float, verbosity: Verbosity) -> None:
    """Show as much of the findings as somebody wants to read.

    Args:
        console: where.
        findings: of one run.
        elapsed: seconds of the whole run.
        verbosity: ``quiet`` is the sentences in a line, ``normal`` the answer on a screen, ``verbose`` everything.
    """
    if verbosity == "quiet":
        console.print(shown_text(findings.answer.sentence), highlight=False, soft_wrap=True)
        return
    print_glance(console, findings.glance)
    if verbosity == "normal":
        _print_in_short(console, findings)
        return
    print_verdict(console, findings)
    for table in _tables(findings, elapsed):
        print_table(console, table)
    notes = (f"{one.attack}: {note}" for one in findings.predictions.attacks for note in one.notes)
    promises = (
        f"{one.defence} at {party} expects: {', '.join(f'{what} {value}' for what, value in expectations(one))}."
        for party, predictions in findings.summary.predictions.items()
        for one in predictions
    )
    # Notes of attacks, and what theory expects of each defence.
    say(console, *notes, *promises)


def _tables(findings: Findings, elapsed: float) -> Iterator[Table]:
    """List the report's tables beside those of the verdict."""
    summary, answer, predictions = findings.summary, findings.answer, findings.predictions
    evidence = evidence_of(findings)
    yield tables.attacks_table(tables.by_strength(predictions.attacks, answer.columns, evidence))
    yield tables.baselines_table(findings)
    yield tables.absent_table(findings)
    yield tables.run_table(summary, elapsed)
    yield tables.protection_table(summary, answer)
    yield tables.stages_table(summary, answer)
    yield tables.traffic_table(summary.bytes_by_message)


def say(console: Console, *sentences: str, style: str = "") -> None:
    """Show sentences, each on a line of its own; nothing of empty ones."""
    for sentence in filter(None, sentences):
        console.print(shown_text(sentence, style), highlight=False)


def print_table(console: Console, table: Table, most: int | None = None) -> None:
    """Draw a table, of at most so many rows; nothing without any. Long words take a second line, short numbers never.

    A cell with a light has its word, and the first has its colour. Last cells as long as sentences stand beneath.
    """
    if not table.rows:
        return
    if max(len(_words(row[-1])) for row in table.rows) > _A_SENTENCE:
        if len(table.headings) > _MOST_BESIDE_A_SENTENCE:
            headings, rows = table.headings[:-1], tuple(row[:-1] for row in table.rows)
            print_table(console, replace(table, caption="", headings=headings, rows=rows), most)
        else:
            console.print(shown_text(table.title, "italic"))
        for name, *cells in table.rows:
            whose = "".join(f", {_words(one)}" for one in cells[:-1][:1])
            if words := _words(cells[-1]):
                console.print(shown_text(_words(name), "bold") + shown_text(f"{whose}: {words}"), highlight=False)
        say(console, table.caption, style="italic")
        return
    grid = Grid(
        title=shown_text(table.title) if table.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,
        caption=shown_text(table.caption) if table.caption else None,
        caption_justify="left",
    )
    longest = [max(len(_words(row[place])) for row in table.rows) for place in range(len(table.headings))]
    is_tight = min(longest[0], _A_NAME) + sum(longest[1:]) + len(longest) > console.width
    for place, heading in enumerate(table.headings):
        is_number = place in table.right
        is_short = is_number and longest[place] <= _A_NUMBER
        grid.add_column(
            heading if len(heading) <= longest[place] or not is_number else heading.replace(" ", "\n"),
            justify="right" if is_number else "left",
            overflow="fold",
            no_wrap=is_short,
            # Where there is little room, names of rows and short numbers have what all else can do without.
            max_width=_longest_word(table, place) if is_tight and place and not is_short else None,
        )
    for row in table.rows[:most]:
        grid.add_row(*(_drawn(cell, is_first=place == 0) for place, cell in enumerate(row)))
    console.print(grid)
    if most is not None and (more := len(table.rows) - most) > 0:
        console.print(f"The report has {more} more columns.", highlight=False)


def _longest_word(table: Table, place: int) -> int:
    """Count the letters of what isn't broken in a column: words, and the beginning of an interval."""
    cells = (_drawn(row[place], is_first=False).plain for row in table.rows)
    return max(map(len, re.split(r" (?!to )", " ".join((table.headings[place], *cells)))))


def _words(cell: str | Cell | Shade) -> str:
    return cell if isinstance(cell, str) else cell.words


def _drawn(cell: str | Cell | Shade, *, is_first: bool) -> Text:
    if not isinstance(cell, Cell):
        # An attack's name breaks before its options where it must.
        return shown_text(re.sub(r"(?<=\w),(?=\w+=)", ", ", re.sub(r"(?<=\w)\((?=\w+=)", " (", _words(cell))))
    _, colour, word = _LIGHTS[cell.light]
    if is_first:
        return shown_text(cell.words, colour)
    return Text.assemble("" if cell == NOT_MEASURED else (f"{word} ", colour), shown_text(cell.words))


def print_glance(console: Console, glance: Glance) -> None:
    """Show the answer in a sentence, whether to join, and a matrix of lights with numbers."""
    say(console, glance.sentence, style="bold")
    say(console, glance.joining)
    several = len(glance.sessions) > 1
    headings = [f"{does},\n{when}" if several else does for does, when in glance.headings]
    print_table(console, Table("", "", ("", *headings), tuple((name, *cells) for name, cells in glance.rows)))
    say(console, "; ".join(f"{name}: {what}" for name, what, _ in glance.named_rows if what))


def _print_in_short(console: Console, findings: Findings) -> None:
    """Show what a person needs of the verdict on one screen: the first columns, what helps, and where the rest is."""
    say(console, findings.glance.unmeasured, *findings.answer.not_measured[:1])
    _print_ranked(console, findings.answer, _MOST_IN_SHORT)
    say(console, f"What would help: {' '.join(measures_of(findings)[:_MOST_MEASURES])}")
    say(console, *findings.summary.quality_notes, style="yellow")
    say(console, findings.cost_words)
    say(console, "All columns, and what was not measured: in the report, and with --verbose.")


def print_verdict(console: Console, findings: Findings) -> None:
    """Show the verdict whole: sentences, a light per party with words, tables of columns and of labels, persons."""
    answer = findings.answer
    print_answer(console, answer)
    say(console, *findings.summary.quality_notes, style="yellow")
    say(console, then_how(findings.variants), style="bold")
    for table_of in (tables.training_table, tables.labels_table, tables.variants_table):
        print_table(console, table_of(findings))
    print_table(console, tables.persons_table(findings.persons))
    say(console, *answer.labels, style="bold")
    say(console, findings.malicious_words, *answer.not_measured, *not_applicable(findings), findings.cost_words)
    say(console, *findings.summary.warnings, style="bold red")
    say(console, *(f"Simulation: {one}" for one in findings.summary.simulation), style="yellow")


def print_answer(console: Console, answer: Answer) -> None:
    """Show an answer's sentences, a light per party with words, and the columns."""
    say(console, *answer.sentences, style="bold")
    for party in answer.parties:
        ground, _, word = _LIGHTS[party.light]
        title = shown_text(f" {party.title or party.party}: ", "bold")
        console.print(Text(f" {word:5} ", ground) + title + shown_text(party.words), highlight=False)
    say(console, answer.sessions)
    _print_ranked(console, answer)


def _print_ranked(console: Console, answer: Answer, most: int = _MOST_COLUMNS) -> None:
    """Print columns, the most exposed first: how far off a guess and the best attack are, the federation's part."""
    lines = document_of(answer).columns
    several = len({one.party for one in lines}) > 1
    # What one session alone tells, where the lights are for more.
    has_one = any(one.alone for one in lines)
    is_whole = most == _MOST_COLUMNS
    rows = (
        (
            Cell(line.light, f"{line.column} of {line.party}" if several else line.column),
            *(line.guess, line.attack, *([line.alone] if has_one else []), line.interval),
            *([line.by] if is_whole else []),
        )
        for line in lines
    )
    caption = _CAPTION + (_ONE_SESSION if has_one else "") if is_whole else ""
    headings = f"column|>guess|>attack{'|>one' if has_one else ''}|>part (95 %){'|best attack' if is_whole else ''}"
    print_table(console, Table.of("What becomes of each column, by its own name", caption, headings, rows), most)
    for line in lines[:_MOST_HITS] if is_whole else ():
        if line.light in ("red", "amber") and line.more:
            say(console, f"{short(line.column)}: {'; '.join(line.more)}.")


def not_applicable(findings: Findings) -> list[str]:
    """Say what could not be carried out, one line for attacks that share a reason."""
    reasons: dict[str, list[str]] = {}
    absent = [(one.attack, one.reason, "") for one in findings.predictions.attacks if one.status == NOT_APPLICABLE]
    absent += [(one.attack, one.reason, one.party) for one in findings.training if one.status == NOT_APPLICABLE]
    for attack, reason, party in absent:
        # Most reasons begin with the attack's name.
        why = reason.removeprefix(f"{attack.partition('(')[0]} ")
        reasons.setdefault(why, []).append(f"{attack} by {party}" if party else attack)
    return [f"Not applicable: {', '.join(names)}" + (f": {why}" if why else ".") for why, names in reasons.items()]
