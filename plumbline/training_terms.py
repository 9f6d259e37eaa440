"""The settings that are options of commands, of ``audit.toml`` and of ``plumbline.audit``: each is named here alone."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar, get_origin, get_type_hints

import typer

from services.common.settings import Settings

Command = TypeVar("Command", bound=Callable[..., None])

# Terms of a training that its operator chooses, and all that an audit takes beside its settings.
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
SETTINGS_AS_OPTIONS = (*TERMS, "most_forms", "packing", "seed")


def with_terms(
    before: str, words: str = "{}", metavars: Mapping[Any, str] = MappingProxyType({}), **shown: Any
) -> Callable[[Command], Command]:
    """Give a command that takes ``**terms`` an option for each term; None where it isn't given.

    Args:
        before: the command's own option in front of which the help has them.
        words: of the help, around what the setting says of itself.
        metavars: what stands for a value, by its type.
        shown: how else typer shows them.
    """

    def of(name: str) -> inspect.Parameter:
        field = Settings.model_fields[name]
        option = typer.Option(help=words.format(field.description), metavar=metavars.get(field.annotation), **shown)
        # A list of words is an audit's; which words there are, the settings say.
        kind = str if get_origin(field.annotation) is Literal else field.annotation
        return inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[kind | None, option],  # type: ignore[operator]
        )

    def made(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            for name, one in inspect.signature(command).parameters.items()
            if name != "terms"
        ]
        at = [one.name for one in own].index(before)
        every = [*own[:at], *map(of, TERMS), *own[at:]]
        # What typer reads of a command.
        command.__annotations__ = {one.name: one.annotation for one in every}
        command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        return command

    return made
