"""What each column of a party's table is and what it becomes, decided from its own cells and from nothing else.

Cells are personal data: what is said of a column names its range, its number of values and rows, never a text in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray
from vfl.data.cell_words import (
    Dates,
    DecimalMark,
    are_codes,
    begins_as_a_number,
    currency_of,
    is_like_a_code,
    notation_of,
    read_dates,
    read_numbers,
    with_open_ends,
    yes_or_no,
)
from vfl.data.cells import Cells, cells_of
from vfl.data.coarsening import coarser_plan
from vfl.data.columns import COARSENINGS, ColumnPlan, Encoding, open_ends
from vfl.data.faults import Problems, TableError, bounded, counted, quoted
from vfl.data.selection import is_nameless

if TYPE_CHECKING:
    import pandas as pd

# Categories that get a feature each unasked; more become one code.
MOST_CATEGORIES = 20
# Features of one column when a person asks for one per category.
_MOST_ASKED = 1_000
# A column is of numbers or of dates when so much of what it holds is.
_MOSTLY = 0.9
# A column of categories is told to hold numbers or dates as well when so much of it is.
_SOME = 0.05
# Text with a value of its own in so many rows is no category.
_ITS_OWN = 0.5
# Numbers that exports have for none: -1, -9, -99, 999, -9999, 888888, each as far as it stands apart from all others.
_STAND_INS = [-1.0, -9.0, -99.0] + [
    sign * float(digit * length) for sign in (-1, 1) for digit in "789" for length in range(3, 11)
]
# Told where a column has so many other values at least.
_FEW_VALUES = 4
# Rows from which distinct whole numbers throughout are no accident.
_MANY_ROWS = 100


@dataclass(frozen=True, eq=False)
class Reading:
    """What a column was found to be.

    Attributes:
        encoding: what it becomes.
        found: what it holds, in words.
        values: (n,) of numbers and dates, NaN for gaps, infinity for dates without end or beginning; None for
            categories.
        cells: of categories: texts, and each row's.
        warnings: sentences to its owner.
    """

    encoding: Encoding
    found: str
    values: FloatArray | None = None
    cells: Cells | None = None
    warnings: tuple[str, ...] = ()

    @property
    def gaps(self) -> NDArray[np.bool_]:
        """(n,) which rows have no value."""
        if self.values is not None:
            return np.isnan(self.values)
        return self.cells.codes < 0 if self.cells is not None else np.zeros(0, dtype=bool)

    @cached_property
    def distinct(self) -> int:
        """How many different values there are, gaps left out."""
        if self.values is not None:
            return _distinct(self.values[~self.gaps])
        return len(self.cells.texts) if self.cells is not None else 0

    def plan(self, name: str) -> ColumnPlan:
        """The plan of a column of this name."""
        share = self.gaps.mean() if len(self.gaps) else 0.0
        missing = "" if not share else ", under 1 % missing" if share < 0.01 else f", {share * 100:.0f} % missing"
        becomes = self._becomes(bool(share))
        return ColumnPlan(name, self.found + missing, self.encoding, becomes, " ".join(self.warnings))

    def _becomes(self, has_gaps: bool) -> str:
        if self.encoding == "onehot":
            features = counted(self.distinct + has_gaps, "feature")
            return f"{features}, one per category" + (" and one for missing" if has_gaps else "")
        what = {"ordinal": "a code by how often a value occurs", "date": "days since 1970"}.get(self.encoding, "")
        ends = [] if self.values is None else [words for words, *_ in open_ends(self.values)]
        besides = [f"whether it {one}" for one in (["is missing"] if has_gaps else []) + ends]
        if besides:
            return f"{1 + len(besides)} features: {what or 'the number'}, and {', and '.join(besides)}"
        return f"1 feature: {what}" if what else "1 feature"

    def frame_column(self) -> pd.Series[Any]:
        """The column as a typed table has it."""
        import pandas as pd

        if self.values is not None:
            return pd.Series(self.values)
        assert self.cells is not None  # noqa: S101 - a reading has either
        order = sorted(range(len(self.cells.texts)), key=self.cells.texts.__getitem__)
        place = np.append(np.argsort(order), -1) if order else np.array([-1])
        categories = pd.Index([self.cells.texts[at] for at in order], dtype=object)
        return pd.Series(pd.Categorical.from_codes(place[self.cells.codes], categories=categories))


def typed_columns(
    frame: pd.DataFrame,
    encode: Mapping[str, str],
    problems: Problems,
    *,
    separator: str = "",
    missing: Mapping[str, Collection[str]] | None = None,
) -> tuple[pd.DataFrame, tuple[ColumnPlan, ...]]:
    """Give every column of a frame a type.

    Args:
        frame: distinct column names, one row or more.
        encode: what a column is asked to become, by its name.
        problems: takes what can't be done.
        separator: between the cells of the text that the frame was read from.
        missing: cells that stand for a gap as their owner says, by the column's name.

    Returns:
        The typed columns that are kept, and the plans of all.
    """
    import pandas as pd

    cells = {}
    for name in frame.columns:
        try:
            cells[name] = cells_of(frame[name]).without((missing or {}).get(name, ()))
        except (ValueError, ArithmeticError):
            # A moment or a number beyond all that pandas and numpy have.
            cells[name] = Cells("other")
    typed, plans, first_row = {}, [], _FirstRow()
    decimals = _decimal_marks(cells, separator)
    for name, column in cells.items():
        with problems.noted():
            encoding = encode.get(name, "")
            is_coarser = encoding in COARSENINGS
            reading = _read_safely(name, column, decimals.get(name, (".", "")), "" if is_coarser else encoding)
            plan = reading if isinstance(reading, ColumnPlan) else reading.plan(name)
            first_row.look(column, reading)
            plans.append(coarser_plan(plan, encoding) if is_coarser and plan.encoding != "drop" else plan)
            if isinstance(reading, Reading) and plan.encoding != "drop":
                typed[name] = reading.frame_column()
    first_row.check(problems)
    # Not copied into one block: a table is large.
    return pd.DataFrame(typed, index=range(len(frame)), copy=False), tuple(plans)


@dataclass
class _FirstRow:
    """Whether the first row may be a second header: words above numbers, as question texts under their codes.

    Attributes:
        columns: of numbers and dates in text, that have something in that row.
        words: of these, those in which this cell alone is none.
    """

    columns: int = 0
    words: int = 0

    def look(self, cells: Cells, reading: Reading | ColumnPlan) -> None:
        """Count a column."""
        if cells.kind != "text" or isinstance(reading, ColumnPlan) or reading.values is None or cells.codes[0] < 0:
            return
        unread = np.isnan(reading.values) & (cells.codes >= 0)
        self.columns += 1
        self.words += bool(unread[0] and unread.sum() == 1)

    def check(self, problems: Problems) -> None:
        """Note a problem where it is so of all of them, and not of one alone."""
        if self.words == self.columns > 1:
            problems.add(
                f"Row 1 looks like a second header: in each of {self.columns:,} columns of numbers or dates it alone "
                "holds a text. Remove it, or put the names that you want into one line."
            )


def _decimal_marks(cells: Mapping[str, Cells], separator: str) -> dict[str, tuple[DecimalMark, str]]:
    """Each text column's decimal mark, with a warning where it is a guess: 1,234 may be either.

    What a column leaves open the table's other columns decide, then the separator: who separates cells by commas
    doesn't mean decimals by them.
    """
    notations = {name: notation_of(one.texts, one.weights) for name, one in cells.items() if one.kind == "text"}
    lead = sum((mark == ",") - (mark == ".") for mark in notations.values())
    marks: dict[str, tuple[DecimalMark, str]] = {}
    for name, mark in notations.items():
        if mark == "either":
            marked = next(at for at, text in enumerate(cells[name].texts) if "," in text or "." in text)
            has_commas, row = "," in cells[name].texts[marked], int((cells[name].codes == marked).argmax()) + 1
            guess: DecimalMark = "," if has_commas and separator not in (",", "") else "."
            if lead:
                guess = "," if lead > 0 else "."
            marks[name] = (guess, "" if lead else _mark_warning(has_commas, guess, row))
        else:
            marks[name] = ("," if mark == "," else ".", "")
    return marks


def _mark_warning(has_commas: bool, guess: str, row: int) -> str:
    marks = "Commas" if has_commas else "Points"
    meaning = "decimals" if (guess == ",") == has_commas else "thousands"
    return (
        f"{marks} in it (first in row {row:,}) may separate thousands or decimals and were read as {meaning}: if that "
        "is wrong, write plain numbers."
    )


def _read_safely(name: str, cells: Cells, decimal: tuple[DecimalMark, str], encoding: str) -> Reading | ColumnPlan:
    """What ``_read`` finds; raises TableError with the column's name where a library gives up on its cells."""
    try:
        return _read(name, cells, decimal, encoding)
    except TableError:
        raise
    except (ValueError, ArithmeticError) as error:
        raise TableError(
            f"Column {quoted(name)} holds what reads neither as numbers nor as dates: mend it, or leave it out "
            f"(--drop {bounded(name)})."
        ) from error


