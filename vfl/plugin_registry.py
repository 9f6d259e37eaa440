"""Attacks and defences by name: those built in, and those that other packages install under an entry-point group."""

import reprlib
import sys
from collections.abc import Collection, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from importlib.metadata import EntryPoint
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from vfl.installed_plugins import InstalledPlugins, error_line, installed_plugins, one_line, origin
from vfl.suggestions import did_you_mean

# No text for a number, no true for 1, no NaN or infinity.
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_MOST_NAMES = 60  # in a message
_WORDS = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a text",
    NoneType: "none",
}


class UnusablePlugin(ValueError):
    """Another package's plugin can't be imported, or made.

    Attributes:
        reason: why, in words that begin with the package.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"{name} can't be used: {reason.rstrip('.')}. Mend or uninstall that package, or leave {name} out."
        )
        self.reason = reason


@dataclass(frozen=True)
class PluginRegistry:
    """Finds plugins of one kind by name. Each plugin is a frozen dataclass whose fields are its options.

    Attributes:
        kind: what a plugin is called in messages.
        entry_point_group: where other packages register theirs; None where only those built in may do.
        built_in: name -> "module:class". A module is imported when its plugin is loaded: some need torch.
        unknown: the error that an unknown name raises.
        unlisted: built-in names that a message doesn't list for who looks for one: they aren't asked for by name.
    """

    kind: str
    entry_point_group: str | None
    built_in: Mapping[str, str]
    unknown: type[ValueError]
    unlisted: Collection[str] = ()

    def names(self) -> tuple[str, ...]:
        """List the names of all plugins, built in and installed, sorted; imports none of them."""
        return tuple(sorted({*self.built_in, *self._installed().points}))

    def usable(self) -> tuple[str, ...]:
        """List the names of those that can be imported; the first time, other packages' are tried in a child."""
        from vfl.plugin_trial import try_out

        brought = self._brought()
        try_out(points[0] for points in brought.values() if len(points) == 1)
        return tuple(name for name in self.names() if name not in brought or not _problem(brought[name]))

    def origins(self) -> Mapping[str, str]:
        """Name those that other packages bring, with the package and the place in it; imports none of them."""
        return {name: _origins(points) for name, points in self._brought().items()}

    def left_out(self) -> tuple[str, ...]:
        """Say, in sentences, what other packages bring that no name leads to."""
        installed = self._installed()
        hidden = {name: points for name, points in installed.points.items() if name in self.built_in}
        return (
            *(f"{name} of {_origins(points)}: Plumbline has one of this name." for name, points in hidden.items()),
            *(
                f"{one_line(point.name)!r} of {origin(point)}: a name has 100 letters, digits and . _ + - at most."
                for point in installed.misnamed
            ),
        )

    def class_of(self, name: str) -> Any:
        """Find the class behind a name. Another package's is tried in a child process before it is imported here.

        Raises:
            ValueError: of the type ``unknown``, for a name that no plugin has; it lists the known ones.
            UnusablePlugin: where another package's can't be imported.
        """
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            return getattr(import_module(module), attribute)
        points = self._installed().points.get(name)
        if points is None:
            raise self._unknown(name)
        if problem := _problem(points):
            raise UnusablePlugin(name, f"{_origins(points)} {problem}")
        try:
            with redirect_stdout(sys.stderr):  # standard output has results, as JSON perhaps
                return points[0].load()
        except (Exception, SystemExit) as error:
            raise self._unusable(name, error) from error

    def _unusable(self, name: str, error: BaseException) -> UnusablePlugin:
        return UnusablePlugin(name, f"{self.origins()[name]} fails here: {error_line(error)}")

    def _installed(self) -> InstalledPlugins:
        return installed_plugins(self.entry_point_group) if self.entry_point_group else InstalledPlugins({}, ())

    def _brought(self) -> Mapping[str, tuple[EntryPoint, ...]]:
        return {name: points for name, points in self._installed().points.items() if name not in self.built_in}

    def check(self, name: str) -> None:
        """Refuse a name that no plugin has, without importing one; raises ValueError of the type ``unknown``."""
        if name not in self.names():
            raise self._unknown(name)

    def _unknown(self, name: str) -> ValueError:
        names = [one for one in self.names() if one not in self.unlisted]
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        listed = f"{', '.join(names[:_MOST_NAMES])}{more}"
        return self.unknown(f"Unknown {self.kind} {name!r}. Known: {listed}.{did_you_mean(name, names)}")

    def load(self, name: str, /, **options: Any) -> Any:
        """Make a plugin from its name and options.

        Raises:
            ValueError: of the type ``unknown`` for an unknown name; otherwise for an option that the plugin lacks, that
                is not what its field's annotation says, or that the plugin itself refuses.
            UnusablePlugin: where another package's can't be imported, or fails to be made.
        """
        plugin = self.class_of(name)
        misfit = _misfit(name, plugin, options)
        try:
            with redirect_stdout(sys.stderr):
                loaded = plugin(**options)
        except ValueError:
            raise  # the plugin knows its ranges, so its own sentence says more than the annotation does
        except (Exception, SystemExit) as error:
            if misfit:
                raise ValueError(misfit) from error
            if isinstance(error, TypeError):
                names = [one.name for one in fields(plugin) if one.init] if is_dataclass(plugin) else []
                raise ValueError(_refusal(name, names, options, error)) from error
            if name in self.built_in:
                raise
            raise self._unusable(name, error) from error
        if misfit:
            raise ValueError(misfit)
        return loaded


