"""Labels of who joins or leaves a batch between sessions, by a passive party that subtracts two sessions' sums (ours).

Two sessions whose batch is the same but for one record tell X^T v and X^T v' + x v_new: all other label terms go when
one is taken off the other. What stays beside x v_new is X^T A (theta' - theta), with A the label party's columns: it
lies where the steps of any one session move sums, and is as large there as start weights have it. So the differences of
sessions are a regression on the records that differ, with noise whose directions are known, and whose size the
differences themselves make likely.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import helmert

from attacks.base import AttackSpec
from attacks.training.least_norm import by_batch, label_codes, labels_of_residuals
from attacks.training.recovered_labels import EstimatedLabels, nothing_told
from attacks.training.trajectory_labels import check_listener, honest_equations
from attacks.training_views import Equations, TrainingView
from vfl.arrays import FloatArray, IntArray

# How sums differ by start weights: a factor times a power of how far steps move them along each direction. Plain steps
# move weak directions by less than start weights do, steps by own moments all alike.
_POWERS, _FACTORS = (0.5, 1.0), tuple(10.0 ** (half / 2) for half in range(-4, 5))
# Of the largest movement: what is below is rounding.
_ROUNDED = 1e-9
_TINY = 1e-50

FIRST = "Not possible: it takes one session's sums off another's, and this is the first about these records."
_OTHERS = "Not possible: no earlier session has the same label party, classes and columns."
_DRAWN = "Not possible: no batch of this session was one of an earlier session's but for fewer records than stayed."
_UNCHANGED = "Not possible: nobody has joined a batch of an earlier session, or left one."


@dataclass(frozen=True)
class Newcomer:
    """Takes the sums of sessions off each other, and reads the labels of the records that they differ by.

    Nothing is known of weights or of how frequent classes are. A record is read where it joined or left a batch of
    which more stayed than changed: with full batches, the training set. The more others come and go with it, and the
    more columns the label party has, the less is told. Who joins in a batch of newcomers alone has nothing to be taken
    off.
    """

    name: ClassVar[str] = "newcomer"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=("equations",),
        source="ours",
        learners=("linear",),
        summary="reads the labels of who joined or left between two sessions, by taking one's sums off the other's",
        cost="milliseconds",
    )

    def attack(self, view: TrainingView) -> EstimatedLabels:
        """Estimate the labels of the records that joined or left a batch. Raises ViewError for the active party."""
        check_listener(self, view)
        alike = [one for one in view.earlier if _is_alike(one, view)]
        if not alike:
            return nothing_told(view, _OTHERS if view.earlier else FIRST, 0.0)
        batches = [_sessions_of(same, view, alike) for same in by_batch(honest_equations(view))]
        matched = [sessions for sessions in batches if len(sessions) > 1]
        changed = [sessions for sessions in matched if not all(map(sessions[0].has_the_records_of, sessions))]
        if not changed:
            return nothing_told(view, _UNCHANGED if matched else _DRAWN, 0.0)
        return _labels(view, [_Differing.of(sessions, view) for sessions in changed], max(map(len, changed)))


class _SessionBatch(NamedTuple):
    """A batch in one session: its records, rising; their (s, D) columns; and the sums of its steps, (T, D, columns)."""

    records: IntArray
    matrix: FloatArray
    sums: FloatArray

    def has_the_records_of(self, other: "_SessionBatch") -> bool:
        """Tell whether the batch had the same records in another session."""
        return np.array_equal(self.records, other.records)


@dataclass(frozen=True, eq=False)
class _Differing:
    """What several sessions tell of the records by which a batch differs in them.

    Attributes:
        records: (m,) of the own table.
        terms: (m, columns), their residuals, shrunk by what isn't told.
        told: (m,) which part of a record's residual is in its number, in [0, 1].
    """

    records: IntArray
    terms: FloatArray
    told: FloatArray

    @classmethod
    def of(cls, sessions: Sequence[_SessionBatch], view: TrainingView) -> "_Differing":
        """Solve for the residuals of all records that aren't in every session."""
        every = np.unique(np.concatenate([one.records for one in sessions]))
        is_in = np.array([np.isin(every, one.records) for one in sessions])
        stayed, records = is_in.all(axis=0), every[~is_in.all(axis=0)]
        columns = np.zeros((len(every), sessions[0].matrix.shape[1]))
        for session in sessions:
            columns[np.searchsorted(every, session.records)] = session.matrix
        features = columns[~stayed]
        if getattr(view.learner, "steps", "plain") == "own_moments":
            # Shares that add up to 0 tell of columns about their mean alone.
            features = features - columns[stayed].mean(axis=0)
        # What is the same in all sessions goes: an orthonormal basis of their contrasts is left.
        contrast = helmert(len(sessions))
        shares = contrast @ is_in[:, ~stayed]
        differences = np.tensordot(contrast, [one.sums.mean(axis=0) for one in sessions], axes=1)
        # Residuals of the records that differ move as well: where fewest of them are, sums move by the others'. Steps
        # that are fewer than columns don't show all directions; then those of all sessions do.
        movements = _movements(sessions[int(is_in.sum(axis=1).argmin())].sums)
        if len(movements) <= features.shape[1]:
            movements = np.vstack([_movements(one.sums) for one in sessions])
        terms, part = _regressed(features, shares, differences, movements, float((label_codes(view) ** 2).mean()))
        return cls(records, terms, part)


