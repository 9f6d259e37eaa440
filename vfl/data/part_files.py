"""A folder of part files, as Spark and Dask write tables: one table, whose parts have the same columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfl.data.faults import TableError, quoted, quoted_path
from vfl.data.table_limits import TableLimits

if TYPE_CHECKING:
    import pandas as pd

# Of one folder.
_MOST_FILES = 10_000
# A column in the names of folders, as in year=2024.
_NAMED_VALUE = re.compile(r"[^=]+=.*")


def part_files(folder: Path) -> list[Path]:
    """List the parts of a table: all files of a folder but empty ones and those of its writer (`_SUCCESS`, `.crc`).

    Raises:
        TableError: where there is none, where there are too many, or where folders are named by a column's values.
    """
    paths = [path for path in islice(folder.rglob("*"), _MOST_FILES + 1) if path.name[0] not in "._"]
    if len(paths) > _MOST_FILES:
        raise TableError(f"The folder {quoted_path(folder)} has more than {_MOST_FILES:,} files: write fewer parts.")
    if named := [path for path in paths if path.is_dir() and _NAMED_VALUE.fullmatch(path.name)]:
        column = quoted(named[0].name.partition("=")[0])
        raise TableError(
            f"The folder {quoted_path(folder)} is divided by column {column}, whose values are names of folders and "
            "stand in no file: write the table without partitions."
        )
    files = [path for path in paths if path.is_file() and path.stat().st_size]
    if not files:
        raise TableError(f"The folder {quoted_path(folder)} has no part of a table: check the path.")
    return sorted(files, key=lambda path: [int(one) if one.isdigit() else one for one in _in_pieces(path, folder)])


def _in_pieces(path: Path, folder: Path) -> list[str]:
    """Cut a name into text and numbers by turns: part.10 comes after part.2."""
    return re.split(r"(\d+)", str(path.relative_to(folder)))


def same_columns(
    choose: Callable[[Sequence[str]], list[str]], first: Path
) -> Callable[[Path], Callable[[Sequence[str]], list[str]]]:
    """Have all parts give the columns that are chosen of the first, and raise TableError for one with others."""
    present: list[str] = []
    selected: list[str] = []

    def of(part: Path) -> Callable[[Sequence[str]], list[str]]:
        def select(names: Sequence[str]) -> list[str]:
            if part == first:
                present[:], selected[:] = names, choose(names)
            elif sorted(names) != sorted(present):
                raise TableError(
                    f"The part {quoted_path(part.name)} has other columns than {quoted_path(first.name)}: write all "
                    "parts of a table alike, each with its header."
                )
            return selected

        return select

    return of


def joined(frames: Sequence[pd.DataFrame], limits: TableLimits) -> pd.DataFrame:
    """Put parts one below the other. Cells keep their types: whole numbers become no floats beside those of others."""
    import pandas as pd

    limits.check_cells(sum(map(len, frames)), frames[0].shape[1])
    columns: dict[Any, pd.Series[Any]] = {}
    for name in frames[0].columns:
        parts = [frame[name] for frame in frames]
        are_alike = len({str(part.dtype) for part in parts}) == 1
        columns[name] = pd.concat(parts if are_alike else [part.astype(object) for part in parts], ignore_index=True)
    return pd.DataFrame(columns, copy=False)
