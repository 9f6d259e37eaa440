"""What a party's process and the one that speaks with its cluster tell each other: bytes behind headers, no objects."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import IO

_HEADER = struct.Struct(">BQQ")
# Who is at the other end may run a cluster's code: it can't have this process hold more.
_MOST_BYTES = 1 << 30


class Kind(IntEnum):
    """What a frame says."""

    # To the cluster: compute this job.
    JOB = 1
    # From it: so many threads compute; this job's answers; this job failed; nothing more comes, and why.
    READY = 2
    ANSWERS = 3
    FAILED = 4
    LOST = 5


@dataclass(frozen=True)
class Frame:
    """One message.

    Attributes:
        kind: what it says.
        number: of the job that it is about, or a count.
        data: a job, answers, or a sentence in UTF-8.
    """

    kind: Kind
    number: int = 0
    data: bytes = b""


def write_frame(stream: IO[bytes], frame: Frame) -> None:
    """Write a frame; raises OSError when nobody reads."""
    stream.write(_HEADER.pack(frame.kind, frame.number, len(frame.data)) + frame.data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> Frame | None:
    """Read a frame, or None at the end; raises ValueError for what is none."""
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    kind, number, size = _HEADER.unpack(header)
    if size > _MOST_BYTES:
        raise ValueError(f"A message of {size} bytes is refused.")
    data = stream.read(size)
    return Frame(Kind(kind), number, data) if len(data) == size else None
