"""What an attack on training is: how it takes part in a session, what it is given, and what its result says.

An attack that listens is a pure function of a ``TrainingView``. One that replaces messages brings its own for each
session, made from the honest ones:

    own = attack.messages(terms, honest)    # before the first step; ValueError where it can't work
    own.encrypt, own.combine, ...           # in place of the party's honest messages
    result = own.result(view)               # once training is over

One that replaces features, where weights are shared, brings those that its party encrypts:

    own = attack.code(terms)                # before they are encrypted; ValueError where it can't work
    own.forward, own.backward               # in place of the party's features
    weights = own.read(opened)              # at the opening: those that the party goes on with
    result = own.result()

One that replaces shares, at the label party of a network whose first layer is shared, brings what it adds to them:

    own = attack.choose(terms)              # before the first step; ValueError where it can't work
    more = own.added(step, peer)            # to its share of a peer's weights, in this step and forward only
    products = own.read(step, products)     # those that the party goes on with
    result = own.result()

One that replaces requests, where a learner asks by requests of its own, asks something else:

    own = attack.ask(terms)                 # before the first step; ValueError where it can't work
    request = own.asked(step, request)      # what is asked in place of the learner's
    answer = own.answered(step, request, answer)    # what the learner is answered with
    result = own.result(view)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from numpy.typing import NDArray

from attacks.base import Attack, Json
from attacks.training_views import KnownRecords, TrainingView
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import PrivateKey
from vfl.crypto.messages import MessageFormats, Messages
from vfl.learning.learner import Learner, OwnRequest


class TrainingResult(Protocol):
    """What an attack on training found. The judge scores the kinds labels, features, readings and products."""

    @property
    def kind(self) -> str:
        """Name what was found, in a word."""

    def facts(self) -> Mapping[str, Json]:
        """Tell what is written and reported in words and numbers; ``reason`` says why nothing was found."""

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give what is written as arrays, by name."""


class ListeningAttack(Attack, Protocol):
    """An attack by a party that follows the protocol.

    A plugin promises a pure function of its view: the same numbers for the same view, which it doesn't change.

    Examples:
        >>> attack: ListeningAttack = load_training("label_recovery")
        >>> attack.spec.adversary, attack.spec.conduct
        ('passive', 'listens')
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
        known: what the label party knows of the others' columns anyway; None for nothing.
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
    known: KnownRecords | None = None


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

    Examples:
        An attack that can't work under any terms:

        >>> class Refuses:
        ...     def messages(self, terms: SessionTerms, honest: HonestFactory) -> SessionMessages:
        ...         raise ValueError(f"{terms.party} follows the protocol.")
    """

    def messages(self, terms: SessionTerms, honest: HonestFactory) -> SessionMessages:
        """Make the messages of one session; raises ValueError, with a sentence, under terms it can't work with."""


@dataclass(frozen=True, eq=False)
class SharingTerms:
    """What a party knows of a session on shared weights before its first step.

    Attributes:
        features: (n, d), own, in the common order.
        classes: how many the labels have.
        outputs: k, columns of the weights.
        batches: rows of every planned step, as indices in the common order.
        learner: what is trained, with its options.
        opening_bits: w, of each opened weight.
        opening_fraction_bits: how many of them are of the fraction.
        feature_fraction_bits: features are encrypted as multiples of 2 to minus this.
        peers: how many features every other party has.
    """

    features: FloatArray
    classes: int
    outputs: int
    batches: tuple[IntArray, ...]
    learner: Learner
    opening_bits: int
    opening_fraction_bits: int
    feature_fraction_bits: int
    peers: Mapping[str, int] = field(default_factory=dict)


class OtherFeatures(Protocol):
    """What an adversary encrypts in place of its features in one session, and what that told it.

    Attributes:
        forward: (n, d), for products with weights.
        backward: (n, d), for products with residuals.
    """

    forward: FloatArray
    backward: FloatArray

    def read(self, opened: FloatArray) -> FloatArray:
        """Read (d, k) opened weights, and return those that the party goes on with."""

    def result(self) -> TrainingResult:
        """Say what was recovered."""


