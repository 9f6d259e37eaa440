"""Training protocols: their contract, and the registry of those built in and those registered by other packages.

A plan names a protocol; what it is with the plan's learner is an object, and whoever needs to know something of it asks
that object. Implementations are imported when a plan names them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from defences.base import Stage
from services.common import limits
from services.common.costs import Cost
from services.common.exposure import Exposure, Guarded, GuardedParty, ToldEquations
from services.common.protocol_calls import ProtocolCalls, Watched
from services.common.scores import Products
from vfl.arrays import FloatArray, IntArray
from vfl.learning import Half, Learner, Part, RowSplit
from vfl.learning.independent_equations import equations_per_model
from vfl.plugin_options import options_of
from vfl.plugin_registry import PluginRegistry

# A plan, and an agreement: they are built on this contract.
P = TypeVar("P", contravariant=True)
A = TypeVar("A", contravariant=True)


class UnknownProtocol(ValueError):
    """No protocol has this name; the message lists those there are."""


# Of a weight that a party knows.
_WEIGHT_BYTES = 8

_BUILT_IN = {
    "hu": "services.protocols.hu.protocol1:Protocol1",
    "shared": "services.protocols.shared_weights.shared_weights:SharedWeights",
    "trees": "services.protocols.trees.tree_training:TreeTraining",
}
ENTRY_POINT_GROUP = "plumbline.protocols"
REGISTRY = PluginRegistry("protocol", ENTRY_POINT_GROUP, _BUILT_IN, UnknownProtocol)

names = REGISTRY.names


class Asking(Protocol):
    """What the active party asks all parties about some records of a model."""

    def masked_for(self, peer: str) -> bytes:
        """Give what a peer needs besides the records' places; empty for nothing."""
        return b""

    def products(self, answers: Callable[[], Mapping[str, bytes]]) -> Products:
        """Make this party's own share, with what the others answer, by name, once all have; raises FederationError."""

    def read(self, answer: FloatArray) -> FloatArray:
        """Read the coordinator's answer, (rows, columns), as what the model is told; raises InvalidMessage."""
        return answer


DrawsOnce: TypeAlias = Callable[[Callable[[], tuple[bytes, Any]]], tuple[bytes, Any]]


class Serving(Protocol):
    """What becomes of weights after training, and how a model of them answers.

    Attributes:
        name: as the plan and the status say it.
        tells_owners: whether each party is told its own weights.
        discloses: whether a passive party has parameters of its own that it could disclose.
    """

    @property
    def name(self) -> str:
        """As the plan and the status say it."""

    @property
    def tells_owners(self) -> bool:
        """Whether each party is told its own weights."""

    @property
    def discloses(self) -> bool:
        """Whether a passive party has parameters of its own that it could disclose."""

    def read_part(self, arrays: Mapping[str, NDArray[Any]], read: Callable[[Mapping[str, NDArray[Any]]], Part]) -> Part:
        """Read a party's part of a model from its own state, the learner's as ``read`` does; raises ValueError."""

    def known(self, part: Part) -> Part | None:
        """Give the learner's part of weights that a party has whole; None where it has shares of all."""

    def numbers(self, part: Part, half: Half) -> FloatArray:
        """Give the numbers that a party has of its own weights, (d, columns): these, or a uniform share's below 1."""

    def turn(self, part: Part) -> Any:
        """Give how a party's columns are turned before a model answers about them."""

    def most_records(self, at_most: int) -> int:
        """Count the records that one request may be about, ``at_most`` or fewer."""
        return at_most

    def ask(self, model: Any, rows: Sequence[int], engine: Any) -> Asking:
        """Ask all parties about rows of a ``PartyModel``, at the active party; raises InvalidMessage."""

    def answer(
        self, model: Any, rows: Sequence[int], masked: bytes, defences: Any, engine: Any, once: DrawsOnce
    ) -> tuple[bytes, Products]:
        """Answer at a passive party: for the active one, and for the coordinator.

        Args:
            model: the party's, a ``PartyModel``.
            rows: of the common order.
            masked: what the active party has sent along.
            defences: the party's.
            engine: computes on ciphertexts.
            once: draws what is random of an answer once in a request, however often that is asked.

        Returns:
            What the active party is told, and shares of scores, (len(rows), columns).
        """

    def check(self, products: Products) -> None:
        """Raise InvalidMessage at the coordinator for shares of scores of another kind."""

    def active_columns(self, columns: int) -> int:
        """Count the columns that the active party sends the coordinator, of others' so many."""
        return columns

    def added(self, products: Sequence[Any]) -> Sequence[Any]:
        """Give shares of logits that the learner can join."""
        return products


