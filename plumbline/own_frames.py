"""A person's data frames as files, which is how parties read their tables."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from services.common.settings import Settings
from services.party.features import own_table
from vfl.data import TableError
from vfl.data.faults import Problems

_MOST_LETTERS = 60


def named(frame: pd.DataFrame) -> str:
    """Name a frame as a person does, fit for a file's name: ``frame.attrs["name"]``; empty where it has none."""
    return re.sub(r"[^\w -]", "_", str(frame.attrs.get("name", "")))[:_MOST_LETTERS]


def write_frames(frames: Sequence[pd.DataFrame], files: Sequence[Path]) -> None:
    """Write each frame into its file, without its index.

    Raises:
        TableError: for a frame that no file can hold: which, and what to do.
    """
    for frame, file in zip(frames, files, strict=True):
        try:
            _storable(frame).to_parquet(file, index=False)
        except (ValueError, TypeError, OverflowError) as error:
            # pandas and pyarrow quote cells.
            raise TableError(
                f"The data frame of {file.stem} can't be written ({type(error).__name__}): give each column a name of "
                "its own, and numbers, text, dates or booleans."
            ) from None


def check_tables(settings: Mapping[str, Settings]) -> None:
    """Read the table of each of these parties as its process will.

    Raises:
        TableError: a line for everything that is wrong with any of them, with its party.
    """
    problems = Problems()
    for party, own in settings.items():
        try:
            own_table(own)
        except TableError as error:
            problems.found.extend(f"{party}: {one}" for one in error.problems)
    problems.tell()


def _storable(frame: pd.DataFrame) -> pd.DataFrame:
    """Write a frame's columns of objects of several types as text: a file has one type per column."""
    mixed = [
        name
        for name in frame.columns
        if frame.columns.is_unique
        and frame[name].dtype == object
        and pd.api.types.infer_dtype(frame[name], skipna=True).startswith("mixed")
    ]
    texts = {name: frame[name].map(str, na_action="ignore") for name in mixed}
    return frame.assign(**texts).rename(columns=str) if texts else frame.rename(columns=str)
