"""What received columns are, told by who judges them or guessed from name and values, and how an adversary reads each.

Scores are read as log-odds, leaf numbers as the values that several known records share, all else as the numbers that
it is. A guess is shown with its reason, for a wrong one makes an adversary weaker than it need be.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from vfl.arrays import FloatArray, IntArray
from vfl.data import TypedTable
from vfl.data.faults import Problems, counted, quoted
from vfl.data.selection import matches
from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

Kind = Literal["probability", "log-odds", "points", "category", "embedding", "explanation", "gradient"]
KINDS: tuple[Kind, ...] = get_args(Kind)
SCORES: tuple[Kind, ...] = ("probability", "log-odds", "points")
# Words in names of columns, between their other letters and digits.
_LEAVES = frozenset({"leaf", "leaves", "node", "tree", "cluster", "segment", "bin", "bucket", "class", "group"})
_CALLED: Mapping[Kind, frozenset[str]] = {
    "gradient": frozenset({"grad", "gradient", "gradients", "residual"}),
    "embedding": frozenset({"emb", "embed", "embedding", "embeddings", "hidden", "latent", "vec", "vector"}),
    "explanation": frozenset(
        {"shap", "contrib", "contribution", "explanation", "explain", "attribution", "importance"}
    ),
}
# Whole numbers of so many values at most are names of something; others are points.
_FEW_VALUES = 64
# Log-odds beyond are as good as sure.
_SURE = 30.0
# A category's value is read where so many known records have it; of fewer nobody learns.
_LEAST_RECORDS = 3
# A category of more values than this share of its records hardly has two records alike.
_MOST_VALUES = 0.5
# Indicators of categories beyond so many are read as their leading principal components, and so is all that is read.
MOST_INDICATORS, MOST_READ = 50, 200
# Of more columns the square, and all of its directions, would be gigabytes and minutes: leading ones are sought alone.
_MOST_SQUARED = 2_000
# Of all categories together, values that are read at most: the more frequent ones of each.
_MOST_VALUES_READ = 2_000


@dataclass(frozen=True)
class ReceivedColumn:
    """One column that was received.

    Attributes:
        name: of the column.
        kind: what it is taken for.
        why: who says so, in words: ``told``, ``guessed: from 0 to 1``.
        about: name of the column that an explanation is of; empty for others.
    """

    name: str
    kind: Kind
    why: str
    about: str = ""

    @property
    def called(self) -> str:
        """Name its kind: ``explanation of age``."""
        return f"{self.kind} of {self.about}" if self.about else self.kind


def grouped(columns: Sequence[ReceivedColumn]) -> list[tuple[list[str], str, str]]:
    """Put columns of one kind for one reason together: their names, the kind and who says so."""
    alike: dict[tuple[str, str], list[str]] = {}
    for column in columns:
        alike.setdefault((column.called, column.why), []).append(column.name)
    return [(names, *told) for told, names in alike.items()]


def kinds_of(table: TypedTable, told: Sequence[str], columns: Collection[str]) -> tuple[ReceivedColumn, ...]:
    """Say of each received column what it is.

    Args:
        table: what was received; columns that are left out have no kind.
        told: ``COLUMN=KIND``, with names or patterns, or ``KIND`` of all.
        columns: names of the own and the secret columns, after which explanations are called.

    Raises:
        TableError: for a kind or a column that there isn't, and for values outside the kind that was told.
    """
    problems, names = Problems(), [plan.name for plan in table.kept]
    kinds = _asked(told, names, problems)
    received_columns = [_kind_of(name, table.frame[name], kinds, columns) for name in names]
    for column in received_columns:
        if column.name in kinds and (fault := _fault_of(column, table.frame[column.name])):
            problems.add(fault)
    problems.tell()
    return tuple(received_columns)


def _asked(requests: Sequence[str], names: Sequence[str], problems: Problems) -> Mapping[str, Kind]:
    kinds: dict[str, Kind] = {}
    for text in requests:
        pattern, _, word = text.rpartition("=")
        kind = next((one for one in KINDS if one == word.strip()), None)
        meant = matches(pattern.strip() or "*", names)
        if kind is None:
            problems.add(f"--kind is one of {', '.join(KINDS)}, got {quoted(word)}.{did_you_mean(word, KINDS)}")
        elif not meant:
            hint = did_you_mean(pattern, names)
            problems.add(f"What was received has no column {quoted(pattern)}, which --kind names.{hint}")
        else:
            kinds |= dict.fromkeys(meant, kind)
    return kinds


def _kind_of(
    name: str, cells: "pd.Series[float]", kinds: Mapping[str, Kind], columns: Collection[str]
) -> ReceivedColumn:
    name_words = set(re.findall(r"[a-z]+", name.lower()))
    about = _named_after(name, columns)
    if name in kinds:
        return ReceivedColumn(name, kinds[name], "told", about if kinds[name] == "explanation" else "")
    if cells.dtype == "category":
        return ReceivedColumn(name, "category", "guessed: it is text")
    if about:
        return ReceivedColumn(name, "explanation", "guessed: it is called as a column", about)
    for kind, nouns in _CALLED.items():
        if name_words & nouns:
            return ReceivedColumn(name, kind, "guessed: by its name")
    values: FloatArray = np.asarray(cells.dropna(), dtype=np.float64)
    if (values == np.round(values)).all() and len(np.unique(values)) > 1:
        if name_words & _LEAVES and len(np.unique(values)) > _MOST_VALUES * len(values):
            return ReceivedColumn(name, "points", "guessed: called as a category, but hardly two rows are alike")
        if name_words & _LEAVES:
            return ReceivedColumn(name, "category", "guessed: by its name")
        if len(np.unique(values)) <= _FEW_VALUES:
            return ReceivedColumn(name, "category", "guessed: whole numbers, few")
        return ReceivedColumn(name, "points", "guessed: whole numbers, many")
    low, high = (values.min(), values.max()) if len(values) else (0.0, 0.0)
    if low >= 0 and high <= 1:
        return ReceivedColumn(name, "probability", "guessed: from 0 to 1")
    if low < 0 < high and max(-low, high) <= _SURE:
        return ReceivedColumn(name, "log-odds", "guessed: below and above 0")
    return ReceivedColumn(name, "points", "guessed: numbers")


def _named_after(name: str, columns: Collection[str]) -> str:
    """Find the column that a received one is called after, with a word such as ``shap`` before or behind, or bare."""
    word = "|".join(_CALLED["explanation"])
    bare = re.sub(rf"^(?:{word})[ _.:-]+|[ _.:-]+(?:{word})$", "", name)
    return next((one for one in (name, bare) if one in columns), "")


def _fault_of(column: ReceivedColumn, cells: "pd.Series[float]") -> str:
    """Say why a column can't be what it is told to be; empty where it can."""
    name, kind = quoted(column.name), column.kind
    if cells.dtype == "category":
        fault = f"{name} is text, and --kind calls it {kind}: give numbers, or leave it out with --drop."
        return "" if kind == "category" else fault
    values: FloatArray = np.asarray(cells.dropna(), dtype=np.float64)
    outside = int(((values < 0) | (values > 1)).sum()) if kind == "probability" else 0
    if outside:
        return (
            f"{name} is told to be a probability, and lies outside 0 to 1 in {counted(outside, 'row')}: is it "
            "log-odds, points, or percent?"
        )
    distinct = len(np.unique(values))
    if kind == "category" and distinct > _MOST_VALUES * len(values):
        return (
            f"{name} is told to be a category, and has {distinct:,} values in {len(values):,} rows, so that hardly two "
            "are alike: nobody learns from it. Are they points?"
        )
    return ""


