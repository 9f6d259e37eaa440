"""Trains a vertical network in one place (the lab), as the papers do, and writes each party's part of it.

The lab sees both parties' tables: it is a simulation for measuring attacks on networks, not a way to train one.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from defences.dp_sgd import DpSgd
from services.common.durable import write_durably
from services.common.identity import Role
from services.common.settings import Settings
from services.party.features import load_party_data
from vfl.arrays import FloatArray
from vfl.data import common_order, encode_labels, rows_of
from vfl.learning import split_rows
from vfl.learning.networks import activation_named, save_network


def install_network(
    party_settings: Mapping[str, Settings],
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
        party_settings: settings of every process, by its party's name.
        folder: where the parts go.
        hidden: layer sizes; none makes a linear model.
        activation: of the hidden layers.
        training: trains with differential privacy; None trains without.
    """
    from vfl.learning.torch_training import AdamTraining

    names = [name for name in party_settings if name != Role.COORDINATOR]
    if len(names) != 2:
        raise ValueError("A network is installed at one active and one passive party: use --parties 2.")
    joined = _JoinedTraining(party_settings)
    network = (training or AdamTraining()).train_network(
        joined.features(Role.ACTIVE),
        joined.features(names[1]),
        joined.labels,
        hidden=hidden,
        activation=activation_named(activation),
        classes=len(joined.class_names),
        seed=joined.settings[Role.ACTIVE].seed,
    )
    paths = {name: (folder / f"{name}-model.npz").resolve() for name in names}
    for path, part in zip(paths.values(), (network.active, network.passive), strict=True):
        write_durably(path, partial(save_network, network=part))
    return paths


def write_auxiliary(party_settings: Mapping[str, Settings], path: Path, count: int) -> Path:
    """Write ids and encoded passive features of the first ``count`` training records, for the adversary.

    Returns the table's absolute path. Raises ValueError when there are fewer training records.
    """
    joined = _JoinedTraining(party_settings)
    passive = [name for name in joined.settings if name != Role.ACTIVE]
    blocks = np.hstack([joined.features(name) for name in passive])[:count]
    if len(blocks) < count:
        raise ValueError(f"There are {len(blocks)} training records, fewer than the {count} auxiliary ones asked for.")
    columns = [f"{name}: {column}" for name in passive for column in joined.data[name].feature_names]
    table = pd.DataFrame(blocks, columns=columns)
    table.insert(0, joined.settings[Role.ACTIVE].id_column, joined.ids[:count])
    write_durably(path, lambda file: table.to_parquet(file, index=False))
    return path.resolve()


class _JoinedTraining:
    """The training rows of all parties side by side, as no party ever has them."""

    def __init__(self, party_settings: Mapping[str, Settings]) -> None:
        self.settings = {name: one for name, one in party_settings.items() if name != Role.COORDINATOR}
        self.data = {name: load_party_data(settings, with_bias=False) for name, settings in self.settings.items()}
        common_ids = common_order(set.intersection(*(set(data.ids) for data in self.data.values())))
        active, labels = self.settings[Role.ACTIVE], self.data[Role.ACTIVE].labels
        if labels is None:
            raise ValueError("The active party holds the labels: name its label column.")
        split = split_rows(
            len(common_ids),
            validation_fraction=active.validation_fraction,
            test_fraction=active.test_fraction,
            seed=active.seed,
        )
        self.ids = [common_ids[row] for row in split.train]
        indices, self.class_names = encode_labels(labels)
        self.labels = indices[rows_of(self.data[Role.ACTIVE].ids, self.ids)]

    def features(self, name: str) -> FloatArray:
        """A party's encoded features of the training rows."""
        data = self.data[name]
        return data.encoded(rows_of(data.ids, self.ids), self.settings[name].feature_fraction_bits)
