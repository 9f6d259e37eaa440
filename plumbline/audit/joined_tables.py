"""The tables of all parties side by side, as no party ever has them: what an auditor simulates with."""

from collections.abc import Mapping

from services.common.identity import Role
from services.common.settings import Settings
from services.party.features import load_party_data
from services.party.party_model import rows_of_plan
from vfl.arrays import FloatArray, IntArray
from vfl.data import common_order, encode_labels, rows_of
from vfl.data.columns import EncodedColumn


class JoinedTables:
    """All parties' aligned records, in the order and the split of their session.

    Attributes:
        settings: of each party, the active one first, the others in the agreement's order.
        table_sizes: records of each party's own table, the active party's first.
        aligned: each party's aligned records, as its session encodes them, before any defence.
        ids: of the aligned records, in the common order.
        split: which of them are trained on, validated with and tested.
        labels: class indices of the aligned records.
        class_names: by class index.

    Raises:
        ValueError: without a label column, and for tables that can't be used.
    """

    def __init__(self, party_settings: Mapping[str, Settings]) -> None:
        passive = sorted(name for name in party_settings if name not in (Role.ACTIVE, Role.COORDINATOR))
        self.settings = {name: party_settings[name] for name in (str(Role.ACTIVE), *passive)}
        data = {name: load_party_data(settings, with_bias=False) for name, settings in self.settings.items()}
        self.table_sizes = tuple(len(one.ids) for one in data.values())
        self.ids = common_order(set.intersection(*(set(one.ids) for one in data.values())))
        labels = data[Role.ACTIVE].labels
        if labels is None:
            raise ValueError("The active party holds the labels: name its label column.")
        plan = self.settings[Role.ACTIVE].plan()
        self.split = rows_of_plan(plan, len(self.ids))
        own_rows = {name: rows_of(one.ids, self.ids) for name, one in data.items()}
        self.aligned = {name: one.aligned(own_rows[name], plan) for name, one in data.items()}
        indices, self.class_names = encode_labels(labels)
        self.labels = indices[own_rows[Role.ACTIVE]]

    @property
    def passive_names(self) -> list[str]:
        """Names of the passive parties, in the agreement's order."""
        return [name for name in self.settings if name != Role.ACTIVE]

    def ids_of(self, rows: IntArray) -> list[str]:
        """Ids of rows of the common order."""
        return [self.ids[row] for row in rows]

    def features(self, name: str, rows: IntArray) -> FloatArray:
        """A party's encoded features of rows of the common order."""
        return self.aligned[name].features[rows]

    def columns(self, name: str) -> tuple[EncodedColumn, ...]:
        """What a party's features are of."""
        return self.aligned[name].columns
