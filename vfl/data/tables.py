"""A party's own table: reading it from a file or a database and refusing whatever the protocol cannot use.

Ids are personal data and so are cell values: no message of this module shows one. Messages name columns and
row numbers (counted from 1, a header line not counted).
"""

from __future__ import annotations

import difflib
import math
import numbers
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from vfl.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import URL

Features = FloatArray
Labels = npt.NDArray[np.object_]

FORMATS = "a path ending in .csv, .csv.gz or .parquet, or a database URL ending in ?table=NAME"

# What a CSV cell may hold instead of a number. Never applied to ids or labels, where "NA" can be a real
# value.
_MISSING_CELLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
# How pandas names a row index that was saved as if it were a column.
_NAMELESS_COLUMN = re.compile(r"Unnamed: \d+")
_PANDAS_INDEX_COLUMN = re.compile(r"__index_level_\d+__")


class TableError(ValueError):
    """A table cannot be used as it is; the message says where the fault is and what to do."""


@dataclass(frozen=True, eq=False)
class Table:
    """One party's rows.

    ids: n distinct non-empty strings. features: (n, d) float64, finite, n >= 1 and d >= 1. feature_names: d
    names. labels: (n,) object array of str or int (the values as they are in the source), None for a passive
    party.

    Raises TableError when the parts do not fit together.
    """

    ids: tuple[str, ...]
    features: Features
    feature_names: tuple[str, ...]
    labels: Labels | None = None

    def __post_init__(self) -> None:
        rows = len(self.ids)
        if rows == 0:
            raise TableError("The table has no rows: check the file or the query.")
        if not self.feature_names:
            raise TableError("The table has no feature columns: name at least one column besides id and label.")
        if self.features.shape != (rows, len(self.feature_names)) or self.features.dtype != np.float64:
            raise TableError(
                f"Expected features of shape {(rows, len(self.feature_names))} in float64, "
                f"got {self.features.shape} in {self.features.dtype}: give one row per id and one column per "
                "name."
            )
        _check_ids(self.ids)
        for column, name in enumerate(self.feature_names):
            _check_finite(self.features[:, column], name)
        if self.labels is not None:
            if self.labels.shape != (rows,):
                raise TableError(f"Expected {rows} labels, got shape {self.labels.shape}: give one label per row.")
            if len(class_names(self.labels)) < 2:
                raise TableError("The table has labels with one class only: training needs two or more classes.")


def load_table(source: str, *, id_column: str, label_column: str | None, columns: list[str] | None = None) -> Table:
    """Read a party's table.

    source: a path ending in .csv, .csv.gz (comma separated, UTF-8, header line) or .parquet, or a SQLAlchemy
    URL with the table named by `?table=NAME` or `?table=SCHEMA.NAME`, for example
    `sqlite:///x.db?table=clients`. columns: the feature columns to use, in this order; None takes every
    column besides id and label.

    Ids are strings: a CSV's leading zeros are kept, whole numbers become their digits, blanks around an id (a
    CHAR column's padding) are removed. Booleans become 0 and 1. Text, missing and infinite cells are refused.

    Raises TableError: no such file, unknown format, missing columns, duplicate or empty ids, cells that are
    not numbers, no rows, no features, labels missing or of one class, a database that does not answer. A
    database URL is shown without its password.
    """
    if "://" in source:
        frame = _read_sql(source, id_column, label_column, columns)
    else:
        path = Path(source)
        readers = {".csv": _read_csv, ".csv.gz": _read_csv, ".parquet": _read_parquet}
        reader = next((read for ending, read in readers.items() if path.name.lower().endswith(ending)), None)
        if reader is None:
            raise TableError(f"Cannot tell the format of {source!r}: give {FORMATS}.")
        if not path.is_file():
            raise TableError(f"There is no file {source!r}: check the path.")
        frame = reader(path, id_column, label_column, columns)
    return table_from_frame(frame, id_column=id_column, label_column=label_column, columns=columns)


def table_from_frame(
    frame: pd.DataFrame, *, id_column: str, label_column: str | None, columns: Sequence[str] | None = None
) -> Table:
    """A Table from a DataFrame by the rules (and errors) of `load_table`; the frame's index is ignored."""
    names = [str(name) for name in frame.columns]
    _check_distinct(names)
    frame = frame.set_axis(names, axis="columns")
    features = _feature_columns(names, id_column, label_column, columns)
    if len(frame) == 0:
        raise TableError("The table has no rows: check the file or the query.")
    ids = tuple(_id_string(value, row) for row, value in enumerate(frame[id_column].astype(object), start=1))
    matrix = np.column_stack([_numeric_column(frame[name], name) for name in features])
    labels = None if label_column is None else _label_array(frame[label_column].astype(object), label_column)
    return Table(ids, matrix, tuple(features), labels)


