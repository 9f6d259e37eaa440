"""What a sender of masked sums reads from answers that are cut to their lowest w bits: single residuals.

An answer is (S + r) mod n mod 2^w: S = sum_i a_i G_i is what the sender combines from encrypted residuals G_i with
multipliers a_i of its choice, r its own mask. With q, how often S + r passes n, it knows S - q n modulo 2^w.

*Whole residuals.* With a_i = 2^shift they lie side by side, below 2^w. They don't pass n, and are read to the last bit.

*The leading bits of one more.* Let p bits remain. With P = 0 mod 2^w next to n / 2^(b - p), the multiple P Z of a
residual Z of b bits leaves nothing modulo 2^w but q, its p leading bits. So that both can be told apart, the whole ones
get n 2^(p + shift) mod 2^w in the place of 2^shift, and the answer is divided by n modulo 2^w:

    (S - q n) / n = sum_j 2^(p + shift_j) G_j - q  (mod 2^w)

With the G_j and q known, P Z lies in [q n - r - sum_j a_j G_j, that + n).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from gmpy2 import mpz, powmod

from attacks.training_attack import SessionTerms
from attacks.training_views import Equations, OwnStep, TrainingView, solve_shares
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import CipherVector, ColumnFormats, InvalidAnswer, Mask, mask_vector
from vfl.crypto.messages import Combination, Question

# Bits that a part of a share may leave open: a feature's values are ratios of shares. A label needs its share to 1/4.
_OPEN_OF_FEATURES = 12


@dataclass(frozen=True)
class AnswerLayout:
    """Where the residuals of ciphertexts go in one answer.

    Attributes:
        width: w, the answer's bits.
        residual_bits: b, of a residual with its sign.
        offsets: of the residuals within a ciphertext, in bits; one of them unless they are packed.
        shifts: of each whole ciphertext, above the part.
        part: p, the leading bits of one more residual; 0 for none.
    """

    width: int
    residual_bits: int
    offsets: tuple[int, ...]
    shifts: tuple[int, ...]
    part: int

    @property
    def ciphertexts(self) -> int:
        """How many ciphertexts the answer tells, the one that it tells in part included."""
        return len(self.shifts) + (self.part > 0)

    def multiplier(self, shift: int, n: int) -> int:
        """Choose what a whole ciphertext is multiplied by."""
        return (n << self.part + shift) % (1 << self.width) if self.part else 1 << shift

    def part_multiplier(self, n: int) -> int:
        """P: what the ciphertext that is told in part is multiplied by."""
        return n >> self.residual_bits - self.part + self.width << self.width

    def combine(self, full: Sequence[int], part: int | None, vector: CipherVector) -> int:
        """Combine up to ``len(shifts)`` ciphertexts, and one to be told in part, to the ciphertext of an answer."""
        n, modulus = vector.public_key.n, mpz(vector.public_key.n_squared)
        answer = mpz(1)
        for shift, ciphertext in zip(self.shifts, full, strict=False):
            answer = answer * powmod(ciphertext, self.multiplier(shift, n), modulus) % modulus
        if part is not None:
            answer = answer * powmod(part, self.part_multiplier(n), modulus) % modulus
        return int(answer)

    def read(self, answer: int, summand: int, n: int, *, has_part: bool) -> tuple[list[list[int]], int]:
        """Read an answer: the residuals of each whole ciphertext in the order of ``offsets``, and that of the part.

        Raises InvalidAnswer for an answer outside [0, 2^w).
        """
        if not 0 <= answer < 1 << self.width:
            raise InvalidAnswer(f"Expected an answer in [0, 2^{self.width}).")
        value, wraps = answer - summand, 0
        if self.part:
            value = value * pow(n, -1, 1 << self.width)
            wraps = _signed(-value, self.part)
            value = value + wraps >> self.part
        values = self._whole(value)
        if not has_part:
            return values, 0
        total = summand + sum(
            self.multiplier(shift, n) * residual << offset
            for shift, residuals in zip(self.shifts, values, strict=True)
            for offset, residual in zip(self.offsets, residuals, strict=True)
        )
        return values, ((2 * wraps + 1) * n - 2 * total) // (2 * self.part_multiplier(n))

    def _whole(self, value: int) -> list[list[int]]:
        """Read residuals from the lowest up: one below zero borrows from those above it."""
        values = [[0] * len(self.offsets) for _ in self.shifts]
        places = (
            (shift + offset, j, i) for j, shift in enumerate(self.shifts) for i, offset in enumerate(self.offsets)
        )
        for start, j, i in sorted(places):
            values[j][i] = _signed(value >> start, self.residual_bits)
            value -= values[j][i] << start
        return values


def placement(width: int, residual_bits: int, offsets: Sequence[int], most_open: int) -> AnswerLayout:
    """Place as many ciphertexts into an answer as it holds, without overlap.

    A single residual per ciphertext is told in part as well, where the bits left over leave few of it open.

    Args:
        width: w.
        residual_bits: b.
        offsets: of a ciphertext's residuals, in bits, at least b apart.
        most_open: bits of a residual that a part may leave open.
    """
    occupied: list[int] = []
    shifts: list[int] = []
    while True:
        starts = [0, *(start + residual_bits for start in sorted(occupied))]
        free = next((s for s in starts if _is_free([s + offset for offset in offsets], occupied, residual_bits)), None)
        if free is None or free + max(offsets) + residual_bits > width:
            break
        shifts.append(free)
        occupied += [free + offset for offset in offsets]
    spare = width - len(shifts) * residual_bits if len(offsets) == 1 else 0
    part = spare if spare >= residual_bits - most_open else 0
    return AnswerLayout(width, residual_bits, tuple(offsets), tuple(shifts), part)


def _is_free(wanted: Sequence[int], occupied: Sequence[int], bits: int) -> bool:
    return all(abs(one - other) >= bits for one in wanted for other in occupied)


def _signed(value: int, bits: int) -> int:
    """Read the lowest bits in two's complement."""
    low = value & (1 << bits) - 1
    return low - (1 << bits) if low >> bits - 1 else low


