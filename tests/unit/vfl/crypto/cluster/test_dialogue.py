"""A dialogue with a process in between that a hostile cluster has taken over: it says what it likes, or is deaf."""

import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.products import product_jobs
from vfl.cores.cores import OneCore
from vfl.crypto import keygen
from vfl.crypto.cluster import ClusterCores, cluster_cores
from vfl.crypto.cluster.frames import Kind
from vfl.crypto.product_jobs import ProductJob, compute_product

Taken = Callable[..., ClusterCores]


@pytest.fixture
def taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Taken:
    """Cores whose process in between says some bytes, then sleeps and reads nothing."""

    def begin(*said: bytes) -> ClusterCores:
        script = tmp_path / "between"
        script.write_text(
            f"#!{sys.executable}\nimport sys, time\nsys.stdout.buffer.write({b''.join(said)!r})\n"
            "sys.stdout.flush()\ntime.sleep(60)\n"
        )
        script.chmod(0o700)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "executable", str(script))
            return ClusterCores("tcp://127.0.0.1:1", OneCore())

    return begin


def frame(kind: Kind, number: int = 0, data: bytes = b"") -> bytes:
    return struct.pack(">BQQ", kind, number, len(data)) + data


def await_that(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


@pytest.fixture(scope="module")
def jobs() -> list[ProductJob]:
    """Each larger than a pipe holds."""
    return product_jobs(keygen(512, insecure=True)[1], 4, rows=1000)


@pytest.fixture(scope="module")
def answers(jobs: list[ProductJob]) -> list[list[int]]:
    assert len(jobs[0].to_bytes()) > 1 << 17
    return [compute_product(job) for job in jobs]


def test_who_does_not_read_delays_a_step_only_so_long(
    taken_over: Taken,
    jobs: list[ProductJob],
    answers: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(cluster_cores, "_PATIENCE_SECONDS", 0.1)
    cores = taken_over(frame(Kind.READY, 2))
    await_that(lambda: cores.count == 3)
    assert list(cores.map(compute_product, jobs)) == answers
    assert "has stopped answering" in caplog.text
    cores.close()


def test_answers_that_are_no_ciphertexts_are_computed_here(
    taken_over: Taken, jobs: list[ProductJob], answers: list[list[int]]
) -> None:
    job = jobs[0]
    false = b"".join(frame(Kind.ANSWERS, number, bytes(job.width * job.answers)) for number in range(1, 5))
    # It answers before it is asked, and again: nobody waits for that.
    cores = taken_over(false, frame(Kind.READY, 4), frame(Kind.FAILED, 1), frame(Kind.LOST, 0, b"it is over."))
    assert list(cores.map(compute_product, jobs)) == answers
    cores.close()


def test_a_number_of_threads_is_believed_within_reason(
    taken_over: Taken, jobs: list[ProductJob], answers: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_cores, "_PATIENCE_SECONDS", 0.1)
    cores = taken_over(frame(Kind.READY, 1 << 60))
    await_that(lambda: cores.count > 1)
    assert cores.count <= 1025
    assert list(cores.map(compute_product, jobs)) == answers
    cores.close()


def test_its_last_words_are_one_line_of_the_log(taken_over: Taken, caplog: pytest.LogCaptureFixture) -> None:
    cores = taken_over(frame(Kind.LOST, 0, b"gone.\n\x1b[2JINFO all is well" + 9999 * b"!"))

    def told() -> list[str]:
        return [one.getMessage() for one in caplog.records if one.name == cluster_cores.__name__]

    await_that(lambda: bool(told()))
    (message,) = told()
    assert "gone.  [2JINFO all is well!" in message
    assert message.isprintable()
    assert len(message) < 700
    cores.close()
