"""The tables of a run, which the page and the console draw: what attacks found, what it cost, what was agreed."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from attacks import LEVELS
from plumbline.judge.answer import LABEL_LEVEL_WORDS, Answer, ColumnAnswer, own, part_words
from plumbline.judge.federation_part import FLOOR, HEADLINE, at
from plumbline.judge.findings import DefenceTrial, Findings
from plumbline.judge.measures import Interval
from plumbline.judge.persons import PersonFindings
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.summary import RunSummary, calibration_words, seen_words
from plumbline.judge.variant_results import headings_of, rows_of
from plumbline.report.cards import ColumnEvidence, Evidence, starred
from plumbline.report.ledger import ledger
from plumbline.telling.document import Cell, Shade, Table
from plumbline.telling.numbers import hundredths, percent, seconds
from services.common.run_records import STAGES, ChannelRecord

# Epochs whose answers a row shows.
_MOST_EPOCHS = 8


@dataclass(frozen=True)
class Strength:
    """What one attack on predictions gave away.

    Attributes:
        finding: what it reconstructed.
        parts: the federation's part of each column by this attack alone; None where there is nothing to give away.
    """

    finding: AttackFinding
    parts: tuple[float | None, ...]

    @property
    def mean(self) -> float:
        """Mean part over the columns that had something to give away."""
        measured = [part for part in self.parts if part is not None]
        return sum(measured) / len(measured) if measured else 0.0

    @property
    def largest(self) -> float:
        """The largest part of any column."""
        return max((part for part in self.parts if part is not None), default=0.0)


def by_strength(found: Sequence[AttackFinding], columns: Sequence[ColumnAnswer], evidence: Evidence) -> list[Strength]:
    """Sort the attacks that saw scores and ran, the strongest first; its parts are in the order of ``columns``."""
    strengths = [
        Strength(one, tuple(_part(one, column, evidence.get(column)) for column in columns))
        for one in found
        if one.mse is not None and one.sees_scores
    ]
    return sorted(strengths, key=lambda one: (-one.mean, one.finding.attack))


def _part(finding: AttackFinding, column: ColumnAnswer, evidence: ColumnEvidence | None) -> float | None:
    """Find the part of one column by one attack, at the headline's level or at its own where that is higher."""
    if evidence is not None and evidence.names and finding.attack in evidence.estimates:
        level = max(finding.level, HEADLINE, key=LEVELS.index)
        e0 = at(column.levels, level).e0
        return max(0.0, 1 - evidence.named_wrong(finding.attack) / e0) if e0 >= FLOOR else None
    feature = column.features[0]
    if feature >= len(finding.columns) or not finding.columns[feature].levels:
        return None
    part = own(finding.columns[feature].levels).part
    return None if part is None else part.mean


def tables_of(findings: Findings, facts: Mapping[str, Any], evidence: Evidence) -> dict[str, Table]:
    """Make every table of a run, by name.

    Args:
        findings: of the run.
        facts: its ``request``, which may be absent, ``versions`` and duration in ``seconds``.
        evidence: what is true of its columns.
    """
    summary, answer = findings.summary, findings.answer
    strengths = by_strength(findings.predictions.attacks, answer.columns, evidence)
    return {
        "attacks": attacks_table(strengths),
        "map": map_table(strengths, answer),
        "baselines": baselines_table(findings),
        "absent": absent_table(findings),
        "training": training_table(findings),
        "labels": labels_table(findings),
        "rarest": rarest_table(findings),
        "persons": persons_table(findings.persons),
        "ledger": ledger_table(summary, answer, facts),
        "protection": protection_table(summary, answer),
        "variants": variants_table(findings),
        "trials": trials_table(findings.trials),
        "run": run_table(summary, facts["seconds"]),
        "stages": stages_table(summary, answer),
        "traffic": traffic_table(summary.bytes_by_message),
    }


# -- what attacks found ------------------------------------------------------------------------------------------------


def attacks_table(strengths: Iterable[Strength]) -> Table:
    """List attacks on predictions that ran, the strongest first."""
    rows = []
    for strength in strengths:
        attack, shares = strength.finding, map(percent, (strength.mean, strength.largest))
        name = f"{attack.attack} after {attack.sessions} sessions" if attack.sessions > 1 else attack.attack
        measures = (_error(attack.mse), percent(attack.accuracy), percent(attack.coverage), f"{attack.seconds:.2f}")
        rows.append((name, attack.level, *shares, *measures))
    return Table.of(
        "Attacks on predictions",
        f"Shares at level {HEADLINE}, or at the attack's own where that is higher. Labels kept: records that an "
        "independent classifier labels alike before and after reconstruction.",
        "Attack|Knows beforehand|>Mean share|>Largest share|>Squared error|>Labels kept|>Covered|>Seconds",
        rows,
    )


