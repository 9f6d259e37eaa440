"""What the native kernel refuses before C sees it: a sentence, never a crash."""

import subprocess
import sys
from dataclasses import replace

import gmpy2
import numpy as np
import pytest

from vfl.crypto.kernels import ProductTask
from vfl.crypto.kernels.native import NativeKernel

MODULUS = ((1 << 127) + 29) ** 2
CIPHERTEXTS = [2, 3, 5]
TASK = ProductTask(
    entries=np.array([[1, 200, 3], [0, 0, 0], [1, 255, 7]]),
    digits=np.array([1, 8, 3]),
    offsets=np.array([0, 0, 4]),
    shifts=np.array([0, 1, 0]),
    answers=np.array([0, 0, 1]),
)
NOT_THERE = np.iinfo(np.int64)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"entries": np.array([[2, 0, 0]] * 3)}, "within the digits"),
        ({"entries": np.array([[0, 256, 0]] * 3)}, "within the digits"),
        ({"entries": np.array([[-1, 0, 0]] * 3)}, "at least 0"),
        ({"entries": np.array([[NOT_THERE.min, 0, 0]] * 3)}, "at least 0"),
        ({"entries": np.array([[1 << 63, 0, 0]] * 3, dtype=np.uint64)}, r"below 2\*\*63"),
        ({"entries": np.zeros((3, 3))}, "integers"),
        ({"entries": np.zeros((3, 3), dtype=object)}, "integers"),
        ({"entries": np.zeros((2, 3), dtype=np.int64)}, "shape"),
        ({"entries": np.zeros((3, 4), dtype=np.int64)}, "shape"),
        ({"entries": np.zeros((6, 3), dtype=np.int64)}, "shape"),
        ({"entries": np.zeros(9, dtype=np.int64)}, "2 dimensions"),
        ({"entries": [[0, 0, 0]] * 3}, "integers"),
        ({"digits": np.array([0, 8, 3])}, "1 to 63 digits"),
        ({"digits": np.array([1, 64, 3])}, "1 to 63 digits"),
        ({"digits": np.array([1, -8, 3])}, "1 to 63 digits"),
        ({"digits": np.array([1, 8])}, "shape"),
        ({"digits": np.array([1.0, 8.0, 3.0])}, "integers"),
        ({"offsets": np.array([0, 0, -4])}, "offsets of at least 0"),
        ({"offsets": np.array([0])}, "for every column"),
        ({"shifts": np.array([0, 0, 0])}, "overlap"),
        ({"shifts": np.array([9, 0, 0])}, "overlap"),
        ({"shifts": np.array([-1, 1, 0])}, "shifts of 0"),
        ({"shifts": np.array([0, NOT_THERE.max, 0])}, "shifts of 0"),
        ({"answers": np.array([1, 1, 2])}, "without gaps"),
        ({"answers": np.array([0, 0, 2])}, "without gaps"),
        ({"answers": np.array([0, 1, 0])}, "without gaps"),
        ({"answers": np.array([0, 0, NOT_THERE.max])}, "without gaps"),
        ({"answers": np.array([NOT_THERE.min, 0, 1])}, "without gaps"),
    ],
)
def test_tasks_that_contradict_themselves(native_kernel: NativeKernel, change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        native_kernel.product(CIPHERTEXTS, replace(TASK, **change), MODULUS)  # type: ignore[arg-type]


@pytest.mark.parametrize("modulus", [0, -15, 4, (1 << 16_384) + 1], ids=["zero", "negative", "even", "long"])
def test_moduli_that_are_even_or_too_long(native_kernel: NativeKernel, modulus: int) -> None:
    with pytest.raises(ValueError, match="odd modulus"):
        native_kernel.powers([2], 3, modulus)
    with pytest.raises(ValueError, match="odd modulus"):
        native_kernel.fixed_bases([2], modulus)


def test_exponents_out_of_range(native_kernel: NativeKernel) -> None:
    with pytest.raises(ValueError, match="not negative"):
        native_kernel.secret_powers([2], -1, 15)
    with pytest.raises(ValueError, match="1 to 2048 bases"):
        native_kernel.fixed_bases([], 15)
    tables = native_kernel.fixed_bases([2, 7], 15)
    for exponent in (-1, 1 << 16):
        with pytest.raises(ValueError, match="at most 2 bytes"):
            tables.powers([1, exponent])


def test_views_and_narrow_integers_are_read_as_they_are(native_kernel: NativeKernel) -> None:
    expected = native_kernel.product(CIPHERTEXTS, TASK, MODULUS)
    wide = np.repeat(TASK.entries, 2, axis=1)[:, ::2]
    assert not wide.flags.c_contiguous
    assert native_kernel.product(CIPHERTEXTS, replace(TASK, entries=wide), MODULUS) == expected
    narrow = replace(TASK, entries=TASK.entries.astype(np.uint8), digits=TASK.digits.astype(np.int8))
    assert native_kernel.product(CIPHERTEXTS, narrow, MODULUS) == expected
    swapped = replace(TASK, shifts=TASK.shifts.astype(">i8"), entries=np.asfortranarray(TASK.entries))
    assert native_kernel.product([gmpy2.mpz(c) for c in CIPHERTEXTS], swapped, MODULUS) == expected


def test_nothing_to_do(native_kernel: NativeKernel) -> None:
    none = np.zeros(0, dtype=np.int64)
    assert native_kernel.product(CIPHERTEXTS, ProductTask(np.zeros((3, 0), int), none, none, none, none), MODULUS) == []
    assert native_kernel.product([], replace(TASK, entries=TASK.entries[:0]), MODULUS) == [1, 1]
    assert native_kernel.powers([], 3, MODULUS) == []
    assert native_kernel.fixed_bases([3], MODULUS).powers([]) == []


def test_modulo_one_everything_is_zero(native_kernel: NativeKernel) -> None:
    assert native_kernel.product(CIPHERTEXTS, TASK, 1) == [0, 0]
    assert native_kernel.powers([7], 3, 1) == [0]
    assert native_kernel.fixed_bases([7], 1).powers([0, 1]) == [0, 0]


def test_lanes_that_do_not_exist(native_kernel: NativeKernel) -> None:
    with pytest.raises(ValueError, match="leave lanes out"):
        NativeKernel(4)  # type: ignore[arg-type]


def test_a_task_goes_in_parts_where_its_sums_are_large(
    native_kernel: NativeKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = native_kernel.product(CIPHERTEXTS, TASK, MODULUS)
    monkeypatch.setattr("vfl.crypto.kernels.native._SUM_BYTES", 1)
    assert native_kernel.product(CIPHERTEXTS, TASK, MODULUS) == whole
    assert native_kernel.product(CIPHERTEXTS * 3, TASK, MODULUS) == whole * 3


SHORT_OF_MEMORY = """
import resource
from vfl.crypto.kernels.native import NativeKernel
kernel = NativeKernel({lanes})
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (32 << 20),) * 2)
try:
    kernel.fixed_bases([3] * 256, ((1 << 2047) + 1) ** 2)
except MemoryError as error:
    print(error)
print(kernel.powers([2], 10, 1025))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are Linux's here")
def test_without_memory_it_says_so_and_goes_on(native_kernel: NativeKernel) -> None:
    script = SHORT_OF_MEMORY.format(lanes=native_kernel.lanes)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [
        "There is not enough memory for the cryptography of this batch: use smaller batches.",
        "[1024]",
    ]


TABLES_AT_THE_END = """
import atexit
atexit.register(lambda: print(tables.powers([5])))  # what is registered first is called last
from vfl.crypto.kernels.native import NativeKernel
tables = NativeKernel({lanes}).fixed_bases([3], 1025)
"""


def test_tables_serve_as_long_as_the_process_has_threads(native_kernel: NativeKernel) -> None:
    """A daemon thread that draws obfuscators ahead outlives the interpreter's last handlers."""
    script = TABLES_AT_THE_END.format(lanes=native_kernel.lanes)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[243]\n")


@pytest.mark.parametrize(
    ("order", "ends", "words"),
    [
        ([0, 3], [2], "that there are"),
        ([-1, 0], [2], "that there are"),
        ([0, 1], [3], "one after the other"),
        ([0, 1], [2, 1], "one after the other"),
        ([0, 1], [-1, 2], "one after the other"),
        ([0.0, 1.0], [2], "integers"),
    ],
)
def test_lists_that_do_not_fit_their_numbers(
    native_kernel: NativeKernel, order: list[float], ends: list[int], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        native_kernel.list_products(CIPHERTEXTS, np.array(order), np.array(ends), MODULUS)
