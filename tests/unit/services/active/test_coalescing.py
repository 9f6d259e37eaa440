"""Records that wait are asked about together, and what each caller is told is what it would be told alone."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import numpy as np
import pytest

from services.active.coalescing import Coalescing
from services.common.errors import HoldsTooMuch, NotAllowed, OutOfOrder, PeerRefused, PeerVanished
from services.network.deadlines import answering_within, current_deadline

SECONDS = 20
MOST = 8


@dataclass
class Request:
    """A request under way, which ends when the test says so."""

    ids: list[str]
    thread: int
    deadline: float
    over: Future[dict[str, str]] = field(default_factory=Future)

    def answered(self) -> None:
        self.over.set_result({one: f"score of {one}" for one in self.ids})


class Desk:
    """A coalescing whose requests are held, and callers that are known to wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.requests: SimpleQueue[Request] = SimpleQueue()
        self.leave: dict[str, Callable[[], None]] = {}
        self.coalescing = Coalescing(self._ask, most=MOST, clock=lambda: self.now)
        self.pool = ThreadPoolExecutor(64)

    def _ask(self, ids: Sequence[str]) -> dict[str, str]:
        request = Request(list(ids), threading.get_ident(), current_deadline())
        self.requests.put(request)
        return request.over.result(SECONDS)

    def request(self) -> Request:
        """The next request that has begun."""
        return self.requests.get(timeout=SECONDS)

    def is_quiet(self) -> bool:
        """Whether no further request has begun."""
        try:
            self.requests.get_nowait()
        except Empty:
            return True
        return False

    def called(self, record: str, seconds: float | None = None) -> Future[str]:
        """A caller on a thread of its own."""

        def call() -> str:
            with answering_within(seconds):
                return self.coalescing(record)[record]

        return self.pool.submit(call)

    def waits(self, record: str, seconds: float | None = None) -> Future[str]:
        """A caller that waits for the next request when this returns."""
        is_waiting = threading.Event()

        def call() -> str:
            def on_end(leave: Callable[[], None]) -> bool:
                self.leave[record] = leave
                is_waiting.set()
                return True

            with answering_within(seconds):
                return self.coalescing(record, on_end)[record]

        calling = self.pool.submit(call)
        assert is_waiting.wait(SECONDS), calling
        return calling


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.coalescing.close()
    made.pool.shutdown(wait=False)


def score(record: str) -> str:
    return f"score of {record}"


def test_without_company_a_record_is_asked_about_at_once_by_its_own_caller(desk: Desk) -> None:
    callers: list[int] = []

    def call() -> str:
        callers.append(threading.get_ident())
        return desk.coalescing("a")["a"]

    for _ in range(3):
        calling = desk.pool.submit(call)
        request = desk.request()
        assert request.ids == ["a"]
        assert request.thread == callers[-1], "no other thread had to wake"
        request.answered()
        assert calling.result(SECONDS) == score("a")


def test_those_who_wait_are_asked_about_together_and_each_record_once(desk: Desk) -> None:
    first = desk.called("first")
    held = desk.request()
    waiting = [desk.waits(record) for record in ("a", "b", "a", "c")]
    assert desk.is_quiet()
    held.answered()
    assert first.result(SECONDS) == score("first")
    together = desk.request()
    assert together.ids == ["a", "b", "c"]
    late = desk.waits("late")
    together.answered()
    assert [one.result(SECONDS) for one in waiting] == [score(one) for one in ("a", "b", "a", "c")]
    alone = desk.request()
    assert alone.ids == ["late"]
    alone.answered()
    assert late.result(SECONDS) == score("late")


def test_answers_are_counted_before_they_are_given_and_once_for_all_who_asked_together(desk: Desk) -> None:
    counted: list[list[tuple[str, str]]] = []
    desk.coalescing._count = lambda answer, asked: counted.append(list(asked))
    first = desk.called("first")
    held = desk.request()
    waiting = [desk.waits(record) for record in ("a", "b", "a")]
    held.answered()
    assert first.result(SECONDS) == score("first")
    assert counted == [[("", "first")]]
    desk.request().answered()
    assert waiting[0].result(SECONDS) == score("a")
    assert counted[1:] == [[("", "a"), ("", "b"), ("", "a")]]


