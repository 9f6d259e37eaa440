"""A party's own audit log: who was answered what kind of thing, when, how many. No id, no label, no value.

One JSON object a line, each with the SHA-256 of the line before, over all files of the folder. So a line that was
changed, or taken out of the middle, is found by `verify`, and named. Lines that are cut off at the end are found by who
has noted a hash of them elsewhere: this process's log has it at each start, rotation and end.

Guarantee: an answer's line is with the operating system before the answer is given. It survives any end of the process;
a power cut may take the last seconds. Where a line can't be written the answer is given all the same: a full disk must
not end predictions. Such answers are counted, and the next line that can be written says how many they were.
"""

import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from services.common.durable import make_folder
from services.common.state_folder import State, StateError, StateFolder
from services.watching.measures import Measure

_log = logging.getLogger(__name__)

FOLDER = "audit-log"
# What the first line of all has in place of a hash.
NOTHING_BEFORE = "0" * 64
_FILE = re.compile(r"[0-9]{6,}\.jsonl")
_PRIVATE_FILE = 0o600
_MOST_BYTES = 16 << 20
# Longer than any line.
_TAIL_BYTES = 1 << 16
_MENDED, _UNWRITTEN = "torn line cut off", "unwritten answers"
_GONE = "what is between was taken out."


class AuditLog:
    """Appends lines to the newest file of a folder; safe to call from any thread.

    Attributes:
        folder: where the files are.
    """

    def __init__(self, folder: Path, *, most_bytes: int = _MOST_BYTES, clock: Callable[[], float] = time.time) -> None:
        """Go on where the last process has ended, and mend what it has left unfinished.

        Args:
            folder: of this party's alone; it is made where it isn't there.
            most_bytes: a file that has so many is followed by another.
            clock: seconds since 1970.

        Raises:
            StateError: for a folder whose last line is none of a log.
            OSError: where it can't be read or written.
        """
        self.folder = folder
        self._most_bytes = most_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._unwritten = 0
        make_folder(folder)
        files = files_of(folder)
        self._lines, self._head = _last_of(files)
        self._file = files[-1] if files else folder / _name(1)
        self._descriptor = os.open(self._file, os.O_CREAT | os.O_RDWR | os.O_APPEND, _PRIVATE_FILE)
        self._size = os.fstat(self._descriptor).st_size
        if torn := _tail(self._file)[1]:
            self._size -= torn
            os.ftruncate(self._descriptor, self._size)
            _log.warning("The last line of the audit log was torn: %d bytes of it were cut off.", torn)
            self.append(_MENDED, torn)
        self._tell()

    def append(self, kind: str, count: int, peer: str = "", session: str = "") -> None:
        """Write a line with these facts. What can't be written is counted, and said in the next line that can be."""
        with self._lock:
            try:
                if self._unwritten:
                    self._write(_UNWRITTEN, self._unwritten)
                    _log.warning("The audit log is written again: %d answers have no line.", self._unwritten)
                    self._unwritten = 0
                self._write(kind, count, peer, session)
            except OSError as error:
                if not self._unwritten:
                    _log.error("The audit log can't be written (%s): make room. Answers go on.", error.strerror)
                self._unwritten += 1

    def close(self) -> None:
        """Write nothing any more."""
        with self._lock:
            if self._descriptor >= 0:
                self._tell()
                os.close(self._descriptor)
                self._descriptor = -1

    def measures(self) -> Iterator[Measure]:
        """Measure how long the log is, and how many answers have no line in it."""
        yield Measure("audit_log_lines", "Lines of this party's audit log.", {(): self._lines})
        yield Measure("audit_log_unwritten", "Answers since the disk has failed.", {(): self._unwritten})

    def _write(self, kind: str, count: int, peer: str = "", session: str = "") -> None:
        if self._descriptor < 0:
            return
        if self._size >= self._most_bytes:
            self._rotate()
        # By hand: it is twice as fast, and every prediction pays for it.
        line = (
            f'{{"line": {self._lines + 1}, "time": "{_moment(self._clock())}", "peer": {_quoted(peer)}, '
            f'"kind": {_quoted(kind)}, "count": {count}, "session": {_quoted(session)}, "before": "{self._head}"}}'
        ).encode()
        written = 0
        try:
            # In one piece: who reads meanwhile sees whole lines.
            written = os.write(self._descriptor, line + b"\n")
            if written <= len(line):
                raise OSError(0, "no room")
        except OSError:
            if written:
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += written
        self._lines += 1
        self._head = hashlib.sha256(line).hexdigest()

    def _rotate(self) -> None:
        following = self.folder / _name(int(self._file.stem) + 1)
        descriptor = os.open(following, os.O_CREAT | os.O_RDWR | os.O_APPEND, _PRIVATE_FILE)
        os.close(self._descriptor)
        self._file, self._descriptor, self._size = following, descriptor, 0
        self._tell()

    def _tell(self) -> None:
        """Let this process's log have the last hash: it is kept elsewhere, perhaps."""
        _log.info("The audit log has %d lines; the last one's SHA-256 is %s.", self._lines, self._head)


