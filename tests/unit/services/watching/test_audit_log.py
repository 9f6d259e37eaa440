"""The audit log: what a kill leaves is mended and said; a line that is changed or taken out is found and named."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from services.common.identity import Identity, Role
from services.common.state_folder import StateError, StateFolder, StateInMemory
from services.watching.audit_log import NOTHING_BEFORE, AuditLog, LogChanged, files_of, log_of, verify

_Lines = list[bytes]


def written(folder: Path, lines: int = 9, *, most_bytes: int = 1 << 20) -> Path:
    log = AuditLog(folder, most_bytes=most_bytes)
    for number in range(lines):
        log.append(peer="passive", kind="decryption", count=number, session="s")
    log.close()
    return folder


def entries(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for file in files_of(folder) for line in file.read_bytes().splitlines()]


def test_a_log_goes_on_over_processes_and_files(tmp_path: Path) -> None:
    folder = written(written(tmp_path / "log", most_bytes=600), most_bytes=600)
    assert len(files_of(folder)) > 3
    found = entries(folder)
    assert [one["line"] for one in found] == list(range(1, 19))
    assert (found[0]["before"], found[0]["peer"], found[0]["kind"]) == (NOTHING_BEFORE, "passive", "decryption")
    assert str(found[0]["time"]).endswith("Z")
    result = verify(folder)
    assert (result.first, result.last, result.mended, result.unwritten) == (1, 18, 0, 0)
    assert verify(folder, result.head.upper()) == result
    # Only its owner reads it.
    assert {file.stat().st_mode & 0o777 for file in files_of(folder)} == {0o600}


def changed(lines: _Lines) -> _Lines:
    return [*lines[:4], lines[4].replace(b'"count": 4', b'"count": 3'), *lines[5:]]


def linked_anew(lines: _Lines) -> _Lines:
    entry = json.loads(lines[4])
    return [*lines[:4], json.dumps({**entry, "before": "a" * 64}).encode(), *lines[5:]]


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (lambda lines: [*lines[:4], *lines[5:]], "000001.jsonl:5: expected line 5 and found line 6"),
        (lambda lines: lines[1:], "000001.jsonl:1: expected line 1 and found line 2"),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "expected line 4 and found line 5"),
        (lambda lines: [*lines[:4], lines[3], *lines[4:]], "expected line 5 and found line 4"),
        (changed, "000001.jsonl:6: line 5 was changed"),
        (linked_anew, "000001.jsonl:5: line 4 was changed after it was written, or the hash of it in line 5"),
        (lambda lines: [*lines[:4], b"", *lines[5:]], "000001.jsonl:5: this is no line of an audit log"),
        (lambda lines: [*lines[:4], b"[1, 2]", *lines[5:]], "000001.jsonl:5: this is no line of an audit log"),
    ],
    ids=["missing", "the first missing", "swapped", "twice", "changed", "linked anew", "empty", "no object"],
)
def test_a_line_that_is_not_what_was_written_is_named(
    tmp_path: Path, tamper: Callable[[_Lines], _Lines], words: str
) -> None:
    folder = written(tmp_path / "log")
    (file,) = files_of(folder)
    file.write_bytes(b"".join(line + b"\n" for line in tamper(file.read_bytes().splitlines())))
    with pytest.raises(LogChanged) as error:
        verify(folder)
    assert words in str(error.value)


def test_a_missing_file_is_found_and_older_ones_may_be_elsewhere(tmp_path: Path) -> None:
    folder = written(tmp_path / "log", most_bytes=600)
    first, second, third, *_ = files_of(folder)
    kept = second.read_bytes()
    lost, after = (json.loads(file.read_bytes().splitlines()[0])["line"] for file in (second, third))
    second.unlink()
    with pytest.raises(LogChanged, match=f"expected line {lost} and found line {after}: what is between was taken out"):
        verify(folder)
    second.write_bytes(kept)
    first.unlink()
    assert verify(folder).first == lost


def test_what_is_cut_off_at_the_end_is_found_by_a_hash_that_was_noted(tmp_path: Path) -> None:
    folder = written(tmp_path / "log")
    noted = verify(folder).head
    (file,) = files_of(folder)
    file.write_bytes(b"".join(line + b"\n" for line in file.read_bytes().splitlines()[:-2]))
    assert verify(folder).last == 7
    with pytest.raises(LogChanged, match="lines were cut off"):
        verify(folder, noted)


@pytest.mark.parametrize("left", [1, 20, -1], ids=["a byte", "a part", "all but its end"])
def test_a_torn_last_line_is_mended_and_said(tmp_path: Path, left: int) -> None:
    folder = written(tmp_path / "log")
    (file,) = files_of(folder)
    whole = file.read_bytes()
    torn = whole.splitlines()[-1][: left if left > 0 else None]
    file.write_bytes(whole + torn)
    # Until the next start it is none yet.
    assert verify(folder).last == 9
    written(folder, 1)
    result = verify(folder)
    assert (result.last, result.mended) == (11, 1)
    assert entries(folder)[9]["count"] == len(torn)
    # A second start has nothing to mend.
    written(folder, 1)
    assert verify(folder).mended == 1


def test_a_file_without_a_line_is_what_a_kill_may_leave(tmp_path: Path) -> None:
    folder = written(tmp_path / "log")
    (folder / "000002.jsonl").write_bytes(b'{"li')
    written(folder, 2)
    assert (verify(folder).last, verify(folder).mended) == (12, 1)


@pytest.mark.parametrize(
    "added", [b"not a line\n", b"\n", b"\n\n", b"\0" * (1 << 17)], ids=["a text", "an end", "two", "zeros"]
)
def test_a_broken_log_is_refused_and_left_alone(tmp_path: Path, added: bytes) -> None:
    folder = written(tmp_path / "log")
    (file,) = files_of(folder)
    file.write_bytes(broken := file.read_bytes() + added)
    with pytest.raises(StateError, match="plumbline log verify"):
        AuditLog(folder)
    assert file.read_bytes() == broken


def test_a_full_disk_loses_lines_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, write = AuditLog(tmp_path / "log"), os.write
    log.append(peer="p", kind="scores", count=1)

    def short(descriptor: int, content: bytes) -> int:
        return write(descriptor, content[:7])

    monkeypatch.setattr(os, "write", short)
    for _ in range(3):
        log.append(peer="p", kind="scores", count=1)
    monkeypatch.setattr(os, "write", write)
    assert {one.name: dict(one.values) for one in log.measures()}["audit_log_unwritten"] == {(): 3}
    log.append(peer="p", kind="scores", count=1)
    log.close()
    result = verify(tmp_path / "log")
    assert (result.last, result.unwritten) == (3, 3)


_ENDLESS = """
import sys
from pathlib import Path
from services.watching.audit_log import AuditLog
log = AuditLog(Path(sys.argv[1]), most_bytes=20_000)
print("begun", flush=True)
while True:
    log.append(peer="passive", kind="decryption", count=1, session="s")
"""


def test_a_log_survives_kills(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    before = 0
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", _ENDLESS, str(folder)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        while len(files_of(folder)) < 3 or verify(folder).last <= before:
            time.sleep(0.01)
        process.kill()
        process.wait()
        process.stdout.close()
        assert verify(folder).last > before
        before = verify(folder).last
    written(folder, 1)
    assert verify(folder).last >= before + 1


def test_the_log_of_a_state_is_in_its_folder(tmp_path: Path) -> None:
    assert log_of(StateInMemory()) is None
    log = log_of(StateFolder(tmp_path, Identity(Role.PASSIVE, "passive")))
    assert log is not None
    log.append(peer="active", kind="alignment", count=10)
    log.close()
    assert verify(tmp_path) == verify(tmp_path / "audit-log")
    with pytest.raises(LogChanged, match="has no audit log"):
        verify(tmp_path / "nowhere")
