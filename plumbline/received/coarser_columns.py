"""Coarser versions of what is to be sent, and how much of it each leaves: bins, steps, cut ends, noise."""

import numpy as np

from plumbline.judge.measures import conditional_entropy, entropy
from plumbline.received.kinds import ReceivedColumn
from vfl.arrays import FloatArray
from vfl.data.coarsening import coarsened
from vfl.data.columns import COARSENINGS, ColumnPlan, EncodedColumn

# Ways to be coarser, each in words. Of a leaf or another category neighbouring numbers become one.
WAYS = {
    "bins10": "in 10 bins",
    "bins4": "in 4 bins",
    "bins2": "in 2 bins",
    "round10": "rounded to tenths of its range",
    "round4": "rounded to quarters of its range",
    "ends10": "its ends cut, a tenth at either",
    "noise50": "noise of half its deviation",
    "noise100": "noise of its deviation",
}


def coarser(values: FloatArray, column: ReceivedColumn, way: str, draw: np.random.Generator) -> FloatArray:
    """Make (n,) values coarser; gaps stay.

    Args:
        values: of one received column, categories as numbers in their order.
        column: what it is. Noise gives a category, by half or always, another record's; a category has no ends.
        way: of ``WAYS``.
        draw: draws noise.
    """
    there = np.isfinite(values)
    cells = values[there]
    if way in COARSENINGS and len(cells):
        plan = ColumnPlan("sent", "", "number", "", coarsening=next(one for one in COARSENINGS if one == way))
        cells = coarsened(cells[:, None], np.arange(len(cells)), [EncodedColumn("sent", "sent", "number")], [plan])[
            :, 0
        ]
    elif way == "ends10" and column.kind != "category" and len(cells):
        cells = np.clip(cells, *np.quantile(cells, [0.1, 0.9]))
    elif way.startswith("noise") and len(cells):
        share = int(way.removeprefix("noise")) / 100
        if column.kind == "category":
            cells = np.where(draw.random(len(cells)) < share, draw.permutation(cells), cells)
        else:
            cells = cells + share * cells.std() * draw.standard_normal(len(cells))
            cells = np.clip(cells, 0.0, 1.0) if column.kind == "probability" else cells
    result = values.copy()
    result[there] = cells
    return result


def kept(before: FloatArray, after: FloatArray, column: ReceivedColumn) -> float:
    """Say how much of (n,) values their coarser version has, 0 to 1.

    Of numbers the squared correlation, of categories the mutual information as a share of the entropy.
    """
    there = np.isfinite(before)
    old, new = before[there], after[there]
    if column.kind != "category":
        return 0.0 if not (np.ptp(old) and np.ptp(new)) else float(np.corrcoef(old, new)[0, 1] ** 2)
    unknown = entropy(old)
    return 1 - conditional_entropy(old, new) / unknown if unknown else 0.0
