"""Options of the protocols on shared weights, which rooms below them read and settings are declared by."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

OPENED, SHARED = "opened", "shared"
_LEAST_BITS, _MOST_BITS = 18, 24
# Of opening_bits: weights stay below 2^7 in magnitude, the others are fraction bits.
_WHOLE_BITS = 8


@dataclass(frozen=True)
class OpeningOptions:
    """What becomes of shared weights after training.

    Attributes:
        serving: With protocol=shared, after training. opened: each party is sent its weights. shared: they stay shared,
            and scores are computed on shares.
        opening_bits: protocol=shared: bits of every weight that its owner is opened, 8 of them whole and the sign's.
    """

    serving: Literal["opened", "shared"] = "opened"
    opening_bits: int = 24

    def __post_init__(self) -> None:
        """Raise ValueError for bits that no opening has."""
        if type(self.opening_bits) is int and not _LEAST_BITS <= self.opening_bits <= _MOST_BITS:
            raise ValueError(
                f"Expected opening_bits to be from {_LEAST_BITS} to {_MOST_BITS}, got {self.opening_bits!r}."
            )

    @property
    def fraction_bits(self) -> int:
        """Bits of an opened word that are of the fraction."""
        return fraction_bits(self.opening_bits)


def fraction_bits(bits: int) -> int:
    """Count the bits of an opened word that are of the fraction."""
    return bits - _WHOLE_BITS


def opening_options(protocol_options: Mapping[str, Any]) -> OpeningOptions:
    """Read them among the options of any plan's protocol; the defaults where it has none."""
    names = OpeningOptions.__dataclass_fields__.keys() & protocol_options.keys()
    return OpeningOptions(**{name: protocol_options[name] for name in names})
