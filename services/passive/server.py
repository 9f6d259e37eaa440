"""A passive party as a process."""

from functools import partial

import numpy as np

from protos.v1 import passive_pb2_grpc
from services.adversary.load import load_attacks
from services.adversary.training import TrainingAdversary
from services.common.identity import Role
from services.common.limits import CLASSES
from services.common.settings import Settings
from services.network.health import Held
from services.party.server import prepare, serve
from services.passive import servicer
from services.passive.party import PassiveParty
from vfl.data import Table, load_table


def known_labels(settings: Settings) -> Table | None:
    """Read the labels that this party's adversary knows; None for none. Raises ValueError for what tells no classes."""
    path = settings.known_labels
    if not path:
        return None
    table = load_table(path, id_column=settings.id_column, label_column=None, limits=settings.table_limits)
    classes = table.features
    if classes.shape[1] != 1 or (classes != np.rint(classes)).any() or classes.min() < 0 or classes.max() >= CLASSES:
        raise ValueError(
            f"PLUMBLINE_KNOWN_LABELS needs ids ({settings.id_column}) and one column with each record's class by its "
            f"number: 0 to {CLASSES - 1}, in the order of the class names."
        )
    return table


def run(settings: Settings) -> None:
    """Load this party's table, then serve until stopped. Raises ValueError when the table can't be used."""
    _, in_training = load_attacks(settings.attacks, settings.attack_options, Role.PASSIVE)
    adversary = partial(TrainingAdversary, in_training, known=known_labels(settings))
    transport, _, context = prepare(settings, Role.PASSIVE, adversary)
    party = PassiveParty(context)
    handler = servicer.PassiveServicer(party)
    serve(
        transport,
        context,
        party,
        (servicer, lambda server: passive_pb2_grpc.add_PassiveServicer_to_server(handler, server)),
        Held(party.holds_session, party.holds_model),
    )
