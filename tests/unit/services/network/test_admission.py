"""Who is let in and who is cut off, by a clock of the test's own."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from protos.v1 import active_pb2, coordinator_pb2, messages_pb2, passive_pb2
from services.common.errors import HoldsTooMuch
from services.common.identity import Caller, Identity, Role
from services.network.admission import Admission, CallCut, HeldCall
from services.network.call_limits import CALLS_PER_CALLER, POOL_THREADS, CallLimits, CallPool, limits_of

PASSIVE, ACTIVE = Identity(Role.PASSIVE, "passive"), Identity(Role.ACTIVE, "active")
TWO = CallLimits(CallPool.PEERS, at_once=2, patience=10.0, reading=30.0)
MANY = CallLimits(CallPool.PEERS, at_once=1000, patience=10.0, reading=None)


class Hall:
    """An admission with its clock and the sentences that calls were cut off with."""

    def __init__(self, stack: ExitStack) -> None:
        self.now = 0.0
        self.cut: list[str] = []
        self.admission = Admission(lambda: self.now)
        self._stack = stack

    def enter(self, caller: Identity | None, method: str = "/a/A", limits: CallLimits = TWO) -> HeldCall:
        return self._stack.enter_context(self.admission.held(caller, method, limits, self.cut.append))


@pytest.fixture
def hall() -> Iterator[Hall]:
    with ExitStack() as stack:
        yield Hall(stack)


def read(call: HeldCall, message: int = 1) -> int:
    return call.next_of(iter([message]))


# -- who is let in ----------------------------------------------------------------------------------------------------


def test_a_caller_has_as_many_calls_of_a_method_as_its_limit_and_others_have_theirs(hall: Hall) -> None:
    hall.enter(PASSIVE)
    # Another process of the same party counts to it.
    hall.enter(Caller(Role.PASSIVE, "passive", "ab"))
    with pytest.raises(HoldsTooMuch, match="has 2 calls at work here"):
        hall.enter(PASSIVE)
    hall.enter(PASSIVE, "/a/B")
    hall.enter(ACTIVE)
    hall.enter(None)
    assert hall.admission.inside() == 5


def test_a_place_is_free_when_a_call_has_ended_or_failed(hall: Hall) -> None:
    hall.enter(PASSIVE)
    for _ in range(5):
        with pytest.raises(ValueError, match="failed"), hall.admission.held(PASSIVE, "/a/A", TWO, hall.cut.append):
            raise ValueError("failed")
    assert hall.admission.inside() == 1
    assert not hall.cut


def test_a_pool_is_shared_among_callers_whatever_the_methods(hall: Hall) -> None:
    for number in range(CALLS_PER_CALLER):
        hall.enter(PASSIVE, f"/a/{number}", MANY)
    with pytest.raises(HoldsTooMuch, match=f"has {CALLS_PER_CALLER} calls at work here"):
        hall.enter(PASSIVE, "/a/another", MANY)
    hall.enter(ACTIVE, "/a/another", MANY)
    hall.enter(PASSIVE, "/a/another", limits_of("/grpc.health.v1.Health/Check", 60))


def test_who_is_full_loses_the_call_that_has_been_idle_longest(hall: Hall) -> None:
    first, second = hall.enter(PASSIVE), hall.enter(PASSIVE)
    with first.answering():
        hall.now = 1.0
        with second.answering():
            hall.now = 1.4
            third = hall.enter(PASSIVE)
            assert [bool(call.why_cut) for call in (first, second, third)] == [True, False, False]
            # Idle for less than half a second isn't idle.
            with pytest.raises(HoldsTooMuch):
                hall.enter(PASSIVE)
            hall.now = 1.6
            hall.enter(PASSIVE)
    assert hall.cut == ["This caller made more calls than it may have at once, and this one was idle."] * 2
    assert second.why_cut
    assert not third.why_cut
    assert hall.admission.inside() == 2


# -- who is cut off ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "is_cut"), [(10.0, False), (10.1, True)])
def test_who_sends_nothing_is_cut_off_when_patience_ends(hall: Hall, seconds: float, is_cut: bool) -> None:
    call = hall.enter(PASSIVE)

    def later() -> Iterator[int]:
        hall.now += seconds
        hall.admission.cut_the_slow()
        hall.admission.cut_the_slow()
        if is_cut:
            return
        yield 1

    if is_cut:
        # Not the end of the stream, as if all messages were there.
        with pytest.raises(CallCut, match="No message came for 10 s"):
            call.next_of(later())
    else:
        assert call.next_of(later()) == 1
    assert len(hall.cut) == is_cut


def test_who_reads_nothing_is_cut_off_when_patience_ends(hall: Hall) -> None:
    call = hall.enter(PASSIVE)
    with call.answering():
        hall.now += 10.1
        hall.admission.cut_the_slow()
    assert hall.cut == ["Nobody read the answer for 10 s: the call was ended. Call again."]


def test_a_trickling_request_is_cut_off_when_its_time_is_up(hall: Hall) -> None:
    call = hall.enter(PASSIVE)
    for _ in range(4):
        hall.now += 7.5
        assert read(call) == 1

    def one_more() -> Iterator[int]:
        hall.now += 0.1
        hall.admission.cut_the_slow()
        return
        yield

    with pytest.raises(CallCut, match="wasn't complete after 30 s"):
        call.next_of(one_more())


def test_nobody_is_cut_off_while_this_party_works_for_it(hall: Hall) -> None:
    call = hall.enter(PASSIVE)
    assert read(call) == 1
    hall.now += 10_000.0
    hall.admission.cut_the_slow()
    assert not hall.cut
    with pytest.raises(StopIteration):
        call.next_of(iter(()))


# -- the table --------------------------------------------------------------------------------------------------------

METHODS = [
    f"/{service.full_name}/{method.name}"
    for module in (active_pb2, coordinator_pb2, messages_pb2, passive_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("step_timeout", [0.1, 60.0])
def test_every_method_has_limits_that_an_honest_caller_fits_in(method: str, step_timeout: float) -> None:
    limits = limits_of(method, step_timeout)
    assert limits.pool is (CallPool.OPERATORS if ".Active/" in method else CallPool.PEERS)
    # What was lost is sent again while the lost one is still there.
    assert 2 <= limits.at_once <= CALLS_PER_CALLER
    assert limits.patience >= max(5.0, step_timeout)
    assert limits.reading is None or limits.reading >= 4 * limits.patience


def test_two_callers_at_least_can_fill_their_share_of_a_pool_and_leave_threads() -> None:
    assert all(POOL_THREADS[pool] >= 2 * CALLS_PER_CALLER for pool in (CallPool.PEERS, CallPool.OPERATORS))
    house = limits_of("/grpc.health.v1.Health/Check", 60)
    assert POOL_THREADS[CallPool.HEALTH] >= 8 * house.at_once
