"""What a session shows to whom, counted once: what guards weigh, a ledger lists and forecasts of leakage read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from services.common.errors import OutOfOrder
from vfl.arrays import FloatArray, IntArray

# What a guard does about what a session may tell: a party's own setting.
Mode = Literal["warn", "refuse", "off"]


def weighed(warnings: list[str], mode: Mode, *, noisy: bool = False) -> list[str]:
    """Give a guard's warnings; raises OutOfOrder with the first where its owner refuses, and no noise hides it."""
    if warnings and mode == "refuse" and not noisy:
        raise OutOfOrder(f"{warnings[0]} (PLUMBLINE_GUARD=refuse)")
    return warnings


@dataclass(frozen=True)
class Exposure:
    """What training shows one party of one kind, counted before it begins.

    Attributes:
        party: who is shown it.
        owner: whose data it is about: a party's name; empty for several parties'.
        received: what, in words.
        about: whose secret it is about, in words.
        equations: how many numbers it holds about each lot of unknowns.
        unknowns: how many there are to find.
        since: since when an attack is possible, in a sentence.
        possible: whether it is within this session.
        bits: how many are shown in all, once, at most; 0 where equations of every step say it.
    """

    party: str
    owner: str
    received: str
    about: str
    equations: int
    unknowns: int
    since: str
    possible: bool
    bits: int = 0


@dataclass(frozen=True)
class ToldEquations:
    """How many independent equations about a record's features the label party is told.

    Attributes:
        of_model: by the answers of one model.
        of_epoch: by an epoch of training itself; 0 where steps forward no products.
    """

    of_model: int
    of_epoch: int = 0

    def of_session(self, epochs: int) -> int:
        """Count those of a whole session: each epoch's, and the kept model's."""
        return self.of_model + self.of_epoch * epochs


class BitsBefore(Protocol):
    """What was opened before."""

    def before(self, owner: str) -> int:
        """Count the bits about this party's records that an owner was opened in earlier sessions."""


@dataclass(frozen=True, eq=False)
class GuardedParty:
    """A party whose data a guard weighs, and what it is weighed with.

    Attributes:
        name: the party's.
        features: (aligned rows, d), as they are encoded.
        labels: class indices of the aligned records; the label party's only.
        mode: warn, refuse (raises instead) or off.
        noisy: whether it adds noise to what it sends in a step.
        opened: bits that earlier sessions opened about the same records.
        earlier: shares of single records that earlier sessions' answers may have told, by peer.
    """

    name: str
    features: FloatArray = field(repr=False)
    labels: IntArray | None = field(repr=False)
    mode: Mode
    noisy: bool
    opened: BitsBefore
    earlier: Mapping[str, Any]


@dataclass(frozen=True)
class Guarded:
    """What a guard has counted, and has to say.

    Attributes:
        warnings: sentences; who could learn what first.
        told: what one decryption, or what is forwarded, tells each peer (``watching.tally.Told``).
        shares: shares of single records that this session's answers may tell, by peer.
        channels: facts for the run's record, one lot a peer.
    """

    warnings: Sequence[str] = ()
    told: Mapping[str, Any] = field(default_factory=dict)
    shares: Mapping[str, Any] = field(default_factory=dict)
    channels: Sequence[Any] = ()
