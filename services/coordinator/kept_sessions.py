"""What the coordinator must not forget: sessions, shares, first answers, how far ledgers are. One SQLite database.

Every method that changes something returns when it is on disk (WAL, synchronous=FULL: one sync of the log each). It is
one file, so that sessions, counts and answers are always of the same moment.
"""

import json
import logging
import secrets
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from services.common.agreement import Agreement
from services.common.errors import NotAllowed
from services.common.identity import Role
from services.common.ledger_marks import LedgerMark
from services.common.run_records import content_of
from services.common.state_folder import State, StateNotKept, not_kept, reading
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
    served INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS submissions (
    session TEXT NOT NULL,
    party TEXT NOT NULL,
    shares INTEGER NOT NULL,
    PRIMARY KEY (session, party)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS asked (
    session TEXT NOT NULL,
    party TEXT NOT NULL,
    token BLOB NOT NULL,
    process BLOB NOT NULL,
    PRIMARY KEY (session, party, token)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS answers (
    session TEXT NOT NULL,
    party TEXT NOT NULL,
    token BLOB NOT NULL,
    logits BLOB NOT NULL,
    PRIMARY KEY (session, party, token)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ledgers (
    party TEXT NOT NULL,
    ledger TEXT NOT NULL,
    generation INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    step INTEGER NOT NULL,
    of_session INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (party, ledger)
) WITHOUT ROWID;
"""
# Ledgers of one party that outlive sessions: it begins a new one where its owner has deleted one.
_MOST_LEDGERS = 64
_OF_SESSIONS = ("submissions", "asked", "answers")
_ASK = (
    "INSERT OR IGNORE INTO asked (session, party, token, process) SELECT ?1, ?2, ?3, ?4 "
    "WHERE NOT EXISTS (SELECT 1 FROM answers WHERE session = ?1 AND party = ?2 AND token = ?3)"
)

_NOTE = (
    "INSERT OR REPLACE INTO ledgers (party, ledger, generation, attempt, step, of_session, used) "
    "VALUES (?, ?, ?, ?, ?, ?, (SELECT coalesce(max(used), 0) + 1 FROM ledgers))"
)
_FORGET_UNUSED = (
    "DELETE FROM ledgers WHERE party = ?1 AND NOT of_session AND ledger NOT IN "
    "(SELECT ledger FROM ledgers WHERE party = ?1 AND NOT of_session ORDER BY used DESC LIMIT ?2)"
)


@dataclass(frozen=True)
class KeptSession:
    """A session that every party has joined.

    Attributes:
        agreement: its terms.
        defences: fingerprint of what the coordinator applied to its scores when it began.
        is_served: whether its model is the served one.
        kept_at: when every party had joined, UTC, ISO 8601.
        submissions: shares of defended scores that have come, of all parties.
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
        self._process = secrets.token_bytes(8)
        with reading(f"{DATABASE} of this coordinator's state", sqlite3.Error):
            # Autocommit: transactions are those of ``_change``.
            self._database = sqlite3.connect(state.database(DATABASE), check_same_thread=False, isolation_level=None)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=FULL")
            self._database.executescript(_TABLES)
            # Small: what was asked is forgotten when it is answered, and when a process stops as it should.
            self._lost = set(self._database.execute("SELECT session, party, token FROM asked"))

    def all(self) -> list[KeptSession]:
        """List the sessions of the database, oldest first; raises StateError for one that can't be read."""
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
            _forget_orphans(database)

    def serve(self, session_id: str) -> None:
        """Have a kept session served, and forget every other one of its active party: both at once, or neither."""
        with self._change() as database:
            database.execute("UPDATE sessions SET served = 1 WHERE id = ?", (session_id,))
            database.execute(
                "DELETE FROM sessions WHERE id != ? AND active = (SELECT active FROM sessions WHERE id = ?)",
                (session_id, session_id),
            )
            _forget_orphans(database)

    def forget(self, session_ids: Iterable[str]) -> None:
        """Forget sessions, except one whose model is served."""
        with self._change() as database:
            database.executemany("DELETE FROM sessions WHERE id = ? AND NOT served", [(one,) for one in session_ids])
            _forget_orphans(database)

    def count_submission(self, session_id: str, party: str, tokens: Iterable[int], most: int) -> int:
        """Count one more share of a party, and keep that its records were asked for; returns how many shares there are.

        Raises:
            NotAllowed: where more than ``most`` records of the party wait for an answer. Nothing has changed.
        """
        with self._change() as database:
            database.executemany(_ASK, [(session_id, party, _bytes_of(token), self._process) for token in set(tokens)])
            if _count(database, "asked", session_id, party) > most:
                raise too_many_records(party)
            # In two statements: older systems' SQLite (3.24 to 3.34) knows no RETURNING.
            database.execute(
                "INSERT INTO submissions (session, party, shares) VALUES (?, ?, 1) "
                "ON CONFLICT (session, party) DO UPDATE SET shares = shares + 1",
                (session_id, party),
            )
            return _shares(database, session_id, party)

    def submissions(self, session_id: str, party: str) -> int:
        """Count the shares of a session that have come from a party."""
        with self._lock:
            return _shares(self._database, session_id, party)

    def is_lost(self, session_id: str, party: str, tokens: Iterable[int]) -> bool:
        """Tell whether one of these was asked for in a process before, of which nobody knows what it answered."""
        return bool(self._lost) and any((session_id, party, _bytes_of(token)) in self._lost for token in tokens)

    def release_asked(self) -> None:
        """Forget what this process was asked for and has not answered. It must answer nothing more."""
        with self._change() as database:
            database.execute("DELETE FROM asked WHERE process = ?", (self._process,))

    def first(self, session_id: str, party: str, tokens: Sequence[int], columns: int) -> dict[int, FloatArray]:
        """Find the logits with which records were first answered, (columns,) each, by a party's pseudonym of them."""
        query = "SELECT logits FROM answers WHERE session = ? AND party = ? AND token = ?"
        logits = {}
        with self._lock:
            for token in dict.fromkeys(tokens):
                if row := self._database.execute(query, (session_id, party, _bytes_of(token))).fetchone():
                    logits[token] = np.frombuffer(row[0], dtype=np.float64, count=columns)
        return logits

    def count_answers(self, session_id: str, party: str) -> int:
        """Count the records of a session that were answered, by a party's pseudonyms of them."""
        with self._lock:
            return _count(self._database, "answers", session_id, party)

    def answer(self, session_id: str, answers: Mapping[tuple[str, int], FloatArray]) -> None:
        """Keep the logits with which records are answered, by party and pseudonym. Those that are there stay."""
        if not answers:
            return
        with self._change() as database:
            database.executemany(
                "INSERT OR IGNORE INTO answers (session, party, token, logits) VALUES (?, ?, ?, ?)",
                [(session_id, party, _bytes_of(token), row.tobytes()) for (party, token), row in answers.items()],
            )
            database.executemany(
                "DELETE FROM asked WHERE session = ? AND party = ? AND token = ?",
                [(session_id, party, _bytes_of(token)) for party, token in answers],
            )

    def note_ledger(self, party: str, mark: LedgerMark, *, of_session: bool) -> LedgerMark:
        """Keep how far a party's ledger is, unless it was further, and give what is known then.

        Of one party so many are kept as one makes in years; the one that was not heard of for longest is forgotten.

        Args:
            party: whose it is.
            mark: how far it is.
            of_session: whether it is a session's, by whose id it goes, and is forgotten with it.
        """
        with self._change() as database:
            query = "SELECT generation, attempt, step FROM ledgers WHERE party = ? AND ledger = ?"
            row = database.execute(query, (party, mark.ledger)).fetchone()
            latest = mark if row is None else LedgerMark(mark.ledger, *row)
            if mark.is_behind(latest):
                return latest
            place = mark.generation, mark.attempt, mark.step
            database.execute(_NOTE, (party, mark.ledger, *place, of_session))
            database.execute(_FORGET_UNUSED, (party, _MOST_LEDGERS))
            return mark

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """Run one transaction; raises StateNotKept where it can't be written, and nothing has changed."""
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
    """List the sessions of a database that another process may use; raises StateError."""
    with reading(f"{DATABASE} of this coordinator's state", sqlite3.Error):
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return _sessions_in(database)
        finally:
            database.close()


def too_many_records(party: str) -> NotAllowed:
    """Make the refusal of a party that makes up records."""
    return NotAllowed(
        f"{party} names more records than this session has: defended scores are answered once per record. "
        "Open another session."
    )


def _count(database: sqlite3.Connection, table: str, session_id: str, party: str) -> int:
    query = f"SELECT count(*) FROM {table} WHERE session = ? AND party = ?"  # noqa: S608 - a name of this module's
    (count,) = database.execute(query, (session_id, party)).fetchone()
    return int(count)


def _shares(database: sqlite3.Connection, session_id: str, party: str) -> int:
    query = "SELECT shares FROM submissions WHERE session = ? AND party = ?"
    row = database.execute(query, (session_id, party)).fetchone()
    return int(row[0]) if row else 0


def _forget_orphans(database: sqlite3.Connection) -> None:
    for table in _OF_SESSIONS:
        database.execute(f"DELETE FROM {table} WHERE session NOT IN (SELECT id FROM sessions)")  # noqa: S608 - as above
    database.execute("DELETE FROM ledgers WHERE of_session AND ledger NOT IN (SELECT id FROM sessions)")


def _sessions_in(database: sqlite3.Connection) -> list[KeptSession]:
    rows = database.execute(
        "SELECT agreement, defences, served, kept_at, "
        "(SELECT coalesce(sum(shares), 0) FROM submissions WHERE session = sessions.id), "
        "(SELECT count(*) FROM answers WHERE session = sessions.id) FROM sessions ORDER BY rowid"
    ).fetchall()
    adapter = TypeAdapter(Agreement)
    with reading(f"{DATABASE} of this coordinator's state", ValueError):
        return [
            KeptSession(adapter.validate_json(agreement), defences, bool(served), kept_at, submissions, answers)
            for agreement, defences, served, kept_at, submissions, answers in rows
        ]


def _bytes_of(token: int) -> bytes:
    """Write a pseudonym as it is kept: SQLite's integers are signed."""
    return token.to_bytes(8, "big")