def class_names(labels: Iterable[object]) -> tuple[str, ...]:
    """The distinct label values as strings: in numeric order when all are numbers, else alphabetically.

    1, 1.0, np.int64(1), True and "1" name the same class.
    """
    names = {str(_label_value(label)) for label in labels}
    if all(_reads_as_number(name) for name in names):
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    return tuple(sorted(names))


def encode_labels(labels: Iterable[object]) -> tuple[IntArray, tuple[str, ...]]:
    """Class indices (n,) in 0..k-1 and the k class names of `class_names` that they index."""
    values = list(labels)
    names = class_names(values)
    index_of = {name: index for index, name in enumerate(names)}
    return np.array([index_of[str(_label_value(value))] for value in values], dtype=np.int64), names


# --- columns ------------------------------------------------------------------------------------------------


def _exact_columns(id_column: str, label_column: str | None) -> list[str]:
    """The columns whose values are kept as the source writes them."""
    return [id_column] if label_column is None else [id_column, label_column]


def _feature_columns(
    present: list[str], id_column: str, label_column: str | None, columns: Sequence[str] | None
) -> list[str]:
    """The names of the feature columns, after checking that every column asked for is there."""
    _check_present(id_column, "id", present)
    if label_column is not None:
        _check_present(label_column, "label", present)
        if label_column == id_column:
            raise TableError(f"Column {id_column!r} cannot be both the id and the label: name two columns.")
    reserved = {id_column, label_column}
    if columns is None:
        features = [name for name in present if name not in reserved]
        nameless = [name for name in features if _NAMELESS_COLUMN.fullmatch(name) or not name.strip()]
        if nameless:
            raise TableError(
                "A column has no name in the header (often a row index saved with the data): "
                "remove it, name it, or list the columns to use."
            )
    else:
        features = list(columns)
        for name in features:
            _check_present(name, "feature", present)
            if name in reserved:
                raise TableError(f"Column {name!r} is the id or the label: take it off the list of features.")
        if len(set(features)) < len(features):
            raise TableError("The list of feature columns names a column twice: name each once.")
    if not features:
        raise TableError("The table has no feature columns: name at least one column besides id and label.")
    return features


def _check_distinct(names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise TableError("Two columns have the same name: rename one of them.")


def _check_present(name: str, role: str, present: Sequence[str]) -> None:
    if name in present:
        return
    shown = ", ".join(repr(column) for column in present[:20])
    if len(present) > 20:
        shown += f" and {len(present) - 20} more"
    close = difflib.get_close_matches(name, present, n=1)
    if close:
        hint = f" Did you mean {close[0]!r}?"
    elif len(present) == 1 and ";" in present[0]:
        hint = " The file seems to be separated by semicolons: save it with commas."
    else:
        hint = " Name one of these."
    raise TableError(f"There is no {role} column {name!r}; the columns are {shown or 'none'}.{hint}")


# --- cells --------------------------------------------------------------------------------------------------


def _is_missing(value: object) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def _id_string(value: object, row: int) -> str:
    """An id as text; a missing one as the empty string, which `_check_ids` counts."""
    if _is_missing(value):
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, (numbers.Integral, Decimal, float)) and not isinstance(value, (bool, np.bool_)):
        # Beyond 2**53 neighbouring ids share a float: two people would become one.
        exact = not isinstance(value, float) or abs(value) < 2**53
        if exact and math.isfinite(value) and value == int(value):
            return str(int(value))
    raise TableError(
        f"The id in row {row} is neither text nor an exact whole number: store the ids as text or as integers."
    )


def _check_ids(ids: tuple[str, ...]) -> None:
    empty = [row for row, value in enumerate(ids, start=1) if not value.strip()]
    if empty:
        raise TableError(
            f"{_count(len(empty), 'row')} without an id ({_row_list(empty)}): give every row an id or remove it."
        )
    first_row: dict[str, int] = {}
    repeated = [row for row, value in enumerate(ids, start=1) if first_row.setdefault(value, row) != row]
    if repeated:
        raise TableError(
            f"{_count(len(repeated), 'row')} with the id of an earlier row ({_row_list(repeated)}): "
            "keep one row per id."
        )


def _count(number: int, noun: str) -> str:
    return f"There is 1 {noun}" if number == 1 else f"There are {number} {noun}s"


