"""Calls another package's protocol: whatever it does wrong ends its session, with its name and nothing else."""

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from services.common.errors import FederationError, InvalidMessage
from services.common.plugin_calls import done_within

_log = logging.getLogger(__name__)

T = TypeVar("T")

# That it may take for an answer outside a step, whose timeout is a setting.
ANSWER_SECONDS = 60.0


class ProtocolFailed(InvalidMessage):
    """Another package's protocol has raised, hangs, or gives what no protocol may."""


@dataclass(frozen=True)
class ProtocolCalls:
    """Calls one protocol's code. No exception's text is told, for it may hold a party's values: it stays in the log.

    Attributes:
        name: of the protocol.
        timeout: seconds that a call may take, but for what it waits for other parties.
        in_all: seconds that it may take with that; None for as many.
    """

    name: str
    timeout: float = ANSWER_SECONDS
    in_all: float | None = None

    def __call__(self, work: Callable[[], T]) -> T:
        """Do ``work``.

        Raises:
            FederationError: as ``work`` does: a refusal in its own words, or a peer's.
            ProtocolFailed: for whatever else it raises, and after the timeout.
        """
        hangs = self.refused(f"takes longer than {self.timeout:g} s for a call")
        try:
            return done_within(self.timeout, work, hangs, self.in_all)
        except FederationError:
            raise
        except (Exception, SystemExit) as error:
            _log.exception("Protocol %s failed.", self.name)
            raise self.refused(f"failed with {type(error).__name__}") from error

    def checked_numbers(self, values: Any, shape: tuple[int, int], what: str) -> Any:
        """Give an array of this shape; raises ProtocolFailed for anything else, or what isn't finite."""
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.shape != shape:
            raise self.refused(f"gives {what} that aren't {shape[0]} x {shape[1]} numbers of float64")
        if not np.isfinite(values).all():
            raise self.refused(f"gives {what} that aren't finite")
        return values

    def refused(self, why: str) -> ProtocolFailed:
        """Make the error of a protocol that has done what none may."""
        return ProtocolFailed(f"protocol {self.name} {why}.")


class Watched:
    """An object of another package, each of whose methods is called in time; what ``makes`` names gives others.

    A subclass says what attributes may be (``has``), and results of methods (``gives``), by their names.
    """

    has: ClassVar[Mapping[str, Callable[[Any], bool]]] = {}
    gives: ClassVar[Mapping[str, Callable[[Any], bool]]] = {}

    def __init__(self, calls: ProtocolCalls, thing: Any, makes: Container[str] = ()) -> None:
        self._calls, self._thing, self._makes = calls, thing, makes

    def __getattr__(self, name: str) -> Any:
        attribute = self._calls(lambda: getattr(self._thing, name))
        if name in self.has or not callable(attribute):
            return self._checked(name, attribute, self.has)

        def call(*arguments: Any, **named: Any) -> Any:
            result = self._checked(name, self._calls(lambda: attribute(*arguments, **named)), self.gives)
            return Watched(self._calls, result) if name in self._makes else result

        return call

    def _checked(self, name: str, value: Any, expected: Mapping[str, Callable[[Any], bool]]) -> Any:
        if name in expected and not expected[name](value):
            raise self._calls.refused(f"gives a {type(value).__name__} as its {name}")
        return value
