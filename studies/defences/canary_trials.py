"""Trainings with a canary: two parties, ``dp_noise`` at the label party, and one record whose label is 0 or 1.

The passive party is the adversary. What it has of a record is the label party's noisy share of it, once per epoch. Each
training is a trial: ``on_the_wire`` runs both parties' Protocol 1 under Paillier, in one process, and solves the sums
that the passive party reads. ``simulated`` gives the same numbers, bit for bit, of many trials at once.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attacks.training_views import Equations, solve_shares
from defences import NoiseSource
from defences.dp_noise import DpNoise
from services.adversary.ciphers import RecordingCipher, Transcript
from services.common.agreement import Agreement, TrainingPlan
from services.common.meters import StageTimer
from services.party.features import description_of
from services.party.party_defences import PartyDefences
from services.party.party_training import PartyTraining, TrainingMeans
from services.protocol1.cipher import Cipher, make_cipher
from services.protocol1.outgoing import OutgoingVector
from services.protocol1.vectors import DecryptedVector, PublicKeyShown, WireVector
from vfl.arrays import FloatArray, IntArray
from vfl.data import GriddedFeatures
from vfl.data.encoders import rows_to_unit_norm
from vfl.learning import BatchSchedule, ResidualScheme, initial_weights

ACTIVE, PASSIVE = "active", "passive"
_ROWS, _ACTIVE_FEATURES, _PASSIVE_FEATURES = 16, 4, 4
CANARY = 0
_TABLE_STREAM, _WEIGHT_STREAM = 0xCA0A, 0xCA0B
_FEATURE_BITS, _RESIDUAL_BITS, _INTEGER_BITS = 16, 32, 14


@dataclass(frozen=True)
class CanarySession:
    """The terms of every trial.

    Attributes:
        sigma: of the noise on the label party's shares.
        epochs: e, how often the canary's share is seen.
        batch_size: s, at most the passive party's four features: its sums then tell the shares.
        learning_rate: of training.
    """

    sigma: float
    epochs: int = 3
    batch_size: int = 4
    learning_rate: float = 0.1

    @cached_property
    def blocks(self) -> tuple[GriddedFeatures, GriddedFeatures]:
        """Features of the label party, its constant last, and of the other: rows of unit norm over both."""
        generator = np.random.default_rng(_TABLE_STREAM)
        table = generator.uniform(size=(_ROWS, _ACTIVE_FEATURES - 1 + _PASSIVE_FEATURES))
        # An intercept of 1/2 leaves the others a squared norm of 3/4.
        table = np.hstack([np.sqrt(0.75) * rows_to_unit_norm(table), np.full((_ROWS, 1), 0.5)])
        own = [*range(_ACTIVE_FEATURES - 1), table.shape[1] - 1]
        return GriddedFeatures.of(table[:, own], _FEATURE_BITS), GriddedFeatures.of(
            np.delete(table, own, axis=1), _FEATURE_BITS
        )

    @cached_property
    def batches(self) -> tuple[IntArray, ...]:
        """Rows of every step."""
        schedule = BatchSchedule(np.arange(_ROWS), self.batch_size, self._plan(2048).seed)
        return tuple(batch for epoch in range(self.epochs) for batch in schedule.epoch(epoch))

    def labels(self, world: int) -> IntArray:
        """Labels of all rows; the canary's is the world's."""
        labels = np.arange(_ROWS) % 2
        labels[CANARY] = world
        return labels

    def agreement(self, key_bits: int) -> Agreement:
        """The session's public terms."""
        parties = tuple(description_of(name, block) for name, block in zip((ACTIVE, PASSIVE), self.blocks, strict=True))
        return Agreement("canary", self._plan(key_bits), 2, parties)

    def weights(self, name: str) -> np.random.Generator:
        """What a party draws its initial weights from: the same in every trial."""
        return np.random.default_rng((_WEIGHT_STREAM, name == ACTIVE))

    def noise(self, seeds: Sequence[int]) -> FloatArray:
        """Standard normal noise of whole trainings, (trials, steps, s), as ``dp_noise`` draws it from each seed."""
        shape = (len(self.batches), self.batch_size)
        return np.array([NoiseSource(seed).gaussian(shape) for seed in seeds])

    def _plan(self, key_bits: int) -> TrainingPlan:
        return TrainingPlan(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learner_options={"learning_rate": self.learning_rate},
            validation_fraction=0.0,
            test_fraction=0.0,
            key_bits=key_bits,
            residual_integer_bits=_INTEGER_BITS,
        )


