"""What the processes of both kinds of party share: what they work with, and how they serve until they are stopped."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc

from services.ciphers.arithmetic import EngineArithmetic, arithmetic_of
from services.common.identity import Role
from services.common.settings import Settings
from services.common.state_folder import open_state, secret_of
from services.exchange import servicer as messages_servicer
from services.exchange.message_link import MessageLink
from services.exchange.opening_ledger import measures_of
from services.network.bootstrap import MAX_THREADS, make_transport, serve_until_stopped
from services.network.health import Held
from services.network.health_link import HealthLink
from services.network.transport import Transport
from services.party.context import Adversary, PartyContext
from services.party.coordinator_link import CoordinatorLink
from services.party.features import load_party_data
from services.party.own_cores import own_cores
from services.party.party_defences import PartyDefences
from services.party.record import RunRecord
from services.watching.audit_log import log_of
from vfl.crypto import Engine


def prepare(
    settings: Settings, role: Role, adversary: Callable[..., Adversary]
) -> tuple[Transport, dict[str, grpc.Channel], PartyContext]:
    """Load a party's table, and make all that it works with. Raises ValueError when the table can't be used.

    ``adversary`` takes the party's name, where it writes, where it notes what it couldn't, and its arithmetic.
    """
    cores = own_cores(settings)
    transport = make_transport(settings, role)
    name, timeout = transport.identity.name, settings.step_timeout
    state = open_state(settings.state_dir, transport.identity)
    transport.tally.write_to(log_of(state))
    defences = PartyDefences.of(settings, role, secret_of(state))
    data = load_party_data(settings, with_bias=role is Role.ACTIVE and settings.model is None)
    if role is Role.PASSIVE:
        data = data.protected_by(defences)
    record = RunRecord(settings.run_dir, name, transport.meter)
    for source in (record.measures, lambda: measures_of(state)):
        transport.tally.add(source)
    channels = {peer: transport.dial(address, peer) for peer, address in settings.peers.items() if peer != name}
    # Certificates have been read: a service that stops says one sentence.
    arithmetic = arithmetic_of(settings, cores)
    data.log_columns()
    context = PartyContext(
        name=name,
        data=data,
        settings=settings,
        coordinator=CoordinatorLink(channels[Role.COORDINATOR], timeout),
        peers={peer: MessageLink(peer, channels[peer], timeout) for peer in channels if peer != Role.COORDINATOR},
        record=record,
        executor=ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="training"),
        adversary=adversary(name, settings.run_dir, record.lost, arithmetic),
        defences=defences,
        heartbeats={peer: HealthLink(peer, channel) for peer, channel in channels.items()},
        state=state,
        cores=cores,
        arithmetic=arithmetic,
        engine=arithmetic.engine if isinstance(arithmetic, EngineArithmetic) else Engine(),
        tally=transport.tally,
    )
    return transport, channels, context


def serve(
    transport: Transport,
    context: PartyContext,
    party: Any,
    own_service: tuple[Any, Callable[[grpc.Server], None]],
    held: Held,
    on_started: Callable[[], None] = lambda: None,
) -> None:
    """Serve a party until it is stopped; ``own_service`` is the module of its servicer, and what adds that."""
    servicer, register = own_service
    serve_until_stopped(
        transport,
        context.settings,
        [partial(messages_servicer.add_to, inbox_of=party.exchange_of, took=transport.tally.took), register],
        {**messages_servicer.PERMISSIONS, **servicer.PERMISSIONS},
        [messages_servicer.SERVICE_NAME, servicer.SERVICE_NAME],
        on_started=on_started,
        held=held,
    )
    party.close()
    # Channels outlive the threads that use them: grpc crashes when a closed one is called.
    context.executor.shutdown(cancel_futures=True)
    context.cores.close()
    context.record.write()
