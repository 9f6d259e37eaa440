"""What the active party's adversary still has of sessions gone by: a session more is one more answer about a record."""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np

import attacks
from vfl.arrays import FloatArray, IntArray

# Of all sessions together: half a gigabyte of float64.
_MOST_NUMBERS = 64_000_000
_MOST_SESSIONS = 1_000
# The pieces of a view that have a row for each record.
_BY_RECORD = ("features_active", "scores", "record_labels", "own_shift")


class EarlierSessions:
    """Keeps what was seen in each session, by rows of the own table: the common order may differ between sessions.

    The oldest sessions are forgotten first.
    """

    def __init__(self) -> None:
        self._ended: deque[_Session] = deque(maxlen=_MOST_SESSIONS)
        self._current: _Session | None = None

    def begin(self) -> None:
        """What is seen from now on belongs to another session."""
        if self._current is not None:
            self._ended.append(self._current)
        self._current = None

    def remember(self, records: IntArray, view: attacks.PredictionView) -> None:
        """Add a view of predictions of these rows of the own table to the session that goes on."""
        if self._current is None:
            self._current = _Session(view)
        self._current.add(records, view)
        while self._ended and sum(one.numbers for one in (*self._ended, self._current)) > _MOST_NUMBERS:
            self._ended.popleft()

    def of(self, records: IntArray, passive_features: int) -> tuple[attacks.PredictionView, ...]:
        """Views of these records in earlier sessions of as many passive columns that saw all of them, oldest first."""
        found = (session.view_of(records) for session in self._ended if session.d == passive_features)
        return tuple(view for view in found if view is not None)


class _Session:
    """What was seen in one session.

    Attributes:
        d: passive columns.
        numbers: how many are kept.
    """

    def __init__(self, view: attacks.PredictionView) -> None:
        # Labels and columns of the training records, the same in every session, would be most of it.
        self._model = replace(view, labels=None, features_train=None, passive_features=view.d, earlier=())
        self._names = [name for name in _BY_RECORD if getattr(view, name) is not None]
        self._records: list[IntArray] = []
        self._pieces: list[list[FloatArray | IntArray]] = []
        self.d = view.d
        known = view.auxiliary
        self.numbers = 0 if known is None else known.features_active.size + known.features_passive.size

    def add(self, records: IntArray, view: attacks.PredictionView) -> None:
        """Keep what was seen of more records; what is too much of one session alone is left out."""
        pieces = [getattr(view, name) for name in self._names]
        if self.numbers <= _MOST_NUMBERS:
            self._records.append(records)
            self._pieces.append(pieces)
            self.numbers += sum(piece.size for piece in pieces)

    def view_of(self, records: IntArray) -> attacks.PredictionView | None:
        """The view of these records; None unless all were seen."""
        known = np.concatenate(self._records)
        order = np.argsort(known, kind="stable")
        places = order[np.minimum(np.searchsorted(known, records, sorter=order), len(known) - 1)]
        if not np.array_equal(known[places], records):
            return None
        columns = (np.concatenate(parts)[places] for parts in zip(*self._pieces, strict=True))
        found: dict[str, Any] = dict(zip(self._names, columns, strict=True))
        return replace(self._model, **found)