def _read(name: str, cells: Cells, decimal: tuple[DecimalMark, str], encoding: str) -> Reading | ColumnPlan:
    if encoding == "drop":
        reading = _read(name, cells, decimal, "")
        plan = reading if isinstance(reading, ColumnPlan) else reading.plan(name)
        return replace(plan, encoding="drop", becomes="left out, as asked", warning="")
    if encoding:
        return _asked(name, cells, decimal, encoding)
    if is_nameless(name):
        why = "It has no name in the header, as a row number saved with the data: name it if it is needed."
        return ColumnPlan(name, "a column without a name", "drop", "left out", why)
    if cells.kind == "other":
        why = f"Column {quoted(name)} holds neither numbers, text nor dates: make it one of these if it is needed."
        return ColumnPlan(name, "neither numbers, text nor dates", "drop", "left out", why)
    reading = _text(name, cells, decimal) if cells.kind == "text" else _values(cells.kind, cells.values)
    return _kept(name, reading)


def _kept(name: str, reading: Reading) -> Reading | ColumnPlan:
    """The reading of a column that something can be learned from, or the plan to leave it out."""
    if not reading.distinct:
        return ColumnPlan(name, "nothing: every cell is empty", "drop", "left out: every cell is empty")
    if reading.distinct == 1 and not reading.gaps.any():
        return ColumnPlan(name, "the same value in every row", "drop", "left out: every row has the same value")
    present = int((~reading.gaps).sum())
    if reading.cells is None or reading.encoding == "onehot" or reading.distinct <= _ITS_OWN * present:
        return reading
    description = f"text, {reading.distinct:,} different values in {counted(present, 'row')}"
    why = f"Hardly a value occurs twice: to keep it as a code all the same, use --encode {bounded(name)}=ordinal."
    # The last one is of the code that it doesn't become.
    why = " ".join([*reading.warnings[:-1], why])
    return ColumnPlan(name, description, "drop", "left out: most rows have a text of their own", why)


