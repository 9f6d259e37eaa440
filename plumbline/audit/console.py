"""What an audit shows on the console: the verdict, readable at 80 columns; and, where asked, all that it rests on."""

import math
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plumbline.audit.request import Verbosity
from plumbline.judge.answer import (
    Answer,
    category_name,
    judged_words,
    label_sentences,
    more_words,
    part_words,
    short,
)
from plumbline.judge.federation_part import HEADLINE, at
from plumbline.judge.findings import Findings
from plumbline.judge.first_screen import document_of
from plumbline.judge.lights import telling
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import AttackFinding, BaselineFinding, PredictionFindings
from plumbline.judge.summary import RunSummary, calibration_words, expectations, narrow_words
from plumbline.judge.training import TrainingFinding
from plumbline.judge.variant_results import VariantResult, headings_of, rows_of, then_how
from plumbline.telling.document import NOT_MEASURED, Glance, Light
from plumbline.telling.numbers import percent, seconds
from plumbline.terminal import shown_text
from services.common.agreement import Agreement
from services.common.run_records import NOT_APPLICABLE, STAGES, ChannelRecord
from vfl.data.faults import counted

# Rows of a table of columns, and of these, whose hits are told beneath it.
_MOST_COLUMNS, _MOST_HITS = 20, 5
# Of columns where the answer is on one screen.
_MOST_IN_SHORT = 8


# How a light is shown: its colour, and a word for who sees none.
_LIGHTS: dict[Light, tuple[str, str]] = {
    "red": ("bold white on red", " RED   "),
    "amber": ("bold black on yellow", " AMBER "),
    "green": ("bold white on green", " GREEN "),
    "grey": ("bold white on bright_black", " GREY  "),
}


_CAPTION = (
    "How far the best guess and the best attack are off, typically and in the table's units, or how often they are "
    "right; part: how much of a guess's squared error, or of its wrong names, the attack removes. An interval is of "
    "one column by itself; colours allow for many columns, of which some look told by chance."
)
_ONE_SESSION = " One: the part after one session alone."
# Of a column's name.
# Letters of a column of words, at least, where many stand side by side.
_NARROWEST = 11
_COLOURS: dict[Light, str] = {"red": "bold red", "amber": "yellow", "green": "green", "grey": "bright_black"}


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
    print_summary(console, findings.summary, elapsed)
    print_prediction_findings(console, findings.predictions)
    print_training_findings(console, list(findings.training))
    # What theory expects of each defence.
    for party, predictions in findings.summary.predictions.items():
        for expectation in predictions:
            numbers = ", ".join(f"{what} {value}" for what, value in expectations(expectation))
            console.print(shown_text(f"{expectation.defence} at {party} expects: {numbers}."), highlight=False)


def print_glance(console: Console, glance: Glance) -> None:
    """Show the answer in a sentence and a matrix of lights with numbers."""
    console.print(shown_text(glance.sentence, "bold"), highlight=False)
    table = _table("", "")
    table.padding = (0, 1, 0, 0)
    table.add_column("")
    for number, (does, when) in enumerate(glance.headings):
        first = does if number % len(glance.sessions) == 0 else ""
        table.add_column(f"{first}\n{when}" if len(glance.sessions) > 1 else does, overflow="fold")
    for name, cells in glance.rows:
        lights = (
            Text.assemble(
                "" if one == NOT_MEASURED else (f"{_LIGHTS[one.light][1].strip()} ", _COLOURS[one.light]), one.words
            )
            for one in cells
        )
        table.add_row(name, *lights)
    console.print(table)


def _print_in_short(console: Console, findings: Findings) -> None:
    """Show what a person needs of the verdict on one screen: sentences, the first columns, and where the rest is."""
    answer = findings.answer
    for sentence in answer.sentences:
        console.print(shown_text(sentence), highlight=False)
    _print_notes(console, findings)
    if answer.columns:
        _print_ranked(console, answer, _MOST_IN_SHORT)
    if findings.variants:
        _print_variants(console, findings.variants)
    for sentence in filter(None, (findings.malicious_words, findings.cost_words)):
        console.print(shown_text(sentence), highlight=False)
    left_out = len(answer.not_measured) + len(not_applicable(findings))
    untold = f"{counted(left_out, 'thing')} not measured, labels, persons" if left_out else "Labels, persons"
    console.print(f"{untold} and all columns: in the report, and here with --verbose.", highlight=False)


def _print_notes(console: Console, findings: Findings) -> None:
    """Show what is to be known of a model's quality, and which variant to take."""
    for note in findings.summary.quality_notes:
        console.print(shown_text(note, "yellow"), highlight=False)
    if sentence := then_how(findings.variants):
        console.print(shown_text(sentence, "bold"), highlight=False)


