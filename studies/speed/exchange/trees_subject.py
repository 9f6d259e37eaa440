"""``plumbline bench trees``: one boosted tree under ciphertexts, what is counted of it, and the same tree in plain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from services.protocols.trees.label_side import LabelSide
from services.protocols.trees.passive_side import PassiveSide
from services.protocols.trees.tree_messages import NodeDivided, SplitChosen, TreeTerms
from studies.speed.exchange.own_exchange import Counting, seconds_of_product, warmed
from studies.speed.machine import kernels_here
from studies.speed.repetition import in_turns, one_core, require_equal, timed
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, command_of, silent
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import Engine, PrivateKey, keygen
from vfl.crypto.kernels import Kernel, best_kernel
from vfl.learning.trees import OwnedColumns, TreeOptions, TreePlan, train_in_plain

T = TypeVar("T")

# Operations that are timed for the time of one.
_OPERATIONS = 256
# Trees that libraries grow, for the time of one.
_TREES = 10
_FACTORS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class TreesAsked:
    """What is measured.

    Attributes:
        rows: of the table.
        columns: of the passive party; the label party has none.
        depth: of the tree.
        bins: of a column.
        key_bits: length of the modulus.
        repetitions: in turns.
        scaling: whether a tree's growth with rows and columns is measured too, with the best kernel.
    """

    rows: int = 41_188
    columns: int = 10
    depth: int = 5
    bins: int = 32
    key_bits: int = 2048
    repetitions: int = 1
    scaling: bool = False

    @property
    def options(self) -> TreeOptions:
        """Of one tree."""
        return TreeOptions(n_estimators=1, max_depth=self.depth, max_bin=self.bins)


@dataclass(frozen=True, eq=False)
class _Work:
    table: FloatArray
    labels: IntArray
    plan: TreePlan
    terms: TreeTerms
    private_key: PrivateKey

    @classmethod
    def made(cls, asked: TreesAsked, private_key: PrivateKey) -> "_Work":
        generator = np.random.default_rng(1)
        table = generator.normal(size=(asked.rows, asked.columns))
        wanted = table @ generator.normal(size=asked.columns) + np.abs(table[:, 0]) + generator.normal(size=asked.rows)
        rows = np.arange(asked.rows)
        plan = TreePlan(asked.options, (0, asked.columns), rows, rows[:0], seed=1)
        terms = TreeTerms(("label party", "passive party"), plan, asked.key_bits)
        return cls(table, (wanted > np.median(wanted)).astype(np.int64), plan, terms, private_key)


@dataclass(frozen=True)
class _Run:
    """One tree: seconds of either side, bytes to the passive party and from it, and what was computed."""

    label: float
    passive: float
    sent: int
    answered: int
    listed: int
    packed: int

    @property
    def total(self) -> float:
        return self.label + self.passive


def measure_trees(asked: TreesAsked, progress: Progress = silent) -> Result:
    """Time a tree with every kernel, and in plain. Raises WrongResult where it isn't the plain one, bit by bit."""
    _, private_key = keygen(asked.key_bits, insecure=asked.key_bits < 2048)
    work = _Work.made(asked, private_key)
    rows = list[dict[str, Cell]]()
    with one_core(), threadpool_limits(1):
        for name, kernel in kernels_here().items():
            progress(f"a tree, {name}")
            rows.append(_encrypted(work, name, kernel, asked.repetitions))
        progress("plain trees")
        plain = _plain_variants(asked, work)
        found = in_turns({name: run for name, run in plain.items() if run}, asked.repetitions)
        grown = _grown(asked, private_key, progress) if asked.scaling else ()
    seconds = {name: Spread.of(runs) for name, runs in found.items()}
    rows += [{"variant": name, "total": seconds.get(name, "not installed")} for name in plain]
    quickest = min(spread.median for spread in seconds.values())
    for row in rows:
        total = row["total"]
        row["price"] = total.median / quickest if isinstance(total, Spread) else None
    size = "".join(f" --{name} {getattr(asked, name)}" for name in ("rows", "columns", "depth", "bins")).strip()
    more = f"{size} --scaling" if asked.scaling else size
    command = command_of("trees", asked, ("repetitions",), ("key_bits",), more)
    return Result("trees", command, (_table(asked, rows), *grown))