def _row_list(rows: list[int]) -> str:
    shown = ", ".join(str(row) for row in rows[:3])
    return f"row {shown}" if len(rows) == 1 else f"rows {shown}" + (", ..." if len(rows) > 3 else "")


def _check_finite(values: Features, name: str) -> None:
    for fault, at, advice in (
        ("is empty (or NaN)", np.isnan(values), "fill in or remove such rows"),
        ("is infinite", np.isinf(values), "replace it by a finite number"),
    ):
        if at.any():
            rows = np.flatnonzero(at) + 1
            raise TableError(
                f"Column {name!r} {fault} in row {rows[0]} ({len(rows)} in all): {advice}, or leave the column out."
            )


def _numeric_column(column: pd.Series[Any], name: str) -> Features:
    """A column as float64; NaN and infinities are left for the Table to refuse."""
    import pandas as pd

    advice = "encode it as numbers first, or leave the column out"
    if isinstance(column.dtype, pd.CategoricalDtype):
        raise TableError(f"Column {name!r} is categorical: {advice}.")
    if pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    values = np.empty(len(column))
    not_numbers: list[int] = []
    for row, value in enumerate(column.astype(object)):
        if _is_missing(value):
            values[row] = np.nan
        elif isinstance(value, (bool, np.bool_, numbers.Real, Decimal)):
            values[row] = float(value)
        else:
            not_numbers.append(row)
    if not_numbers:
        # A CSV column with one word in it arrives as text throughout: point at the word, not at the first
        # number.
        words = (row for row in not_numbers if not _reads_as_number(column.iloc[row]))
        row = next(words, not_numbers[0]) + 1
        raise TableError(f"Column {name!r} holds text, not a number, in row {row}: {advice}.")
    return values


def _reads_as_number(value: object) -> bool:
    try:
        return math.isfinite(float(str(value)))
    except ValueError:
        return False


def _label_array(values: Iterable[object], name: str) -> Labels:
    """Labels as str or int objects; text that is digits throughout (a CSV's) becomes int."""
    labels = list(values)
    for row, label in enumerate(labels, start=1):
        if _is_missing(label) or (isinstance(label, str) and not label.strip()):
            raise TableError(f"Label column {name!r} is empty in row {row}: give every row a label or remove it.")
    labels = [_label_value(label) for label in labels]
    distinct = set(labels)
    # "01" stays text: as a number it would merge with "1".
    if all(isinstance(label, str) and re.fullmatch(r"0|-?[1-9]\d*", label) for label in distinct):
        labels = [int(str(label)) for label in labels]
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _label_value(label: object) -> str | int:
    """One label as int (booleans and whole numbers of any type) or str (everything else)."""
    if isinstance(label, (numbers.Integral, np.bool_)):
        return int(label)
    if isinstance(label, (float, np.floating, Decimal)):
        return int(label) if math.isfinite(label) and label == int(label) else str(label)
    return str(label).strip()


# --- sources ------------------------------------------------------------------------------------------------


