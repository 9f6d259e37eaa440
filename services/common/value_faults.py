"""What is wrong with a value that was read, in words of ours: who gives one needn't know what reads it."""

from collections.abc import Mapping
from typing import Any

from pydantic_core import ErrorDetails, ValidationError

# By a fault's type, or by what stands before its first underscore.
_EXPECTED: Mapping[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text",
    "bytes": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "an object",
    "mapping": "an object",
    "dataclass": "an object",
    "model": "an object",
    "json": "JSON",
    "missing": "an entry that isn't there",
    "extra": "no entry of this name",
    "unexpected": "no entry of this name",
    "literal_error": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "too_short": "{min_length} entries or more",
    "too_long": "{max_length} entries at most",
}


def fault_words(fault: ErrorDetails) -> str:
    """Say what was expected in place of a value: ``expected a whole number``; or what its own check says."""
    kind, context = fault["type"], dict[str, Any](fault.get("ctx", {}))
    if kind in ("value_error", "assertion_error"):
        return fault["msg"].partition(", ")[2]
    expectation = _EXPECTED.get(kind) or _EXPECTED.get(kind.partition("_")[0], "something else")
    return f"expected {expectation.format(**context)}"


def error_words(error: Exception) -> str:
    """Say in a line why something couldn't be read, of values with their place: ``plan.epochs: expected a number``."""
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, fault["loc"]))
        return f"{place}: {fault_words(fault)}" if place else fault_words(fault)
    lines = str(getattr(error, "strerror", None) or error).splitlines()
    return lines[0] if lines else type(error).__name__