# --- what a column says by itself -----------------------------------------------------------------------------


def _text(name: str, cells: Cells, decimal: tuple[DecimalMark, str]) -> Reading:
    # YES, Yes and no are two words.
    booleans = yes_or_no(cells.texts) if len({text.lower() for text in cells.texts[:9]}) == 2 else None
    if booleans is not None:
        return _values("boolean", cells.of_texts(booleans))
    if are_codes(cells.texts):
        warning = (
            "More digits than a number keeps, and digits with a plus or leading zeros are taken for codes: if they are "
            f"numbers, use --encode {bounded(name)}=number."
        )
        return _categories(name, cells, warning)
    reading = _numbers(name, cells, decimal) or _dates(name, cells)
    return reading or _categories(name, cells, _mixed(cells, decimal) or _begun_as_numbers(cells))


def _numbers(name: str, cells: Cells, decimal: tuple[DecimalMark, str], least: float = _MOSTLY) -> Reading | None:
    mark, warning = decimal
    values = read_numbers(cells.texts, mark)
    if not _enough(values, cells, least):
        return None
    reading = _values("number", cells.of_texts(values), "with decimal commas" if mark == "," else "")
    warnings = (
        warning,
        _unread(cells, values, "number", name),
        _units(cells, values),
        _codes(cells, name),
        *reading.warnings,
    )
    return replace(reading, warnings=tuple(filter(None, warnings)))


