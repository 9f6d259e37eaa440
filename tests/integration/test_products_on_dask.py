"""A party's products on a real Dask cluster: the same integers whatever becomes of it, and no secret ever there."""

import io
import logging
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plumbline.federation import Federation
from plumbline.recipe import changed
from tests.harness.clusters import Cluster, await_cluster, connected, running_cluster
from tests.harness.dask_certificates import configuration_of_client, make_dask_certificates, settings_of_client
from tests.harness.exchanges import largest_difference, train_plainly
from tests.harness.processes import QUICK, local_processes, registered_problem, weights_of
from tests.harness.products import product_jobs
from vfl.cores.cores import OneCore, Result, Task
from vfl.crypto import PrivateKey, keygen
from vfl.crypto.cluster import ClusterCores, check_cluster, client, cluster_cores, job_work
from vfl.crypto.cluster.frames import Frame
from vfl.crypto.product_jobs import ProductJob, compute_product

dask = pytest.importorskip("dask", reason="needs the extra dask")
Client = pytest.importorskip("distributed", reason="needs the extra dask").Client


class Told(Exception):
    """What the process that speaks with a cluster would have said last."""


class Telling:
    """Stands for the pipe to a party's process."""

    def tell(self, frame: Frame) -> None:
        """Notes nothing."""

    def give_up(self, sentence: str) -> None:
        raise Told(sentence)


class Counting(OneCore):
    """One core that counts its tasks, and does something before one of them."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None, before: int = 1) -> None:
        self.done = 0
        self._meanwhile, self._before = meanwhile, before

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        for task in tasks:
            if self.done == self._before:
                self._meanwhile()
            self.done += 1
            yield function(task)


@pytest.fixture(scope="module")
def key() -> PrivateKey:
    return keygen(512, insecure=True)[1]


@pytest.fixture(scope="module")
def jobs(key: PrivateKey) -> list[ProductJob]:
    return product_jobs(key, 12)


@pytest.fixture(scope="module")
def answers(jobs: list[ProductJob]) -> list[list[int]]:
    return [compute_product(job) for job in jobs]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="vfl.crypto.cluster")
    return lambda: [record.getMessage() for record in caplog.records if record.name.startswith("vfl.crypto.cluster")]


def served(address: str) -> None:
    """Speak with a cluster as the process in between does, for a party that asks nothing."""
    client.serve(address, io.BytesIO(), Telling())  # type: ignore[arg-type]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_answers_are_those_of_this_machine_and_both_compute(
    cluster: Cluster, jobs: list[ProductJob], answers: list[list[int]]
) -> None:
    local = Counting()
    cores = connected(cluster.address, local)
    assert cores.count == 3
    assert list(cores.map(compute_product, jobs)) == answers
    assert 0 < local.done < len(jobs)
    cores.close()


def test_a_cluster_that_dies_in_mid_step_is_said_once_and_used_again_when_it_is_back(
    tmp_path: Path, jobs: list[ProductJob], answers: list[list[int]], warned: Callable[[], list[str]]
) -> None:
    port = free_port()
    with running_cluster(tmp_path, port=port) as first:

        def kill() -> None:
            first.scheduler.kill()
            first.scheduler.wait()

        local = Counting(kill)
        cores = connected(first.address, local)
        assert list(cores.map(compute_product, jobs)) == answers
        assert list(cores.map(compute_product, jobs)) == answers
        (sentence,) = warned()
        assert "this machine's cores alone: the Dask scheduler at tcp://127.0.0.1" in sentence
        assert sentence.endswith("has gone. The next session tries the cluster again.")
        assert cores.count == 1
    with running_cluster(tmp_path, port=port):
        cores.begin_session()
        await_cluster(cores, local)
        before = local.done
        assert list(cores.map(compute_product, jobs)) == answers
        assert local.done - before < len(jobs)
    cores.close()


def test_workers_that_die_are_made_up_for_here(
    tmp_path: Path, jobs: list[ProductJob], answers: list[list[int]], warned: Callable[[], list[str]]
) -> None:
    with running_cluster(tmp_path) as running:

        def kill() -> None:
            for worker in running.workers:
                worker.kill()
                worker.wait()

        cores = connected(running.address, Counting(kill))
        assert list(cores.map(compute_product, jobs)) == answers
        cores.close()
    assert len(warned()) <= 1


def test_a_cluster_that_stops_answering_delays_a_step_only_so_long(
    tmp_path: Path,
    jobs: list[ProductJob],
    answers: list[list[int]],
    warned: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_cores, "_PATIENCE_SECONDS", 0.1)
    with running_cluster(tmp_path) as running:
        cores = connected(running.address, OneCore())
        for process in (running.scheduler, *running.workers):
            process.send_signal(signal.SIGSTOP)
        assert list(cores.map(compute_product, jobs)) == answers
        (sentence,) = warned()
        assert "the Dask cluster has stopped answering" in sentence
        cores.close()


def test_a_session_doesnt_wait_for_the_first_connection(jobs: list[ProductJob], answers: list[list[int]]) -> None:
    # It takes calls and never says a word.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cores = ClusterCores(f"tcp://127.0.0.1:{silent.getsockname()[1]}", OneCore())
        assert cores.count == 1
        assert list(cores.map(compute_product, jobs)) == answers
        cores.close()


def await_line(log: Path, words: str) -> None:
    """Waits for what a process says."""
    end = time.monotonic() + 60
    while words not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def executed(dask_worker: Any) -> int:
    """What a worker has computed so far."""
    return int(dask_worker.state.executed_count)


def test_a_party_in_a_federation_uses_its_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """A large batch: small products aren't worth the way."""
    plan: dict[str, Any] = {**QUICK, "batch_size": 256, "packing": False, "kernel": "portable", "step_timeout": 30}
    plan |= {"steps": "plain", "calibrated": False}
    processes = local_processes(tmp_path, **plan)
    own = changed("passive", processes.settings["passive"], dask=cluster.address)
    processes.settings = {**processes.settings, "passive": own}
    with Client(cluster.address, set_as_default=False) as watching, Federation.start(processes) as federation:
        await_line(processes.log("passive"), "computes products as well, in 2 threads")
        before = sum(watching.run(executed).values())
        federation.train()
        assert sum(watching.run(executed).values()) > before
        problem = registered_problem(processes, "breast_cancer", processes.settings["active"].plan())
    seeds = [processes.settings[name].private_seed or 0 for name in ("active", "passive")]
    plain = train_plainly(problem, processes.settings["active"].plan(), seeds)
    assert largest_difference(weights_of(tmp_path / "parties", ("active", "passive")), plain) <= 1e-6


