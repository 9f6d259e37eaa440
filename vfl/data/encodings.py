"""What a text file's bytes are letters of: found out where they say it, guessed with a word, or asked for.

Cells are personal data: no message of this module shows one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from vfl.data.faults import TableError, quoted_path

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: ("utf-8", "UTF-8"),
    # Before those of UTF-16, which are their beginnings.
    codecs.BOM_UTF32_LE: ("utf-32-le", "UTF-32"),
    codecs.BOM_UTF32_BE: ("utf-32-be", "UTF-32"),
    codecs.BOM_UTF16_LE: ("utf-16-le", "UTF-16"),
    codecs.BOM_UTF16_BE: ("utf-16-be", "UTF-16"),
}
# Letters that aren't ASCII, and within a word those that are umlauts and accents in UTF-8: in Windows-1252, nothing
# that is written.
_RUN = re.compile(rb"[\x80-\xff]+")
_UTF8_LETTERS = re.compile(
    rb"(?<=[A-Za-z])(?:\xc3[\x80-\xbf])+(?![\x80-\xff])|(?<![\x80-\xff])(?:\xc3[\x80-\xbf])+(?=[A-Za-z])"
)
# In Windows-1252: letters of Western Europe, and signs.
_WESTERN = set("àáâãäåæçèéêëìíîïñòóôõöøùúûüÿœšžßÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÑÒÓÔÕÖØÙÚÛÜŒŠŽŸ")
_SIGNS = set("€‚„…†‡‰‹‘’“”•–—™›¡¢£¤¥¦§¨©ª«¬®¯°±²³´µ¶·¸¹º»¼½¾¿×÷\u00a0\u00ad")
# Signs that all of Windows' encodings write alike, those that stand beside a letter, and those within a word.
_ALIKE = set("€‚„…†‡‰‹‘’“”•–—™›¤¦§©«¬®°±µ¶·»\u00a0\u00ad")
_BESIDE = set("‚„…‹‘’“”•–—™›¡§©ª«®°²³µ·º»¿\u00a0\u00ad")
_INSIDE = set("’‘–—·…\u00a0\u00ad")
_CONTROLS = re.compile("[\x80-\x9f]")
# Signs that a word may have inside.
_INSIDE = set("’‘–—·…\u00a0\u00ad")
# Lines with such letters that are looked at, and bytes of each.
_LINES, _SAMPLE = 2_000, 1_000
# What is guessed: encodings that tables are exported in, by the guesser's names. Others are asked for.
_GUESSED = frozenset(
    {
        *("GB18030", "Big5", "CP932", "SHIFT_JIS", "EUC-JP", "CP949", "EUC-KR", "KOI8-R", "KOI8-U", "CP874", "TIS-620"),
        *(f"Windows-{number}" for number in range(1250, 1259)),
        *("ISO-8859-2", "ISO-8859-7", "ISO-8859-9", "ISO-8859-15"),
    }
)
# A guess counts from this confidence on, where no other reading has nearly as much; against Windows-1252, which fits
# as well, where it has twice as much.
_CONFIDENT, _NEARLY, _TWICE = 0.02, 0.9, 2.0


def decoded(content: bytes, path: Path, encoding: str = "") -> tuple[bytes | bytearray, str, str]:
    """Bring text to UTF-8.

    Args:
        content: of the file, without a byte order mark of UTF-16 or UTF-32.
        path: of the file, for messages.
        encoding: as its owner says; empty to find out.

    Returns:
        The text, the name of its encoding, and a sentence where that is a guess.

    Raises:
        TableError: for text in no encoding, in two, in one that nobody can tell, and in another one than its owner
            says.
    """
    if encoding:
        with suppress(UnicodeDecodeError):
            return recoded(content, encoding), encoding, ""
        raise TableError(f"The file {quoted_path(path)} is no text in {encoding}: check --encoding, or leave it out.")
    with suppress(UnicodeDecodeError):
        return recoded(content, "utf-8"), "UTF-8", ""
    _check_one_encoding(content, path)
    if codec := _guessed(content):
        name = "Windows-1252" if codec == "cp1252" else codec
        note = f"Read as {name}, a guess by its letters: if names look wrong, say which it is with --encoding."
        with suppress(UnicodeDecodeError):
            return recoded(content, codec), name, "" if _has_signs_alone(content) else note
    raise TableError(
        f"The file {quoted_path(path)} isn't UTF-8, and its letters don't tell what it is: say it with --encoding, "
        "such as windows-1252, windows-1251, gb18030, big5 or shift_jis, or save it as UTF-8."
    )


def recoded(content: bytes, codec: str) -> bytes | bytearray:
    """Write the same text in UTF-8, a part at a time: as a Python string it may take four times as much."""
    part = 1 << 20
    decoder, text = codecs.getincrementaldecoder(codec)(), bytearray()
    for start in range(0, len(content) + 1, part):
        letters = decoder.decode(content[start : start + part], start + part > len(content))
        if codec != "utf-8":
            text += letters.encode()
    return content if codec == "utf-8" else text


def is_encoding(name: str) -> bool:
    """Tell whether Python knows an encoding of text by this name."""
    with suppress(LookupError, ValueError):
        b"".decode(name)
        codecs.getincrementaldecoder(name)
        return True
    return False


def _guessed(content: bytes) -> str:
    """Guess a codec by letters; empty where several fit as well."""
    # Slow to import, and few files need it.
    import chardet

    is_western = _is_western(content)
    if _has_signs_alone(content):
        return "cp1252"
    lines = islice(re.finditer(rb"[^\r\n]*[\x80-\xff][^\r\n]*", content), _LINES)
    sample = b"\n".join(line[0][:_SAMPLE] for line in lines)
    confidence = {str(one["encoding"]): float(one["confidence"]) for one in chardet.detect_all(sample)}
    readings = {name: text for name in confidence if name in _GUESSED if (text := _read(sample, name)) is not None}
    best = max(readings, key=lambda name: confidence[name], default="")
    if is_western:
        western = _read(sample, "cp1252")
        same = max((confidence[name] for name in readings if readings[name] == western), default=0.0)
        if not best or readings[best] == western or confidence[best] < max(_CONFIDENT, _TWICE * same):
            return "cp1252"
    rivals = [confidence[name] for name in readings if readings[name] != readings[best]]
    return best if best and confidence[best] >= max([_CONFIDENT, *(one / _NEARLY for one in rivals)]) else ""


def _read(sample: bytes, codec: str) -> str | None:
    """Read a sample; None for what isn't written in this encoding, or would have marks that no text has."""
    with suppress(UnicodeDecodeError, LookupError):
        text = sample.decode(codec)
        return None if _CONTROLS.search(text) else text
    return None


