"""What a learner is: a model family and how it is trained, told apart from every exchange, cipher and session.

A frozen dataclass of its options makes one party's *half* (``Learner.begin``): its weights, and its steps. A step is a
program that asks: it yields ``Forward``, ``Send`` and ``Ask``, and the training loop answers with values (arrays, or a
protocol's opaque shares, which can be added, subtracted and multiplied by public numbers).

    products = yield Forward(self.weights)    X W, (s, c)
    yield Send(share)                         (s, columns), to every other party
    sums = yield Ask()                        X^T of what all have sent, (d, columns)

``docs/adding-a-learner.md`` has the contract at length.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores
from vfl.learning.hearing import Deaf, Hearing
from vfl.learning.networks import DenseNetwork

Senders = Literal["all", "active", "none"]


class LearnerError(ValueError):
    """A learner can't work with this data, or has done what none may; the sentence says what.

    Examples:
        >>> from vfl.learning import registry
        >>> own = OwnData(features=1, labels=None, classes=2, total_features=2, generator=np.random.default_rng())
        >>> registry.load("installed").begin(own)
        Traceback (most recent call last):
            ...
        vfl.learning.learner.LearnerError: an installed model is answered by parts, and this party brings none: ...
    """


@dataclass(frozen=True, eq=False)
class Forward:
    """Asks for the products of the step's records and weights, (d, c).

    Answered with (s, c): of the party's own columns. At the label party of a learner that forwards: of all parties'.
    """

    weights: FloatArray


@dataclass(frozen=True, eq=False)
class Send:
    """Has values, (s, columns), sent to the other parties, as the party's defences leave them. Answered with None."""

    values: FloatArray


@dataclass(frozen=True)
class Ask:
    """Asks for X^T of what was sent in this step, (d, columns): by this party itself, and by every other that sends."""


class OwnRequest:
    """What a learner asks besides, in a class of its own that derives from this; a protocol that knows it answers."""


Request: TypeAlias = Forward | Send | Ask | OwnRequest
# What a step is: what it yields, and what it is answered with.
Step: TypeAlias = Generator[Request, Any, None]


class Part(Protocol):
    """One party's part of a model that answers. Frozen.

    Examples:
        >>> part: Part = LinearPart(np.array([[2.0]]))
        >>> part.class_rows
        array([[-1.],
               [ 1.]])
    """

    def shares(self, features: FloatArray) -> FloatArray:
        """Compute the party's share of each record's outputs: (n, d) features in, (n, outputs) out.

        A record's is the same to the last bit whatever stands beside it.
        """

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Name all that the part is made of: what is kept on disk, disclosed and recorded."""

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read the part that ``arrays`` wrote.

        Raises:
            ValueError: for anything else; arrays come from disks and from other parties.
        """

    @property
    def class_rows(self) -> FloatArray | None:
        """(k, d) rows of weights, one per class, where outputs are linear in the features; else None.

        What defences of parameters, and the count of what a record's answers tell, work on.
        """

    def with_class_rows(self, rows: FloatArray) -> Self:
        """Make the part that has these class rows; only asked of one that has some."""


class ScoringPart(Part, Protocol):
    """The label party's part of a model whose learner forwards: what is above the first layer is its own."""

    def scores(self, joined: FloatArray) -> FloatArray:
        """Score all parties' shares added up, (n, outputs) in, (n, classes) out; rows sum to 1."""


@dataclass(frozen=True, eq=False)
class TrainingColumns:
    """A party's own columns, of which nothing is sent.

    Attributes:
        table: (n, d), of the aligned records.
        rows: which of them are trained on.

    Examples:
        >>> columns = TrainingColumns(table=np.array([[1.0], [3.0], [5.0]]), rows=np.array([0, 2]))
        >>> columns.table[columns.rows].mean(axis=0)
        array([3.])
    """

    table: FloatArray
    rows: IntArray