class TrainingProtocol(Protocol[P, A]):
    """How parties train, of one kind of learner: what is sent, kept and shown, and to whom.

    A frozen dataclass that derives from it; what has a body here is so unless a protocol says otherwise.

    Attributes:
        name: as plans say it.
        unprotected: stages of defences of which it sends nothing that they could protect.
        one_grid: whether all parties' features are in one fixed point, with no grid of a party's own.
        sizes_tell: whether what answers tell depends on how large batches are.
        summary: what it does with what is decrypted, in a sentence.
        remedy: what else to train by where it tells too much, in a sentence; empty for nothing.
        only_encrypted: why it takes ciphertexts, in a sentence; empty where it has messages in the clear too.
        only_clear: whether it has no ciphertexts, whatever the cipher.
        unsimulated: why no session of it is simulated in one place, in words; empty where one is.
        sends_sums: whether who decrypts sends sums back, to be listened to.
        opens: whether a training may end with an opening, which each party's ledger counts over sessions.
    """

    name: ClassVar[str]
    unprotected: ClassVar[frozenset[Stage]] = frozenset()
    one_grid: ClassVar[bool] = False
    summary: ClassVar[str]
    remedy: ClassVar[str] = ""
    only_encrypted: ClassVar[str] = ""
    only_clear: ClassVar[bool] = False
    unsimulated: ClassVar[str] = ""
    sends_sums: ClassVar[bool] = False
    opens: ClassVar[bool] = False
    sizes_tell: ClassVar[bool] = False

    def of(self, learner: Learner) -> "TrainingProtocol[P, A]":
        """Give the protocol as it trains a learner."""
        return self

    def check(self, plan: P) -> None:
        """Raise InvalidMessage for a plan that it can't train by, or not without a word."""

    def check_parties(self, plan: P, parties: int) -> None:
        """Raise InvalidMessage for a plan that so many parties can't train by."""
        return

    def refusal(self, plan: P, settings: Any) -> str:
        """Say why a party with these ``Settings`` takes no part in such a plan; empty for nothing."""
        return ""

    def discouraged(self, plan: P) -> list[str]:
        """Say what of a plan the threat model advises against, whatever is trained on; a sentence each."""
        return []

    def warnings(self, agreement: A) -> list[str]:
        """Say what a session's terms leave unprotected, or what isn't as it seems; a sentence each."""
        return []

    def conduct_refusal(self, attack: str, conduct: str) -> str:
        """Say why an attack of this conduct has nothing to replace here, a sentence; empty where it has."""
        return "" if conduct == "listens" else f"{attack} replaces what protocol={self.name} doesn't send."

    def cipher_of_trials(self, plan: P) -> str:
        """Name the cipher by which a trial shows what this training tells; empty where that hangs on attacks."""
        return ""

    def deviation(self, agreement: A, parties: Mapping[str, str]) -> str:
        """Say what these parties, by name with their titles, can tell at most by other messages; empty if unknown."""
        return ""

    def validated_epochs(self, agreement: A, allowed: int) -> int:
        """Count the epochs that are validated, of as many as all parties allow."""
        return allowed

    def no_slope(self, agreement: A) -> str:
        """Say why no slope of calibrated scores is fitted, a sentence; empty where the protocol lets one."""
        return ""

    def resumes(self, agreement: A) -> bool:
        """Tell whether a training can go on after an interruption."""
        return False

    def kept_bytes(self, agreement: A, features: int) -> int:
        """Count the bytes of what a party of so many features keeps of an epoch's weights, for each column of them."""
        return features * _WEIGHT_BYTES

    def told_equations(self, plan: P, classes: int) -> ToldEquations:
        """Count the equations about a record that the label party is told: a model's, unless steps forward some."""
        return ToldEquations(equations_per_model(classes))

    def batches(self, agreement: A) -> Iterator[IntArray]:
        """List the rows of the common order of every planned step, as every party knows them."""

    def least_batch(self, agreement: A) -> int:
        """Count the records of the smallest batch about which one step's answers tell too little of any.

        Where nothing is answered that a batch's size would bound, it is the smallest that a plan chooses by itself.
        """
        return limits.CHOSEN_BATCH

    def told_rows(self, agreement: A, rows: RowSplit) -> IntArray:
        """List the rows of the common order about which training itself tells the label party equations."""
        return np.zeros(0, dtype=np.int64)

    def served(self, agreement: A) -> Serving:
        """Say what becomes of weights. It follows from the agreement alone, so that all know it before they train."""

    def side(self, setting: Any, first_step: int = 0) -> Any:
        """Make a party's `Side` of a session, a `SideSetting`; see ``services.party.side``.

        Args:
            setting: the session.
            first_step: the first that is taken. Those before were taken under other keys, and weights are to be set.

        Raises:
            InvalidMessage: for terms, or defences, that it can't work with.
            LearnerFailed: when the learner can't work with this data.
        """

    def resumed(self, setting: Any, side: Any, resumption: Any) -> Any:
        """Make the side that goes on after an interruption, under new keys; the one before stays as it is."""

    def guard(self, agreement: A, party: GuardedParty) -> Guarded:
        """Count what a party's peers could learn, before anything is sent; raises OutOfOrder where it refuses that."""

    def cost(self, agreement: A) -> Cost:
        """Count what training computes, by party; raises InvalidMessage or PackingImpossible for what can't be."""

    def exposures(self, agreement: A) -> tuple[Exposure, ...]:
        """Count what training shows each party, as every party can."""


