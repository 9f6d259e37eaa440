"""What the texts of a column may mean: nothing, yes or no, numbers in either notation, dates in any common form.

All functions take the distinct texts of a column, without blanks around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

DecimalMark = Literal[".", ","]
_MISSING = frozenset(
    {
        *("", "na", "n/a", "#n/a", "n.a.", "k.a.", "k. a.", "nan", "nat", "<na>", "null", "(null)", "nil", "none"),
        *("?", "-", "--", "–", "—", ".", "…"),
        # No date, of MySQL, SAP and Excel.
        *(day + time for day in ("0000-00-00", "00.00.0000") for time in ("", " 00:00", " 00:00:00")),
        *("0000/00/00", "00/00/0000", "00-00-0000", "00000000", "1900-01-00", "00.01.1900"),
        # Excel's, in English and German.
        *("#nv", "#ref!", "#bezug!", "#value!", "#wert!", "#div/0!", "#num!", "#zahl!", "#name?", "#null!"),
    }
)
# The second means 1.
_YES_OR_NO = [
    *(("no", "yes"), ("false", "true"), ("n", "y"), ("f", "t"), ("off", "on")),
    *(("n", "j"), ("falsch", "wahr"), ("faux", "vrai"), ("falso", "vero"), ("falso", "verdadero")),
    *(("nein", "ja"), ("non", "oui"), ("no", "si"), ("no", "sí"), ("no", "sì"), ("não", "sim"), ("nee", "ja")),
    *(("nej", "ja"), ("nie", "tak"), ("ne", "ano")),
]
# Spaces of every width, and the Swiss apostrophe.
_BLANK_MARKS = " '’\u00a0\u2007\u2009\u202f"
# Before or after an amount, in the letters that tables have.
_UNIT = (
    r"(?:US\$|A\$|C\$|[€$£¥₹₽₺₩₪₫฿%‰]|EUR|Euro|CHF|SFr\.?|Fr\.|USD|GBP|JPY|CNY|INR|Rs\.?|AUD|CAD|NZD|SEK|NOK|DKK|kr\.?|PLN|"
    r"zł|CZK|Kč|HUF|Ft|RON|lei|BGN|RUB|TRY|TL|BRL|R\$|MXN|ZAR|HKD|SGD)"
)
_AMOUNT = re.compile(
    # A sign may stand before the unit, behind it or, as accountants have it, at the end; brackets are a minus too.
    rf"(?P<open>\()?(?P<sign>[+−–-])?\s*(?:(?P<unit>{_UNIT})\s*)?(?P<inner>[+−–-])?(?P<number>\d.*?)"
    rf"(?P<no_cents>[.,][-–—]+)?(?P<last>[−–-])?\s*(?P<early>\))?\s*(?P<behind>{_UNIT})?\s*(?P<close>\))?",
    re.IGNORECASE,
)
# Ways to write a currency besides its code.
_CURRENCIES = {
    **{"€": "EUR", "EURO": "EUR", "$": "USD", "US$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "RS": "INR"},
    **{"FR": "CHF", "SFR": "CHF", "ZŁ": "PLN", "KČ": "CZK", "FT": "HUF", "LEI": "RON", "TL": "TRY", "R$": "BRL"},
}
# What may be an amount or a date of another form: 12 kg, 2024Q1, 10-20. Longer ones are numbers of things.
_BEGINS_AS_A_NUMBER = re.compile(r"[(+−–-]?\d.{0,30}")
# A zero in front or a mark that keeps it, a phone number, or more digits than a float has.
_CODE = re.compile(r"0\d+|['’]\d+|\+\d{8,}|\d{16,}")
_LIKE_A_CODE = re.compile(r"\d+E\d+", re.IGNORECASE)
# Months in English, German, French, Italian, Spanish, Dutch and Polish, short and in full, and as Romans count them.
_MONTHS = [
    r"jan(uary|uari?|vier)?|gen(naio)?|ene(ro)?|sty(cze[nń]|cznia)?|i$",
    r"feb(ruary|ruari?|braio|rero)?|f[eé]vr?(ier)?|lut(y|ego)?|ii$",
    r"mar(ch|s|zo|zec|ca|z|t)?|märz?|mrz|mrt|maa(rt)?|iii$",
    r"apr(il|ile)?|avr(il)?|abr(il)?|kwi(ecie[nń]|etnia)?|iv$",
    r"mayo?|mai|mei|mag(gio)?|maja?|v$",
    r"jun[ei]?|juin|junio|giu(gno)?|cze(rwiec|rwca)?|vi$",
    r"jul[yi]?|juil(let)?|julio|lug(lio)?|lip(iec|ca)?|vii$",
    r"aug(ust|ustus)?|ao[uû]t?|ago(sto)?|sie(rpie[nń]|rpnia)?|viii$",
    r"sep(t|tember|tembre|tiembre)?|set(t|tembre|iembre)?|wrz(esie[nń]|e[sś]nia)?|ix$",
    r"oct(ober|obre|ubre)?|okt(ober)?|ott(obre)?|pa[zź](dziernika?)?|x$",
    r"nov(ember|embre|iembre)?|lis(topada?)?|xi$",
    r"dec(ember)?|dez(ember)?|déc(embre)?|dic(embre|iembre)?|gru(dzie[nń]|dnia)?|xii$",
]
_ENGLISH = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_MONTH_WORDS = {name: re.compile(words) for name, words in zip(_ENGLISH, _MONTHS, strict=True)}
_DAY_AND_WORD = re.compile(r"(\d{1,2})[. -]{1,2}([^\W\d_]{1,12})[. -]{1,2}(\d{4}|\d{2})(?!\d)")
# Before a date of three parts: Mo 01.01.2024, Mon, 1 Jan 2024. A version or a phone number has other words there.
_WEEKDAY = re.compile(
    r"(?:mon|tue|wed|thu|fri|sat|sun|(?:mon|tues|wednes|thurs|fri|satur|sun)day|mo|di|mi|do|fr|sa|so|ma|wo|vr|za|zo"
    r"|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|lun|mar|mer|jeu|ven|sam|dim|gio|sab|dom|mié|jue|vie|sáb"
    r"|(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|pon|wt|śr|czw|pt|sob)\.?,? +(?=\d{1,4}[./ -]\S+?[./ -]\d)",
    re.IGNORECASE,
)
# Jan-24, March 2024; KW 5/2024, 2024-W05; 2024Q1, Q1 2024, 1. Quartal 2024.
_WORD_AND_YEAR = re.compile(r"(?![ivxIVX]+\b)([^\W\d_]{3,12})[. '’/-]{1,2}(\d{4}|\d{2})")
_WEEK = re.compile(r"(?P<x>\d{4})-?W(?P<a>\d{2})|(?:KW|CW|W) ?(?P<b>\d{1,2})[ /.-](?P<y>\d{4})", re.IGNORECASE)
_QUARTER = re.compile(
    r"(?:Q(?P<a>[1-4])[ /-]?(?P<x>\d{4})|(?P<y>\d{4})[ /-]?Q(?P<b>[1-4])"
    r"|(?P<c>[1-4])(?:Q|\. ?Quartal)[ /-]?(?P<z>\d{4}))",
    re.IGNORECASE,
)
_TIME = r"(?:[ T]\d{1,2}:\d{2}.*)?"
# Also 20241231, 202412 and 2024, which are numbers unless a person says otherwise.
_LOOKS_LIKE_A_DATE = re.compile(
    rf"(?:\d{{8}}|\d{{6}}|\d{{4}}|\d{{1,2}}/\d{{4}}"
    rf"|\d{{1,4}}[./-]\d{{1,2}}(?:[./-]\d{{1,4}})?|\d{{1,2}}[ -]?[A-Za-z]{{3,9}}\.?[ -]?,? ?\d{{2,4}}"
    rf"|[A-Za-z]{{3,9}} \d{{1,2}},? \d{{4}}){_TIME}"
)
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
# Texts that a form is guessed from before all are read.
_SAMPLE = 100
# Days that a table writes for no end: 9999-12-31, and few besides.
_FEW_ENDS = 3
# Microseconds.
_DAY = 86_400e6
# Moments of 64 bits of nanoseconds begin and end there, so that nobody keeps a date of his own beyond.
_FIRST, _LAST = (float(np.datetime64(day, "D").astype(np.int64)) for day in ("1677-09-22", "2262-04-11"))


def is_missing_word(text: str) -> bool:
    """Tell whether a cell of this text says that there is no value: ``NA``, ``?``, ``-`` and their like."""
    return text.lower() in _MISSING


def yes_or_no(texts: Sequence[str]) -> FloatArray | None:
    """Read texts such as ``yes`` and ``no``, ``True`` and ``False``: 1.0 and 0.0 each; None for any others."""
    lowered = [text.lower() for text in texts]
    for pair in _YES_OR_NO:
        if set(lowered) <= set(pair):
            return np.array([float(pair.index(word)) for word in lowered])
    return None


def are_codes(texts: Sequence[str]) -> bool:
    """Tell whether texts are codes of digits, as postcodes, accounts and phone numbers are, and no numbers."""
    return all(text.lstrip("'’+").isdigit() for text in texts) and any(_CODE.fullmatch(text) for text in texts)


# --- numbers ------------------------------------------------------------------------------------------------


def read_numbers(texts: Sequence[str], decimal: DecimalMark) -> FloatArray:
    """Read numbers in the notation of a decimal mark: NaN for a text that is none.

    Digits may stand in groups of three (separated by the other mark, a blank or an apostrophe), with a currency or a
    percent sign around. ``12.-`` is 12, ``(12)`` and ``12-`` are -12.
    """
    import pandas as pd

    cells: pd.Series[str] = pd.Series(list(texts), dtype="str")
    values = _floats(cells if decimal == "." else _with_point(cells))
    unread = np.flatnonzero(np.isnan(values))
    if len(unread):
        values[unread] = _floats(_ungrouped(cells.iloc[unread], decimal))
    return values


def _floats(texts: pd.Series[str]) -> FloatArray:
    import pandas as pd

    return pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan).copy()


def _with_point(texts: pd.Series[str]) -> pd.Series[str]:
    """Texts with a decimal point for a comma; those that have a point are no numbers in this notation."""
    return texts.where(~texts.str.contains(".", regex=False), "x").str.replace(",", ".", n=1, regex=False)


def _ungrouped(texts: pd.Series[str], decimal: DecimalMark) -> pd.Series[str]:
    """Plain numbers of those with groups of three digits or signs around; others become no number."""
    other = "," if decimal == "." else "."
    pattern = re.compile(
        rf"(\d+|[1-9]\d{{0,2}}([{other}{_BLANK_MARKS}])\d{{3}}(?:\2\d{{3}})*)(?:\{decimal}(\d*))?(?:[eE]([+-]?\d+))?"
    )

    def plain(text: str) -> str:
        amount = _AMOUNT.fullmatch(text.strip(_BLANK_MARKS))
        number = pattern.fullmatch(amount["number"].strip(_BLANK_MARKS)) if amount else None
        if not amount or not number or [amount["early"], amount["close"]].count(")") != bool(amount["open"]):
            return "x"
        signs = [amount["open"] and "-", amount["sign"], amount["inner"], amount["last"]]
        if sum(map(bool, signs)) > 1:
            return "x"
        digits = "".join(letter for letter in number[1] if letter.isdigit())
        sign = "-" if any(one in ("-", "−", "–") for one in signs) else ""
        return f"{sign}{digits}.{number[3] or '0'}e{number[4] or '0'}"

    return texts.map(plain)


def currency_of(text: str) -> str:
    """Name what an amount is counted in, such as ``EUR`` or ``%``; empty where it doesn't say."""
    amount = None if text.isdigit() else _AMOUNT.fullmatch(text)
    unit = ((amount["unit"] or amount["behind"] or "") if amount else "").upper().rstrip(".")
    return _CURRENCIES.get(unit, unit)