def test_what_is_refused_together_is_counted_where_it_is_answered_alone(desk: Desk) -> None:
    counted: list[list[tuple[str, str]]] = []
    desk.coalescing._count = lambda answer, asked: counted.append(list(asked))
    desk.called("first")
    held = desk.request()
    waiting = [desk.waits("a"), desk.waits("bad")]
    held.answered()
    desk.request().over.set_exception(NotAllowed("of both"))
    for alone in (desk.request(), desk.request()):
        if alone.ids == ["bad"]:
            alone.over.set_exception(NotAllowed("never"))
        else:
            alone.answered()
    assert waiting[0].result(SECONDS) == score("a")
    with pytest.raises(NotAllowed):
        waiting[1].result(SECONDS)
    assert counted == [[("", "first")], [("", "a")]]


def test_no_request_has_more_records_than_one_may_have(desk: Desk) -> None:
    desk.called("first")
    held = desk.request()
    waiting = [desk.waits(f"r{number}") for number in range(2 * MOST + 1)]
    held.answered()
    for expected in (MOST, MOST, 1):
        request = desk.request()
        assert len(request.ids) == expected
        request.answered()
    assert [one.result(SECONDS) for one in waiting] == [score(f"r{number}") for number in range(2 * MOST + 1)]


@pytest.mark.parametrize(
    "error",
    [NotAllowed("passive: never."), PeerRefused("passive", "its owner's limit", OutOfOrder), ValueError("a defect")],
)
def test_a_record_that_is_refused_fails_its_own_caller_only_in_its_own_words(desk: Desk, error: Exception) -> None:
    first = desk.called("first")
    held = desk.request()
    good, bad = [desk.waits(one) for one in ("a", "b")], desk.waits("bad")
    held.answered()
    together = desk.request()
    together.over.set_exception(NotAllowed("of the request: not for a single record's caller"))
    for alone in (desk.request() for _ in range(3)):
        assert len(alone.ids) == 1
        if alone.ids == ["bad"]:
            alone.over.set_exception(error)
        else:
            alone.answered()
    with pytest.raises(type(error)) as refused:
        bad.result(SECONDS)
    assert refused.value is error
    assert [one.result(SECONDS) for one in (first, *good)] == [score(one) for one in ("first", "a", "b")]


def test_a_record_that_was_refused_alone_keeps_out_of_others_requests_until_it_is_answered(desk: Desk) -> None:
    """Or whoever insists on it would have every record asked about alone."""
    bad = desk.called("bad")
    desk.request().over.set_exception(NotAllowed("never"))
    with pytest.raises(NotAllowed):
        bad.result(SECONDS)
    first = desk.called("first")
    held = desk.request()
    waiting, again = desk.waits("a"), desk.called("bad")
    alone = desk.request()
    assert alone.ids == ["bad"], "beside the others, who wait for nothing of it"
    alone.answered()
    assert again.result(SECONDS) == score("bad")
    joined = desk.waits("bad")
    held.answered()
    together = desk.request()
    assert together.ids == ["a", "bad"], "one of them again"
    together.answered()
    assert [one.result(SECONDS) for one in (first, waiting, joined)] == [score(one) for one in ("first", "a", "bad")]


def test_what_was_refused_is_remembered_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(ids: Sequence[str]) -> dict[str, str]:
        raise NotAllowed("no")

    monkeypatch.setattr("services.active.coalescing._SET_APART", 3)
    coalescing = Coalescing(refuse, most=MOST)
    for number in range(10):
        with pytest.raises(NotAllowed):
            coalescing(f"r{number}")
    assert list(coalescing._apart) == ["r7", "r8", "r9"]


def test_a_party_that_does_not_answer_costs_all_who_wait_for_it_one_request(desk: Desk) -> None:
    desk.called("first")
    held = desk.request()
    waiting = [desk.waits(one) for one in ("a", "b")]
    held.answered()
    desk.request().over.set_exception(PeerVanished("passive does not answer"))
    for one in waiting:
        with pytest.raises(PeerVanished, match="passive"):
            one.result(SECONDS)
    assert desk.is_quiet()
    again = desk.called("a")
    desk.request().answered()
    assert again.result(SECONDS) == score("a")


