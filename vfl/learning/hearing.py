"""What a learner's own requests tell whoever asks them, in words that need no learner: for an adversary who listens.

``Learner.hearing`` makes what turns requests and their answers into these words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from vfl.arrays import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class NodeSums:
    """What sums over one column's bins are, and of what.

    Attributes:
        rows: (s,) that are summed.
        values: (s, 2) their g and h, whole numbers, h positive.
        sums: (bins, 2) of each bin, what is missing last.
        follows: whether they follow from sums of other nodes.
    """

    rows: IntArray
    values: IntArray
    sums: IntArray
    follows: bool = False


@dataclass(frozen=True, eq=False)
class ToldSums:
    """Sums over the bins of another party's column.

    Attributes:
        party: whose column, by its place among the parties.
        column: its number in the session.
        sums: over its bins.
    """

    party: int
    column: int
    sums: NodeSums


@dataclass(frozen=True, eq=False)
class ToldSides:
    """Which records of some lie below a place of another party's column.

    Attributes:
        party: whose column, by its place among the parties.
        column: its number in the session.
        bin: the last one that is below.
        missing_below: whether records without a value count as below.
        rows: (s,) records.
        below: (s,) whether each lies below.
    """

    party: int
    column: int
    bin: int
    missing_below: bool
    rows: IntArray
    below: BoolArray


@dataclass(frozen=True, eq=False)
class ToldGroups:
    """Which group each record is in, (n,) numbers; 0 for none."""

    groups: IntArray


Told: TypeAlias = ToldSums | ToldSides | ToldGroups


class Hearing(Protocol):
    """Hears the requests of one party's half, in their order."""

    def hear(self, request: object, answer: Any) -> Iterable[Told]:
        """Say what an answer tells besides what a protocol's messages do."""


class Deaf:
    """Hears nothing: of a learner whose requests tell no more than messages do."""

    def hear(self, request: object, answer: Any) -> Iterable[Told]:
        """Say nothing."""
        return ()