def begins_as_a_number(text: str) -> bool:
    """Tell whether a short text begins as numbers and dates do: ``12 kg``, ``1,234.50CR``, ``2024Q1``."""
    return _BEGINS_AS_A_NUMBER.fullmatch(text) is not None


def is_like_a_code(text: str) -> bool:
    """Tell whether a text is a whole number with an exponent and no sign, as codes may be: ``1E3``."""
    return _LIKE_A_CODE.fullmatch(text) is not None


def notation_of(texts: Sequence[str], weights: NDArray[np.int64]) -> DecimalMark | Literal["either", "same"]:
    """Tell which decimal mark a column is written with.

    Returns the mark; ``same`` where it makes no difference; ``either`` where both readings are numbers, and different
    ones.
    """
    marked = [at for at, text in enumerate(texts) if "," in text or "." in text]
    first = _notation_of(texts, weights, marked[:_SAMPLE])
    # What few texts leave open more may tell.
    return first if first in (".", ",") or len(marked) <= _SAMPLE else _notation_of(texts, weights, marked)


def _notation_of(
    texts: Sequence[str], weights: IntArray, marked: Sequence[int]
) -> DecimalMark | Literal["either", "same"]:
    if not marked:
        return "same"
    marked_texts = [texts[at] for at in marked]
    point, comma = read_numbers(marked_texts, "."), read_numbers(marked_texts, ",")
    as_point, as_comma = (weights[marked][~np.isnan(read)].sum() for read in (point, comma))
    if as_point != as_comma:
        return "." if as_point > as_comma else ","
    return "same" if np.array_equal(point, comma, equal_nan=True) else "either"


