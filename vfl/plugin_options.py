"""What a plugin says of itself and of its options, read from its class."""

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any, get_type_hints

from vfl.plugin_registry import in_words


@dataclass(frozen=True)
class PluginOption:
    """One option of a plugin.

    Attributes:
        name: of the option.
        kind: what it takes, in words.
        default: what it is when it isn't given; None where it has to be given, as is_required says, or is none.
        is_required: whether there is no default.
        meaning: what the plugin's docstring says of it; empty for nothing.
    """

    name: str
    kind: str
    default: Any
    is_required: bool
    meaning: str


def described(default: Any, description: str, holds: Callable[[Any], bool] | None = None, expected: str = "") -> Any:
    """Describe a field: its default, what it means, and which values can work, as a test and in words."""
    return field(default=default, metadata={"description": description, "holds": holds, "expected": expected})


def from_to(least: int, most: int) -> tuple[Callable[[Any], bool], str]:
    """Say which whole numbers can work, as a test and in words."""
    return lambda value: least <= value <= most, f"from {least} to {most}"


def expected_of(option: Field[Any], value: Any) -> str:
    """Say which values of a described field can work, in words. Empty when this one can."""
    facts = option.metadata
    return "" if facts["holds"] is None or facts["holds"](value) else str(facts["expected"])


def options_of(plugin: Any) -> tuple[PluginOption, ...]:
    """List the options of a plugin's class, in the order of its fields; none for a class that is no dataclass."""
    if not is_dataclass(plugin):
        return ()
    try:
        hints = get_type_hints(plugin)
    except Exception:
        hints = {}  # another package's annotations may name what exists for its type checker only
    meanings = dict(_attributes(inspect.getdoc(plugin) or ""))
    return tuple(
        PluginOption(
            one.name,
            in_words(hints.get(one.name, one.type)),
            None if (default := _default(one)) is MISSING else default,
            default is MISSING,
            meanings.get(one.name, ""),
        )
        for one in fields(plugin)
        if one.init
    )


def first_line(plugin: Any) -> str:
    """Read the first line of a class's own docstring; empty without one. A dataclass's made-up one doesn't count."""
    text = inspect.cleandoc(vars(plugin).get("__doc__") or "")
    made_up = text.startswith(f"{getattr(plugin, '__name__', '')}(")
    return "" if made_up else text.partition("\n")[0]


def _default(option: Field[Any]) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _attributes(docstring: str) -> Iterator[tuple[str, str]]:
    """Names and meanings of the section ``Attributes:``."""
    section = re.search(r"^Attributes:\n((?:[ \t]+.*\n?|\n)+)", docstring, re.MULTILINE)
    for entry in re.split(r"\n(?= {4}\w)", section[1].rstrip()) if section else ():
        name, _, meaning = entry.strip().partition(": ")
        yield name, " ".join(meaning.split())
