"""Parquet files: what their columns hold is told by metadata, and by dictionaries before they are spelled out.

A column that repeats one value takes a few bytes in the file, however many rows it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfl.data.faults import TableError, quoted_path
from vfl.data.table_limits import TableLimits

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_PANDAS_INDEX_COLUMN = re.compile(r"__index_level_\d+__")


def read_parquet(path: Path, choose: Callable[[Sequence[str]], list[str]], limits: TableLimits) -> pd.DataFrame:
    """Read the chosen columns with the file's own types.

    Columns of lists, of bytes and of other things that no feature is made of come back as empty tuples, unread.

    Raises:
        TableError: for what is no Parquet file, is damaged or too large.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            rows, schema = file.metadata.num_rows, file.schema_arrow
            limits.check_columns(len(schema.names))
            present = [name for name in schema.names if not _PANDAS_INDEX_COLUMN.fullmatch(name)]
            names = choose(present)
            limits.check_cells(rows, len(names))
            _check_bytes(file.metadata, names, limits)
        # One by one, and what reading took is given back: all at once take four times what they hold.
        columns = {name: _column(path, name, schema.field(name).type, rows, limits) for name in names}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, MemoryError):
            raise
        raise TableError(
            f"Cannot read {quoted_path(path)} as Parquet ({type(error).__name__}): check that the file is complete."
        ) from None
    return pd.DataFrame(columns, copy=False)


def _check_bytes(metadata: Any, names: Sequence[str], limits: TableLimits) -> None:
    """Add up what the columns' pages unpack to."""
    wanted, total = set(names), 0
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    for index in range(metadata.num_columns):
        if metadata.schema.column(index).path in wanted:
            total += sum(group.column(index).total_uncompressed_size for group in groups)
    limits.check_bytes(total)


def _column(path: Path, name: str, kind: pa.DataType, rows: int, limits: TableLimits) -> pd.Series[Any]:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not _is_plain(kind):
        return pd.Series([()] * rows, dtype=object)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    data = pq.read_table(path, columns=[name], pre_buffer=False, read_dictionary=[name] if is_text else None)
    # Text that isn't Unicode would be quoted by whoever stumbles over it later.
    data.validate(full=True)
    _check_spelled_out(data.column(0), limits)
    if is_text:
        data = data.cast(pa.schema([pa.field(name, kind)]))
    if pa.types.is_integer(data.schema.types[0]) and data.column(0).null_count:
        # A column of integers with gaps would come back from to_pandas as floats.
        column = pd.Series(data.column(0).to_pylist(), dtype=object)
    else:
        # ignore_metadata: an id that was the index when pandas saved the file comes back as a column.
        column = data.to_pandas(ignore_metadata=True)[name]
    del data
    pa.default_memory_pool().release_unused()
    return column


def _is_plain(kind: pa.DataType) -> bool:
    """Tell whether cells of a type may become numbers, dates or text."""
    import pyarrow as pa

    types = pa.types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return any(
        of(kind)
        for of in (
            *(types.is_boolean, types.is_integer, types.is_floating, types.is_decimal),
            *(types.is_temporal, types.is_string, types.is_large_string, types.is_string_view, types.is_null),
        )
    )


def _check_spelled_out(column: pa.ChunkedArray, limits: TableLimits) -> None:
    """Add up the lengths of a column of texts that is a dictionary and numbers; any other is as large as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
        if not pa.types.is_string(column.type.value_type) and not pa.types.is_large_string(column.type.value_type):
            return
        lengths = pc.binary_length(chunk.dictionary).cast("int64").take(chunk.indices)
        total += pc.sum(lengths).as_py() or 0
    limits.check_bytes(total)
