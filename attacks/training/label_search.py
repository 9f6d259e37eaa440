"""Labels from sums that hold nothing else: where the label party's residuals are its labels' terms and a known number.

Two searches, for the same question. Where the equations leave few signs open, all of them are gone through (Hu, Theorem
4.1): that proves that no other labels fit. Where they leave many, lattice reduction finds them from whole numbers.
"""

from dataclasses import dataclass, replace
from math import gcd

import numpy as np
from scipy.linalg import qr

from attacks.solving.lattice_labels import RowSums
from attacks.solving.lattices import FlintMissing, has_flint
from attacks.training.recovered_labels import UNRESOLVED, Method
from attacks.training_views import Equations
from vfl.arrays import FloatArray, IntArray

# By how much sums may miss the grid that labels alone leave them on, in its steps.
_OFF_GRID = 0.05
_MOST_OFFSETS = 2_000
# More unknowns than these are not joined, and equations beyond so many times as many are left out.
_MOST_JOINED = 2_000
_ENOUGH_EQUATIONS = 1.5


@dataclass(frozen=True)
class SearchBudget:
    """How much is searched.

    Attributes:
        free_signs: signs that the equations leave open, gone through in 2^(free_signs / 2) steps.
        lattice_rows: rows whose labels lattice reduction looks for.
        lattice_tours: how often blocks are reduced beyond LLL.
    """

    free_signs: int
    lattice_rows: int
    lattice_tours: int


@dataclass(frozen=True, eq=False)
class LabelAnswer:
    """What a search found.

    Attributes:
        labels: (s,) class indices; None where none or several fit.
        certain: whether nothing else fits: proved, or as good as impossible.
        method: what found them.
        reason: why there are none; empty where there are.
    """

    labels: IntArray | None
    certain: bool = False
    method: Method = "none"
    reason: str = ""


@dataclass(frozen=True, eq=False)
class LabelSums:
    """Sums over the rows of each class, as integers: what equations become where residuals are labels alone.

    Attributes:
        rows: (s,) indices in the common order.
        matrix: (s, D) features on their grid.
        sums: (D, columns), over the rows of class 1, or of each class where there are more than two.
    """

    rows: IntArray
    matrix: IntArray
    sums: IntArray

    def without(self, labels: IntArray) -> "LabelSums":
        """Take rows out whose labels are known; labels (s,), UNRESOLVED for those that stay."""
        resolved = labels != UNRESOLVED
        hits = _hits(labels[resolved], self.sums.shape[1])
        return LabelSums(self.rows[~resolved], self.matrix[~resolved], self.sums - self.matrix[resolved].T @ hits)


def label_sums(equations: Equations, offset: FloatArray, classes: int) -> LabelSums | None:
    """Read sums over classes off equations whose unknowns are label terms plus a known offset (columns,).

    None where features lie on no grid, or the sums don't lie where labels alone would leave them: then the residuals
    hold more than labels, such as products with weights or noise.
    """
    grid = equations.whole_numbers()
    if grid is None:
        return None
    matrix, steps = grid
    low, high = label_terms(classes)
    total = matrix.sum(axis=0)[:, None]
    exact = ((offset + high) * total - equations.sums / steps[:, None]) / (high - low)
    sums = np.rint(exact)
    if np.abs(exact - sums).max() > _OFF_GRID:
        return None
    return LabelSums(equations.rows, matrix, sums.astype(np.int64))


def label_terms(classes: int) -> tuple[float, float]:
    """Compute the two values that a label adds to a column of f: for the class itself, and for another."""
    return (-2.0, 2.0) if classes == 2 else (1.0 - classes, 1.0)