def print_verdict(console: Console, findings: Findings) -> None:
    """Show the verdict whole: sentences, a light per party with words, tables of columns and of labels, persons."""
    answer = findings.answer
    print_answer(console, answer)
    _print_notes(console, findings)
    _print_labels(console, findings)
    if findings.persons.rows:
        console.print(shown_text("What it tells of persons", "italic"))
        for row in findings.persons.rows:
            verdict = shown_text(f" to {row.adversary}: {row.words}")
            console.print(shown_text(f"{row.name},", "bold") + verdict, highlight=False)
    if findings.variants:
        _print_variants(console, findings.variants)
    for sentence in filter(
        None, (findings.malicious_words, *answer.not_measured, *not_applicable(findings), findings.cost_words)
    ):
        console.print(shown_text(sentence), highlight=False)


def print_answer(console: Console, answer: Answer) -> None:
    """Show an answer's sentences, a light per party with words, and the columns."""
    for sentence in answer.sentences:
        console.print(shown_text(sentence, "bold"), highlight=False)
    for party in answer.parties:
        style, word = _LIGHTS[party.light]
        title = shown_text(f" {party.title or party.party}: ", "bold")
        console.print(Text(word, style) + title + shown_text(party.words), highlight=False)
    if answer.sessions:
        console.print(shown_text(answer.sessions), highlight=False)
    if answer.columns:
        _print_ranked(console, answer)


def _print_ranked(console: Console, answer: Answer, most: int = _MOST_COLUMNS) -> None:
    """Print columns, the most exposed first: how far off a guess and the best attack are, the federation's part."""
    lines = document_of(answer).columns
    several = len({one.party for one in lines}) > 1
    # What one session alone tells, where the lights are for more.
    has_one = any(one.alone for one in lines)
    is_whole = most == _MOST_COLUMNS
    caption = _CAPTION + (_ONE_SESSION if has_one else "") if is_whole else ""
    table = _table("What becomes of each column", caption)
    _folded(table, "column", 20)
    _numbers(table, "guess", "attack", *(["one"] if has_one else []), "part (95 %)")
    if is_whole:
        _folded(table, "best attack", 20)
    for line in lines[:most]:
        table.add_row(
            shown_text(f"{line.column} of {line.party}" if several else line.column, _COLOURS[line.light]),
            *(line.guess, line.attack, *([line.alone] if has_one else []), line.interval),
            *([_attack(line.by)] if is_whole else []),
        )
    _print_some(console, table, len(lines) - most)
    for line in lines[:_MOST_HITS] if is_whole else ():
        if line.light in ("red", "amber") and line.more:
            console.print(shown_text(f"{short(line.column)}: {'; '.join(line.more)}."), highlight=False)


