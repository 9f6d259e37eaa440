"""The compiled library as a file: cut off, of other sources, in a folder that nobody may write, built by several."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vfl.crypto.kernels import PortableKernel, best_kernel
from vfl.crypto.native import build, library

BUILT = build.library_path()
needs_library = pytest.mark.skipif(not BUILT.is_file(), reason="The native kernel isn't built.")

LOAD = """
import sys
from pathlib import Path
from vfl.crypto.native import library
library.library_path = lambda: Path(sys.argv[1])
try:
    library.load()
except library.LibraryMissing as missing:
    print(missing)
"""


def loaded(path: Path) -> "subprocess.CompletedProcess[str]":
    """What a process of its own says of a library; it may not survive it."""
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(path)], capture_output=True, text=True, timeout=60, check=False
    )


@needs_library
@pytest.mark.skipif(sys.platform != "linux", reason="ELF is Linux's")
@pytest.mark.parametrize("kept", [0.0, 0.0005, 0.02, 0.5, 0.95, 0.9999])
def test_a_library_that_is_cut_off_is_refused_in_a_sentence(tmp_path: Path, kept: float) -> None:
    content = BUILT.read_bytes()
    cut = tmp_path / "kernel.so"
    cut.write_bytes(content[: int(kept * len(content))])
    done = loaded(cut)
    assert done.returncode == 0
    assert done.stdout.startswith("The native kernel")


@needs_library
def test_a_whole_library_is_loaded(tmp_path: Path) -> None:
    whole = tmp_path / "kernel.so"
    whole.write_bytes(BUILT.read_bytes())
    assert (loaded(whole).returncode, loaded(whole).stdout) == (0, "")


@needs_library
def test_a_library_of_other_sources_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "source_digest", lambda: 64 * "0")
    library.load.cache_clear()
    best_kernel.cache_clear()
    try:
        assert best_kernel() == PortableKernel()
    finally:
        best_kernel.cache_clear()


@pytest.fixture
def one_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel that takes no time to compile."""
    try:
        build.find_compiler()
    except build.CompilationFailed as failed:
        pytest.skip(str(failed))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "kernel.c").write_text("const char *plumbline_sources(void) { return SOURCES; }\n")
    (tmp_path / "sources" / "ifma.c").write_text("#error no lanes\n")
    monkeypatch.setattr(build, "SOURCES", tmp_path / "sources")
    return tmp_path


def test_where_no_file_can_be_written_the_compilation_fails_in_a_sentence(one_source: Path) -> None:
    with pytest.raises(build.CompilationFailed, match="can't be written"):
        build.build(one_source / "missing" / "kernel.so")


def test_several_may_build_at_once_and_leave_one_whole_library(one_source: Path) -> None:
    """Also in containers that share a folder, where process numbers say nothing."""
    target = one_source / "out" / "kernel.so"
    target.parent.mkdir()
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: build.build(target), range(8))) == {target}
    assert list(target.parent.iterdir()) == [target]
    assert build.source_digest().encode() in target.read_bytes()
