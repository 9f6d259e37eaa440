"""Values to streams of messages and back: long vectors travel in parts that fit gRPC's default message limit."""

from collections.abc import Iterable, Iterator

from services.common.errors import InvalidMessage

# Far under gRPC's 4 MiB, large enough that the overhead of a part doesn't matter.
PART_BYTES = 1 << 20
# Seconds to tell another party that a session has ended: best effort, it would notice by itself.
END_SECONDS = 1.5
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
