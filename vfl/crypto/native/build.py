"""Compiling the native kernel with the machine's own C compiler: by hand, and when Plumbline is installed.

    python -m vfl.crypto.native

The library lies beside its sources and carries their digest: one that was made from other sources isn't used. This
module needs nothing but the standard library, for it runs before anything is installed.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
FLAGS = ("-std=c11", "-O3", "-fPIC", "-fvisibility=hidden")
_IFMA = "ifma.c"
_IFMA_FLAGS = ("-mavx512f", "-mavx512ifma")
_COMPILERS = ("cc", "gcc", "clang")
_SECONDS = 120


class CompilationFailed(RuntimeError):
    """The native kernel can't be compiled here; the message says why."""


def library_path() -> Path:
    """Name the library of this machine: a checkout may be used from several kinds of them."""
    # Not .so: what looks for Python modules would take it for one.
    return SOURCES / f"kernel-{sys.platform}-{platform.machine().lower()}.library"


def source_digest() -> str:
    """Compute the SHA-256 of names and contents of all C sources."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.glob("*.[ch]")):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def find_compiler() -> list[str]:
    """Find $CC, which may carry options, or cc, gcc or clang. Raises CompilationFailed where there is none."""
    for command in (os.environ.get("CC", ""), *_COMPILERS):
        compiler = shlex.split(command)
        if compiler and shutil.which(compiler[0]):
            return compiler
    raise CompilationFailed("there is no C compiler: install gcc or clang, or name one in CC")


def build(target: Path | None = None, flags: Sequence[str] = FLAGS, link: Sequence[str] = ()) -> Path:
    """Compile the library; what was there is replaced at once.

    Args:
        target: where to; by default where the kernel looks for it.
        flags: of the compiler, in all its steps.
        link: further words of the last step.

    Raises:
        CompilationFailed: without a compiler, with its words where it refuses, or where no file can be written.
    """
    try:
        return _build(find_compiler(), target or library_path(), flags, link)
    except OSError as failed:
        raise CompilationFailed(f"its files can't be written: {failed}") from None


def _build(compiler: list[str], target: Path, flags: Sequence[str], link: Sequence[str]) -> Path:
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        folder = Path(scratch)
        with_ifma = _compile_ifma(compiler, folder, flags)
        defined = [f'-DSOURCES="{source_digest()}"', *(["-DWITH_IFMA"] if with_ifma else [])]
        for source in sorted(SOURCES.glob("*.c")):
            if source.name != _IFMA:
                _compile(compiler, source, folder, [*flags, *defined])
        library = folder / "kernel.so"
        _run([*compiler, *flags, "-shared", "-o", str(library), *map(str, sorted(folder.glob("*.o"))), *link])
        _replace(target, library)
    return target


def _replace(target: Path, library: Path) -> None:
    """Replace at once and whole: a process that has the old file open keeps it, and others may be building it too."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(library.read_bytes())
            file.flush()
            os.fsync(descriptor)
        shutil.copymode(library, beside)
        beside.replace(target)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _compile_ifma(compiler: list[str], folder: Path, flags: Sequence[str]) -> bool:
    """Tell whether the compiler knows AVX-512 IFMA; others' processors haven't got it."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return False
    try:
        _compile(compiler, SOURCES / _IFMA, folder, [*flags, *_IFMA_FLAGS])
    except CompilationFailed:
        return False
    return True


def _compile(compiler: list[str], source: Path, folder: Path, flags: Sequence[str]) -> None:
    _run([*compiler, *flags, "-c", str(source), "-o", str(folder / f"{source.stem}.o")])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as failed:
        raise CompilationFailed(f"{command[0]} can't be run: {failed}") from None
    if done.returncode:
        message = done.stderr.strip() or "it said nothing"
        raise CompilationFailed(f"{command[0]} ended with status {done.returncode}: {message}")