def _origins(points: tuple[EntryPoint, ...]) -> str:
    return " and ".join(origin(point) for point in points)


def _problem(points: tuple[EntryPoint, ...]) -> str:
    """Say why other packages' plugin of one name can't be imported; empty where it can."""
    from vfl.plugin_trial import problem_of  # where there are any: it starts processes

    return "both bring one of this name" if len(points) > 1 else problem_of(points[0])


def _refusal(name: str, names: list[str], options: Mapping[str, Any], error: TypeError) -> str:
    """Say which options a plugin doesn't know, or what it said itself."""
    listed = f"Its options: {', '.join(names) or 'none'}."
    if unknown := [option for option in options if option not in names]:
        return f"{name} can't take {', '.join(unknown)}. {listed}{did_you_mean(unknown[0], names)}"
    return f"{name} can't take {', '.join(options)}: {error}. {listed}"


def _misfit(name: str, plugin: Any, options: Mapping[str, Any]) -> str:
    """Say which option is the first that isn't what its field's annotation says; empty when all are."""
    if not options or not is_dataclass(plugin):
        return ""
    try:
        hints = get_type_hints(plugin)
    except Exception:
        return ""  # another package's annotations may name what exists for its type checker only
    for field in fields(plugin):
        if field.name in options and not fits(options[field.name], hint := hints[field.name]):
            value = reprlib.repr(options[field.name])  # cuts what would fill a screen
            return f"{name}: expected {field.name} to be {in_words(hint)}, got {value}."
    return ""


def fits(value: Any, hint: Any) -> bool:
    """Tell whether an option's value, written as JSON, is what an annotation says.

    Hence a list may stand for a tuple, a text for a path, and numpy's numbers for numbers. True for annotations that
    pydantic can't check.
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
        parsed = expected.validate_json(text) if text else expected.validate_python(value)
    except ValidationError:
        return False
    # Literal compares by ==, which takes true and 1.0 for 1.
    return not (type(parsed) is int and text and type(from_json(text)) is not int)


def _from_numpy(value: Any) -> Any:
    """Turn a numpy scalar or array into numbers and lists; raises TypeError for anything else."""
    if not hasattr(value, "tolist"):
        raise TypeError(f"{value!r} is not JSON.")
    return value.tolist()


def in_words(hint: Any) -> str:
    """Say what an annotation asks for, in words for people who write options."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _WORDS:
        return _WORDS[hint]
    if origin is Literal:
        return "one of " + ", ".join(str(choice) for choice in inner)
    if origin in (Union, UnionType):
        return " or ".join(in_words(part) for part in inner)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "an object"
    if isinstance(kind, type) and issubclass(kind, Collection):
        return f"a list, each entry {in_words(inner[0])}" if inner else "a list"
    return str(getattr(hint, "__name__", hint))
