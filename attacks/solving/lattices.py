"""Lattices of integer vectors: reduced bases and the points nearest to a target.

A lattice is all integer combinations of a basis. Which point of it lies nearest to a target is easy to say with a
basis of short, nearly perpendicular vectors, so the basis is reduced first: by LLL (Lenstra, Lenstra, Lovasz 1982;
FLINT's), then by blocks (Schnorr and Euchner 1994). Both the blocks and the nearest points are searched in breadth,
keeping the best so many of all partial combinations: numpy does a level at once, where a search in depth would visit
one combination at a time.

FLINT comes with python-flint, of the extra ``lab``; it is imported where it is used.
"""

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray

# Python's own, of any size.
Integers = NDArray[np.object_]

# A shorter vector must be shorter by so much to be worth an insertion.
_SHORTER = 0.99
# Points are shortened to numbers that float64 has exactly, and in how many rounds at most.
_LONGEST, _MOST_ROUNDS = 1 << 52, 20
# Bits of the projections that a block is reduced by.
_BLOCK_BITS = 24
# Integers next to the nearest one that are looked at per coefficient.
_NEIGHBOURS = np.arange(-2, 3)


class FlintMissing(ImportError):
    """python-flint isn't installed; the text says what to install."""

    def __init__(self) -> None:
        super().__init__('lattice reduction needs python-flint: pip install "plumbline[lab]"')


def has_flint() -> bool:
    """Tell whether python-flint is installed."""
    return importlib.util.find_spec("flint") is not None


@dataclass(frozen=True, eq=False)
class KernelLattice:
    """All integer vectors x with matrix^T x = 0, and what it takes to meet other sums.

    Attributes:
        basis: (n, s) int64, a reduced basis of them; n = s - rank.
        images: (rank, D) integers, a basis of all sums matrix^T x that integer vectors x have.
        preimages: (rank, s) integers, a vector for each of them.
    """

    basis: IntArray
    images: Integers
    preimages: Integers

    @property
    def log2_volume(self) -> float:
        """log2 of the volume that the lattice has per point, in its own n dimensions."""
        return float(np.log2(np.diag(_triangle(self.basis)[1])).sum()) if len(self.basis) else 0.0

    def point_with(self, sums: Integers) -> IntArray | None:
        """Find one short integer vector x with matrix^T x = sums, (s,); None where there is none, or none as short."""
        flint = _flint()
        gram, right = self.images @ self.images.T, self.images @ sums
        solved = flint.fmpz_mat(gram.tolist()).solve(flint.fmpz_mat([[int(value)] for value in right]))
        numbers = [solved[index, 0] for index in range(len(right))]
        if any(number.q != 1 for number in numbers):
            return None
        coefficients = np.array([int(number.p) for number in numbers], dtype=object)
        fits = (coefficients @ self.images == sums).all()
        return self._shortened(coefficients @ self.preimages) if fits else None

    def _shortened(self, point: Integers) -> IntArray | None:
        """Subtract what the lattice has of a vector of any size until it is as short as the basis.

        Each round leaves what float64 has rounded of the last: some sixteen digits less.
        """
        directions, triangle = _triangle(self.basis)
        for _ in range(_MOST_ROUNDS):
            if max(map(abs, point), default=0) < _LONGEST:
                return point.astype(np.int64)
            coordinates = np.linalg.solve(triangle, directions.T @ point.astype(np.float64))
            point = point - np.array([int(one) for one in np.rint(coordinates)], dtype=object) @ self.basis.astype(
                object
            )
        return None


def kernel_lattice(matrix: IntArray) -> KernelLattice:
    """Find the LLL-reduced basis of all integer x with matrix^T x = 0; matrix is (s, D).

    The rows (w matrix | I) are reduced together: with w large enough, all combinations that vanish come first. Raises
    FlintMissing.
    """
    rows, sums = matrix.shape
    flint = _flint()
    rank = int(flint.fmpz_mat(matrix.tolist()).rank())
    weight = 1 << 32
    while True:
        generators = np.hstack([matrix.astype(object) * weight, np.eye(rows, dtype=np.int64).astype(object)])
        reduced = _reduced(generators)
        vanishing = ~(reduced[:, :sums] != 0).any(axis=1)
        if vanishing.sum() == rows - rank:
            break
        weight *= weight
    return KernelLattice(
        reduced[vanishing, sums:].astype(np.int64),
        reduced[~vanishing, :sums] // weight,
        reduced[~vanishing, sums:],
    )


def lll_reduced(basis: IntArray) -> IntArray:
    """Reduce a basis (n, s) of independent vectors. Raises FlintMissing."""
    return _reduced(basis.astype(object)).astype(np.int64)


