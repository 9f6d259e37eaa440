"""The options of commands: each is declared once, as a field of a request or as a setting of a service.

Commands, ``audit.toml`` and ``plumbline.audit`` all take them from there.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_origin, get_type_hints

import typer

from services.common.setting_texts import listed
from services.common.settings import FORMER_NAMES, Settings

Command = TypeVar("Command", bound=Callable[..., None])

# Settings that are options: terms of a training that its operator chooses, and what an audit takes besides.
TERMS = (
    "epochs",
    "batch_size",
    "batches",
    "opening_bits",
    "learning_rate",
    "protocol",
    "serving",
    "learner",
    "backward",
)
OF_ADVERSARIES, OF_TRAINING = ("most_equations",), ("packing", "seed")
SETTINGS_AS_OPTIONS = (*TERMS, *OF_ADVERSARIES, *OF_TRAINING)
# The help's panel of tables, in an audit.
TABLES = "What to audit"
_METAVARS = {int: "N", float: "RATE", str: "NAME"}


@dataclass(frozen=True)
class Option:
    """What a command says of a field: ``parties: Annotated[int, Option(TABLES, "N", "Parties ...", least=2)] = 2``.

    Attributes:
        panel: of the help where it stands.
        metavar: what stands for its value; empty for a switch.
        help: one sentence.
        flag: its name, where that isn't the field's.
        repeats: whether each value has an option of its own; else a list is a text with commas.
        least, most: bounds of a number, both included.
        read: makes the field's value of what the command line has, where that isn't a list of names.
    """

    panel: str
    metavar: str
    help: str
    flag: str = ""
    repeats: bool = False
    least: float | None = None
    most: float | None = None
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Declared:
    """A field that is an option.

    Attributes:
        name: the field's.
        kind: its type.
        default: its default, or None where that is made anew.
        option: what commands say of it.
    """

    name: str
    kind: Any
    default: Any
    option: Option

    @property
    def key(self) -> str:
        """Its name on the command line without dashes in front, which is its key in a file."""
        return self.option.flag or self.name.replace("_", "-")

    def read(self, value: Any) -> Any:
        """Make the field's value of a text or of texts, as a person writes them; what is neither stays."""
        if self.option.read is not None and isinstance(value, str | list):
            return self.option.read(value)
        if self.kind == tuple[str, ...]:
            if isinstance(value, str):
                return (value,) if self.option.repeats else tuple(listed(value))
            return tuple(value) if isinstance(value, list) else value
        return value

    def parameter(
        self, completions: Mapping[str, Callable[[str], list[str]]] = MappingProxyType({}), panel: str = ""
    ) -> inspect.Parameter:
        """Make the parameter that typer reads.

        Args:
            completions: what TAB offers, by the field's name.
            panel: in place of the help's panel of tables, where a command calls that something else.
        """
        kind, default, option = self.kind, self.default, self.option
        if option.repeats:
            kind, default = list[str] | None, None
        elif get_origin(kind) is tuple:
            kind, default = str, ""
        elif option.read is not None:
            kind = str | None
        shown = typer.Option(
            *([f"--{self.key}"] if option.flag or kind is bool else []),
            metavar=option.metavar or None,
            help=option.help,
            rich_help_panel=panel if panel and option.panel == TABLES else option.panel,
            min=option.least,
            max=option.most,
            autocompletion=completions.get(self.name),
        )
        return _parameter(self.name, kind, default, shown)


def declared(kind: type) -> Iterator[Declared]:
    """List the fields of a dataclass that are options, in its order."""
    hints = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        options = [extra for extra in getattr(hints[one.name], "__metadata__", ()) if isinstance(extra, Option)]
        if options:
            default = None if one.default is MISSING else one.default
            yield Declared(one.name, hints[one.name].__origin__, default, options[-1])


def options_of(
    *kinds: type, completions: Mapping[str, Callable[[str], list[str]]] = MappingProxyType({})
) -> Iterator[inspect.Parameter]:
    """Make a command's parameters of what dataclasses declare; ``completions``: what TAB offers, by name."""
    return (one.parameter(completions) for kind in kinds for one in declared(kind))


def settings_of(names: Iterable[str], words: str = "{}", panel: str | None = None) -> Iterator[inspect.Parameter]:
    """Make a command's parameters of settings, None where not given; ``words``: around what each says of itself.

    A list of words is an audit's, so that typer leaves it to the settings which words there are.
    """
    for name in names:
        field = Settings.model_fields[name]
        is_word = get_origin(field.annotation) is Literal
        metavar = "WORD" if is_word else _METAVARS.get(field.annotation)  # type: ignore[arg-type]
        former = [before for before, present in FORMER_NAMES.items() if present == name]
        flags = [f"--{one.replace('_', '-')}" for one in (name, *former)] if former else []
        option = typer.Option(*flags, help=words.format(field.description), metavar=metavar, rich_help_panel=panel)
        yield _parameter(name, (str if is_word else field.annotation) | None, None, option)  # type: ignore[operator]


def with_options(*options: inspect.Parameter, first: bool = True) -> Callable[[Command], Command]:
    """Give a command that takes ``**options`` these, before its own or after them."""

    def made(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            for name, one in inspect.signature(command).parameters.items()
            if one.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        every = [*options, *own] if first else [*own, *options]
        # What typer reads of a command.
        command.__annotations__ = {one.name: one.annotation for one in every}
        command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        return command

    return made


def _parameter(name: str, kind: Any, default: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
