"""The tables of all parties side by side, as no party ever has them: what an auditor simulates with."""

from collections.abc import Mapping

from services.common.identity import Role
from services.common.settings import Settings
from services.party.features import load_party_data
from vfl.arrays import FloatArray, IntArray
from vfl.data import common_order, encode_labels, rows_of
from vfl.learning import split_rows


class JoinedTables:
    """All parties' aligned records, in the order and the split of their session.

    Attributes:
        settings: of each party, the active one first, the others in the agreement's order.
        data: each party's table, encoded, before any defence.
        table_sizes: records of each party's own table, the active party's first.
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
        self.data = {name: load_party_data(settings, with_bias=False) for name, settings in self.settings.items()}
        self.table_sizes = tuple(len(one.ids) for one in self.data.values())
        self.ids = common_order(set.intersection(*(set(data.ids) for data in self.data.values())))
        active, labels = self.settings[Role.ACTIVE], self.data[Role.ACTIVE].labels
        if labels is None:
            raise ValueError("The active party holds the labels: name its label column.")
        self.split = split_rows(
            len(self.ids),
            validation_fraction=active.validation_fraction,
            test_fraction=active.test_fraction,
            seed=active.seed,
        )
        indices, self.class_names = encode_labels(labels)
        self.labels = indices[rows_of(self.data[Role.ACTIVE].ids, self.ids)]

    @property
    def passive_names(self) -> list[str]:
        """Names of the passive parties, in the agreement's order."""
        return [name for name in self.settings if name != Role.ACTIVE]

    def ids_of(self, rows: IntArray) -> list[str]:
        """Ids of rows of the common order."""
        return [self.ids[row] for row in rows]

    def features(self, name: str, rows: IntArray) -> FloatArray:
        """A party's encoded features of rows of the common order."""
        data = self.data[name]
        return data.encoded(rows_of(data.ids, self.ids_of(rows)), self.settings[name].feature_fraction_bits)
