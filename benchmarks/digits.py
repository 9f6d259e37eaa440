"""How many binary digits a column takes in the encrypted product: public data sets, by the widths that are told.

python -m benchmarks.digits [--data-dir DATA]

All columns of a data set as one table. ``raw`` ones are typed as a party's own file is: a feature for each category.
The last figure is what sets had without classes of widths, each column on a grid of its own digits.
"""

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from vfl.arrays import FloatArray
from vfl.data import (
    DATASETS,
    DatasetNotFound,
    Grid,
    TypedTable,
    Width,
    column_grids,
    load_dataset,
    read_table,
    width_of,
)
from vfl.data.loaders import existing_file
from vfl.data.tables import Table
from vfl.data.typed_tables import typed_table_of

_REGISTERED = ("breast_cancer", "digits", "satellite", "pendigits", "adult", "credit", "bank", "mnist01")
# A feature in [0, 1] with 16 fraction bits, 1 included.
_FULL = 17
_DIGITS: Mapping[Width, int] = {"binary": 1, "byte": 8, "full": _FULL}
# Of adult, whose file has no header: those that hold text.
_ADULT_TEXT = (1, 3, 5, 6, 7, 8, 9, 13)
_BANK_FILE = "bank-additional-full.csv"


def main() -> None:
    """Print a line per data set; those whose files aren't there are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("PLUMBLINE_DATA_DIR", "data")))
    data = parser.parse_args().data_dir
    print("| data set | features | 1 digit | 8 digits | 17 digits | mean of 17 | with own digits |")  # noqa: T201
    print("|---|---|---|---|---|---|---|")  # noqa: T201
    for name, table in _tables(data):
        print(_line(name, column_grids(table, "minmax")))  # noqa: T201


def _tables(data: Path) -> Iterator[tuple[str, TypedTable]]:
    for name in _REGISTERED:
        try:
            found = load_dataset(name, data)
        except DatasetNotFound:
            print(f"| {name} | its files aren't in {data} |")  # noqa: T201
            continue
        table = Table(tuple(map(str, range(len(found.features)))), found.features, tuple(found.feature_names))
        yield name, typed_table_of(table)
        if name == "adult":
            yield "adult, raw", _typed(_adult_with_words(found.features, found.feature_names))
        elif name == "bank" and (path := existing_file(data / DATASETS[name].folder / _BANK_FILE)) is not None:
            yield "bank, raw", _typed(pd.read_csv(path, sep=";", keep_default_na=False).drop(columns="y"))


def _adult_with_words(features: FloatArray, names: tuple[str, ...]) -> pd.DataFrame:
    """Adult's columns with words for the codes that the registered set has of them."""
    frame = pd.DataFrame(features, columns=list(names))
    for at in _ADULT_TEXT:
        frame[names[at]] = [f"c{code:.0f}" for code in features[:, at]]
    return frame


def _typed(frame: pd.DataFrame) -> TypedTable:
    """The table that a party with this file has."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame.assign(row_id=[f"r{row}" for row in range(len(frame))]).to_csv(path, index=False)
        return read_table(str(path), id_column="row_id", label_column=None)


def _line(name: str, grids: tuple[Grid | None, ...]) -> str:
    widths = Counter(width_of(grid) for grid in grids)
    told = sum(count * _DIGITS[width] for width, count in widths.items()) / len(grids)
    own = sum(_FULL if grid is None else max(1, grid.steps.bit_length()) for grid in grids) / len(grids)
    counts = " | ".join(str(widths[width]) for width in _DIGITS)
    return f"| {name} | {len(grids)} | {counts} | {told:.1f} | {own:.1f} |"


if __name__ == "__main__":
    main()