def _codes(cells: Cells, name: str) -> str:
    """A sentence on texts such as 1E3, which are numbers and may be codes; empty where there are none."""
    alike = np.array([float(is_like_a_code(text)) for text in cells.texts])
    rows = np.flatnonzero(cells.of_texts(alike) == 1) + 1
    if not len(rows):
        return ""
    return (
        f"{counted(len(rows), 'cell')} (first in row {rows[0]:,}) read as numbers as 1E3 reads as 1,000: if they are "
        f"codes, use --encode {bounded(name)}={_as_codes(cells)}."
    )


def _units(cells: Cells, values: FloatArray) -> str:
    """A sentence on amounts that aren't all counted in the same; empty where they are."""
    rows: dict[str, int] = {}
    for place, text in enumerate(cells.texts):
        # What begins and ends with a digit has no unit: not looked at twice, a table is large.
        unit = "" if (text[0] + text[-1]).isdigit() else currency_of(text)
        if not np.isnan(values[place]) and unit not in rows:
            rows[unit] = int((cells.codes == place).argmax()) + 1
    # An amount without a unit is of the others' currency, but no share of a hundred.
    named = [(unit or "no unit", row) for unit, row in rows.items() if unit or {"%", "‰"} & set(rows)]
    if len(named) < 2:
        return ""
    units = " and ".join(f"{unit} (first in row {row:,})" for unit, row in named[:3])
    return f"It is counted in {units}, all of it read as one: bring it to one unit."


def _dates(name: str, cells: Cells, least: float = _MOSTLY) -> Reading | None:
    dates = read_dates(cells.texts, cells.weights) if cells.texts else None
    if dates is None or not _enough(dates.days, cells, least):
        return None
    reading = _values("date", cells.of_texts(dates.days), dates.order)
    return replace(
        reading, warnings=(*_date_warnings(dates), *filter(None, [_unread(cells, dates.days, "date", name)]))
    )


def _date_warnings(dates: Dates) -> tuple[str, ...]:
    warnings = (
        (dates.ambiguous, "Days and months can't be told apart, and the day is taken to come first"),
        (dates.has_short_years, "Years of two digits are taken to be those from 1969 to 2068"),
    )
    return tuple(f"{words}: if that is wrong, write dates as 2024-12-31." for is_so, words in warnings if is_so)


def _mixed(cells: Cells, decimal: tuple[DecimalMark, str]) -> str:
    """A sentence on categories of which many read as numbers or dates; empty for words."""
    dates = read_dates(cells.texts, cells.weights)
    readings = [("numbers", read_numbers(cells.texts, decimal[0])), *([("dates", dates.days)] if dates else [])]
    for what, values in readings:
        is_read = (cells.codes >= 0) & ~np.isnan(cells.of_texts(values))
        is_unread = (cells.codes >= 0) & ~is_read
        if _SOME * (is_read.sum() + is_unread.sum()) <= is_read.sum():
            first, other = (int(rows.argmax()) + 1 for rows in (is_read, is_unread))
            return (
                f"{counted(int(is_read.sum()), 'cell')} (first in row {first:,}) read as {what}, and "
                f"{counted(int(is_unread.sum()), 'cell')} (first in row {other:,}) don't: all are taken for categories."
            )
    return ""


def _begun_as_numbers(cells: Cells) -> str:
    """A sentence on texts of which most may be amounts or dates in another form; empty for others."""
    begun = np.array([float(begins_as_a_number(text)) for text in cells.texts])
    rows = np.flatnonzero(cells.of_texts(begun) == 1) + 1
    if not len(rows) or 2 * len(rows) < cells.weights.sum():
        return ""
    return (
        f"{counted(len(rows), 'cell')} (first in row {rows[0]:,}) begin with a number and read as none, nor as "
        "dates: if they are, write plain numbers, or dates as 2024-12-31."
    )