def _is_western(content: bytes) -> bool:
    """Tell whether text looks written in Windows-1252: accents within words, signs beside them."""
    with suppress(UnicodeDecodeError):
        return all(_is_western_run(letters, before, behind) for letters, before, behind in _runs(content))
    return False


def _runs(content: bytes) -> Iterator[tuple[str, bool, bool]]:
    """List what isn't ASCII, as Windows-1252 has it, and whether a plain letter stands before and behind it."""
    for run in islice(_RUN.finditer(content), _LINES):
        before, behind = content[run.start() - 1 : run.start()], content[run.end() : run.end() + 1]
        yield run[0].decode("cp1252"), before.isalpha(), behind.isalpha()


def _is_western_run(text: str, before: bool, behind: bool) -> bool:
    if set(text) <= _WESTERN:
        return len(text) <= 1 + before + behind
    natural = _INSIDE if before and behind else _BESIDE if before or behind else _SIGNS
    return set(text) <= natural


def _has_signs_alone(content: bytes) -> bool:
    """Tell whether no byte beyond ASCII is a letter in any of Windows' encodings, so that there is nothing to guess."""
    with suppress(UnicodeDecodeError):
        return all(set(letters) <= _ALIKE for letters, *_ in _runs(content)) and _is_western(content)
    return False


def _check_one_encoding(content: bytes, path: Path) -> None:
    """Refuse text that isn't UTF-8 and has words that are: files that were put together, or one that was damaged."""
    if utf8 := _UTF8_LETTERS.search(content):
        other = next(run.start() for run in _RUN.finditer(content) if not _is_utf8(run[0]))
        first, second = (content.count(b"\n", 0, at) + 1 for at in (utf8.start(), other))
        raise TableError(
            f"The file {quoted_path(path)} has two encodings: line {first:,} has letters in UTF-8, and line {second:,} "
            "some that aren't. Save its parts in one encoding, or export the table again."
        )


def _is_utf8(letters: bytes) -> bool:
    with suppress(UnicodeDecodeError):
        return bool(letters.decode("utf-8"))
    return False
