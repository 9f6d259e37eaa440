"""The lab: trains a vertical network in one place, as the papers do, and installs each part for its party.

This sees both parties' tables: it is a simulation for measuring attacks on networks, not a way to train one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from defences.dp_sgd import DpSgd
from services.common.settings import load_settings
from services.party.features import load_party_data
from vfl.arrays import FloatArray
from vfl.data import common_order, encode_labels, rows_of
from vfl.learning import split_rows
from vfl.learning.networks import activation_named, save_network


def install_network(
    party_settings: Mapping[str, Mapping[str, Any]],
    folder: Path,
    *,
    hidden: Sequence[int],
    activation: str,
    training: DpSgd | None = None,
) -> dict[str, Path]:
    """Train a network on what the active and the one passive party of these settings hold; returns each one's part.

    Each part sees its party's own encoded columns, and only the training rows of the session's public split, so that
    the test rows are as new to the model as to any other. ``training``: with differential privacy; None without.
    Raises ValueError for other than one passive party.
    """
    from vfl.learning.torch_training import AdamTraining

    names = [name for name in party_settings if name != "coordinator"]
    if len(names) != 2:
        raise ValueError("A network is installed at one active and one passive party: use --parties 2.")
    joined = _JoinedTraining(party_settings)
    network = (training or AdamTraining()).train_network(
        joined.features("active"),
        joined.features(names[1]),
        joined.labels,
        hidden=hidden,
        activation=activation_named(activation),
        classes=len(joined.class_names),
        seed=joined.settings["active"].seed,
    )
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: (folder / f"{name}-model.npz").resolve() for name in names}
    for path, part in zip(paths.values(), (network.active, network.passive), strict=True):
        save_network(path, part)
    return paths


def write_auxiliary(party_settings: Mapping[str, Mapping[str, Any]], path: Path, count: int) -> Path:
    """Write ``count`` training records' passive features, encoded, with their ids: what an adversary is given."""
    joined = _JoinedTraining(party_settings)
    passive = [name for name in joined.settings if name != "active"]
    blocks = np.hstack([joined.features(name) for name in passive])[:count]
    if len(blocks) < count:
        raise ValueError(f"There are {len(blocks)} training records, fewer than the {count} auxiliary ones asked for.")
    columns = [f"{name}: {column}" for name in passive for column in joined.data[name].feature_names]
    table = pd.DataFrame(blocks, columns=columns)
    table.insert(0, joined.settings["active"].id_column, joined.ids[:count])
    table.to_parquet(path, index=False)
    return path.resolve()


class _JoinedTraining:
    """The training rows of all parties side by side, as no party ever has them."""

    def __init__(self, party_settings: Mapping[str, Mapping[str, Any]]) -> None:
        self.settings = {
            name: load_settings(**values) for name, values in party_settings.items() if name != "coordinator"
        }
        self.data = {name: load_party_data(settings, with_bias=False) for name, settings in self.settings.items()}
        common_ids = common_order(set.intersection(*(set(data.ids) for data in self.data.values())))
        active, labels = self.settings["active"], self.data["active"].labels
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
        self.labels = indices[rows_of(self.data["active"].ids, self.ids)]

    def features(self, name: str) -> FloatArray:
        """A party's encoded features of the training rows."""
        data = self.data[name]
        return data.encoded(rows_of(data.ids, self.ids), self.settings[name].feature_fraction_bits)