@dataclass(frozen=True, eq=False)
class OwnData:
    """What a party's half is begun with.

    Attributes:
        features: d, the party's columns; the label party's last one is the constant 1, its bias.
        labels: class indices of the aligned records, (n,); the label party's only.
        classes: how many labels there are.
        total_features: of all parties together.
        generator: private to the party; draws its first weights.
        brought: its part of a model that was trained elsewhere; None where it brings none.
        holds_bias: whether the last column is a bias: at the label party, and at who holds a share of its weights.
        parties: how many train together.
        trained: the party's own columns, for a learner that computes something of them; None where nobody gives them.
        turned: whether weights are of columns that ``Learner.turn`` has turned.
    """

    features: int
    labels: IntArray | None
    classes: int
    total_features: int
    generator: np.random.Generator
    brought: DenseNetwork | None = None
    holds_bias: bool = False
    parties: int = 2
    trained: TrainingColumns | None = None
    turned: bool = False


class Half(Protocol):
    """One party's half of a model in training.

    Attributes:
        weights: (d, c) as they stand; the loop sets them to what a defence of updates makes of them.
    """

    weights: FloatArray

    def step(self, batch: IntArray) -> Step:
        """Make the program of one step, for these records of the aligned order, (s,)."""

    def part(self) -> Part:
        """Give the party's part of the model as it stands."""


@runtime_checkable
class CarryingHalf(Half, Protocol):
    """A half that carries more than its weights from step to step.

    Attributes:
        carried: that, by name, such as momentum and layers of its own: arrays, or a protocol's shares. The loop sets it
            to what it was before a step that is done again.
    """

    carried: Mapping[str, Any]


@dataclass(frozen=True)
class LearnerSpec:
    """What a learner declares.

    Attributes:
        senders: who sends in a step; none where nothing is trained.
        part: the class of its parts, which reads them.
        source: the paper's section, or where else it comes from.
        forwards: whether a first layer's products go to the label party, whose part is then a ``ScoringPart``.
        resumes: whether a training that was interrupted goes on: its halves carry weights from step to step and nothing
            else, or say what (``CarryingHalf``).
        reaches: whether the label party is told which leaves a record reaches, of which its part, a ``ScoringPart``,
            makes scores.

    Raises ValueError for a word that a field doesn't know: nobody would wait for such senders.

    Examples:
        >>> LearnerSpec(senders="all", part=LinearPart, source="Hu section 2").trains
        True
    """

    senders: Senders
    part: type[Part]
    source: str
    forwards: bool = False
    resumes: bool = False
    reaches: bool = False

    def __post_init__(self) -> None:
        if self.senders not in get_args(Senders):
            raise ValueError(f"A learner's spec has senders from {', '.join(get_args(Senders))}, not {self.senders!r}.")

    @property
    def trains(self) -> bool:
        """Whether there are steps at all."""
        return self.senders != "none"

    @property
    def answers(self) -> Literal["scores", "sums", "leaves"]:
        """What the label party is answered with: scores, or sums of a first layer or leaves, of which it makes them."""
        return "sums" if self.forwards else "leaves" if self.reaches else "scores"


@dataclass(frozen=True)
class EquationLeakage:
    """What one answered equation about the label party's values tells, for the guard.

    Attributes:
        labels: of how many records the labels follow from one equation, at most.
        labels_alone: the option under which the first step's values are labels alone, such as ``initialisation=zero``;
            empty where they aren't.
        remedy: what to choose in its place.
        is_affine: whether a value is a label's term plus a linear form of the label party's own columns. Sums of the
            same rows then move in no more directions than it has columns, and what doesn't move tells of labels alone.
        step_size: what a step moves the weights by, relative to what they are: steps that move nothing have the same
            unknowns, and add up. The option is called learning_rate. None where it isn't known.
        is_gradient_step: whether a step is the gradient times ``step_size``, which proofs about noise rest on.
        settled_after: steps after which weights may be where they end: further ones have the same unknowns, and add up.
            None where that isn't known.

    Examples:
        >>> from vfl.learning import registry
        >>> registry.load("linear", initialisation="zero").tells().labels_alone
        'initialisation=zero'
    """

    labels: int = 7
    labels_alone: str = ""
    remedy: str = ""
    is_affine: bool = False
    step_size: float | None = None
    is_gradient_step: bool = True
    settled_after: int | None = None


