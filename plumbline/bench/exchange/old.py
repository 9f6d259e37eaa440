"""Speed of one encrypted exchange of training: ours against `phe` and HEU, in the same run.

The key holder encrypts a residual of `batch` 40-bit integers, the other party multiplies it by a dense matrix of
signed 16-bit integers and masks the result, the key holder decrypts. Times are seconds of process CPU on one pinned
core, the median of interleaved repetitions. Every result is compared with the same product in integers.

`phe` and HEU are too slow to run whole: they are timed on the subsets below and scaled by the number of operations.
"""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from vfl.arrays import IntArray
from vfl.crypto import (
    FixedPoint,
    PackingLayout,
    PrivateKey,
    choose_layout,
    decrypt_integers,
    encrypt_vector,
    keygen,
    mask_vector,
    matvec,
    unmask,
)

T = TypeVar("T")

RESIDUAL = FixedPoint(fraction_bits=0, integer_bits=39)
FEATURES = FixedPoint(fraction_bits=0, integer_bits=15)
BASELINE = "phe, 16-bit integers"
OURS_PACKED = "ours, packing on"

_PEER_ENCRYPTIONS = 6
_PEER_ROWS, _PEER_COLUMNS = 64, 2
_PEER_DECRYPTIONS = 6


@dataclass(frozen=True)
class Phases:
    """Seconds of CPU per phase, of one exchange or of one operation of each kind."""

    encrypt: float
    product: float
    mask: float
    decrypt: float

    @property
    def total(self) -> float:
        """Seconds of all phases."""
        return self.encrypt + self.product + self.mask + self.decrypt


@dataclass(frozen=True)
class Result:
    """One row of the table.

    Attributes:
        features: columns of the matrix.
        variant: library and options.
        phases: seconds of one exchange.
        times_phe: how many times faster than `phe` with integers.
        ciphertext_bytes: both ways.
    """

    features: int
    variant: str
    phases: Phases
    times_phe: float
    ciphertext_bytes: int


@dataclass(frozen=True)
class Workload:
    """One exchange that every variant must compute.

    Attributes:
        private_key: of the key holder.
        residual: (s,) integers.
        matrix: (s, d) integers.
    """

    private_key: PrivateKey
    residual: IntArray
    matrix: IntArray

    @property
    def expected(self) -> list[int]:
        """The product that every variant must find."""
        return [int(v) for v in self.matrix.astype(object).T @ self.residual.astype(object)]


def run(
    features: Sequence[int] = (392, 12), batch: int = 256, key_bits: int = 2048, repetitions: int = 3
) -> list[Result]:
    """Time all variants that are installed.

    Args:
        features: columns of the matrix; each number is an exchange of its own.
        batch: rows.
        key_bits: length of the modulus.
        repetitions: of which the median is taken.

    Raises:
        ArithmeticError: if any variant finds another product than integer arithmetic.
    """
    with _one_core():
        _, private_key = keygen(key_bits, insecure=key_bits < 2048)
        private_key.raw_encrypt(0)  # builds the owner's tables: once per key, not once per exchange
        rng = np.random.default_rng(7)
        results = []
        for columns in features:
            workload = Workload(
                private_key,
                residual=rng.integers(-(2**39) + 1, 2**39, size=batch),
                matrix=rng.integers(-(2**15), 2**15, size=(batch, columns)),
            )
            results += _compare(workload, repetitions)
    return results


def print_table(results: Sequence[Result], console: Console | None = None) -> None:
    """Print a table per number of features, and what its figures mean."""
    console = console or Console()
    for columns in dict.fromkeys(result.features for result in results):
        table = Table(title=f"d = {columns}: seconds of CPU on one core")
        table.add_column("variant")
        for heading in ("encrypt", "matrix product", "mask", "decrypt", "total", "times phe", "kB"):
            table.add_column(heading, justify="right")
        for result in results:
            if result.features == columns:
                phases = result.phases
                seconds = (phases.encrypt, phases.product, phases.mask, phases.decrypt, phases.total)
                table.add_row(
                    result.variant,
                    *(f"{value:.3f}" for value in seconds),
                    f"{result.times_phe:.1f}",
                    f"{result.ciphertext_bytes / 1000:.0f}",
                )
        console.print(table)
    console.print(
        f"phe and HEU: timed on {_PEER_ENCRYPTIONS} encryptions, {_PEER_ROWS} x {_PEER_COLUMNS} products and "
        f"{_PEER_DECRYPTIONS} decryptions, and scaled; their mask is one encryption per answer. Ours: timed whole, "
        "mask with a fresh r and rho**n per answer; the owner's tables are built beforehand, once per key. kB: "
        "ciphertexts both ways."
    )
    if not any(result.variant.startswith("HEU") for result in results):
        console.print("HEU: skipped, not installed (pip install --pre sf-heu).")