def _print_variants(console: Console, results: Sequence[VariantResult]) -> None:
    """Print what each variant gave away and cost, side by side."""
    caption = "The same tables, split and seeds. Attacks: what they have right; estimates: off a guess's error."
    table = _table("Side by side", caption)
    _folded(table, "what", 32)
    for heading in headings_of(results):
        _folded(table, heading, max(_NARROWEST, 46 // len(results)))
    for row in rows_of(results):
        table.add_row(*map(shown_text, row))
    console.print(table)


def _print_some(console: Console, table: Table, more: int) -> None:
    """Print a table of the first columns, and where so many others are."""
    console.print(table)
    if more > 0:
        console.print(f"The report has {more} more columns.", highlight=False)


def _print_labels(console: Console, findings: Findings) -> None:
    """Print what attacks on training told, labels first."""
    scored = sorted((one for one in findings.training if one.is_scored), key=lambda one: not one.levels)
    if not scored:
        return
    table = _table("What training gives away", "Part: of what was unknown, by the federation.")
    _folded(table, "of", 20)
    _folded(table, "by", 13)
    _numbers(table, "guess", "attack", "part (95 %)")
    _folded(table, "attack", 20)
    for finding in scored:
        guess, success, part, attack = "", percent(finding.success), "", finding.attack
        if finding.levels:
            verdict = telling(finding.levels)
            guess, part, attack = percent(1 - verdict.e0), part_words(verdict), verdict.attack or attack
            success = "" if verdict.error is None else percent(1 - verdict.error)
        table.add_row(*map(shown_text, (finding.kind, finding.party)), guess, success, part, _attack(attack))
    console.print(table)


def _attack(name: str) -> Text:
    """Write an attack's name, which breaks before its options where it must."""
    return shown_text(name.replace("(", " (", 1).replace(",", ", ").replace("  ", " "))


def _table(title: str, caption: str) -> Table:
    """Make a table that fits a terminal of 80 columns: long names take a second line, numbers never."""
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
    """Make a column of words as wide as it must be and no wider than this: nothing of them is lost."""
    table.add_column(heading, overflow="fold", max_width=most, min_width=min(most, len(heading)))


def _numbers(table: Table, *headings: str) -> None:
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True, min_width=len(heading))


def not_applicable(findings: Findings) -> list[str]:
    """Say what could not be carried out, one line for attacks that share a reason."""
    reasons: dict[str, list[str]] = {}
    for finding in findings.predictions.attacks:
        if finding.mse is None and finding.status == NOT_APPLICABLE:
            reasons.setdefault(_reason(finding.attack, finding.reason), []).append(finding.attack)
    for other in findings.training:
        if other.status == NOT_APPLICABLE:
            reasons.setdefault(_reason(other.attack, other.reason), []).append(f"{other.attack} by {other.party}")
    return [f"Not applicable: {', '.join(names)}" + (f": {why}" if why else ".") for why, names in reasons.items()]


def _reason(attack: str, reason: str) -> str:
    """Give a reason without the attack's name, which most begin with."""
    return reason.removeprefix(f"{attack.partition('(')[0]} ")


def print_summary(console: Console, summary: RunSummary, elapsed: float) -> None:
    """Show the run's terms, quality, times and traffic; ``elapsed``: seconds of the whole run."""
    for warning in summary.warnings:
        console.print(shown_text(warning, "bold red"))
    for note in summary.simulation:
        console.print(shown_text(f"Simulation: {note}", "yellow"))
    plan = summary.agreement.plan
    table = Table(title=f"Federation {summary.name}", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for party in summary.parties:
        narrow = narrow_words(party.binary_features, party.byte_features)
        table.add_row(shown_text(party.name), f"{party.feature_count} features" + (f", {narrow}" if narrow else ""))
    table.add_row("records", f"{summary.aligned_rows:,} aligned by PSI, {summary.test_rows:,} for the test")
    table.add_row("cipher", str(plan.encryption))
    table.add_row("transport", summary.transport)
    for name, applied in summary.defences.items():
        table.add_row(shown_text(f"defences of {name}"), shown_text(", ".join(applied)))
    training = (
        f"{len(summary.epochs)} epochs, {summary.steps} steps of {plan.batch_size} records, "
        f"{summary.epoch_seconds:.1f} s per epoch"
    )
    table.add_row("training", training if summary.epochs else "none: an installed model")
    if summary.channels:
        answers = (channel_words(channel, summary.agreement) for channel in summary.channels)
        table.add_row("answers of a step", shown_text("; ".join(answers)))
    table.add_row("test accuracy", f"{percent(summary.accuracy, 1)} (largest class {percent(summary.majority, 1)})")
    table.add_row("test AUC", summary.area_words)
    if calibrated := calibration_words(summary):
        table.add_row("calibration", shown_text(calibrated))
    table.add_row("on the wire", f"{summary.total_bytes / 1e6:.1f} MB in all")
    table.add_row("whole run", seconds(elapsed))
    console.print(table)

    if summary.timings:
        _print_stages(console, summary)
    traffic = Table(title="Bytes on the wire")
    traffic.add_column("call: message")
    traffic.add_column("bytes", justify="right")
    for message, size in summary.bytes_by_message.items():
        traffic.add_row(shown_text(message), f"{size:,}")
    console.print(traffic)


def _print_stages(console: Console, summary: RunSummary) -> None:
    stages = Table(title="Milliseconds per iteration")
    stages.add_column("stage")
    for timing in summary.timings:
        stages.add_column(shown_text(timing.name), justify="right")
    for stage in STAGES:
        stages.add_row(stage, *(f"{timing.seconds[stage] * 1e3:.1f}" for timing in summary.timings))
    stages.add_row("total", *(f"{timing.total * 1e3:.1f}" for timing in summary.timings), style="bold")
    stages.add_row("last quarter / first", *(f"{timing.pace:.2f}" for timing in summary.timings))
    stages.add_row("peak memory, MB", *(f"{timing.peak_memory_bytes / 1e6:.0f}" for timing in summary.timings))
    console.print(stages)


def print_prediction_findings(console: Console, findings: PredictionFindings) -> None:
    """Show what attacks on predictions reconstruct, and what of it the federation gave away; the report has more."""
    done = [finding for finding in findings.attacks if finding.mse is not None and finding.sees_scores]
    if done:
        _print_attacks(console, findings, done)
    if findings.baselines:
        _print_baselines(console, findings.baselines)
    if done:
        _print_categories(console, findings)
    for finding in findings.attacks:
        for note in finding.notes:
            console.print(shown_text(f"{finding.attack}: {note}"), highlight=False)
        if finding.mse is None:
            # Most reasons begin with the name themselves.
            reason = finding.reason.removeprefix(f"{finding.attack} ")
            console.print(shown_text(f"{finding.attack}: {finding.status}: {reason}"), highlight=False)


def _wide_table(title: str, caption: str, name: str, *numbers: str) -> Table:
    """Make a table of the verbose console: names, which may take several lines, beside numbers, which may not."""
    table = Table(title=title, caption=caption)
    table.add_column(name, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="left" if heading == "knows" else "right", no_wrap=True)
    return table


def _print_attacks(console: Console, findings: PredictionFindings, done: Sequence[AttackFinding]) -> None:
    caption = (
        "Mean squared error per feature, by attacks that saw scores. Accuracy: records that a classifier labels as "
        "before once reconstructed. Covered: cells within an attack's own 90 % intervals."
    )
    headings = ("knows", "MSE", "95 %", "accuracy", "covered")
    title = f"What the active party reconstructs ({judged_words(findings)})"
    table = _wide_table(title, caption, "attack", *headings)
    for finding in done:
        coverage = "" if finding.coverage is None else percent(finding.coverage)
        errors = _error_cells(finding.mse)
        table.add_row(shown_text(finding.attack), finding.level, *errors, f"{finding.accuracy:.2f}", coverage)
    console.print(table)


def _print_baselines(console: Console, baselines: Sequence[BaselineFinding]) -> None:
    title, caption = "Baselines: guesses without a score", "Mean squared error per feature."
    table = _wide_table(title, caption, "guess", "knows", "MSE", "95 %")
    for baseline in baselines:
        table.add_row(shown_text(baseline.name), baseline.level, *_error_cells(baseline.mse))
    console.print(table)


def _error_cells(error: Interval | None) -> tuple[str, str]:
    return ("", "") if error is None else (f"{error.mean:.4f}", f"{error.low:.3f} to {error.high:.3f}")


def _print_categories(console: Console, findings: PredictionFindings) -> None:
    if not findings.categories:
        return
    caption = (
        f"Share of records at level {HEADLINE}, by the best guess without a score and the best attack; more: in "
        "points, with the 95 % interval."
    )
    table = _wide_table("Columns of few values: named right", caption, "column", "values", "guess", "attack")
    table.add_column("by", overflow="fold")
    table.add_column("more", justify="right", no_wrap=True)
    for category in findings.categories[:_MOST_COLUMNS]:
        verdict = at(category.wrong)
        table.add_row(
            shown_text(category_name(category)),
            str(category.values),
            percent(1 - verdict.e0, 1),
            "" if verdict.error is None else percent(1 - verdict.error, 1),
            shown_text(verdict.attack),
            more_words(verdict),
        )
    console.print(table)


def print_training_findings(console: Console, findings: list[TrainingFinding]) -> None:
    """Show what attacks on training found, one line each."""
    if not findings:
        return
    table = Table(title="What training gave away", caption="Right: of what was attacked. Answered: right or not.")
    for heading in ("attack", "by", "of", "right", "answered", "first and last epoch"):
        table.add_column(heading, justify="right" if heading in ("right", "answered") else "left")
    for finding in findings:
        if finding.kind and finding.is_scored:
            ends = (*finding.by_epoch[:1], *finding.by_epoch[-1:])
            epochs = ", ".join(percent(share, 1) for share in ends)
            table.add_row(
                *map(shown_text, (finding.attack, finding.party, finding.kind)),
                percent(finding.success, 1),
                percent(finding.resolved, 1),
                epochs,
            )
    console.print(table)
    for sentence in label_sentences(findings):
        console.print(shown_text(sentence, "bold"), highlight=False)
    for finding in findings:
        if finding.kind and not finding.is_scored:
            line = f"{finding.attack} by {finding.party} found {finding.kind}: {finding.facts}"
            console.print(shown_text(line), highlight=False)
        if finding.reason:
            console.print(shown_text(f"{finding.attack} by {finding.party}: {finding.reason}"), highlight=False)


def channel_words(channel: ChannelRecord, agreement: Agreement) -> str:
    """Say how many equations one decryption channel has room for, and whether its answers are cut."""
    holder = channel.key_holder
    cut = f"{holder} cuts them" if agreement.party(holder).truncates_answers else f"INSECURE: {holder} gives them whole"
    return (
        f"{cut}, {channel.peer} can fit {channel.equations} equations about {channel.rows} residuals of {holder} "
        f"({channel.spare_bits} bits spare){session_words(channel)}"
    )


def session_words(channel: ChannelRecord) -> str:
    """Say after how many epochs a peer that sends other messages can have been told a residual of each record."""
    if not 0 < channel.equations < channel.rows:
        return ""
    epochs = math.ceil(channel.rows / channel.equations)
    return f"; one that sends other messages than the protocol's can ask for each record's within {epochs} epochs"
