"""Reading a party's table from a database.

Ids are personal data and so are cell values: no message of this module shows one, nor a password.
"""

from __future__ import annotations

import itertools
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfl.data.faults import TableError, quoted, quoted_path
from vfl.data.table_limits import TableLimits
from vfl.source_words import LEFT_OUT, without_password
from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import URL

# Instructions of SQLite between two looks at it, and for a cell: a table takes two, a view some more.
_STEPS, _STEPS_OF_A_CELL = 10_000, 8
# A row of so few columns may have large cells.
_FEW_COLUMNS = 64
_UNREADABLE = (
    "A row of the table can't be read ({}): check that every cell is of its column's type and in the database's "
    "encoding, and, of a view, that it ends."
)


def read_database(
    source: str, choose: Callable[[Sequence[str]], list[str]], limits: TableLimits | None = None
) -> pd.DataFrame:
    """Read columns of a database's table, with values as the driver gives them.

    Args:
        source: a SQLAlchemy URL that ends in `?table=NAME`.
        choose: says which of the table's columns to read.
        limits: how large the table may be.

    Raises:
        TableError: for a URL that can't be used, a database that doesn't answer, and a table that is too large.
    """
    import pandas as pd
    import sqlalchemy as sa

    address = without_password(source)
    try:
        url = sa.make_url(source)
    except (sa.exc.ArgumentError, ValueError):
        raise TableError(
            f"Cannot read the database URL {address}: write DIALECT://USER:PASSWORD@HOST/DATABASE?table=NAME, "
            "with special characters in the password percent-encoded."
        ) from None
    if "@" in f"{url.host}{url.database}" and url.get_backend_name() != "sqlite":
        # What follows the first @ would be taken for the host and shown: it is the end of the password.
        raise TableError(
            f"The password in {address} contains @: write it as %40, and / as %2F. A colon stands between user and it."
        )
    if LEFT_OUT in (url.password, *url.query.values()):
        raise TableError(
            f"In {address} the password is left out, as in every file that a run leaves: write it in place of "
            f"{LEFT_OUT}."
        )
    table_name = url.query.get("table")
    if not isinstance(table_name, str) or not table_name:
        raise TableError(f"The database URL {address} names no table: end it in ?table=NAME.")
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
            limits = (limits or TableLimits()).of_database
            limits.check_columns(len(present))
            wanted = choose(present)
            rows = _rows(connection, sa.select(*(table.c[name] for name in wanted)), limits)
            # dtype=object: pandas would turn whole-number ids with gaps, and NUMERIC ids, into floats.
            return pd.DataFrame(rows, columns=pd.Index(wanted), dtype=object)
    except ModuleNotFoundError as error:
        raise TableError(
            f"The database driver {error.name!r} for {address} is not installed: install it, for PostgreSQL "
            "with "
            'pip install "plumbline[postgres]" and a URL that starts with postgresql+psycopg://.'
        ) from None
    except sa.exc.NoSuchModuleError:
        raise TableError(
            f"Unknown kind of database in {address}: start the URL with sqlite:// or postgresql+psycopg://."
        ) from None
    except sa.exc.SQLAlchemyError as error:
        raise TableError(
            f"Cannot read table {quoted(without_password(table_name))} from {address}: {_driver_message(error, url)}. "
            "Check the address, the user's rights and the table name."
        ) from None
    finally:
        if engine is not None:
            engine.dispose()


def _rows(connection: Any, query: Any, limits: TableLimits) -> list[tuple[Any, ...]]:
    """Fetch a table's rows, counted before and as they come: a view may make any number of them, of any size."""
    import sqlalchemy as sa

    columns, rows, size = len(query.selected_columns), list[tuple[Any, ...]](), 0
    raw = connection.connection.driver_connection
    if isinstance(raw, sqlite3.Connection):
        raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.bytes // max(columns, _FEW_COLUMNS))
        # A view may work without an end, and without a row.
        looks = itertools.count()
        raw.set_progress_handler(lambda: next(looks) * _STEPS > _STEPS_OF_A_CELL * limits.cells, _STEPS)
    try:
        count = sa.select(sa.func.count()).select_from(query.get_final_froms()[0])
        limits.check_cells(connection.execute(count).scalar_one(), columns)
        for row in connection.execution_options(stream_results=True).execute(query):
            rows.append(tuple(row))
            limits.check_cells(len(rows), columns)
            size += sum(len(cell) for cell in row if isinstance(cell, (str, bytes)))
            limits.check_bytes(size)
    except sa.exc.DBAPIError as error:
        # Of rights and names (SQL's class 42); any other message may quote a cell.
        if str(getattr(error.orig, "sqlstate", None)).startswith("42"):
            raise
        raise TableError(_UNREADABLE.format(type(error.orig).__name__)) from None
    except (ValueError, TypeError, ArithmeticError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(_UNREADABLE.format(type(error).__name__)) from None
    return rows


def _reflected(connection: Any, table_name: str) -> Any:
    """Find the table or view of this name (SCHEMA.NAME too); SQLAlchemy quotes the name in the query it makes."""
    import sqlalchemy as sa

    inspector = sa.inspect(connection)
    schema = None
    name = table_name
    if not inspector.has_table(name) and "." in name:
        schema, name = table_name.split(".", 1)
    if not inspector.has_table(name, schema=schema):
        present = [*inspector.get_table_names(), *inspector.get_view_names()]
        hint = did_you_mean(table_name, present) or " Check the name and the user's rights."
        raise TableError(
            f"The database has no table {quoted(without_password(table_name))} ({len(present)} others).{hint}"
        )
    return sa.Table(name, sa.MetaData(), schema=schema, autoload_with=connection, resolve_fks=False)


def _check_sqlite_file(url: URL) -> None:
    database = url.database or ""
    if not database.startswith("file:") and not Path(database).is_file():
        raise TableError(
            f"There is no file {quoted_path(without_password(database))}: check the path in the sqlite URL."
        )


def _driver_message(error: Exception, url: URL) -> str:
    """Take the first line of the driver's own message, without a password it may quote."""
    lines = str(getattr(error, "orig", None) or type(error).__name__).strip().splitlines()
    message = lines[0].rstrip(".") if lines else type(error).__name__
    secrets = [url.password, *(url.query.get(key) for key in ("password", "sslpassword"))]
    if not re.fullmatch(r"[\w.+-]*", url.username or ""):  # USER;PASSWORD, or the like
        secrets.append(url.username)
    for secret in secrets:
        if secret:
            message = message.replace(str(secret), "***")
    return message
