"""What an adversary puts in place of a party's honest cipher: it remembers what it saw, or replaces its own messages.

A cipher makes all of a party's messages of Protocol 1 and reads all answers, so nothing else has to be hooked and an
honest run has no trace of this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attacks.auxiliary_ciphertext import AuxiliaryCiphertext, AuxiliaryPlan, PackedPlan, compress, extend, split
from attacks.randomiser_channel import RandomiserChannel
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.protocol1.cipher import Cipher, DecryptedVector, PaillierCipher, Protect, Unmask, WireVector
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import (
    CipherVector,
    PrivateKey,
    from_bytes,
    mask_vector,
    matvec,
)


@dataclass
class Transcript:
    """What one party computed and got in a training: its shares by step, and each peer's sums with their matrix."""

    shares: dict[int, FloatArray] = field(default_factory=dict)
    sums: dict[tuple[int, str], tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    @property
    def step(self) -> int:
        """The step at work: residuals are encrypted once per step, first of all."""
        return len(self.shares) - 1

    def begin_step(self, share: FloatArray) -> None:
        self.shares[len(self.shares)] = share


class RecordingCipher:
    """Honest but curious: the same messages as the cipher inside, and a transcript of what this party sees anyway."""

    def __init__(self, inner: Cipher, transcript: Transcript) -> None:
        self._inner = inner
        self._transcript = transcript
        self.public_key = inner.public_key
        self.accept_key = inner.accept_key
        self.check_residuals = inner.check_residuals
        self.decrypt = inner.decrypt

    def encrypt(self, residual: FloatArray) -> WireVector:
        self._transcript.begin_step(residual)
        return self._inner.encrypt(residual)

    def combine(self, peer: str, features: FloatArray, vector: WireVector) -> object:
        return features, self._inner.combine(peer, features, vector)

    def mask(self, peer: str, combination: object) -> tuple[WireVector, Unmask]:
        assert isinstance(combination, tuple)  # noqa: S101 - narrows what combine() returned
        features, inner = combination
        step = self._transcript.step
        masked, unmask = self._inner.mask(peer, inner)

        def recorded(answer: DecryptedVector) -> FloatArray:
            sums = unmask(answer)
            self._transcript.sums[step, peer] = (features, sums)
            return sums

        return masked, recorded


@dataclass(frozen=True)
class _Question:
    """An extended product on its way to be masked."""

    step: int
    matrix: FloatArray
    sums: CipherVector


class AuxiliaryCipher(PaillierCipher):
    """Algorithm 2: extends its features with random ones and hides their sums in the honest number of ciphertexts.

    Where the session packs, they go into the slots that an honest answer leaves free. A peer that truncates its answers
    gives the honest sums only, and this adversary knows it.
    """

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        protect: Protect,
        attack: AuxiliaryCiphertext,
        transcript: Transcript,
    ) -> None:
        super().__init__(agreement, name, protect)
        self._attack = attack
        self._transcript = transcript
        common = {
            "key_bits": agreement.plan.key_bits,
            "features": agreement.party(name).feature_count,
            "rows": agreement.plan.batch_size,
        }
        self._auxiliary: AuxiliaryPlan | PackedPlan
        if self._layout is not None:
            self._auxiliary = attack.packed_plan(**common, layout=self._layout)
        else:
            self._auxiliary = attack.plan(
                **common, residual_format=self._residual_format, feature_format=self._feature_format
            )

    def encrypt(self, residual: FloatArray) -> WireVector:
        self._transcript.begin_step(residual)
        return super().encrypt(residual)

    def combine(self, peer: str, features: FloatArray, vector: WireVector) -> Any:
        step = self._transcript.step
        if self._formats.answer_bits(peer, self._name) is not None:
            return _Question(step, features, super().combine(peer, features, vector))
        matrix = extend(features, self._auxiliary, self._feature_format, self._attack.generator(step))
        if isinstance(self._auxiliary, PackedPlan):
            residuals = replace(self._residuals_of(peer, len(features), vector), layout=self._auxiliary.layout)
            return _Question(step, matrix, matvec(matrix, residuals, features=self._feature_format))
        return _Question(step, matrix, compress(super().combine(peer, matrix, vector), self._auxiliary))

    def mask(self, peer: str, combination: object) -> tuple[WireVector, Unmask]:
        assert isinstance(combination, _Question)  # noqa: S101 - narrows what combine() returned
        if self._formats.answer_bits(peer, self._name) is not None or isinstance(self._auxiliary, PackedPlan):
            masked, unmask = super().mask(peer, combination.sums)
            return masked, lambda answer: self._keep(peer, combination, unmask(answer))
        auxiliary = self._auxiliary
        compressed, mask = mask_vector(combination.sums, rerandomise=self._agreement.plan.rerandomise)

        def unmask_answer(answer: DecryptedVector) -> FloatArray:
            try:
                sums = split(mask, from_bytes(answer.data, answer.count, answer.width), auxiliary)
            except ValueError as error:
                raise InvalidMessage(str(error)) from error
            return self._keep(peer, combination, sums)

        return self._to_wire(compressed), unmask_answer

    def _keep(self, peer: str, question: _Question, sums: FloatArray) -> FloatArray:
        self._transcript.sums[question.step, peer] = (question.matrix, sums)
        # The honest part comes first, so that training goes on unchanged.
        return sums[: self._auxiliary.features]


class ChannelCipher(PaillierCipher):
    """The randomiser channel: a key made for reading the randomness of answers, and residuals encrypted accordingly."""

    def __init__(
        self, agreement: Agreement, name: str, protect: Protect, attack: RandomiserChannel, transcript: Transcript
    ) -> None:
        self._channel = attack
        self._transcript = transcript
        self.readings: dict[str, dict[int, FloatArray]] = {}
        self.answers = 0
        self.credible_answers = 0
        self.rows_of_step: Mapping[int, IntArray] = {}
        self._rows_to_read: dict[int, tuple[int, ...]] = {}
        super().__init__(agreement, name, protect)

    def _make_key(self, bits: int) -> PrivateKey:
        self._holder = self._channel.key_holder(bits, self._feature_format)
        return self._holder.private_key

    def encrypt(self, residual: FloatArray) -> WireVector:
        self._transcript.begin_step(residual)
        step = self._transcript.step
        known = set.intersection(*(set(rows) for rows in self.readings.values())) if self.readings else set[int]()
        rows = self._holder.choose_rows(self.rows_of_step[step].tolist(), known)
        self._rows_to_read[step] = rows
        encoded = self._residual_format.encode(self._protect(residual), inclusive=False)
        # The first column of the residual carries the channel; the others are honest.
        columns = [
            self._holder.encrypt(encoded[:, column].tolist(), rows if column == 0 else ())
            for column in range(encoded.shape[1])
        ]
        ciphertexts = tuple(value for row in zip(*columns, strict=True) for value in row)
        return self._to_wire(
            CipherVector(self._public_key, ciphertexts, self._residual_exponent, residual.shape, self._layout)
        )

    def decrypt(self, peer: str, step: int, vector: WireVector) -> DecryptedVector:
        answer = super().decrypt(peer, step, vector)
        rows = self._rows_to_read[step]
        reading = self._holder.read(from_bytes(vector.data, vector.count, vector.width)[:: self._columns], rows)
        self.answers += len(reading.credible)
        self.credible_answers += int(reading.credible.sum())
        if reading.credible.all():
            known = self.readings.setdefault(peer, {})
            for row, values in zip(rows, reading.integers, strict=True):
                known[int(self.rows_of_step[step][row])] = values * 2.0**-self._feature_format.fraction_bits
        return answer
