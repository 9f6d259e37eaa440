"""Values to streams of messages and back: long vectors travel in parts that fit gRPC's default message limit."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from protos.v1 import common_pb2
from services.common.errors import InvalidMessage

# Far under gRPC's 4 MiB, large enough that the overhead of a part doesn't matter.
PART_BYTES = 1 << 20
# Seconds to tell another party that a session has ended: best effort, it would notice by itself.
END_SECONDS = 2.0
# Rows per prediction request; 100 classes of doubles still fit one message.
PREDICTION_ROWS = 4096


def parts_of(data: bytes) -> Iterator[bytes]:
    """Cut ``data`` into parts; nothing for empty data."""
    for start in range(0, len(data), PART_BYTES):
        yield data[start : start + PART_BYTES]


def joined(parts: Iterable[bytes], limit: int) -> bytes:
    """Join parts, refusing more than ``limit`` bytes before they fill the memory (InvalidMessage)."""
    collected = bytearray()
    for part in parts:
        collected += part
        if len(collected) > limit:
            raise InvalidMessage(f"Expected at most {limit} bytes in this stream, got more.")
    return bytes(collected)


def scores_message(session_id: str, request_id: int, products: NDArray[np.float64]) -> common_pb2.PartialScores:
    """(rows, columns) partial scores as a message."""
    rows, columns = products.shape
    return common_pb2.PartialScores(
        session_id=session_id,
        request_id=request_id,
        rows=rows,
        columns=columns,
        values=products.ravel().tolist(),
    )


def matrix_of(rows: int, columns: int, values: Iterable[float]) -> NDArray[np.float64]:
    """Read a (rows, columns) matrix; raises InvalidMessage when the sizes don't fit or a value isn't finite."""
    flat = np.fromiter(values, dtype=np.float64)
    if flat.size != rows * columns or flat.size == 0:
        raise InvalidMessage(f"Expected {rows} x {columns} scores, got {flat.size} values.")
    if not np.isfinite(flat).all():
        raise InvalidMessage("Scores must be finite numbers.")
    return flat.reshape(rows, columns)