def _compare(workload: Workload, repetitions: int) -> list[Result]:
    rows, columns = workload.matrix.shape
    key_bits = workload.private_key.public_key.bits
    layout = choose_layout(
        batch_size=rows,
        features=columns,
        classes=1,
        residual_format=RESIDUAL,
        feature_format=FEATURES,
        key_bits=key_bits,
    )
    variants: dict[str, Callable[[], Phases]] = {
        "phe, floats": lambda: _phe(workload, _phe_floats),
        BASELINE: lambda: _phe(workload, _phe_integers),
        **_heu_variants(workload),
        "ours, packing off": lambda: _ours(workload, None),
        OURS_PACKED: lambda: _ours(workload, layout),
    }
    timings: dict[str, list[Phases]] = {name: [] for name in variants}
    for _ in range(repetitions):
        for name, measure in variants.items():
            timings[name].append(measure())
    medians = {name: _median(runs) for name, runs in timings.items()}
    naive, packed = rows + columns, layout.ciphertexts_for(rows) + layout.answers_for(columns)
    return [
        Result(
            features=columns,
            variant=name,
            phases=phases,
            times_phe=medians[BASELINE].total / phases.total,
            ciphertext_bytes=(packed if name == OURS_PACKED else naive) * key_bits // 4,
        )
        for name, phases in medians.items()
    ]


