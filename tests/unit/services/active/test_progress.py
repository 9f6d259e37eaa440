"""How far a job is said to be, by a clock that the test moves."""

import math

from hypothesis import given
from hypothesis import strategies as st

from services.active.interfaces import EpochOutcome
from services.active.progress import JobProgress, ProgressMeter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_time_left_follows_the_pace_of_the_steps_so_far() -> None:
    clock = Clock()
    meter = ProgressMeter(clock)
    meter.stage("training")
    assert meter.now() == JobProgress()
    for done in (1, 2):
        clock.now += 3
        meter.step(done, 10)
    assert meter.now().seconds_left == 24
    # In the third step, one second after the second has ended.
    clock.now += 1
    assert meter.now().seconds_left == 23
    clock.now += 1_000
    assert meter.now().seconds_left == 0


def test_a_stage_begins_without_the_steps_of_the_one_before() -> None:
    clock = Clock()
    meter = ProgressMeter(clock)
    meter.stage("aligning")
    clock.now += 50
    meter.step(2, 2)
    meter.stage("training")
    clock.now += 2
    meter.step(1, 5)
    assert meter.now() == JobProgress(1, 5, 0, None, 8.0)
    meter.step(1, 5, "half")
    assert meter.now().at_work == "half"
    meter.epoch(EpochOutcome(0, 0.5, 2.0))
    meter.stage("testing")
    assert meter.now() == JobProgress(0, 0, 1, 0.5, None)


def test_without_validation_rows_there_is_no_loss() -> None:
    meter = ProgressMeter(Clock())
    meter.epoch(EpochOutcome(3, math.nan, 2.0))
    assert meter.now() == JobProgress(epochs_done=4)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30), st.integers(0, 30))
def test_the_last_step_leaves_nothing_and_no_step_leaves_less_than_nothing(pauses: list[float], more: int) -> None:
    clock = Clock()
    meter = ProgressMeter(clock)
    meter.stage("training")
    for done, pause in enumerate(pauses, start=1):
        clock.now += pause
        meter.step(done, len(pauses) + more)
        left = meter.now().seconds_left
        assert left is not None
        assert left >= 0
        assert (left == 0) == (done == len(pauses) + more)