# --- dates --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dates:
    """Texts read as dates.

    Attributes:
        days: since 1970, with fractions for times of day (UTC where a zone is given); NaN for a text that is no date.
        order: ``day first`` or ``month first`` where the form leaves it open, else empty.
        ambiguous: whether the other order would have done as well.
        has_short_years: whether years have two digits.
    """

    days: FloatArray
    order: str = ""
    ambiguous: bool = False
    has_short_years: bool = False


def read_dates(texts: Sequence[str], weights: NDArray[np.int64]) -> Dates | None:
    """Read dates: ISO 8601 and the common local forms; None for texts of which most are none in any one form."""
    sample = [_in_english(text) for text in texts[:_SAMPLE]]
    if sum(_LOOKS_LIKE_A_DATE.fullmatch(text) is not None for text in sample) < 0.5 * len(sample):
        return None
    texts = [_in_english(text) for text in texts]
    best, most = None, 0
    for form in _forms(sample, weights[:_SAMPLE]):
        days = _days(texts, form)
        count = weights[~np.isnan(days)].sum()
        order = _order(form)
        if count > most:
            best, most = Dates(days, order, has_short_years="%y" in form), count
        elif best and count == most and order == "month first" and best.order == "day first":
            differ = not np.array_equal(best.days, days, equal_nan=True)
            # Dates with points have the day first wherever they are written.
            best = replace(best, ambiguous=differ and "." not in form)
        if most == weights.sum() and best is not None and best.order != "day first":
            break
    return best


