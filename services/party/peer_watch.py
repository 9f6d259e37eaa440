"""Watches the peers of a session while its job is at work: one that is gone ends it, by name. Knows no network."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from services.common.errors import FederationError, PeerVanished
from services.common.heartbeat import READY_SECONDS, Answer, Heartbeat
from services.network.unanswered import CUT

# Each peer is asked so often. Two refused connections, one of them new, are noticed well within 3 s.
INTERVAL_SECONDS = 0.7
_REFUSALS = 2
# A busy machine is not a dead one, and nor is one thread that computes for long. Shorter than a step's timeout, so that
# whoever waits for the silent peer isn't named in its place.
_MOST_SILENT_SECONDS = 20.0
_PART_OF_TIMEOUT = 0.75
# A question's own deadline, as a part of that: one late answer is not yet silence.
_PART_OF_PATIENCE = 0.25


@dataclass
class _Peer:
    """What the watch knows of one peer. Times are those of `PeerWatch._listened`."""

    heard_at: float
    reached: bool = False
    knew: bool = False
    forgot: bool = False
    refusals: int = 0
    asked: bool = False

    def take(self, answer: Answer, now: float) -> None:
        """Note an answer."""
        self.asked = False
        if answer is Answer.UNREACHABLE:
            self.refusals += 1
        elif answer is not Answer.SILENT:
            self.reached, self.refusals, self.heard_at = True, 0, now
            # Before it has heard of the session, it has nothing to forget.
            self.forgot = self.knew and answer is Answer.FORGOT
            self.knew = self.knew or answer is Answer.KNOWS

    def verdict(self, now: float, patience: float) -> str:
        """Say why the session can't go on with this peer; empty while it can."""
        silent = now - self.heard_at
        if self.forgot:
            return "no longer knows this session: it has restarted, or has ended it."
        # One that was never reached may still be starting.
        if self.refusals >= _REFUSALS and (self.reached or silent >= min(READY_SECONDS, patience)):
            return f"does not answer: {CUT}"
        if silent >= patience:
            return (
                f"does not answer: nothing was heard of it for {silent:.0f} s. It hangs, or the network swallows "
                "what is sent to it."
            )
        return ""


class PeerWatch:
    """Asks each peer of one session about once a second whether it still knows the session. Thread-safe.

    A peer that refuses connections, or has forgotten the session, ends it within two rounds. One that is silent ends it
    after ``patience`` seconds for which this process has listened: who was stopped itself has heard nobody.
    """

    def __init__(
        self,
        heartbeats: Mapping[str, Heartbeat],
        lost: Callable[[FederationError], object],
        *,
        step_timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Get ready to watch.

        Args:
            heartbeats: the ways to ask the peers, by name.
            lost: called once, with the sentence that names the peer. It must not wait for anything.
            step_timeout: seconds that this party waits for a message.
            clock: seconds.
        """
        self._session_id = ""
        self._heartbeats = dict(heartbeats)
        self._lost = lost
        self._patience = min(_PART_OF_TIMEOUT * step_timeout, _MOST_SILENT_SECONDS)
        self._clock = clock
        self._looked, self._missed = clock(), 0.0
        self._lock = threading.Lock()
        self._peers: dict[str, _Peer] = {}
        self._stopped = threading.Event()

    def start(self, session_id: str, peers: Iterable[str]) -> None:
        """Watch these peers of a session, on a thread of its own, until ``stop``."""
        self._session_id = session_id
        self.add(peers)
        threading.Thread(target=self._run, name="peer-watch", daemon=True).start()

    def add(self, peers: Iterable[str]) -> None:
        """Watch further peers. Who can't be asked isn't watched."""
        with self._lock:
            for name in peers:
                if name in self._heartbeats:
                    self._peers.setdefault(name, _Peer(self._listened()))

    def stop(self) -> None:
        """Watch no longer; answers that are on their way change nothing."""
        self._stopped.set()

    def look(self) -> None:
        """Look round once: judge every peer by what it has answered so far, and ask those that have answered."""
        with self._lock:
            self._listened()
            names = list(self._peers)
            due = [name for name in names if not self._peers[name].asked]
            for name in due:
                self._peers[name].asked = True
        for name in names:
            self._judge(name)
        for name in due:
            self._heartbeats[name].ask(
                self._session_id, _PART_OF_PATIENCE * self._patience, partial(self._answered, name)
            )

    def _listened(self) -> float:
        """Read the clock, less the time for which this process was stopped, or its machine asleep. Under the lock."""
        now = self._clock()
        missed = now - self._looked - INTERVAL_SECONDS
        if missed > INTERVAL_SECONDS:
            self._missed += missed
        self._looked = now
        return now - self._missed

    def _run(self) -> None:
        self.look()
        while not self._stopped.wait(INTERVAL_SECONDS):
            self.look()

    def _answered(self, name: str, answer: Answer) -> None:
        with self._lock:
            self._peers[name].take(answer, self._listened())
        self._judge(name)

    def _judge(self, name: str) -> None:
        with self._lock:
            verdict = self._peers[name].verdict(self._listened(), self._patience)
            if not verdict or self._stopped.is_set():
                return
            self._stopped.set()
        self._lost(PeerVanished(f"{name} {verdict}"))
