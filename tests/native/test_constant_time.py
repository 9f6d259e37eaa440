"""What the native kernel executes and touches: with secret exponents it depends on lengths alone. No clock is asked.

The library is compiled so that every block that is executed and every address that is read or written goes into a hash
(`trace.c`). Equal hashes of different secrets are what "constant time" means here; the processor's own multiplications
are taken to be so.
"""

import ctypes
import random
import subprocess
from ctypes import POINTER, byref, c_char_p, c_int, c_uint64
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from vfl.arrays import IntArray
from vfl.crypto.native.build import FLAGS, SOURCES, CompilationFailed, build, find_compiler
from vfl.crypto.native.library import Modulus, NativeTask, open_library

TRACING = ("-fsanitize=thread", "-fsanitize-coverage=trace-pc")
REPLACED = "-Wl,--wrap=memcpy,--wrap=memset,--wrap=aligned_alloc,--wrap=free"
BITS = 512
WIDTH = 2 * BITS // 8


class Trace(NamedTuple):
    """Hashes: of the blocks that were executed, and of the addresses that they read and wrote."""

    blocks: int
    accesses: int


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("traced")
    tracer = folder / "trace.o"
    try:
        compiler = find_compiler()
    except CompilationFailed as failed:
        pytest.skip(str(failed))
    source = Path(__file__).with_name("trace.c")
    compiled = [*compiler, *FLAGS, "-I", str(SOURCES), "-c", str(source), "-o", str(tracer)]
    subprocess.run(compiled, check=True, timeout=60)
    try:
        path = build(folder / "traced.so", [*FLAGS, *TRACING], [str(tracer), "-fno-sanitize=thread", REPLACED])
    except CompilationFailed as failed:
        pytest.skip(f"This compiler traces nothing: {failed}")
    library = open_library(str(path))
    hashes = POINTER(c_uint64 * 2)
    library.trace_powers.argtypes = (Modulus, c_char_p, c_uint64, c_char_p, c_uint64, c_int, hashes)
    library.trace_product.argtypes = (Modulus, c_char_p, POINTER(NativeTask), hashes)
    library.trace_output.restype = POINTER(ctypes.c_ubyte * WIDTH)
    return library


@pytest.fixture(params=[1, 8], ids=["limbs", "lanes"])
def lanes(request: pytest.FixtureRequest, traced: ctypes.CDLL) -> int:
    if request.param > traced.plumbline_lanes():
        pytest.skip("This processor has no AVX512-IFMA.")
    return int(request.param)


def odd(seed: int) -> int:
    return seeded(seed).getrandbits(BITS) | 1 | 1 << (BITS - 1)


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def residues(modulus: int, count: int, seed: int) -> bytes:
    drawn = seeded(seed)
    return b"".join(drawn.randrange(modulus).to_bytes(WIDTH, "little") for _ in range(count))


def modulus_of(root: int, lanes: int) -> Modulus:
    return Modulus(lanes, 2, BITS, WIDTH, root.to_bytes(BITS // 8, "little"))


def trace_powers(traced: ctypes.CDLL, lanes: int, exponent: int, *, secret: bool, seed: int = 1) -> Trace:
    """The trace of three powers modulo the square of a number that follows from the seed, as the bases do."""
    root, hashes = odd(seed), (c_uint64 * 2)()
    bases = residues(root**2, 3, seed)
    data = exponent.to_bytes((exponent.bit_length() + 7) // 8, "little")
    modulus = modulus_of(root, lanes)
    assert traced.trace_powers(modulus, bases, 3, data, exponent.bit_length(), secret, byref(hashes)) == 0
    # Were nothing computed, all traces would be equal.
    expected = pow(int.from_bytes(bases[:WIDTH], "little"), exponent, root**2)
    assert bytes(traced.trace_output().contents) == expected.to_bytes(WIDTH, "little")
    return Trace(*hashes)


TOP = 1 << 255
# Of one length: sparse, dense, random.
EXPONENTS = (TOP, 2 * TOP - 1, TOP | seeded(2).getrandbits(255), TOP | seeded(3).getrandbits(255))


def test_secret_exponents_leave_one_trace(traced: ctypes.CDLL, lanes: int) -> None:
    traces = {trace_powers(traced, lanes, exponent, secret=True) for exponent in EXPONENTS}
    assert len(traces) == 1


def test_secret_moduli_and_bases_leave_one_trace(traced: ctypes.CDLL, lanes: int) -> None:
    traces = {trace_powers(traced, lanes, EXPONENTS[2], secret=True, seed=seed) for seed in range(5)}
    assert len(traces) == 1


def test_the_length_of_a_secret_shows(traced: ctypes.CDLL, lanes: int) -> None:
    assert trace_powers(traced, lanes, TOP, secret=True) != trace_powers(traced, lanes, TOP << 8, secret=True)


def test_public_exponents_leave_their_own_traces(traced: ctypes.CDLL, lanes: int) -> None:
    """The tracer sees a leak where there is one: a public exponent's digits are addresses in a table."""
    traces = [trace_powers(traced, lanes, exponent, secret=False) for exponent in EXPONENTS]
    assert traces == [trace_powers(traced, lanes, exponent, secret=False) for exponent in EXPONENTS]
    assert len({trace.accesses for trace in traces}) == len(EXPONENTS)


def test_products_execute_the_same_and_look_up_what_they_are_told(traced: ctypes.CDLL, lanes: int) -> None:
    """Entries, zeros included, change no step of a product; where it reads in its tables they do (documented)."""
    rows, columns = 12, 5
    drawn, root, hashes = np.random.default_rng(5), odd(9), (c_uint64 * 2)()
    # Everything stays in its place, for addresses are part of the trace: only the entries are written anew.
    entries = np.zeros((rows, columns), dtype=np.int64)
    arrays = [entries, np.full(columns, 6), np.arange(columns) * 10, np.zeros_like(entries[0]), np.full(columns, -1)]
    task = NativeTask(1, rows, columns, 1, 5, 0, *(array.ctypes.data for array in arrays), b"")
    data = residues(root**2, rows, 4)

    def trace(values: IntArray) -> Trace:
        entries[:] = values
        assert traced.trace_product(modulus_of(root, lanes), data, byref(task), byref(hashes)) == 0
        return Trace(*hashes)

    several = [np.zeros_like(entries), *(drawn.integers(0, 64, (rows, columns)) for _ in range(3))]
    traces = [trace(values) for values in several]
    assert traces == [trace(values) for values in several]
    assert len({one.blocks for one in traces}) == 1
    assert len({one.accesses for one in traces}) == len(several)
