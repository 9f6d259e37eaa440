"""The native kernel under AddressSanitizer and UndefinedBehaviorSanitizer: its own tests, and what it leaves behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vfl.crypto.native.build import CompilationFailed, build, find_compiler

ROOT = Path(__file__).parents[2]
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
FLAGS = ("-std=c11", "-O1", "-g", "-fPIC", *SANITIZERS)
# Python keeps memory until it ends, which isn't a leak of ours: what the kernel keeps is counted below.
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which Python finds the sanitizers, and the library that needs them."""
    target = tmp_path_factory.mktemp("sanitized") / "sanitized.so"
    try:
        preload = [_runtime("libasan.so"), _runtime("libubsan.so")]
        faults = target.with_name("faults.o")
        source = Path(__file__).with_name("faults.c")
        compiled = [*find_compiler(), *FLAGS, "-c", str(source), "-o", str(faults)]
        subprocess.run(compiled, check=True, capture_output=True, timeout=60)
        build(target, FLAGS, [str(faults), "-Wl,--wrap=aligned_alloc,--wrap=malloc,--wrap=free"])
    except (CompilationFailed, subprocess.CalledProcessError) as failed:
        pytest.skip(f"No sanitizers here: {failed}")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    variables = {"LD_PRELOAD": " ".join(preload), "PYTHONPATH": str(ROOT)}
    return kept | OPTIONS | variables | {"PLUMBLINE_TEST_LIBRARY": str(target)}


def _runtime(name: str) -> str:
    """The sanitizer's library, which must be loaded before anything else. Raises CompilationFailed."""
    asked = [*find_compiler(), f"-print-file-name={name}"]
    path = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False).stdout.strip()
    if not Path(path).is_absolute():
        raise CompilationFailed(f"the compiler has no {name}")
    return path


def run(sanitized: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, env=sanitized, capture_output=True, text=True, timeout=250, check=False)


def test_the_tests_of_the_kernel_pass_sanitized(sanitized: dict[str, str]) -> None:
    tests = ("test_native.py", "test_native_inputs.py")
    plugins = ("-p", "tests.harness.other_library", "-p", "no:cacheprovider")
    # Its memory is limited by what the sanitizer needs a great deal of.
    chosen = ("-k", "not without_memory")
    done = run(
        sanitized, "-m", "pytest", "-q", *chosen, *plugins, *(f"tests/unit/vfl/crypto/kernels/{name}" for name in tests)
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "passed" in done.stdout


OVERFLOW = """
import ctypes, os
from vfl.crypto.native.library import Modulus, open_library
library = open_library(os.environ["PLUMBLINE_TEST_LIBRARY"])
root = (1 << 511 | 1).to_bytes(64, "little")
small = ctypes.create_string_buffer(8)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
room = ctypes.cast(libc.malloc(100), ctypes.c_char_p)
library.plumbline_powers(ctypes.byref(Modulus(1, 2, 512, 128, root)), bytes(128), 1, b"5", 3, 0, room)
"""


def test_the_sanitizer_sees_what_is_written_beyond_its_room(sanitized: dict[str, str]) -> None:
    done = run(sanitized, "-c", OVERFLOW)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


WORK = """
import ctypes, gc, os
import numpy as np
from vfl.crypto.kernels import ProductTask, native
from vfl.crypto.native.library import open_library
library = open_library(os.environ["PLUMBLINE_TEST_LIBRARY"])
native.load = lambda: library
library.blocks_kept.restype = ctypes.c_long
kernel, modulus = native.NativeKernel(LANES), ((1 << 1023) + 1) ** 2
ones = np.ones(4, dtype=np.int64)
task = ProductTask(np.ones((9, 4), dtype=np.int64), ones, ones, np.arange(4), 0 * ones)
works = [
    lambda: kernel.secret_powers([2, 3], 5, modulus),
    lambda: kernel.product([2] * 9, task, modulus),
    lambda: kernel.list_products([2, 3, 5], np.array([0, 2, 1]), np.array([2, 3]), modulus),
    lambda: kernel.fixed_bases([3] * 8, modulus).powers([1, 2]),
]
expected = [work() for work in works]
"""

COUNT = """
gc.collect()
print(library.blocks_kept())
"""

AGAIN = (
    """
for _ in range(20):
    assert [work() for work in works] == expected
"""
    + COUNT
)

SHORT = (
    """
refused = 0
for work, result in zip(works, expected, strict=True):
    for requests in range(1000):
        library.set_requests_left(requests)
        try:
            found = work()
        except MemoryError:
            refused += 1
        else:
            break
        finally:
            library.set_requests_left(-1)
    assert found == result
assert refused > 30
"""
    + COUNT
)


@pytest.mark.parametrize("lanes", [1, None], ids=["limbs", "best"])
@pytest.mark.parametrize("script", [AGAIN, SHORT], ids=["again", "whenever memory runs out"])
def test_the_kernel_gives_all_memory_back(sanitized: dict[str, str], script: str, lanes: int | None) -> None:
    done = run(sanitized, "-c", WORK.replace("LANES", str(lanes)) + script)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout == "0\n"


def test_what_is_kept_is_counted(sanitized: dict[str, str]) -> None:
    """Tables that somebody still has are blocks of the kernel's."""
    done = run(sanitized, "-c", WORK.replace("LANES", "1") + "tables = kernel.fixed_bases([3] * 8, modulus)" + COUNT)
    assert int(done.stdout) > 0
