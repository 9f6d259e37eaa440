"""What several models tell of a record together: each that a party answers with is one more linear form of it.

A party's share of a record's score is a linear form of its features. Who is given d independent ones, and knows their
coefficients or d complete records, solves for the record.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray

# What rounding leaves of an equation that others make up. Scores are exact to as much: less tells nothing.
_ROUNDING = 1e-13


def most_equations(share: float, features: int) -> int:
    """Count the equations of a record that may be answered: this share of a party's features, at least one."""
    return max(1, math.floor(share * features))


def equations_per_model(classes: int) -> int:
    """Count the equations that a model's scores tell of a record: a constant added to all logits shows in none."""
    return classes - 1


def equations_of_weights(weights: FloatArray) -> FloatArray:
    """Give what scores tell of a record's (d,) features by weights (d, columns): differences of classes, (k - 1, d)."""
    rows: FloatArray = weights.T
    if len(rows) == 1:
        return rows
    # From the smallest: a huge one would round away what the differences of others tell.
    least = int(np.linalg.norm(rows, axis=1).argmin())
    differences: FloatArray = np.delete(rows, least, axis=0) - rows[least]
    return differences


@dataclass(frozen=True)
class Basis:
    """What some records were answered with, without what follows from the rest.

    Attributes:
        equations: linearly independent equations, by their numbers.
        opaque: names of what nothing is known of but how many independent equations it tells, with that number; rising.
    """

    equations: tuple[int, ...] = ()
    opaque: tuple[tuple[str, int], ...] = ()

    @property
    def rank(self) -> int:
        """Independent equations in all."""
        return len(self.equations) + sum(count for _, count in self.opaque)

    def with_opaque(self, name: str, count: int, most: int) -> "Basis":
        """Count as many equations of this name, where there were fewer, up to ``most`` in all."""
        counts = dict(self.opaque)
        before = counts.get(name, 0)
        counts[name] = before + max(0, min(count - before, most - self.rank))
        return replace(self, opaque=tuple(sorted(counts.items()))) if counts[name] > before else self


@dataclass(frozen=True, eq=False)
class AnsweredEquations:
    """Which equations of which records were answered; it never changes: counting gives another one.

    Attributes:
        coordinates: names of what equations are of: D features, each in its own unit.
        equations: (m, D) coefficients.
        bases: each a basis that records have.
        records: (n,) keys of records, rising.
        of_record: (n,) the number of each one's basis.
    """

    coordinates: tuple[str, ...]
    equations: FloatArray
    bases: tuple[Basis, ...]
    records: NDArray[np.uint64]
    of_record: IntArray

    @classmethod
    def none(cls) -> "AnsweredEquations":
        """No equation of any record."""
        return cls((), np.zeros((0, 0)), (), np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))

    def ranks(self, records: NDArray[np.uint64]) -> IntArray:
        """Count the independent equations that each of these records was answered with, (len(records),)."""
        ranks = np.array([basis.rank for basis in self.bases], dtype=np.int64)
        places, is_answered = self._places(records)
        counts = np.zeros(len(records), dtype=np.int64)
        counts[is_answered] = ranks[self.of_record[places[is_answered]]]
        return counts

    def answered(
        self, records: NDArray[np.uint64], coordinates: Sequence[str], equations: FloatArray, most: int
    ) -> "AnsweredEquations":
        """Count further equations of some records.

        Args:
            records: keys, each once.
            coordinates: names of what the equations are of, (d,).
            equations: (c, d) coefficients.
            most: so many equations tell the whole record: none is counted beyond them.

        Returns:
            This count, where they follow from what these records were answered with before.
        """
        names = (*self.coordinates, *(name for name in coordinates if name not in self.coordinates))
        places = {name: at for at, name in enumerate(names)}
        added = np.zeros((len(equations), len(names)))
        added[:, [places[name] for name in coordinates]] = equations
        before = np.pad(self.equations, ((0, 0), (0, len(names) - self.equations.shape[1])))
        every = np.vstack([before, added])
        new = range(len(before), len(every))

        def extended(basis: Basis) -> Basis:
            room = most - (basis.rank - len(basis.equations))
            return replace(basis, equations=basis.equations + tuple(_independent(every, basis.equations, new, room)))

        return replace(self, coordinates=names, equations=every)._extended(records, extended) or self

    def answered_opaque(self, records: NDArray[np.uint64], name: str, count: int, most: int) -> "AnsweredEquations":
        """Count equations of some records of which nothing is known but that they are independent, of all others too.

        Args:
            records: keys, each once.
            name: of what tells them: the same again tells nothing more.
            count: how many it tells.
            most: so many equations tell the whole record: none is counted beyond them.

        Returns:
            This count, where these records were answered with as many before.
        """
        return self._extended(records, lambda basis: basis.with_opaque(name, count, most)) or self

    def _extended(self, records: NDArray[np.uint64], extend: Callable[[Basis], Basis]) -> "AnsweredEquations | None":
        """Give some records other bases; None where each has its own still."""
        # The empty basis is of records that are new here.
        bases = [*self.bases, Basis()]
        keys = np.union1d(self.records, records)
        of_record = np.full(len(keys), len(self.bases), dtype=np.int64)
        of_record[np.searchsorted(keys, self.records)] = self.of_record
        touched = np.searchsorted(keys, records)
        kinds, kind_of = np.unique(of_record[touched], return_inverse=True)
        extended = []
        for basis in (extend(bases[kind]) for kind in kinds.tolist()):
            if basis not in bases:
                bases.append(basis)
            extended.append(bases.index(basis))
        if extended == kinds.tolist():
            return None
        of_record[touched] = np.array(extended, dtype=np.int64)[kind_of]
        return AnsweredEquations(self.coordinates, self.equations, tuple(bases), keys, of_record)._without_unused()

    def _places(self, records: NDArray[np.uint64]) -> tuple[IntArray, NDArray[np.bool_]]:
        """Find where records stand among those that were answered, and which do."""
        places = np.searchsorted(self.records, records)
        is_answered = places < len(self.records)
        is_answered[is_answered] = self.records[places[is_answered]] == records[is_answered]
        return places, is_answered

    def _without_unused(self) -> "AnsweredEquations":
        """Keep the count without what no record's basis has any more."""
        kinds, of_record = np.unique(self.of_record, return_inverse=True)
        bases = [self.bases[kind] for kind in kinds.tolist()]
        used = sorted({equation for basis in bases for equation in basis.equations})
        numbers = {equation: number for number, equation in enumerate(used)}
        renumbered = tuple(
            replace(basis, equations=tuple(numbers[equation] for equation in basis.equations)) for basis in bases
        )
        return AnsweredEquations(
            self.coordinates, self.equations[used], renumbered, self.records, of_record.astype(np.int64)
        )


