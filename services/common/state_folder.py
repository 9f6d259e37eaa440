"""What a party keeps across restarts: a folder of its own, private, locked, of one version, each file whole or absent.

Guarantee: once ``write``, ``replace`` or ``remove`` has returned, the next process of this party finds the folder so,
after any kill or power cut. In between it finds what was there before.
"""

import json
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from services.common.durable import make_folder, sync_folder, write_durably
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from services.common.kept_row import BESIDE, ENDING, KeptRow
from services.common.value_faults import error_words

_log = logging.getLogger(__name__)

# Grows when a file of the folder changes its name or its meaning.
SCHEMA = 1
SECRET_BYTES = 32

_LOCK, _OWNER, _SECRET, _PROBE = "lock", "owner.json", "secret", "probe"
# More than a full disk takes.
_PROBE_BYTES = 1 << 16
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
# What a file system itself puts into the root of a volume.
_NOBODYS = frozenset({_LOCK, "lost+found"})


class StateError(ValueError):
    """A state folder that this process can't use; the text says what to do."""


class StateInUse(StateError):
    """Another process has the folder."""


class StateNotKept(OutOfOrder):
    """What must not be lost can't be written, so nothing is promised that depends on it."""


class State(Protocol):
    """What a party keeps, by name. A name is that of a file; one that ends as a database's does is written often."""

    def read(self, name: str) -> bytes | None:
        """Read what was written under ``name``; None where nothing was."""

    def write(self, name: str, content: bytes) -> None:
        """Keep ``content`` under ``name`` in place of what was there. Raises StateNotKept, and nothing has changed."""

    def replace(self, name: str, by: str) -> None:
        """Give what is kept under ``by`` the name ``name``: both change at once, or neither.

        Raises StateNotKept when the next process may find it undone. The same call again goes on from there.
        """

    def remove(self, name: str) -> None:
        """Forget what is kept under ``name``, if anything. Raises StateNotKept."""

    def database(self, name: str) -> str:
        """Tell where SQLite keeps a database of this name."""


class StateInMemory:
    """The state of a party without a folder: it lives as long as the process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def read(self, name: str) -> bytes | None:
        """Read what was written under ``name``; None where nothing was."""
        return self._kept.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Keep ``content`` under ``name``."""
        self._kept[name] = content

    def replace(self, name: str, by: str) -> None:
        """Give what is kept under ``by`` the name ``name``."""
        self._kept[name] = self._kept.pop(by)

    def remove(self, name: str) -> None:
        """Forget what is kept under ``name``, if anything."""
        self._kept.pop(name, None)

    def database(self, name: str) -> str:
        """SQLite's name for a database that is nowhere else."""
        return ":memory:"


class StateFolder:
    """One party's state on disk. It is this process's alone until it ends, or until ``close``.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path, owner: Identity) -> None:
        """Take a folder for the party ``owner``, and make it where it isn't there.

        Raises:
            StateError: for a folder that another process or party uses, that another version wrote, that holds
                something else, or that can't be written.
        """
        self.path = path
        # Of what changes in every step; opened when it is first asked for.
        self._rows: dict[str, KeptRow] = {}
        # A rename that may not be on disk yet: (name, by).
        self._unsynced: tuple[str, str] | None = None
        try:
            make_folder(path)
            _refuse_foreign(path)
            self._lock: int | None = _locked(path)
            try:
                self._own(owner)
            except BaseException:
                self.close()
                raise
        except OSError as error:
            raise StateError(
                f"Cannot keep state in {path} ({error.strerror}): make room, or choose another folder with "
                "PLUMBLINE_STATE_DIR."
            ) from error

    def _own(self, owner: Identity) -> None:
        path = self.path / _OWNER
        if path.exists() and (former := owner_of(self.path)) != owner:
            raise StateError(
                f"{self.path} is the state of {former.name} ({former.role}), and this is {owner.name} ({owner.role}): "
                "every party needs a folder of its own (PLUMBLINE_STATE_DIR)."
            )
        # Written at each start: a folder that can't be written is found out now, not when a model is ready.
        self.path.chmod(_PRIVATE_FOLDER)
        content = {"schema": SCHEMA, "party": owner.name, "role": str(owner.role)}
        write_durably(path, json.dumps(content).encode())

    def read(self, name: str) -> bytes | None:
        """Read what was written under ``name``; None where nothing was. Raises StateError for an unreadable file."""
        if not name.endswith(ENDING):
            return read_state(self.path, name)
        with reading(f"{name} of this party's state", OSError, sqlite3.Error):
            return self._row(name).read() if (self.path / name).exists() else None

    def write(self, name: str, content: bytes) -> None:
        """Keep ``content`` under ``name`` in place of what was there. Raises StateNotKept, and nothing has changed."""
        with self._keeping(name):
            if name.endswith(ENDING):
                self._row(name).write(content)
                return
            write_durably(self.path / name, content)
            if self._unsynced and name in self._unsynced:
                # What was renamed is another's by now.
                self._unsynced = None

    def replace(self, name: str, by: str) -> None:
        """Give what is kept under ``by`` the name ``name``: both change at once, or neither.

        Raises StateNotKept when the next process may find it undone. The same call again goes on from there.
        """
        with self._keeping(name):
            # Once renamed there is nothing to rename: only the sync had failed.
            if self._unsynced != (name, by):
                (self.path / by).replace(self.path / name)
                self._unsynced = name, by
            sync_folder(self.path)
            self._unsynced = None

    def remove(self, name: str) -> None:
        """Forget what is kept under ``name``, if anything. Raises StateNotKept."""
        with self._keeping(name):
            if (row := self._rows.pop(name, None)) is not None:
                row.close()
            # A database after its log, which would be taken for that of the next one.
            for ending in (*BESIDE, ""):
                (self.path / f"{name}{ending}").unlink(missing_ok=True)
            sync_folder(self.path)

    def database(self, name: str) -> str:
        """Make the path of an SQLite database of this name, private from its first byte on. Raises StateError."""
        try:
            return str(_private(self.path / name))
        except OSError as error:
            raise StateError(f"Cannot use {self.path / name} ({error.strerror}): see who owns it.") from error

    def close(self) -> None:
        """Let another process have the folder."""
        while self._rows:
            self._rows.popitem()[1].close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _row(self, name: str) -> KeptRow:
        if name not in self._rows:
            self._rows[name] = KeptRow(_private(self.path / name))
        return self._rows[name]

    @contextmanager
    def _keeping(self, name: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            # The folder's name is for this party's own log only.
            _log.error("Cannot keep %s in %s: %s", name, self.path, why)
            raise StateNotKept(not_kept(owner_of(self.path).name, why or "see its log")) from error


def not_kept(party: str, why: str) -> str:
    """Say that a party can't write its state."""
    return f"{party} can't write its state ({why}): it needs room, or another folder (PLUMBLINE_STATE_DIR)."