def _as_codes(cells: Cells) -> str:
    """Name the encoding of codes that isn't refused for so many."""
    return "onehot" if len(cells.texts) <= _MOST_ASKED else "ordinal"


def _enough(values: FloatArray, cells: Cells, least: float) -> bool:
    """Whether so many cells were read, and one at least."""
    weights = cells.weights
    count = weights[~np.isnan(values)].sum()
    return bool(count and count >= least * weights.sum())


def _unread(cells: Cells, values: FloatArray, what: str, name: str) -> str:
    """A sentence on cells that are neither missing nor what the others are; empty where there are none."""
    rows = np.flatnonzero((cells.codes >= 0) & np.isnan(cells.of_texts(values))) + 1
    if not len(rows):
        return ""
    return (
        f"{counted(len(rows), 'cell')} (first in row {rows[0]:,}) held no {what} and count as missing: mend them, or "
        f"use --encode {bounded(name)}={_as_codes(cells)} for categories."
    )


def _categories(name: str, cells: Cells, warning: str = "") -> Reading:
    count = len(cells.texts)
    warnings = (warning,) if warning else ()
    if count <= MOST_CATEGORIES:
        return Reading("onehot", "1 category" if count == 1 else f"{count} categories", cells=cells, warnings=warnings)
    each = "" if count > _MOST_ASKED else f", or use --encode {bounded(name)}=onehot for a feature each"
    many = f"{count:,} categories become one number, which tells little of them: group them{each}."
    return Reading("ordinal", f"{count:,} categories", cells=cells, warnings=(*warnings, many))


def _values(kind: str, values: FloatArray, how: str = "") -> Reading:
    """A reading of numbers, dates, or 0 and 1."""
    if kind == "date":
        return _moments(with_open_ends(values), how)
    infinite = np.flatnonzero(np.isinf(values)) + 1
    values = np.where(np.isinf(values), np.nan, values)
    warnings = (
        (f"{counted(len(infinite), 'cell')} (first in row {infinite[0]:,}) held infinity and count as missing.",)
        if len(infinite)
        else ()
    )
    present = values[~np.isnan(values)]
    if kind == "boolean":
        return Reading("number", "yes or no", values, warnings=warnings)
    if len(present) >= _MANY_ROWS and (present == np.rint(present)).all() and _distinct(present) == len(present):
        warnings = (*warnings, "Every row has a whole number of its own: if it is an id, drop the column.")
    for written, is_so in (("20241231", _are_days), ("202412", _are_months)):
        if is_so(present):
            warnings = (*warnings, f"They read as dates written as {written}: if they are, use --encode COLUMN=date.")
    warnings = (*warnings, *_stand_ins(values))
    span = f"numbers from {_figure(present.min())} to {_figure(present.max())}" if len(present) else "numbers"
    ones = int((present == 1).sum())
    are_bits = 0 < ones < len(present) and ones + int((present == 0).sum()) == len(present)
    description = "0 or 1" if are_bits else " ".join(filter(None, [span, how]))
    return Reading("number", description, values, warnings=warnings)


def _stand_ins(values: FloatArray) -> Iterator[str]:
    """Say, of numbers that may stand for none and stretch the range, how many there are and of what others."""
    may_stand = np.isin(values, _STAND_INS)
    ordinary = values[~may_stand & ~np.isnan(values)]
    if not may_stand.any() or _distinct(ordinary) < _FEW_VALUES:
        return
    low, high = ordinary.min(), ordinary.max()
    for value in np.unique(values[may_stand]):
        # As far from all others as these are from each other.
        is_apart = low >= 0 if value == -1 else max(low - value, value - high) > high - low
        if is_apart:
            rows = np.flatnonzero(values == value) + 1
            subject = f"{counted(len(rows), 'cell')} (first in row {rows[0]:,}) {'is' if len(rows) == 1 else 'are'}"
            yield (
                f"{subject} {value:.0f}, and others go from {_figure(low)} to {_figure(high)}: if it stands for no "
                f"value, use --missing={value:.0f}."
            )