def test_whoever_fails_at_once_leaves_the_others_in_the_queue(desk: Desk) -> None:
    first = desk.called("first", seconds=0.5)
    held = desk.request()
    waiting = desk.waits("a")
    held.over.set_exception(PeerVanished("the first caller's own time was up"))
    with pytest.raises(PeerVanished):
        first.result(SECONDS)
    desk.request().answered()
    assert waiting.result(SECONDS) == score("a")


def test_who_leaves_is_asked_about_no_more_and_harms_nobody(desk: Desk) -> None:
    desk.called("first")
    held = desk.request()
    waiting = {one: desk.waits(one) for one in ("a", "gone", "b")}
    desk.leave["gone"]()
    with pytest.raises(OutOfOrder, match="the caller has gone"):
        waiting["gone"].result(SECONDS)
    held.answered()
    together = desk.request()
    assert together.ids == ["a", "b"]
    # Too late: it has been asked about.
    desk.leave["a"]()
    together.answered()
    assert [waiting[one].result(SECONDS) for one in ("a", "b")] == [score("a"), score("b")]


def test_who_had_gone_before_it_could_wait_is_not_asked_about(desk: Desk) -> None:
    desk.called("first")
    held = desk.request()
    with pytest.raises(OutOfOrder, match="the caller has gone"):
        desk.coalescing("gone", lambda _: False)
    waiting = desk.waits("a")
    held.answered()
    together = desk.request()
    assert together.ids == ["a"]
    together.answered()
    assert waiting.result(SECONDS) == score("a")


def test_when_all_who_waited_have_gone_the_next_one_is_asked_about_at_once(desk: Desk) -> None:
    desk.called("first")
    held = desk.request()
    for one in ("a", "b"):
        desk.waits(one)
        desk.leave[one]()
    held.answered()
    # Whether it comes before the queue is looked through or after.
    last = desk.called("last")
    request = desk.request()
    assert request.ids == ["last"]
    request.answered()
    assert last.result(SECONDS) == score("last")


def test_a_request_of_several_has_the_time_of_who_has_most(desk: Desk) -> None:
    """A caller with little time must not have the others' request cut off."""
    desk.called("first")
    held = desk.request()
    for record, seconds in (("little", 0.5), ("much", 500.0), ("less", 50.0)):
        desk.waits(record, seconds)
    held.answered()
    together = desk.request()
    assert together.deadline == pytest.approx(time.monotonic() + 500, abs=60)
    desk.waits("little again", 0.5)
    desk.waits("without end")
    together.answered()
    endless = desk.request()
    assert endless.deadline == np.inf
    endless.answered()


def test_a_queue_longer_than_a_second_says_busy_and_answers_who_is_in_it(desk: Desk) -> None:
    first = desk.called("first")
    held = desk.request()
    waiting = desk.waits("a")
    desk.now = 0.9
    waiting_too = desk.waits("b")
    desk.now = 3.0
    with pytest.raises(HoldsTooMuch, match=r"^The active party is busy: 2 records wait .* 3\.0 s so far\. Ask again"):
        desk.coalescing("c")
    held.answered()
    together = desk.request()
    # One that was slow is no reason to expect it of the next, which has just begun.
    later = desk.waits("c")
    together.answered()
    desk.request().answered()
    assert [one.result(SECONDS) for one in (first, waiting, waiting_too, later)] == [
        score(one) for one in ("first", "a", "b", "c")
    ]


def test_how_long_the_queue_is_follows_from_how_long_requests_take(desk: Desk) -> None:
    """A burst is no queue: all of it goes into the next request."""
    for _ in range(30):
        calling = desk.called("slow")
        request = desk.request()
        desk.now += 1.5
        request.answered()
        assert calling.result(SECONDS)
    desk.called("first")
    held = desk.request()
    with pytest.raises(HoldsTooMuch):
        desk.coalescing("a")
    desk.now += 1.0
    waiting = [desk.waits(f"r{number}") for number in range(MOST - 1)]
    waiting.append(desk.waits("last of the next request"))
    with pytest.raises(HoldsTooMuch, match=f"{MOST} records wait"):
        desk.coalescing("one of the request after the next")
    held.answered()
    desk.request().answered()
    assert all(one.result(SECONDS) for one in waiting)