def map_table(strengths: Sequence[Strength], answer: Answer) -> Table:
    """Map what each attack alone gave away of each column."""
    several = len({one.party for one in answer.columns}) > 1
    rows = (
        (f"{one.column} of {answer.called(one.party)}" if several else one.column, *map(Shade, parts))
        for one, parts in zip(answer.columns, zip(*(one.parts for one in strengths), strict=True), strict=False)
    )
    names = [starred(one.finding) for one in strengths]
    star = f" *: the attack knows more beforehand than level {HEADLINE}." if any("*" in name for name in names) else ""
    caption = (
        "The federation's part, in percent, of each column by each attack alone. A dot: nothing, or worse than "
        f"guessing. n/a: known anyway.{star}"
    )
    return Table.of("Map of columns and attacks", caption, ("Column", *names), rows)


def baselines_table(findings: Findings) -> Table:
    """List guesses that see no score, the best first."""
    baselines = sorted(findings.predictions.baselines, key=lambda one: one.mse.mean)
    return Table.of(
        "Baselines",
        "What could be guessed anyway: attacks are measured against these, and none of them is a leak.",
        "Guess|Knows beforehand|>Squared error",
        ((one.name, one.level, _error(one.mse)) for one in baselines),
    )


def absent_table(findings: Findings) -> Table:
    """List attacks that gave no result, and why."""
    rows = [(one.attack, one.status, one.reason) for one in findings.predictions.attacks if one.mse is None]
    for other in findings.training:
        if not other.kind:
            rows.append((f"{other.attack} by {findings.answer.called(other.party)}", "not done", other.reason))
    caption = "An attack that failed, or did not apply, says nothing about safety."
    return Table.of("Attacks that did not run", caption, "Attack|What became of it|Because", rows)


def training_table(findings: Findings) -> Table:
    """List what attacks on training found."""
    rows = []
    for finding in findings.training:
        if finding.kind:
            shares = map(_places, (finding.success, finding.resolved)) if finding.is_scored else ("", "")
            epochs = ", ".join(map(percent, finding.by_epoch[:_MOST_EPOCHS]))
            more = " ..." if len(finding.by_epoch) > _MOST_EPOCHS else ""
            note = finding.reason if finding.is_scored else f"not scored: {finding.facts} {finding.reason}"
            party = findings.answer.called(finding.party)
            rows.append((finding.attack, party, finding.kind, *shares, epochs + more, note))
    return Table.of(
        "Attacks on training",
        "Labels; single features up to their sign; features read exactly; parts of scores. Right: of what was "
        "attacked; answered: of the same, right or not.",
        "Attack|By|Of|>Right|>Answered|Right by epoch|Note",
        rows,
    )


def labels_table(findings: Findings) -> Table:
    """List, level by level, how often labels are wrong by guessing and with each attack."""
    levels = "; ".join(f"{level} ({known})" for level, known in LABEL_LEVEL_WORDS.items())
    rows = (
        (
            attack.attack,
            findings.answer.called(attack.party),
            one.level,
            one.baseline,
            *map(_places, (one.e0, one.error)),
            part_words(one),
        )
        for attack in findings.training
        for one in attack.levels
        if one.level in LABEL_LEVEL_WORDS
    )
    return Table.of(
        "Labels against guessing",
        "How often labels are wrong: guessed without the federation, and with what it told. What a party knows "
        f"beforehand: {levels}. Labels that an attack leaves open are guessed.",
        "Attack|By|Knows beforehand|Best guess|>Wrong|>Wrong with the attack|>Federation's part",
        rows,
    )


def rarest_table(findings: Findings) -> Table:
    """Say how well attacks put records of the rarest class before all others."""
    rows = []
    for attack in findings.training:
        if attack.kind and (rarest := attack.rarest):
            shares = map(_places, (rarest.share, rarest.auc))
            party = findings.answer.called(attack.party)
            rows.append((attack.attack, party, *shares, str(rarest.top), _places(rarest.precision)))
    return Table.of(
        "The rarest class",
        "The rarest class, which the share of right labels hides: how well attacks put its records before all others "
        "(AUC; 50 % is guessing), and how many of those that they hold likeliest are of it.",
        "Attack|By|>Of the class|>AUC|>Named|>Of them right",
        rows,
    )