def block_reduced(basis: IntArray, *, block: int, width: int) -> tuple[IntArray, bool]:
    """Reduce every run of ``block`` vectors of a basis once, in a tour from the first to the last.

    Args:
        basis: (n, s), LLL-reduced.
        block: vectors that are reduced together.
        width: partial combinations that the search for a shorter vector keeps.

    Returns:
        The new basis, and whether anything became shorter.
    """
    _, triangle = _triangle(basis)
    changed = False
    for start in range(len(basis) - 1):
        end = min(start + block, len(basis))
        local = triangle[start:end, start:end]
        combination = _shorter(local, width)
        if combination is not None:
            basis = basis.copy()
            basis[start:end] = _inserted(local, combination) @ basis[start:end]
            _, triangle = _triangle(basis)
            changed = True
    return (lll_reduced(basis) if changed else basis), changed


def nearest_points(basis: IntArray, target: FloatArray, *, width: int) -> IntArray:
    """Find the points of a lattice that lie nearest to a target, measured in the span of the basis.

    Args:
        basis: (n, s), reduced.
        target: (s,).
        width: partial combinations kept at each level; 1 is Babai's nearest plane.

    Returns:
        Up to ``width`` different points, (points, s), in no order.
    """
    directions, triangle = _triangle(basis)
    coefficients, _ = _in_breadth(triangle, directions.T @ target, width, np.inf)
    return coefficients.astype(np.int64) @ basis


def _shorter(triangle: FloatArray, width: int) -> IntArray | None:
    """Combine a block's vectors into one that is shorter than the first; None where none is found."""
    bound = _SHORTER * triangle[0, 0] ** 2
    coefficients, distances = _in_breadth(triangle, np.zeros(len(triangle)), width, bound)
    distances = np.where(coefficients.any(axis=1), distances, np.inf)
    if not np.isfinite(distances).any():
        return None
    combination: IntArray = coefficients[distances.argmin()].astype(np.int64)
    return combination


def _in_breadth(triangle: FloatArray, target: FloatArray, width: int, bound: float) -> tuple[FloatArray, FloatArray]:
    """Find combinations a, (kept, n), with the smallest |triangle a - target|^2, (kept,), below a bound.

    From the last coefficient to the first. All kept ones have decided the same coefficients, so their distances in the
    coordinates so far compare.
    """
    coefficients, distances = np.zeros((1, len(target))), np.zeros(1)
    remainders = target[None, :].copy()
    for level in range(len(target) - 1, -1, -1):
        size = triangle[level, level]
        exact = remainders[:, level] / size
        options = np.rint(exact)[:, None] + _NEIGHBOURS
        further = (distances[:, None] + ((exact[:, None] - options) * size) ** 2).ravel()
        nearest = np.flatnonzero(further < bound)
        if len(nearest) > width:
            nearest = nearest[np.argpartition(further[nearest], width - 1)[:width]]
        parents, values = nearest // len(_NEIGHBOURS), options.ravel()[nearest]
        distances, coefficients = further[nearest], coefficients[parents]
        coefficients[:, level] = values
        remainders = remainders[parents, :level] - values[:, None] * triangle[:level, level]
    return coefficients, distances


def _inserted(triangle: FloatArray, combination: IntArray) -> IntArray:
    """Find the unimodular combinations of a block that make a basis of it with the shorter vector, LLL-reduced."""
    size = len(triangle)
    projected = np.rint(triangle.T * 2.0**_BLOCK_BITS).astype(np.int64).astype(object)
    generators = np.vstack([combination.astype(object), np.eye(size, dtype=np.int64).astype(object)])
    reduced, steps = _flint().fmpz_mat((generators @ projected).tolist()).lll(transform=True)
    nonzero = (_integers(reduced) != 0).any(axis=1)
    combinations: IntArray = (_integers(steps)[nonzero] @ generators).astype(np.int64)
    return combinations


def _triangle(basis: IntArray) -> tuple[FloatArray, FloatArray]:
    """Factor basis^T into orthonormal directions (s, n) and a triangle (n, n) with a positive diagonal."""
    directions, triangle = np.linalg.qr(basis.T.astype(np.float64))
    signs = np.where(np.diag(triangle) < 0, -1.0, 1.0)
    return directions * signs, triangle * signs[:, None]


def _reduced(rows: Integers) -> Integers:
    return _integers(_flint().fmpz_mat(rows.tolist()).lll())


def _integers(matrix: Any) -> Integers:
    return np.array([[int(value) for value in row] for row in matrix.tolist()], dtype=object)


def _flint() -> Any:
    try:
        import flint
    except ImportError as error:
        raise FlintMissing from error
    return flint