def test_who_waits_when_the_party_stops_is_told_so(desk: Desk) -> None:
    first = desk.called("first")
    held = desk.request()
    waiting = desk.waits("a")
    desk.coalescing.close()
    with pytest.raises(OutOfOrder, match="stopping"):
        waiting.result(SECONDS)
    held.answered()
    assert first.result(SECONDS) == score("first")
    with pytest.raises(OutOfOrder, match="stopping"):
        desk.coalescing("b")


class Context:
    """Of a call: gRPC keeps a call's stream as long as somebody holds it, and a connection has few."""

    def __init__(self, is_waiting: threading.Event) -> None:
        self._is_waiting = is_waiting

    def add_callback(self, _: Callable[[], None]) -> bool:
        self._is_waiting.set()
        return True


@pytest.mark.parametrize("error", [None, NotAllowed("no"), PeerVanished("passive does not answer")])
def test_a_call_that_is_over_is_held_by_nobody(desk: Desk, error: Exception | None) -> None:
    """Once errors held the frames that they had passed, in circles: streams ran out, and the next callers hung."""
    held_calls: list[weakref.ref[Context]] = []

    def call(record: str, is_waiting: threading.Event) -> str:
        context = Context(is_waiting)
        held_calls.append(weakref.ref(context))
        try:
            return desk.coalescing(record, context.add_callback)[record]
        except (NotAllowed, PeerVanished) as refused:
            return str(refused)

    desk.called("first")
    held = desk.request()
    calls = []
    for record in ("a", "b"):
        is_waiting = threading.Event()
        calls.append(desk.pool.submit(call, record, is_waiting))
        assert is_waiting.wait(SECONDS)
    gc.collect()
    gc.disable()
    try:
        held.answered()
        together = desk.request()
        if error is None:
            together.answered()
        else:
            together.over.set_exception(error)
        for alone in (desk.request() for _ in range(2) if isinstance(error, NotAllowed)):
            alone.answered()
        assert [one.result(SECONDS) for one in calls] == [
            str(error) if isinstance(error, PeerVanished) else score(one) for one in ("a", "b")
        ]
        desk.pool.shutdown()
        desk.coalescing._thread.shutdown()
        assert [one() for one in held_calls] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("seed", range(3))
def test_in_a_storm_of_good_bad_and_gone_callers_each_gets_what_is_its_own(seed: int) -> None:
    """2,000 calls of 32 threads; one record of 20 is refused, one caller of 10 leaves while it waits."""
    sizes: list[int] = []

    def ask(ids: Sequence[str]) -> dict[str, str]:
        sizes.append(len(ids))
        if bad := [one for one in ids if one.startswith("bad")]:
            raise NotAllowed(f"never: {bad[0]}")
        return {one: score(one) for one in ids}

    coalescing = Coalescing(ask, most=MOST)
    draw = np.random.default_rng(seed)
    kinds = draw.choice(["good", "bad", "gone"], p=[0.85, 0.05, 0.1], size=2_000)

    def call(number: int) -> str:
        def on_end(leave: Callable[[], None]) -> bool:
            if kinds[number] == "gone" and number % 2:
                leave()
            return kinds[number] != "gone" or bool(number % 2)

        record = f"{kinds[number]}{number % 300}"
        try:
            return coalescing(record, on_end)[record]
        except (NotAllowed, OutOfOrder) as error:
            return str(error)

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(call, range(len(kinds)), timeout=SECONDS))
    for number, (kind, said) in enumerate(zip(kinds, found, strict=True)):
        record = f"{kind}{number % 300}"
        expected = {score(record)} if kind != "bad" else {f"never: {record}"}
        assert said in expected or (kind == "gone" and "has gone" in said)
    assert max(sizes) <= MOST
    coalescing._thread.shutdown()
    assert coalescing._begun is None
    assert not coalescing._waiting
