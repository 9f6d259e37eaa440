"""Tables whose columns are small whole numbers, as trees of several libraries can be compared on."""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.learning.trees import OwnedColumns, TreeModel, TreeOptions, TreePlan, train_in_plain


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Parties' tables of the same rows, (n, d) each, and labels of two classes."""

    tables: tuple[FloatArray, ...]
    labels: IntArray

    @property
    def joined(self) -> FloatArray:
        return np.hstack(self.tables)

    def plan(self, options: TreeOptions, validation: int = 0, seed: int = 5) -> TreePlan:
        rows = np.arange(len(self.labels))
        columns = tuple(table.shape[1] for table in self.tables)
        return TreePlan(options, columns, rows[validation:], rows[:validation], seed)

    def owned(self, plan: TreePlan) -> list[OwnedColumns]:
        return [OwnedColumns.of(table, plan.trained, plan.options) for table in self.tables]

    def train(self, plan: TreePlan) -> tuple[TreeModel, list[OwnedColumns]]:
        owned = self.owned(plan)
        return train_in_plain(self.labels, owned, plan), owned


def made_table(
    rows: int, columns: tuple[int, ...], *, values: int = 16, missing: float = 0.0, seed: int = 1
) -> TreeTable:
    """Draw whole numbers below `values`, of which a share is missing; half of the labels are 1."""
    generator = np.random.default_rng(seed)
    total = sum(columns)
    table = generator.integers(0, values, (rows, total)).astype(np.float64)
    wanted = table @ generator.normal(size=total) + 3 * np.sin(table[:, 0]) * table[:, -1]
    wanted += generator.normal(size=rows) * values / 2
    labels = np.zeros(rows, dtype=np.int64)
    labels[np.argsort(wanted)[rows - rows // 2 :]] = 1
    table[generator.random(table.shape) < missing] = np.nan
    return TreeTable(tuple(np.split(table, np.cumsum(columns)[:-1], axis=1)), labels)
