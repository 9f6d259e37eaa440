"""What a defence is: a frozen set of options that says where it sits, what it changes and what it promises.

The service where a defence sits calls the methods of its stages:

    labels       replace_labels        the label party's own labels, before a session trains on them
    residuals    protect_residuals     a party's residual shares, or a network's backward signal, before they are sent
    labelled_residuals                 the same at the label party, with the labels that they are of:
                 protect_labelled_residuals
    hidden       protect_hidden        what a passive party's first layer adds to a network's hidden units
    updates      project_parameters    a party's own parameters, at the start and after each step of training
                 remark                when training has ended: what they came to that a promise doesn't hold for
    answers      (none)                a key holder's decrypted answers: who names one answers modulo 2^w
    features     transform_features    a party's own features, before a session uses them
    parameters   disclose              a passive party's parameters, when they are disclosed
    scores       protect_scores        the coordinator's confidence scores, before they are delivered
    training     train_linear,         takes the place of a model's training in the lab
                 train_network

Those of the first four stages have ``check`` and ``prediction`` besides, for when a session begins: whether they can
work, and what to expect.

All are pure functions of their arguments, but for the noise, which comes from a ``NoiseSource``.

A defence of scores says what it lets pass (``channel``), and one of features or parameters what is known of disclosed
parameters (``disclosure``), to all parties alike and never a secret. One that doesn't is undeclared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

from defences.noise import NoiseSource
from vfl.arrays import FloatArray, IntArray
from vfl.channels import ParameterChannel, ScoreChannel, Undeclared
from vfl.learning.networks import Activation, VerticalNetwork

Place = Literal["active", "passive", "coordinator", "lab"]
Stage = Literal[
    "labels",
    "residuals",
    "labelled_residuals",
    "hidden",
    "updates",
    "answers",
    "features",
    "parameters",
    "scores",
    "training",
]
Kept = Literal["scores", "decision", "nothing"]
Need = Literal["parameter_gram", "unit_features", "linear_model", "hidden_layer"]
Replaced = Literal["scores", "disclosed parameters", ""]
Leak = Literal["columns", "labels"]

# What a service calls of a defence of each stage; of the others nothing.
METHODS: Mapping[Stage, tuple[str, ...]] = {
    "labels": ("check", "prediction", "replace_labels"),
    "residuals": ("check", "prediction", "protect_residuals"),
    "labelled_residuals": ("check", "prediction", "protect_labelled_residuals"),
    "hidden": ("check", "prediction", "protect_hidden"),
    "updates": ("project_parameters", "remark"),
    "features": ("transform_features",),
    "parameters": ("disclose",),
    "scores": ("protect_scores",),
    "training": ("train_linear", "train_network"),
}
# What a defence of each stage may have besides: what all parties know of it.
DECLARATIONS: Mapping[Stage, str] = {"features": "disclosure", "parameters": "disclosure", "scores": "channel"}
# Of defences that change what disclosed parameters mean.
DISCLOSING: tuple[Stage, ...] = tuple(stage for stage, method in DECLARATIONS.items() if method == "disclosure")


class DefenceError(ValueError):
    """A defence can't do its work with these numbers; the text says why, and what to change.

    Examples:
        >>> load("score_scheme1").protect_scores(np.array([[0.5, 0.5]]), ScoreContext(NoiseSource()))
        Traceback (most recent call last):
            ...
        defences.base.DefenceError: score_scheme1 needs the Gram matrix of the passive parties' parameters, ...
    """


@dataclass(frozen=True)
class DefenceSpec:
    """What a defence declares about itself.

    Attributes:
        sits: the roles whose service applies it; "lab" for none.
        stages: what it works on.
        keeps: what stays the same for the active party: its scores, its decision (the arg max), or nothing.
        source: paper and section.
        summary: what it does, in a line for a list; empty for the first line of its docstring.
        cost: what is given up for it, in words; empty where nobody measured.
        needs: what the service must bring besides: "parameter_gram" (``ScoreContext``); "unit_features", when the
            features that the party trains on must lie in [0, 1]; "linear_model" or "hidden_layer", when the session
            must train a linear model, or a network.
        replaces: what it puts its own in place of. Two defences that replace the same thing contradict each other.
        leaves_unit_range: whether it may turn features in [0, 1] into features outside.
        stops: what it may keep from an adversary. ``plumbline audit --try-defences`` tries it where such leaked.
        tried_with: its options then, where they aren't the defaults.

    Raises:
        ValueError: for a word that a field doesn't know. Nobody would call such a defence.

    Examples:
        >>> spec: DefenceSpec = load("score_rounding").spec
        >>> spec.sits, spec.stages, spec.keeps
        (('coordinator',), ('scores',), 'nothing')
    """

    sits: tuple[Place, ...]
    stages: tuple[Stage, ...]
    keeps: Kept
    source: str
    summary: str = ""
    cost: str = ""
    needs: tuple[Need, ...] = ()
    replaces: Replaced = ""
    leaves_unit_range: bool = False
    stops: tuple[Leak, ...] = ()
    tried_with: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        choices_of: dict[str, tuple[tuple[str, ...], Any]] = {
            "sits": (self.sits, Place),
            "stages": (self.stages, Stage),
            "keeps": ((self.keeps,), Kept),
            "needs": (self.needs, Need),
            "replaces": ((self.replaces,), Replaced),
            "stops": (self.stops, Leak),
        }
        for name, (value, choice) in choices_of.items():
            if isinstance(value, str) or not set(value) <= set(get_args(choice)):
                choices = ", ".join(repr(word) for word in get_args(choice))
                raise ValueError(f"A defence's spec has {name} from {choices}, not {getattr(self, name)!r}.")


class Defence(Protocol):
    """What all defences share. Implementations are frozen dataclasses whose fields are the options.

    Options are public: other parties are told them, except those that the class names in ``private_options``, such as
    the path of a file.

    A plugin promises that it changes none of the arrays that it is given, and that all it draws comes from the
    ``NoiseSource`` that it is given: an honest run's noise is secret, a repeated run's the same. Each message has
    a source of its own, so that what is sent again is what was sent.

    Examples:
        >>> defence: Defence = load("score_rounding", decimals=1)
        >>> defence
        ScoreRounding(decimals=1)
    """

    name: ClassVar[str]

    @property
    def spec(self) -> DefenceSpec:
        """What the defence declares about itself."""


@dataclass(frozen=True)
class TrainingTerms:
    """Public numbers of a training session, seen from one party.

    Attributes:
        role: of the party whose residuals these are.
        epochs: e.
        steps: T, of the whole run.
        rows: s of the smallest batch; batches differ by one row at most.
        learning_rate: eta; NaN where steps aren't the gradient times a number.
        residual_limit: the magnitude that fixed point holds, exclusive; infinite without encryption.
        columns: of the residuals: of a linear model 1 for two classes, of a network its hidden units.
        row_norm: the largest 2-norm of this party's own rows; no other party is told.
        records: n, how many records are trained on; None for as many as such batches hold at most.
        features: d of this party, the label party's constant 1 included.
        all_features: of all parties.
        parties: how many there are.
        classes: k.
        hidden: h, the units of a network's first layer, to which every party adds; 0 where none is trained.
        residual_step: residuals are multiples of it, a power of two, before a defence sees them.

    Examples:
        >>> terms = TrainingTerms("active", epochs=2, steps=10, rows=8, learning_rate=0.5, residual_limit=128.0)
        >>> terms.most_records
        45
    """

    role: Literal["active", "passive"]
    epochs: int
    steps: int
    rows: int
    learning_rate: float
    residual_limit: float
    columns: int = 1
    row_norm: float = 1.0
    records: int | None = None
    features: int = 1
    all_features: int = 1
    parties: int = 2
    classes: int = 2
    hidden: int = 0
    residual_step: float = 2.0**-32

    @property
    def most_records(self) -> int:
        """Bound the records: n; where it isn't given, one more row in every batch of an epoch than in the smallest."""
        return max(1, self.steps // self.epochs) * (self.rows + 1) if self.records is None else self.records


class SessionDefence(Defence, Protocol):
    """What defences have in common that act on what a session sends, or is trained on.

    Examples:
        >>> defence: SessionDefence = load("hidden_noise")
        >>> defence.check(TrainingTerms("passive", epochs=2, steps=10, rows=8, learning_rate=0.5, residual_limit=128.0))
        Traceback (most recent call last):
            ...
        defences.base.DefenceError: hidden_noise protects what a network's hidden layer tells in training, ...
    """

    def check(self, terms: TrainingTerms) -> None:
        """Refuse, before training, terms under which the defence can't work.

        Raises:
            DefenceError: says what to change.
        """

    def prediction(self, terms: TrainingTerms) -> Any:
        """Predict what theory expects of a session, for the run's record: a dataclass of numbers and texts, or None."""


class ResidualDefence(SessionDefence, Protocol):
    """A defence that hides residuals from those who solve for them.

    Examples:
        >>> defence: ResidualDefence = load("dp_noise", sigma=0.1)
        >>> terms = TrainingTerms("active", epochs=2, steps=10, rows=2, learning_rate=0.5, residual_limit=128.0)
        >>> defence.protect_residuals(np.array([[-2.0], [2.0]]), terms, NoiseSource()).shape
        (2, 1)
    """

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        """Change the residual shares of one step, (rows, columns), that this party will encrypt."""


class LabelledResidualDefence(SessionDefence, Protocol):
    """A defence of the label party's residuals that goes by their labels.

    Examples:
        >>> defence: LabelledResidualDefence = load("marvell")
        >>> terms = TrainingTerms("active", 2, 10, rows=2, learning_rate=0.5, residual_limit=128.0, hidden=1)
        >>> signal, labels = np.array([[-0.5], [0.5]]), np.array([0, 1])
        >>> defence.protect_labelled_residuals(signal, labels, terms, NoiseSource()).shape
        (2, 1)
    """

    def protect_labelled_residuals(
        self, residuals: FloatArray, labels: IntArray, terms: TrainingTerms, noise: NoiseSource
    ) -> FloatArray:
        """Change the residual shares of one step, (rows, columns), of records with these class indices, (rows,)."""


class LabelDefence(SessionDefence, Protocol):
    """A defence that has other labels trained on.

    Examples:
        >>> defence: LabelDefence = load("label_randomised_response", epsilon=2.0)
        >>> defence.replace_labels(np.array([0, 1]), ["anna", "ben"], classes=2, noise=NoiseSource()).shape
        (2,)
    """

    def replace_labels(self, labels: IntArray, ids: Sequence[str], classes: int, noise: NoiseSource) -> IntArray:
        """Choose the class indices to train on, (n,), for those of all records of the table, (n,).

        It is asked again for every session. What a second draw would tell, it draws by the records' ids.
        """


class HiddenDefence(SessionDefence, Protocol):
    """A defence of the features behind what a passive party sends of a network's first layer.

    Examples:
        >>> defence: HiddenDefence = load("hidden_rounding", step=0.5)
        >>> defence.protect_hidden(np.array([[0.3, 1.9]]), NoiseSource())
        array([[0.5, 2. ]])
    """

    def protect_hidden(self, products: FloatArray, noise: NoiseSource) -> FloatArray:
        """Change products X W of some records, (n, h), in training and whenever the model answers."""


class UpdateDefence(Defence, Protocol):
    """A defence that keeps a party's own parameters where its promise holds.

    Examples:
        >>> defence: UpdateDefence = load("dp_noise", sigma=0.1)
        >>> terms = TrainingTerms("active", epochs=2, steps=10, rows=2, learning_rate=0.5, residual_limit=128.0)
        >>> defence.project_parameters(np.array([[9.0]]), terms)
        array([[2.]])
    """

    def project_parameters(self, weights: FloatArray, terms: TrainingTerms) -> FloatArray:
        """Change the party's own (d, columns) parameters, before the first step and after each."""

    def remark(self, largest_norm: float, terms: TrainingTerms) -> str:
        """Say, of the largest norm that the party's parameters had, what doesn't hold then; empty where all does."""


class FeatureDefence(Defence, Protocol):
    """A defence that puts other features in the place of a party's own.

    Examples:
        >>> defence: FeatureDefence = load("feature_transform", kind="random", at="training")
        >>> defence.transform_features(np.array([[0.2], [0.4]]), NoiseSource()).shape
        (2, 1)
    """

    def transform_features(self, features: FloatArray, noise: NoiseSource) -> FloatArray:
        """Change features: (n, d) in, (n, d) out. ``noise`` draws what is secret."""


class ParameterDefence(Defence, Protocol):
    """A defence that distorts what a passive party discloses of its parameters.

    Examples:
        >>> defence: ParameterDefence = load("parameter_rotation")
        >>> weights, features = np.array([[-1.0, 0.5], [1.0, -0.5]]), np.array([[0.2, 0.9], [0.4, 0.1]])
        >>> defence.disclose(weights, features, NoiseSource()).shape
        (2, 2)
    """

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        """Choose what to disclose in place of a linear model's class rows.

        Args:
            weights: (k, d) class rows; a binary model has the two rows (-theta/2, theta/2), and so has the result.
            features: the party's own, (n, d).
            noise: draws what is secret.

        Returns:
            (k, d) class rows.

        Raises:
            DefenceError: for arguments that the defence can't work on.
        """


@dataclass(frozen=True, eq=False)
class ScoreContext:
    """What the coordinator knows besides scores.

    Attributes:
        noise: draws what is secret.
        parameter_gram: (k, k), W W^T of all passive parties' class rows W (k, d) together. It is the geometry of what
            scores tell, without any parameter. None where no linear model is trained.
    """

    noise: NoiseSource
    parameter_gram: FloatArray | None = None


class ScoreDefence(Defence, Protocol):
    """A defence that changes the confidence scores which the active party gets.

    Examples:
        >>> defence: ScoreDefence = load("class_label")
        >>> defence.protect_scores(np.array([[0.23, 0.77]]), ScoreContext(NoiseSource()))
        array([[0., 1.]])
    """

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Change scores: (n, k) in, (n, k) out, non-negative. Rows sum to 1 unless the defence says otherwise.

        Raises:
            DefenceError: for scores that the defence can't work on.
        """


class TrainingDefence(Defence, Protocol):
    """A defence that trains models itself, in the lab."""

    def train_linear(
        self, features: FloatArray, labels: IntArray, *, classes: int | None = None, seed: int | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Train on (n, D) features of all parties and (n,) class indices: (k, D) class rows and a (k,) bias."""

    def train_network(
        self,
        features_active: FloatArray,
        features_passive: FloatArray,
        labels: IntArray,
        *,
        hidden: Sequence[int],
        activation: Activation,
        classes: int | None = None,
        seed: int | None = None,
    ) -> VerticalNetwork:
        """Train a part per party, whose outputs are added before softmax."""


@runtime_checkable
class DeclaresChannel(Protocol):
    """A defence of scores that says what it lets pass."""

    def channel(self, classes: int) -> ScoreChannel:
        """Say what passes of the scores of so many classes. Equal options say the same, whatever they have drawn.

        Raises:
            DefenceError: where the defence can't work with so many classes.
        """


@runtime_checkable
class DeclaresDisclosure(Protocol):
    """A defence of features or parameters that says how the parameters that its party discloses are to be read."""

    def disclosure(self) -> ParameterChannel | None:
        """Say how disclosed class rows differ from those of the true features that scores follow from; None: not.

        Equal options say the same, whatever they have drawn.
        """


def check_network(name: str, terms: TrainingTerms) -> None:
    """Raise DefenceError where a session trains no network, which the defence of this name is of."""
    if not terms.hidden:
        raise DefenceError(
            f"{name} protects what a network's hidden layer tells in training, and this session trains none: drop it, "
            "or train with learner=network."
        )


def channel_of(defence: Defence, classes: int) -> ScoreChannel:
    """Ask a defence of scores what it lets pass; ``Undeclared`` where it doesn't say. Raises DefenceError.

    Examples:
        >>> channel_of(load("score_rounding", decimals=1), classes=2)
        Rounding(decimals=1)
    """
    if not isinstance(defence, DeclaresChannel):
        return Undeclared(defence.name)
    declared = defence.channel(classes)
    if not isinstance(declared, ScoreChannel):
        raise _unknown(defence, declared, "a channel of vfl.channels, such as Rounding, or another ScoreChannel")
    return declared


def disclosure_of(defence: Defence) -> ParameterChannel | None:
    """Ask how a defence changes what disclosed parameters mean; None when it doesn't. Raises DefenceError.

    Examples:
        >>> disclosure_of(load("parameter_rotation")), disclosure_of(load("score_rounding"))
        (Distorted(kind='any', about=0.0, sign_is_guess=True), None)
    """
    if not set(DISCLOSING) & set(defence.spec.stages):
        return None
    if not isinstance(defence, DeclaresDisclosure):
        return Undeclared(defence.name)
    declared = defence.disclosure()
    if not isinstance(declared, ParameterChannel | None):
        raise _unknown(defence, declared, "one of Distorted, Undeclared")
    return declared


def _unknown(defence: Defence, declared: object, expected: str) -> DefenceError:
    return DefenceError(f"{defence.name} declares {declared!r}, which no adversary knows: expected {expected}.")
