"""What ``dp_noise`` is worth at most: a lower bound of epsilon from canaries, beside the epsilon that theory attains.

Every trial is a training in which one record's label is 0 or 1 (``canary_trials``). The adversary knows all else, adds
the canary's noisy shares over the epochs, and says which it was. Theory's epsilon is of the whole record and of all
shares; the label alone moves its own shares by 4, of the 8 that theory allows for. So the bound stays below.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from attacks.training_views import Equations, solve_shares
from defences import NoiseSource
from defences.dp_noise import DpNoise
from services.adversary.transcript import Transcript
from services.common.agreement import Agreement, TrainingPlan
from services.in_process.wired_trainings import train_together, wired_trainings
from services.party.features import description_of
from services.party.party_defences import PartyDefences
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.simulation.empirical_epsilon import epsilon_lower_bound
from studies.simulation.rounds import told
from studies.study import StudyRun
from vfl.arrays import FloatArray, IntArray
from vfl.data import GriddedFeatures
from vfl.data.encoders import rows_to_unit_norm
from vfl.learning import ResidualScheme, initial_weights
from vfl.theory.dp_noise import LABEL_TERM, sensitivities
from vfl.theory.gaussian_mechanism import gaussian_epsilon

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
        schedule = self._plan(2048).schedule(np.arange(_ROWS))
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

    @property
    def shape(self) -> tuple[int, int]:
        """Of a training's noise: (steps, s)."""
        return len(self.batches), self.batch_size

    def noise(self, seeds: Sequence[int]) -> IntArray:
        """Noise of whole trainings in steps of the fixed point, (trials, steps, s), drawn from each seed."""
        deviation = math.ceil(self.sigma * 2**_RESIDUAL_BITS)
        return np.array([NoiseSource(seed).discrete_gaussian(self.shape, deviation) for seed in seeds])

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
    width = own.shape[1] + other.shape[1]

    def start(name: str, features: int) -> FloatArray:
        drawn = initial_weights("xavier", features, 1, total_features=width, generator=session.weights(name))
        return np.tile(drawn[:, 0], (len(seeds), 1))

    active, passive = start(ACTIVE, own.shape[1]), start(PASSIVE, other.shape[1])
    noise, seen = session.noise(seeds), []
    for step, rows in enumerate(session.batches):
        mine, theirs = active @ own[rows].T - 2.0 * signs[rows], passive @ other[rows].T
        noisy = _on_grid(mine) + noise[:, step]
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


class _OneSequence(NoiseSource):
    """Draws a training's noise as a simulated trial does, where a party has a source for each message."""

    def __init__(self, seed: int, shape: tuple[int, int]) -> None:
        super().__init__(seed)
        self._shape, self._steps = shape, list[IntArray]()

    def of_message(self, *content: bytes) -> NoiseSource:
        return self

    def discrete_gaussian(self, shape: tuple[int, ...], deviation: int) -> IntArray:
        self._steps = self._steps or [*super().discrete_gaussian(self._shape, deviation)]
        return self._steps.pop(0).reshape(shape)


def on_the_wire(session: CanarySession, world: int, seed: int, key_bits: int = 2048) -> FloatArray:
    """The canary's shares, (epochs,), as the passive party solves for them in a real training with Paillier."""
    transcript, noise = Transcript(), _OneSequence(seed, session.shape)

    def means(name: str) -> dict[str, Any]:
        shared = {"generator": session.weights(name), "timeout": 60.0}
        if name == PASSIVE:
            return shared | {"tape": transcript}
        return shared | {"defences": PartyDefences((DpNoise(sigma=session.sigma, project=False),), noise)}

    blocks = dict(zip((ACTIVE, PASSIVE), session.blocks, strict=True))
    with wired_trainings(session.agreement(key_bits), blocks, session.labels(world), means) as trainings:
        train_together(trainings, session.epochs)
    steps = [(step, rows == CANARY) for step, rows in enumerate(session.batches) if CANARY in rows]
    return np.array([_solved(session, step, transcript)[of_canary][0] for step, of_canary in steps])


def _solved(session: CanarySession, step: int, transcript: Transcript) -> FloatArray:
    """Shares of one step, (s,), on the fixed point's grid."""
    matrix, sums = transcript.answers[step, ACTIVE]
    solved = solve_shares(Equations(step, ACTIVE, session.batches[step], matrix, sums), share_step=2.0**-_RESIDUAL_BITS)
    if solved.values is None:
        raise ValueError(f"The canary's shares don't follow from the sums of step {step}. {solved.reason}")
    return solved.values[:, 0]


SIGMAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
CONFIDENCE = 0.95
_TRIALS, _QUICK_TRIALS = 20_000, 1_000
_KEY_BITS, _QUICK_KEY_BITS = 2048, 512
# Noise of the two worlds is independent.
_WORLDS = (0, 1)


