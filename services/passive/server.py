"""A passive party as a process."""

from functools import partial

from protos.v1 import passive_pb2_grpc
from services.adversary.load import load_attacks
from services.adversary.training import TrainingAdversary
from services.common.identity import Role
from services.common.settings import Settings
from services.network.health import Held
from services.party.server import prepare, serve
from services.passive import servicer
from services.passive.party import PassiveParty


def run(settings: Settings) -> None:
    """Load this party's table, then serve until stopped. Raises ValueError when the table can't be used."""
    _, in_training = load_attacks(settings.attacks, settings.attack_options, Role.PASSIVE)
    transport, _, context = prepare(settings, Role.PASSIVE, partial(TrainingAdversary, in_training))
    party = PassiveParty(context)
    handler = servicer.PassiveServicer(party)
    serve(
        transport,
        context,
        party,
        (servicer, lambda server: passive_pb2_grpc.add_PassiveServicer_to_server(handler, server)),
        Held(party.holds_session, party.holds_model),
    )
