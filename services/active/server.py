"""The active party as a process."""

import logging
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc

from protos.v1 import active_pb2_grpc, exchange_pb2_grpc
from services.active import servicer
from services.active.interfaces import EpochOutcome
from services.active.party import ActiveParty
from services.active.passive_link import PassiveLink
from services.adversary.knowledge import PriorKnowledge
from services.adversary.load import load_attacks
from services.adversary.predictions import AttackHost
from services.adversary.prior_knowledge import read_moments
from services.adversary.training import TrainingAdversary
from services.common.agreement import TrainingPlan
from services.common.errors import is_expected, log_unexpected
from services.common.identity import Role
from services.common.settings import Settings
from services.common.state_folder import open_state, secret_of
from services.network.bootstrap import MAX_THREADS, make_transport, serve_until_stopped
from services.network.health import Held
from services.network.health_link import HealthLink
from services.party.context import PartyContext
from services.party.coordinator_link import CoordinatorLink
from services.party.features import load_party_data
from services.party.own_cores import own_cores
from services.party.party_defences import PartyDefences
from services.party.record import RunRecord
from services.protocol1 import servicer as exchange_servicer
from services.protocol1.arithmetic import arithmetic_of
from services.protocol1.peer_link import PeerLink
from vfl.data import load_table

_log = logging.getLogger(__name__)


class _LogObserver:
    """Watches a job that nobody asked for over the wire (autostart)."""

    def __init__(self) -> None:
        self._stage, self._twentieths = "", 0

    def stage(self, name: str) -> None:
        self._stage, self._twentieths = name, 0

    def step(self, done: int, planned: int, what: str = "") -> None:
        twentieths = 20 * done // planned
        # An alignment has a log of its own, in ids.
        if twentieths > self._twentieths and self._stage != "aligning":
            _log.info("Step %d of %d.", done, planned)
        self._twentieths = twentieths

    def epoch(self, outcome: EpochOutcome) -> None:
        loss = "" if math.isnan(outcome.validation_loss) else f"validation loss {outcome.validation_loss:.4f}, "
        _log.info("Epoch %d: %s%.1f s.", outcome.epoch, loss, outcome.seconds)


def train_unasked(party: ActiveParty, plan: TrainingPlan, await_others: Callable[[], None]) -> None:
    """Train as soon as the others are there. Nobody waits for the outcome: the log tells it."""
    try:
        await_others()
        party.train(plan, _LogObserver())
    except Exception as error:
        # The party has logged the sentence of an expected one, and keeps it for its operator.
        if not is_expected(error):
            log_unexpected(error)


def known_beforehand(settings: Settings) -> PriorKnowledge:
    """What the settings let this party's adversary know before any session; raises ValueError for a broken file."""
    table, moments = settings.auxiliary, settings.prior_knowledge
    return PriorKnowledge(
        load_table(table, id_column=settings.id_column, label_column=None, limits=settings.table_limits)
        if table
        else None,
        read_moments(moments) if moments else None,
    )


def run(settings: Settings) -> None:
    """Load this party's table, then serve until stopped. Raises ValueError when the table can't be used."""
    cores = own_cores(settings)
    transport = make_transport(settings, Role.ACTIVE)
    name = transport.identity.name
    on_predictions, in_training = load_attacks(settings.attacks, settings.attack_options, Role.ACTIVE)
    data = load_party_data(settings, with_bias=settings.model is None)
    state = open_state(settings.state_dir, transport.identity)
    timeout = settings.step_timeout
    record = RunRecord(settings.run_dir, name, transport.meter)
    channels = {peer: transport.dial(address, peer) for peer, address in settings.peers.items() if peer != name}
    # Certificates have been read: a service that stops says one sentence.
    arithmetic = arithmetic_of(settings, cores)
    data.log_columns()
    passive_names = settings.passive_peers()
    party = ActiveParty(
        PartyContext(
            name=name,
            data=data,
            settings=settings,
            coordinator=CoordinatorLink(channels[Role.COORDINATOR], timeout),
            peers={peer: PeerLink(peer, channels[peer], timeout) for peer in passive_names},
            record=record,
            executor=ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="training"),
            adversary=TrainingAdversary(in_training, name, settings.run_dir, record.lost, arithmetic),
            defences=PartyDefences.of(settings, Role.ACTIVE, secret_of(state)),
            heartbeats={peer: HealthLink(peer, channel) for peer, channel in channels.items()},
            state=state,
            cores=cores,
        ),
        {peer: PassiveLink(peer, channels[peer], timeout) for peer in passive_names},
        AttackHost(on_predictions, settings.run_dir, record.lost),
        known_beforehand(settings),
    )
    exchange = exchange_servicer.GradientExchangeServicer(party.exchange_of)
    active = servicer.ActiveServicer(party, settings.plan())

    def await_channels() -> None:
        for peer, channel in channels.items():
            _log.info("Waiting for %s.", peer)
            grpc.channel_ready_future(channel).result()

    def on_started() -> None:
        if settings.autostart and party.has_model:
            _log.info("A model is here from before: nothing is trained (autostart).")
        elif settings.autostart:
            party.executor.submit(train_unasked, party, settings.plan(), await_channels)

    serve_until_stopped(
        transport,
        settings,
        [
            lambda server: exchange_pb2_grpc.add_GradientExchangeServicer_to_server(exchange, server),
            lambda server: active_pb2_grpc.add_ActiveServicer_to_server(active, server),
        ],
        {**exchange_servicer.PERMISSIONS, **servicer.PERMISSIONS},
        [exchange_servicer.SERVICE_NAME, servicer.SERVICE_NAME],
        on_started=on_started,
        # The last is asked for by operators: it takes a question to every other party.
        held=Held(party.holds_session, predictions=lambda: not party.obstacle()),
    )
    party.close()
    # Channels outlive the threads that use them: grpc crashes when a closed one is called.
    party.executor.shutdown(cancel_futures=True)
    cores.close()
    record.write()