class LabelSearch:
    """Searches one step after the other, and remembers what each has told.

    Arguments:
        rows: of the common order.
        classes: how many the labels have.
        budget: how much is searched. Once a step's search has failed, blocks are no longer reduced for others.
    """

    def __init__(self, rows: int, classes: int, budget: SearchBudget) -> None:
        self._classes, self._budget = classes, budget
        self._known = np.full(rows, UNRESOLVED, dtype=np.int64)
        self._open: dict[int, LabelSums] = {}

    @property
    def open_steps(self) -> frozenset[int]:
        """Steps whose sums are labels alone, and tell too little by themselves."""
        return frozenset(self._open)

    def at_step(self, equations: Equations, offset: FloatArray) -> LabelAnswer:
        """Find the labels of a step whose residuals are label terms plus a known offset (columns,)."""
        answer = search_labels(equations, offset, self._classes, self._budget, self._known[equations.rows])
        if answer.labels is not None and answer.certain:
            self._known[equations.rows] = answer.labels
        elif answer.labels is None:
            self._budget = replace(self._budget, lattice_tours=0)
            sums = label_sums(equations, offset, self._classes)
            if sums is not None:
                self._open[equations.step] = sums
        return answer

    def joined(self) -> IntArray:
        """Find what the open steps' equations tell together: (rows,) labels of all steps, or UNRESOLVED.

        Rows that several steps share have one label, so their equations add up.
        """
        parts = [sums.without(self._known[sums.rows]) for sums in self._open.values()]
        # A single step has been searched already, unless others have told some of its rows.
        is_new = len(parts) > 1 or any((self._known[sums.rows] != UNRESOLVED).any() for sums in self._open.values())
        parts = [part for part in parts if len(part.rows)]
        if parts and is_new:
            together = joined_labels(parts, len(self._known), self._budget)
            self._known = np.where(together == UNRESOLVED, self._known, together)
        return self._known


def joined_labels(parts: list[LabelSums], rows: int, budget: SearchBudget) -> IntArray:
    """Find labels from the sums of several steps together; (rows,) in the common order, or UNRESOLVED."""
    labels = np.full(rows, UNRESOLVED, dtype=np.int64)
    records = np.unique(np.concatenate([part.rows for part in parts]))
    if len(records) > _MOST_JOINED:
        return labels
    enough = _enough(parts, _ENOUGH_EQUATIONS * len(records))
    matrix = np.zeros((len(records), sum(part.matrix.shape[1] for part in enough)), dtype=np.int64)
    first = 0
    for part in enough:
        matrix[np.searchsorted(records, part.rows), first : first + part.matrix.shape[1]] = part.matrix
        first += part.matrix.shape[1]
    answer = labels_of_sums(
        LabelSums(records, matrix, np.vstack([part.sums for part in enough])), budget, method="joined"
    )
    if answer.labels is None or not answer.certain:
        return labels
    labels[records] = answer.labels
    fits = all((part.without(labels[part.rows]).sums == 0).all() for part in parts)
    return labels if fits else np.full(rows, UNRESOLVED, dtype=np.int64)


def search_labels(
    equations: Equations, offset: FloatArray, classes: int, budget: SearchBudget, earlier: IntArray | None = None
) -> LabelAnswer:
    """Find the labels of a step whose residuals are label terms plus a known offset.

    Args:
        equations: of the label party.
        offset: (columns,).
        classes: how many the labels have.
        budget: how much is searched.
        earlier: (s,) labels of rows that other steps told, or UNRESOLVED.
    """
    rows, count = equations.matrix.shape
    labels = np.full(rows, UNRESOLVED) if earlier is None else earlier.copy()
    still = labels == UNRESOLVED
    if not still.any():
        return LabelAnswer(labels, True, "joined")
    rank = int(np.linalg.matrix_rank(equations.matrix[still]))
    free = int(still.sum()) - rank
    integers = label_sums(equations, offset, classes)
    answer: LabelAnswer | None = None
    if free <= budget.free_signs:
        answer = _by_signs(equations.matrix[still], _sign_targets(equations, offset, classes, labels))
    if answer is None and integers is not None:
        answer = labels_of_sums(integers.without(labels), budget)
    if answer is None:
        answer = LabelAnswer(None, reason=_why_no_lattice(equations, free))
    if answer.labels is None:
        size = f"{rows} records in a step, {count} sums about them, {rank} of which tell something new"
        return LabelAnswer(None, reason=f"Not possible: {size}: {answer.reason}.")
    labels[still] = answer.labels
    return LabelAnswer(labels, answer.certain, answer.method)


def _why_no_lattice(equations: Equations, free: int) -> str:
    if equations.whole_numbers() is None:
        return f"{free} labels stay open, and features on no grid leave no whole numbers to find them by"
    return f"{free} labels stay open, and the sums hold more than labels: noise was added, or weights have moved"