def _ours(workload: Workload, layout: PackingLayout | None) -> Phases:
    key = workload.private_key
    encrypt, c = _timed(lambda: encrypt_vector(key, workload.residual, layout=layout, fixed_point=RESIDUAL))
    product, answer = _timed(lambda: matvec(workload.matrix, c, features=FEATURES))
    hide, (masked, mask) = _timed(lambda: mask_vector(answer))
    decrypt, residues = _timed(lambda: decrypt_integers(key, masked))
    reveal, values = _timed(lambda: unmask(mask, residues))
    n = key.public_key.n
    bare = [(residue - summand) % n for residue, summand in zip(residues, mask.summands, strict=True)]
    signed = [value - n if value > n // 2 else value for value in bare]
    found = signed if layout is None else layout.unpack_product(signed, len(workload.expected))
    _require_equal(found, workload.expected)
    _require_equal(values.tolist(), [float(v) for v in workload.expected])
    if layout is None:
        public_key, private_key = _phe_keys(key)
        for index in range(_PEER_COLUMNS):
            number = _phe_number(public_key, answer.ciphertexts[index])
            _require_equal([private_key.decrypt(number)], workload.expected[index : index + 1])
    return Phases(encrypt, product, hide, decrypt + reveal)


def _phe(workload: Workload, product: Callable[[Workload], tuple[float, list[Any]]]) -> Phases:
    """`phe`, scaled from one operation of each kind."""
    public_key, private_key = _phe_keys(workload.private_key)
    values = (workload.residual[:_PEER_ENCRYPTIONS] / 2.0**32).tolist()
    encrypt, _ = _timed(lambda: [public_key.encrypt(value) for value in values])
    multiply, answers = product(workload)
    answers *= -(-_PEER_DECRYPTIONS // len(answers))
    decrypt, _ = _timed(lambda: [private_key.decrypt(answer) for answer in answers[:_PEER_DECRYPTIONS]])
    return _scaled(workload, encrypt / len(values), multiply, decrypt / _PEER_DECRYPTIONS)


def _phe_integers(workload: Workload) -> tuple[float, list[Any]]:
    """Seconds per pair, and the encrypted products of the subset, which must be exact."""
    public_key, private_key = _phe_keys(workload.private_key)
    c = encrypt_vector(workload.private_key, workload.residual[:_PEER_ROWS], fixed_point=RESIDUAL)
    matrix = workload.matrix[:_PEER_ROWS, :_PEER_COLUMNS]
    numbers = [_phe_number(public_key, ciphertext) for ciphertext in c.ciphertexts]
    seconds, answers = _timed(lambda: _phe_product(numbers, matrix))
    expected = matrix.astype(object).T @ workload.residual[:_PEER_ROWS].astype(object)
    _require_equal([private_key.decrypt(answer) for answer in answers], [int(v) for v in expected])
    return seconds / matrix.size, answers


def _phe_floats(workload: Workload) -> tuple[float, list[Any]]:
    """Seconds per pair as most people use `phe`: float64 features at their full precision."""
    public_key, _ = _phe_keys(workload.private_key)
    rng = np.random.default_rng(11)
    rows = _PEER_ROWS // 2
    numbers = [public_key.encrypt(value) for value in rng.normal(size=rows).tolist()]
    matrix = rng.normal(size=(rows, _PEER_COLUMNS))
    seconds, answers = _timed(lambda: _phe_product(numbers, matrix))
    return seconds / matrix.size, answers


def _phe_product(numbers: list[Any], matrix: npt.NDArray[Any]) -> list[Any]:
    answers = []
    for column in matrix.T.tolist():
        answer = numbers[0] * column[0]
        for number, x in zip(numbers[1:], column[1:], strict=True):
            answer = answer + number * x
        answers.append(answer)
    return answers


def _phe_keys(private_key: PrivateKey) -> tuple[Any, Any]:
    import phe

    public_key = phe.PaillierPublicKey(private_key.public_key.n)
    return public_key, phe.PaillierPrivateKey(public_key, private_key.p, private_key.q)


def _phe_number(public_key: Any, ciphertext: int) -> Any:
    import phe

    return phe.EncryptedNumber(public_key, ciphertext, 0)


def _heu_variants(workload: Workload) -> dict[str, Callable[[], Phases]]:
    """HEU's fastest Paillier with its own key, or nothing where it is not installed."""
    try:
        from heu import numpy as heu_numpy
    except ImportError:
        return {}
    kit = heu_numpy.setup("zpaillier", workload.private_key.public_key.bits)
    return {
        "HEU zpaillier, signed": lambda: _heu(workload, heu_numpy, kit, shift=0),
        "HEU zpaillier, shifted to be positive": lambda: _heu(workload, heu_numpy, kit, shift=FEATURES.bound),
    }


def _heu(workload: Workload, heu_numpy: Any, kit: Any, shift: int) -> Phases:
    """HEU, scaled from one operation of each kind; the correction for the shift is left out, in its favour."""
    encoder = kit.bigint_encoder()
    residual = workload.residual[:_PEER_ROWS]
    matrix = workload.matrix[:_PEER_ROWS, :_PEER_COLUMNS] + shift
    plain_residual = heu_numpy.array(residual.reshape(-1, 1), encoder)
    plain_matrix = heu_numpy.array(np.ascontiguousarray(matrix.T), encoder)
    encrypt, c = _timed(lambda: kit.encryptor().encrypt(plain_residual))
    multiply, answers = _timed(lambda: kit.evaluator().matmul(plain_matrix, c))
    decrypt, plain = _timed(lambda: kit.decryptor().decrypt(answers))
    expected = matrix.astype(object).T @ residual.astype(object)
    _require_equal([int(v) for v in plain.to_numpy(encoder).ravel()], [int(v) for v in expected])
    return _scaled(workload, encrypt / _PEER_ROWS, multiply / matrix.size, decrypt / _PEER_COLUMNS)


def _scaled(workload: Workload, encryption: float, pair: float, decryption: float) -> Phases:
    """One exchange from the seconds of single operations; a mask is an encryption, as it is with these libraries."""
    rows, columns = workload.matrix.shape
    return Phases(rows * encryption, rows * columns * pair, columns * encryption, columns * decryption)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def _median(runs: Sequence[Phases]) -> Phases:
    return Phases(
        encrypt=statistics.median(run.encrypt for run in runs),
        product=statistics.median(run.product for run in runs),
        mask=statistics.median(run.mask for run in runs),
        decrypt=statistics.median(run.decrypt for run in runs),
    )


def _require_equal(found: Sequence[float], expected: Sequence[float]) -> None:
    if list(found) != list(expected):
        raise ArithmeticError("A variant found another product than integer arithmetic: its time means nothing.")


@contextmanager
def _one_core() -> Iterator[None]:
    """Pin this process to one of its cores, where the system can, and release it afterwards."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
