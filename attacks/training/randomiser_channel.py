"""The randomiser channel: a malicious key holder reads features from answers that lack a fresh rho**n.

Ours; no paper has it. In Protocol 1 (Hu) the key holder sends encrypted residuals c_i and gets, per feature,

    answer = prod_i c_i**x_i  times a plaintext mask,      whose randomness is   prod_i r_i**x_i.

The plaintext is hidden, but the r_i were the key holder's choice: with r_i = rho**(base**i) the randomness is
rho**(sum_i x_i base**i). In a group of smooth order its logarithm is easy (Pohlig and Hellman), and the logarithm's
digits are a feature's values in all rows. `phe`'s ``ciphertext + scalar`` masks in this way; rerandomising with a
generator that the key holder supplied is as bad. A fresh rho**n (`vfl.crypto.mask_vector`) closes the channel if
gcd(n, phi(n)) = 1. `vfl.crypto.modulus_proof` makes sure of that, and the keys made here have such a proof.

*What an onlooker sees.* p-1 = 2 t_p (smooth) and q-1 = 2 t_q (smooth), with primes t of one sixteenth of the key's
bits: 128 at 2048. Every ciphertext, read or not, also carries uniform noise of order t_p t_q, which one power removes
from an answer. The noise hides plaintexts and the relation between ciphertexts from those who can't tell elements of
that order from others (we know of no way without the factors). Jacobi symbols are +1 like those of an honest owner, and
Pollard's p-1 method finds neither p nor q. Sizes, counts and plaintexts are honest: training goes on undisturbed.

*Capacity.* One answer tells one integer below the order of the smooth part, all but an eighth of the key's bits. At
2048 bits and 16-bit features in [0, 1] (65,537 values) that is 109 rows, of columns of 0 and 1 some 1,750: the widest
column counts. Larger batches take several steps: see `KeyHolder.choose_rows`. With k classes a row has k ciphertexts:
serve each class by itself, with its own choice of rows, and k times as many are read per step.

*Units.* What is read are whole numbers, in the order in which columns travel. The step of a narrow column never leaves
its party: the largest number that was read of it is taken for the feature 1, as min-max scaling has it.

*Packing must be off.* With packing, an answer of m columns has c_i raised to sum_j x_ij 2**(B j): columns share the
capacity, so that fewer rows are read, and where m slots of B bits exceed the order of the smooth part (they do in the
layouts that `layouts_for` lists first) they wrap around it and take lattice reduction to tell apart. An active party
proposes packing=off; a passive party depends on the session's plan.
"""

import math
import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from gmpy2 import invert, mpz, powmod
from numpy.typing import NDArray

from attacks.base import AttackSpec, Json, Scenario
from attacks.solving.smooth_keys import Logarithms, SmoothKey, smooth_generator
from attacks.training.recovered_values import value_arrays
from attacks.training_attack import HonestFactory, SessionTerms
from attacks.training_views import TrainingView
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.crypto import CipherVector, ColumnFormats, EntryFormat, FixedPoint
from vfl.crypto.kernels.integers import random_unit

_GUARD_BITS = 40  # capacity left empty: a fresh rho**n does so with probability below 2**-40


def _obstacle(scenario: Scenario) -> str:
    if scenario.rerandomise:
        return "is closed: answers carry fresh randomness"
    return "needs ciphertexts of one value each: --no-packing" if scenario.packing else ""


@dataclass(frozen=True)
class RandomiserChannel:
    """The attack as a service mounts it: the party in question uses `key_holder` in place of an honest key.

    Either party can be the adversary: both hold a key and get answers under it. Each reads the other's features.
    """

    name: ClassVar[str] = "randomiser_channel"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="either",
        phase="training",
        needs=(),
        source="ours: the randomness of answers without a fresh rho**n",
        summary="reads the other party's features from the randomness of its answers",
        cost="a key of its own making, minutes of logarithms",
        conduct="replaces_messages",
        obstacle=_obstacle,
    )

    def messages(self, terms: SessionTerms, honest: HonestFactory) -> "ChannelMessages":
        """Make a session's messages under a malicious key; raises ValueError where ciphertexts have several values."""
        if terms.formats.layout is not None:
            raise ValueError(f"{self.name} needs ciphertexts of one value each: packing=off.")
        columns = ColumnFormats(tuple(run for peer in terms.peers for run in terms.formats.of_peer(peer).runs))
        return ChannelMessages(self.key_holder(terms.key_bits, columns.widest), terms, honest)

    def key_holder(self, bits: int, features: EntryFormat | FixedPoint) -> "KeyHolder":
        """Make a fresh malicious key, well formed and of exactly `bits` bits, to read columns up to the agreed format.

        Raises ValueError unless bits is an even number, at least 256.
        """
        return KeyHolder(SmoothKey.generate(bits), features)