def _read_csv(path: Path, id_column: str, label_column: str | None, columns: Sequence[str] | None) -> pd.DataFrame:
    import pandas as pd

    try:
        # header=None: with a header, pandas would take a surplus first column for an index, one column off.
        head = pd.read_csv(path, header=None, nrows=2, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        present = head.iloc[0].tolist()
        _check_distinct(present)
        features = _feature_columns(present, id_column, label_column, columns)
        return pd.read_csv(
            path,
            encoding="utf-8-sig",
            # As text, or "007" would become 7 and an id column with a gap would become floats.
            dtype=dict.fromkeys(_exact_columns(id_column, label_column), str),
            keep_default_na=False,
            na_values=dict.fromkeys(features, _MISSING_CELLS),
            low_memory=False,
        )
    except TableError:
        raise
    except pd.errors.EmptyDataError:
        raise TableError(f"The file {str(path)!r} is empty: check the path.") from None
    except (pd.errors.ParserError, UnicodeDecodeError, OSError, EOFError) as error:
        # Only the kind of fault: a parser's message may quote a cell.
        raise TableError(
            f"Cannot read {str(path)!r} as comma separated UTF-8 text ({type(error).__name__}): "
            "check that every line has as many cells as the header and that the file is complete."
        ) from None


def _read_parquet(path: Path, id_column: str, label_column: str | None, columns: Sequence[str] | None) -> pd.DataFrame:
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    try:
        present = [name for name in pq.read_schema(path).names if not _PANDAS_INDEX_COLUMN.fullmatch(name)]
        features = _feature_columns(present, id_column, label_column, columns)
        exact = _exact_columns(id_column, label_column)
        data = pq.read_table(path, columns=[*exact, *features])
    except (pa.ArrowException, OSError) as error:
        raise TableError(
            f"Cannot read {str(path)!r} as Parquet ({type(error).__name__}): check that the file is complete."
        ) from None
    # ignore_metadata: an id that was the index when pandas saved the file comes back as a column.
    frame: pd.DataFrame = data.to_pandas(ignore_metadata=True)
    for name in exact:
        # A column of integers with gaps would come back from to_pandas as floats.
        frame[name] = pd.Series(data.column(name).to_pylist(), dtype=object)
    return frame


def _read_sql(source: str, id_column: str, label_column: str | None, columns: Sequence[str] | None) -> pd.DataFrame:
    import pandas as pd
    import sqlalchemy as sa

    shown = _without_password(source)
    try:
        url = sa.make_url(source)
    except (sa.exc.ArgumentError, ValueError):
        raise TableError(
            f"Cannot read the database URL {shown}: write DIALECT://USER:PASSWORD@HOST/DATABASE?table=NAME, "
            "with special characters in the password percent-encoded."
        ) from None
    if "@" in (url.host or ""):
        # What follows the first @ would be taken for the host and shown: it is the end of the password.
        raise TableError(f"The password in {shown} contains @: write it as %40.")
    table_name = url.query.get("table")
    if not isinstance(table_name, str) or not table_name:
        raise TableError(f"The database URL {shown} names no table: end it in ?table=NAME.")
    url = url.difference_update_query(["table"])
    # SQLite would make an empty database of a mistyped path.
    if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
        _check_sqlite_file(url)

    engine = None
    try:
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            table = _reflected(connection, table_name)
            present = [column.name for column in table.columns]
            features = _feature_columns(present, id_column, label_column, columns)
            wanted = [*_exact_columns(id_column, label_column), *features]
            rows = [tuple(row) for row in connection.execute(sa.select(*(table.c[name] for name in wanted)))]
            # dtype=object: pandas would turn whole-number ids with gaps, and NUMERIC ids, into floats.
            return pd.DataFrame(rows, columns=pd.Index(wanted), dtype=object)
    except ModuleNotFoundError as error:
        raise TableError(
            f"The database driver {error.name!r} for {shown} is not installed: install it, for PostgreSQL "
            "with "
            'pip install "plumbline[postgres]" and a URL that starts with postgresql+psycopg://.'
        ) from None
    except sa.exc.NoSuchModuleError:
        raise TableError(
            f"Unknown kind of database in {shown}: start the URL with sqlite:// or postgresql+psycopg://."
        ) from None
    except sa.exc.SQLAlchemyError as error:
        raise TableError(
            f"Cannot read table {table_name!r} from {shown}: {_driver_message(error, url)}. "
            "Check the address, the user's rights and the table name."
        ) from None
    finally:
        if engine is not None:
            engine.dispose()


def _reflected(connection: Any, table_name: str) -> Any:
    """The table or view of this name (SCHEMA.NAME too); SQLAlchemy quotes the name in the query it makes."""
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    schema = None
    name = table_name
    if not inspector.has_table(name) and "." in name:
        schema, name = table_name.split(".", 1)
    if not inspector.has_table(name, schema=schema):
        present = [*inspector.get_table_names(), *inspector.get_view_names()]
        close = difflib.get_close_matches(table_name, present, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "check the name and the user's rights."
        raise TableError(f"The database has no table {table_name!r} ({len(present)} others): {hint}")
    return sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)


def _check_sqlite_file(url: URL) -> None:
    database = url.database or ""
    if not database.startswith("file:") and not Path(database).is_file():
        raise TableError(f"There is no file {database!r}: check the path in the sqlite URL.")


def _without_password(source: str) -> str:
    """The URL for people: user and host stay; the password and the query, which may hold one too, do not."""
    scheme, rest = source.split("://", 1)
    credentials, at, place = rest.rpartition("@")
    user = f"{credentials.split(':', 1)[0]}:***@" if at else ""
    return f"{scheme}://{user}{place.split('?', 1)[0]}"


def _driver_message(error: Exception, url: URL) -> str:
    """The first line of the driver's own message, without a password it may quote."""
    lines = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()
    message = lines[0].rstrip(".") if lines else type(error).__name__
    secrets = [url.password, *(url.query.get(key) for key in ("password", "sslpassword"))]
    for secret in secrets:
        if secret:
            message = message.replace(str(secret), "***")
    return message
