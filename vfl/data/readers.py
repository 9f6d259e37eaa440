"""Reading a party's table from a file or a database.

Ids are personal data and so are cell values: no message of this module shows one, nor a password.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfl.data.tables import (
    Labels,
    Table,
    TableError,
    check_distinct,
    exact_columns,
    feature_columns,
    ids_and_labels,
    table_from_frame,
)

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import URL

FORMATS = "a path ending in .csv, .csv.gz or .parquet, or a database URL ending in ?table=NAME"
# What a CSV cell may hold instead of a number. Never applied to ids or labels, where "NA" can be a real
# value.
_MISSING_CELLS = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
_PANDAS_INDEX_COLUMN = re.compile(r"__index_level_\d+__")


def load_table(source: str, *, id_column: str, label_column: str | None, columns: list[str] | None = None) -> Table:
    """Read a party's table from a file or a database.

    Ids are strings: a CSV's leading zeros are kept, whole numbers become their digits, blanks around an id (a CHAR
        column's padding) are removed. Booleans become 0 and 1. Text, missing and infinite cells are refused.

    Args:
        source: a path ending in .csv, .csv.gz (comma separated, UTF-8, header line) or .parquet, or a SQLAlchemy URL
            with the table named by `?table=NAME` or `?table=SCHEMA.NAME`, for example `sqlite:///x.db?table=clients`.
        id_column: holds the ids.
        label_column: holds the labels; None for a passive party.
        columns: the feature columns to use, in this order; None takes every column besides id and label.

    Raises:
        TableError: for a missing file or an unknown format; missing columns; duplicate or empty ids; cells that are not
            numbers; no rows or no features; labels that are missing or of one class; a database that does not answer. A
            database URL is shown without its password.
    """
    frame = _frame_of(source, id_column, label_column, columns)
    return table_from_frame(frame, id_column=id_column, label_column=label_column, columns=columns)


def read_frame(
    source: str, id_column: str, label_column: str | None, columns: Sequence[str] | None, drop: Sequence[str]
) -> tuple[pd.DataFrame, tuple[str, ...], Labels | None]:
    """Read the feature columns of a source as they come, its ids and its labels."""
    frame = _frame_of(source, id_column, label_column, None if columns is None else list(columns))
    names = feature_columns([str(name) for name in frame.columns], id_column, label_column, columns)
    ids, labels = ids_and_labels(frame, id_column, label_column)
    return frame[[name for name in names if name not in drop]], ids, labels


def _frame_of(source: str, id_column: str, label_column: str | None, columns: Sequence[str] | None) -> pd.DataFrame:
    if "://" in source:
        return _read_sql(source, id_column, label_column, columns)
    path = Path(source)
    readers = {".csv": _read_csv, ".csv.gz": _read_csv, ".parquet": _read_parquet}
    reader = next((read for ending, read in readers.items() if path.name.lower().endswith(ending)), None)
    if reader is None:
        raise TableError(f"Cannot tell the format of {source!r}: give {FORMATS}.")
    if not path.is_file():
        raise TableError(f"There is no file {source!r}: check the path.")
    return reader(path, id_column, label_column, columns)


def _read_csv(path: Path, id_column: str, label_column: str | None, columns: Sequence[str] | None) -> pd.DataFrame:
    import pandas as pd

    try:
        # header=None: with a header, pandas would take a surplus first column for an index, one column off.
        head = pd.read_csv(path, header=None, nrows=2, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        present = head.iloc[0].tolist()
        check_distinct(present)
        features = feature_columns(present, id_column, label_column, columns)
        return pd.read_csv(
            path,
            encoding="utf-8-sig",
            # As text, or "007" would become 7 and an id column with a gap would become floats.
            dtype=dict.fromkeys(exact_columns(id_column, label_column), str),
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
        features = feature_columns(present, id_column, label_column, columns)
        exact = exact_columns(id_column, label_column)
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
            features = feature_columns(present, id_column, label_column, columns)
            wanted = [*exact_columns(id_column, label_column), *features]
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
