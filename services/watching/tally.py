"""What a process has answered and refused, in numbers: counted here, read by its metrics, written to its audit log.

No number here is of a record, a label or a column, and no label of a metric is anything but a party's name or a word of
this program's.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from services.common.errors import FederationError, one_line
from services.common.identity import Identity
from services.watching.audit_log import AuditLog
from services.watching.measures import Measure, Source

# Without TLS callers name themselves: names beyond so many are one.
_MOST_PEERS = 100
# A plugin may name kinds as it likes.
_MOST_KINDS = 100
_OTHERS = "others"
_NOBODY = "unknown"
_EQUATIONS = "Linear equations about this party's data for which decrypted answers had room."
_INTERRUPTIONS = "Interruptions after which a training has gone on, by who had this party go back."
_RATIO = "What the answers of one step may tell, as a share of a batch's records: from 1 on the guard warns."

_ByKind: TypeAlias = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class Told:
    """What one decryption of a session tells a peer, as the guard counts it.

    Attributes:
        equations: about what this party has sent.
        bits: of the answers, all of them.
        ratio: of what is told to what may be: from 1 on the guard warns.
    """

    equations: int
    bits: int
    ratio: float


class CallMeter(Protocol):
    """Is told of every call that this process has answered."""

    def ended(self, method: str, code: str, seconds: float) -> None:
        """Note that a call of /package.Service/Method is over, with this status."""


class Tally:
    """Counts answers and refusals by peer; safe to call from any thread.

    Attributes:
        calls: is told of each call; None where nobody measures them.
    """

    def __init__(self) -> None:
        self.calls: CallMeter | None = None
        self._log: AuditLog | None = None
        self._sources: list[Source] = []
        self._lock = threading.Lock()
        self._peers: set[str] = set()
        self._told: Mapping[str, Told] = {}
        self._answers: _ByKind = Counter()
        self._answered: _ByKind = Counter()
        self._equations: Counter[str] = Counter()
        self._bits: Counter[str] = Counter()
        self._refusals: _ByKind = Counter()
        self._messages: Counter[str] = Counter()
        self._message_bytes: Counter[str] = Counter()
        self._interruptions: Counter[str] = Counter()

    def write_to(self, log: AuditLog | None) -> None:
        """Write every answer to ``log`` as well, before it is given."""
        self._log = log

    def close(self) -> None:
        """Write nothing any more."""
        if self._log is not None:
            self._log.close()

    def add(self, source: Source) -> None:
        """Tell what ``source`` measures, too."""
        self._sources.append(source)

    def begin(self, per_answer: Mapping[str, Told]) -> None:
        """Begin a session in which each decryption tells so much, by peer."""
        with self._lock:
            self._told = dict(per_answer)

    def answered(self, peer: str, kind: str, count: int, session_id: str = "") -> None:
        """Count an answer that is about to be given.

        Args:
            peer: who asked.
            kind: what it is, a word of this program's: ``decryption``, ``alignment``, ``scores`` and the like.
            count: how many values, ids, records or bits.
            session_id: of which session.
        """
        if self._log is not None:
            self._log.append(kind, count, peer, session_id)
        with self._lock:
            key = (self._known(peer), kind)
            self._answers[key] += 1
            self._answered[key] += count
            if kind == "decryption" and (peer_answer := self._told.get(peer)) is not None:
                self._equations[key[0]] += peer_answer.equations
                self._bits[key[0]] += peer_answer.bits

    def took(self, kind: str, size: int) -> None:
        """Count a message of a session's table, of so many bytes. Those of levels and parties are of one kind."""
        kind = one_line(kind.rstrip(" 0123456789") or kind)
        with self._lock:
            kind = kind if kind in self._messages or len(self._messages) < _MOST_KINDS else _OTHERS
            self._messages[kind] += 1
            self._message_bytes[kind] += size

    def interrupted(self, peer: str, session_id: str) -> None:
        """Count that a training goes on after an interruption, before it does: ``peer`` has this party go back."""
        if self._log is not None:
            self._log.append("interruption", 1, peer, session_id)
        with self._lock:
            self._interruptions[self._known(peer)] += 1

    def refused(self, caller: Identity | None, error: BaseException) -> None:
        """Count a call that was refused, by the kind of the error."""
        with self._lock:
            self._refusals[self._known(caller.name) if caller else _NOBODY, reason_of(error)] += 1

    def measures(self) -> Iterator[Measure]:
        """List all that there is to tell, as it stands."""
        by_kind = ("peer", "kind")
        with self._lock:
            ratios = {peer: told.ratio for peer, told in self._told.items()}
            totals = [
                Measure("answers", "Answers, by who asked and what for.", dict(self._answers), by_kind, grows=True),
                Measure("answered_items", "What is in them, counted.", dict(self._answered), by_kind, grows=True),
                Measure("refusals", "Calls refused.", dict(self._refusals), ("peer", "reason"), grows=True),
                Measure.by(
                    "kind", "messages", "Messages that were taken, or answered.", dict(self._messages), grows=True
                ),
                Measure.by("kind", "message_bytes", "Bytes in them.", dict(self._message_bytes), grows=True),
                Measure.by("peer", "equations_answered", _EQUATIONS, dict(self._equations), grows=True),
                Measure.by("peer", "capacity_bits", "Bits of decrypted answers.", dict(self._bits), grows=True),
                Measure.by("peer", "guard_ratio", _RATIO, ratios),
                Measure.by("peer", "interruptions", _INTERRUPTIONS, dict(self._interruptions), grows=True),
            ]
        yield from totals
        if self._log is not None:
            yield from self._log.measures()
        for source in self._sources:
            yield from source()

    def _known(self, peer: str) -> str:
        if peer not in self._peers:
            if len(self._peers) >= _MOST_PEERS:
                return _OTHERS
            self._peers.add(peer)
        return one_line(peer)


def reason_of(error: BaseException) -> str:
    """Write the kind of an error in words with underscores; what isn't ours is ``unexpected``."""
    if not isinstance(error, FederationError):
        return "unexpected"
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(error).__name__).lower()
