"""How a product grows with its rows, columns and digits, and what more workers gain."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass

from studies.speed.exchange.own_exchange import OwnVariant, best_layout
from studies.speed.exchange.work import ExchangeWork, Phases, make_work, spreads
from studies.speed.machine import cores_of
from studies.speed.repetition import doubled, in_turns
from studies.speed.result import Cell, ResultTable, Spread, columns_of
from vfl.crypto import Engine, PrivateKey
from vfl.crypto.kernels import Kernel
from vfl.crypto.widths import EntryFormat

# (rows, columns, digits) from which one is varied at a time.
_FROM = {"rows": 64, "columns": 32, "digits": 1}
_AT = {"rows": 128, "columns": 128, "digits": 8}
_FACTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class _Size:
    rows: int
    columns: int
    digits: int

    @property
    def volume(self) -> int:
        return self.rows * self.columns * self.digits

    def work(self, private_key: PrivateKey) -> ExchangeWork:
        return make_work(private_key, self.rows, self.columns, EntryFormat((1 << self.digits) - 1))


# Of which more workers take a share: as wide as half of MNIST.
_WIDE = _Size(256, 392, 16)


def scaling_table(private_key: PrivateKey, kernels: dict[str, Kernel], repetitions: int) -> ResultTable:
    """Measure products over a 16-fold range of rows, columns and digits, one kernel after the other."""
    rows = [row for name, kernel in kernels.items() for row in _grown(private_key, name, kernel, repetitions)]
    return ResultTable(
        "scaling",
        f"How a product grows, {private_key.public_key.bits:,} bits, one core",
        columns_of(
            kernel="kernel",
            varied="varied",
            rows="rows",
            columns="columns",
            digits="digits",
            seconds="product, s",
            each="per row, column and digit, us",
            growth="times the first",
        ),
        tuple(rows),
        ("The work of a table of subsets is shared by all columns and digits: the more of them, the less each costs.",),
    )


def _product(private_key: PrivateKey, size: _Size, kernel: Kernel) -> Callable[[], float]:
    """One product of this size: its CPU seconds. Its result is compared with integers."""
    work = size.work(private_key)
    variant = OwnVariant(Engine(kernel), best_layout(work))
    return lambda: variant.run(work).product


def _grown(private_key: PrivateKey, name: str, kernel: Kernel, repetitions: int) -> Iterator[dict[str, Cell]]:
    for varied, least in _FROM.items():
        sizes = {factor: _Size(**{**_AT, varied: least * factor}) for factor in _FACTORS}
        variants = {factor: _product(private_key, size, kernel) for factor, size in sizes.items()}
        found = {factor: Spread.of(runs) for factor, runs in in_turns(variants, repetitions).items()}
        for factor, seconds in found.items():
            each, growth = seconds.median / sizes[factor].volume * 1e6, seconds.median / found[1].median
            row = {"kernel": name, "varied": varied, **asdict(sizes[factor])}
            yield row | {"seconds": seconds, "each": each, "growth": growth}


def workers_table(private_key: PrivateKey, kernels: dict[str, Kernel], most: int, repetitions: int) -> ResultTable:
    """Measure whole exchanges by the clock with 1, 2, 4 ... and so many workers, in turns."""
    rows = [
        row for name, kernel in kernels.items() for row in _shared_out(private_key, name, kernel, most, repetitions)
    ]
    return ResultTable(
        "workers",
        f"{_WIDE.rows} rows x {_WIDE.columns} columns of {_WIDE.digits} digits on several cores, by the clock",
        columns_of(
            kernel="kernel",
            workers="workers",
            product="product, s",
            product_gain="product, times one",
            total="whole exchange, s",
            total_gain="whole, times one",
        ),
        tuple(rows),
        ("Workers are processes for the portable kernel, threads for the native one, and are there before the clock.",),
    )


def _shared_out(
    private_key: PrivateKey, name: str, kernel: Kernel, most: int, repetitions: int
) -> Iterator[dict[str, Cell]]:
    work = _WIDE.work(private_key)
    layout = best_layout(work)
    with ExitStack() as stack:
        variants = dict[int, Callable[[], Phases]]()
        for count in doubled(most):
            cores = stack.enter_context(closing(cores_of(kernel, count)))
            variant = OwnVariant(Engine(kernel, cores), layout, time.perf_counter)
            variant.run(work)  # starts the workers
            variants[count] = lambda variant=variant: variant.run(work)  # type: ignore[misc]
        found = {count: spreads(runs) for count, runs in in_turns(variants, repetitions).items()}
    for count, cells in found.items():
        row: dict[str, Cell] = {"kernel": name, "workers": count}
        for phase in ("product", "total"):
            row |= {phase: cells[phase], f"{phase}_gain": found[1][phase].median / cells[phase].median}
        yield row
