"""What a run tells of persons: rows under the field's names, each with who learns it, in words with numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from plumbline.judge.answer import ColumnAnswer, listed, short
from plumbline.judge.evidence import Predictor, constants
from plumbline.judge.federation_part import at
from plumbline.judge.lights import LEAST_RECORDS, are_too_few
from plumbline.judge.membership import FALSE_POSITIVES, MembershipFinding, read_membership
from plumbline.judge.predictions import PredictionFindings, predictors
from plumbline.judge.record_risks import PersonRisk, RecordRisks, RiskShare, record_risks
from plumbline.judge.session_sentences import sessions_behind
from plumbline.judge.summary import RunSummary
from plumbline.judge.truth import Truth
from plumbline.telling.numbers import percent, share_words
from services.common.run_folder import RunFolder
from vfl.data.faults import counted


@dataclass(frozen=True)
class PropertyFinding:
    """How close an adversary that knows public ranges only comes to means and frequencies of the passive features.

    Attributes:
        attack: whose estimates' means are taken for them.
        features: how many there are.
        guess: mean distance of the best guess without scores from a feature's mean, on the encoded scale.
        error: the same of the attack's.
        closer: number of features of which the attack is off by half of the guess's distance at most.
    """

    attack: str
    features: int
    guess: float
    error: float
    closer: int


@dataclass(frozen=True)
class PersonRow:
    """One question about persons, and its answer.

    Attributes:
        name: the field's: ``membership inference, at predictions``, ``attribute inference``, ...
        adversary: who would learn it.
        words: what it learns, or why that isn't known.
        is_measured: whether the run says anything of it.
    """

    name: str
    adversary: str
    words: str
    is_measured: bool = True


@dataclass(frozen=True)
class PersonFindings:
    """What a run tells of persons.

    Attributes:
        risks: of each passive party's persons; empty where too few were judged, or no attack.
        membership: what scores and the model tell of who was trained on.
        properties: what is learned of means and frequencies; None where no attack that knows ranges only ran.
        rows: everything in words, one question each.
    """

    risks: tuple[PersonRisk, ...] = ()
    membership: MembershipFinding = field(default_factory=lambda: MembershipFinding("nobody asked."))
    properties: PropertyFinding | None = None
    rows: tuple[PersonRow, ...] = ()


def read_person_findings(
    folder: RunFolder, summary: RunSummary, predictions: PredictionFindings, columns: Sequence[ColumnAnswer]
) -> tuple[PersonFindings, tuple[RecordRisks, ...]]:
    """Answer the questions about persons; and the risk of each record, which is for its owner's eyes only.

    Args:
        folder: what the parties wrote.
        summary: the run's terms and quality.
        predictions: what was found of them.
        columns: the verdict on each column of the passive tables.

    Raises:
        RunFolderError: for a file that is missing or broken.
    """
    risks: list[tuple[PersonRisk, RecordRisks]] = []
    properties = None
    if predictions.distinct >= LEAST_RECORDS:
        estimates, scored = folder.estimates(0), {one.attack for one in predictions.attacks if one.mse is not None}
        truth = Truth(folder, [party.name for party in summary.parties[1:]], estimates)
        done = [one for one in folder.prediction_outcomes() if one.batch == 0 and one.attack in scored]
        attacks, guesses = predictors(done, estimates.by_attack)
        if any(at(one.levels).attack for one in predictions.sources):
            risks = record_risks(truth, estimates, [*attacks, *guesses], predictions.sources, summary.agreement)
        properties = _properties(truth, attacks, guesses)
    findings = PersonFindings(tuple(one for one, _ in risks), read_membership(folder, summary), properties)
    # Lights of columns hold after so many sessions, and so does what follows from the same estimates.
    sessions = sessions_behind(predictions.limit, columns)
    after = f"after {sessions} sessions, " if sessions > 1 else ""
    return replace(findings, rows=_rows(findings, summary, columns, after)), tuple(one for _, one in risks)


def _properties(truth: Truth, attacks: Sequence[Predictor], guesses: Sequence[Predictor]) -> PropertyFinding | None:
    means = truth.cells.mean(axis=0)
    blind = [one for one in attacks if one.level == "nothing"]
    if not blind:
        return None
    # What anybody takes a mean or a frequency for: an end or the middle of a range, an even share of a category.
    even = np.full(truth.cells.shape, 0.5)
    for category in truth.told_categories:
        even[:, category.columns] = 1 / category.count if len(category.columns) > 1 else 0.5
    anybody = [*constants(truth.cells), *truth.published(), Predictor("evenly", "nothing", even), *guesses]
    guess, error = (
        [np.abs(one.estimate.mean(axis=0) - means) for one in some if one.level == "nothing"]
        for some in (anybody, blind)
    )
    best, attack = min(zip(error, blind, strict=True), key=lambda one: float(one[0].mean()))
    guess_errors = np.min(guess, axis=0)
    closer = int((best < guess_errors / 2).sum())
    return PropertyFinding(attack.name, len(means), float(guess_errors.mean()), float(best.mean()), closer)


def _rows(
    findings: PersonFindings, summary: RunSummary, columns: Sequence[ColumnAnswer], after: str
) -> tuple[PersonRow, ...]:
    active = summary.agreement.active.name
    # Several are asked one after the other, each about what is left (docs/threat-model.md).
    sizes = (
        "how many the other has."
        if len(summary.parties) == 2
        else f"how many it was asked about. {active} learns how many each has, and which of its records some have "
        "though one that it asks later lacks them."
    )
    shared = f"which {counted(summary.aligned_rows, 'record')} of its table all others have too, and {sizes}"
    return (
        PersonRow("alignment alone", "every party", shared),
        *(risk_row(one, active, after) for one in findings.risks),
        *([] if findings.risks else [PersonRow("risk per record", active, _TOO_FEW, is_measured=False)]),
        PersonRow(
            "membership in the training set",
            "every party",
            "known without an attack: the split and each batch follow from the session's public seed.",
        ),
        *_membership_rows(findings.membership, summary),
        _attribute_row(columns, active, after),
        _property_row(findings.properties, active, after),
    )


_TOO_FEW = "not measured: no attack on predictions was judged on enough records."


def risk_row(risk: PersonRisk, adversary: str, after: str = "") -> PersonRow:
    """Say in words how many persons an attack comes closer to than a guess, beside the control."""
    any_value = next(one for one in risk.shares if one.bound is None)
    closer = [one for one in risk.shares if one.bound is not None]
    control = "" if risk.controls else " No control: no validation record is left for it."
    bounds = "; ".join(f"by {percent(one.bound or 0.0)} or more of {_with_control(one)}" for one in closer)
    return PersonRow(
        f"risk per record of {short(risk.party)}",
        adversary,
        f"{after}the best attack comes closer than the best guess {bounds}. A value that a guess doesn't know is told "
        f"of {_with_control(any_value)}.{control}",
    )


def _with_control(risk: RiskShare) -> str:
    control = "" if risk.control is None else f", {percent(risk.control.mean)} of the control"
    return f"{share_words(risk.share)} of persons{control}"


def _membership_rows(finding: MembershipFinding, summary: RunSummary) -> list[PersonRow]:
    names = "membership inference, at predictions", "membership inference, after training"
    outside = "somebody outside with records, labels and their scores", "somebody outside with records and the model"
    if finding.reason:
        return [
            PersonRow(name, who, f"not measured: {finding.reason}", is_measured=False)
            for name, who in zip(names, outside, strict=True)
        ]
    best, control = finding.attacks[0], finding.control
    beside = f", {share_words(control.found, 1)} when shuffled" if control is not None else ""
    outcome = "found" if finding.is_found else "told on average only" if finding.is_on_average else "not beyond chance"
    defended = f" They are trained without {listed(finding.without)}." if finding.without else ""
    text = (
        f"{outcome}: {best.name} finds {share_words(best.found, 1)} of the trained "
        f"records at {percent(FALSE_POSITIVES)} of false positives{beside}; the area under the curve is {best.auc:.2f} "
        f"({finding.trained:,} trained and {finding.others:,} other records, {finding.models} reference models)."
        f"{defended}"
    )
    model = PersonRow(names[1], outside[1], text)
    if summary.agreement.score_defences:
        bound = f"not measured under {listed(summary.agreement.score_defences)}: at most what the model itself tells."
        return [PersonRow(names[0], outside[0], bound, is_measured=False), model]
    return [PersonRow(names[0], outside[0], text), replace(model, words="the same: scores follow from the model.")]


def _attribute_row(columns: Sequence[ColumnAnswer], active: str, after: str) -> PersonRow:
    measured = [one for one in columns if at(one.levels).attack and not are_too_few(one.levels)]
    exposed = [one.column for one in measured if one.is_exposed()]
    if not measured:
        return PersonRow("attribute inference", active, _TOO_FEW, is_measured=False)
    unclear = sum(one.light == "grey" for one in measured if not one.is_exposed())
    listing = (f": {listed(exposed)}" if exposed else "") + (
        f"; of {unclear} it is shown neither way" if unclear else ""
    )
    return PersonRow(
        "attribute inference",
        active,
        f"{after}{len(exposed)} of {counted(len(measured), 'column')}, better than who knows means and frequencies "
        f"guesses{listing}.",
    )


def _property_row(finding: PropertyFinding | None, active: str, after: str) -> PersonRow:
    if finding is None:
        text = "not measured: no attack that knows public ranges only was judged on enough records."
        return PersonRow("property inference", active, text, is_measured=False)
    return PersonRow(
        "property inference",
        active,
        f"{after}means and frequencies, to who knows public ranges only: off by {percent(finding.error)} of the range "
        f"on average ({percent(finding.guess)} by the best guess), less than half as far in {finding.closer} of "
        f"{counted(finding.features, 'feature')}, by {finding.attack}.",
    )
