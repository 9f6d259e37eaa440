"""The auxiliary ciphertext: more equations per answer than a party has features (Hu, Algorithm 2, eq. 36-39).

An active adversary multiplies the encrypted residuals by u d features instead of d, most of them random, and packs the
u d sums into the d ciphertexts that the key holder expects:

    Z = extend(X, u)                         (s, u d), the honest features first
    E = matvec(Z, residuals)                 u d ciphertexts, not packed
    S = compress(E, d)                       d ciphertexts, E[i + j d] at 2^(j iota)
    masked, mask = mask_vector(S)            uniform, like the honest answer: same count, same width
    sums = split(mask, residues)             (u d, columns); its first d rows are the honest answer

The key holder sees nothing: every masked plaintext is uniform modulo n whatever lies beneath (``mask_vector``).

Slots. Hu splits a plaintext as if every sum were in [0, 2^iota). Sums are signed: slots are read in two's complement,
by adding 2^(iota-1) to each of them first. And a sum of s products takes log2(s) bits more than one product, so iota
must cover ``vfl.theory.training.sum_bits``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from gmpy2 import mpz, powmod

from attacks.base import AttackSpec
from attacks.training.feature_order import FeatureOrder, RecoveredFeatures
from attacks.training.label_recovery import LabelRecovery
from attacks.training.recovered_labels import RecoveredLabels
from attacks.training.truncated_answers import CutMessages, CutPlan, cut_plan
from attacks.training_attack import HonestFactory, SessionTerms
from attacks.training_views import TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import (
    BINARY,
    CipherVector,
    ColumnFormats,
    EntryFormat,
    FixedPoint,
    InvalidAnswer,
    LayoutMismatch,
    Mask,
    PackingLayout,
    mask_vector,
    matvec,
)
from vfl.crypto.fixed_point import decode
from vfl.crypto.messages import Combination, Question
from vfl.theory.training import copies, solvable, sum_bits

# Keeps the random features apart from whatever else is drawn from the same seed: equal streams would cost rank.
_STREAM = 0xA0C1


class NotPossible(ValueError):
    """Algorithm 2 can't work with these numbers; the message has them, and what would."""


@dataclass(frozen=True)
class AuxiliaryPlan:
    """How answers are extended in one session.

    Attributes:
        features: d, honest.
        copies: u.
        iota: bits per sum.
    """

    features: int
    copies: int
    iota: int

    @property
    def equations(self) -> int:
        """u d: equations per step and peer."""
        return self.features * self.copies


@dataclass(frozen=True)
class PackedPlan:
    """How packed answers are filled in one session: as many columns per answer as the plaintext holds.

    Attributes:
        features: d, honest.
        columns: of all sums per step and peer, the honest ones first.
        layout: the session's, with more room per answer.
    """

    features: int
    columns: ColumnFormats
    layout: PackingLayout

    @property
    def equations(self) -> int:
        """Sums per step and peer."""
        return self.columns.total


