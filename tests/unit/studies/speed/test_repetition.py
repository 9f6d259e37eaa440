"""How things are timed."""

import os

import pytest

from studies.speed.repetition import WrongResult, in_turns, one_core, require_equal, timed


def test_variants_run_in_turns() -> None:
    order: list[str] = []
    found = in_turns({name: lambda name=name: order.append(name) or name for name in "ab"}, 2)  # type: ignore[misc, func-returns-value]
    assert order == ["a", "b", "a", "b"]
    assert found == {"a": ["a", "a"], "b": ["b", "b"]}


def test_work_is_done_once_and_its_time_is_the_clocks() -> None:
    ticks = iter([3.0, 5.5])
    assert timed(lambda: "done", lambda: next(ticks)) == (2.5, "done")


def test_what_computes_wrongly_is_refused_by_name() -> None:
    require_equal("ours", [1, 2], [1, 2])
    with pytest.raises(WrongResult, match="ours found another result"):
        require_equal("ours", [1, 3], [1, 2])


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system doesn't pin processes")
def test_a_process_is_released_from_its_core() -> None:
    before = os.sched_getaffinity(0)
    with one_core():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
