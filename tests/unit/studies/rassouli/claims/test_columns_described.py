"""Statements on the data come out each way on made-up rows."""

import pandas as pd
import pytest

from studies.claims.claim import judged
from studies.claims.statement import Statement
from studies.rassouli.claims.columns_described import COLUMN_CLAIMS

SIZES = {"bank": (41_188, 19, 2), "robot": (5_456, 24, 4), "satellite": (6_430, 36, 6), "synthetic": (50_000, 10, 2)}


def rows(mean: float = 0.52, records: int = 0, robot: float = 0.2) -> pd.DataFrame:
    """Two columns of each data set, so many records more than the paper's."""
    return pd.DataFrame(
        [
            {
                "dataset": name,
                "draw": 0,
                "records": size[0] + records,
                "features": size[1],
                "classes": size[2],
                "mean": robot if name == "robot" else mean,
                "variance": 0.05,
            }
            for name, size in SIZES.items()
            for _ in range(2)
        ]
    )


def verdict(frame: pd.DataFrame, name: str, words: str) -> Statement:
    (found,) = (one for one in judged(COLUMN_CLAIMS, frame) if words in one.paper and one.subject == name)
    return found


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_compared(name: str) -> None:
    assert verdict(rows(), name, "records").verdict == "reproduced"
    assert verdict(rows(records=5), name, "records").verdict == "in part"


def test_means_near_one_half() -> None:
    assert verdict(rows(), "satellite", "All the feature values").verdict == "reproduced"
    assert verdict(rows(mean=0.9), "satellite", "All the feature values").verdict == "differs"
    assert verdict(rows(), "bank", "Features have a mean").verdict == "reproduced"
    far = verdict(rows(mean=0.95), "bank", "Features have a mean")
    assert far.verdict == "differs"
    assert "far to both sides" in far.reason


def test_without_robot_nothing_is_compared_with_it() -> None:
    frame = rows()
    assert verdict(frame[frame["dataset"] != "robot"], "bank", "Features have a mean").verdict == "not measured"
    assert {one.verdict for one in judged(COLUMN_CLAIMS, frame.iloc[:0])} == {"not measured"}