def _grown(asked: TreesAsked, private_key: PrivateKey, progress: Progress) -> tuple[ResultTable]:
    """Measure trees over a 16-fold range of rows, and of columns of an eighth of the rows."""
    counting = Counting(best_kernel())
    engine = warmed(counting, private_key)
    rows = list[dict[str, Cell]]()
    for varied in ("rows", "columns"):
        first = None
        for factor in _FACTORS:
            progress(f"{factor} times the {varied}")
            size = (
                replace(asked, rows=asked.rows * factor // _FACTORS[-1])
                if varied == "rows"
                else replace(asked, rows=asked.rows // 8, columns=factor)
            )
            work = _Work.made(size, private_key)
            total = Spread.of([_grow(work, engine, counting).total for _ in range(asked.repetitions)])
            first = first or total.median
            rows.append(
                {
                    "varied": varied,
                    "rows": size.rows,
                    "columns": size.columns,
                    "total": total,
                    "growth": total.median / first,
                }
            )
    table = ResultTable(
        "scaling",
        f"How a tree grows: {asked.bins} bins, depth {asked.depth}, {asked.key_bits:,} bits, {counting.name}, one core",
        columns_of(varied="varied", rows="rows", columns="columns", total="total, s", growth="times the first"),
        tuple(rows),
        ("Encrypting costs the same for any number of columns, and packing for any number of rows.",),
    )
    return (table,)


def _table(asked: TreesAsked, rows: list[dict[str, Cell]]) -> ResultTable:
    return ResultTable(
        "tree",
        f"A tree of {asked.rows:,} rows x {asked.columns} passive columns x {asked.bins} bins, depth {asked.depth}, "
        f"{asked.key_bits:,} bits: seconds of CPU on one core",
        columns_of(
            variant="variant",
            label="label party",
            passive="passive party",
            total="total",
            limit="limit",
            beyond="total / limit",
            sent="MB to the passive party",
            answered="MB back",
            price="times the quickest plain tree",
        ),
        tuple(rows),
        (
            "Encrypted: the whole exchange of one tree in one process, messages as bytes. Tables for encryption and "
            "rerandomising are built beforehand, once per key. The tree is the plain one's, bit by bit.",
            "Limit: encryptions, additions into bins, squarings of packing, rerandomisations and decryptions, counted, "
            "each at its measured time.",
            f"Libraries: one of {_TREES} trees on as many bins and one thread, binning included.",
        ),
    )


def _encrypted(work: _Work, name: str, kernel: Kernel, repetitions: int) -> dict[str, Cell]:
    counting = Counting(kernel)
    engine = warmed(counting, work.private_key)
    runs = [_grow(work, engine, counting) for _ in range(repetitions)]
    limit = _limit(work, engine, kernel, runs[0])
    total = Spread.of([run.total for run in runs])
    return {
        "variant": f"encrypted, {name}",
        "label": Spread.of([run.label for run in runs]),
        "passive": Spread.of([run.passive for run in runs]),
        "total": total,
        "limit": limit,
        "beyond": total.median / limit,
        "sent": runs[0].sent / 1e6,
        "answered": runs[0].answered / 1e6,
    }


@dataclass
class _Metered:
    """A passive party whose time and bytes are counted."""

    side: PassiveSide
    spent: float = 0.0
    sent: int = 0
    answered: int = 0
    packed_bytes: int = 0

    def begin(self, tree: int, derivatives: bytes) -> None:
        self.sent += len(derivatives)
        self._timed(lambda: self.side.begin(tree, derivatives))

    def sums(self) -> bytes:
        sums = self._timed(self.side.sums)
        self.packed_bytes += len(sums)
        self.answered += len(sums)
        return sums

    def divide(self, splits: Sequence[SplitChosen]) -> list[NodeDivided]:
        divided = self._timed(lambda: self.side.divide(splits))
        self.answered += sum(len(one.left) for one in divided)
        return divided

    def follow(self, divided: Sequence[NodeDivided]) -> None:
        self._timed(lambda: self.side.follow(divided))

    def _timed(self, work: Callable[[], T]) -> T:
        seconds, answer = timed(work)
        self.spent += seconds
        return answer


def _grow(work: _Work, engine: Engine, counting: Counting) -> _Run:
    """Grow the tree under ciphertexts, and in plain by the same numbering of columns."""
    counting.listed.clear()
    passive = PassiveSide(work.terms, "passive party", work.table, work.private_key.public_key, engine)
    metered = _Metered(passive)
    label = LabelSide(work.terms, work.table[:, :0], work.private_key, {"passive party": metered}, engine)
    whole, model = timed(lambda: label.train(work.labels))
    own = [
        OwnedColumns.of(work.table[:, :0], work.plan.trained, work.plan.options),
        OwnedColumns.of(work.table, work.plan.trained, work.plan.options, passive.owned.order),
    ]
    twin = train_in_plain(work.labels, own, work.plan)
    require_equal("the encrypted exchange", [model, *passive.owned.splits], [twin, *own[1].splits])
    packed = metered.packed_bytes // work.terms.ciphertext_bytes
    listed = sum(counting.listed)
    return _Run(whole - metered.spent, metered.spent, metered.sent, metered.answered, listed, packed)


def _limit(work: _Work, engine: Engine, kernel: Kernel, run: _Run) -> float:
    """Add up what was computed, at the time of one each."""
    public_key, layout = work.private_key.public_key, work.terms.layout
    product = seconds_of_product(kernel, public_key.n_squared, 3).median
    encryption, ciphertexts = timed(lambda: engine.encrypt(work.private_key, [1] * _OPERATIONS))
    rerandomising, _ = timed(lambda: engine.rerandomisers(public_key.n, _OPERATIONS))
    decryption, _ = timed(lambda: engine.decrypt(work.private_key, ciphertexts))
    squarings = run.packed * layout.slots * layout.slot_bits
    counted = (len(work.table) * encryption + run.packed * (rerandomising + decryption)) / _OPERATIONS
    return counted + (run.listed + squarings) * product


def _plain_variants(asked: TreesAsked, work: _Work) -> dict[str, Callable[[], float] | None]:
    """What grows plain trees; None for a library that isn't installed. Each gives seconds of one tree."""

    def ours() -> float:
        def train() -> None:
            none, rows = work.table[:, :0], work.plan.trained
            owned = [OwnedColumns.of(table, rows, work.plan.options) for table in (none, work.table)]
            train_in_plain(work.labels, owned, replace(work.plan, options=replace(asked.options, n_estimators=_TREES)))

        return timed(train)[0] / _TREES

    return {
        "plain, this project": ours,
        "plain, XGBoost hist": _xgboost(asked, work),
        "plain, scikit-learn": _scikit_learn(asked, work),
    }


def _xgboost(asked: TreesAsked, work: _Work) -> Callable[[], float] | None:
    try:
        xgboost: Any = import_module("xgboost")
    except ImportError:
        return None
    options = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "max_bin": asked.bins,
        "max_depth": asked.depth,
        "nthread": 1,
    }

    def train() -> None:
        xgboost.train(options, xgboost.QuantileDMatrix(work.table, work.labels, max_bin=asked.bins, nthread=1), _TREES)

    return lambda: timed(train)[0] / _TREES


def _scikit_learn(asked: TreesAsked, work: _Work) -> Callable[[], float]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=_TREES, max_depth=asked.depth, max_leaf_nodes=None, max_bins=asked.bins, early_stopping=False
    )
    return lambda: timed(lambda: model.fit(work.table, work.labels))[0] / _TREES
