"""How many shares of this party the coordinator has counted: what shows that its state is older than its answers."""

import json
import threading
from collections.abc import Collection

from services.common.state_folder import State, broken

SUBMISSIONS = "submissions.json"


class SeenSubmissions:
    """Remembers, on disk before a share counts as sent, the highest number that the coordinator has told. Thread-safe.

    An honest active party asks for a score when every share of it has been sent. So it was given no answer for a share
    whose number isn't here, and a coordinator that knows of fewer has lost answers. One that asks without waiting gains
    nothing, unless this process dies between the coordinator's count and its own.
    """

    def __init__(self, state: State) -> None:
        """Take up what ``state`` holds; raises StateError for a broken file."""
        self._state = state
        self._lock = threading.Lock()
        content = state.read(SUBMISSIONS)
        try:
            self._seen = {str(one): int(count) for one, count in json.loads(content or b"{}").items()}
        except (ValueError, TypeError, AttributeError) as error:
            raise broken(f"{SUBMISSIONS} of this party's state") from error

    def of_session(self, session_id: str) -> int:
        """Find the highest number that was told of a session; 0 before the first."""
        return self._seen.get(session_id, 0)

    def note(self, session_id: str, submissions: int) -> None:
        """Remember a number unless a higher one is known. Raises StateNotKept when it can't be written."""
        with self._lock:
            if submissions > self.of_session(session_id):
                self._keep({**self._seen, session_id: submissions})

    def forget_all_but(self, sessions: Collection[str]) -> None:
        """Forget sessions that can't be asked for any more. Raises StateNotKept when that can't be written."""
        with self._lock:
            if not self._seen.keys() <= set(sessions):
                self._keep({one: count for one, count in self._seen.items() if one in sessions})

    def _keep(self, submissions: dict[str, int]) -> None:
        # In memory even where it can't be written: an active party that doesn't wait may have an answer by now.
        self._seen = submissions
        self._state.write(SUBMISSIONS, json.dumps(submissions).encode())
