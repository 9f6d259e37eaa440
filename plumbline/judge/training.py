"""Scores attacks on training: an auditor compares the labels and features that they found with the truth.

What a passive party knows of labels without the federation is weighed against what training gave away.
"""

import reprlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attacks import Conduct
from attacks.registry import REPLACING
from plumbline.judge import Progress, silent
from plumbline.judge.federation_part import LEAST_PART, LevelVerdict
from plumbline.judge.label_chance import label_chance
from plumbline.judge.label_control import LabelControl, label_control
from plumbline.judge.labels import LabelGuesses, RarestLabel, abstains, beside_chance
from plumbline.judge.planted_trigger import judged_trigger
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, AttackStatus, FoundLabels, PartyFeatures, TrainingAttackOutcome
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data.grids import WIDTHS


@dataclass(frozen=True)
class TrainingFinding:
    """What one training attack by one party found.

    Attributes:
        attack: name of the attack.
        party: name of the party that mounted it.
        reason: why it was not done, or found less than it might; empty without one.
        seconds: duration of the attack.
        kind: what it looks for: ``labels`` of training rows, ``features`` (a peer's only column), ``readings`` (rows
            of a peer's features), ``products`` (a peer's part of the logits) or a ``backdoor``, which are scored, or
            another package's own; empty when it was not done.
        success: share of what it attacked that it got right: labels; a column's values to 1e-4, up to sign; exact
            features among those that it read, a narrow column's up to one factor; of products, the part of their
            variance; of estimates, the part of the squared error of a guess without the federation; of a backdoor, the
            part of other classes' records that its trigger turns, of what clean records and an honest model leave.
        resolved: share of what it attacked that it gave an answer for.
        by_epoch: of labels, the share that each epoch's own answers got right; no answer counts as wrong.
        levels: of labels, what the federation gave away of them, level by level of what the party knows of the labels
            beforehand; answers that the attack left out are guessed as at that level.
        details: the attack's own numbers.
        peers: names of the parties whose labels, features or products they are; empty when it was not done.
        so_far: of labels, the share that it had right by the end of each epoch.
        told_so_far: of labels, the share that it had given an answer for by then.
        conduct: whether its party only listened, or replaced messages by its own.
        rarest: how well it finds the rarest class, where it says how likely each class is.
        control: what the messages tell and what any model of the columns tells, likewise.
        statistic: of labels, the largest part that their light could rest on.
        p_value: of labels, how likely messages about other records tell the party's attacks as much; None where they
            weren't drawn.
        status: ``done``, ``not applicable`` or ``failed``.
        has_own_session: whether it was mounted in the session that an audit gives to attacks that send other messages.
        judged: of what isn't labels, how many records judge; None where nobody says.
    """

    attack: str
    party: str
    reason: str
    seconds: float
    kind: str = ""
    success: float = float("nan")
    resolved: float = float("nan")
    by_epoch: tuple[float, ...] = ()
    levels: tuple[LevelVerdict, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    peers: tuple[str, ...] = ()
    so_far: tuple[float, ...] = ()
    told_so_far: tuple[float, ...] = ()
    conduct: Conduct = "listens"
    rarest: RarestLabel | None = None
    control: LabelControl | None = None
    statistic: float = 0.0
    p_value: float | None = None
    status: AttackStatus = DONE
    has_own_session: bool = False
    judged: int | None = None

    @property
    def is_scored(self) -> bool:
        """Whether its result was compared with the truth."""
        return not np.isnan(self.success)

    @property
    def facts(self) -> str:
        """What the attack itself says, in one line."""
        return "; ".join(f"{name.replace('_', ' ')}: {reprlib.repr(value)}" for name, value in self.details.items())


def read_training_findings(folder: RunFolder, *, progress: Progress = silent) -> list[TrainingFinding]:
    """Score all attacks on training that ran; empty when none was switched on. Raises RunFolderError.

    Args:
        folder: what the parties wrote.
        progress: called with the attack that is judged, how many are done and of how many.
    """
    findings, apart = [], folder.malicious
    outcomes = [(place, one) for place in (folder, apart) for one in place.training_outcomes()]
    for number, (place, outcome) in enumerate(outcomes):
        progress(outcome.attack, number, len(outcomes))
        findings.append(replace(_judged(place, outcome), has_own_session=place is apart))
    for party in dict.fromkeys(one.party for one in findings):
        findings = _beside_chance(folder, party, findings)
    return findings


def _beside_chance(folder: RunFolder, party: str, findings: list[TrainingFinding]) -> list[TrainingFinding]:
    """Set what a party's attacks tell of labels against what they tell of messages that are about other records.

    Who replaced messages was answered what nobody can draw again. Who names labels and holds none likelier solves for
    them, record by record and for minutes: its names have a test of their own. Where little is told there is nothing to
    set off.
    """
    statistics = {
        one.attack: one.statistic
        for one in findings
        if one.party == party and one.levels and one.rarest is not None and one.conduct == "listens"
    }
    if max(statistics.values(), default=0.0) < LEAST_PART:
        return findings
    chance = label_chance(
        folder, party, statistics, known_rows=folder.found_labels(party, next(iter(statistics))).known
    )
    if chance.reason:
        return findings
    by_attack = dict(zip(statistics, zip(chance.p_values.tolist(), chance.means.tolist(), strict=True), strict=True))
    return [
        _set_off(one, *by_attack[one.attack]) if one.party == party and one.attack in statistics else one
        for one in findings
    ]


def _set_off(finding: TrainingFinding, p_value: float, by_chance: float) -> TrainingFinding:
    rarest = finding.rarest and replace(finding.rarest, p_value=p_value, by_chance=by_chance)
    return replace(finding, p_value=p_value, levels=beside_chance(finding.levels, p_value), rarest=rarest)


def _judged(folder: RunFolder, outcome: TrainingAttackOutcome) -> TrainingFinding:
    # Older runs say it by the attack's name only.
    conduct = outcome.conduct or ("replaces_messages" if outcome.attack.partition("(")[0] in REPLACING else "listens")
    finding = TrainingFinding(
        outcome.attack, outcome.party, outcome.reason or "", outcome.seconds, conduct=conduct, status=outcome.status
    )
    if not outcome.is_done:
        return finding
    kind = outcome.kind or ""
    finding = replace(finding, kind=kind, details=outcome.facts)
    if kind not in _JUDGES:
        return finding
    try:
        finding = replace(finding, peers=_peers(folder, outcome))
        numbers = _JUDGES[kind](folder, outcome.party, outcome.attack)
        return replace(finding, **{**numbers, "details": {**finding.details, **numbers.get("details", {})}})
    except (KeyError, IndexError, ValueError) as error:  # another package's arrays may be anything
        reason = f"{outcome.attack} found {kind}, but its arrays can't be scored as such: {error}"
        return replace(finding, reason=reason)


def _peers(folder: RunFolder, outcome: TrainingAttackOutcome) -> tuple[str, ...]:
    """Whose the things are that an attack looked for: labels are the active party's."""
    if outcome.kind in ("labels", "backdoor"):
        return (str(Role.ACTIVE),)
    return tuple(folder.found_values(outcome.party, outcome.attack))


def _labels(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    answer, truth = folder.found_labels(party, attack), folder.labels()
    rows = answer.judged_rows
    if not len(rows):
        raise ValueError("no record that was trained on is left to judge")
    is_judged = np.isin(answer.step_rows, rows)
    right = (answer.step_labels == truth[answer.step_rows])[is_judged]
    step_epoch = answer.step_epoch[is_judged]
    epochs = np.unique(answer.step_epoch)
    # What is told once, behind all epochs, has no course.
    epochs = epochs if len(epochs) > 1 or not epochs.any() else epochs[:0]
    if abstains(answer):
        return {"resolved": 0.0}
    guesses = LabelGuesses(truth, rows, folder.features(party).features, answer.known)
    rarest = guesses.rarest(answer.probabilities)
    known_count = 0 if answer.known is None else len(answer.known)
    return {
        "rarest": rarest,
        "control": None if rarest is None else label_control(folder, party, attack, known_count=known_count),
        "statistic": guesses.told(answer.labels, answer.probabilities),
        "so_far": _so_far(answer, answer.labels[rows] == truth[rows], rows) if len(epochs) else (),
        "told_so_far": _so_far(answer, answer.labels[rows] >= 0, rows) if len(epochs) else (),
        "success": float((answer.labels[rows] == truth[rows]).mean()),
        "resolved": float((answer.labels[rows] >= 0).mean()),
        "by_epoch": tuple(float(right[step_epoch == epoch].mean()) for epoch in epochs),
        "levels": guesses.verdicts(attack, answer.labels, answer.probabilities),
    }


def _so_far(answer: FoundLabels, is_counted: BoolArray, rows: IntArray) -> tuple[float, ...]:
    """Tell which share of ``rows`` was told by the end of each epoch and counts; what no step answered comes last.

    Where answers that are right count, that is the share that was told rightly.
    """
    epochs = np.unique(answer.step_epoch)
    if not len(epochs):
        return ()
    first = np.full(len(answer.labels), epochs[-1])
    answers = answer.step_labels >= 0
    np.minimum.at(first, answer.step_rows[answers], answer.step_epoch[answers])
    return tuple(float((is_counted & (first[rows] <= epoch)).mean()) for epoch in epochs)


def _features(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    """Judge a peer's single feature, up to sign; the constant bias of the active party isn't one."""
    right, resolved, total = 0, 0, 0
    for peer, estimate in folder.found_values(party, attack).items():
        truth, values = folder.features(peer).features, estimate.values
        if truth.shape[1] != 1:
            continue
        is_finite = np.isfinite(values)
        errors = [np.abs(values[is_finite] - sign * truth[is_finite, 0]) for sign in (1, -1)]
        right += max(int((error < 1e-4).sum()) for error in errors)
        resolved += int(is_finite.sum())
        total += len(values)
    return {"success": _share(right, total), "resolved": _share(resolved, total), "judged": total or None}


def _share(part: float, total: float) -> float:
    return part / total if total else 0.0


def _readings(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    right, answered_count, total, records = 0, 0, 0, 0
    for peer, readings in folder.found_values(party, attack).items():
        features = folder.features(peer)
        records = len(features.features)
        right += int(_read_rightly(readings.values, features, readings.rows).sum())
        answered_count += readings.values.size
        total += features.features.size
    return {
        "success": _share(right, answered_count),
        "resolved": _share(answered_count, total),
        "judged": records or None,
    }


def _read_rightly(values: FloatArray, features: PartyFeatures, rows: IntArray | None) -> BoolArray:
    """Tell which of the (m, d) values that were read, columns as they travel, are the features of these rows.

    A narrow column travels without its step: its numbers count where one factor makes them the features, for they tell
    all that differs between records.
    """
    widths = ["full"] * values.shape[1] if features.widths is None else features.widths.tolist()
    order = np.argsort([WIDTHS.index(width) for width in widths], kind="stable")
    truth = features.features[rows][:, order]
    right: BoolArray = values == truth
    for index, column in enumerate(order):
        if widths[column] != "full" and (size := float(values[:, index] @ values[:, index])):
            factor = float(values[:, index] @ truth[:, index]) / size
            right[:, index] = np.isclose(values[:, index] * factor, truth[:, index], rtol=1e-9, atol=0.0)
    return right


def _products(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    """Tell which part of the variance of the peers' logits, about their mean, was told."""
    unexplained, variance, resolved, total = 0.0, 0.0, 0, 0
    for peer, estimate in folder.found_values(party, attack).items():
        is_finite = np.isfinite(estimate.values).all(axis=1).reshape(-1)
        truth = (folder.features(peer).features @ folder.weights(peer).weights)[is_finite]
        if truth.shape[1] > 1:  # of several classes, only differences between them are told
            truth = truth - truth.mean(axis=1, keepdims=True)
        unexplained += float(((estimate.values[is_finite] - truth) ** 2).sum())
        variance += float(((truth - truth.mean(axis=0)) ** 2).sum()) if len(truth) else 0.0
        resolved += int(is_finite.sum())
        total += len(is_finite)
    success = max(0.0, 1 - unexplained / variance) if variance else 0.0
    return {"success": success, "resolved": _share(resolved, total), "judged": total or None}


def _estimates(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    """Tell which part of a guess's squared error about the peers' features estimates take away, columns alike."""
    errors, guessed, shuffled, records = [], [], [], 0
    for peer, estimate in folder.found_values(party, attack).items():
        truth = folder.features(peer).features[estimate.rows]
        guess = truth.mean(axis=0) if estimate.guesses is None else estimate.guesses
        errors.append(((estimate.values - truth) ** 2).mean(axis=0))
        records = len(truth)
        other = np.random.default_rng(0).permutation(estimate.values)
        shuffled.append(((other - truth) ** 2).mean(axis=0))
        guessed.append(((guess - truth) ** 2).mean(axis=0))
    if not errors:
        return {}
    error, other_error, baseline = (float(np.hstack(one).sum()) for one in (errors, shuffled, guessed))
    success, by_others = (max(0.0, 1 - loss / baseline) if baseline else 0.0 for loss in (error, other_error))
    # The control: what is told of other records.
    details = {"shuffled": round(by_others, 4)}
    return {"success": success, "resolved": 1.0, "judged": records or None, "details": details}


_JUDGES = {
    "labels": _labels,
    "features": _features,
    "readings": _readings,
    "products": _products,
    "estimates": _estimates,
    "backdoor": judged_trigger,
}
