"""A party that dies or hangs at any stage of a job: everybody else notices, names it, and takes it back.

The quick tests give a generous time; what the issue asks for, 3 s, is asserted by those that are marked hostile_long.
"""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from plumbline.federation import Federation, FederationFailed
from protos.v1 import active_pb2
from tests.harness.processes import quick_federation
from tests.harness.strikes import assert_no_traceback, eventually, log_of, send

# Far longer than all that is waited for here: what notices a death is not a timeout.
STEP_TIMEOUT = 60
GENEROUS = 15.0
STRICT = 3.0
# A process reads its libraries from a disk that others read as well.
STARTS = 120.0
ENDED = "Session ended: {} does not answer"
FORGOTTEN = "Session ended: active no longer knows this session"
JOB_ENDED = "Session ended: the active party's job has failed: {} does not answer"


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    folder = tmp_path_factory.mktemp("deaths")
    with quick_federation(folder, step_timeout=STEP_TIMEOUT, epochs=2000, batch_size=16) as running:
        yield running
        assert_no_traceback(running.processes)


def at(stage: str) -> Callable[[active_pb2.JobEvent], bool]:
    """Whether an event shows that a job is in the middle of a stage."""
    reached: list[str] = []

    def is_there(event: active_pb2.JobEvent) -> bool:
        reached.append(event.stage or (reached[-1] if reached else ""))
        if reached[-1] != stage:
            return False
        # A step of the alignment is over when the passive party knows of the session.
        return event.progress.steps_done >= 1 if stage in ("aligning", "training") else True

    return is_there


def strike_at(federation: Federation, stage: str, strike: Callable[[], None], **changes: int) -> tuple[str, float]:
    """Train, strike at a stage; what the operator is told, and how many seconds after the strike."""
    struck: list[float] = []
    is_there = at(stage)

    def watch(event: active_pb2.JobEvent) -> None:
        if not struck and is_there(event):
            strike()
            struck.append(time.monotonic())

    with pytest.raises(FederationFailed) as failure:
        federation.train(watch=watch, **changes)
    return str(failure.value), time.monotonic() - struck[0]


def frozen_while(federation: Federation, frozen: str | None, killed: str) -> Callable[[], None]:
    """Freezes one party, so that the job can't leave its stage, and kills another."""

    def strike() -> None:
        if frozen is not None:
            send(federation.processes, frozen, signal.SIGSTOP)
        send(federation.processes, killed, signal.SIGKILL)

    return strike


def check_death(federation: Federation, stage: str, killed: str, frozen: str | None, limit: float) -> None:
    """Kill a party at a stage: operator, status and the other party name it in time; the next job is as any other."""
    processes = federation.processes
    seen = {name: len(log_of(federation, name)) for name in processes.settings}

    def said(name: str, words: str) -> bool:
        return words in log_of(federation, name)[seen[name] :]

    changes = {"epochs": 1} if stage == "testing" else {}
    try:
        words, seconds = strike_at(federation, stage, frozen_while(federation, frozen, killed), **changes)
    finally:
        if frozen is not None:
            send(processes, frozen, signal.SIGCONT)
    struck = time.monotonic() - seconds
    assert words.startswith(f"{killed} does not answer: ")
    assert seconds < limit
    if killed != "active":
        assert federation.status().failure == words
    # With the active party dead after training, the passive one has a whole model and waits for nobody.
    if killed != "passive" and (killed, stage) != ("active", "testing"):
        # Who was frozen then finds out when it thaws, perhaps from the active party, which has gone on.
        told = ENDED.format(killed), JOB_ENDED.format(killed), *([FORGOTTEN] if frozen == "passive" else [])
        left = GENEROUS if frozen == "passive" else struck + limit - time.monotonic()
        eventually(lambda: any(said("passive", one) for one in told), left, f"the passive party names {killed}")
    take_back(federation, killed)


def take_back(federation: Federation, killed: str) -> None:
    """Start a killed party again. The first job that it is asked for succeeds."""
    processes = federation.processes
    begins = len(log_of(federation, killed))
    processes.start_party(killed)
    eventually(lambda: "serves on port" in log_of(federation, killed)[begins:], STARTS, f"{killed} is back")
    assert federation.train(epochs=1).epochs_run == 1


# Who is killed, at which stage, and who is frozen meanwhile.
QUICK = [
    ("aligning", "coordinator", "passive"),
    ("agreeing", "coordinator", "passive"),
    ("training", "coordinator", None),
    ("training", "active", None),
]
ALL = [
    *QUICK,
    ("aligning", "passive", None),
    ("aligning", "active", None),
    ("agreeing", "passive", "coordinator"),
    ("agreeing", "active", None),
    ("training", "passive", None),
    ("training", "passive", "coordinator"),
    ("testing", "passive", None),
    ("testing", "coordinator", None),
    ("testing", "active", None),
]


