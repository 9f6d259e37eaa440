"""Named plugins: an explicit dict of what is built in, plus what other packages offer under an entry-point group."""

import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.metadata import entry_points
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

# No text for a number, no true for 1, no NaN or infinity.
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
}


@dataclass(frozen=True)
class PluginRegistry:
    """Plugins of one kind; each is a frozen dataclass whose fields are its options.

    built_in: name -> "module:class". Modules are imported when a plugin is loaded: some need torch, which services
    start without. unknown: the ValueError that a name which nothing has raises, with the list of those there are.
    """

    kind: str
    entry_point_group: str
    built_in: Mapping[str, str]
    unknown: type[ValueError]

    def names(self) -> tuple[str, ...]:
        """Names of all plugins, built in and installed, sorted."""
        installed = (point.name for point in entry_points(group=self.entry_point_group))
        return tuple(sorted({*self.built_in, *installed}))

    def class_of(self, name: str) -> Any:
        """The class behind a name; raises ``unknown``."""
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            return getattr(import_module(module), attribute)
        for point in entry_points(group=self.entry_point_group):
            if point.name == name:
                return point.load()
        raise self.unknown(f"Unknown {self.kind} {name!r}. Known: {', '.join(self.names())}.")

    def load(self, name: str, /, **options: Any) -> Any:
        """A plugin by name, with its options as they are, also one that is called name.

        Raises ``unknown``, or ValueError: for an option that the plugin doesn't have, one that isn't what its field's
        annotation says, and whatever the plugin itself refuses.
        """
        chosen = self.class_of(name)
        misfit = _misfit(name, chosen, options)
        try:
            loaded = chosen(**options)
        except ValueError:
            raise  # the plugin knows its ranges, so its own sentence says more than the annotation does
        except Exception as error:
            if misfit:
                raise ValueError(misfit) from error
            if not isinstance(error, TypeError):
                raise
            known = ", ".join(field.name for field in fields(chosen) if field.init) or "none"
            raise ValueError(f"{name} can't take {', '.join(options)}: {error}. Its options: {known}.") from error
        if misfit:
            raise ValueError(misfit)
        return loaded


def _misfit(name: str, chosen: Any, options: Mapping[str, Any]) -> str:
    """A sentence on the first option that isn't what its field's annotation says; empty when all are."""
    if not options:
        return ""
    try:
        hints = get_type_hints(chosen)
    except Exception:
        return ""  # another package's annotations may name what exists for its type checker only
    for field in fields(chosen):
        if field.name in options and not _fits(options[field.name], hint := hints[field.name]):
            given = reprlib.repr(options[field.name])  # cuts what would fill a screen
            return f"{name}: expected {field.name} to be {_in_words(hint)}, got {given}."
    return ""


def _fits(value: Any, hint: Any) -> bool:
    """Whether an option is what an annotation says, as JSON: a list is a tuple, a path a text, numpy's numbers numbers.

    True for annotations that pydantic can't check.
    """
    try:
        expected: TypeAdapter[Any] = TypeAdapter(hint, config=_STRICT)
    except Exception:
        return True
    try:
        text = to_json(value, inf_nan_mode="constants", fallback=_from_numpy)
    except PydanticSerializationError:
        text = b""  # from Python code, e.g. a function
    try:
        read = expected.validate_json(text) if text else expected.validate_python(value)
    except ValidationError:
        return False
    # Literal compares by ==, which takes true and 1.0 for 1.
    return not (type(read) is int and text and type(from_json(text)) is not int)


def _from_numpy(value: Any) -> Any:
    """Numbers and lists of a numpy scalar or array; raises TypeError for anything else."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"{value!r} is not JSON.")
    return value.tolist()


def _in_words(hint: Any) -> str:
    """What an annotation asks for, in words that those who write options use."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is Literal:
        return "one of " + ", ".join(str(choice) for choice in inner)
    if origin in (Union, UnionType):
        return " or ".join(_in_words(part) for part in inner)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "an object"
    if isinstance(kind, type) and issubclass(kind, Collection):
        return f"a list, each entry {_in_words(inner[0])}" if inner else "a list"
    return str(getattr(hint, "__name__", hint))
