"""Training on shared weights with a thread for each party: exchanges wired to each other, directly or over a link."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from services.common.agreement import TrainingPlan
from services.common.learner_calls import LearnerCalls
from services.exchange import servicer as exchange_servicer
from services.exchange.message_link import MessageLink
from services.exchange.peer import Peer
from services.in_process.direct_peers import DirectPeer
from services.party.party_model import PartyModel
from services.party.training_means import TrainingMeans
from services.protocols.shared.share_exchange import ShareExchange
from services.protocols.shared.share_mailbox import ShareMailbox
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.shared_steps import SharedSteps
from services.protocols.shared.shared_terms import SharedTerms
from tests.harness.connections import transport_of
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem, SharedSession, WatchedEngine
from tests.harness.sides import do_step
from vfl.arrays import FloatArray
from vfl.crypto import Engine

Exchanges = Mapping[str, ShareExchange]
MakePeer = Callable[[str, str, Exchanges], Peer]


def direct(sender: str, receiver: str, exchanges: Exchanges) -> Peer:
    return DirectPeer(sender, lambda _: exchanges[receiver])


@contextmanager
def over_mutual_tls(certificates: Path) -> Iterator[MakePeer]:
    """Peers that a server of their own serves, each with its certificate."""
    with ExitStack() as stack:
        addresses: dict[str, str] = {}

        def linked(sender: str, receiver: str, exchanges: Exchanges) -> Peer:
            if receiver not in addresses:
                addresses[receiver] = serve_shares(stack, certificates, receiver, lambda _: exchanges[receiver])
            return MessageLink(receiver, transport_of(certificates, sender).dial(addresses[receiver], receiver), 20.0)

        yield linked


@contextmanager
def wired_shares(
    problem: SharedProblem,
    plan: TrainingPlan = SHARED_PLAN,
    *,
    peer: MakePeer = direct,
    timeout: float = 20.0,
    others: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[dict[str, SharedSteps]]:
    """All parties' steps, their keys made for this session."""
    agreement = problem.agreement(plan)
    exchanges: dict[str, ShareExchange] = {}
    parties: dict[str, SharedSteps] = {}
    with ExitStack() as stack:
        for name, block in problem.blocks.items():
            peers = {other: peer(name, other, exchanges) for other in problem.blocks if other != name}
            executor = stack.enter_context(ThreadPoolExecutor(thread_name_prefix=name))
            own = problem.own(name, plan)
            turn = problem.terms(plan).made_turn(own, LearnerCalls(plan.family))
            cells = turn.cells(block)
            encrypted = others[name](agreement, name, cells) if name in others else None
            means = TrainingMeans(
                peers, own.generator, timeout, executor, engine=WatchedEngine(), others=_always(encrypted)
            )
            parties[name] = SharedSteps(agreement, name, cells, own, means, turn)
            exchanges[name] = parties[name].exchange
        yield parties


def _always(encrypted: Any) -> Callable[[FloatArray], Any]:
    return lambda _: encrypted


def run_all(parties: Mapping[str, SharedSteps], terms: SharedTerms, steps: int | None = None) -> None:
    """Show keys and features, and run every party's steps with a thread for each."""
    for one in parties.values():
        one.show_public_key()
    with ThreadPoolExecutor(len(parties)) as threads:
        for done in [threads.submit(_run, one, terms, steps) for one in parties.values()]:
            done.result()


def _run(party: SharedSteps, terms: SharedTerms, steps: int | None) -> None:
    party.begin_epoch()
    schedule = terms.schedule
    batches = [batch for epoch in range(terms.agreement.plan.epochs) for batch in schedule.epoch(epoch)]
    for step, batch in enumerate(batches[:steps]):
        do_step(party, step, batch)


def open_all(parties: Mapping[str, SharedSteps]) -> dict[str, FloatArray]:
    """Every party's weights, once they are opened."""
    with ThreadPoolExecutor(len(parties)) as threads:
        opening = {name: threads.submit(one.open) for name, one in parties.items()}
        return {name: weights.result() for name, weights in opening.items()}


def as_session(problem: SharedProblem, plan: TrainingPlan, parties: Mapping[str, SharedSteps]) -> SharedSession:
    """The same parties' weights, for what joins them."""
    return SharedSession(
        problem,
        problem.agreement(plan),
        {name: one.exchange._holder for name, one in parties.items()},
        {name: one.half for name, one in parties.items()},
        {},
    )


def serve_shares(stack: ExitStack, certificates: Path, name: str, exchange_of: Callable[[str], ShareMailbox]) -> str:
    """Serve a party's exchanges over mTLS until the stack is closed: its address."""
    server, port = transport_of(certificates, name).serve(
        "127.0.0.1:0",
        [lambda server: exchange_servicer.add_to(server, exchange_of)],
        exchange_servicer.PERMISSIONS,
        [exchange_servicer.SERVICE_NAME],
    )
    stack.callback(lambda: server.stop(None).wait())
    return f"127.0.0.1:{port}"


def joined_weights(models: Mapping[str, PartyModel]) -> dict[str, FloatArray]:
    """Each party's (d, k) weights U + V, which nobody knows, by whoever had every party's state."""
    terms, found = SharedTerms(models["active"].agreement), {}
    for name, model in models.items():
        part, holder = model.part, models[terms.holder(name)].part
        assert isinstance(part, SharedPart)
        assert isinstance(holder, SharedPart)
        v = [Engine().decrypt(holder.own_key, column) for column in part.by_output]
        found[name] = terms.scores.sums([part.share, np.array(v, dtype=np.uint64).T]) * 2.0**16
    return found
