"""``plumbline bench he``: every variant of one exchange in turns, how it grows, and what more cores gain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from studies.speed.exchange.growth import scaling_table, workers_table
from studies.speed.exchange.other_libraries import COLUMNS as PHE_COLUMNS
from studies.speed.exchange.other_libraries import DECRYPTIONS, ENCRYPTIONS, heu_variants, phe_floats, phe_integers
from studies.speed.exchange.other_libraries import ROWS as PHE_ROWS
from studies.speed.exchange.own_exchange import Counting, OwnVariant, best_layout, seconds_of_product, warmed
from studies.speed.exchange.work import KIND_WORDS, KINDS, ExchangeWork, Phases, make_work, spreads
from studies.speed.machine import kernels_here
from studies.speed.repetition import in_turns, one_core
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent
from vfl.crypto import Engine, PrivateKey, keygen

BASELINE = "phe, integers"
_LETTER = "ours, portable, packing off"


@dataclass(frozen=True)
class ExchangesAsked:
    """What is measured.

    Attributes:
        exchanges: (kind of columns, how many) of every exchange; kinds are those of ``KINDS``.
        batch: rows.
        key_bits: length of the modulus.
        repetitions: in turns.
        workers: cores of the longest curve; 0 for no curve.
        scaling: whether to measure how a product grows.
    """

    exchanges: tuple[tuple[str, int], ...] = (
        ("dense", 392),
        ("dense", 12),
        ("dense", 100),
        ("byte", 100),
        ("one-hot", 100),
    )
    batch: int = 256
    key_bits: int = 2048
    repetitions: int = 3
    workers: int = 0
    scaling: bool = False


def measure_exchanges(asked: ExchangesAsked, progress: Progress = silent) -> Result:
    """Time all variants that are installed. Raises WrongResult where one finds another product than integers do."""
    _, private_key = keygen(asked.key_bits, insecure=asked.key_bits < 2048)
    kernels = kernels_here()
    with one_core():
        engines = {name: warmed(kernel, private_key) for name, kernel in kernels.items()}
        tables = [_exchange(asked, private_key, kind, columns, engines, progress) for kind, columns in asked.exchanges]
        if asked.scaling:
            progress("how a product grows")
            tables.append(scaling_table(private_key, kernels, asked.repetitions))
    if asked.workers:
        progress(f"1 to {asked.workers} workers")
        tables.append(workers_table(private_key, kernels, asked.workers, asked.repetitions))
    return Result("he", _command(asked), tuple(tables))


def parse_exchanges(words: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Read exchanges such as ``one-hot:100``. Raises ValueError for anything else."""
    found = []
    for word in words:
        kind, _, number = word.partition(":")
        if kind not in KINDS or not number.isdecimal() or int(number) < 1:
            raise ValueError(
                f"Expected columns as KIND:NUMBER with KIND {', '.join(KINDS)}, such as one-hot:100, got {word}."
            )
        found.append((kind, int(number)))
    return tuple(found)


def _command(asked: ExchangesAsked) -> str:
    own = asked.exchanges if asked.exchanges != ExchangesAsked.exchanges else ()
    words = [*(f"--columns {kind}:{columns}" for kind, columns in own), *(["--scaling"] if asked.scaling else [])]
    return command_of("he", asked, ("repetitions",), ("batch", "key_bits", "workers"), " ".join(words))


def _exchange(
    asked: ExchangesAsked,
    private_key: PrivateKey,
    kind: str,
    columns: int,
    engines: dict[str, Engine],
    progress: Progress,
) -> ResultTable:
    work = make_work(private_key, asked.batch, columns, KINDS[kind])
    own = {_LETTER: OwnVariant(engines["portable"], None)}
    own |= {f"ours, {name}": OwnVariant(engine, best_layout(work)) for name, engine in engines.items()}
    variants: dict[str, Callable[[], Phases]] = {
        "phe, floats": lambda: phe_floats(work),
        BASELINE: lambda: phe_integers(work),
        **heu_variants(work),
        **{name: lambda variant=variant: variant.run(work) for name, variant in own.items()},  # type: ignore[misc]
    }
    progress(f"{columns} {KIND_WORDS[kind]}")
    runs = in_turns(variants, asked.repetitions)
    found = {name: spreads(phases) for name, phases in runs.items()}
    rows = []
    for name, cells in found.items():
        row: dict[str, Cell] = {"variant": name, **cells}
        row["times"] = found[BASELINE]["total"].median / cells["total"].median
        if name in own:
            row["bytes"] = own[name].ciphertexts(work) * asked.key_bits // 4 / 1e3
            row |= _limit(work, own[name], cells["product"], asked.repetitions)
        rows.append(row)
    return ResultTable(
        f"{kind} {columns}",
        f"{asked.batch} rows x {columns} {KIND_WORDS[kind]}, {asked.key_bits:,} bits: seconds of CPU on one core",
        columns_of(
            variant="variant",
            encrypt="encrypt",
            product="product",
            limit="limit of the product",
            beyond="product / limit",
            mask="mask",
            decrypt="decrypt",
            total="total",
            times="times phe",
            bytes="kB both ways",
        ),
        tuple(rows),
        _notes([*variants]),
    )


def _limit(work: ExchangeWork, variant: OwnVariant, product: Spread, repetitions: int) -> dict[str, Cell]:
    counting = Counting(variant.engine.kernel)
    counted = OwnVariant(Engine(counting), variant.layout)
    counted.product(work, counted.encrypted(work))
    each = seconds_of_product(counting.kernel, work.private_key.public_key.n_squared, repetitions)
    limit = each.scaled(counting.products)
    return {"limit": limit, "beyond": product.median / limit.median}


def _notes(variants: list[str]) -> tuple[str, ...]:
    notes = [
        f"phe and HEU: {ENCRYPTIONS} encryptions, {PHE_ROWS} x {PHE_COLUMNS} products and {DECRYPTIONS} decryptions "
        "are timed and scaled; their mask is one encryption per answer. Ours: timed whole, the mask with a fresh r and "
        "rho**n per answer; tables are built beforehand, once per key.",
        "Limit: the product's modular products, counted, at the measured time of one. A product by an empty "
        "subset of rows is quicker: where most entries are 0, the portable kernel may take less.",
    ]
    if not any(name.startswith("HEU") for name in variants):
        notes.append("HEU: skipped, not installed (pip install --pre sf-heu).")
    return tuple(notes)
