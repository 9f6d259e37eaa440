"""Forms in which the same id or label may be written: the one that each cell has, and what may count as the same.

A cell's form follows from its own text and type alone. Were it read off the other cells of its column, one party would
read an id otherwise than the next, whose column has other rows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

# Marks that nobody sees, copied along from pages and mails: no break, a byte order mark, the direction of writing.
INVISIBLE = "\u200b\ufeff\u200e\u200f"
# How programs write whole numbers that they keep as floats: 12.0 and, of R and Python, 1e+05. Without its plus, 1E2 is
# a code: wing E, bed 2.
_WHOLE_FLOAT = re.compile(
    r"-?(?:0|[1-9]\d*)\.0*|-?[1-9](?:\.(?P<decimals>\d+))?e\+(?P<exponent>\d{1,2})", re.IGNORECASE
)
_INVISIBLE = str.maketrans("", "", INVISIBLE)
# From there on neighbouring whole numbers share a float of 64 bits.
_FLOAT_LIMIT = 2**53
# A number's zeros in front: those of 007 and K007, none of 100 and 1.05.
_LEADING_ZEROS = re.compile(r"(?<![\d.,])0+(?=\d)")


@dataclass(frozen=True)
class Form:
    """A difference that two ways to write the same may have.

    Attributes:
        words: what it is: ``leading zeros``.
        bare: writes a text without it.
    """

    words: str
    bare: Callable[[str], str]


_BOOLEANS = {"true": "1", "false": "0"}
_ZEROS = Form("leading zeros", lambda text: _LEADING_ZEROS.sub("", text))
_CASE = Form("capital letters", str.casefold)
_UNICODE = Form("how letters are composed", lambda text: unicodedata.normalize("NFKC", text))
# What may not count in ids, and in labels, by the word that asks for it.
ID_FORMS: Mapping[str, Form] = {
    "zeros": _ZEROS,
    "case": _CASE,
    "unicode": _UNICODE,
    "spaces": Form("blanks", lambda text: re.sub(r"\s", "", text)),
    "marks": Form("blanks, points and dashes", lambda text: re.sub(r"[\W_]", "", text)),
    "letters": Form("what isn't a digit", lambda text: re.sub(r"\D", "", text)),
}
LABEL_FORMS: Mapping[str, Form] = {
    "zeros": _ZEROS,
    "case": _CASE,
    "unicode": _UNICODE,
    "marks": Form("marks at the end", lambda text: text.rstrip(" .,;:!*") or text),
    "booleans": Form("True and False for 1 and 0", lambda text: _BOOLEANS.get(text.casefold(), text)),
}


def plain_text(text: str) -> str:
    """Write a text without blanks around it and without marks that nobody sees, as a text file is read.

    Examples:
        >>> plain_text(" 8\u200b\u00a0")
        '8'
    """
    return text.strip() if text.isascii() else text.translate(_INVISIBLE).strip()


def whole_text(text: str) -> str:
    """Write a text as digits where it is a whole number that a program kept as a float; any other stays as it is.

    Examples:
        >>> [whole_text(text) for text in ("12.0", "1e+05", "1E2", "007", "1.5", "9007199254740993.0")]
        ['12', '100000', '1E2', '007', '1.5', '9007199254740993.0']
    """
    if text.isalnum() or not is_whole_float(text):
        return text
    digits = str(int(Decimal(text)))
    return text if has_lost_digits(text) else digits


def is_whole_float(text: str) -> bool:
    """Tell whether a text is a whole number as programs write those that they keep as floats."""
    match = _WHOLE_FLOAT.fullmatch(text)
    return match is not None and len(match["decimals"] or "") <= int(match["exponent"] or 0)


def has_lost_digits(text: str) -> bool:
    """Tell whether a text is a whole number beyond those that a float of 64 bits tells from their neighbours."""
    return not text.isalnum() and is_whole_float(text) and abs(Decimal(text)) >= _FLOAT_LIMIT


def bare_text(text: str, ignored: Sequence[str], forms: Mapping[str, Form]) -> str:
    """Write a text without the differences that don't count, in the order in which ``forms`` lists them."""
    for name, form in forms.items():
        if name in ignored:
            text = form.bare(text)
    return text