def _movements(sums: FloatArray) -> FloatArray:
    """Take the mean off steps' (T, D, columns) sums: (T x columns, D) rows whose squares add up to a variance."""
    centred = (sums - sums.mean(axis=0)) / np.sqrt(len(sums))
    rows: FloatArray = centred.transpose(0, 2, 1).reshape(-1, sums.shape[1])
    return rows


def _regressed(
    features: FloatArray, shares: FloatArray, differences: FloatArray, movements: FloatArray, spread: float
) -> tuple[FloatArray, FloatArray]:
    """Regress differences of sums on the records that make them, with the likeliest noise of each kind.

    Args:
        features: (m, D) columns of these records.
        shares: (E, m), how much of each is in each of E differences.
        differences: (E, D, columns), the differences.
        movements: (., D), how steps move sums.
        spread: variance of a residual.

    Returns:
        Their residuals, (m, columns), and which part of each is told, (m,).
    """
    _, sizes, directions = np.linalg.svd(movements, full_matrices=True)
    size = max(float(sizes.max(initial=0.0)), _ROUNDED * float(np.abs(differences).max(initial=0.0)), _TINY)
    moved = np.zeros(features.shape[1])
    moved[: len(sizes)] = sizes[: features.shape[1]] / size
    features, differences = features @ directions.T, np.einsum("edc,kd->ekc", differences, directions)
    best, solution = -np.inf, (np.zeros((len(features), differences.shape[2])), np.zeros(len(features)))
    for power in _POWERS:
        for factor in _FACTORS:
            noise = size * (factor * moved**power + _ROUNDED)
            design = np.einsum("em,mk->ekm", shares, features / noise).reshape(-1, len(features))
            values = (differences / noise[:, None]).reshape(len(design), -1)
            left_vectors, scales, right = np.linalg.svd(design, full_matrices=False)
            along, gain = left_vectors.T @ values, 1 + spread * scales**2
            # Minus twice the logarithm of how likely this noise makes what is told.
            misfit = (values**2).sum() - ((1 - 1 / gain)[:, None] * along**2).sum()
            likely = -misfit - values.shape[1] * (np.log(gain).sum() + 2 * len(shares) * np.log(noise).sum())
            if likely > best:
                part = (right**2 * (1 - 1 / gain)[:, None]).sum(axis=0)
                best, solution = likely, (right.T @ ((spread * scales / gain)[:, None] * along), part)
    return solution


def _is_alike(earlier: TrainingView, view: TrainingView) -> bool:
    """Tell whether an earlier session's sums can be taken off this one's."""
    named = [(one.label_party, one.classes, one.linear, one.features.shape[1]) for one in (earlier, view)]
    steps = [getattr(one.learner, "steps", "plain") for one in (earlier, view)]
    return named[0] == named[1] and steps[0] == steps[1] and bool(honest_equations(earlier))


def _seen(same: Sequence[Equations], view: TrainingView) -> _SessionBatch:
    first = same[0]
    records = first.rows if view.records is None else view.records[first.rows]
    order = np.argsort(records)
    width = first.matrix.shape[1]
    return _SessionBatch(
        records[order], first.matrix[order], np.array([one.sums for one in same if len(one.sums) == width])
    )


def _sessions_of(same: Sequence[Equations], view: TrainingView, alike: Sequence[TrainingView]) -> list[_SessionBatch]:
    """Find a batch of this session in earlier ones: there with more records that stayed than came or went."""
    here = _seen(same, view)
    sessions = [here]
    for earlier in alike:
        batches = [_seen(one, earlier) for one in by_batch(honest_equations(earlier))]
        records = np.concatenate([one.records for one in batches])
        if len(np.unique(records)) < len(records):
            continue  # its epochs have other batches each
        numbers = np.repeat(np.arange(len(batches)), [len(one.records) for one in batches])
        shared = np.bincount(numbers[np.isin(records, here.records)], minlength=len(batches))
        best = int(shared.argmax())
        there = batches[best]
        stayed = np.intersect1d(here.records, there.records)
        ours, theirs = (one.matrix[np.searchsorted(one.records, stayed)] for one in (here, there))
        changed = len(here.records) + len(there.records) - 2 * len(stayed)
        if len(stayed) > changed and np.array_equal(ours, theirs):
            sessions.append(there)
    return sessions


def _labels(view: TrainingView, differing: Sequence[_Differing], sessions: int) -> EstimatedLabels:
    """Say how likely each class makes what was told of each record that this session has aligned."""
    records = np.concatenate([one.records for one in differing])
    order = np.arange(view.n) if view.records is None else view.records
    rows = np.flatnonzero(np.isin(order, records))
    places = np.argsort(records)[np.searchsorted(np.sort(records), order[rows])]
    leverage = np.concatenate([one.told for one in differing])[places]
    terms = np.concatenate([one.terms for one in differing])[places]
    if not len(rows):
        return nothing_told(view, "Not possible: who left a batch is no record of this session.", 0.0)
    return labels_of_residuals(view, rows, terms, leverage, view.n, sessions)
