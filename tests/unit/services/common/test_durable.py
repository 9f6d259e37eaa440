"""A file is there whole or not at all: on a full disk, after a kill, with several writers."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from services.common.durable import make_folder, write_durably
from services.common.words import system_words


def test_a_file_is_replaced_and_nothing_stands_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "made" / "here" / "model.npz"
    write_durably(path, b"first")
    write_durably(path, lambda file: file.write(b"second"))
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("private", "file_mode", "folder_mode"), [(True, 0o600, 0o700), (False, 0o644, 0o755)])
def test_modes(tmp_path: Path, private: bool, file_mode: int, folder_mode: int) -> None:
    chosen = tmp_path / "chosen"
    chosen.mkdir()
    chosen.chmod(0o750)
    path = chosen / "made" / "model.npz"
    write_durably(path, b"weights", private=private)
    assert path.stat().st_mode & 0o777 == file_mode
    assert path.parent.stat().st_mode & 0o777 == folder_mode
    # A folder that somebody made keeps what they chose.
    assert chosen.stat().st_mode & 0o777 == 0o750


def test_a_file_that_others_could_read_is_private_after_the_next_write(tmp_path: Path) -> None:
    path = tmp_path / "passive.json"
    path.write_text("old")
    path.chmod(0o666)
    write_durably(path, b"new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_writer_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "active.json"
    write_durably(path, b"good")

    def fail(file: BinaryIO) -> None:
        file.write(b"half of a")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_durably(path, fail)
    assert path.read_bytes() == b"good"
    assert list(tmp_path.iterdir()) == [path]


# Writes more than its own limit allows: the kernel refuses in the middle, as it does on a full disk. The program sets
# that limit itself: between a fork and the program gRPC's threads of other tests may trip over it.
_WRITER = """
import resource, signal, sys
from pathlib import Path
from services.common.durable import write_durably
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8_192, 8_192))
try:
    write_durably(Path(sys.argv[1]), b"x" * 1_000_000)
except OSError as error:
    sys.exit(f"refused {error.errno}")
"""


def test_a_disk_that_fills_in_the_middle_of_a_file_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "passive.json"
    write_durably(path, b"the last good one")
    ended = subprocess.run(
        [sys.executable, "-c", _WRITER, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "refused" in ended.stderr
    assert path.read_bytes() == b"the last good one"
    assert list(tmp_path.iterdir()) == [path]


_KILLED = """
import os, signal, sys
from pathlib import Path
from services.common.durable import write_durably
def killed(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
write_durably(Path(sys.argv[1]), killed)
"""


def test_what_a_killed_writer_left_is_no_file_of_ours_and_the_next_writer_takes_it_away(tmp_path: Path) -> None:
    path, other = tmp_path / "passive.json", tmp_path / "passive.json.old.json"
    write_durably(path, b"good")
    write_durably(other, b"another")
    ended = subprocess.run([sys.executable, "-c", _KILLED, str(path)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"good"
    assert len(list(tmp_path.iterdir())) == 3
    assert set(tmp_path.glob("*.json")) == {path, other}
    # Of another file, whose name begins alike.
    write_durably(other, b"another again")
    assert len(list(tmp_path.iterdir())) == 3
    write_durably(path, b"better")
    assert set(tmp_path.iterdir()) == {path, other}


def test_several_threads_may_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "active.json"
    contents = [bytes([65 + number]) * 50_000 for number in range(8)]
    errors: list[BaseException] = []

    def write(content: bytes) -> None:
        try:
            for _ in range(5):
                write_durably(path, content)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_folders_place_is_an_error_of_the_system(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    place.write_text("")
    for folder in (place, place / "below"):
        with pytest.raises(OSError, match=os.strerror(20)):
            make_folder(folder)


def test_a_full_disk_is_said_with_the_file_that_found_no_room(tmp_path: Path) -> None:
    def fill(_: BinaryIO) -> None:
        with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - a device
            full.write(b"x")

    with pytest.raises(OSError, match="No space left on device") as caught:
        write_durably(tmp_path / "results.json", fill)
    assert caught.value.filename == str(tmp_path / "results.json")
    assert system_words(caught.value) == (
        f"There is no room for {tmp_path / 'results.json'} (No space left on device): make room there, or choose "
        "another folder."
    )
