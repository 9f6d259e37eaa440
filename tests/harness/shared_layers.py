"""Networks whose first layer is on shared weights, a thread for each party; shares are joined here and nowhere else."""

import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from services.common.agreement import TrainingPlan
from services.in_process.direct_peers import DirectPeer
from services.party.training_means import AddedShares, TrainingMeans
from services.protocols.first_layer.layer_exchange import LayerExchange
from services.protocols.first_layer.layer_steps import LayerSteps
from services.protocols.first_layer.layer_terms import LayerTerms
from services.protocols.shared.opening import validates_on_shares
from tests.harness.shared_sessions import SharedProblem, WatchedEngine
from tests.harness.sides import do_step
from vfl.arrays import FloatArray
from vfl.crypto.sharing.shares import Shares
from vfl.learning import OwnData, VerticalData
from vfl.learning.network import ReferenceTraining, train_network

LAYER_PLAN = TrainingPlan(
    epochs=3,
    batch_size=8,
    key_bits=512,
    validation_fraction=0.0,
    test_fraction=0.0,
    protocol="shared",
    learner="network",
    learner_options={"hidden": 3, "backward": "shared", "learning_rate": 0.5},
)
LayerPeer = Callable[[str, str, Mapping[str, LayerExchange]], Any]


def direct(sender: str, receiver: str, exchanges: Mapping[str, LayerExchange]) -> DirectPeer:
    return DirectPeer(sender, lambda _: exchanges[receiver])


def layer_terms(problem: SharedProblem, plan: TrainingPlan = LAYER_PLAN) -> LayerTerms:
    return LayerTerms(problem.agreement(plan))


@contextmanager
def wired_layers(
    problem: SharedProblem,
    plan: TrainingPlan = LAYER_PLAN,
    *,
    peer: LayerPeer = direct,
    timeout: float = 20.0,
    tapes: Mapping[str, Any] = MappingProxyType({}),
    draws: Mapping[str, Callable[[int], int]] = MappingProxyType({}),
    chosen: AddedShares | None = None,
) -> Iterator[dict[str, LayerSteps]]:
    """All parties' steps; the label party's key is made for this session."""
    agreement = problem.agreement(plan)
    exchanges: dict[str, LayerExchange] = {}
    parties: dict[str, LayerSteps] = {}
    with ExitStack() as stack:
        for number, (name, block) in enumerate(problem.blocks.items(), 1):
            labels = problem.labels if name == "active" else None
            generator = np.random.default_rng(number)
            own = OwnData(block.shape[1], labels, problem.classes, agreement.total_features, generator)
            peers = {other: peer(name, other, exchanges) for other in problem.blocks if other != name}
            executor = stack.enter_context(ThreadPoolExecutor(thread_name_prefix=name))
            added = chosen if name == "active" else None
            means = TrainingMeans(
                peers, generator, timeout, executor, engine=WatchedEngine(), chosen=added, tape=tapes.get(name)
            )
            parties[name] = LayerSteps(agreement, name, block, own, means)
            exchanges[name] = parties[name].exchange
            # Not a session's own, which draws ahead: what is drawn, decrypted and multiplied is watched.
            exchanges[name]._engine = means.engine
            exchanges[name]._draw = draws.get(name, secrets.randbelow)
        yield parties


def run_layers(parties: Mapping[str, LayerSteps], steps: int | None = None) -> list[float]:
    """Show keys and run every party's steps with a thread for each: the label party's validation losses."""
    for one in parties.values():
        one.show_public_key()
    with ThreadPoolExecutor(len(parties)) as threads:
        losses = [done.result() for done in [threads.submit(_run, one, steps) for one in parties.values()]]
    assert not any(losses[1:])
    return losses[0]


def _run(party: LayerSteps, steps: int | None) -> list[float]:
    schedule, agreement, losses = party.schedule, party._terms.agreement, list[float]()
    batches = [batch for epoch in range(agreement.plan.epochs) for batch in schedule.epoch(epoch)]
    for step, batch in enumerate(batches[:steps]):
        do_step(party, step, batch)
        epoch, further = divmod(step + 1, schedule.steps_per_epoch)
        if validates_on_shares(agreement) and not further and agreement.validates(epoch - 1):
            loss = party.validate(step + 1)
            losses += [] if loss is None else [loss]
    return losses


def joined_weights(parties: Mapping[str, LayerSteps]) -> dict[str, FloatArray]:
    """U + V of every party's features, in float64."""
    total: dict[str, Any] = dict.fromkeys(parties, 0)
    bits = 0
    for name, one in parties.items():
        weights: Any = one.half.weights
        assert isinstance(weights, Shares)
        bits = weights.fraction_bits
        for owner, place in one._terms.places(name).items():
            total[owner] = total[owner] + weights.integers[place]
    return {name: (value / 2**bits).astype(np.float64) for name, value in total.items()}


def reference_of(problem: SharedProblem, plan: TrainingPlan = LAYER_PLAN) -> ReferenceTraining:
    """The same training in one place, from the same weights."""
    data = VerticalData(tuple(problem.blocks.values()), problem.labels, problem.classes)
    generators = [np.random.default_rng(number) for number in range(1, len(problem.blocks) + 1)]
    schedule = layer_terms(problem, plan).batches
    return train_network(plan.family, data, schedule, epochs=plan.epochs, generators=generators)  # type: ignore[arg-type]
