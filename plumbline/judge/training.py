"""Scores attacks on training: an auditor compares the labels and features that they found with the truth.

What a passive party knows of labels without the federation is weighed against what training gave away.
"""

import reprlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attacks import LEVELS, Conduct, Level
from attacks.label_completion import completed, group_of_class, own_classifier
from attacks.registry import REPLACING
from plumbline.judge import Progress, silent
from plumbline.judge.chance import ALPHA
from plumbline.judge.federation_part import LEAST_PART, Comparison, LevelVerdict, Losses, corrected
from plumbline.judge.label_control import LabelControl, label_control
from plumbline.judge.planted_trigger import judged_trigger
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, AttackStatus, FoundLabels, PartyFeatures, TrainingAttackOutcome
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data.grids import WIDTHS
from vfl.learning.score_quality import area_under_curve

# Attacks on labels that say how likely each class is, which share what chance may call a leak.
_SHARED_BY = 5


@dataclass(frozen=True)
class RarestLabel:
    """How well an attack finds the records of the rarest class, which the share of right names hides.

    Attributes:
        label: the class, by index.
        share: of the records.
        auc: how often a record of the class is held more likely to be of it than one of another class.
        top: how many records are named: a tenth of all, at most as many as there are of the class.
        precision: share of those ``top`` held most likely that are of it; ``share`` is what naming any gives.
        p_value: how likely chance makes any ``top`` records as many of the class, or more.
    """

    label: int
    share: float
    auc: float
    top: int
    precision: float
    p_value: float = 1.0

    @property
    def part(self) -> float:
        """How much of what naming any records gets wrong it gets right."""
        return max(0.0, (self.precision - self.share) / (1 - self.share))

    @property
    def is_told(self) -> bool:
        """Whether it finds records of the class worth speaking of, beyond chance, which several attacks share."""
        return self.part >= LEAST_PART and self.p_value <= ALPHA / _SHARED_BY

    @property
    def words(self) -> str:
        """What it finds, in a sentence."""
        return (
            f"Of the {self.top} it holds likeliest to be of the rarest class, {100 * self.precision:.0f} % are "
            f"({100 * self.share:.0f} % of all); the area under the curve is {self.auc:.2f}."
        )


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
        status: ``done``, ``not applicable`` or ``failed``.
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
    status: AttackStatus = DONE

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
    findings, outcomes = [], folder.training_outcomes()
    for number, outcome in enumerate(outcomes):
        progress(outcome.attack, number, len(outcomes))
        findings.append(_judged(folder, outcome))
    return findings


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
        judged = _JUDGES[kind](folder, outcome.party, outcome.attack)
        return replace(finding, **{**judged, "details": {**finding.details, **judged.get("details", {})}})
    except (KeyError, IndexError, ValueError) as error:  # another package's arrays may be anything
        reason = f"{outcome.attack} found {kind}, but its arrays can't be scored as such: {error}"
        return replace(finding, reason=reason)


def _peers(folder: RunFolder, outcome: TrainingAttackOutcome) -> tuple[str, ...]:
    """Whose the things are that an attack looked for: labels are the active party's."""
    if outcome.kind in ("labels", "backdoor"):
        return (str(Role.ACTIVE),)
    return tuple(folder.found_values(outcome.party, outcome.attack))


