"""What an attack is: a frozen set of options that declares its adversary, its phase, what it knows and what it needs.

An attack of each kind has its method, called by the service where its adversary sits (or by an experiment):

    prediction                     reconstruct   estimates features from a ``PredictionView``
    training, listens              attack        reads a ``TrainingView``, once training is over
    training, replaces_messages    messages      its own messages of one session, and what they found
    training, replaces_features    code          what it encrypts in place of its features where weights are shared
    training, replaces_shares      choose        what it adds to its shares of others' weights where a layer is shared
    training, replaces_requests    ask           what it asks in place of its learner's own requests

``attacks.training_attack`` has the contract of attacks on training.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from attacks.views import PredictionView, ViewError
from vfl.adversary_words import Conduct, Level
from vfl.arrays import FloatArray

Adversary = Literal["active", "passive", "either"]
Phase = Literal["prediction", "training"]
Knowledge = Literal["white_box", "black_box", "agnostic"]

# What a result says in words and numbers.
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

_DISCLOSE = "this is a white-box attack: the model's parameters must be disclosed"
_OWN_LABELS = "give the active party's labels and training features"
# The pieces that a view of each phase may lack, and what to do about it.
NEEDS: Mapping[Phase, Mapping[str, str]] = {
    "prediction": {
        "scores": "run predictions first",
        "weights_active": _DISCLOSE,
        "weights_passive": "this is a white-box attack: the passive party must disclose its parameters",
        "bias": _DISCLOSE,
        "network": "this attack needs a disclosed network",
        "network_active": "this attack needs a model that is a network: give the active party's part of it",
        "labels": _OWN_LABELS,
        "features_train": _OWN_LABELS,
        "passive_features": "say how many features the passive parties have",
        "auxiliary": "give complete auxiliary records",
        "moments": "say what the adversary knows of the passive columns beforehand",
        "record_labels": "give the labels of the attacked records, where the active party has them",
        "disclosure": "this attack is on disclosed parameters that a defence changed: say how",
        "own_shift": "this attack is by who added something to its own share: say what",
        "earlier": "train and predict in more than one session",
        "received": "give the columns that were received about the attacked records",
        "low": "this attack is on thresholds of trees: the passive party must disclose its parameters",
        "high": "this attack is on thresholds of trees: the passive party must disclose its parameters",
    },
    "training": {
        "equations": "run training and record its answers",
        "forwarded": "this attack is on the first layer that a network's passive parties forward: train the learner "
        "network, and mount it at the active party",
        "labels": "only the active party has the labels: mount this attack there",
        "known_records": "give complete records of training, whose passive columns the active party knows anyway",
        "moments": "say what the adversary knows of the passive columns beforehand",
        "label_party": "only a passive party has a peer with the labels: mount this attack there",
    },
}
# Of an attack that doesn't say how long it takes.
FEW_SECONDS = 0.2
# What a service calls.
_METHODS: Mapping[tuple[Phase, Conduct], str] = {
    ("prediction", "listens"): "reconstruct",
    ("training", "listens"): "attack",
    ("training", "replaces_messages"): "messages",
    ("training", "replaces_features"): "code",
    ("training", "replaces_shares"): "choose",
    ("training", "replaces_requests"): "ask",
}


@dataclass(frozen=True)
class Scenario:
    """What of a federation decides which attacks can apply to it.

    Attributes:
        passive_features: of all passive parties, as the federation trains on them.
        is_white_box: whether passive parties disclose parameters.
        has_records: whether the adversary has complete records.
        model: what answers: linear, network where an installed model has hidden layers, or another learner's name.
        learner: what is trained, by name.
        is_trained: whether the federation trains; False where a model is installed.
        forwards: whether the label party is answered with sums of a first layer, and makes scores of them itself.
        is_encrypted: whether it trains under Paillier.
        packing: whether values share a plaintext.
        rerandomise: whether answers carry fresh randomness.
        protocol: that it trains by: hu or shared.
        knows_own_weights: whether each party is told its own weights after training.
        options: names of the attacks that were given options.
        has_weights: whether a model's parameters are weights of columns, rather than thresholds.

    Examples:
        >>> spec_of("one_feature").obstacle(Scenario(passive_features=3))
        'is for a lone passive feature'
    """

    passive_features: int
    is_white_box: bool = True
    has_records: bool = False
    model: str = "linear"
    learner: str = "linear"
    is_trained: bool = True
    forwards: bool = False
    is_encrypted: bool = True
    packing: bool = True
    rerandomise: bool = True
    protocol: str = "hu"
    knows_own_weights: bool = True
    options: frozenset[str] = frozenset()
    has_weights: bool = True


@dataclass(frozen=True)
class Extent:
    """How much an attack has to work on.

    Attributes:
        records: that it reconstructs.
        features: of each.
        steps: of training, for an attack on training.
        batches: of training that differ; 0 where nobody says, and then each step may have its own.

    Examples:
        >>> Extent(records=100, features=3, steps=20).distinct_batches
        20
    """

    records: int
    features: int
    steps: int
    batches: int = 0

    @property
    def distinct_batches(self) -> int:
        """Count the batches of training that differ."""
        return self.batches or self.steps


@dataclass(frozen=True)
class AttackSpec:
    """What an attack declares.

    Attributes:
        adversary: which party can mount it.
        phase: whether it attacks predictions or training.
        needs: the pieces of its view that must be there; ``NEEDS`` has those of each phase.
        source: the paper's section, or where else it comes from.
        knowledge: white_box (the model's parameters), black_box (scores only) or agnostic (neither is needed, as to an
            attack on training).
        summary: what it does, in a line for a list; empty for the first line of its docstring.
        cost: what it takes, in words; empty where nobody measured.
        conduct: listens (the party follows the protocol), replaces_messages (it sends its own in training),
            replaces_features (it encrypts others than its own where weights are shared), replaces_shares (it adds to
            its shares of others' weights, where a network's first layer is shared) or replaces_requests (it asks
            something else than its learner, of one whose requests are its own).
        level: what the adversary knows beforehand of the passive columns. An attack whose options decide has a property
            ``level`` (``level_of``).
        sees_scores: False for a guess that no score or parameter enters. It is a baseline, never a verdict.
        reads_channel: whether it works with the view's channel and disclosure itself. Others are mounted once more on
            what ``attacks.prediction.adaptive`` makes of the view, where a session has defences.
        learners: names of the learners whose sessions, or models, it is on; empty for any. To an attack on predictions
            every model without hidden layers is ``linear``.
        seconds: how long it is thought to take on the reference machine (``docs/how-to/how-long.md``).
        obstacle: why it can't apply to a federation, in words that follow its name, where phase, needs and conduct
            don't say so already; empty where it can. An attack that has one goes first where only one can be mounted.
        at_level: of an attack that can be played at several levels, the options that make it know each. An audit mounts
            it at each.
        joins_sessions: whether it puts the sessions about the same records together. An audit mounts it once a session
            is over, on as many as owners allow, at each level of ``at_level``.
        when_wide: options that keep it to seconds where there are very many columns.

    Raises ValueError for a word that a field doesn't know: it would be an attack that nobody calls.

    Examples:
        >>> AttackSpec("active", "prediction", needs=("scores",), source="this page").method
        'reconstruct'
    """

    adversary: Adversary
    phase: Phase
    needs: tuple[str, ...]
    source: str
    knowledge: Knowledge = "agnostic"
    summary: str = ""
    cost: str = ""
    conduct: Conduct = "listens"
    level: Level = "nothing"
    sees_scores: bool = True
    reads_channel: bool = False
    learners: tuple[str, ...] = ()
    seconds: Callable[[Extent], float] = lambda _: FEW_SECONDS
    obstacle: Callable[[Scenario], str] | None = None
    at_level: Mapping[Level, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    joins_sessions: bool = False
    when_wide: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def is_on(self, learner: str) -> bool:
        """Say whether it can be mounted where this learner is trained."""
        return not self.learners or learner in self.learners

    def __post_init__(self) -> None:
        choices: dict[str, Any] = {
            "adversary": Adversary,
            "phase": Phase,
            "knowledge": Knowledge,
            "conduct": Conduct,
            "level": Level,
        }
        for name, choice in choices.items():
            if getattr(self, name) not in get_args(choice):
                _refuse(name, get_args(choice), getattr(self, name))
        if isinstance(self.needs, str) or not set(self.needs) <= set(NEEDS[self.phase]):
            _refuse(f"needs on {self.phase}", tuple(NEEDS[self.phase]), self.needs)
        if (self.phase, self.conduct) not in _METHODS:
            raise ValueError("An attack on predictions only listens: there are no messages of its own to replace.")

    @property
    def method(self) -> str:
        """Name the method that its service calls."""
        return _METHODS[self.phase, self.conduct]


def _refuse(field: str, allowed: tuple[str, ...], value: object) -> None:
    choices = ", ".join(repr(word) for word in allowed)
    raise ValueError(f"An attack's spec has {field} from {choices}, not {value!r}.")


class Attack(Protocol):
    """What all attacks share. Implementations are frozen dataclasses whose fields are the options."""

    name: ClassVar[str]
    spec: ClassVar[AttackSpec]


class PredictionAttack(Attack, Protocol):
    """Estimates features from predictions.

    A plugin promises that the estimate follows from the view and the options alone: the same view gives the same
    numbers, every draw comes from a seed among the options, and no view is changed.

    Examples:
        >>> attack: PredictionAttack = load_prediction("half")
        >>> attack.reconstruct(PredictionView(features_active=np.array([[0.25]]), passive_features=2))
        array([[0.5, 0.5]])
    """

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate the passive features of every record: (n, d). Raises ViewError when a needed piece is missing."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """An estimate, and what its reader should know of how it came about.

    Attributes:
        estimate: (n, d) features.
        notes: sentences, such as which solver was used and for how many records.
        low: (n, d), lower ends of each cell's 90 % interval, by an attack that has a belief of its own; else None.
        high: (n, d), upper ends; None as ``low``.
        densest: (n, d), where each cell most likely is: right more often than ``estimate``, which errs least on
            average; None where they are one.

    Examples:
        >>> reconstruct(load("half"), PredictionView(features_active=np.array([[0.25]]), passive_features=2))
        Reconstruction(estimate=array([[0.5, 0.5]]), notes=(), low=None, high=None, densest=None)
    """

    estimate: FloatArray
    notes: tuple[str, ...] = ()
    low: FloatArray | None = None
    high: FloatArray | None = None
    densest: FloatArray | None = None


@runtime_checkable
class AnnotatedAttack(Protocol):
    """An attack on predictions that says how its estimates came about; a service then calls this method instead."""

    def reconstruct_with_notes(self, view: PredictionView) -> Reconstruction:
        """Estimate as ``reconstruct`` does, with notes."""


@runtime_checkable
class BaselinedAttack(Protocol):
    """An attack on predictions that says what it would estimate had it seen no score and no parameter.

    The judge counts this among the baselines of the attack's level, so that only what the federation adds is credited.

    Examples:
        >>> isinstance(load("posterior"), BaselinedAttack), isinstance(load("half_star"), BaselinedAttack)
        (True, False)
    """

    def without_scores(self, view: PredictionView) -> FloatArray:
        """Estimate from what the adversary knows beforehand alone: (n, d). Raises ViewError."""


def level_of(attack: Attack) -> Level:
    """Say what the adversary of this attack, with its options, knows beforehand.

    Examples:
        >>> level_of(load("posterior", prior="mean")), level_of(load("posterior", prior="covariance"))
        ('marginals', 'covariance')
    """
    return getattr(attack, "level", attack.spec.level)


def reconstruct(attack: PredictionAttack, view: PredictionView) -> Reconstruction:
    """Run an attack on predictions, with its notes where it has any. Raises ViewError."""
    if isinstance(attack, AnnotatedAttack):
        return attack.reconstruct_with_notes(view)
    return Reconstruction(attack.reconstruct(view))


def refusal(attack: Attack, learner: str) -> str:
    """Say in a sentence why an attack can't be on sessions of this learner."""
    return f"{attack.name} is on sessions of {' and '.join(attack.spec.learners)}, and this one trains {learner}."


def require(attack: Attack, view: object) -> None:
    """Refuse a view that the attack isn't on.

    Raises:
        ViewError: for a training of a learner that the attack isn't on, and for a needed piece that the view lacks;
            names attack, piece and remedy.

    Examples:
        >>> require(load("half_star"), PredictionView(features_active=np.array([[0.25]])))
        Traceback (most recent call last):
            ...
        attacks.views.ViewError: half_star needs scores, which this view lacks: run predictions first.
    """
    learner = getattr(view, "learner", None)
    if learner is not None and not attack.spec.is_on(learner.name):
        raise ViewError(refusal(attack, learner.name))
    for piece in attack.spec.needs:
        value = getattr(view, piece)
        if value is None or (isinstance(value, tuple) and not value):
            remedy = NEEDS[attack.spec.phase][piece]
            raise ViewError(f"{attack.name} needs {piece}, which this view lacks: {remedy}.")