def encoded(frame: "pd.DataFrame", columns: Sequence[ReceivedColumn], known: IntArray) -> FloatArray:
    """Bring received columns to [0, 1] as an adversary reads them: (records, m).

    Args:
        frame: what was received, a row for each record.
        columns: what each of its columns is.
        known: which of the records the adversary holds in full.
    """
    of_numbers = [one for one in columns if frame[one.name].dtype != "category"]
    parts = [part for one in of_numbers for part in _numbers(one, frame)]
    if len(categories := of_kind(frame, columns, "category").T):
        parts += list(_indicators(categories, known).T)
    scaled = _scaled(np.column_stack(parts)) if parts else np.zeros((len(frame), 1))
    return _scaled(scaled if scaled.shape[1] <= MOST_READ else _leading(scaled, MOST_READ))


def of_kind(frame: "pd.DataFrame", columns: Sequence[ReceivedColumn], kind: Kind) -> FloatArray:
    """Take the columns of a kind as they are, texts as numbers of their values, NaN for gaps: (records, c)."""
    numbers = [numbers_or_codes(frame[one.name]) for one in columns if one.kind == kind]
    return np.column_stack([np.empty((len(frame), 0)), *numbers])


def numbers_or_codes(cells: "pd.Series[float]") -> FloatArray:
    """Read a column as numbers, text as the numbers of its values: (records,), NaN for gaps."""
    is_text = cells.dtype == "category"
    return np.asarray(cells.cat.codes.where(cells.notna()) if is_text else cells, dtype=np.float64)


