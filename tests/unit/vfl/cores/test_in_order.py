"""Tasks are drawn as results are taken, results come in order, and what is left over is cancelled."""

from collections.abc import Iterator

import pytest

from vfl.cores.threads import in_order


class Done:
    """A task whose result is there at once, unless it is to fail."""

    def __init__(self, task: int) -> None:
        self.task = task
        self.is_cancelled = False

    def result(self) -> int:
        if self.task < 0:
            raise ValueError(str(self.task))
        return 10 * self.task

    def cancel(self) -> None:
        self.is_cancelled = True


def test_no_more_tasks_are_drawn_than_may_be_under_way() -> None:
    drawn: list[int] = []

    def tasks() -> Iterator[int]:
        for task in range(10):
            drawn.append(task)
            yield task

    results = in_order(Done, tasks(), 3)
    for taken in range(10):
        assert next(results) == 10 * taken
        assert len(drawn) == min(10, taken + 4)
    assert list(results) == []
    assert list(in_order(Done, [], 3)) == []


def test_who_stops_early_leaves_nothing_behind() -> None:
    sent: list[Done] = []

    def submit(task: int) -> Done:
        sent.append(Done(task))
        return sent[-1]

    results = in_order(submit, range(10), 3)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert [one.task for one in sent if one.is_cancelled] == [1, 2, 3]
    sent.clear()
    with pytest.raises(ValueError, match="-1"):
        list(in_order(submit, [1, -1, 2, 3], 3))
    assert [one.task for one in sent if one.is_cancelled] == [2, 3]
