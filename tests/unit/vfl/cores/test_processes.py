"""Work in processes: its results, workers that die, and what workers can and cannot do."""

import logging
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.children import await_end, children_of, fork_server, is_running, stop
from tests.harness.core_tasks import (
    Dying,
    core_dumps,
    die_then_square,
    interrupt_then_process_id,
    open_files,
    process_id,
    process_id_once_there,
    refuse,
    square,
    square_where_there_is_memory,
)
from vfl.cores import Cores, OneCore, ProcessCores, ThreadCores, cores_for

needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="looks into /proc")


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessCores]:
    cores = ProcessCores(2)
    yield cores
    cores.close()


@pytest.fixture(params=["one", "threads", "processes"])
def cores(request: pytest.FixtureRequest, processes: ProcessCores) -> Iterator[Cores]:
    made: dict[str, Cores] = {"one": OneCore(), "threads": ThreadCores(3), "processes": processes}
    yield made[request.param]
    if request.param == "threads":
        made["threads"].close()


def children() -> set[int]:
    """The processes whose parent is the server that workers are forks of."""
    return children_of(fork_server())


def test_results_come_in_order_and_errors_as_they_were(cores: Cores) -> None:
    assert list(cores.map(square, range(40))) == [number**2 for number in range(40)]
    assert list(cores.map(square, [])) == []
    with pytest.raises(ValueError, match=r"^7 is refused\.$"):
        list(cores.map(refuse, [7]))
    cores.forget()
    assert list(cores.map(square, [3])) == [9]