def persons_table(persons: PersonFindings, control: str = "") -> Table:
    """List what is told of persons; ``control``: what that is, where no text above it says so."""
    caption = f"Who learns what of persons, with 95 % intervals{control}."
    rows = ((one.name, one.adversary, one.words) for one in persons.rows)
    return Table.of("What it tells of persons", caption, "Question|Who would learn it|What it learns", rows)


def variants_table(findings: Findings) -> Table:
    """Put variants side by side: what each gave away and cost."""
    return Table.of(
        "Variants side by side",
        "The same tables, split and seeds, each in a federation of its own. Attacks: what they have right; estimates: "
        "how much of a guess's error they take off.",
        ("What", *headings_of(findings.variants)),
        rows_of(findings.variants) if findings.variants else (),
    )


# -- the run -----------------------------------------------------------------------------------------------------------


def area_fact(words: str, tested: int) -> tuple[str, str, str]:
    """Say an area under the ROC curve of so many test records: a name, the figure, and what carries it."""
    area, _, carried = words.partition(" ")
    return "Test AUC", area, f"{carried} of {tested:,}" if carried else f"{tested:,}"


def run_table(summary: RunSummary, elapsed: float) -> Table:
    """Say what is asked of a run first: a name, a figure, and what is to be known of it."""
    size, pace = summary.agreement.plan.batch_size, f"{summary.epoch_seconds:.1f} s per epoch"
    rows = (
        ("Test accuracy", percent(summary.accuracy, 1), f"largest class {percent(summary.majority, 1)}"),
        area_fact(summary.area_words, summary.test_rows),
        ("Records in common", f"{summary.aligned_rows:,}", f"of {len(summary.parties)} parties"),
        ("Whole run", seconds(elapsed), f"{summary.total_bytes / 1e6:.1f} MB on the wire"),
        (
            "Training",
            *(
                (f"{len(summary.epochs)} epochs", f"{summary.steps} steps of {size} records, {pace}")
                if summary.epochs
                else ("none", "an installed model")
            ),
        ),
    )
    return Table.of("The run", "", "What|Value|Beside it", rows)


def ledger_table(summary: RunSummary, answer: Answer, facts: Mapping[str, Any]) -> Table:
    """Say what each party received, and whether an attack is possible."""
    plan = summary.agreement.plan
    is_once = plan.protocol == "shared" and not plan.family.spec.forwards
    rows = (
        (
            *(answer.called(one.party), one.received, one.about, f"{one.equations:,}", f"{one.unknowns:,}"),
            *(Cell("amber", "yes") if one.possible else Cell("green", "no"), one.since),
        )
        for one in ledger(summary, facts)
    )
    return Table.of(
        "What each party saw",
        f"Training: {'once, in all' if is_once else 'per step of a batch'}. Predictions: per record.",
        "Party|Received|About|>Equations|>Unknowns|An attack is possible|Since when",
        rows,
    )


def trials_table(trials: Sequence[DefenceTrial]) -> Table:
    """List defences that were tried: whether each holds, what it leaves and what it costs."""
    ciphers = [one.cipher for one in trials]
    cipher = "under Paillier" if ciphers[-1:] == ["paillier"] else "in the clear"
    beside = " (protocol=shared under Paillier)" if ciphers[:1] != ciphers[-1:] else ""
    return Table.of(
        "Defences that were tried",
        f"Tried in federations of the same tables, split and seeds, trained {cipher}{beside}, each measured by the "
        "best attack that knows it is there. Left: the largest federation's part that remains.",
        "Defence|Options|Holds|>Left|>Columns exposed|>Accuracy|>Change, points|>Seconds|>MB",
        map(_trial, trials),
    )


def _trial(trial: DefenceTrial) -> tuple[str | Cell, ...]:
    holds = Cell("green", "yes") if trial.holds else Cell("red", "no")
    costs = ("-", "-", "-", "-")
    if trial.accuracy is not None:
        change = f"{'+' if trial.accuracy_change > 0 else ''}{hundredths(trial.accuracy_change, 1)}"
        costs = (_places(trial.accuracy), change, f"{trial.seconds:.1f}", f"{trial.bytes / 1e6:+.1f}")
    return (
        *(trial.defence, ", ".join(f"{key}={value}" for key, value in trial.options.items())),
        holds if trial.was_run else Cell("grey", "not run"),
        *(percent(trial.part), "-" if trial.exposed is None else str(trial.exposed)),
        *costs,
    )


