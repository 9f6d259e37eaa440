"""The lock of a party's loop and its peers: who waits for what is there doesn't wait, and who waits is told the end."""

from collections.abc import Callable

import pytest

from services.common.errors import FederationError, InvalidMessage, OutOfOrder, PeerVanished, Suspended
from services.exchange.step_order import StepOrder, check_same


class Order(StepOrder):
    """One in which something happens as soon as its loop waits, once; nothing else ever does."""

    def __init__(self, happens: Callable[[], object], steps: int = 3, step: int = 0) -> None:
        super().__init__(steps, 60.0, step)
        self.waits = 0
        self._happens = happens

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "nobody waits for ever"
        self.waits += 1
        if self.waits > 1:
            return False
        self._happens()
        return True


def test_what_is_there_is_not_waited_for() -> None:
    order = Order(lambda: None)
    with order:
        assert order.await_value(lambda: "here", "a key") == "here"
    assert order.waits == 0


def test_what_comes_while_the_loop_waits_is_given_to_it() -> None:
    arrived = list[str]()
    order = Order(lambda: arrived.append("here"))
    with order:
        assert order.await_value(lambda: arrived[0] if arrived else None, "a key") == "here"
    assert order.waits == 1


@pytest.mark.parametrize(("how", "error"), [("end", OutOfOrder), ("suspend", Suspended)])
def test_who_waits_is_told_the_end_that_came_first(how: str, error: type[FederationError]) -> None:
    order = Order(lambda: getattr(order, how)("enough"))
    with order, pytest.raises(error, match="enough") as first:
        order.await_value(lambda: None, "a key")
    assert order.waits == 1
    order.end("something else")
    order.suspend("something else")
    for call in (order.refuse_if_ended, lambda: order.check(0)):
        with pytest.raises(error, match="enough") as again:
            call()
        assert again.value is not first.value, "an error of its own for each thread"


def test_nobody_who_sends_a_value_is_told_so_with_the_seconds() -> None:
    order = StepOrder(3, 0.01)
    with order, pytest.raises(PeerVanished, match=r"Waited 0.01 s for a key; the session ends here\."):
        order.await_value(lambda: None, "a key")


def test_this_step_and_the_next_are_due_and_others_where_a_caller_says_so() -> None:
    order = StepOrder(5, 1.0, 2)
    order.check(2)
    order.check(3)
    order.check(1, earliest=1)
    order.check(4, latest=4)
    for step, bounds in ((1, {}), (4, {}), (2, {"earliest": 3}), (3, {"latest": 2}), (0, {"earliest": 1})):
        with pytest.raises(OutOfOrder, match=f"Step {step} is out of order: this party is at step 2"):
            order.check(step, **bounds)
    for step in (-1, 5):
        with pytest.raises(InvalidMessage, match=f"from 0 to 4, got {step}"):
            order.check(step, earliest=-9, latest=9)
    StepOrder(5, 1.0).check(0)


def test_the_same_may_come_again_and_another_may_not() -> None:
    check_same((1, b"x"), (1, b"x"), "sums of step 1")
    with pytest.raises(OutOfOrder, match="Different sums of step 1 were received already"):
        check_same((1, b"x"), (1, b"y"), "sums of step 1")
