"""A party's state on disk: private, locked, of one party and one version, each file whole whatever happens."""

import json
import logging
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from services.common.identity import Identity, Role
from services.common.state_folder import (
    SCHEMA,
    SECRET_BYTES,
    StateError,
    StateFolder,
    StateInMemory,
    StateNotKept,
    open_state,
    owner_of,
    secret_of,
)
from services.network.statuses import status_of

PASSIVE = Identity(Role.PASSIVE, "clinic")
# Takes a folder and tells so, then does what it is told.
HOLDER = """
import sys
from pathlib import Path
from services.common.identity import Identity, Role
from services.common.state_folder import StateFolder
folder = StateFolder(Path(sys.argv[1]), Identity(Role.PASSIVE, "clinic"))
{then}
print("ready", flush=True)
sys.stdin.read()
"""
# Writes, and stops with half of the bytes in the file.
TORN = """

import os
def never(descriptor):
    print("ready", flush=True)
    sys.stdin.read()
os.fsync = never
folder.write("model", b"new" * 1000)
"""


def started(folder: Path, then: str = "") -> subprocess.Popen[str]:
    """Another process that holds ``folder``, as soon as it is where it should be."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(then=then), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def killed(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_is_there_for_the_next_process(tmp_path: Path) -> None:
    state = StateFolder(tmp_path / "deep" / "state", PASSIVE)
    assert state.read("model") is None
    state.write("model", b"one")
    state.write("model", b"two")
    state.write("other", b"three")
    state.replace("model", by="other")
    state.close()
    again = StateFolder(tmp_path / "deep" / "state", PASSIVE)
    assert (again.read("model"), again.read("other")) == (b"three", None)
    again.remove("model")
    again.remove("model")
    assert again.read("model") is None


def test_folder_and_files_are_for_this_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o755)
    state = StateFolder(folder, PASSIVE)
    state.write("model", b"weights")
    assert Path(state.database("answers")).exists()
    secret_of(state)
    assert mode(folder) == 0o700
    assert {one.name: mode(one) for one in folder.iterdir()} == dict.fromkeys(
        ("answers", "lock", "model", "owner.json", "secret"), 0o600
    )


def test_a_second_process_is_refused_by_the_first_ones_number_until_it_has_gone(tmp_path: Path) -> None:
    first = started(tmp_path / "state")
    with pytest.raises(StateError, match=rf"in use by the process {first.pid}: stop it first"):
        StateFolder(tmp_path / "state", PASSIVE)
    killed(first)
    StateFolder(tmp_path / "state", PASSIVE).close()


def test_two_parties_cant_share_a_folder(tmp_path: Path) -> None:
    StateFolder(tmp_path, PASSIVE).close()
    for other in (Identity(Role.PASSIVE, "bank"), Identity(Role.ACTIVE, "clinic")):
        with pytest.raises(StateError, match=r"is the state of clinic \(passive\), and this is .* a folder of its own"):
            StateFolder(tmp_path, other)
    # A refusal lets go of the folder.
    StateFolder(tmp_path, PASSIVE).close()


@pytest.mark.parametrize("schema", [SCHEMA + 1, 0, "1", None])
def test_state_of_another_version_is_refused_with_what_to_do(tmp_path: Path, schema: object) -> None:
    StateFolder(tmp_path, PASSIVE).close()
    owner = {**json.loads((tmp_path / "owner.json").read_text()), "schema": schema}
    (tmp_path / "owner.json").write_text(json.dumps(owner))
    with pytest.raises(StateError, match=f"version {schema!r} and this version of Plumbline reads {SCHEMA}"):
        StateFolder(tmp_path, PASSIVE)
    assert json.loads((tmp_path / "owner.json").read_text()) == owner


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', '{"schema": 1, "party": "x", "role": "king"}'])
def test_a_broken_owner_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "owner.json").write_text(content)
    with pytest.raises(StateError, match="is broken"):
        StateFolder(tmp_path, PASSIVE)


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    before = mode(tmp_path)
    with pytest.raises(StateError, match="holds other files and no state of a party"):
        StateFolder(tmp_path, PASSIVE)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.txt"]
    assert mode(tmp_path) == before


def test_a_process_killed_in_mid_write_leaves_what_was_there(tmp_path: Path) -> None:
    state = StateFolder(tmp_path, PASSIVE)
    state.write("model", b"old")
    state.close()
    killed(started(tmp_path, then=TORN))
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".unfinished")], "this test needs a torn write"
    again = StateFolder(tmp_path, PASSIVE)
    assert again.read("model") == b"old"
    again.write("model", b"new")
    assert not [one.name for one in tmp_path.iterdir() if one.name.endswith(".unfinished")]


def test_a_full_disk_keeps_the_old_and_is_told_in_one_sentence_without_the_folders_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    state = StateFolder(tmp_path, PASSIVE)
    state.write("model", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(os, "fsync", full)
        with pytest.raises(StateNotKept) as refused:
            state.write("model", b"new")
    assert str(refused.value) == (
        "clinic can't write its state (No space left on device): it needs room, or another folder "
        "(PLUMBLINE_STATE_DIR)."
    )
    assert str(tmp_path) in caplog.text
    assert status_of(refused.value).name == "FAILED_PRECONDITION"
    assert state.read("model") == b"old"


def test_a_rename_whose_sync_failed_is_synced_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    folder = StateFolder(tmp_path, PASSIVE)
    folder.write("old", b"old")
    folder.write("new", b"new")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        for _ in range(2):
            with pytest.raises(StateNotKept, match="Input/output error"):
                folder.replace("old", by="new")
    # What else is kept meanwhile changes nothing of it.
    folder.write("another", b"another")
    folder.replace("old", by="new")
    assert (folder.read("old"), folder.read("new")) == (b"new", None)
    with pytest.raises(StateNotKept, match="No such file"):
        folder.replace("old", by="new")


def test_what_is_written_after_a_rename_whose_sync_failed_is_renamed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StateFolder(tmp_path, PASSIVE)
    folder.write("new", b"new")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
        with pytest.raises(StateNotKept):
            folder.replace("old", by="new")
    folder.write("new", b"newer")
    folder.replace("old", by="new")
    assert (folder.read("old"), folder.read("new")) == (b"newer", None)


def test_a_folder_that_cant_be_written_stops_the_service_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StateError, match="PLUMBLINE_STATE_DIR"):
        StateFolder(tmp_path / "file" / "state", PASSIVE)


def test_the_secret_is_made_once_and_comes_from_the_operating_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = StateFolder(tmp_path / "one", PASSIVE)
    secret = secret_of(first)
    assert len(secret) == SECRET_BYTES
    assert secret_of(first) == secret
    first.close()
    assert secret_of(StateFolder(tmp_path / "one", PASSIVE)) == secret
    assert secret_of(StateFolder(tmp_path / "two", PASSIVE)) != secret


def test_without_a_folder_the_state_ends_with_the_process(tmp_path: Path) -> None:
    state = open_state(None, PASSIVE)
    assert isinstance(state, StateInMemory)
    state.write("served", b"a model")
    state.write("candidate", b"another")
    state.replace("served", by="candidate")
    assert (state.read("served"), state.read("candidate")) == (b"another", None)
    state.remove("served")
    assert state.read("served") is None
    assert isinstance(open_state(tmp_path, PASSIVE), StateFolder)


def test_whose_state_a_folder_holds_can_be_asked_while_it_is_in_use(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="holds no state of a party"):
        owner_of(tmp_path)
    state = StateFolder(tmp_path, PASSIVE)
    assert owner_of(tmp_path) == PASSIVE
    assert state.path == tmp_path
    assert state.read("owner.json")
