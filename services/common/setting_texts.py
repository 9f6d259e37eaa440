"""Settings as a person writes them into the environment, and back."""

import json
from collections.abc import Sequence
from typing import Any


def is_address(text: str, *, least_port: int) -> bool:
    """Tell whether this is HOST:PORT."""
    host, _, port = text.rpartition(":")
    return bool(host) and port.isascii() and port.isdecimal() and least_port <= int(port) < 1 << 16


def listed(text: str) -> list[str]:
    """List the names of a comma-separated text."""
    return [name.strip() for name in text.split(",") if name.strip()]


def pairs(text: str) -> dict[str, str]:
    """Read COLUMN=ENCODING, comma-separated; raises ValueError for an entry without a column."""
    found = [entry.rpartition("=") for entry in listed(text)]
    if wrong := [encoding for column, _, encoding in found if not column.strip()]:
        raise ValueError(f"expected COLUMN=ENCODING, such as zip=onehot, got {wrong[0]!r}")
    return {column.strip(): encoding.strip() for column, _, encoding in found}


def from_json(text: str, expected: str) -> Any:
    """Read JSON; raises ValueError with what was expected."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"expected {expected}, got {text!r}") from error


def as_text(value: Any) -> str:
    """A setting as one writes it into the environment; empty for None and for empty collections."""
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
    """A comma-separated list, if it is read as these names: a column's name may hold anything. Else nothing."""
    text = ",".join(names)
    return text if listed(text) == list(names) and not text.startswith(("[", "{")) else ""
