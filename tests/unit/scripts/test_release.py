"""What stands against a release: work that isn't committed, and builds that differ. `make release` makes one."""

import hashlib
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts import release


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A commit of one file."""
    root = tmp_path / "repository"
    root.mkdir()
    (root / "pyproject.toml").write_text("[project]\n")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "one")):
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(root), *who, *words], check=True)
    return root


def builds(monkeypatch: pytest.MonkeyPatch, *contents: Mapping[str, bytes]) -> None:
    """Have one build after the other give these files."""
    made = iter(contents)
    monkeypatch.setattr(release, "_made", lambda *_: dict(next(made)))


def test_a_release_is_its_files_and_their_sums(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds(monkeypatch, {"b": b"2", "a": b"1"}, {"a": b"1", "b": b"2"})
    files = release.release(repository, tmp_path / "out")
    assert [one.name for one in files] == ["a", "b", "SHA256SUMS"]
    first = (tmp_path / "out/SHA256SUMS").read_text().splitlines()[0]
    assert first == f"{hashlib.sha256(b'1').hexdigest()}  a"


@pytest.mark.parametrize(
    "second", [{"a": b"2"}, {}, {"a": b"1", "b": b""}], ids=["other bytes", "one less", "one more"]
)
def test_builds_that_differ_are_no_release(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: dict[str, bytes]
) -> None:
    builds(monkeypatch, {"a": b"1"}, second)
    with pytest.raises(release.ReleaseFailed, match=r"Two builds differ in [ab]: nobody could"):
        release.release(repository, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_not_committed_is_named(repository: Path, tmp_path: Path) -> None:
    (repository / "later.py").touch()
    with pytest.raises(release.ReleaseFailed, match=r"aren't committed(.|\n)*later.py"):
        release.release(repository, tmp_path / "out")


def test_what_a_tool_says_of_a_failed_build_is_told(repository: Path, tmp_path: Path) -> None:
    """The commit has a project without a name."""
    with pytest.raises(release.ReleaseFailed, match="No release: building failed"):
        release.release(repository, tmp_path / "out")
