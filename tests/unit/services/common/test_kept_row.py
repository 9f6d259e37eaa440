"""A content that changes often: read as it was written last, whatever happens to who writes it."""

import resource
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from services.common.identity import Identity, Role
from services.common.kept_row import KeptRow
from services.common.state_folder import StateError, StateFolder, StateNotKept

NAME = "often.sqlite3"
OWNER = Identity(Role.PASSIVE, "passive")
_WRITES_ON = """
import sys
from pathlib import Path
from services.common.kept_row import KeptRow

row, number = KeptRow(Path(sys.argv[1])), 0
while True:
    row.write(number.to_bytes(8, "big") * 600)
    number += 1
    if number > 3:
        print(number, flush=True)
"""


def test_what_was_written_last_is_read_by_the_next_process_and_is_private(tmp_path: Path) -> None:
    with closing(StateFolder(tmp_path, OWNER)) as state:
        assert state.read(NAME) is None
        for content in (b"", b"first", b"x" * 50_000, b"last"):
            state.write(NAME, content)
            assert state.read(NAME) == content
        for file in tmp_path.glob(f"{NAME}*"):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with closing(StateFolder(tmp_path, OWNER)) as state:
        assert state.read(NAME) == b"last"
        state.remove(NAME)
        assert state.read(NAME) is None
        assert not list(tmp_path.glob(f"{NAME}*"))
        state.write(NAME, b"anew")
        assert state.read(NAME) == b"anew"


def test_a_process_that_is_killed_while_it_writes_leaves_one_whole_content(tmp_path: Path) -> None:
    for _ in range(3):
        writing = subprocess.Popen([sys.executable, "-c", _WRITES_ON, str(tmp_path / NAME)], stdout=subprocess.PIPE)
        assert writing.stdout is not None
        said = int(writing.stdout.readline())
        writing.send_signal(signal.SIGKILL)
        writing.wait()
        with writing.stdout, closing(KeptRow(tmp_path / NAME)) as row:
            content = row.read()
        assert content is not None
        assert content == content[:8] * 600
        assert int.from_bytes(content[:8], "big") >= said - 1


def test_where_there_is_no_room_nothing_has_changed_and_it_goes_on_when_there_is(tmp_path: Path) -> None:
    with closing(StateFolder(tmp_path, OWNER)) as state:
        state.write(NAME, b"before")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            with pytest.raises(StateNotKept, match="passive can't write its state"):
                state.write(NAME, b"x" * 100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert state.read(NAME) == b"before"
        state.write(NAME, b"after")
        assert state.read(NAME) == b"after"


def test_one_that_cannot_be_made_is_not_kept(tmp_path: Path) -> None:
    with closing(StateFolder(tmp_path, OWNER)) as state:
        (tmp_path / NAME).mkdir()
        with pytest.raises(StateNotKept, match="passive can't write its state"):
            state.write(NAME, b"content")
        with pytest.raises(StateError, match=r"often\.sqlite3 of this party's state is broken"):
            state.read(NAME)


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    with closing(StateFolder(tmp_path, OWNER)) as state:
        (tmp_path / NAME).write_bytes(b"no database" * 1000)
        with pytest.raises(StateError, match=r"often\.sqlite3 of this party's state is broken"):
            state.read(NAME)