def _are_days(values: FloatArray) -> bool:
    """Whether numbers are days written in eight digits, 99991231 for no end included."""
    months, days = values // 100 % 100, values % 100
    valid = (values == np.rint(values)) & (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    return bool(len(values) and (valid & (values > 19000000) & ((values < 21000000) | (values > 99990000))).all())


def _are_months(values: FloatArray) -> bool:
    """Whether numbers are months written in six digits, 999912 for no end included; a few amounts may be by chance."""
    months = values % 100
    valid = (values == np.rint(values)) & (months >= 1) & (months <= 12)
    return bool((valid & (values > 190000) & ((values < 210000) | (values > 999900))).all() and _distinct(values) > 3)


def _moments(days: FloatArray, how: str) -> Reading:
    """A reading of dates, infinity for those without end."""
    present = days[np.isfinite(days)]
    endings = [f"{counted(count, 'row')} {words.replace('has', 'with')}" for words, _, count in open_ends(days)]
    span = f"dates from {_day(present.min())} to {_day(present.max())}" if len(present) else "dates"
    return Reading("date", ", ".join(filter(None, [span, how, *endings])), days)


def _distinct(values: FloatArray) -> int:
    """How many different numbers there are. By sorting: a table of a million hashes is ten times as large."""
    ascending = np.sort(values)
    return int((ascending[1:] != ascending[:-1]).sum()) + min(len(values), 1)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1e3 else f"{value:.4g}"


def _day(days: float) -> str:
    return str(np.datetime64(int(np.floor(days)), "D"))


# --- what a person asks for -----------------------------------------------------------------------------------


def _asked(name: str, cells: Cells, decimal: tuple[DecimalMark, str], encoding: str) -> Reading:
    if cells.kind == "other":
        raise TableError(f"Column {quoted(name)} holds neither numbers, text nor dates: it can only be left out.")
    if encoding in ("onehot", "ordinal"):
        return _asked_categories(name, _as_categories(cells, decimal[0]), encoding)
    reading = _asked_numbers(name, cells, decimal) if encoding == "number" else _asked_dates(name, cells)
    if reading is None:
        raise TableError(
            f"Column {quoted(name)} can't become a {encoding}, no cell of it reads as one: mend it, or use --encode "
            f"{bounded(name)}=ordinal."
        )
    return reading


def _as_categories(cells: Cells, mark: DecimalMark) -> Cells:
    """Cells as text; of numbers in text too, 1 and 1.0 are one category."""
    numbers = read_numbers(cells.texts, mark)
    if cells.texts and not np.isnan(numbers).any() and not are_codes(cells.texts):
        return Cells("number", cells.of_texts(numbers)).as_text()
    return cells.as_text()


def _asked_categories(name: str, cells: Cells, encoding: str) -> Reading:
    reading = Reading("ordinal", f"{len(cells.texts):,} categories", cells=cells)
    if encoding == "ordinal":
        return reading
    if len(cells.texts) > _MOST_ASKED:
        raise TableError(
            f"Column {quoted(name)} has {len(cells.texts):,} categories, and a feature each would be too many: group "
            f"them, or use --encode {bounded(name)}=ordinal."
        )
    return replace(reading, encoding="onehot")


def _asked_numbers(name: str, cells: Cells, decimal: tuple[DecimalMark, str]) -> Reading | None:
    if cells.kind != "text":
        return _values("number", cells.values)
    booleans = yes_or_no(cells.texts)
    if booleans is not None and cells.texts:
        return _values("boolean", cells.of_texts(booleans))
    return _numbers(name, cells, decimal, least=0.0)


def _asked_dates(name: str, cells: Cells) -> Reading | None:
    if cells.kind == "date":
        return _values("date", cells.values)
    return _dates(name, cells.as_text(), least=0.0)