def _labels(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    found, truth = folder.found_labels(party, attack), folder.labels()
    rows = found.judged_rows
    if not len(rows):
        raise ValueError("no record that was trained on is left to judge")
    is_judged = np.isin(found.step_rows, rows)
    right = (found.step_labels == truth[found.step_rows])[is_judged]
    step_epoch = found.step_epoch[is_judged]
    epochs = np.unique(found.step_epoch)
    # What is told once, behind all epochs, has no course.
    epochs = epochs if len(epochs) > 1 or not epochs.any() else epochs[:0]
    features = folder.features(party).features
    likely = found.probabilities
    # Of records that it says nothing of, an attack has no probabilities either.
    is_told = likely is not None and bool(np.isfinite(likely[rows]).all())
    known = 0 if found.known is None else len(found.known)
    told = _told_likely(folder, party, attack, likely, rows, known) if is_told and likely is not None else {}
    return {
        **told,
        "so_far": _so_far(found, found.labels[rows] == truth[rows], rows) if len(epochs) else (),
        "told_so_far": _so_far(found, found.labels[rows] >= 0, rows) if len(epochs) else (),
        "success": float((found.labels[rows] == truth[rows]).mean()),
        "resolved": float((found.labels[rows] >= 0).mean()),
        "by_epoch": tuple(float(right[step_epoch == epoch].mean()) for epoch in epochs),
        "levels": label_verdicts(attack, found.labels, truth, rows, features, found.probabilities, found.known),
    }


def _told_likely(
    folder: RunFolder, party: str, attack: str, probabilities: FloatArray, rows: IntArray, known: int
) -> dict[str, Any]:
    """Judge what an attack that says how likely each class is can be asked besides."""
    return {
        "rarest": rarest_label(probabilities[rows], folder.labels()[rows]),
        "control": label_control(folder, party, attack, known=known),
    }


def rarest_label(probabilities: FloatArray, truth: IntArray) -> RarestLabel | None:
    """Judge (m, k) probabilities by the rarest of the classes that (m,) records have; None where all are of one."""
    counts = np.bincount(truth, minlength=probabilities.shape[1])
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return None
    label = int(present[counts[present].argmin()])
    likely, is_it = probabilities[:, label], truth == label
    top = max(1, min(int(counts[label]), len(truth) // 10))
    # Tables may be in their labels' order: what is held equally likely is drawn.
    drawn = np.random.default_rng(0).permutation(len(truth))
    first = drawn[np.argsort(-likely[drawn], kind="stable")[:top]]
    auc = area_under_curve(np.column_stack([1 - likely, likely]), is_it.astype(np.int64))
    from scipy.stats import hypergeom  # takes a second to import, which who makes a mistake shouldn't wait for

    # The tail: ``top`` records drawn without a look.
    chance = float(hypergeom.sf(is_it[first].sum() - 1, len(truth), counts[label], top))
    return RarestLabel(label, float(is_it.mean()), auc, top, float(is_it[first].mean()), chance)


def _so_far(found: FoundLabels, is_counted: BoolArray, rows: IntArray) -> tuple[float, ...]:
    """Tell which share of ``rows`` was told by the end of each epoch and counts; what no step answered comes last.

    Where answers that are right count, that is the share that was told rightly.
    """
    epochs = np.unique(found.step_epoch)
    if not len(epochs):
        return ()
    first = np.full(len(found.labels), epochs[-1])
    answers = found.step_labels >= 0
    np.minimum.at(first, found.step_rows[answers], found.step_epoch[answers])
    return tuple(float((is_counted & (first[rows] <= epoch)).mean()) for epoch in epochs)


def _features(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    """Judge a peer's single feature, up to sign; the constant bias of the active party isn't one."""
    right, resolved, total = 0, 0, 0
    for peer, found in folder.found_values(party, attack).items():
        truth, values = folder.features(peer).features, found.values
        if truth.shape[1] != 1:
            continue
        known = np.isfinite(values)
        errors = [np.abs(values[known] - sign * truth[known, 0]) for sign in (1, -1)]
        right += max(int((error < 1e-4).sum()) for error in errors)
        resolved += int(known.sum())
        total += len(values)
    return {"success": _share(right, total), "resolved": _share(resolved, total)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _readings(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    right, read, total = 0, 0, 0
    for peer, found in folder.found_values(party, attack).items():
        own = folder.features(peer)
        right += int(_read_rightly(found.values, own, found.rows).sum())
        read += found.values.size
        total += own.features.size
    return {"success": _share(right, read), "resolved": _share(read, total)}


def _read_rightly(values: FloatArray, own: PartyFeatures, rows: IntArray | None) -> BoolArray:
    """Tell which of the (m, d) values that were read, columns as they travel, are the features of these rows.

    A narrow column travels without its step: its numbers count where one factor makes them the features, for they tell
    all that differs between records.
    """
    widths = ["full"] * values.shape[1] if own.widths is None else own.widths.tolist()
    order = np.argsort([WIDTHS.index(width) for width in widths], kind="stable")
    truth = own.features[rows][:, order]
    right: BoolArray = values == truth
    for at, column in enumerate(order):
        if widths[column] != "full" and (size := float(values[:, at] @ values[:, at])):
            factor = float(values[:, at] @ truth[:, at]) / size
            right[:, at] = np.isclose(values[:, at] * factor, truth[:, at], rtol=1e-9, atol=0.0)
    return right


def _products(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    """Tell which part of the variance of the peers' logits, about their mean, was told."""
    left, whole, resolved, total = 0.0, 0.0, 0, 0
    for peer, found in folder.found_values(party, attack).items():
        known = np.isfinite(found.values).all(axis=1).reshape(-1)
        truth = (folder.features(peer).features @ folder.weights(peer).weights)[known]
        if truth.shape[1] > 1:  # of several classes, only differences between them are told
            truth = truth - truth.mean(axis=1, keepdims=True)
        left += float(((found.values[known] - truth) ** 2).sum())
        whole += float(((truth - truth.mean(axis=0)) ** 2).sum()) if len(truth) else 0.0
        resolved += int(known.sum())
        total += len(known)
    return {"success": max(0.0, 1 - left / whole) if whole else 0.0, "resolved": _share(resolved, total)}


def _estimates(folder: RunFolder, party: str, attack: str) -> dict[str, Any]:
    """Tell which part of a guess's squared error about the peers' features estimates take away, columns alike."""
    left, guessed = [], []
    for peer, found in folder.found_values(party, attack).items():
        truth = folder.features(peer).features[found.rows]
        guess = truth.mean(axis=0) if found.guesses is None else found.guesses
        left.append(((found.values - truth) ** 2).mean(axis=0))
        guessed.append(((guess - truth) ** 2).mean(axis=0))
    if not left:
        return {}
    error, baseline = float(np.hstack(left).sum()), float(np.hstack(guessed).sum())
    return {"success": max(0.0, 1 - error / baseline) if baseline else 0.0, "resolved": 1.0}


_JUDGES = {
    "labels": _labels,
    "features": _features,
    "readings": _readings,
    "products": _products,
    "estimates": _estimates,
    "backdoor": judged_trigger,
}


# How many labelled records a passive party might have: knowledge that is assumed, not declared.
LABELLED_RECORDS = (30, 100, 1_000)
# In attacks' answers.
_UNANSWERED = -1


def label_verdicts(
    attack: str,
    found: IntArray,
    truth: IntArray,
    rows: IntArray,
    features: FloatArray,
    probabilities: FloatArray | None = None,
    known: IntArray | None = None,
) -> tuple[LevelVerdict, ...]:
    """Judge one attack on labels by the share that it gets wrong, at each level of what is known of labels beforehand.

    Without the federation a party guesses any class (nothing), the most frequent one (marginals), or what a logistic
    regression from its own columns says that learned from 30, 100 or 1,000 labelled records which weren't trained on
    (records). What the attack leaves open is guessed by a party that knows nothing more than the level.

    Args:
        attack: its name.
        found: (n,) class indices, -1 without an answer.
        truth: (n,) the classes.
        rows: (m,) which records are judged: those that training told of.
        features: (n, d) the party's own columns.
        probabilities: (n, k), what the attack believes of every record; NaN where nothing, None where it doesn't say.
            Where it says so of records that weren't trained on, those with a known label complete it. Where it tells
            classes apart and answers nothing, as it doesn't know which is which, known labels name them.
        known: (t,) records whose labels the attack was given, none of them judged. At every level the guess has them as
            well: a classifier that learned from them.
    """
    known = np.zeros(0, dtype=np.int64) if known is None else known
    verdicts, given = [], list[Losses]()
    others = _not_trained_on(truth, np.union1d(rows, known))
    if len(np.unique(truth[known])) > 1:
        wrong = _classified(features, truth, known, rows)[:, None]
        given = [Losses(f"own classifier from the {len(known):,} known labels", "nothing", wrong)]
    for level in LEVELS:
        guesses = _guesses(truth, rows, features, others) if level == "records" else _priors(truth, rows)
        losses = Losses(attack, level, _filled(found[rows], truth[rows], level))
        if level == "records" and probabilities is not None and np.isfinite(probabilities).all():
            losses = _completed(losses, truth, rows, features, probabilities) or losses
        elif level == "records" and probabilities is not None and (found[rows] == _UNANSWERED).all():
            losses = _named(losses, truth, rows, probabilities) or losses
        verdicts.append(Comparison([losses], [*guesses, *given]).at(level).verdict(losses.name, 0))
    return corrected([verdicts])[0]


def _completed(
    plain: Losses, truth: IntArray, rows: IntArray, features: FloatArray, probabilities: FloatArray
) -> Losses | None:
    """Measure what an attack gets wrong once known labels, as many as there are, complete it; None if all are alike."""
    others = _not_trained_on(truth, rows)
    counts = [count for count in LABELLED_RECORDS if _teaches(truth, others[:count], count)]
    if not counts:
        return None
    known = others[: counts[-1]]
    named = completed(features, probabilities, known, truth[known])[rows].argmax(axis=1)
    name = f"{plain.name} completed from {counts[-1]:,} labels"
    return Losses(name, plain.level, (named != truth[rows]).astype(np.float64)[:, None])


def _named(plain: Losses, truth: IntArray, rows: IntArray, probabilities: FloatArray) -> Losses | None:
    """Measure what an attack gets wrong once labels of a few of its records say which group is which class.

    As few as name them; what was known beforehand counts as not found. None where no number of labels names them, or
    where it has no groups.
    """
    if not np.isfinite(probabilities[rows]).all():
        return None
    drawn = np.random.default_rng(0).permutation(rows)
    for count in LABELLED_RECORDS:
        known = drawn[:count]
        order = group_of_class(probabilities[known], truth[known]) if 2 * count <= len(rows) else None
        if order is not None:
            wrong = probabilities[rows][:, order].argmax(axis=1) != truth[rows]
            wrong |= np.isin(rows, known)
            return Losses(f"{plain.name} named by {count:,} labels", plain.level, wrong.astype(np.float64)[:, None])
    return None


def _not_trained_on(truth: IntArray, rows: IntArray) -> IntArray:
    """List records that training didn't tell of, in an order that is always the same."""
    others: IntArray = np.random.default_rng(0).permutation(np.setdiff1d(np.arange(len(truth)), rows))
    return others


def _teaches(truth: IntArray, known: IntArray, count: int) -> bool:
    return len(known) == count and len(np.unique(truth[known])) > 1


def _filled(found: IntArray, truth: IntArray, level: Level) -> FloatArray:
    """1 for each wrong answer, (m, 1); where there is none, what guessing it costs."""
    guess = _blind(truth) if level == "nothing" else _most_frequent(truth)
    return np.where(found == _UNANSWERED, guess, (found != truth).astype(np.float64))[:, None]


def _priors(truth: IntArray, rows: IntArray) -> list[Losses]:
    judged = truth[rows]
    return [
        Losses("any class", "nothing", _blind(judged)[:, None]),
        Losses("the most frequent class", "marginals", _most_frequent(judged)[:, None]),
    ]


def _guesses(truth: IntArray, rows: IntArray, features: FloatArray, others: IntArray) -> list[Losses]:
    """Make the priors, and classifiers that learned from the records of `_not_trained_on`, as many as there are."""
    learned = [
        Losses(
            f"own classifier from {count:,} labels",
            "records",
            _classified(features, truth, others[:count], rows)[:, None],
        )
        for count in LABELLED_RECORDS
        if _teaches(truth, others[:count], count)
    ]
    return [*_priors(truth, rows), *learned]


def _classified(features: FloatArray, truth: IntArray, known: IntArray, rows: IntArray) -> FloatArray:
    classifier = own_classifier().fit(features[known], truth[known])
    wrong: FloatArray = (classifier.predict(features[rows]) != truth[rows]).astype(np.float64)
    return wrong


def _blind(truth: IntArray) -> FloatArray:
    """Compute the expected loss of naming any class at random."""
    return np.full(len(truth), 1 - 1 / max(2, len(np.unique(truth))))


def _most_frequent(truth: IntArray) -> FloatArray:
    wrong: FloatArray = (truth != np.bincount(truth).argmax()).astype(np.float64)
    return wrong
