"""Workers that are stopped, or the server that starts them: products go on, with the same digits, and without those."""

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.harness.children import await_end, await_states, children_of, fork_server, stop
from tests.harness.core_tasks import Stopping, StoppingKernel, compute_for, process_id, stop_once_then_square
from tests.harness.products import product_jobs
from vfl.cores import ProcessCores
from vfl.cores.own_children import packed_for_child
from vfl.cores.processes import WorkerLink
from vfl.crypto import keygen
from vfl.crypto.engine import ProductJob, compute_product

# Its services are started as anywhere: what a process has of its own is looked at.
COLD = True

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc")

# So short that workers of a busy machine may seem stopped: what comes out is the same.
PATIENCE = 0.5
SECONDS = 60
STOOD_STILL = "A worker process stood still: its work was done here, and it was ended."
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def jobs() -> list[ProductJob]:
    return product_jobs(keygen(512, insecure=True)[1], 12)


@pytest.fixture
def cores() -> Iterator[ProcessCores]:
    made = ProcessCores(2, PATIENCE)
    yield made
    made.close()


def both_workers(cores: ProcessCores) -> list[int]:
    """The numbers of two workers that wait for tasks."""
    deadline = time.monotonic() + SECONDS
    while len(children_of(fork_server())) < 2:
        assert time.monotonic() < deadline, "no two workers are had"
        list(cores.map(process_id, range(8)))
    return sorted(children_of(fork_server()))


def one_before_its_first_task(cores: ProcessCores) -> list[int]:
    workers = both_workers(cores)
    stop(workers[0])
    return workers[:1]


def all_of_them(cores: ProcessCores) -> list[int]:
    workers = both_workers(cores)
    stop(*workers)
    return workers


def the_server_before_it_starts_one(_: ProcessCores) -> list[int]:
    server = fork_server()
    stop(server)
    return [server]


def the_server_while_workers_run(cores: ProcessCores) -> list[int]:
    both_workers(cores)
    stop(fork_server())
    return []


def the_server_and_all_of_them(cores: ProcessCores) -> list[int]:
    return all_of_them(cores) + the_server_before_it_starts_one(cores)


@pytest.mark.parametrize(
    "strike",
    [
        one_before_its_first_task,
        all_of_them,
        the_server_before_it_starts_one,
        the_server_while_workers_run,
        the_server_and_all_of_them,
    ],
)
def test_products_go_on_whoever_is_stopped(
    cores: ProcessCores, jobs: list[ProductJob], strike: Callable[[ProcessCores], list[int]]
) -> None:
    stopped = strike(cores)
    expected = list(map(compute_product, jobs))
    assert list(cores.map(compute_product, jobs)) == expected
    cores.forget()
    await_end(stopped)
    # Workers are had again: in the next session at the latest.
    assert list(cores.map(compute_product, jobs)) == expected
    both_workers(cores)


def test_a_worker_that_is_stopped_within_a_product(
    cores: ProcessCores, jobs: list[ProductJob], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mark = tmp_path / "stopped"
    stopping = [replace(job, kernel=StoppingKernel(str(mark))) for job in jobs]
    with caplog.at_level(logging.WARNING):
        assert list(cores.map(compute_product, stopping)) == list(map(compute_product, jobs))
    assert STOOD_STILL in caplog.messages
    await_end([int(mark.read_text())])


def test_an_answer_that_comes_late_is_not_taken_for_another(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A worker goes on when its work is done here; it stays, and what it is asked next has an answer of its own."""
    cores = ProcessCores(1, PATIENCE)
    mark = tmp_path / "stopped"
    tasks = [Stopping(number, str(mark), number == 3) for number in (3, 4, 5)]
    with caplog.at_level(logging.WARNING):
        assert list(cores.map(stop_once_then_square, tasks)) == [9, 16, 25]
    assert list(cores.map(process_id, [0])) == [int(mark.read_text())]
    assert not caplog.messages
    cores.close()


def test_a_stopped_worker_that_takes_no_task(cores: ProcessCores) -> None:
    """One larger than what fits into a pipe."""
    stopped = all_of_them(cores)
    assert list(cores.map(len, [bytes(MEGABYTE)] * 4)) == [MEGABYTE] * 4
    await_end(stopped)


def test_a_worker_that_is_stopped_within_its_answer(cores: ProcessCores) -> None:
    link = WorkerLink(0, PATIENCE)
    (worker,) = children_of(fork_server())
    link.send(packed_for_child((bytes, MEGABYTE)))
    assert not link.stands_still()
    await_states("S", worker)  # its pipe is full
    stop(worker)
    with pytest.raises(TimeoutError):
        link.receive()
    link.end()
    await_end([worker])


def test_a_worker_that_computes_is_given_its_time(cores: ProcessCores) -> None:
    link = WorkerLink(0, PATIENCE)
    link.send(packed_for_child((compute_for, 2 * PATIENCE)))
    assert not link.stands_still()
    assert link.receive() == (2 * PATIENCE, None)
    link.end()