@dataclass(frozen=True)
class CutPlan:
    """What the truncated answers of one step tell.

    Attributes:
        placements: one per answer to a column of residuals; to all columns at once where these share a ciphertext.
        rows_per_ciphertext: of the peers' residuals.
        classes: columns that share a ciphertext.
        columns: of a residual.
        fraction_bits: of a residual.
    """

    placements: tuple[AnswerLayout, ...]
    rows_per_ciphertext: int
    classes: int
    columns: int
    fraction_bits: int

    @property
    def ciphertexts(self) -> int:
        """How many of a column's ciphertexts the answers tell."""
        return sum(one.ciphertexts for one in self.placements)

    @property
    def rows(self) -> int:
        """How many rows of a batch the answers tell."""
        return self.ciphertexts * self.rows_per_ciphertext

    @property
    def share_step(self) -> float:
        """A grid that what is read lies on to within one half, but for the worst of roundings."""
        open_bits = [one.residual_bits - one.part + 1 for one in self.placements if one.part]
        return 2.0 ** (max(open_bits, default=0) - self.fraction_bits)

    def slots(self) -> list[tuple[int, int]]:
        """List (answer, place in it), places of whole residuals first."""
        every = [(answer, place) for answer, one in enumerate(self.placements) for place in range(one.ciphertexts)]
        return sorted(every, key=lambda slot: slot[1] == len(self.placements[slot[0]].shifts))

    def rows_of(self, ciphertexts: IntArray, rows: int) -> IntArray:
        """List the rows of a batch of ``rows`` that these ciphertexts hold, in their order."""
        t = self.rows_per_ciphertext
        positions = (ciphertexts[:, None] * t + np.arange(t)).ravel()
        return positions[positions < rows]


def cut_plan(terms: SessionTerms, largest_share: float) -> CutPlan | None:
    """Count what truncated answers tell in a session; None where no peer cuts its answers.

    Args:
        terms: the session's.
        largest_share: what |theta^T x| of a single party is assumed to stay below. The labels' part comes on top.
    """
    formats, columns = terms.formats, terms.formats.columns
    widths = [bits for bits in formats.asked_bits.values() if bits is not None]
    if not widths:
        return None
    seeks_labels, fraction_bits = terms.role == "passive", formats.residual.fraction_bits
    label_part = max(2.0, columns - 1.0) if seeks_labels else 0.0
    bits = fraction_bits + 1 + math.ceil(math.log2(largest_share + label_part))
    most_open = fraction_bits - 2 if seeks_labels else _OPEN_OF_FEATURES
    layout = formats.layout
    if layout is None:
        placed = tuple(placement(w, bits, [0], most_open) for w in widths[0][::columns])
        return CutPlan(placed, 1, 1, columns, fraction_bits)
    t, k = layout.rows_per_ciphertext, layout.classes
    offsets = [layout.slot_bits * (r + c * layout.class_stride) for r in range(t) for c in range(k)]
    return CutPlan(tuple(placement(w, bits, offsets, most_open) for w in widths[0]), t, k, columns, fraction_bits)


