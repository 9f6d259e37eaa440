"""A disk that fills, or turns read-only, in the middle of a job: nothing old is lost, and the model is served."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2
from services.common.run_folder import RunFolder
from tests.harness.hostile import PARTIES, SEEDED, parties_folder, scores_of
from tests.harness.processes import local_processes
from vfl.arrays import FloatArray

_UNLIMITED = resource.RLIM_INFINITY


@dataclass(frozen=True)
class Disk:
    """A folder for all parties' records whose disk can fail, and be mended.

    Attributes:
        break_: makes it fail, for processes at work.
        mend: makes it work again.
        says: the system's words for what is wrong with it.
        is_whole: whether parties can write nothing anywhere else either, their state among it.
    """

    break_: Callable[[LocalProcesses], None]
    mend: Callable[[LocalProcesses], None]
    says: str
    is_whole: bool = False


def limit_files(processes: LocalProcesses, most: int) -> None:
    """Let the running parties write no file beyond so many bytes: their logs neither."""
    for name in PARTIES:
        resource.prlimit(processes.process(name).pid, resource.RLIMIT_FSIZE, (most, _UNLIMITED))


@contextmanager
def limited(_: Path) -> Iterator[Disk]:
    """A disk without room, as the kernel tells a process that may write no more."""
    yield Disk(
        lambda one: limit_files(one, 0), lambda one: limit_files(one, _UNLIMITED), "File too large", is_whole=True
    )


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True, timeout=30)


@contextmanager
def own_file_system(folder: Path) -> Iterator[None]:
    """A file system of 4 MB in a folder's place; skips where that isn't allowed."""
    folder.mkdir(parents=True)
    try:
        mount("-t", "tmpfs", "-o", "size=4m", "plumbline-test", str(folder))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may mount no file system")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)


@contextmanager
def full(folder: Path) -> Iterator[Disk]:
    """A real file system that somebody else fills."""
    with own_file_system(folder):
        filler = folder / "filler"

        def fill(_: LocalProcesses) -> None:
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(1 << 12))
                except OSError:
                    os.fsync(file.fileno())

        yield Disk(fill, lambda _: filler.unlink(), "No space left on device")


@contextmanager
def read_only(folder: Path) -> Iterator[Disk]:
    """A real file system that turns read-only, as one with errors does."""
    with own_file_system(folder):
        yield Disk(
            lambda _: mount("-o", "remount,ro", str(folder)),
            lambda _: mount("-o", "remount,rw", str(folder)),
            "Read-only file system",
        )


@pytest.mark.parametrize("disk_of", [limited, full, read_only])
def test_nothing_old_is_lost_and_the_new_model_is_served(
    tmp_path: Path, disk_of: Callable[[Path], AbstractContextManager[Disk]]
) -> None:
    """Once the last good ``passive.json`` became 8 kB of broken JSON, and the trained model was lost with it."""
    processes = local_processes(tmp_path, **{**SEEDED, "record_features": True})
    folder = parties_folder(processes)
    with disk_of(folder) as disk, Federation.start(processes) as federation:
        federation.train()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}
        old_scores = scores_of(federation)

        def strike(event: active_pb2.JobEvent) -> None:
            if event.WhichOneof("event") == "epoch" and event.epoch.epoch == 0:
                disk.break_(processes)

        try:
            federation.train(watch=strike, epochs=2)
        except FederationFailed as error:
            # A model that can't be kept isn't served in place of one that is.
            if not disk.is_whole or f"can't write its state ({disk.says})" not in str(error):
                raise
            pd.testing.assert_frame_equal(scores_of(federation), old_scores, check_exact=True)
        else:
            status = federation.status()
            assert status.stage == "serving"
            lost = [words for words in status.warnings if "could not be written" in words]
            assert len(lost) == 3
            assert all(disk.says in words for words in lost)
            assert not np.array_equal(_numbers(scores_of(federation)), _numbers(old_scores), equal_nan=True)
        assert {name: (folder / name).read_bytes() for name in before} == before
        assert RunFolder(folder).record("passive").agreement is not None
        processes.check()

        disk.mend(processes)
        federation.train(epochs=2)
        assert not [words for words in federation.status().warnings if "could not be written" in words]
        assert not np.array_equal(_numbers(scores_of(federation)), _numbers(old_scores), equal_nan=True)
        assert not list(folder.glob("*.unfinished"))
        assert (folder / "passive-weights.npz").read_bytes() != before["passive-weights.npz"]


def _numbers(scores: pd.DataFrame) -> FloatArray:
    return scores.drop(columns="error").to_numpy()
