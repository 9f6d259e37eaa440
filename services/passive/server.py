"""A passive party as a process."""

from concurrent.futures import ThreadPoolExecutor

from protos.v1 import exchange_pb2_grpc, passive_pb2_grpc
from services.adversary.load import load_attacks
from services.adversary.training import TrainingAdversary
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
from services.passive import servicer
from services.passive.party import PassiveParty
from services.protocol1 import servicer as exchange_servicer
from services.protocol1.arithmetic import arithmetic_of
from services.protocol1.peer_link import PeerLink


def run(settings: Settings) -> None:
    """Load this party's table, then serve until stopped. Raises ValueError when the table can't be used."""
    cores = own_cores(settings)
    transport = make_transport(settings, Role.PASSIVE)
    name = transport.identity.name
    _, in_training = load_attacks(settings.attacks, settings.attack_options, Role.PASSIVE)
    state = open_state(settings.state_dir, transport.identity)
    defences = PartyDefences.of(settings, Role.PASSIVE, secret_of(state))
    data = load_party_data(settings, with_bias=False).protected_by(defences)
    timeout = settings.step_timeout
    record = RunRecord(settings.run_dir, name, transport.meter)
    channels = {peer: transport.dial(address, peer) for peer, address in settings.peers.items() if peer != name}
    # Certificates have been read: a service that stops says one sentence.
    arithmetic = arithmetic_of(settings, cores)
    data.log_columns()
    peers = {peer: PeerLink(peer, channel, timeout) for peer, channel in channels.items() if peer != Role.COORDINATOR}
    party = PassiveParty(
        PartyContext(
            name=name,
            data=data,
            settings=settings,
            coordinator=CoordinatorLink(channels[Role.COORDINATOR], timeout),
            peers=peers,
            record=record,
            executor=ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="training"),
            adversary=TrainingAdversary(in_training, name, settings.run_dir, record.lost, arithmetic),
            defences=defences,
            heartbeats={peer: HealthLink(peer, channel) for peer, channel in channels.items()},
            state=state,
            cores=cores,
        )
    )
    exchange = exchange_servicer.GradientExchangeServicer(party.exchange_of)
    passive = servicer.PassiveServicer(party)
    serve_until_stopped(
        transport,
        settings,
        [
            lambda server: exchange_pb2_grpc.add_GradientExchangeServicer_to_server(exchange, server),
            lambda server: passive_pb2_grpc.add_PassiveServicer_to_server(passive, server),
        ],
        {**exchange_servicer.PERMISSIONS, **servicer.PERMISSIONS},
        [exchange_servicer.SERVICE_NAME, servicer.SERVICE_NAME],
        held=Held(party.holds_session, party.holds_model),
    )
    party.close()
    # Channels outlive the threads that use them: grpc crashes when a closed one is called.
    party.executor.shutdown(cancel_futures=True)
    cores.close()
    record.write()
