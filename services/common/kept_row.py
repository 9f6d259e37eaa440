"""What changes in every step of a training: one content in a database, forced to disk by one commit.

A file that is replaced takes four syncs where this takes one (docs/decisions/0037).
"""

import sqlite3
import threading
from pathlib import Path

_TABLE = "CREATE TABLE IF NOT EXISTS kept (id INTEGER PRIMARY KEY CHECK (id = 0), content BLOB NOT NULL)"
ENDING = ".sqlite3"


# Beside a database, while it is open and after a kill.
BESIDE = ("-wal", "-shm")


class KeptRow:
    """One content, as it was written last; whole or not at all, after any kill, power cut or full disk. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """Open a database, and make its table where there is none; raises sqlite3.Error for one that is broken."""
        self._lock = threading.Lock()
        # Autocommit: each statement is a transaction.
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", _TABLE):
                self._database.execute(statement)
        except BaseException:
            self._database.close()
            raise

    def read(self) -> bytes | None:
        """Read what was written last; None where nothing was. Raises sqlite3.Error."""
        with self._lock:
            found = self._database.execute("SELECT content FROM kept").fetchone()
        if found is None:
            return None
        if not isinstance(found[0], bytes):
            # Of a file that was cut off SQLite reads missing pages as zeros.
            raise sqlite3.DatabaseError("a part of it is missing")
        return found[0]

    def write(self, content: bytes) -> None:
        """Write a content in place of the one before; raises sqlite3.Error, and nothing has changed."""
        with self._lock:
            self._database.execute("INSERT OR REPLACE INTO kept VALUES (0, ?)", (content,))

    def close(self) -> None:
        """Leave the database to another process."""
        with self._lock:
            self._database.close()
