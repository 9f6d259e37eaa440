"""Settings as a person writes them into the environment, and back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vfl.data.columns import ENCODINGS
from vfl.data.encodings import is_encoding
from vfl.suggestions import did_you_mean


def is_address(text: str, *, least_port: int) -> bool:
    """Tell whether this is HOST:PORT."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and least_port <= int(port) < 1 << 16


def listed(text: str) -> list[str]:
    """List the names of a comma-separated text."""
    return [name.strip() for name in text.split(",") if name.strip()]


def listed_labels(text: str) -> list[str]:
    """List the labels of a comma-separated text; a comma within brackets or quotes is part of a label."""
    labels, depth, is_quoted = [""], 0, False
    for character in text:
        is_quoted ^= character == '"'
        depth += 0 if is_quoted else (character in "([") - (character in ")]")
        if character == "," and depth <= 0 and not is_quoted:
            labels.append("")
        else:
            labels[-1] += character
    return [label.strip() for label in labels if label.strip()]


def attacks_labelled(labels: Iterable[str], options: Mapping[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Read labels of attacks, such as ``gia(init=half, steps=50)``: their names, and the options of each.

    Args:
        labels: as reports print them; a name alone is an attack without options, and a name may stand in several.
        options: by name, of attacks whose labels have none.

    Raises:
        ValueError: for a label that can't be read, and an attack with options in both places.
    """
    options_by_name: dict[str, list[dict[str, Any]]] = {}
    for label in labels:
        name, attack_options = _read_label(label)
        options_by_name.setdefault(name, []).append(attack_options)
    labelled = {name: chosen for name, chosen in options_by_name.items() if any(chosen)}
    if twice := sorted(labelled.keys() & options.keys()):
        raise ValueError(f"{twice[0]} has options behind its name and in attack_options: give them in one place.")
    # Who names an attack twice without options is told so.
    names = (name for name, chosen in options_by_name.items() for _ in range(1 if name in labelled else len(chosen)))
    return tuple(names), {**options, **labelled}


def _read_label(label: str) -> tuple[str, dict[str, Any]]:
    name, bracket, rest = label.strip().partition("(")
    if not bracket:
        return name, {}
    entries = [entry.partition("=") for entry in listed_labels(rest[:-1])]
    if (
        not rest.endswith(")")
        or not entries
        or not all(option.strip() and value.strip() for option, _, value in entries)
    ):
        raise ValueError(f"{label[:120]!r}: write the options of {name} as in gia(init=half, steps=50).")
    return name.strip(), {option: _value(value) for option, _, value in entries}


def _value(text: str) -> Any:
    """Read a number, true, false, a list or a text in quotes as JSON has it; anything else is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def pairs(text: str) -> dict[str, str]:
    """Read COLUMN=ENCODING, comma-separated; raises ValueError for an entry without a column."""
    entries = [entry.rpartition("=") for entry in listed(text)]
    if wrong := [encoding for column, _, encoding in entries if not column.strip()]:
        raise ValueError(f"expected COLUMN=ENCODING, such as zip=onehot, got {wrong[0]!r}")
    return {column.strip(): encoding.strip() for column, _, encoding in entries}


def from_json(text: str, expected: str) -> Any:
    """Read JSON; raises ValueError with what was expected."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"expected {expected}, got {text!r}") from error


def as_text(value: Any) -> str:
    """Write a setting into the environment; empty for None and for empty collections."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return _joined(value) or json.dumps(value) if value else ""
    if isinstance(value, dict):
        is_flat = all(isinstance(one, str) and name == name.strip() != "" for name, one in value.items())
        entries = [f"{name}={one}" for name, one in value.items()]
        return (is_flat and _joined(entries)) or json.dumps(value) if value else ""
    return "" if value is None else str(value)


def _joined(names: Sequence[str]) -> str:
    """Join a comma-separated list, if it is read as these names: a column's name may hold anything. Else nothing."""
    text = ",".join(names)
    return text if listed(text) == list(names) and not text.startswith(("[", "{")) else ""


def read_names(value: Any) -> Any:
    """Read a setting that lists names, unless it is read already; so do all below."""
    return listed(value) if isinstance(value, str) else value


def read_columns(value: Any) -> Any:
    """Read one that lists columns, or is a JSON list of them."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        return from_json(value, 'a JSON list such as ["age", "c*"]')
    return read_names(value)


def read_options(value: Any) -> Any:
    """Read one that has options as JSON."""
    return from_json(value, 'JSON such as {"gia": {"init": "half"}}') if isinstance(value, str) else value


def read_peers(value: Any) -> Any:
    """Read NAME=HOST:PORT, comma-separated; raises ValueError for another entry."""
    if not isinstance(value, str):
        return value
    peers = {}
    for entry in listed(value):
        name, separator, address = entry.partition("=")
        if not separator or not is_address(address.strip(), least_port=1):
            raise ValueError(f"expected NAME=HOST:PORT, got {entry!r}")
        peers[name.strip()] = address.strip()
    return peers


def read_encodings(value: Any) -> Any:
    """Read COLUMN=ENCODING, comma-separated, or a JSON object; raises ValueError for an encoding that there isn't."""
    if isinstance(value, str):
        is_json = value.lstrip().startswith("{")
        value = from_json(value, 'a JSON object such as {"zip": "onehot"}') if is_json else pairs(value)
    for column, encoding in value.items() if isinstance(value, Mapping) else ():
        if encoding not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            meant = did_you_mean(str(encoding), ENCODINGS)
            raise ValueError(f"column {column!r} can become one of {known}; got {encoding!r}.{meant}")
    return value


def checked_encoding(value: str) -> str:
    """Give an encoding of text; raises ValueError for a name that Python doesn't know."""
    if value and not is_encoding(value):
        raise ValueError(f"expected an encoding of text, such as gb18030 or windows-1251, got {value!r}")
    return value


def checked_share(value: str) -> str:
    """Give a share of a table; raises ValueError for anything but K/N."""
    if value:
        index, _, count = value.partition("/")
        if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
            raise ValueError(f"expected K/N with 1 <= K <= N, such as 1/2, got {value!r}")
    return value
