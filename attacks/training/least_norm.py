"""Labels from the shortest residuals that explain all sums of a party, of one session or of several (ours).

Where an epoch repeats the batches of the one before, its sums repeat as well, and no functions of time are told apart
(``training.smooth_shares``). But each batch has told a sum for every independent column, X_b^T v. Of all residuals with
these sums the shortest is P v, with P the projection on what the columns of the batches span. Its i-th number is
h_i v_i, with h_i = P_ii, and a part of everybody else's, whose variance is h_i (1 - h_i) of theirs. So labels leak by
as much as there are sums a record. Sessions with other batches add to P: a record's residuals are alike in all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from attacks.base import Json
from attacks.training.recovered_labels import EstimatedLabels, last_epoch
from attacks.training_views import Equations, TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores
from vfl.theory.training import residual

# Of a batch's largest singular value: what is below tells rounding.
_RANK = 1e-9
# Of iterations on sums of batches that share records; and draws that tell how much of a record all of them tell.
_ROUNDS, _TOLERANCE, _PROBES = 200, 1e-6, 6
# Of a record, what sums don't tell counts as this at least: residuals move while they are told.
_LEAST_LEFT = 0.1
# The least part of what is unknown of labels that is an answer: from a sum for some 700 records on.
_LEAST_TOLD = 1e-3
_TINY = 1e-300
WHY_NOTHING = "Not possible: the sums of all steps say nothing of single records: they are too few, or all alike."
# Of a sum for some 300 records on residuals say something of each.
_ENOUGH = 3e-3
# In an attack's details: sums say nothing of single records as there are too few for that, whatever they are.
TOO_FEW_SUMS = "too_few_sums"


@dataclass(frozen=True, eq=False)
class LeastNorm:
    """The shortest residuals with the sums that were read.

    Attributes:
        rows: (m,) the records that steps used.
        residuals: (n, columns), P v; 0 elsewhere.
        ones: (n,), P 1: what residuals that are 1 throughout would be found to be.
        told: (n,), h: which part of a record's residual is in its number, in [0, 1].
    """

    rows: IntArray
    residuals: FloatArray
    ones: FloatArray
    told: FloatArray


@dataclass(frozen=True, eq=False)
class _Block:
    """What all steps of the same records tell: an orthonormal basis of its columns, and the residuals' part along it.

    Attributes:
        rows: (s,) which records.
        basis: (s, r).
        along: (r, columns), basis^T v, the mean over all steps.
    """

    rows: IntArray
    basis: FloatArray
    along: FloatArray


def least_norm(sessions: Sequence[Sequence[Equations]], records: Sequence[IntArray], n: int) -> LeastNorm:
    """Find the shortest residuals with the sums of all sessions, each batch's averaged over the steps that used it.

    Args:
        sessions: one peer's equations in each, at least one in all.
        records: of each session, which record each of its rows is, (n of the session,), counted from 0 over all.
        n: how many records there are.
    """
    blocks = [block for one, own in zip(sessions, records, strict=True) for block in _blocks(one, own)]
    uses, leverage = np.zeros(n, dtype=np.int64), np.zeros(n)
    # A last column is found beside the others: residuals of 1.
    parts = [np.column_stack([block.along, block.basis.sum(axis=0)]) for block in blocks]
    residuals = np.zeros((n, parts[0].shape[1]))
    for block, part in zip(blocks, parts, strict=True):
        uses[block.rows] += 1
        residuals[block.rows] += block.basis @ part
        leverage[block.rows] += (block.basis**2).sum(axis=1)
    if uses.max() > 1:
        stacked, generator = _stacked(blocks, n), np.random.default_rng(0)
        residuals = np.column_stack([_solved(stacked, part) for part in np.concatenate(parts).T])
        probes = [_solved(stacked, stacked.matvec(generator.standard_normal(n))) for _ in range(_PROBES)]
        # Of so few draws only the mean over records is known well.
        leverage = np.where(uses > 0, (np.array(probes)[:, uses > 0] ** 2).mean(), 0.0)
    return LeastNorm(np.flatnonzero(uses), residuals[:, :-1], residuals[:, -1], np.minimum(leverage, 1.0))


def by_batch(equations: Sequence[Equations]) -> list[list[Equations]]:
    """Group steps that used the same records, in whatever order."""
    batches: dict[bytes, list[Equations]] = {}
    for step in equations:
        batches.setdefault(np.sort(step.rows).tobytes(), []).append(step)
    return list(batches.values())


def _blocks(equations: Sequence[Equations], records: IntArray) -> list[_Block]:
    """Make the columns of each batch orthonormal, and average what all its steps tell."""
    blocks = []
    for same in by_batch(equations):
        left_vectors, sizes, right = np.linalg.svd(same[0].matrix, full_matrices=False)
        large = sizes > _RANK * max(float(sizes.max(initial=0.0)), _TINY)
        # Another attack of the same party may have asked for further sums in some of the steps.
        width = same[0].matrix.shape[1]
        sums = np.mean([one.sums for one in same if len(one.sums) == width], axis=0)
        along = right[large] @ sums / sizes[large, None]
        blocks.append(_Block(records[same[0].rows], left_vectors[:, large], along))
    return blocks


def _stacked(blocks: Sequence[_Block], n: int) -> LinearOperator:
    """Make the operator that takes (n,) residuals to their parts along all blocks."""
    ends = np.cumsum([block.basis.shape[1] for block in blocks])

    def forward(values: FloatArray) -> FloatArray:
        return np.concatenate([block.basis.T @ values[block.rows] for block in blocks])

    def back(parts: FloatArray) -> FloatArray:
        total = np.zeros(n)
        for block, part in zip(blocks, np.split(parts, ends[:-1]), strict=True):
            total[block.rows] += block.basis @ part
        return total

    return LinearOperator((int(ends[-1]), n), matvec=forward, rmatvec=back, dtype=np.float64)


def _solved(stacked: LinearOperator, parts: FloatArray) -> FloatArray:
    solved: FloatArray = lsmr(stacked, parts, atol=_TOLERANCE, btol=_TOLERANCE, maxiter=_ROUNDS)[0]
    return solved


def labels_of_least_norm(view: TrainingView, shortest: LeastNorm, *, sessions: int = 1) -> EstimatedLabels:
    """Say how likely each class makes the shortest residuals, where nothing is known of how frequent classes are.

    A residual is a label term, one of few known values, about a mean that weights move. Products of weights beside it
    count as terms of other records do: as noise.

    Args:
        view: of the party, for the classes.
        shortest: by its sums, and of as many records or more.
        sessions: that told them, for the details.
    """
    values, ones = shortest.residuals[shortest.rows], shortest.ones[shortest.rows, None]
    centred = values - ones * (values.sum(axis=0) / max(float(ones.sum()), _TINY))
    return labels_of_residuals(
        view, shortest.rows, centred, shortest.told[shortest.rows], len(shortest.residuals), sessions
    )


def label_codes(view: TrainingView) -> FloatArray:
    """Find the label term of each class about their mean, (k, columns)."""
    codes = residual("first_order", np.zeros((view.classes, view.columns)), np.arange(view.classes), view.classes)
    centred: FloatArray = codes - codes.mean(axis=0)
    return centred


def told_share(likely: FloatArray) -> float:
    """Tell which part of labels' entropy (n, k) probabilities took away, where classes were equally frequent before."""
    entropy = -(likely * np.log(np.maximum(likely, _TINY))).sum(axis=1).mean()
    return 1 - float(entropy) / math.log(likely.shape[1])