def scores_of(frame: "pd.DataFrame", columns: Sequence[ReceivedColumn]) -> FloatArray:
    """Take the scores as an adversary reads them, gaps filled: (records, c)."""
    scores = [_numbers(one, frame)[0] for one in columns if one.kind in SCORES]
    return np.column_stack([np.zeros((len(frame), 0)), *scores])


def _numbers(column: ReceivedColumn, frame: "pd.DataFrame") -> list[FloatArray]:
    """Read (n,) numbers of its kind, and beside them whether there is one, where some have none."""
    values = frame[column.name].to_numpy(np.float64)
    gaps = ~np.isfinite(values)
    filled = np.where(gaps, np.median(values[~gaps]) if (~gaps).any() else 0.0, values)
    if column.kind == "probability":
        with np.errstate(divide="ignore"):
            filled = np.log(filled) - np.log1p(-filled)
    if column.kind in ("probability", "log-odds"):
        filled = np.clip(filled, -_SURE, _SURE)
    return [filled, gaps.astype(np.float64)] if gaps.any() else [filled]


def _indicators(categories: FloatArray, known_rows: IntArray) -> FloatArray:
    """Read which value each of the (c, n) categories has, where known records share it: (n, i); many as components."""
    from scipy.sparse import csr_array, hstack

    most, blocks = max(1, _MOST_VALUES_READ // len(categories)), []
    for values in categories[:: -(-len(categories) // _MOST_VALUES_READ)]:
        there, counts = np.unique(values[known_rows], return_counts=True)
        there, counts = there[~np.isnan(there)], counts[~np.isnan(there)]
        frequent = there[np.argsort(-counts, kind="stable")][: min(most, int((counts >= _LEAST_RECORDS).sum()))]
        blocks += [csr_array((values == one)[:, None].astype(np.float64)) for one in np.sort(frequent)]
    if not blocks:
        return np.zeros((len(categories[0]), 0))
    indicators = hstack(blocks, format="csr")
    if len(blocks) <= MOST_INDICATORS:
        return np.asarray(indicators.toarray())
    return _leading(indicators, MOST_INDICATORS)


def _leading(columns: "FloatArray | csr_array", most: int) -> FloatArray:
    """Find so many leading principal components of (n, c) columns, sparse ones without filling them: (n, most).

    Of more columns than a square is made of there are at most n.
    """
    mean = np.asarray(columns.mean(axis=0)).ravel()
    if isinstance(columns, np.ndarray) and columns.shape[1] > _MOST_SQUARED:
        from sklearn.utils.extmath import randomized_svd  # slow to import

        singular_vectors, sizes, _ = randomized_svd(columns - mean, min(most, len(columns)), random_state=0)
        components: FloatArray = singular_vectors * sizes
        return components
    products = columns.T @ columns
    covariance = products if isinstance(products, np.ndarray) else products.toarray()
    covariance = covariance - columns.shape[0] * np.outer(mean, mean)
    vectors = np.linalg.eigh(covariance)[1][:, -most:]
    leading: FloatArray = columns @ vectors - mean @ vectors
    return leading


def _scaled(columns: FloatArray) -> FloatArray:
    """Bring (n, c) columns to [0, 1], each by its own range; constant ones to 0."""
    low, width = columns.min(axis=0), np.ptp(columns, axis=0)
    scaled: FloatArray = np.divide(columns - low, width, out=np.zeros_like(columns), where=width > 0)
    return np.clip(scaled, 0.0, 1.0)