@dataclass(frozen=True, eq=False)
class RecoveredReadings:
    """What all answers of a session told.

    Attributes:
        rows: by peer, (m,) which records were read, as sorted indices in the common order.
        values: by peer, (m, d) their features, in the order in which columns travel.
        answers: how many answers there were.
        credible_answers: how many of them can come from features.
        guessed_steps: columns whose unit is a guess: the largest value read counts as 1.
    """

    kind: ClassVar[str] = "readings"
    rows: Mapping[str, IntArray]
    values: Mapping[str, FloatArray]
    answers: int
    credible_answers: int
    guessed_steps: int = 0

    def facts(self) -> Mapping[str, Json]:
        """Tell how many answers there were, how many told anything, and how many columns were read up to a unit."""
        return {
            "answers": self.answers,
            "credible_answers": self.credible_answers,
            "guessed_steps": self.guessed_steps,
        }

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give rows and values of every peer."""
        return value_arrays(self.values, self.rows)


class ChannelMessages:
    """Residuals encrypted so that answers tell the peers' features, under a key made for it; the rest is honest."""

    def __init__(self, holder: "KeyHolder", terms: SessionTerms, honest: HonestFactory) -> None:
        self._holder, self._terms = holder, terms
        self._honest = honest(holder.private_key)
        self._readings: dict[str, dict[int, IntArray]] = {}
        self._rows_to_read: dict[int, tuple[int, ...]] = {}
        self._answers = self._credible_answers = 0
        self.private_key = holder.private_key
        self.combine = self._honest.combine
        self.mask = self._honest.mask

    def encrypt(self, step: int, residual: FloatArray) -> CipherVector:
        """Encrypt the residuals; the randomness of some rows makes them readable."""
        records = set.intersection(*(set(rows) for rows in self._readings.values())) if self._readings else set[int]()
        rows = self._holder.choose_rows(self._terms.batches[step].tolist(), records)
        self._rows_to_read[step] = rows
        fixed_point = self._terms.formats.residual
        encoded = fixed_point.encode(residual, inclusive=False)
        # The first column of the residual carries the channel; the others are honest.
        columns = [
            self._holder.encrypt(encoded[:, column].tolist(), rows if column == 0 else ())
            for column in range(encoded.shape[1])
        ]
        ciphertexts = tuple(value for row in zip(*columns, strict=True) for value in row)
        return CipherVector(self.private_key.public_key, ciphertexts, fixed_point.exponent, residual.shape)

    def answer(self, step: int, peer: str, sums: CipherVector) -> tuple[int, ...]:
        """Answer honestly, and read the peer's features off its question."""
        residues = self._honest.answer(step, peer, sums)
        rows = self._rows_to_read[step]
        reading = self._holder.read(sums.ciphertexts[:: self._terms.formats.columns], rows)
        self._answers += len(reading.credible)
        self._credible_answers += int(reading.credible.sum())
        if reading.credible.all():
            records = self._readings.setdefault(peer, {})
            for row, values in zip(rows, reading.integers, strict=True):
                records[int(self._terms.batches[step][row])] = values
        return residues

    def result(self, view: TrainingView) -> RecoveredReadings:
        """Give what was read of every peer; the view's equations add nothing to it."""
        rows, values = {}, {}
        for peer, features in self._terms.peers.items():
            records = self._readings.get(peer, {})
            rows[peer] = np.array(sorted(records), dtype=np.int64)
            integers = np.array([records[row] for row in sorted(records)], dtype=np.int64).reshape(
                len(records), features
            )
            values[peer] = integers * self._steps(peer, integers)
        guessed_steps = sum(widths.binary + widths.byte for widths in self._terms.formats.peer_widths.values())
        return RecoveredReadings(rows, values, self._answers, self._credible_answers, guessed_steps)

    def _steps(self, peer: str, integers: IntArray) -> FloatArray:
        """Tell what one step of each of a peer's columns is thought to be worth."""
        formats = self._terms.formats
        full = formats.peer_widths[peer].full
        narrow = 1.0 / np.maximum(integers.max(axis=0, initial=1)[: integers.shape[1] - full], 1)
        return np.concatenate([narrow, np.full(full, 2.0**-formats.feature.fraction_bits)])


@dataclass(frozen=True, eq=False)
class AnswerReading:
    """What one round of answers told.

    Attributes:
        integers: (rows, features) encoded features, each in [-offset, bound] of the agreed format.
        credible: (features,) whether an answer's logarithm is one that features can give. An answer with a fresh
            rho**n passes with probability below 2**-40; where False, that column of `integers` is no better than
            guessing.
    """

    integers: IntArray
    credible: BoolArray