def labels_of_residuals(
    view: TrainingView, rows: IntArray, centred: FloatArray, leverage: FloatArray, n: int, sessions: int
) -> EstimatedLabels:
    """Say how likely each class makes residuals that are told in part.

    Args:
        view: of the party, for the classes.
        rows: (m,) whose they are, of n records.
        centred: (m, columns), about the mean that weights move.
        leverage: (m,) which part of a record's residual is in its number, in [0, 1]; the rest is noise.
        n: records of the result.
        sessions: that told them, for the details.
    """
    codes = label_codes(view)
    leverage = np.minimum(leverage, 1 - _LEAST_LEFT)[:, None]
    # Of several classes' columns the mean is taken off: they have one freedom less.
    freedom = 1.0 if view.classes == 2 else 1 - 1 / view.classes
    logits = (centred @ codes.T - leverage * (codes**2).sum(axis=1) / 2) / (1 - leverage)
    # Residuals are as large as their terms at least; noise on them shows by their size.
    size = float((centred**2).sum()) / max(float(leverage.sum()) * view.columns, _TINY)
    likely = confidence_scores(freedom * logits / max(float((codes**2).mean()), size))
    share = told_share(likely)
    probabilities = np.full((n, view.classes), np.nan)
    few = float(leverage.mean()) < _ENOUGH
    reason = "" if share >= _LEAST_TOLD else WHY_NOTHING
    if not reason:
        probabilities[rows] = likely
    details: dict[str, Json] = {"sessions": sessions, "sums_a_record": round(float(leverage.mean()), 4)}
    if reason and few:
        details[TOO_FEW_SUMS] = True
    return EstimatedLabels(probabilities, rows, last_epoch(view), share, details, reason)
