"""A number that a process can tell of itself: what metrics are made of. Knows no Prometheus."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Measure:
    """One metric as it stands.

    Attributes:
        name: of the metric, without the prefix and without ``_total``.
        meaning: a sentence about it.
        values: by the values of its labels, in their order.
        labels: the labels' names.
        grows: whether it only ever grows while the process lives: a counter. Else it is a gauge.
    """

    name: str
    meaning: str
    values: Mapping[tuple[str, ...], float]
    labels: tuple[str, ...] = ()
    grows: bool = False

    @classmethod
    def by(cls, label: str, name: str, meaning: str, values: Mapping[str, float], *, grows: bool = False) -> "Measure":
        """Make one whose values differ by a single label."""
        return cls(name, meaning, {(key,): value for key, value in values.items()}, (label,), grows)


Source: TypeAlias = Callable[[], Iterable[Measure]]