def test_nothing_but_products_goes_there(cluster: Cluster, jobs: list[ProductJob]) -> None:
    cores = connected(cluster.address, OneCore())
    with pytest.raises(TypeError, match="computes products and nothing else"):
        cores.map(lambda job: [job.modulus], jobs)

    class Smuggling(ProductJob):
        """A job with more in it."""

    smuggled = Smuggling(jobs[0].kernel, jobs[0].ciphertexts, jobs[0].task, jobs[0].modulus)
    with pytest.raises(TypeError, match="computes products and nothing else"):
        list(cores.map(compute_product, [*jobs[:3], smuggled, *jobs[3:]]))
    cores.close()


def test_tls_with_certificates_works_and_others_certificates_dont(
    tmp_path: Path, jobs: list[ProductJob], answers: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = make_dask_certificates(tmp_path / "certificates")
    strangers = make_dask_certificates(tmp_path / "strangers")
    (tmp_path / "cluster").mkdir()
    for name, value in settings_of_client(certificates).items():
        monkeypatch.setenv(name, value)
    with running_cluster(tmp_path / "cluster", certificates=certificates) as running:
        assert running.address.startswith("tls://")
        with dask.config.set(configuration_of_client(certificates)):
            check_cluster(running.address)
        local = Counting()
        cores = connected(running.address, local)
        assert list(cores.map(compute_product, jobs)) == answers
        assert local.done < len(jobs)
        cores.close()
        monkeypatch.setattr(client, "_CONNECT_SECONDS", 1)
        with (
            dask.config.set(configuration_of_client(strangers)),
            pytest.raises(Told, match=r"no Dask scheduler answers.*both sides' certificates"),
        ):
            served(running.address)


def test_who_doesnt_answer_and_who_differs_is_said_in_a_sentence(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_CONNECT_SECONDS", 1)
    with pytest.raises(Told, match=r"no Dask scheduler answers at tcp://127.0.0.1:\d+: start it"):
        served(f"tcp://127.0.0.1:{free_port()}")
    served(cluster.address)
    monkeypatch.setattr(client, "is_safe", lambda address: "127.0.0.1" not in address)
    with pytest.raises(Told, match=r"also listens at tcp://127.0.0.1.*without TLS"):
        served(cluster.address)
    monkeypatch.undo()
    monkeypatch.setattr(client, "_VERSION", "0.0.1")
    real = job_work.installed_version()
    with pytest.raises(Told, match=rf"another version of Plumbline \({real}\) than this party \(0.0.1\): install"):
        served(cluster.address)


def test_a_worker_of_another_version_computes_nothing(jobs: list[ProductJob]) -> None:
    """One that comes later than the look at all of them."""
    with pytest.raises(job_work.WorkerDiffers):
        job_work.answers_of("0.0.1", jobs[0].to_bytes())


def test_the_process_in_between_gets_no_settings_of_the_party(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_DATA", "postgresql://party:password@host/table")
    monkeypatch.setenv("PGPASSWORD", "password")
    monkeypatch.setenv("DASK_CONFIG", "folder")
    environment = cluster_cores._environment()
    assert not [name for name, value in environment.items() if "PLUMBLINE" in name or "password" in value]
    assert environment["DASK_CONFIG"] == "folder"
