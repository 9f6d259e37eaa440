"""What an attack on training is: how it takes part in a session, what it is given, and what its result says.

An attack that listens is a pure function of a ``TrainingView``. One that replaces messages brings its own for each
session, made from the honest ones:

    own = attack.messages(terms, honest)    # before the first step; ValueError where it can't work
    own.encrypt, own.combine, ...           # in place of the party's honest messages
    result = own.result(view)               # once training is over
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from numpy.typing import NDArray

from attacks.base import Attack, Json
from attacks.training_views import TrainingView
from vfl.arrays import IntArray
from vfl.crypto import PrivateKey
from vfl.crypto.messages import MessageFormats, Messages


class TrainingResult(Protocol):
    """What an attack on training found. The judge scores the kinds labels, features, readings and products."""

    @property
    def kind(self) -> str:
        """What was found, in a word."""

    def facts(self) -> Mapping[str, Json]:
        """What is written and reported in words and numbers; ``reason`` says why nothing was found."""

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """What is written as arrays, by name."""


class ListeningAttack(Attack, Protocol):
    """An attack by a party that follows the protocol.

    A plugin promises a pure function of its view: the same numbers for the same view, which it doesn't change.
    """

    def attack(self, view: TrainingView) -> TrainingResult:
        """Say what was recovered, and what could not be and why. Raises ViewError."""


@dataclass(frozen=True, eq=False)
class SessionTerms:
    """What a party knows of a session before its first step; public but for its own place.

    Attributes:
        party: its own name.
        role: whether it has the labels.
        features: d, how many it has itself; the active party's include its bias.
        peers: features of every peer.
        label_party: which peer has the labels; None when it is the party itself.
        batches: rows of every planned step, as indices in the common order.
        batch_size: rows of the largest batch.
        key_bits: length of every key.
        formats: fixed point, packing and widths of the messages.
    """

    party: str
    role: Literal["active", "passive"]
    features: int
    peers: Mapping[str, int]
    label_party: str | None
    batches: tuple[IntArray, ...]
    batch_size: int
    key_bits: int
    formats: MessageFormats


class HonestFactory(Protocol):
    """Makes the messages that the protocol prescribes for the session at hand."""

    def __call__(self, private_key: PrivateKey | None = None) -> Messages:
        """Honest messages under a fresh key of the agreed length, or under the given one."""


class SessionMessages(Messages, Protocol):
    """An adversary's own messages of one session, and what they told it."""

    def result(self, view: TrainingView) -> TrainingResult:
        """Say what was recovered. The view has the sums that these messages read, with their matrices."""


class ReplacingAttack(Attack, Protocol):
    """An attack by a party that sends messages of its own.

    A plugin promises that these have the counts and widths of honest ones: a peer refuses any other.
    """

    def messages(self, terms: SessionTerms, honest: HonestFactory) -> SessionMessages:
        """The messages of one session; raises ValueError, with a sentence, under terms that it can't work with."""


TrainingAttack: TypeAlias = ListeningAttack | ReplacingAttack


def listens(attack: TrainingAttack) -> TypeGuard[ListeningAttack]:
    """Whether the party follows the protocol."""
    return attack.spec.conduct == "listens"


def replaces_messages(attack: TrainingAttack) -> TypeGuard[ReplacingAttack]:
    """Whether the party sends messages of its own."""
    return attack.spec.conduct == "replaces_messages"