def canaries_section(run: StudyRun) -> Section:
    """Bound epsilon from below for several sigmas, and check simulated trials against the wire.

    20,000 trials per world and sigma, two of them on the wire at 2,048 bits. quick: 1,000, and keys of 512 bits.
    """
    trials, key_bits = (_QUICK_TRIALS, _QUICK_KEY_BITS) if run.quick else (_TRIALS, _KEY_BITS)
    rows = [measured(CanarySession(sigma), trials, run.seed, key_bits) for sigma in told(SIGMAS, run.done)]
    data = pd.DataFrame(rows)
    return Section(
        name="defences_canaries",
        title="What canaries prove of dp_noise",
        data=data,
        summary=data,
        plots=(_plot(data),),
        notes=_notes(data, key_bits),
    )


def measured(session: CanarySession, trials: int, seed: int, key_bits: int) -> dict[str, Any]:
    """Measure one sigma: the bound, its trials, and what theory says.

    Args:
        session: the terms of every trial.
        trials: per world.
        seed: of the noise, different in every trial.
        key_bits: of the trials on the wire, one per world.
    """
    delta = default_delta(session)
    seeds = {world: [2 * trials * seed + world * trials + trial for trial in range(trials)] for world in _WORLDS}
    shares = {world: simulated(session, world, seeds[world]) for world in _WORLDS}
    agreeing = sum(
        np.array_equal(on_the_wire(session, world, seeds[world][0], key_bits), shares[world][0]) for world in _WORLDS
    )
    # The shift of a label is the same in every epoch: no statistic is better than the sum, but for theta's moves.
    bound = epsilon_lower_bound(*(shares[world].sum(axis=1) for world in _WORLDS), delta=delta, confidence=CONFIDENCE)
    return {
        "sigma": session.sigma,
        "delta": delta,
        "epsilon_proved": bound.epsilon,
        "epsilon_of_label": gaussian_epsilon(2 * LABEL_TERM * np.sqrt(session.epochs), session.sigma, delta),
        "epsilon_of_theory": gaussian_epsilon(sensitivity(session), session.sigma, delta),
        "confidence": bound.confidence,
        "trials_per_world": trials,
        "judged_per_world": bound.trials,
        "hits": bound.hits,
        "false_alarms": bound.false_alarms,
        "on_the_wire": len(_WORLDS),
        "agreeing": int(agreeing),
    }


def default_delta(session: CanarySession) -> float:
    """A tenth of one over the number of records: at one over it, publishing a record would do."""
    return 1 / (10 * len(session.blocks[0].values))


def sensitivity(session: CanarySession) -> float:
    """Delta, by how much one changed record can move all of the label party's shares (Hu, Lemma D.3)."""
    moved = sensitivities(
        epochs=session.epochs, steps=len(session.batches), rows=session.batch_size, learning_rate=session.learning_rate
    )
    return moved.active


def _notes(data: pd.DataFrame, key_bits: int) -> tuple[str, ...]:
    first = data.iloc[0]
    found = ", ".join(
        f"{row.epsilon_proved:.2f} of {row.epsilon_of_theory:.2f} at sigma {row.sigma:g}" for row in data.itertuples()
    )
    return (
        "SIMULATION: all trials but those on the wire follow the two parties' arithmetic in one place, and their noise "
        f"is seeded. {int(data['agreeing'].sum())} of {int(data['on_the_wire'].sum())} trials that ran as Protocol 1 "
        f"under Paillier with {key_bits} bits gave the same shares, bit for bit.",
        f"Proved of epsilon with {first['confidence']:.0%} confidence at delta = {first['delta']:.4g}, from "
        f"{int(first['judged_per_world']):,} trials per world (as many more chose the threshold): {found}.",
        "The canary is one label: it moves its record's share by 4 in each epoch, and theta a little. Theory allows "
        "for a whole record at the longest theta that it assumes, 8 in each epoch. epsilon_of_label is exact for the "
        "label's own shares: what canaries of this kind can prove at most.",
        "A bound of 0 proves nothing. It says that these trials couldn't tell, not that nobody can.",
    )


def _plot(data: pd.DataFrame) -> Plot:
    sigmas = tuple(data["sigma"])
    labels = {
        "epsilon_of_theory": "theory, a whole record",
        "epsilon_of_label": "theory, the label's own shares",
        "epsilon_proved": "proved by canaries",
    }
    curves = tuple(Curve(label, sigmas, tuple(data[column])) for column, label in labels.items())
    caption = (
        "Epsilon by sigma: what theory attains, and what an adversary's guesses prove of it; a bound of 0 is left out."
    )
    panel = Panel("Epsilon by sigma", "sigma", "epsilon", curves, log_x=True, log_y=True)
    return Plot("defences_canaries-epsilon", (panel,), caption)