def reading_schedule(batches: Sequence[IntArray], plan: CutPlan) -> tuple[IntArray | None, ...]:
    """Choose the ciphertexts to read at each step; None where the step's messages are honest.

    A batch whose rows all fit is read as a whole: its honest sums follow. Of a larger one, rows come first that no step
    before has read; once all have been, messages are honest.
    """
    covered = np.zeros(1 + max((int(batch.max()) for batch in batches), default=0), dtype=np.bool_)
    schedule: list[IntArray | None] = []
    for batch in batches:
        count = -(-len(batch) // plan.rows_per_ciphertext)
        unread = np.add.reduceat(~covered[batch], np.arange(0, len(batch), plan.rows_per_ciphertext))
        ciphertexts = np.sort(np.argsort(-unread, kind="stable")[: plan.ciphertexts])
        if count > plan.ciphertexts and not unread.any():
            schedule.append(None)
            continue
        covered[batch[plan.rows_of(ciphertexts, len(batch))]] = True
        schedule.append(ciphertexts)
    return tuple(schedule)


class CutMessages:
    """Asks peers that cut their answers for single residuals, and works out what the party's training goes on with.

    The gradient's sums X^T g follow from the residuals of all rows. Where fewer are read, the rows read stand for the
    batch: s / m X_m^T g_m, which is right on average.
    """

    def __init__(self, plan: CutPlan, batches: Sequence[IntArray], *, rerandomise: bool) -> None:
        self.plan = plan
        self._rerandomise = rerandomise
        self._batches = batches
        self._schedule = reading_schedule(batches, plan)

    def reads(self, step: int) -> bool:
        """Tell whether the messages of a step ask for residuals."""
        return self._schedule[step] is not None

    def rows(self, step: int) -> IntArray:
        """Places in the batch of the rows that a step reads."""
        ciphertexts = self._schedule[step]
        assert ciphertexts is not None  # noqa: S101 - asked for where ``reads`` only
        return self.plan.rows_of(ciphertexts, len(self._batches[step]))

    def combine(self, step: int, features: FloatArray, residuals: CipherVector, columns: ColumnFormats) -> Combination:
        """Combine encrypted residuals to the ciphertexts of an honest product's answers.

        The matrix has the weighted features, then the unit columns of the rows read.
        columns: the formats of the features.
        """
        indices, rows = self._schedule[step], self.rows(step)
        assert indices is not None  # noqa: S101
        answers = [
            one.combine([ciphertexts[i] for i in whole], None if part is None else ciphertexts[part], residuals)
            for ciphertexts in self._planes(residuals)
            for one, whole, part in self._of_answers(indices)
        ]
        # Unpacked answers come feature by feature, each with all its columns.
        ordered = [int(one) for one in np.array(answers, dtype=object).reshape(-1, len(self.plan.placements)).T.ravel()]
        picked = np.zeros((len(features), len(rows)))
        picked[rows, np.arange(len(rows))] = 1
        weighted = features * (picked.sum(axis=1, keepdims=True) * len(features) / len(rows))
        encrypted = replace(
            residuals,
            ciphertexts=tuple(ordered),
            shape=(features.shape[1], *residuals.shape[1:]),
            is_product=True,
            columns=columns,
        )
        return Combination(np.hstack([weighted, picked]), encrypted)

    def mask(self, step: int, combination: Combination) -> Question:
        """Hide the combination as an honest party does; the answer is read residual by residual."""
        masked, mask = mask_vector(combination.encrypted, rerandomise=self._rerandomise)
        return Question(masked, lambda residues: self._read(step, combination.matrix, mask, residues))

    def restricted(self, view: TrainingView, truncating: Sequence[str]) -> TrainingView:
        """Restrict a view to the rows that were read, where a step read some only; on the grid that they were read to.

        truncating: the peers that were asked for residuals. What the others' equations tell is kept for the same rows.
        """
        rows = {own.step: self.rows(own.step) for own in view.steps if self.reads(own.step)}
        partial = {own.step: rows[own.step] for own in view.steps if len(rows.get(own.step, own.rows)) < len(own.rows)}
        equations = (
            one if one.step not in partial else _restricted(one, partial[one.step], truncates=one.peer in truncating)
            for one in view.equations
        )
        return replace(
            view,
            steps=tuple(_own_of(own, partial.get(own.step)) for own in view.steps),
            equations=tuple(one for one in equations if one is not None),
            # Signs don't need it, and whole residuals are better than it.
            share_step=max(view.share_step, self.plan.share_step) if view.role == "active" else view.share_step,
        )

    def _read(self, step: int, matrix: FloatArray, mask: Mask, residues: Sequence[int]) -> FloatArray:
        """Read the sums of the matrix's columns, (D, columns)."""
        plan, ciphertexts, rows = self.plan, self._schedule[step], self.rows(step)
        assert ciphertexts is not None  # noqa: S101
        if len(residues) != len(mask.summands):
            raise InvalidAnswer(f"Expected {len(mask.summands)} residues, got {len(residues)}.")
        planes = plan.columns // plan.classes
        residual_rows = np.zeros((len(ciphertexts) * plan.rows_per_ciphertext, plan.columns))
        for plane in range(planes):
            for answer, (layout, full, part) in enumerate(self._of_answers(ciphertexts)):
                index = answer * planes + plane
                values, leading = layout.read(
                    residues[index], mask.summands[index], mask.public_key.n, has_part=part is not None
                )
                for ciphertext, residuals in zip(full, values, strict=False):
                    self._keep(residual_rows, ciphertexts, ciphertext, plane, residuals)
                if part is not None:
                    self._keep(residual_rows, ciphertexts, part, plane, [leading])
        shares = residual_rows[: len(rows)]
        return matrix[rows].T @ shares

    def _keep(
        self, residual_rows: FloatArray, ciphertexts: IntArray, ciphertext: int, plane: int, residuals: list[int]
    ) -> None:
        plan = self.plan
        first = int(np.searchsorted(ciphertexts, ciphertext)) * plan.rows_per_ciphertext
        values = np.array(residuals, dtype=np.float64) * 2.0**-plan.fraction_bits
        residual_rows[first : first + plan.rows_per_ciphertext, plane : plane + plan.classes] = values.reshape(
            -1, plan.classes
        )

    def _planes(self, residuals: CipherVector) -> list[tuple[int, ...]]:
        """List the ciphertexts of each column, or of all where columns share them."""
        planes = self.plan.columns // self.plan.classes
        return [residuals.ciphertexts[plane::planes] for plane in range(planes)]

    def _of_answers(self, ciphertexts: IntArray) -> list[tuple[AnswerLayout, list[int], int | None]]:
        """(placement, ciphertexts told whole, the one told in part) of each answer."""
        full: list[list[int]] = [[] for _ in self.plan.placements]
        parts: list[int | None] = [None] * len(self.plan.placements)
        for (answer, place), ciphertext in zip(self.plan.slots(), ciphertexts.tolist(), strict=False):
            if place == len(self.plan.placements[answer].shifts):
                parts[answer] = ciphertext
            else:
                full[answer].append(ciphertext)
        return list(zip(self.plan.placements, full, parts, strict=True))


def _own_of(step: OwnStep, rows: IntArray | None) -> OwnStep:
    return step if rows is None else replace(step, rows=step.rows[rows], share=step.share[rows])


def _restricted(equations: Equations, rows: IntArray, *, truncates: bool) -> Equations | None:
    """Equations of some rows only; None where they don't tell these rows' residuals."""
    if truncates:
        return replace(equations, rows=equations.rows[rows], matrix=equations.matrix[rows])
    shares = solve_shares(equations).values
    if shares is None:
        return None
    return replace(equations, rows=equations.rows[rows], matrix=np.eye(len(rows)), sums=shares[rows], steps=None)