@pytest.mark.parametrize(("stage", "killed", "frozen"), QUICK)
def test_a_death_is_noticed_by_everybody_and_named(
    federation: Federation, stage: str, killed: str, frozen: str | None
) -> None:
    # Once: a coordinator killed at step 3 was noticed after all 280, and an active party by the step timeout.
    check_death(federation, stage, killed, frozen, GENEROUS)


# As many units as a short key has room for.
NETWORK = {"learner": "network", "learner_options": {"hidden": 4}, "patience": 0}


@pytest.mark.parametrize(
    ("parties", "terms"),
    [
        (2, {"protocol": "shared"}),
        pytest.param(3, {"protocol": "shared"}, marks=pytest.mark.thorough),
        (3, {**NETWORK, "backward": "paillier"}),
        pytest.param(2, {**NETWORK, "backward": "shared"}, marks=pytest.mark.thorough),
        pytest.param(3, {**NETWORK, "backward": "shared"}, marks=pytest.mark.hostile_long),
    ],
    ids=["two", "three", "network-paillier", "network-shared", "three-network-shared"],
)
def test_a_death_in_other_trainings_is_noticed_and_the_next_job_is_as_any_other(
    tmp_path: Path, parties: int, terms: dict[str, Any]
) -> None:
    if "learner" in terms:
        pytest.importorskip("torch")
    terms = {**terms, "epochs": 2000, "batch_size": 16, "step_timeout": STEP_TIMEOUT}
    with quick_federation(tmp_path, parties=parties, **terms) as running:
        killed = [name for name in running.processes.settings if name.startswith("passive")][-1]
        words, seconds = strike_at(running, "training", frozen_while(running, None, killed))
        assert words.startswith(f"{killed} does not answer: ")
        assert seconds < GENEROUS
        take_back(running, killed)
        assert_no_traceback(running.processes)


@pytest.mark.hostile_long
@pytest.mark.parametrize(("stage", "killed", "frozen"), ALL)
def test_a_death_at_any_stage_is_noticed_within_3_seconds(
    federation: Federation, stage: str, killed: str, frozen: str | None
) -> None:
    check_death(federation, stage, killed, frozen, STRICT)


# -- cancelling --------------------------------------------------------------------------------------------------------


def cancel_at(federation: Federation, stage: str, frozen: str | None, limit: float) -> None:
    """Cancel a job at a stage where one party hangs; all are free within the limit."""
    processes = federation.processes
    seen = len(log_of(federation, "passive"))
    started: list[float] = []

    with ThreadPoolExecutor(1) as operator:
        cancelling = []

        def cancel() -> float:
            begun = time.monotonic()
            federation.cancel()
            return time.monotonic() - begun

        def strike() -> None:
            if frozen is not None:
                send(processes, frozen, signal.SIGSTOP)
            started.append(time.monotonic())
            cancelling.append(operator.submit(cancel))

        try:
            words, seconds = strike_at(federation, stage, strike)
            assert words == "The job was cancelled by the operator."
            assert seconds < limit
            assert cancelling[0].result(GENEROUS) < limit
        finally:
            if frozen is not None:
                send(processes, frozen, signal.SIGCONT)
    status = federation.status()
    assert status.stage in ("idle", "serving")
    assert status.failure == words
    words_there = "Session ended: " if frozen == "passive" else "Session ended: cancelled by the operator."
    eventually(lambda: words_there in log_of(federation, "passive")[seen:], GENEROUS, "the passive party is told")
    with pytest.raises(FederationFailed, match="there is nothing to cancel"):
        federation.cancel()
    assert federation.train(epochs=1).epochs_run == 1


CANCELLED = [("aligning", "passive"), ("agreeing", "coordinator"), ("training", None), ("training", "passive")]


@pytest.mark.parametrize(("stage", "frozen"), [CANCELLED[0], CANCELLED[2]])
def test_a_job_is_cancelled_wherever_it_is(federation: Federation, stage: str, frozen: str | None) -> None:
    cancel_at(federation, stage, frozen, GENEROUS)


@pytest.mark.hostile_long
@pytest.mark.parametrize(("stage", "frozen"), CANCELLED)
def test_a_job_is_cancelled_within_3_seconds(federation: Federation, stage: str, frozen: str | None) -> None:
    cancel_at(federation, stage, frozen, STRICT)


def test_a_watcher_who_leaves_leaves_the_job_running(federation: Federation) -> None:
    class Left(Exception):
        pass

    is_there = at("training")

    def leave(event: active_pb2.JobEvent) -> None:
        if is_there(event):
            raise Left

    with pytest.raises(Left):
        federation.train(watch=leave)
    assert federation.status().stage == "training"
    with pytest.raises(FederationFailed, match="A job is running already"):
        federation.train(epochs=1)
    federation.cancel()
    assert federation.status().stage in ("idle", "serving")