def log_of(state: State) -> AuditLog | None:
    """Open the audit log in a party's state; None for a party that keeps nothing. Raises as ``AuditLog``."""
    return AuditLog(state.path / FOLDER) if isinstance(state, StateFolder) else None


@dataclass(frozen=True)
class Verified:
    """A log whose lines are chained, each to the one before.

    Attributes:
        first: number of its first line; above 1 where older files were put elsewhere.
        last: number of its last line; 0 for none.
        head: SHA-256 of the last line.
        mended: how often a torn line was cut off.
        unwritten: answers that couldn't be written.
    """

    first: int
    last: int
    head: str
    mended: int
    unwritten: int


class LogChanged(ValueError):
    """A log that isn't what was written; the text names the first line that is wrong."""


def verify(folder: Path, noted: str = "") -> Verified:
    """Follow the chain through all files of a log.

    Args:
        folder: the log's, or the state folder that it is in.
        noted: the SHA-256 of a line that was noted earlier; it must be there still. Empty for none.

    Raises:
        LogChanged: for a line that was changed, is missing, or is none; and where what was noted isn't there.
        OSError: for files that can't be read.
    """
    folder = folder / FOLDER if (folder / FOLDER).is_dir() else folder
    files = files_of(folder) if folder.is_dir() else []
    if not files:
        raise LogChanged(f"{folder} has no audit log: give the folder of PLUMBLINE_STATE_DIR, or {FOLDER} in it.")
    # Where the first files are put elsewhere, the chain begins with what the first line here says.
    is_whole = files[0].name == _name(1)
    first, number, head, has_noted = 0, 0, NOTHING_BEFORE, not noted
    mended = unwritten = 0
    for line, place in _lines_of(files):
        entry = _parsed(line, place)
        if first == 0 and not is_whole:
            number, head = entry["line"] - 1, entry["before"]
        if entry["line"] != number + 1:
            raise LogChanged(f"{place}: expected line {number + 1} and found line {entry['line']}: {_GONE}")
        if entry["before"] != head:
            raise LogChanged(
                f"{place}: line {number} was changed after it was written, or the hash of it in line {number + 1}."
            )
        first, number, head = first or entry["line"], entry["line"], hashlib.sha256(line).hexdigest()
        has_noted |= head == noted.lower()
        mended += entry["kind"] == _MENDED
        unwritten += entry["count"] if entry["kind"] == _UNWRITTEN else 0
    if not has_noted:
        raise LogChanged(f"No line of {folder} has the SHA-256 {noted[:64]}: lines were cut off, or rewritten.")
    return Verified(first, number, head, mended, unwritten)


def files_of(folder: Path) -> list[Path]:
    """List the files of a log, oldest first."""
    return sorted((one for one in folder.iterdir() if _FILE.fullmatch(one.name)), key=lambda one: int(one.stem))


def _lines_of(files: list[Path]) -> Iterator[tuple[bytes, str]]:
    """Read every line with its place. A torn one at the very end is what a kill has left, and none yet."""
    for file in files:
        with file.open("rb") as opened:
            for number, line in enumerate(opened, 1):
                place = f"{file.name}:{number}"
                if line.endswith(b"\n"):
                    yield line[:-1], place
                elif file != files[-1]:
                    raise LogChanged(f"{place}: the line has no end: {_GONE}")


def _parsed(line: bytes, place: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
        if [type(entry[name]) for name in ("line", "before", "kind", "count")] == [int, str, str, int]:
            return dict(entry)
    except (ValueError, KeyError, TypeError):
        pass
    raise LogChanged(f"{place}: this is no line of an audit log.")


def _last_of(files: list[Path]) -> tuple[int, str]:
    """Read the number and the hash of the last whole line; raises StateError for what is no line."""
    for file in reversed(files):
        line, _ = _tail(file)
        if line is not None:
            try:
                return _parsed(line, file.name)["line"], hashlib.sha256(line).hexdigest()
            except LogChanged as error:
                raise StateError(
                    f"{file} is broken: `plumbline log verify` says where. Put it back from a copy, or move {FOLDER} "
                    "elsewhere, and a new log is begun."
                ) from error
    return 0, NOTHING_BEFORE


def _tail(file: Path) -> tuple[bytes | None, int]:
    """Read a file's last whole line, None where there is none, and count the bytes that follow it."""
    with file.open("rb") as opened:
        opened.seek(max(0, opened.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines, end, torn = opened.read().rpartition(b"\n")
    if not end and len(torn) == _TAIL_BYTES:
        # Too long for a line that a kill has torn: it is refused, and not cut off.
        return torn, 0
    return (lines.rpartition(b"\n")[2] if end else None), len(torn)


def _name(number: int) -> str:
    return f"{number:06d}.jsonl"


def _moment(seconds: float) -> str:
    second, part = divmod(int(seconds * 1000), 1000)
    return f"{_second(second)}.{part:03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    return json.dumps(text)
