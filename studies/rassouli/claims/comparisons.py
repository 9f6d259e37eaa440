"""Attacks compared on the same windows of the same models: the curves of this study's figures."""

import pandas as pd

from studies.claims.kinds import Curves

DATASETS = ("bank", "robot", "satellite", "synthetic")
# In the order of the paper's legend; what stands in a frame's column ``attack`` and how a legend has it.
LABELS = {
    "ls": "LS (ESA)",
    "clamped_ls": "Clamped LS",
    "cls": "CLS",
    "gia": "GIA",
    "half": "Half",
    "half_star": "Half*",
    "rcc1": "RCC1",
    "rcc2": "RCC2",
    "random_guess": "RG",
    "zero": "Zero",
}
ATTACKS = Curves("attack", "d", ("dataset", "trainer", "seed", "d", "start"), LABELS)


def hidden(frame: pd.DataFrame) -> pd.DataFrame:
    """The windows where equations leave something open: d >= k."""
    return frame[frame["d"] >= frame["k"]]
