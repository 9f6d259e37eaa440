"""``plumbline bench shared``: one direction of a step on shared weights, beside Protocol 1 on the same numbers."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from studies.speed.exchange.own_exchange import OwnVariant, best_layout, warmed
from studies.speed.exchange.work import KINDS, ExchangeWork, Phases, make_work, spreads
from studies.speed.machine import kernels_here
from studies.speed.repetition import in_turns, one_core, require_equal, timed
from studies.speed.result import Cell, Progress, Result, ResultTable, columns_of, command_of, silent
from vfl.crypto import Engine, PrivateKey, keygen
from vfl.crypto.sharing.masked_products import kept, mask, multiply, pack_blocks, pack_rows
from vfl.crypto.sharing.share_formats import ShareFormats, SlotLayout
from vfl.crypto.sharing.shares import Integers

# Of a long training: so many numbers are lifted.
_LIFTS = 10_000_000


@dataclass(frozen=True)
class SharingAsked:
    """What is measured.

    Attributes:
        columns: of every exchange, dense ones of 16 bits.
        batch: rows.
        key_bits: length of the modulus.
        repetitions: in turns.
    """

    columns: tuple[int, ...] = (12, 100)
    batch: int = 256
    key_bits: int = 2048
    repetitions: int = 3

    def with_columns(self, columns: Sequence[int] | None) -> Self:
        """The same with other columns, if any are given."""
        return replace(self, columns=tuple(columns)) if columns else self


def measure_sharing(asked: SharingAsked, progress: Progress = silent) -> Result:
    """Time both protocols with every kernel. Raises WrongResult where one finds another product than integers do."""
    _, private_key = keygen(asked.key_bits, insecure=asked.key_bits < 2048)
    with one_core():
        engines = {name: warmed(kernel, private_key) for name, kernel in kernels_here().items()}
        tables = []
        for columns in asked.columns:
            progress(f"{columns} columns")
            tables.append(_exchange(asked, private_key, columns, engines))
    own = asked.columns if asked.columns != SharingAsked.columns else ()
    words = " ".join(f"--columns {columns}" for columns in own)
    return Result("shared", command_of("shared", asked, ("repetitions",), ("batch", "key_bits"), words), tuple(tables))


class SharedStep:
    """One party's features, encrypted once under its key, and the peer's shares that multiply them in a step."""

    def __init__(self, work: ExchangeWork, engine: Engine) -> None:
        """Encrypt the features, in whole blocks for products with weights and row by row for those with residuals."""
        self._work, self._engine = work, engine
        rows, columns = work.matrix.shape
        bits = work.entries.bound.bit_length() - 1
        key_bits = work.private_key.public_key.bits
        self.formats = ShareFormats(
            key_bits, rows, columns, 1, 1, _LIFTS, feature_fraction_bits=bits, features_signed=True
        )
        self._forward, self._backward = self.formats.forward, self.formats.backward
        X: Integers = work.matrix.astype(object)
        blocks = [X[start : start + self._forward.count] for start in range(0, rows, self._forward.count)]
        self._block_sizes = [len(block) for block in blocks]
        starts = range(0, columns, self._backward.count)
        self._fills = [min(self._backward.count, columns - start) for start in starts]
        self._exponents_forward = _uniform(columns, self.formats.ring)
        self._exponents_backward = _uniform(rows, self.formats.residual_bits)
        by_block, by_row = pack_blocks(blocks, self._forward), pack_rows(X, self._backward)
        seconds, ciphertexts = timed(lambda: engine.encrypt(work.private_key, by_block + by_row))
        # The last block of a batch may have few rows, of a session's blocks one has.
        per_row = columns / self._forward.count + len(starts)
        self.begun = {
            "begin": 1e3 * seconds / len(ciphertexts) * per_row,
            "begin_bytes": per_row * key_bits / 4e3,
        }
        self._blocks = [ciphertexts[start : start + columns] for start in range(0, len(by_block), columns)]
        self._rows = [ciphertexts[start : start + rows] for start in range(len(by_block), len(ciphertexts), rows)]

    @property
    def answers(self) -> int:
        """Ciphertexts of a step."""
        return len(self._block_sizes) + len(self._fills)

    def run(self) -> Phases:
        """Compute both products; raises WrongResult for others than the exact ones."""
        X: Integers = self._work.matrix.astype(object)
        ways = (
            (self._blocks, self._exponents_forward, self.formats.ring, self._forward, self._block_sizes, X),
            (self._rows, self._exponents_backward, self.formats.residual_bits, self._backward, self._fills, X.T),
        )
        phases = [self._way(*way) for way in ways]
        product, hide, decrypt = (sum(found) for found in zip(*phases, strict=True))
        return Phases(0.0, product, hide, decrypt)

    def _way(
        self,
        groups: list[list[int]],
        exponents: Integers,
        bits: int,
        layout: SlotLayout,
        sizes: list[int],
        features: Integers,
    ) -> tuple[float, float, float]:
        key, public, engine = self._work.private_key, self._work.private_key.public_key, self._engine
        product, answers = timed(lambda: multiply(groups, exponents, bits, public, engine))
        hide, masked = timed(lambda: mask(answers, layout, sizes, public, engine, secrets.randbelow))
        decrypt, residues = timed(lambda: kept(masked.ciphertexts, layout, sizes, key, engine))
        missed = (residues + masked.residues - features @ exponents) % (1 << layout.bits)
        # A slot may carry 1 into the next.
        require_equal("shared weights", [not 0 <= miss <= 1 for miss in missed.ravel()], [False] * missed.size)
        return product, hide, decrypt


def _uniform(count: int, bits: int) -> Integers:
    """(count, 1) uniform exponents, as shares are."""
    return np.array([[secrets.randbits(bits)] for _ in range(count)], dtype=np.object_)


def _exchange(asked: SharingAsked, private_key: PrivateKey, columns: int, engines: dict[str, Engine]) -> ResultTable:
    work = make_work(private_key, asked.batch, columns, KINDS["dense"])
    layout = best_layout(work)
    hu = {name: OwnVariant(engine, layout) for name, engine in engines.items()}
    shared = {name: SharedStep(work, engine) for name, engine in engines.items()}
    variants: dict[tuple[str, str], Callable[[], Phases]] = {}
    for name in engines:
        variants["hu", name] = lambda variant=hu[name]: variant.run(work)  # type: ignore[misc]
        variants["shared", name] = shared[name].run
    found = {name: spreads(runs) for name, runs in in_turns(variants, asked.repetitions).items()}
    rows = list[dict[str, Cell]]()
    for (protocol, name), cells in found.items():
        plain, step = hu[name].ciphertexts(work), shared[name]
        sent = plain if protocol == "hu" else step.answers
        rows.append(
            {
                "protocol": protocol,
                "kernel": name,
                **{phase: spread.scaled(1e3) for phase, spread in cells.items()},
                "times": cells["total"].median / found["hu", name]["total"].median,
                "bytes": sent * asked.key_bits / 4e3,
                "bytes_times": sent / plain,
                **(step.begun if protocol == "shared" else {}),
            }
        )
    return ResultTable(
        str(columns),
        f"{asked.batch} rows x {columns} dense 16-bit columns, {asked.key_bits:,} bits: ms of CPU on one core",
        columns_of(
            protocol="protocol",
            kernel="kernel",
            encrypt="encrypt",
            product="products",
            mask="mask",
            decrypt="decrypt",
            total="total",
            times="times hu",
            bytes="kB of ciphertexts",
            bytes_times="times hu's",
            begin="once: ms a row",
            begin_bytes="once: kB a row",
        ),
        tuple(rows),
        (
            "hu: one direction of Protocol 1 in the layout of the fewest products. shared: products of one party's "
            "features with weights and with residuals. Tables of both parties' keys are built beforehand, once per "
            "session. Once: features encrypted when a session begins.",
        ),
    )