_OF_SERVING = tuple(name for name in vars(Serving) if not name.startswith("_"))
_METHODS = tuple(name for name, one in vars(TrainingProtocol).items() if callable(one) and not name.startswith("_"))


def option_names(name: str) -> tuple[str, ...]:
    """Name the options of a protocol; none of one that there isn't, or that can't be used."""
    try:
        return tuple(one.name for one in options_of(REGISTRY.class_of(name)))
    except ValueError:
        return ()


def made(name: str, options: Mapping[str, Any]) -> Any:
    """Make a protocol with its options, as no learner's yet.

    Raises:
        UnknownProtocol: for a name that no protocol has.
        ValueError: for options that it doesn't take, and where another package's lacks a method.
    """
    protocol = REGISTRY.load(name, **options)
    _check_methods(name, protocol)
    return protocol


def load(name: str, learner: Learner, options: Mapping[str, Any]) -> TrainingProtocol[Any, Any]:
    """Make a protocol as it trains a learner; raises as ``made`` does."""
    protocol = made(name, options)
    watched: Any = protocol if is_built_in(name) else _Watched(name, protocol)
    found: TrainingProtocol[Any, Any] = watched.of(learner)
    return found


def is_built_in(name: str) -> bool:
    """Tell whether a protocol is Plumbline's own, which nobody watches."""
    return name in _BUILT_IN


def _check_methods(name: str, protocol: Any) -> None:
    if lacking := [method for method in _METHODS if not callable(getattr(protocol, method, None))]:
        raise ValueError(f"{name} lacks {', '.join(lacking)}: let its class be a services.common TrainingProtocol.")


class _Watched:
    """Another package's protocol: what it raises by mistake, or gives of another kind, is told by its name alone."""

    def __init__(self, name: str, protocol: Any) -> None:
        self._calls, self._protocol = ProtocolCalls(name), protocol

    def served(self, agreement: Any) -> Any:
        found = self._calls(lambda: self._protocol.served(agreement))
        if lacking := [name for name in _OF_SERVING if not hasattr(found, name)]:
            raise self._calls.refused(f"gives a {type(found).__name__} as what is served, which lacks {lacking[0]}")
        ours = type(found).__module__.startswith("services.")
        return found if ours else Watched(self._calls, found, makes={"ask"})

    def of(self, learner: Learner) -> "_Watched":
        protocol = self._calls(lambda: self._protocol.of(learner))
        _check_methods(self._calls.name, protocol)
        return _Watched(self._calls.name, protocol)

    def __getattr__(self, attribute: str) -> Any:
        found, calls = getattr(self._protocol, attribute), self._calls
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            result = calls(lambda: found(*arguments, **named))
            if attribute in _RESULTS and not _fits(result, _RESULTS[attribute]):
                raise calls.refused(f"gives a {type(result).__name__} that no {attribute} may be")
            return self._each(result) if isinstance(result, Iterator) else result

        return call

    def _each(self, results: Iterator[Any]) -> Iterator[Any]:
        """Give what a method lists, in time."""
        end = object()
        while (result := self._calls(lambda: next(results, end))) is not end:
            yield result


def _fits(result: Any, hint: Any) -> bool:
    """Tell whether a method's result is what its annotation says, and so are the fields of what we count by."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if hint is not Any and not isinstance(result, kind):
        return False
    if kind in (list, tuple):
        return all(_fits(one, inner[0]) for one in result)
    if kind in (Exposure, ToldEquations):
        return all(_fits(getattr(result, name), one) for name, one in get_type_hints(kind).items())
    return True


# What a method gives, where a class says it.
_RESULTS = {
    name: hint
    for name in _METHODS
    if isinstance(kind := get_origin(hint := get_type_hints(getattr(TrainingProtocol, name))["return"]) or hint, type)
    and not getattr(kind, "_is_protocol", False)
}