def _in_english(text: str) -> str:
    """A date with a month's name in any of the languages as 31-Dec-2024; a week, month or quarter as its first day."""
    if match := _WEEK.fullmatch(text):
        with suppress(ValueError):
            monday = date.fromisocalendar(int(match["x"] or match["y"]), int(match["a"] or match["b"]), 1)
            return f"{monday.day}-{_ENGLISH[monday.month - 1]}-{monday.year}"
    if match := _QUARTER.fullmatch(text):
        quarter, year = (next(filter(None, match.group(*names))) for names in ("abc", "xyz"))
        return f"1-{_ENGLISH[3 * int(quarter) - 3]}-{year}"
    if match := _WORD_AND_YEAR.fullmatch(text):
        # Without a day a word is a month's name or none: Market 2024, Novartis 2024.
        is_whole = any(words.fullmatch(match[1].lower()) for words in _MONTH_WORDS.values())
        return _of_month(text, "1", *match.groups()) if is_whole else text
    dated = text[weekday.end() :] if (weekday := _WEEKDAY.match(text)) else text
    return _DAY_AND_WORD.sub(lambda found: _of_month(found[0], *found.groups()), dated)


def _of_month(text: str, day: str, word: str, year: str) -> str:
    """The day in English, or the text where the word begins as no month: other languages have endings of their own."""
    month = next((name for name, words in _MONTH_WORDS.items() if words.match(word.lower())), None)
    return f"{day}-{month}-{year}" if month else text


