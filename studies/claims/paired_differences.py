"""Two attacks compared where both were measured: on the same records, window, model and seed."""

from collections.abc import Sequence

import pandas as pd


def paired(left: pd.DataFrame, right: pd.DataFrame, by: Sequence[str], measure: str = "mse") -> pd.DataFrame:
    """Pair measurements that agree in the columns ``by``, those of them that both frames have.

    Returns these columns, ``left`` and ``right``, and ``difference``, left less right; without rows where no two agree.
    """
    keys = [name for name in by if name in left and name in right]
    if left.empty or right.empty:
        return pd.DataFrame(columns=[*keys, "left", "right", "difference"])
    sides = [
        side[[*keys, measure]].rename(columns={measure: name}) for name, side in (("left", left), ("right", right))
    ]
    joined = sides[0].merge(sides[1], on=keys)
    return joined.assign(difference=joined["left"] - joined["right"]).dropna(subset=["difference"])