@dataclass(frozen=True)
class AuxiliaryCiphertext:
    """Algorithm 2, for either party: its messages, then the oracle attacks on the u d equations of each step.

    Attributes:
        iota: bits per sum. The paper's 64 holds the sums of up to 256 rows of features within [-1, 1] in this project's
            fixed point.
        seed: of the random features. They need no secrecy, the mask hides them.
        most_copies: an upper limit for u, None for as many as the key holds. The product costs u times the honest one,
            and wide parties need few: 2 suffice for half of MNIST at 256 rows.
        squared_norm: as ``LabelRecovery`` has it.
        largest_share: what a single party's |theta^T x| is assumed to stay below, where answers are truncated; initial
            weights keep it below 2. A larger one makes residuals longer and fewer.
    """

    iota: int = 64
    seed: int = 0
    most_copies: int | None = None
    squared_norm: float = 1.0
    largest_share: float = 2.0

    name: ClassVar[str] = "auxiliary_ciphertext"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="either",
        phase="training",
        needs=("equations",),
        source="Hu, section 5.2, Algorithm 2",
        learners=("linear",),
        summary="asks for spare equations inside honest answers, and solves for every residual and label",
        cost="nothing that shows in messages; of cut answers its own part learns from the few records that it read",
        conduct="replaces_messages",
    )

    def messages(self, terms: SessionTerms, honest: HonestFactory) -> "AuxiliaryMessages":
        """Make Algorithm 2's messages of one session; raises NotPossible under terms that it can't work with.

        Peers that cut their answers are asked for single residuals. Where these don't help, they get honest messages,
        and the result says why.
        """
        if not self.largest_share > 0:
            raise ValueError(f"Expected largest_share > 0, got {self.largest_share}.")
        if all(bits is not None for bits in terms.formats.asked_bits.values()):
            return AuxiliaryMessages(self, None, terms, honest)
        return AuxiliaryMessages(self, self._plan_for(terms), terms, honest)

    def _plan_for(self, terms: SessionTerms) -> "AuxiliaryPlan | PackedPlan":
        formats = terms.formats
        if formats.layout is not None:
            return self.packed_plan(
                key_bits=terms.key_bits, features=formats.own, rows=terms.batch_size, layout=formats.layout
            )
        return self.plan(
            key_bits=terms.key_bits,
            features=terms.features,
            rows=terms.batch_size,
            residual_format=formats.residual,
            feature_format=formats.feature,
        )

    def attack(self, view: TrainingView) -> RecoveredLabels | RecoveredFeatures:
        """Read what the extended equations tell: labels to a passive party, single features to the active one."""
        if view.role == "passive":
            return LabelRecovery(squared_norm=self.squared_norm).attack(view)
        return FeatureOrder().attack(view)

    def plan(
        self, *, key_bits: int, features: int, rows: int, residual_format: FixedPoint, feature_format: FixedPoint
    ) -> AuxiliaryPlan:
        """u for one session, from public numbers. rows: s of the largest batch; features: d, the adversary's own.

        Raises NotPossible when iota doesn't hold a sum of s products, or s > u d.
        """
        needed = sum_bits(rows, residual_format.bound, feature_format.bound)
        if self.iota < needed:
            raise NotPossible(
                f"A sum of {rows} products takes {needed} bits, iota has {self.iota}: set iota to {needed} or more."
            )
        u = min(copies(key_bits, self.iota), self.most_copies or key_bits)
        if not solvable(rows, features, u):
            raise NotPossible(
                f"Batches of {rows} rows have more unknowns than u d = {u} * {features} = {u * features} equations "
                f"at {key_bits} bits, iota {self.iota} and most_copies {self.most_copies}."
            )
        return AuxiliaryPlan(features, u, self.iota)

    def packed_plan(self, *, key_bits: int, features: ColumnFormats, rows: int, layout: PackingLayout) -> PackedPlan:
        """Plan for packing: honest answers leave room for more columns, which random features fill.

        Raises NotPossible where several rows or classes share a ciphertext, or there is room for fewer sums than rows.
        """
        if layout.rows_per_ciphertext > 1 or layout.classes > 1:
            raise NotPossible("Several residuals share a ciphertext here: no single one can be combined.")
        filled = replace(layout, columns_per_answer=(key_bits - 2) // layout.slot_bits)
        spare = filled.room_beside(features, BINARY, answers=layout.answers_for(features))
        columns = ColumnFormats((*features.runs, (BINARY, spare))) if spare else features
        if not solvable(rows, columns.total):
            raise NotPossible(
                f"Batches of {rows} rows have more unknowns than the {columns.total} sums that answers hold."
            )
        return PackedPlan(features.total, columns, filled)

    def generator(self, step: int) -> np.random.Generator:
        """Make the source of a step's random features; the same for every peer, so one decomposition serves all."""
        return np.random.default_rng((_STREAM, self.seed, step))


class AuxiliaryMessages:
    """Extends its features with random ones and hides their sums in the honest number of ciphertexts.

    Where the session packs, they go into the slots that an honest answer leaves free. A peer that truncates its answers
    is asked for single residuals. The label party, who wants products of whole batches, sends it honest messages where
    its answers tell a part of a batch only.
    """

    def __init__(
        self,
        attack: AuxiliaryCiphertext,
        plan: AuxiliaryPlan | PackedPlan | None,
        terms: SessionTerms,
        honest: HonestFactory,
    ) -> None:
        self._attack, self._plan, self._formats, self._terms = attack, plan, terms.formats, terms
        self._truncating = sorted(peer for peer, bits in terms.formats.asked_bits.items() if bits is not None)
        cut = cut_plan(terms, attack.largest_share)
        self._told = 0 if cut is None else cut.rows
        self._cut = self._cut_messages(cut, terms)
        self._honest = honest()
        self.private_key = self._honest.private_key
        self.encrypt = self._honest.encrypt
        self.answer = self._honest.answer

    @staticmethod
    def _cut_messages(plan: CutPlan | None, terms: SessionTerms) -> CutMessages | None:
        if plan is None or (terms.role == "active" and plan.rows < terms.batch_size):
            return None
        return CutMessages(plan, terms.batches, rerandomise=terms.formats.rerandomise)

    def combine(self, step: int, peer: str, features: FloatArray, residuals: CipherVector) -> Combination:
        """Multiply the residuals by the extended features, or pick single ones."""
        if peer in self._truncating:
            if self._cut is None or not self._cut.reads(step):
                return self._honest.combine(step, peer, features, residuals)
            return self._cut.combine(step, features, residuals, self._formats.own)
        assert self._plan is not None  # noqa: S101 - made where any peer answers modulo n
        generator = self._attack.generator(step)
        if isinstance(self._plan, PackedPlan):
            matrix = fill(features, self._plan, generator)
            filled = replace(residuals, layout=self._plan.layout)
            return Combination(matrix, matvec(matrix, filled, columns=self._plan.columns))
        runs, full = self._formats.own, self._formats.full
        random = random_columns(len(features), full, self._plan.equations - self._plan.features, generator)
        matrix = np.hstack([features, random])
        columns = ColumnFormats((*runs.runs, (full, random.shape[1]))) if random.size else runs
        return Combination(matrix, compress(matvec(matrix, residuals, columns=columns), self._plan))

    def mask(self, step: int, peer: str, combination: Combination) -> Question:
        """Hide the sums as an honest party does; the answer is read slot by slot."""
        plan = self._plan
        if peer in self._truncating:
            if self._cut is None or not self._cut.reads(step):
                return self._honest.mask(step, peer, combination)
            return self._cut.mask(step, combination)
        if plan is None or isinstance(plan, PackedPlan):
            return self._honest.mask(step, peer, combination)
        masked, mask = mask_vector(combination.encrypted, rerandomise=self._formats.rerandomise)
        return Question(masked, lambda residues: split(mask, residues, plan))

    def result(self, view: TrainingView) -> RecoveredLabels | RecoveredFeatures:
        """Say what the equations tell. Where nothing follows since peers cut their answers, it says so."""
        if self._cut is None:
            recovered = self._attack.attack(view)
            return replace(recovered, reason=self._refusal) if recovered.reason and self._truncating else recovered
        recovered = self._attack.attack(self._cut.restricted(view, self._truncating))
        return recovered.over(view) if isinstance(recovered, RecoveredLabels) else recovered

    @property
    def _refusal(self) -> str:
        names, single = " and ".join(self._truncating), len(self._truncating) == 1
        return (
            f"Not possible: {names} {'cuts its' if single else 'cut their'} answers to their honest width, which tells "
            f"the shares of {self._told} rows, and a batch has {self._terms.batch_size}: a peer's feature follows from "
            f"whole batches. Set truncate_answers=false at {names} (INSECURE) to study it."
        )


def extend(
    features: FloatArray, plan: AuxiliaryPlan, feature_format: FixedPoint, generator: np.random.Generator
) -> FloatArray:
    """Z = (X | random): (s, d) to (s, u d), the random part uniform on the grid of ``feature_format``.

    On the grid, so that the product's integers are exact; within the format's bound, so that the product takes the same
    digits as the honest one. The paper's continuous distribution is this up to 2^-fraction_bits.
    Raises NotPossible when X doesn't have d columns.
    """
    rows, columns = features.shape
    if columns != plan.features:
        raise NotPossible(f"The plan was made for {plan.features} features, got {columns}.")
    random = random_columns(rows, feature_format.entries, plan.equations - columns, generator)
    return np.hstack([features, random * 2.0**-feature_format.fraction_bits])


def fill(features: FloatArray, plan: PackedPlan, generator: np.random.Generator) -> FloatArray:
    """Z = (features | random zeros and ones): (s, d) whole numbers to (s, D), so many as the answers have room for."""
    return np.hstack([features, random_columns(len(features), BINARY, plan.equations - plan.features, generator)])


def random_columns(rows: int, entries: EntryFormat, count: int, generator: np.random.Generator) -> IntArray:
    """Draw (rows, count) entries uniformly from a format, so that the product takes the digits of the format."""
    return generator.integers(-entries.offset, entries.bound, size=(rows, count), endpoint=True)


def compress(product: CipherVector, plan: AuxiliaryPlan) -> CipherVector:
    """Hu eq. 37: u d ciphertexts per column of the residual to d, E[i + j d] moved up by j iota bits and added.

    By Horner's rule: (u - 1) iota squarings modulo n^2 per answer. The result passes for an honest product.
    Raises LayoutMismatch for anything but an unpacked product of u d rows; NotPossible when u iota bits don't fit.
    """
    if product.layout is not None or not product.is_product or product.shape[0] != plan.equations:
        raise LayoutMismatch(
            f"Expected an unpacked product of {plan.equations} features, got {product.shape=}: set packing=off."
        )
    key = product.public_key
    if plan.copies > copies(key.bits, plan.iota):
        raise NotPossible(f"{plan.copies} sums of {plan.iota} bits don't fit a {key.bits}-bit key.")
    width = len(product.ciphertexts) // plan.copies
    modulus, shift = mpz(key.n_squared), mpz(1) << plan.iota
    answers = []
    for place in range(width):
        answer = mpz(1)
        for ciphertext in product.ciphertexts[place::width][::-1]:
            answer = powmod(answer, shift, modulus) * ciphertext % modulus
        answers.append(int(answer))
    return replace(product, ciphertexts=tuple(answers), shape=(plan.features, *product.shape[1:]))


def split(mask: Mask, residues: Sequence[int], plan: AuxiliaryPlan) -> FloatArray:
    """Take the mask off and read the slots: all sums, (u d, columns), the honest ones first (Algorithm 2, line 9).

    Exact integers, each as the nearest float64.
    Raises InvalidAnswer for a wrong number of residues, one outside [0, n), or one that no compressed product gives.
    """
    n = mask.public_key.n
    if len(residues) != len(mask.summands):
        raise InvalidAnswer(f"Expected {len(mask.summands)} residues, got {len(residues)}.")
    half, bits = 1 << (plan.iota - 1), plan.iota
    offset = sum(half << bits * slot for slot in range(plan.copies))
    by_slot: list[list[int]] = [[] for _ in range(plan.copies)]
    for index, (residue, summand) in enumerate(zip(residues, mask.summands, strict=True)):
        lifted = (residue - summand + offset) % n
        if not 0 <= residue < n or lifted >> bits * plan.copies:
            raise InvalidAnswer(f"Residue {index} is none that a compressed product gives: wrong key, mask or answer.")
        for slot, sums in enumerate(by_slot):
            sums.append((lifted >> bits * slot & (1 << bits) - 1) - half)
    values = decode([value for sums in by_slot for value in sums], mask.exponent)
    return values.reshape(plan.equations, -1)
