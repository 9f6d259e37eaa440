"""Values to streams of messages and back: long vectors travel in parts that fit gRPC's default message limit."""

from collections.abc import Iterable, Iterator

from services.common.errors import InvalidMessage

# Far under gRPC's 4 MiB, large enough that the overhead of a part doesn't matter.
PART_BYTES = 1 << 20


def parts_of(data: bytes) -> Iterator[bytes]:
    """Cut ``data`` into parts; nothing for empty data."""
    for start in range(0, len(data), PART_BYTES):
        yield data[start : start + PART_BYTES]


def joined(parts: Iterable[bytes], limit: int) -> bytes:
    """Join parts; raises InvalidMessage for an empty one, and for more than ``limit`` bytes before they are taken."""
    collected = bytearray()
    for part in parts:
        if not part:
            raise InvalidMessage("A part of this stream holds no data: send the rest of it.")
        if len(collected) + len(part) > limit:
            raise InvalidMessage(f"Expected at most {limit} bytes in this stream, got more.")
        collected += part
    return bytes(collected)