def labels_of_sums(sums: LabelSums, budget: SearchBudget, *, method: Method = "lattice") -> LabelAnswer:
    """Find labels from sums over classes by lattice reduction, column by column, or by solving where that is enough."""
    if not has_flint():
        return LabelAnswer(None, reason=str(FlintMissing()))
    search = RowSums(sums.matrix, most_rows=budget.lattice_rows, tours=budget.lattice_tours)
    hits, certain = [], True
    for column in range(sums.sums.shape[1]):
        answer = search.find(sums.sums[:, column])
        if answer.rows is None:
            return LabelAnswer(None, reason=answer.reason)
        hits.append(answer.rows)
        certain = certain and answer.certain
    labels = _labels_of(np.array(hits).T)
    if labels is None:
        return LabelAnswer(None, reason="the classes' rows contradict each other")
    return LabelAnswer(labels, certain, method)


def _enough(parts: list[LabelSums], equations: float) -> list[LabelSums]:
    """Take the first parts that have so many equations together."""
    counts = np.cumsum([part.matrix.shape[1] for part in parts])
    return parts[: int(np.searchsorted(counts, equations)) + 1]


def common_offset(equations: Equations, classes: int, share_step: float) -> FloatArray | None:
    """Read off the sums what all rows' shares have in common besides label terms: (columns,), or None.

    Shares lie on a grid of 2^-32, and two label terms lie 4 (or k) apart. So modulo that distance all shares are the
    same whole number of steps C, and a sum is C times the sum of its features: one odd sum of features tells C, the
    others confirm it. It must be smaller than half of that distance.
    """
    grid = equations.whole_numbers()
    if grid is None or share_step == 0:
        return None
    matrix, steps = grid
    totals = [int(total) for total in matrix.sum(axis=0)]
    low, high = label_terms(classes)
    modulus, term = int((high - low) / share_step), int(high / share_step)
    offsets = []
    for column in range(equations.sums.shape[1]):
        sums = [int(value) for value in np.rint(equations.sums[:, column] / steps / share_step)]
        factor = _common_factor(sums, totals, modulus)
        if factor is None:
            return None
        offsets.append(((factor - term + modulus // 2) % modulus - modulus // 2) * share_step)
    return np.array(offsets)


def _common_factor(sums: list[int], totals: list[int], modulus: int) -> int | None:
    """Find the only C in [0, modulus) with sums = C totals modulo it, but for rounding to float64; None without one."""
    # Some units in the last place of float64: an answer is rounded to it once, a simulated sum more often.
    slack = max(abs(value) for value in sums) // 2**51 + 1
    pivot = min(range(len(totals)), key=lambda index: gcd(totals[index], modulus))
    shared = gcd(totals[pivot], modulus)
    if len(totals) < 2 or shared * (2 * slack + 1) > _MOST_OFFSETS:
        return None
    part = modulus // shared
    inverse = pow(totals[pivot] // shared, -1, part)
    candidates = {
        (value // shared * inverse + turn * part) % modulus
        for value in range(sums[pivot] - slack, sums[pivot] + slack + 1)
        if value % shared == 0
        for turn in range(shared)
    }
    fitting = [
        factor
        for factor in candidates
        if all(
            min((value - factor * total) % modulus, (factor * total - value) % modulus) <= slack
            for value, total in zip(sums, totals, strict=True)
        )
    ]
    return fitting[0] if len(fitting) == 1 else None


def _by_signs(matrix: FloatArray, targets: FloatArray) -> LabelAnswer | None:
    """Theorem 4.1, column by column: targets (D, columns). None where the equations hardly tell sign vectors apart."""
    hits = []
    for column in range(targets.shape[1]):
        try:
            solutions = sign_solutions(matrix, targets[:, column], limit=2)
        except TooManyCandidates:
            return None
        if len(solutions) != 1:
            what = "no choice of labels fits" if len(solutions) == 0 else "several choices of labels fit"
            return LabelAnswer(None, reason=what)
        hits.append(solutions[0] < 0)
    labels = _labels_of(np.array(hits).T)
    if labels is None:
        return LabelAnswer(None, reason="the columns' signs contradict each other")
    return LabelAnswer(labels, True, "theorem_4.1")


def _sign_targets(equations: Equations, offset: FloatArray, classes: int, labels: IntArray) -> FloatArray:
    """Find the sums of the open rows' signs, (D, columns): -1 for the class itself, 1 for another."""
    low, high = label_terms(classes)
    total = equations.matrix.sum(axis=0)[:, None]
    targets = (equations.sums - (offset + (low + high) / 2) * total) / ((high - low) / 2)
    resolved = labels != UNRESOLVED
    signs = 1.0 - 2.0 * _hits(labels[resolved], targets.shape[1])
    open_targets: FloatArray = targets - equations.matrix[resolved].T @ signs
    return open_targets


def _hits(labels: IntArray, columns: int) -> IntArray:
    """(rows, columns), 1 where the column's value is the class's own."""
    hits: IntArray = (labels[:, None] == (1 if columns == 1 else np.arange(columns))).astype(np.int64)
    return hits


def _labels_of(hits: "np.ndarray[tuple[int, int], np.dtype[np.bool_]]") -> IntArray | None:
    """Class indices of (s, columns) hits; None where a row is of no class or of two."""
    if hits.shape[1] == 1:
        return hits[:, 0].astype(np.int64)
    return hits.argmax(axis=1).astype(np.int64) if (hits.sum(axis=1) == 1).all() else None


# How closely a sign vector must fit. Tighter loses true ones to the rounding of a bias, wider lets chance ones in.
_FIT = 1e-7
_MOST_CANDIDATES = 1 << 20
_BLOCK = 1 << 15


class TooManyCandidates(ValueError):
    """The equations hardly tell sign vectors apart; the text says how many agree."""


def sign_solutions(matrix: FloatArray, target: FloatArray, *, limit: int = 2) -> list[FloatArray]:
    """Find all z in {-1, 1}^s with matrix^T z = target (Hu eq. 82).

    The equations give r signs as linear functions of the s - r others. Those are run through by meeting in the middle:
    2^((s - r)/2) sums for each half, joined where the first of the r signs is +-1 to ``_FIT``. Time and memory grow
    with that, so s - r should stay below 40.

    Args:
        matrix: (s, D) of rank r.
        target: (D,).
        limit: the most solutions to return.

    Raises:
        TooManyCandidates: where more than 2^20 joins would have to be looked at.
    """
    rows = len(matrix)
    _, triangle, order = qr(matrix.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    rank = int((diagonal > max(matrix.shape) * 2.0**-52 * diagonal.max(initial=0.0)).sum())
    bound, free = order[:rank], order[rank:]
    inverse = np.linalg.pinv(matrix[bound].T)
    # z_bound = constant - coupling z_free
    constant, coupling = inverse @ target, inverse @ matrix[free].T
    half = len(free) // 2
    left_signs, right_signs = sign_vectors(half), sign_vectors(len(free) - half)
    if rank:
        sums_left = constant[0] - left_signs @ coupling[0, :half]
        sums_right = right_signs @ coupling[0, half:]
        by_size = np.argsort(sums_right)
        ordered = sums_right[by_size]
    solutions: list[FloatArray] = []
    for sign in (-1.0, 1.0) if rank else ():
        first = np.searchsorted(ordered, sums_left - sign - _FIT)
        counts = np.searchsorted(ordered, sums_left - sign + _FIT) - first
        # Few distinct values (0/1 features) make many pairs agree in one sign: a block of them at a time.
        ends = np.concatenate([[0], np.cumsum(counts)])
        if ends[-1] > _MOST_CANDIDATES:
            raise TooManyCandidates(f"{ends[-1]:,} sign vectors agree with the first equation alone")
        for start in range(0, int(ends[-1]), _BLOCK):
            pairs = np.arange(start, min(start + _BLOCK, ends[-1]))
            lefts = np.searchsorted(ends, pairs, side="right") - 1
            rights = by_size[first[lefts] + pairs - ends[lefts]]
            candidates = np.empty((len(pairs), rows))
            candidates[:, free] = np.hstack([left_signs[lefts], right_signs[rights]])
            candidates[:, bound] = constant - candidates[:, free] @ coupling.T
            fits = (np.abs(np.abs(candidates[:, bound]) - 1) < _FIT).all(axis=1)
            candidates = np.where(candidates[fits] > 0, 1.0, -1.0)
            fits = (np.abs(candidates @ matrix - target) < _FIT * max(1.0, float(np.abs(target).max()))).all(axis=1)
            solutions += list(candidates[fits][: limit - len(solutions)])
            if len(solutions) == limit:
                return solutions
    return solutions


def sign_vectors(length: int) -> FloatArray:
    """List all 2^length sign vectors, (2^length, length)."""
    digits = np.arange(1 << length)[:, None] >> np.arange(length) & 1
    return np.where(digits == 1, 1.0, -1.0)
