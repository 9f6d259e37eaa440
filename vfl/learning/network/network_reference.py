"""A network's training in one place, in plain float64, by the halves that services run: the yardstick.

It sees all data, and keeps what each party would see: for tests and simulation only.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.learner import Forward, OwnData, Send
from vfl.learning.linear.reference import VerticalData
from vfl.learning.network.part import NetworkPart
from vfl.learning.network.split_network import Network
from vfl.learning.schedule import BatchSchedule


@dataclass(frozen=True, eq=False)
class SeenStep:
    """What the parties of a network see of one step.

    Attributes:
        step: from 0.
        rows: the batch, (s,).
        products: per party j, its Z = X_j W_j, (s, h); of the others as their defences leave it.
        backward: delta, (s, h).
        sums: per party j, X_j^T delta, (d_j, h); of the others of what they are sent.
        sent: delta as the label party's defences leave it, (s, h).
    """

    step: int
    rows: IntArray
    products: tuple[FloatArray, ...]
    backward: FloatArray
    sums: tuple[FloatArray, ...]
    sent: FloatArray

    @property
    def forwarded(self) -> FloatArray:
        """What the label party, the first one, is forwarded: the sum of the others' Z, (s, h)."""
        return np.asarray(sum(self.products[1:]))


@dataclass(frozen=True, eq=False)
class Defended:
    """What defences make of that which leaves a party.

    Attributes:
        products: of a passive party's Z, (s, h).
        backward: of delta, (s, h), of records with these class indices, (s,).
    """

    products: Callable[[FloatArray], FloatArray] = lambda products: products
    backward: Callable[[FloatArray, IntArray], FloatArray] = lambda backward, _: backward


@dataclass(frozen=True, eq=False)
class ReferenceTraining:
    """A training in one place.

    Attributes:
        parts: per party, its part of the model after the last step.
        seen: every step.
    """

    parts: tuple[NetworkPart, ...]
    seen: tuple[SeenStep, ...]

    def scores(self, blocks: Sequence[FloatArray]) -> FloatArray:
        """Score records whose features are ``blocks``, as in training: (n, classes)."""
        shares = [part.shares(block) for part, block in zip(self.parts, blocks, strict=True)]
        return self.parts[0].scores(np.asarray(sum(shares)))


def train_network(
    learner: Network,
    data: VerticalData,
    schedule: BatchSchedule,
    *,
    epochs: int,
    generators: Sequence[np.random.Generator],
    defended: Defended | None = None,
) -> ReferenceTraining:
    """Train a network in one place.

    Args:
        learner: its options; how the backward signal would travel doesn't matter.
        data: per party its features, the label party's first, whose last column is the constant 1.
        schedule: the batches of each epoch.
        epochs: how often every training row is used.
        generators: per party, what draws its first weights.
        defended: what defences make of that which leaves a party.
    """
    total = sum(block.shape[1] for block in data.blocks)
    halves = [
        learner.begin(OwnData(block.shape[1], None if index else data.labels, data.classes, total, generator))
        for index, (block, generator) in enumerate(zip(data.blocks, generators, strict=True))
    ]
    steps = tuple(_steps(halves, data, schedule, epochs, defended or Defended()))
    return ReferenceTraining(tuple(half.part() for half in halves), steps)


def _steps(
    halves: Sequence[Any], data: VerticalData, schedule: BatchSchedule, epochs: int, defended: Defended
) -> Iterator[SeenStep]:
    batches = (batch for epoch in range(epochs) for batch in schedule.epoch(epoch))
    for step, batch in enumerate(batches):
        features = [block[batch] for block in data.blocks]
        programs = [half.step(batch) for half in halves]
        requests = [next(program) for program in programs]
        products = tuple(
            defended.products(rows @ request.weights) if index else rows @ request.weights
            for index, (rows, request) in enumerate(zip(features, requests, strict=True))
            if isinstance(request, Forward)
        )
        sent = programs[0].send(np.asarray(sum(products)))
        if not isinstance(sent, Send):
            raise TypeError("The label party's half sends what comes after Forward.")
        next(programs[0])
        protected = defended.backward(sent.values, data.labels[batch])
        sums = tuple(rows.T @ (protected if index else sent.values) for index, rows in enumerate(features))
        for index, program in enumerate(programs):
            if index:
                program.send(products[index])
            _finish(program, sums[index])
        yield SeenStep(step, batch, products, sent.values, sums, protected)


def _finish(program: Any, sums: FloatArray) -> None:
    try:
        program.send(sums)
    except StopIteration:
        return
    raise TypeError("A half's step ends with its sums.")
