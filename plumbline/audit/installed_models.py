"""Trains a vertical network in one place (the lab), as the papers do, and writes each party's part of it.

The lab sees both parties' tables: it is a simulation for measuring attacks on networks, not a way to train one.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from defences.dp_sgd import DpSgd
from plumbline.audit.joined_tables import JoinedTables
from services.common.durable import write_durably
from services.common.identity import Role
from vfl.learning.networks import activation_named, save_network


def install_network(
    joined: JoinedTables,
    folder: Path,
    *,
    hidden: Sequence[int],
    activation: str,
    training: DpSgd | None = None,
) -> dict[str, Path]:
    """Train a network on what the active and the one passive party hold; returns each part's file, by party.

    Each part sees its party's own encoded columns, and only the training rows of the session's public split: the test
    rows are as new to the model as to any other. Raises ValueError for other than one passive party.

    Arguments:
        joined: the tables of all parties.
        folder: where the parts go.
        hidden: layer sizes; none makes a linear model.
        activation: of the hidden layers.
        training: trains with differential privacy; None trains without.
    """
    from vfl.learning.torch_training import AdamTraining

    names = list(joined.settings)
    if len(names) != 2:
        raise ValueError("A network is installed at one active and one passive party: use --parties 2.")
    rows = joined.split.train
    network = (training or AdamTraining()).train_network(
        joined.features(Role.ACTIVE, rows),
        joined.features(names[1], rows),
        joined.labels[rows],
        hidden=hidden,
        activation=activation_named(activation),
        classes=len(joined.class_names),
        seed=joined.settings[Role.ACTIVE].seed,
    )
    paths = {name: (folder / f"{name}-model.npz").resolve() for name in names}
    for path, part in zip(paths.values(), (network.active, network.passive), strict=True):
        write_durably(path, partial(save_network, network=part))
    return paths
