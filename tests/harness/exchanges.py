"""Federations for tests: exchanges wired to each other, whole parties in one process, and real processes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from services.ciphers.cipher import make_cipher
from services.ciphers.default_plan import with_open_terms
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import PublicKeyShown, WireVector
from services.in_process.wired_trainings import train_together, wired_trainings
from services.party.features import description_of
from services.party.party_defences import PartyDefences
from services.party.party_training import PartyTraining
from services.protocols.hu.gradient_exchange import GradientExchange
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import PROOF_ROOTS
from vfl.data import GriddedFeatures
from vfl.learning import (
    GradientDescent,
    VerticalData,
    initial_weights,
    residual_columns,
    split_rows,
    train_centrally,
)

SESSION = "session"
# Small keys for speed; the tests at 2048 bits say so.
SMALL_PLAN = TrainingPlan(epochs=3, batch_size=8, key_bits=512)


def modulus_of(key: PublicKeyShown) -> int:
    """The modulus of a Paillier key as it travels; its proof follows."""
    return int.from_bytes(key.content[: len(key.content) // (1 + PROOF_ROOTS)], "big")


# -- level 1: Protocol 1 without anything around it -------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Blocks of features by party, on the grids of their columns, the active party first with its bias last."""

    blocks: dict[str, FloatArray]
    labels: IntArray
    classes: int
    on_grids: dict[str, GriddedFeatures] | None = None

    @classmethod
    def of(cls, gridded: dict[str, GriddedFeatures], labels: IntArray, classes: int) -> "Problem":
        """What parties' own tables become in a session."""
        return cls({name: one.values for name, one in gridded.items()}, labels, classes, gridded)

    @cached_property
    def gridded(self) -> dict[str, GriddedFeatures]:
        return self.on_grids or {name: GriddedFeatures.of(block) for name, block in self.blocks.items()}

    @property
    def rows(self) -> int:
        return len(self.labels)

    def agreement(self, plan: TrainingPlan, truncating: bool = True) -> Agreement:
        parties = tuple(
            replace(description_of(name, one), truncates_answers=truncating) for name, one in self.gridded.items()
        )
        return with_open_terms(Agreement(SESSION, plan, self.classes, parties))


def problem_of(features: FloatArray, labels: IntArray, parties: int) -> Problem:
    """Deal columns out to ``parties``, min-max scaled and on their grids, with a bias for the active one."""
    low, high = features.min(axis=0), features.max(axis=0)
    blocks = np.array_split((features - low) / np.where(high > low, high - low, 1.0), parties, axis=1)
    blocks[0] = np.hstack([blocks[0], np.ones((len(features), 1))])
    on_grids = [GriddedFeatures.of(block).values for block in blocks]
    return Problem(dict(zip(names_of(parties), on_grids, strict=True)), labels, int(labels.max()) + 1)


def random_problem(*, rows: int = 37, columns: int = 6, parties: int = 2, classes: int = 2, seed: int = 5) -> Problem:
    generator = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    return problem_of(generator.normal(size=(rows, columns)) + labels[:, None], labels, parties)


def names_of(parties: int) -> list[str]:
    return ["active", "passive"] if parties == 2 else ["active", *(f"passive-{i}" for i in range(1, parties))]


@contextmanager
def wired(
    problem: Problem,
    plan: TrainingPlan,
    *,
    timeout: float = 30.0,
    through: Callable[[str, Any], Any] | None = None,
    defences: Mapping[str, PartyDefences] | None = None,
    truncating: bool = True,
) -> Iterator[dict[str, PartyTraining]]:
    """Trainings of all parties, wired to each other; ``through`` may put something between a sender and its peer."""
    numbers = {name: number for number, name in enumerate(problem.blocks)}

    def means(name: str) -> dict[str, Any]:
        generator = np.random.default_rng(100 + numbers[name])
        return {"generator": generator, "timeout": timeout, "defences": (defences or {}).get(name, PartyDefences())}

    agreement = problem.agreement(plan, truncating)
    with wired_trainings(agreement, problem.gridded, problem.labels, means, through=through) as trainings:
        yield trainings


