"""What is shown of a run's progress, by a clock of the tests' own."""

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from plumbline.job_progress import (
    JobWatcher,
    ProgressLines,
    TimeLeft,
    far_words,
    shown_progress,
)
from protos.v1 import active_pb2


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def event(stage: str = "", step: tuple[int, int, str] | None = None, loss: float | None = None) -> active_pb2.JobEvent:
    """One event of a job."""
    if step is not None:
        progress = active_pb2.JobProgress(steps_done=step[0], steps_planned=step[1], at_work=step[2])
        return active_pb2.JobEvent(progress=progress)
    if loss is not None:
        return active_pb2.JobEvent(epoch=active_pb2.EpochResult(validation_loss=loss))
    return active_pb2.JobEvent(stage=stage)


def piped(width: int = 80) -> Console:
    return Console(file=io.StringIO(), width=width)


def lines_of(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_a_pipe_gets_a_line_per_stage_and_one_every_ten_seconds() -> None:
    console, clock = piped(), Clock()
    watch = JobWatcher(ProgressLines(console, clock))
    watch(event("aligning"))
    for chunk in range(1, 21):  # two chunks a second
        clock.now += 0.5
        watch(event(step=(2_048 * chunk, 118_668, "")))
    watch(event("training"))
    watch(event(loss=math.nan))
    watch(event(loss=0.5))
    for step in range(1, 301):  # a step takes an eighth of a second
        clock.now += 0.125
        watch(event(step=(step, 3_840, "")))
    watch(event("testing"))
    assert lines_of(console) == [
        "aligning ...",
        "aligning: 40,960 of 118,668 ids, 19 s left",
        "training ...",
        "training: 80 of 3,840 steps, 8 min left, validation loss 0.5000",
        "training: 160 of 3,840 steps, 8 min left, validation loss 0.5000",
        "training: 240 of 3,840 steps, 8 min left, validation loss 0.5000",
        "testing ...",
    ]


def test_an_attack_is_named_and_numbered_and_its_share_of_the_time_counts() -> None:
    console, clock = piped(), Clock()
    watch = JobWatcher(ProgressLines(console, clock, expected={"half_star": 1.0, "gia": 9.0, "grn": 30.0}))
    watch(event("attacking"))
    watch(event(step=(0, 3, "half_star")))
    clock.now += 2.0  # twice what was expected
    watch(event(step=(1, 3, "gia")))
    clock.now += 18.0
    watch(event(step=(2, 3, "grn")))
    assert lines_of(console) == ["attacking ...", "attacking: 3 of 3 attacks: grn, 60 s left"]


def test_what_an_active_party_says_moves_no_cursor_and_is_no_markup() -> None:
    console = piped()
    watch = JobWatcher(ProgressLines(console, Clock()))
    watch(event("train\x1b[31m\n[bold]ing"))
    assert lines_of(console) == [r"train\x1b[31m\n[bold]ing ..."]


@pytest.mark.parametrize("stage", ["aligning", "[red]", "training"])
def test_a_bar_on_a_terminal_says_the_same(stage: str) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=120)
    with shown_progress(terminal) as progress:
        watch = JobWatcher(progress)
        watch(event(stage))
        watch(event(step=(20, 80, "")))
        watch(event(loss=0.25))
    assert isinstance(terminal.file, io.StringIO)
    shown = terminal.file.getvalue()
    assert stage in shown
    assert "20 of 80" in shown
    assert "left" in shown
    assert "validation loss 0.2500" in shown


@given(planned=st.integers(1, 10_000), seconds=st.floats(0.001, 100))
def test_a_steady_pace_foretells_the_end(planned: int, seconds: float) -> None:
    clock = Clock()
    left = TimeLeft(clock)
    assert left.seconds(0, planned) is None
    begin = clock.now
    for done in sorted({max(1, planned // 3), max(1, planned // 2), planned}):
        clock.now = begin + done * seconds
        found = left.seconds(done, planned)
        assert found == pytest.approx((planned - done) * seconds, rel=1e-6, abs=1e-6)


def test_what_is_done_is_said_in_the_units_of_the_stage() -> None:
    assert far_words(41_000, 118_668, "ids") == "41,000 of 118,668 ids"
    assert far_words(2, 14, "attacks", "gia") == "3 of 14 attacks: gia"
    assert far_words(1, 2, "") == "1 of 2"
    assert far_words(2, 10, "", "half_star") == "3 of 10: half_star"
