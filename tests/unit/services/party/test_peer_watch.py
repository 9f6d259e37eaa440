"""When a watch ends a session, and in which words: with a clock of its own and peers that answer by script."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from services.common.errors import FederationError, PeerVanished
from services.common.heartbeat import READY_SECONDS, Answer
from services.network.unanswered import CUT
from services.party.peer_watch import INTERVAL_SECONDS, PeerWatch

KNOWS, FORGOT, ALIVE, UNREACHABLE, SILENT = Answer
STEP_TIMEOUT = 60.0
PATIENCE = 20.0


@dataclass
class Script:
    """A peer that answers as it is told to: at once, or never."""

    answer: Answer | None = KNOWS
    asked: list[str] = field(default_factory=list)
    open: list[Callable[[Answer], None]] = field(default_factory=list)

    def ask(self, session_id: str, seconds: float, answered: Callable[[Answer], None]) -> None:
        self.asked.append(session_id)
        if self.answer is None:
            self.open.append(answered)
        else:
            answered(self.answer)


class Watched:
    """A watch over scripted peers, round by round."""

    def __init__(self, *names: str, step_timeout: float = STEP_TIMEOUT) -> None:
        self.now = 0.0
        self.peers = {name: Script() for name in names}
        self.lost: list[FederationError] = []
        self.watch = PeerWatch(self.peers, self.lost.append, step_timeout=step_timeout, clock=lambda: self.now)
        self.watch.add(names)

    def rounds(self, count: int = 1) -> str:
        """What the watch says after so many rounds; empty while the session goes on."""
        for _ in range(count):
            self.watch.look()
            self.now += INTERVAL_SECONDS
        return str(self.lost[0]) if self.lost else ""

    def until_lost(self) -> float:
        """Seconds until the session is lost."""
        start = self.now
        while not self.rounds():
            assert self.now < start + 100
        return self.now - start


def test_who_answers_is_asked_again_and_again() -> None:
    watched = Watched("active", "coordinator")
    assert watched.rounds(100) == ""
    assert len(watched.peers["active"].asked) == 100


def test_a_dead_peer_is_lost_within_two_rounds_and_named_once() -> None:
    watched = Watched("active", "coordinator")
    watched.rounds(3)
    watched.peers["active"].answer = UNREACHABLE
    assert watched.until_lost() < 2.1 * INTERVAL_SECONDS
    assert watched.rounds(10) == f"active does not answer: {CUT}"
    assert len(watched.lost) == 1
    assert isinstance(watched.lost[0], PeerVanished)


def test_one_cut_connection_is_not_a_death() -> None:
    watched = Watched("passive")
    for answer in (KNOWS, UNREACHABLE, KNOWS, UNREACHABLE, KNOWS, UNREACHABLE, ALIVE):
        watched.peers["passive"].answer = answer
        assert watched.rounds() == ""


def test_a_peer_that_was_never_reached_may_still_be_starting() -> None:
    watched = Watched("passive")
    watched.peers["passive"].answer = UNREACHABLE
    assert READY_SECONDS <= watched.until_lost() <= READY_SECONDS + 2 * INTERVAL_SECONDS


def test_a_peer_that_has_forgotten_the_session_has_restarted() -> None:
    watched = Watched("passive")
    watched.rounds()
    watched.peers["passive"].answer = FORGOT
    assert watched.rounds() == "passive no longer knows this session: it has restarted, or has ended it."


def test_who_has_not_heard_of_the_session_yet_has_forgotten_nothing() -> None:
    watched = Watched("passive-2")
    watched.peers["passive-2"].answer = FORGOT
    assert watched.rounds(200) == ""


@pytest.mark.parametrize(("step_timeout", "patience"), [(60, PATIENCE), (600, PATIENCE), (8, 6.0), (4, 3.0)])
@pytest.mark.parametrize("answer", [SILENT, None])
def test_silence_is_tolerated_until_it_has_lasted(answer: Answer | None, step_timeout: float, patience: float) -> None:
    # None: an answer that doesn't come at all must not keep the watch waiting either.
    watched = Watched("passive", step_timeout=step_timeout)
    watched.rounds()
    watched.peers["passive"].answer = answer
    assert patience <= watched.until_lost() + INTERVAL_SECONDS <= patience + 3 * INTERVAL_SECONDS
    assert watched.rounds().startswith("passive does not answer: nothing was heard of it for ")


def test_silence_ends_the_session_before_anybodys_step_timeout_does() -> None:
    # Otherwise who waits for the silent party is named in its place.
    for step_timeout in (2.0, 4.0, 8.0, 60.0):
        watched = Watched("passive", step_timeout=step_timeout)
        watched.rounds()
        watched.peers["passive"].answer = SILENT
        assert watched.until_lost() < step_timeout + INTERVAL_SECONDS


def test_a_busy_peer_that_answers_now_and_then_is_alive() -> None:
    watched = Watched("passive")
    for turn in range(200):
        watched.peers["passive"].answer = KNOWS if turn % 20 == 0 else SILENT
        assert watched.rounds() == ""


@pytest.mark.parametrize("asleep", [8.0, 3600.0])
def test_who_was_stopped_itself_blames_nobody(asleep: float) -> None:
    # Once an active party that was stopped for 8 s said that the coordinator had not answered.
    watched = Watched("coordinator", "passive", step_timeout=6.0)
    watched.rounds(3)
    watched.peers["coordinator"].answer = None
    watched.rounds()
    watched.now += asleep
    # A question's deadline is over at once, perhaps before the next round.
    watched.peers["coordinator"].open.pop()(SILENT)
    assert watched.rounds(3) == ""
    # Whoever goes on being silent is found as ever.
    assert watched.until_lost() <= 0.75 * 6.0 + 2 * INTERVAL_SECONDS
    assert str(watched.lost[0]).startswith("coordinator does not answer: nothing was heard of it for ")


def test_an_answer_after_the_end_changes_nothing() -> None:
    watched = Watched("passive")
    watched.peers["passive"].answer = None
    watched.rounds(2)
    watched.watch.stop()
    watched.peers["passive"].open[0](FORGOT)
    watched.now += 1000
    assert watched.rounds() == ""


def test_who_cannot_be_asked_is_not_watched_and_peers_can_come_later() -> None:
    watched = Watched("active")
    watched.watch.add(["stranger"])
    watched.peers["passive-2"] = Script()
    assert watched.rounds(3) == ""