def run_together(trainings: Mapping[str, PartyTraining], epochs: int) -> list[FloatArray]:
    """Show keys, run ``epochs`` epochs with one thread per party; returns every party's weights."""
    train_together(trainings, epochs)
    return [training.half.weights for training in trainings.values()]


def train_encrypted(problem: Problem, plan: TrainingPlan, *, truncating: bool = True) -> list[FloatArray]:
    with wired(problem, plan, truncating=truncating) as trainings:
        return run_together(trainings, plan.epochs)


def train_plainly(problem: Problem, plan: TrainingPlan, seeds: Sequence[int] | None = None) -> list[FloatArray]:
    """The yardstick: the same training in float64 in one place, from the same initial weights."""
    columns = residual_columns(problem.classes)
    blocks = list(problem.blocks.values())
    generators = [np.random.default_rng(seed) for seed in seeds or range(100, 100 + len(blocks))]
    split = split_rows(
        problem.rows,
        validation_fraction=plan.validation_fraction,
        test_fraction=plan.test_fraction,
        seed=plan.seed,
    )
    spared = [np.zeros(block.shape[1], dtype=np.bool_) for block in blocks]
    spared[0][-1] = True
    return train_centrally(
        VerticalData(blocks, problem.labels, classes=problem.classes),
        [
            initial_weights(
                plan.learner_options["initialisation"],
                block.shape[1],
                columns,
                total_features=sum(b.shape[1] for b in blocks),
                generator=generator,
            )
            for block, generator in zip(blocks, generators, strict=True)
        ],
        GradientDescent(
            plan.schedule(split.train),
            epochs=plan.epochs,
            learning_rate=plan.family.rate(len(blocks)),  # type: ignore[attr-defined]
            own_moments=plan.learner_options["steps"] == "own_moments",
        ),
        l2=plan.learner_options["l2"],
        unpenalised=spared,
    )


def largest_difference(one: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))


def encrypted(exchange: GradientExchange, step: int, residual: FloatArray) -> WireVector:
    """What a party would send for residuals, whatever its step is."""
    return OutgoingVector(*exchange._cipher.encrypt(step, residual), is_whole=lambda: None).make()


@dataclass(frozen=True)
class ExchangePair:
    """The active party's exchange under test and a passive peer's cipher that speaks to it; keys are shown."""

    exchange: GradientExchange
    peer: GradientExchange
    rows: int
    features: FloatArray
    agreement: Agreement

    def peer_residuals(self, step: int) -> WireVector:
        """Some residuals of the peer, afresh at each call."""
        return encrypted(self.peer, step, np.full((self.rows, 1), 0.5 + step / 16))

    @property
    def answer_bytes(self) -> int:
        """Bytes of this side's answer to ``peer_sums``, cut to the honest width."""
        formats = CipherFormats(self.agreement)
        bits = formats.answer_bits("active", "passive")
        assert bits is not None
        return len(bits) * formats.answer_bytes("active", "passive")

    def peer_sums(self, own_residuals: WireVector) -> WireVector:
        """The peer's masked sums of this side's residuals, afresh at each call."""
        cipher = self.peer._cipher
        return cipher.mask(0, "active", cipher.combine(0, "active", self.features, own_residuals))[0]


def exchange_pair(
    plan: TrainingPlan,
    *,
    steps: int = 6,
    rows: int = 4,
    timeout: float = 5.0,
    keys: bool = True,
    truncating: bool = True,
) -> ExchangePair:
    agreement = Agreement(
        SESSION,
        replace(plan, batch_size=rows),
        2,
        (
            PartyDescription("active", 3, 0, False, 40, truncating),
            PartyDescription("passive", 2, 0, False, 40, truncating),
        ),
    )
    mine, theirs = (
        GradientExchange(
            make_cipher(agreement, name), [other], steps=steps, rows_of_step=lambda _: rows, timeout=timeout
        )
        for name, other in (("active", "passive"), ("passive", "active"))
    )
    if keys:
        mine.receive_key("passive", theirs.public_key)
    theirs.receive_key("active", mine.public_key)
    features = np.random.default_rng(3).integers(0, 2**16, (rows, 2), endpoint=True).astype(np.float64)
    return ExchangePair(mine, theirs, rows, features, agreement)