def protection_table(summary: RunSummary, answer: Answer) -> Table:
    """Say who has the labels, what protects the messages, and what each party sees of the others' columns."""
    plan, called = summary.agreement.plan, answer.called
    tls = "mTLS, one certificate per role, every call checked against the caller's role"
    shared = ", on shared weights: who decrypts keeps what it reads" if plan.protocol == "shared" else ""
    scores = "each party's part is uniform by itself, and the coordinator reads their sum alone"
    if summary.agreement.serving.tells_owners:
        scores = "partial scores reach the coordinator in the clear"
    reached = "reached leaves" if summary.agreement.answers == "leaves" else "confidence scores"
    classes = f"{', '.join(summary.class_names[:12])}{', ...' if len(summary.class_names) > 12 else ''}"
    rows = [
        ("Labels", f"of {called(summary.parties[0].name)}: {classes}; one of its features is the constant bias"),
        ("Alignment", "private set intersection: nobody learns ids that others don't have"),
        ("Transport", tls if summary.transport == "mtls" else "INSECURE: no TLS"),
        ("Training", f"{plan.encryption}{shared}" if plan.family.spec.trains else "none: an installed model"),
        ("Calibration", calibration_words(summary)),
        *((f"Columns of {called(one.name)}", seen_words(one)) for one in summary.parties),
        *((f"Answers of {called(one.key_holder)}", _channel(one, summary, answer)) for one in summary.channels),
        *((f"Defences of {called(where)}", ", ".join(names)) for where, names in summary.defences.items()),
        ("Scores", f"{scores}; {reached} reach the active party only"),
    ]
    return Table.of(
        "Protection",
        "Who has the labels, what all see of columns, and what protects the messages.",
        "What|How",
        (one for one in rows if one[1]),
    )


def _channel(channel: ChannelRecord, summary: RunSummary, answer: Answer) -> str:
    """Say how many equations one decryption channel has room for, and whether its answers are cut."""
    is_cut = summary.agreement.party(channel.key_holder).truncates_answers
    peer = answer.called(channel.peer)
    return (
        f"{'cut to their honest width' if is_cut else 'INSECURE: whole (truncate_answers=false)'}; "
        f"{channel.spare_bits:,} bits are spare towards {peer}, which can fit {channel.equations:,} equations about "
        f"{channel.rows:,} residuals{session_words(channel)}"
    )


def session_words(channel: ChannelRecord) -> str:
    """Say after how many epochs a peer that sends other messages can have been told a residual of each record."""
    if not 0 < channel.equations < channel.rows:
        return ""
    epochs = math.ceil(channel.rows / channel.equations)
    return f"; one that sends other messages than the protocol's can ask for each record's within {epochs} epochs"


def stages_table(summary: RunSummary, answer: Answer) -> Table:
    """List how long each stage of a training step takes."""
    rows = []
    for timing in summary.timings:
        milliseconds = [1e3 * count for count in (*(timing.seconds[stage] for stage in STAGES), timing.total)]
        rest = (f"{timing.pace:.2f}", f"{timing.peak_memory_bytes / 1e6:.0f} MB")
        rows.append((answer.called(timing.name), *(f"{count:.1f}" for count in milliseconds), *rest))
    return Table.of(
        "Time of each training step",
        f"Milliseconds by stage, mean over {summary.steps} steps in {len(summary.epochs)} epochs. Decrypt is the round "
        "trip to the key holder; wait is for another party's message. Pace: the last quarter's median over the "
        "first's.",
        "|".join(("Party", *(f">{one}" for one in STAGES), ">Total|>Pace|>Peak memory")),
        rows,
    )


def traffic_table(bytes_by_message: Mapping[str, int], caption: str = "") -> Table:
    """List the bytes of each message, the largest first."""
    total = f"{sum(bytes_by_message.values()):,} in all"
    caption = (
        caption
        or f"Bytes of each message over the whole run, both directions, as serialised: {total}, before TLS framing."
    )
    rows = sorted(bytes_by_message.items(), key=lambda one: -one[1])
    return Table.of("Bytes on the wire", caption, "Call: message|>Bytes", ((name, f"{size:,}") for name, size in rows))


def _error(error: Interval | None) -> str:
    return "" if error is None else f"{error.mean:.4f} ({error.low:.4f} to {error.high:.4f})"


def _places(share: float | None) -> str:
    return percent(share, 1)
