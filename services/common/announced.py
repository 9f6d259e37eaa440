"""What a service tells the others of the defences that it applies: names and options, which are public (Kerckhoffs)."""

import json
import math
from collections.abc import Sequence
from dataclasses import Field, asdict, dataclass, fields, is_dataclass
from typing import Any, NoReturn

from defences import Defence
from protos.v1 import common_pb2
from services.common import limits
from services.common.errors import InvalidMessage

# Of options within each other: an object of lists of lists is more than any defence takes.
_DEEPEST_OPTIONS = 8


@dataclass(frozen=True)
class AnnouncedDefence:
    """A defence as its service tells of it.

    Attributes:
        name: of the defence.
        options: all of them but those withheld, as the text of a JSON object.
        withheld: names of options that have a value which nobody is told.
    """

    name: str
    options: str = "{}"
    withheld: tuple[str, ...] = ()

    @classmethod
    def of(cls, defence: Defence) -> "AnnouncedDefence":
        """Announce a defence. An option that is private, or no JSON, is withheld unless it has its default value."""
        public: dict[str, Any] = {}
        withheld: list[str] = []
        private = getattr(defence, "private_options", ())
        options: list[Field[Any]] = [one for one in fields(defence) if one.init] if is_dataclass(defence) else []
        for option in options:
            value = getattr(defence, option.name)
            if option.name not in private and _is_json(value):
                public[option.name] = value
            elif value is not option.default and not (_is_json(value) and value == option.default):
                withheld.append(option.name)
        text = json.dumps(public, sort_keys=True)
        if len(text.encode()) > limits.OPTIONS_BYTES:
            return cls(defence.name, withheld=tuple(one.name for one in options))
        return cls(defence.name, text, tuple(withheld))

    def check(self) -> None:
        """Raise InvalidMessage for what no service announces."""
        limits.check_name(self.name)
        limits.check_count(self.withheld, limits.OPTIONS, "withheld options of a defence")
        for option in self.withheld:
            limits.check_name(option)
        self.values()

    def values(self) -> dict[str, Any]:
        """Read the options; raises InvalidMessage for a text that isn't the JSON of an object of finite numbers."""
        return options_in(self.options, self.name)

    @classmethod
    def from_message(cls, message: common_pb2.AnnouncedDefence) -> "AnnouncedDefence":
        """Read and check what a service announces; raises InvalidMessage."""
        limits.check_count(message.withheld, limits.OPTIONS, "withheld options of a defence")
        announced = cls(message.name, message.options, tuple(message.withheld))
        announced.check()
        return announced

    def to_message(self) -> common_pb2.AnnouncedDefence:
        """Write it as a message."""
        return common_pb2.AnnouncedDefence(**asdict(self))


def options_in(text: str, name: str) -> dict[str, Any]:
    """Read what another process says of the options of a plugin of this name.

    Raises:
        InvalidMessage: for a text that is too long, or isn't the JSON of an object of finite numbers.
    """
    limits.check_count(len(text.encode()), limits.OPTIONS_BYTES, f"bytes of the options of {name}")
    try:
        options = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"The options of {name} are no JSON that can be read.") from error
    if not isinstance(options, dict):
        raise InvalidMessage(f"The options of {name} are no JSON object.")
    if _is_deeper(options, _DEEPEST_OPTIONS):
        raise InvalidMessage(f"The options of {name} lie too deep within each other.")
    return options


def check_announced(announced: Sequence[AnnouncedDefence], most: int, what: str) -> None:
    """Raise InvalidMessage for what no service announces of all its defences, ``most`` of ``what``."""
    limits.check_count(announced, most, what)
    for defence in announced:
        defence.check()
    if len({defence.name for defence in announced}) < len(announced):
        raise InvalidMessage(f"Each of the {what} is announced once.")


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_constant(text)


def _is_deeper(value: object, most: int) -> bool:
    """Tell whether objects and lists lie more than ``most`` deep in each other: Pythons differ in what they parse."""
    within: list[object] = [value]
    for _ in range(most):
        lists = [list(one.values()) if isinstance(one, dict) else one for one in within if isinstance(one, dict | list)]
        within = [item for items in lists for item in items]
    return any(isinstance(one, dict | list) for one in within)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number.")
