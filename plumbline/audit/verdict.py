"""What an audit shows on the console first: the verdict and two tables, readable at 80 columns."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plumbline.audit.console import print_prediction_findings, print_predictions, print_summary, print_training_findings
from plumbline.audit.request import Verbosity
from plumbline.judge.answer import Answer, Light, PartyAnswer
from plumbline.judge.federation_part import at
from plumbline.judge.findings import Findings
from plumbline.judge.words import bare_part_words, part_words
from plumbline.terminal import shown_text
from services.common.run_records import NOT_APPLICABLE

# Rows of a table of columns.
_MOST_COLUMNS = 20


# How a light is shown: its colour, and a word for who sees none.
_LIGHTS: dict[Light, tuple[str, str]] = {
    "red": ("bold white on red", " RED   "),
    "amber": ("bold black on yellow", " AMBER "),
    "green": ("bold white on green", " GREEN "),
    "grey": ("bold white on bright_black", " GREY  "),
}


_CAPTION = (
    "Of the records, how many are known by guessing and by the best attack; part: how much of a guess's error the "
    "federation removes."
)
_ONE_SESSION = " One: the part after one session alone."
# Of a column's name.
_COLOURS: dict[Light, str] = {"red": "bold red", "amber": "yellow", "green": "green", "grey": "bright_black"}


def print_findings(console: Console, findings: Findings, elapsed: float, verbosity: Verbosity) -> None:
    """Show as much of the findings as somebody wants to read.

    Args:
        console: where.
        findings: of one run.
        elapsed: seconds of the whole run.
        verbosity: ``quiet`` is the sentence, ``normal`` the verdict with its tables, ``verbose`` everything.
    """
    if verbosity == "quiet":
        console.print(shown_text(findings.answer.sentence), highlight=False, soft_wrap=True)
        return
    print_verdict(console, findings)
    if verbosity == "verbose":
        print_summary(console, findings.summary, elapsed)
        print_prediction_findings(console, findings.predictions)
        print_training_findings(console, list(findings.training))
        print_predictions(console, findings.summary)


def print_verdict(console: Console, findings: Findings) -> None:
    """Show the verdict: one sentence, a light per party with words, and two tables, of columns and of labels."""
    answer = findings.answer
    console.print(shown_text(answer.sentence, "bold"), highlight=False)
    for party in answer.parties:
        style, word = _LIGHTS[party.light]
        title = shown_text(f" {_title(party)}: ", "bold")
        console.print(Text(word, style) + title + shown_text(party.words), highlight=False)
    if answer.sessions:
        console.print(shown_text(answer.sessions), highlight=False)
    if answer.columns:
        _print_ranked(console, answer)
    _print_labels(console, findings)
    for sentence in (*answer.not_measured, *not_applicable(findings)):
        console.print(shown_text(sentence), highlight=False)


def _title(party: PartyAnswer) -> str:
    return party.title or party.party


def _print_ranked(console: Console, answer: Answer) -> None:
    """The columns, the most exposed first: what a guess and the best attack know, and the federation's part."""
    several = len({one.party for one in answer.columns}) > 1
    # What one session alone tells, where the lights are for more.
    has_one = any(one.one_session for one in answer.columns)
    table = _table("What becomes of each column", _CAPTION + (_ONE_SESSION if has_one else ""))
    _folded(table, "column", 20)
    _folded(table, "is known", 13)
    _numbers(table, "guess", "attack", *(["one"] if has_one else []), "part (95 %)")
    _folded(table, "best attack", 20)
    for one in answer.columns[:_MOST_COLUMNS]:
        headline, known = at(one.levels), at(one.known)
        name = f"{one.column} of {one.party}" if several else one.column
        table.add_row(
            shown_text(name, _COLOURS[one.light]),
            one.known_as.removesuffix(" of its range"),
            _share(1 - known.e0),
            "" if known.error is None else _share(1 - known.error),
            *([bare_part_words(at(one.one_session))] if has_one else []),
            part_words(headline),
            _attack(headline.attack),
        )
    console.print(table)
    if (more := len(answer.columns) - _MOST_COLUMNS) > 0:
        console.print(f"The report has {more} more columns.", highlight=False)


def _print_labels(console: Console, findings: Findings) -> None:
    """What attacks on training told, labels first."""
    judged = sorted((one for one in findings.training if one.is_scored), key=lambda one: not one.levels)
    if not judged:
        return
    table = _table("What training gives away", "Part: of what was unknown, by the federation.")
    _folded(table, "of", 20)
    _folded(table, "by", 13)
    _numbers(table, "guess", "attack", "part (95 %)")
    _folded(table, "attack", 20)
    for one in judged:
        guess, told, part = "", _share(one.success), ""
        if one.levels:
            headline = at(one.levels)
            guess, part = _share(1 - headline.e0), part_words(headline)
            told = "" if headline.error is None else _share(1 - headline.error)
        table.add_row(*map(shown_text, (one.kind, one.party)), guess, told, part, _attack(one.attack))
    console.print(table)


def _attack(name: str) -> Text:
    """An attack's name, which breaks before its options where it must."""
    return shown_text(name.replace("(", " (", 1).replace(",", ", ").replace("  ", " "))


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _table(title: str, caption: str) -> Table:
    """A table that fits a terminal of 80 columns: long names take a second line, numbers never."""
    return Table(
        title=title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=0,
        caption=caption,
        caption_justify="left",
    )


def _folded(table: Table, heading: str, most: int) -> None:
    """A column of words as wide as it must be and no wider than this: nothing of them is lost."""
    table.add_column(heading, overflow="fold", max_width=most, min_width=len(heading))


def _numbers(table: Table, *headings: str) -> None:
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))


def not_applicable(findings: Findings) -> list[str]:
    """What could not be carried out, one line for attacks that share a reason."""
    reasons: dict[str, list[str]] = {}
    for one in findings.predictions.attacks:
        if one.mse is None and one.status == NOT_APPLICABLE:
            reasons.setdefault(_reason(one.attack, one.reason), []).append(one.attack)
    for other in findings.training:
        if not other.kind and other.reason:
            reasons.setdefault(_reason(other.attack, other.reason), []).append(f"{other.attack} by {other.party}")
    return [f"Not applicable: {', '.join(names)}" + (f": {why}" if why else ".") for why, names in reasons.items()]


def _reason(attack: str, reason: str) -> str:
    """A reason without the attack's name, which most begin with."""
    return reason.removeprefix(f"{attack.partition('(')[0]} ")
