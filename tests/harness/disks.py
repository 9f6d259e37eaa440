"""Disks that fill or turn read-only, and are mended, under processes at work."""

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from plumbline.processes import LocalProcesses
from services.common.identity import Role, role_of

_UNLIMITED = resource.RLIM_INFINITY


class NoFileSystem(Exception):
    """This user may mount no file system."""


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
    for name in processes.settings:
        process = processes.process(name)
        if role_of(name) is not Role.COORDINATOR and process.poll() is None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most, _UNLIMITED))


@contextmanager
def limited(_: Path) -> Iterator[Disk]:
    """A disk without room, as the kernel tells a process that may write no more."""
    yield Disk(
        lambda one: limit_files(one, 0), lambda one: limit_files(one, _UNLIMITED), "File too large", is_whole=True
    )


@contextmanager
def full(folder: Path, megabytes: int = 4) -> Iterator[Disk]:
    """A real file system that somebody else fills. Raises NoFileSystem."""
    with _own_file_system(folder, megabytes):
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
    """A real file system that turns read-only, as one with errors does. Raises NoFileSystem."""
    with _own_file_system(folder, megabytes=4):
        yield Disk(
            lambda _: _mount("-o", "remount,ro", str(folder)),
            lambda _: _mount("-o", "remount,rw", str(folder)),
            "Read-only file system",
        )


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True, timeout=30)


@contextmanager
def _own_file_system(folder: Path, megabytes: int) -> Iterator[None]:
    """A file system in a folder's place."""
    folder.mkdir(parents=True)
    try:
        _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "plumbline-test", str(folder))
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoFileSystem("this user may mount no file system") from error
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=30)
