"""Labels from what the label party's weights don't move, where it has fewer columns than the adversary (ours).

Sums of the same rows at different times differ by X^T A (theta(t) - theta(s)), with A the label party's few columns. So
they move in no more directions than it has columns, and any movement shows them. Across these directions a sum is one
of label terms alone, whatever the start weights were: a subset sum with real coefficients. Lattice reduction finds it.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attacks.solving.lattices import FlintMissing, block_reduced, has_flint, lll_reduced, nearest_points
from attacks.training.label_search import LabelAnswer, label_terms
from attacks.training_views import Equations, TrainingView
from vfl.arrays import BoolArray, FloatArray, IntArray

# How much longer than a sum's rounding a label's own direction is.
_LABEL_LENGTH = 4
# Nearest points that are looked at, and how blocks are reduced where LLL's basis isn't enough.
_WIDTH, _BLOCK, _BLOCK_WIDTH, _TOURS = 1024, 30, 300, 3
# More bits than these are beyond float64's arithmetic on reduced bases.
_MOST_BITS = 28
# By how many bits sums must hold more than labels, so that nothing else fits by chance.
_CERTAIN_BITS = 30
# Singular values that rounding leaves, at most and at least, and what a found sum may be off, in roundings.
_ABOVE_ROUNDING, _LEAST_ROUNDING, _MOST_OFF = 3.0, 0.01, 8.0


def labels_of_unmoved_sums(
    equations: Sequence[Equations], columns: int, classes: int, share_step: float, most_rows: int
) -> LabelAnswer:
    """Find the labels of rows that several equations are about, alone among those that fit.

    Args:
        equations: honest ones about the same rows in the same order, of steps or sessions with other weights.
        columns: of the label party, its bias included.
        classes: k.
        share_step: the grid of shares.
        most_rows: that are searched.
    """
    if not has_flint():
        return LabelAnswer(None, reason=str(FlintMissing()))
    matrix = equations[0].matrix
    rows = len(matrix)
    if not columns < matrix.shape[1] or not 1 < rows <= most_rows:
        return LabelAnswer(None, reason=f"{rows} rows are not searched, or no sum is left that weights don't move")
    sums = np.array([one.sums for one in equations])
    if matrix.shape[1] > rows:
        # Of thousands of columns no more than rows tell anything.
        turn = np.linalg.svd(matrix, full_matrices=False)[2]
        matrix, sums = matrix @ turn.T, turn @ sums
    middle = sums.mean(axis=0)
    moved = (sums - middle).transpose(0, 2, 1).reshape(-1, matrix.shape[1])
    _, sizes, directions = np.linalg.svd(moved)
    rounding = max(share_step, 1e-14) * np.linalg.norm(matrix) * np.sqrt(len(moved))
    rank = int((sizes > _ABOVE_ROUNDING * rounding).sum())
    if not columns == rank < matrix.shape[1]:
        return LabelAnswer(None, reason=f"weights moved in {rank} directions, and can in {columns}")
    # How far the directions that were seen are off turns a part of what they hold into the others.
    floor = max(float(sizes[rank]), _LEAST_ROUNDING * rounding)
    off = floor / sizes[:rank, None] * (directions[:rank] @ middle)
    bits = min(_MOST_BITS, int(-np.log2(np.sqrt((off**2).sum()) + floor)))
    unmoved = matrix @ directions[rank:].T
    bits_held = np.log2(np.maximum(unmoved.std(axis=0), 1e-9) * np.sqrt(rows)) + bits
    if bits_held[bits_held > 0].sum() < rows + _CERTAIN_BITS:
        return LabelAnswer(None, reason="what no weight moves holds less than the labels")
    low, high = label_terms(classes)
    wanted = (high * unmoved.sum(axis=0)[:, None] - directions[rank:] @ middle) / (high - low)
    scaled = np.rint(unmoved * 2.0**bits)
    basis = lll_reduced(np.hstack([_LABEL_LENGTH * np.eye(rows), scaled]).astype(np.int64))
    for _ in range(_TOURS):
        hits = [_nearest(basis, unmoved, target, bits) for target in wanted.T]
        if all(one is not None for one in hits):
            break
        basis, _ = block_reduced(basis, block=_BLOCK, width=_BLOCK_WIDTH)
    else:
        return LabelAnswer(None, reason="no choice of labels that fits was found")
    indicators = np.array(hits)
    if classes == 2:
        return LabelAnswer(indicators[0].astype(np.int64), True, "lattice")
    if (indicators.sum(axis=0) != 1).any():
        return LabelAnswer(None, reason="the classes' rows contradict each other")
    return LabelAnswer(indicators.argmax(axis=0), True, "lattice")


def _nearest(basis: IntArray, unmoved: FloatArray, wanted: FloatArray, bits: int) -> BoolArray | None:
    """Find the rows that add up to the wanted sums; None where the nearest points don't."""
    rows = len(unmoved)
    target = np.concatenate([np.full(rows, _LABEL_LENGTH / 2), np.rint(wanted * 2.0**bits)])
    points = nearest_points(basis, target, width=_WIDTH)[:, :rows] / _LABEL_LENGTH
    points = points[((points == 0) | (points == 1)).all(axis=1)]
    if not len(points):
        return None
    off = np.abs(points @ unmoved - wanted).max(axis=1)
    best = int(off.argmin())
    return points[best] == 1 if off[best] <= _MOST_OFF * 2.0**-bits else None


def about_the_same_rows(view: TrainingView) -> list[tuple[IntArray, list[Equations]]]:
    """Group the label party's honest equations by batch: its rows, and those of all steps and sessions about them."""
    groups: dict[bytes, tuple[IntArray, list[Equations]]] = {}
    for session in (view, *view.earlier):
        if (session.label_party, session.classes, session.linear) != (view.label_party, view.classes, True):
            continue
        for equations in session.equations:
            if equations.peer != view.label_party or equations.matrix.shape[1] != view.features.shape[1]:
                continue
            order = np.argsort(equations.rows if session.records is None else session.records[equations.rows])
            rows = equations.rows[order]
            key = (rows if session.records is None else session.records[rows]).tobytes()
            if session is view or (key in groups and np.array_equal(groups[key][1][0].matrix, equations.matrix[order])):
                group = groups.setdefault(key, (rows, []))[1]
                group.append(replace(equations, rows=rows, matrix=equations.matrix[order]))
    return list(groups.values())