@dataclass(frozen=True)
class FewSteps:
    """How few steps train a learner on a table, by public numbers alone.

    Attributes:
        batches: of an epoch.
        whole: epochs where a batch is all training records: the most that are worth their answers.
        least: epochs of whole batches that a model needs.
        parted: epochs of as many batches as ``batches`` says, or as a plan does.

    Examples:
        >>> few = FewSteps(batches=4, whole=8, least=5, parted=2)
        >>> few.epochs(batches=1), few.epochs(batches=3), few.epochs(batches=50)
        (8, 3, 2)
    """

    batches: int
    whole: int
    least: int
    parted: int

    def epochs(self, batches: int) -> int:
        """Choose the epochs of so many batches each: as many steps as of whole ones, or a few epochs."""
        return self.whole if batches == 1 else max(self.parted, -(-self.whole // batches))


@dataclass(frozen=True)
class TableSize:
    """What everybody knows of a table that parties train on together.

    Attributes:
        rows: training records.
        features: of each party, the label party's first.

    Examples:
        >>> from vfl.learning import registry
        >>> registry.load("linear", steps="own_moments").few_steps(TableSize(rows=400, features=(16, 15)))
        FewSteps(batches=1, whole=8, least=5, parted=2)
    """

    rows: int
    features: tuple[int, ...]


class Learner(Protocol):
    """A model family with its options, a frozen dataclass. Subclasses have what isn't said here otherwise.

    Examples:
        >>> from vfl.learning import registry
        >>> learner: Learner = registry.load("linear")
        >>> learner.columns(classes=2), learner.columns(classes=10)
        (1, 10)
    """

    name: ClassVar[str]
    spec: ClassVar[LearnerSpec]

    def columns(self, classes: int) -> int:
        """Count the columns that are sent in a step."""

    def begin(self, own: OwnData) -> Half:
        """Make a party's half, with its first weights. Raises LearnerError for data that it can't work with."""

    def outputs(self, classes: int) -> int:
        """Count the columns of a part's shares."""
        return self.columns(classes)

    def told(self, classes: int) -> int:
        """Count the numbers that the label party is told of a record, where these are no scores."""
        return self.outputs(classes)

    def check_label_party(self) -> None:
        """Raise LearnerError where the label party lacks what it trains with: asked there before a session begins."""
        return  # a body of words only would count as abstract

    def terms(self) -> Mapping[str, str | int]:
        """Name terms of the session's plan that follow from the options, such as its protocol; others stay free."""
        return {}

    def tells(self) -> EquationLeakage:
        """Say what one answered equation tells."""
        return EquationLeakage()

    def quadratic_loss(self, mean_square: float, classes: int) -> float | None:
        """Compute the loss that steps lower, in nats, where it follows from the mean square of records' sent values.

        For early stopping where nobody knows the model: protocol=shared refuses it for a learner that gives None.
        """
        return None

    def few_steps(self, table: TableSize) -> FewSteps | None:
        """Say how few steps train it, for a plan that leaves epochs or batches open; None: the plan's sixty epochs."""
        return None

    def turned_norm(self, classes: int, records: int) -> float | None:
        """Bound a trained record's norm in the columns that ``turn`` turns; None for a learner that turns none.

        It is public, and other records are cut to it. Whoever turns columns takes each step on all training records.
        """
        return None

    def turn(self, own: OwnData) -> FloatArray:
        """Make the (d, d) R of a party whose weights are shared: it shares X R in place of its columns X.

        Steps then move weights V of X R, and W = R V are those of X. Only asked of a learner that bounds their norm.
        """
        return np.eye(own.features)

    def hearing(self) -> Hearing:
        """Make what says, in words of ``vfl.learning.hearing``, what a half's own requests tell whoever asks them."""
        return Deaf()

    def calibrates(self) -> bool:
        """Whether scores are calibrated after training: only where parts have class rows, and ``link`` is softmax."""
        return False

    def join(self, shares: Sequence[FloatArray]) -> FloatArray:
        """Join all parties' shares of some records' outputs to one, (n, outputs)."""
        # The others' first, as whoever adds up for the label party does.
        return shares[0] + sum(shares[1:])

    def link(self, joined: FloatArray) -> FloatArray:
        """Score what ``join`` gave, (n, classes); rows sum to 1."""
        return confidence_scores(joined)