class EncodingAttack(Attack, Protocol):
    """An attack by a party that encrypts other features than its own, where weights are shared."""

    def code(self, terms: SharingTerms) -> OtherFeatures:
        """Choose what is encrypted in a session; raises ValueError, with a sentence, under terms it can't work with."""


class ChosenShares(Protocol):
    """What a label party adds to its shares of others' weights in one session, forward only, and what that told it."""

    def added(self, step: int, peer: str) -> FloatArray | None:
        """Choose (d, h) numbers to add in a step to its share of a peer's weights; None for nothing.

        They count modulo 2^8 with 32 fraction bits, as the products do that come back.
        """

    def read(self, step: int, products: FloatArray) -> FloatArray:
        """Read the (s, h) sum of the others' products, from -2^7 to 2^7, and return what the party goes on with."""

    def result(self) -> TrainingResult:
        """Say what was recovered."""


class ChoosingAttack(Attack, Protocol):
    """An attack by a label party that chooses its shares of others' weights, where a first layer is shared."""

    def choose(self, terms: SharingTerms) -> ChosenShares:
        """Choose what is added in one session; raises ValueError, with a sentence, under terms it can't work with."""


@dataclass(frozen=True)
class RequestTerms:
    """What a party knows of a session before its first step, where its learner asks by requests of its own.

    Attributes:
        parties: names, by their places: the label party's first.
        key_bits: length of every key; 0 where all is in the clear.
    """

    parties: tuple[str, ...]
    key_bits: int


class ChosenRequests(Protocol):
    """What an adversary asks in one session in place of its learner's requests, and what that told it."""

    def asked(self, step: int, request: OwnRequest) -> OwnRequest:
        """Choose what is asked in place of a request of the learner's."""

    def answered(self, step: int, request: OwnRequest, answer: Any) -> Any:
        """Read what a request was answered with, and choose what the learner is answered with."""

    def result(self, view: TrainingView) -> TrainingResult:
        """Say what was recovered."""


class RequestingAttack(Attack, Protocol):
    """An attack by a party that asks something else than its learner does."""

    def ask(self, terms: RequestTerms) -> ChosenRequests:
        """Begin a session; raises ValueError, with a sentence, under terms it can't work with."""


TrainingAttack: TypeAlias = ListeningAttack | ReplacingAttack | EncodingAttack | ChoosingAttack | RequestingAttack


def listens(attack: TrainingAttack) -> TypeGuard[ListeningAttack]:
    """Say whether the party follows the protocol."""
    return attack.spec.conduct == "listens"


def listen(attack: ListeningAttack, view: TrainingView) -> TrainingResult:
    """Mount an attack on a view, as a party's service does.

    Raises:
        ViewError: where it can't be on the view, and where sums that it needs say nothing, whatever is made of them.
    """
    if "equations" in attack.spec.needs and view.equations and (why := view.why_unreadable):
        raise ViewError(f"{attack.name} can't read the sums of this session: {why}.")
    return attack.attack(view)


def replaces_messages(attack: TrainingAttack) -> TypeGuard[ReplacingAttack]:
    """Say whether the party sends messages of its own."""
    return attack.spec.conduct == "replaces_messages"


def replaces_shares(attack: TrainingAttack) -> TypeGuard[ChoosingAttack]:
    """Say whether the party adds to its shares of others' weights."""
    return attack.spec.conduct == "replaces_shares"


def replaces_requests(attack: TrainingAttack) -> TypeGuard[RequestingAttack]:
    """Say whether the party asks something else than its learner does."""
    return attack.spec.conduct == "replaces_requests"


def replaces_features(attack: TrainingAttack) -> TypeGuard[EncodingAttack]:
    """Say whether the party encrypts other features than its own."""
    return attack.spec.conduct == "replaces_features"