def open_state(folder: Path | None, owner: Identity) -> State:
    """Open the state that a process of this party keeps; without a folder it ends with the process.

    Raises:
        StateError: for a folder that can't be used.
    """
    return StateInMemory() if folder is None else StateFolder(folder, owner)


def secret_of(state: State) -> bytes:
    """Find the secret from which this party's defences draw what must stay the same, made at the first call."""
    secret = state.read(_SECRET)
    if secret is None:
        secret = secrets.token_bytes(SECRET_BYTES)
        state.write(_SECRET, secret)
    return secret


def check_room(state: State) -> None:
    """Raise StateNotKept where nothing more could be kept."""
    state.write(_PROBE, bytes(_PROBE_BYTES))
    state.remove(_PROBE)


def owner_of(folder: Path) -> Identity:
    """Say whose state a folder holds; raises StateError where it holds none, or another version's."""
    content = read_state(folder, _OWNER)
    if content is None:
        raise StateError(f"{folder} holds no state of a party: give the folder of PLUMBLINE_STATE_DIR.")
    try:
        record: dict[str, Any] = json.loads(content)
        schema = record["schema"]
        owner = Identity(Role(record["role"]), str(record["party"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(f"{folder / _OWNER} is broken: put the folder back from a copy, or remove it.") from error
    if schema != SCHEMA:
        raise StateError(
            f"{folder} has state of version {schema!r} and this version of Plumbline reads {SCHEMA}: start the version "
            "that wrote it, or choose another folder with PLUMBLINE_STATE_DIR and train again."
        )
    return owner


def broken(what: str, error: Exception | None = None) -> StateError:
    """Make the error of a file that can't be read, with the first line of why."""
    why = f" ({error_words(error)})" if error is not None else ""
    return StateError(
        f"{what} is broken{why}: put the folder back from a copy, or forget it with `plumbline state clear` and train "
        "again."
    )


@contextmanager
def reading(what: str, *kinds: type[Exception]) -> Iterator[None]:
    """Read a piece of state: an error of one of these kinds says that it is broken, and StateError is raised."""
    try:
        yield
    except kinds as error:
        raise broken(what, error) from error


def read_state(folder: Path, name: str) -> bytes | None:
    """Read a file of a state folder, whoever uses it; None where there is none. Raises StateError."""
    try:
        return (folder / name).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"Cannot read {folder / name} ({error.strerror}): see who owns it.") from error


def _refuse_foreign(folder: Path) -> None:
    """Refuse a wrong path: somebody's own files must not end among a party's state, or locked away with it."""
    names = {one.name for one in folder.iterdir() if not one.name.startswith(f".{_OWNER}.")}
    if names - _NOBODYS and _OWNER not in names:
        raise StateError(
            f"{folder} holds other files and no state of a party: choose an empty folder with PLUMBLINE_STATE_DIR."
        )


def _private(database: Path) -> Path:
    """Make a file that is private from its first byte on: SQLite gives those beside it the same mode."""
    os.close(os.open(database, os.O_CREAT | os.O_RDWR, _PRIVATE_FILE))
    return database


def _locked(folder: Path) -> int:
    """Open the descriptor that locks a folder until it is closed; the system does so when the process dies."""
    import fcntl  # Windows has none

    descriptor = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, _PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f"the process {holder}" if holder.isdigit() else "another process"
        raise StateInUse(
            f"{folder} is in use by {who}: stop it first. Every process needs a folder of its own "
            "(PLUMBLINE_STATE_DIR)."
        ) from None
    except BaseException:
        os.close(descriptor)
        raise
    with suppress(OSError):  # only for the sentence above
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    return descriptor