def _independent(equations: FloatArray, basis: Sequence[int], candidates: Sequence[int], most: int) -> list[int]:
    """Find the candidates that no combination of the basis and the candidates before them gives, up to ``most``."""
    # The same again is told to the last bit; of other combinations rounding leaves room for doubt, which counts.
    candidates = [one for one in candidates if not (equations[list(basis)] == equations[one]).all(axis=1).any()]
    rows = equations[[*basis, *candidates]]
    # Units of features differ by orders of magnitude; neither they nor an equation's length matter to a rank.
    rows = rows / np.maximum(np.abs(rows).max(axis=0, initial=0), np.finfo(np.float64).tiny)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    spanned = np.linalg.qr(rows[: len(basis)].T)[0]
    independent: list[int] = []
    basis_rows = list(range(len(basis)))
    for index, candidate in enumerate(candidates, start=len(basis)):
        if len(basis_rows) >= min(most, rows.shape[1]):
            break
        rest = row = rows[index]
        # Twice: what rounding leaves of the first projection would count as a direction.
        for _ in range(2):
            rest = rest - spanned @ (spanned.T @ rest)
        length = np.linalg.norm(rest)
        if length > _ROUNDING or not _is_combination(rows[basis_rows], row):
            independent.append(candidate)
            basis_rows.append(index)
            spanned = np.column_stack([spanned, rest / length if length else rest])
    return independent


def _is_combination(basis: FloatArray, row: FloatArray) -> bool:
    """Tell whether equations give another one in every coordinate to rounding, however much larger others are.

    A record's score holds what a small weight tells to its last digit where the feature of a huge one is 0.
    """
    magnitudes = np.where(row != 0, np.abs(row), np.abs(basis).max(axis=0, initial=0))
    sizes = np.where(magnitudes > 0, magnitudes, 1.0)
    basis, row = basis / sizes, row / sizes
    basis = basis / np.linalg.norm(basis, axis=1, keepdims=True)
    if not np.isfinite(basis).all():
        return False
    factors = np.zeros(len(basis))
    # Again, for what rounding leaves of the first solution.
    for _ in range(3):
        factors = factors + np.linalg.lstsq(basis.T, row - factors @ basis, rcond=None)[0]
    rest = np.abs(row - factors @ basis)
    return bool((rest <= _ROUNDING * (np.abs(row) + np.abs(factors) @ np.abs(basis))).all())
