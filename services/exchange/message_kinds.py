"""The messages that a protocol declares: of which kind, from whom, to whom, and how large. Knows no network."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from services.common import limits
from services.common.errors import InvalidMessage
from services.exchange.declared_messages import DeclaredMessage
from services.exchange.message_table import MessageRow, each_step, once
from services.exchange.vectors import VectorHeader, WireVector

Numbers: TypeAlias = Literal["float64", "uint64", "uint8"]


@dataclass(frozen=True)
class MessageKind(DeclaredMessage):
    """One kind of message of a protocol, besides as any is declared.

    Attributes:
        senders: names of the parties that send it, each to every receiver but itself.
        receivers: names of the parties that it is sent to.
        shape: of its numbers, by step; public.
        numbers: what they are: those of float64 are finite.
        once: whether it is sent before the first step and never again.
    """

    senders: frozenset[str]
    receivers: frozenset[str]
    shape: Callable[[int], tuple[int, ...]]
    numbers: Numbers = "float64"
    once: bool = False

    def __post_init__(self) -> None:
        limits.check_name(self.name)
        if self.numbers not in get_args(Numbers):
            raise InvalidMessage(f"Expected numbers of {self.name} to be one of {', '.join(get_args(Numbers))}.")

    def header(self, step: int) -> VectorHeader:
        """Make what travels before a step's numbers; raises InvalidMessage for more than a party takes."""
        header = VectorHeader("", prod(self.shape(step)), self._on_the_wire.itemsize, numbers=self.numbers)
        if header.size > limits.VECTOR_BYTES:
            raise InvalidMessage(
                f"{self.name} has {header.size >> 20} MiB in a step, at most {limits.VECTOR_BYTES >> 20} are taken: "
                "choose a smaller batch_size."
            )
        return header

    def rows(self, receiver: str) -> Iterator[MessageRow]:
        """List the rows of a receiver's table, one for each sender."""
        at = once() if self.once else each_step
        for sender in sorted(self.senders - {receiver}):
            yield MessageRow(self, sender, at, self.header, self.unpacked)

    def packed(self, step: int, values: NDArray[Any]) -> WireVector:
        """Write numbers as they travel; raises InvalidMessage for others than are declared."""
        if not isinstance(values, np.ndarray) or values.dtype != self.numbers or values.shape != self.shape(step):
            raise InvalidMessage(f"Expected {self.name} to be {self.numbers} of shape {self.shape(step)}.")
        self._check_finite(values)
        return WireVector.of(self.header(step), values.astype(self._on_the_wire).tobytes())

    def unpacked(self, step: int, vector: WireVector) -> NDArray[Any]:
        """Read a step's numbers; raises InvalidMessage for anything but the declared ones."""
        vector.check(self.header(step), self.name)
        values = np.frombuffer(vector.data, dtype=self._on_the_wire).astype(self.numbers).reshape(self.shape(step))
        self._check_finite(values)
        return values

    def _check_finite(self, values: NDArray[Any]) -> None:
        if not np.isfinite(values).all():
            raise InvalidMessage(f"Expected finite numbers of {self.name}.")

    @property
    def _on_the_wire(self) -> np.dtype[Any]:
        return np.dtype(self.numbers).newbyteorder("<")