def _forms(sample: Sequence[str], weights: IntArray) -> Iterator[str]:
    """Forms that read most of a sample, ISO 8601 first, those with the day first before those with the month first."""
    named = ("%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y")
    local = [f"%{a}{mark}%{b}{mark}%{y}" for mark in "./-" for y in "Yy" for a, b in (("d", "m"), ("m", "d"))]
    ones = ["ISO8601", "%Y%m%d", "%Y%m", "%Y", "%Y/%m/%d", "%Y.%m.%d", "%m/%Y", *local, *named]
    for form in ones:
        times = ("",) if form == "ISO8601" else ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
        for time in times:
            if weights[np.isnan(_days(sample, form + time))].sum() <= 0.5 * weights.sum():
                yield form + time


def iso_days(texts: Sequence[str]) -> FloatArray:
    """Days since 1970 (n,) of dates and moments as ISO 8601 writes them, of any year; NaN for other text."""
    return _days(texts, "ISO8601")


def _days(texts: Sequence[str], form: str) -> FloatArray:
    import pandas as pd

    cells = pd.Series(list(texts), dtype=object)
    if form == "ISO8601":  # a number of four or eight digits has a form of its own
        cells = cells.where(~cells.str.fullmatch(r"\d+"), "")
    days = days_since_1970(pd.to_datetime(cells, format=form, errors="coerce", utc=True))
    # Older versions have moments of nanoseconds only, of which there are none beyond the year 2262.
    for place in np.flatnonzero(np.isnan(days)):
        days[place] = _far_day(texts[int(place)], form)
    return days


def _far_day(text: str, form: str) -> float:
    """Days since 1970 of a date some centuries away; NaN for any other text."""
    year = _YEAR.search(text)
    if year is None or 1700 < int(year[0]) < 2200 or not _LOOKS_LIKE_A_DATE.fullmatch(text):
        return float("nan")
    try:
        moment = datetime.fromisoformat(text) if form == "ISO8601" else datetime.strptime(text, form)
    except ValueError:
        return float("nan")
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(days=1)


def days_since_1970(moments: pd.Series[pd.Timestamp]) -> FloatArray:
    """Turn timestamps into days (n,), NaN for none."""
    zoned = moments if getattr(moments.dtype, "tz", None) is not None else moments.dt.tz_localize("UTC")
    # In nanoseconds there is no year 1000, nor 9999.
    microseconds = zoned.dt.as_unit("us").to_numpy(dtype="datetime64[us]")
    return np.where(np.isnat(microseconds), np.nan, microseconds.astype(np.int64) / _DAY)


def with_open_ends(days: FloatArray) -> FloatArray:
    """Dates (n,) of which those some centuries away stand for none: 9999-12-31 for no end, 0001-01-01 for no beginning.

    They become infinity and its opposite, unless they are many different ones and most of the column: then dates are
    what they are.
    """
    ended = days.copy()
    for is_far, value in ((days > _LAST, np.inf), (days < _FIRST, -np.inf)):
        few = len(np.unique(days[is_far])) <= _FEW_ENDS or 2 * is_far.sum() < (~np.isnan(days)).sum()
        ended[is_far & few] = value
    return ended if np.isfinite(ended).any() else days


def _order(form: str) -> str:
    return {"%d": "day first", "%m": "month first"}.get(form[:2], "") if "%m" in form and "%d" in form else ""