def simulated(session: CanarySession, world: int, seeds: Sequence[int]) -> FloatArray:
    """The canary's shares that the passive party reads, (trials, epochs): one training per seed of the noise."""
    (own_grids, other_grids), scheme = session.blocks, ResidualScheme(2)
    own, other = own_grids.values, other_grids.values
    signs = 2.0 * session.labels(world) - 1.0
    active, passive = (
        np.tile(
            initial_weights(
                "xavier",
                block.shape[1],
                1,
                total_features=own.shape[1] + other.shape[1],
                generator=session.weights(name),
            )[:, 0],
            (len(seeds), 1),
        )
        for name, block in ((ACTIVE, own), (PASSIVE, other))
    )
    noise, seen = session.noise(seeds), []
    for step, rows in enumerate(session.batches):
        mine, theirs = active @ own[rows].T - 2.0 * signs[rows], passive @ other[rows].T
        noisy = _on_grid(mine + session.sigma * noise[:, step])
        scale = session.learning_rate * scheme.gradient_scale(len(rows))
        if CANARY in rows:
            seen.append(noisy[:, rows == CANARY][:, 0] * 2.0**-_RESIDUAL_BITS)
        active = active - scale * (mine @ own[rows] + _sums(_on_grid(theirs), own_grids, rows))
        passive = passive - scale * (theirs @ other[rows] + _sums(noisy, other_grids, rows))
    return np.array(seen).T


def _on_grid(shares: FloatArray) -> IntArray:
    return np.rint(shares * 2.0**_RESIDUAL_BITS).astype(np.int64)


def _sums(shares: IntArray, gridded: GriddedFeatures, rows: IntArray) -> FloatArray:
    """What a party makes of decrypted sums: exact ones of integers, each as the nearest float64, times its scales."""
    exact = shares @ gridded.integers_of(gridded.values[rows]).astype(np.int64)
    return gridded.restore((exact.astype(np.float64) * 2.0**-_RESIDUAL_BITS).T).T


# --- the wire ------------------------------------------------------------------------------------------------------


class _PeerInProcess:
    """The other end of Protocol 1 in the same process."""

    def __init__(self, sender: str, trainings: Mapping[str, PartyTraining], receiver: str) -> None:
        self._sender, self._trainings, self._receiver = sender, trainings, receiver

    def send_public_key(self, session_id: str, key: PublicKeyShown) -> None:
        self._trainings[self._receiver].exchange.receive_public_key(self._sender, key)

    def send_residuals(self, session_id: str, step: int, vector: OutgoingVector) -> None:
        self._trainings[self._receiver].exchange.receive_residuals(self._sender, step, vector.whole())

    def decrypt(self, session_id: str, step: int, vector: WireVector) -> DecryptedVector:
        return self._trainings[self._receiver].exchange.answer_sums(self._sender, step, vector)


def on_the_wire(session: CanarySession, world: int, seed: int, key_bits: int = 2048) -> FloatArray:
    """The canary's shares, (epochs,), as the passive party solves for them in a real training with Paillier."""
    transcript, agreement = Transcript(), session.agreement(key_bits)
    trainings: dict[str, PartyTraining] = {}

    def recording(terms: Agreement, name: str) -> Cipher:
        return RecordingCipher(make_cipher(terms, name), transcript, _PASSIVE_FEATURES)

    noisy = PartyDefences((DpNoise(sigma=session.sigma),), NoiseSource(seed))
    with ThreadPoolExecutor() as threads:
        for name, other, features in zip((ACTIVE, PASSIVE), (PASSIVE, ACTIVE), session.blocks, strict=True):
            trainings[name] = PartyTraining(
                agreement,
                name,
                features,
                session.labels(world) if name == ACTIVE else None,
                TrainingMeans(
                    {other: _PeerInProcess(name, trainings, other)},
                    generator=session.weights(name),
                    timeout=60.0,
                    executor=threads,
                    cipher=make_cipher if name == ACTIVE else recording,
                    defences=noisy if name == ACTIVE else PartyDefences(),
                ),
            )
        _train(trainings, session.epochs)
    return np.array(
        [
            _solved(session, step, transcript)[rows == CANARY][0]
            for step, rows in enumerate(session.batches)
            if CANARY in rows
        ]
    )


def _train(trainings: Mapping[str, PartyTraining], epochs: int) -> None:
    def ignore(step: int, timer: StageTimer) -> None:
        """Nobody watches."""

    for training in trainings.values():
        training.show_public_key()
    with ThreadPoolExecutor(len(trainings)) as threads:
        for epoch in range(epochs):
            for done in [threads.submit(one.run_epoch, epoch, ignore) for one in trainings.values()]:
                done.result()


def _solved(session: CanarySession, step: int, transcript: Transcript) -> FloatArray:
    """Shares of one step, (s,), on the fixed point's grid."""
    matrix, sums = transcript.sums[step, ACTIVE]
    solved = solve_shares(Equations(step, ACTIVE, session.batches[step], matrix, sums), share_step=2.0**-_RESIDUAL_BITS)
    if solved.values is None:
        raise ValueError(f"The canary's shares don't follow from the sums of step {step}. {solved.reason}")
    return solved.values[:, 0]