class KeyHolder:
    """A key holder who chooses the randomness of what it encrypts, and reads that of what comes back.

    Per step: `choose_rows`, `encrypt` the residuals, `read` each peer's masked sums before (or after) decrypting them
    with `private_key` like an honest party.
    """

    def __init__(self, key: SmoothKey, features: EntryFormat | FixedPoint) -> None:
        self.private_key = key.private_key
        self._offset = features.offset
        self._base = features.bound + features.offset + 1  # how many values an entry can have
        self._n = mpz(key.private_key.public_key.n)
        self._n_squared = self._n**2
        self._order = mpz(math.prod(key.p.factors) * math.prod(key.q.factors))
        guarded = self._order >> _GUARD_BITS
        # How many rows one step can read: three at least, in the smallest key and the widest format.
        self.capacity = next(rows for rows in range(guarded.bit_length() + 1) if self._base ** (rows + 1) > guarded)

        # One shift per row read, each the base-th power of the one before: an answer's digits, lowest first.
        self._shifts = [powmod(smooth_generator(key), self._n, self._n_squared)]
        for _ in range(1, self.capacity):
            self._shifts.append(powmod(self._shifts[-1], self._base, self._n_squared))
        self._logarithms = [Logarithms(part, self._shifts[0]) for part in (key.p, key.q)]
        self._lift = [self._order // r * invert(self._order // r, r) for part in (key.p, key.q) for r in part.factors]
        self._noise_order = key.p.hiding * key.q.hiding
        rest = (key.p.prime - 1) * (key.q.prime - 1) // self._noise_order
        self._noise = powmod(random_unit(int(self._n)), self._n * rest, self._n_squared)

    def choose_rows(self, records: Sequence[int], exclude: Collection[int]) -> tuple[int, ...]:
        """Choose rows of a batch to read: the first ones whose records aren't known yet, at most `capacity`."""
        return tuple(row for row, record in enumerate(records) if record not in exclude)[: self.capacity]

    def encrypt(self, residual: Sequence[int], rows_to_read: Sequence[int]) -> tuple[int, ...]:
        """Encryptions of the encoded residual, one per row, that let `read` read these rows.

        Raises ValueError for more rows than `capacity`, for a row that comes twice or isn't in the batch.
        """
        self._check_rows(rows_to_read)
        if not all(0 <= row < len(residual) for row in rows_to_read):
            raise ValueError(f"Expected rows of a batch of {len(residual)}, got {list(rows_to_read)}.")
        ciphertexts = [self._encrypt_noisily(int(value)) for value in residual]
        for row, shift in zip(rows_to_read, self._shifts, strict=False):  # there may be fewer rows than shifts
            ciphertexts[row] = ciphertexts[row] * shift % self._n_squared
        return tuple(int(ciphertext) for ciphertext in ciphertexts)

    def read(self, answers: Sequence[int], rows_to_read: Sequence[int]) -> AnswerReading:
        """Read the features of these rows, from one answer per feature; masks in the plaintext don't matter.

        Raises ValueError for more rows than `capacity`, or a row that comes twice.
        """
        self._check_rows(rows_to_read)
        integers = np.zeros((len(rows_to_read), len(answers)), dtype=np.int64)
        credible = np.zeros(len(answers), dtype=np.bool_)
        # Negative entries stand in the logarithm as they are: the public offset makes digits of them.
        offsets = sum(self._offset * self._base**i for i in range(len(rows_to_read)))
        for feature, answer in enumerate(answers):
            digits = (self._logarithm(answer) + offsets) % self._order
            for i in range(len(rows_to_read)):
                digits, digit = divmod(digits, self._base)
                integers[i, feature] = int(digit) - self._offset
            credible[feature] = digits == 0
        return AnswerReading(integers, credible)

    def _check_rows(self, rows_to_read: Sequence[int]) -> None:
        if len(rows_to_read) > self.capacity:
            raise ValueError(f"One step reads at most {self.capacity} rows, got {len(rows_to_read)}: use choose_rows.")
        if len(set(rows_to_read)) < len(rows_to_read):
            raise ValueError("A row to read comes twice.")

    def _encrypt_noisily(self, plaintext: int) -> mpz:
        noise = powmod(self._noise, secrets.randbelow(self._noise_order), self._n_squared)
        return (1 + plaintext % self._n * self._n) * noise % self._n_squared

    def _logarithm(self, answer: int) -> mpz:
        """Find the logarithm of an answer's randomness, modulo the order of the smooth part (Chinese remainders)."""
        residues = [residue for part in self._logarithms for residue in part.of(answer)]
        return sum((a * b for a, b in zip(residues, self._lift, strict=True)), mpz(0)) % self._order
