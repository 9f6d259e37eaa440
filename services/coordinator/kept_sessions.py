"""What the coordinator must not forget: agreed sessions, how many shares came, and first answers. One SQLite database.

Every method that changes something returns when it is on disk (WAL, synchronous=FULL: one sync of the log each). It is
one file, so that sessions, counts and answers are always of the same moment.
"""

import json
import logging
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from services.common.agreement import Agreement
from services.common.identity import Role
from services.common.run_records import content_of
from services.common.state_folder import State, StateError, StateNotKept, not_kept
from vfl.arrays import FloatArray

_log = logging.getLogger(__name__)

DATABASE = "sessions.sqlite3"

_TABLES = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY,
    active TEXT NOT NULL,
    agreement TEXT NOT NULL,
    defences TEXT NOT NULL,
    kept_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%SZ')),
    served INTEGER NOT NULL DEFAULT 0,
    submissions INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS answers (
    session TEXT NOT NULL,
    party TEXT NOT NULL,
    token BLOB NOT NULL,
    logits BLOB NOT NULL,
    PRIMARY KEY (session, party, token)
) WITHOUT ROWID;
"""
_FORGET_ANSWERS = "DELETE FROM answers WHERE session NOT IN (SELECT id FROM sessions)"


@dataclass(frozen=True)
class KeptSession:
    """A session that every party has joined.

    Attributes:
        agreement: its terms.
        defences: fingerprint of what the coordinator applied to its scores when it began.
        is_served: whether its model is the served one.
        kept_at: when every party had joined, UTC, ISO 8601.
        submissions: shares of defended scores that have come.
        answers: first answers that are kept, one per party and pseudonym.
    """

    agreement: Agreement
    defences: str
    is_served: bool = False
    kept_at: str = ""
    submissions: int = 0
    answers: int = 0


class KeptSessions:
    """The database. Thread-safe; its caller keeps the order of what belongs together."""

    def __init__(self, state: State) -> None:
        """Open the database, and make it where it isn't there.

        Raises:
            StateError: for a file that is broken, or no database.
        """
        self._lock = threading.Lock()
        try:
            # Autocommit: transactions are those of ``_change``.
            self._database = sqlite3.connect(state.database(DATABASE), check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(_TABLES)
        except sqlite3.Error as error:
            raise _broken(error) from error

    def all(self) -> list[KeptSession]:
        """The sessions of the database, oldest first; raises StateError for one that can't be read."""
        with self._lock:
            return _sessions_in(self._database)

    def keep(self, session: KeptSession) -> None:
        """Keep a session that has begun, in place of others of its active party whose model isn't served."""
        agreement = session.agreement
        with self._change() as database:
            database.execute(
                "DELETE FROM sessions WHERE active = ? AND NOT served AND id != ?",
                (agreement.active.name, agreement.session_id),
            )
            database.execute(
                "INSERT OR IGNORE INTO sessions (id, active, agreement, defences) VALUES (?, ?, ?, ?)",
                (agreement.session_id, agreement.active.name, json.dumps(content_of(agreement)), session.defences),
            )
            database.execute(_FORGET_ANSWERS)

    def serve(self, session_id: str) -> None:
        """Have a kept session served, and forget every other one of its active party: both at once, or neither."""
        with self._change() as database:
            database.execute("UPDATE sessions SET served = 1 WHERE id = ?", (session_id,))
            database.execute(
                "DELETE FROM sessions WHERE id != ? AND active = (SELECT active FROM sessions WHERE id = ?)",
                (session_id, session_id),
            )
            database.execute(_FORGET_ANSWERS)

    def forget(self, session_id: str) -> None:
        """Forget a session unless its model is served."""
        with self._change() as database:
            database.execute("DELETE FROM sessions WHERE id = ? AND NOT served", (session_id,))
            database.execute(_FORGET_ANSWERS)

    def count_submission(self, session_id: str) -> int:
        """Count one more share of a session; returns how many there are now."""
        with self._change() as database:
            (submissions,) = database.execute(
                "UPDATE sessions SET submissions = submissions + 1 WHERE id = ? RETURNING submissions", (session_id,)
            ).fetchone()
            return int(submissions)

    def submissions(self, session_id: str) -> int:
        """How many shares of a session have come."""
        with self._lock:
            found = self._database.execute("SELECT submissions FROM sessions WHERE id = ?", (session_id,)).fetchone()
        return int(found[0]) if found else 0

    def first(self, session_id: str, party: str, tokens: Sequence[int], columns: int) -> dict[int, FloatArray]:
        """The logits with which records were first answered, (columns,) each, by a party's pseudonym of them."""
        query = "SELECT logits FROM answers WHERE session = ? AND party = ? AND token = ?"
        known = {}
        with self._lock:
            for token in dict.fromkeys(tokens):
                if found := self._database.execute(query, (session_id, party, _bytes_of(token))).fetchone():
                    known[token] = np.frombuffer(found[0], dtype=np.float64, count=columns)
        return known

    def count_answers(self, session_id: str, party: str) -> int:
        """How many records of a session were answered, by a party's pseudonyms of them."""
        query = "SELECT count(*) FROM answers WHERE session = ? AND party = ?"
        with self._lock:
            (count,) = self._database.execute(query, (session_id, party)).fetchone()
        return int(count)

    def answer(self, session_id: str, answers: Mapping[tuple[str, int], FloatArray]) -> None:
        """Keep the logits with which records are answered, by party and pseudonym. Those that are there stay."""
        if not answers:
            return
        with self._change() as database:
            database.executemany(
                "INSERT OR IGNORE INTO answers (session, party, token, logits) VALUES (?, ?, ?, ?)",
                [(session_id, party, _bytes_of(token), row.tobytes()) for (party, token), row in answers.items()],
            )

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """One transaction; raises StateNotKept where it can't be written, and nothing has changed."""
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield self._database
                self._database.execute("COMMIT")
            except sqlite3.Error as error:
                self._abandon()
                _log.error("Cannot write %s of the state folder: %s", DATABASE, error)
                raise StateNotKept(not_kept(str(Role.COORDINATOR), str(error))) from error
            except BaseException:
                self._abandon()
                raise

    def _abandon(self) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")


def look_into(path: Path) -> list[KeptSession]:
    """The sessions of a database that another process may use; raises StateError."""
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return _sessions_in(database)
        finally:
            database.close()
    except sqlite3.Error as error:
        raise _broken(error) from error


def _sessions_in(database: sqlite3.Connection) -> list[KeptSession]:
    rows = database.execute(
        "SELECT agreement, defences, served, kept_at, submissions, "
        "(SELECT count(*) FROM answers WHERE session = sessions.id) FROM sessions ORDER BY rowid"
    ).fetchall()
    adapter = TypeAdapter(Agreement)
    try:
        return [
            KeptSession(adapter.validate_json(agreement), defences, bool(served), kept_at, submissions, answers)
            for agreement, defences, served, kept_at, submissions, answers in rows
        ]
    except ValueError as error:
        raise _broken(error) from error


def _bytes_of(token: int) -> bytes:
    """A pseudonym as it is kept: SQLite's integers are signed."""
    return token.to_bytes(8, "big")


def _broken(error: Exception) -> StateError:
    return StateError(
        f"{DATABASE} of this coordinator's state is broken ({str(error).splitlines()[0]}): put the folder back from a "
        "copy, or forget it with `plumbline state clear` and train again."
    )