def test_threads_ask_at_once(cores: Cores) -> None:
    answers: dict[int, list[int]] = {}

    def ask(start: int) -> None:
        answers[start] = list(cores.map(square, range(start, start + 20)))

    threads = [threading.Thread(target=ask, args=[start]) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {start: [n**2 for n in range(start, start + 20)] for start in range(6)}


def test_cores_are_what_the_work_needs() -> None:
    assert isinstance(cores_for(1, releases_gil=False), OneCore)
    for releases_gil, kind in ((True, ThreadCores), (False, ProcessCores)):
        cores = cores_for(3, releases_gil=releases_gil)
        assert (type(cores), cores.count) == (kind, 3)
        cores.close()


# -- workers that die ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deaths", [1, 5])
def test_what_a_dying_worker_had_is_done_elsewhere_or_here(
    processes: ProcessCores, tmp_path: Path, caplog: pytest.LogCaptureFixture, deaths: int
) -> None:
    processes.forget()
    tasks = [Dying(number, deaths if number == 3 else 0, str(tmp_path)) for number in range(8)]
    with caplog.at_level(logging.WARNING):
        assert list(processes.map(die_then_square, tasks)) == [number**2 for number in range(8)]
    # Two workers at most, then the calling process.
    assert len(list(tmp_path.iterdir())) == min(deaths, 2)
    assert set(caplog.messages) == {"A worker process has died: its work is done again."}


@pytest.mark.slow("workers are killed and started again and again")
def test_workers_killed_at_any_moment_lose_nothing(processes: ProcessCores) -> None:
    chance = random.Random(7)  # noqa: S311 - not for secrets
    for _ in range(10):
        processes.forget()
        kill_after = chance.randrange(60)
        results: list[int] = []
        for result in processes.map(square, range(60)):
            if len(results) == kill_after:
                victim = next(iter(processes.map(process_id, [0])))
                os.kill(victim, signal.SIGKILL)
            results.append(result)
        assert results == [number**2 for number in range(60)]


def test_without_memory_in_workers_work_is_done_here(processes: ProcessCores, caplog: pytest.LogCaptureFixture) -> None:
    processes.forget()  # one that another test has killed may be among those that wait
    assert list(processes.map(square_where_there_is_memory, [2, 3])) == [4, 9]
    assert set(caplog.messages) == {"A worker process has run out of memory: its work is done again in this one."}


def test_workers_that_keep_dying_are_given_up_until_the_next_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cores = ProcessCores(1)
    tasks = [Dying(number, 9, str(tmp_path)) for number in range(6)]
    with caplog.at_level(logging.WARNING):
        assert list(cores.map(die_then_square, tasks)) == [number**2 for number in range(6)]
    assert caplog.messages[-1].endswith("work goes on without them.")
    assert len(caplog.messages) == 3
    caplog.clear()
    assert list(cores.map(process_id, [0])) == [os.getpid()]
    cores.forget()
    assert list(cores.map(process_id, [0])) != [os.getpid()]
    cores.close()
    assert not caplog.messages


def test_where_no_process_can_be_started_work_is_done_here(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_more_processes(*_: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    cores = ProcessCores(2)
    monkeypatch.setattr("multiprocessing.forkserver.connect_to_new_process", no_more_processes)
    assert list(cores.map(process_id, range(5))) == [os.getpid()] * 5
    assert caplog.messages[-1].endswith("work goes on without them.")
    cores.close()


@needs_proc
def test_closing_ends_a_worker_that_is_stopped(processes: ProcessCores) -> None:
    cores = ProcessCores(1)
    (worker,) = cores.map(process_id, [0])
    stop(worker)
    cores.close()
    await_end([worker])


def test_threads_that_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_more_threads(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    cores = ThreadCores(2)
    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", no_more_threads)
        assert list(cores.map(square, range(9))) == [number**2 for number in range(9)]
    assert list(cores.map(square, range(9))) == [number**2 for number in range(9)]
    cores.close()
    assert list(cores.map(square, [3])) == [9]


@needs_proc
def test_where_no_thread_can_be_started_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control group that limits processes counts threads."""

    def no_more_threads(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    cores = ProcessCores(2)
    before = children()
    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", no_more_threads)
        assert list(cores.map(process_id, range(9))) == [os.getpid()] * 9
    await_end(sorted(children() - before))
    cores.forget()
    assert list(cores.map(process_id, [0])) != [os.getpid()]
    cores.close()


def test_a_system_that_lacks_what_workers_need(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse_to_make(*_: object, **__: object) -> None:
        raise OSError(38, "Function not implemented")

    with monkeypatch.context() as patched:
        patched.setattr("multiprocessing.forkserver.ensure_running", refuse_to_make)
        cores = ProcessCores(2)
        assert list(cores.map(process_id, range(5))) == [os.getpid()] * 5
    assert [message[:40] for message in caplog.messages] == ["No worker process can be had here, work "]
    cores.forget()
    assert list(cores.map(process_id, [0])) != [os.getpid()]
    cores.close()


# -- what workers are ------------------------------------------------------------------------------------------------


def test_forgetting_ends_the_workers_that_remember(processes: ProcessCores) -> None:
    before = set(processes.map(process_id, range(20)))
    processes.forget()
    assert not before & set(processes.map(process_id, range(20)))
    await_end(sorted(before))


def test_a_task_that_begins_after_forgetting_leaves_no_worker(tmp_path: Path) -> None:
    cores = ProcessCores(1)
    gate = tmp_path / "gate"
    results = cores.map(process_id_once_there, [str(tmp_path), str(gate), str(tmp_path)])
    started = {next(results)}  # the second has begun or will, the third waits for it
    cores.forget()
    gate.touch()
    started |= set(results)
    await_end(sorted(started))
    cores.close()


def test_closed_cores_have_no_workers() -> None:
    cores = ProcessCores(2)
    before = set(cores.map(process_id, range(8)))
    cores.close()
    await_end(sorted(before))
    assert set(cores.map(process_id, range(3))) == {os.getpid()}


def test_workers_leave_ctrl_c_to_their_party(processes: ProcessCores) -> None:
    assert os.getpid() not in set(processes.map(interrupt_then_process_id, range(8)))


@needs_proc
def test_workers_leave_no_core_dump(processes: ProcessCores) -> None:
    assert set(processes.map(core_dumps, range(4))) == {((0, 0), 0)}


@needs_proc
def test_workers_hold_none_of_their_partys_sockets_and_files(tmp_path: Path) -> None:
    cores = ProcessCores(2)
    with socket.create_server(("127.0.0.1", 0)) as listening, (tmp_path / "open").open("w") as file:
        for held in (listening, file):
            os.set_inheritable(held.fileno(), True)
        own = str(Path(f"/proc/self/fd/{listening.fileno()}").readlink())
        for held_open in cores.map(open_files, range(4)):
            assert not {own, str(tmp_path / "open")} & set(held_open.values())
    cores.close()


SCRIPT = """
import sys, time
from tests.harness.core_tasks import process_id
from vfl.cores import ProcessCores

print("begins", flush=True)
cores = ProcessCores(2)
print(*set(cores.map(process_id, range(50))), flush=True)
if "wait" in sys.argv:
    time.sleep(60)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def run(script: Path, *arguments: str) -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@needs_proc
def test_workers_end_with_a_party_that_is_killed(script: Path) -> None:
    with run(script, "wait") as party:
        assert party.stdout is not None
        party.stdout.readline()
        workers = [int(number) for number in party.stdout.readline().split()]
        assert all(map(is_running, workers))
        assert party.pid not in workers
        party.kill()
    await_end(workers)


def test_workers_have_loaded_what_the_work_needs_and_no_cryptography_else(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from vfl.cores import ProcessCores\n"
        "cores = ProcessCores(1, preload=['this_is.nowhere', 'tabnanny'])\n"
        "names = ['tabnanny', 'vfl.cores.worker', 'vfl.crypto', 'pyclbr']\n"
        "print(*cores.map(eval, [f'{name!r} in __import__(\"sys\").modules' for name in names]))\n"
    )
    with run(script) as party:
        assert party.communicate()[0].split() == ["True", "True", "False", "False"]


def test_a_persons_script_runs_once_and_ends_quietly(script: Path) -> None:
    with run(script) as party:
        output, errors = party.communicate(timeout=60)
    assert output.count("begins") == 1
    assert (party.returncode, errors) == (0, "")
