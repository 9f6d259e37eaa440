"""Vertical logistic regression by the first-order gradient (Hu eq. 3-6): the learner that is built in."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import class_rows
from vfl.learning.learner import (
    Ask,
    EquationLeakage,
    FewSteps,
    Forward,
    Learner,
    LearnerError,
    LearnerSpec,
    OwnData,
    Send,
    Step,
    TableSize,
    TrainingColumns,
)
from vfl.learning.linear.initialisation import Initialisation, initial_weights
from vfl.learning.linear.own_moments import OwnMoments, OwnMomentsDescent, PlainDescent, TurnedMoments, turn_of
from vfl.learning.linear.reference import GradientDescent
from vfl.learning.linear.scheme import ResidualScheme, residual_columns
from vfl.learning.networks import product_by_record
from vfl.learning.schedule import BatchSchedule


@dataclass(frozen=True, eq=False)
class LinearPart:
    """A party's weights, and what they answer.

    Attributes:
        weights: (d, columns); one column for two classes, else one per class.
        constant: (columns,) that each record's share has besides, while columns are centred in training; None for none.

    Examples:
        >>> LinearPart(np.array([[2.0]])).shares(np.array([[0.5], [0.25]]))
        array([[1. ],
               [0.5]])
    """

    weights: FloatArray
    constant: FloatArray | None = None

    def shares(self, features: FloatArray) -> FloatArray:
        """Compute X W of (n, d) features, (n, columns); a record's to the last bit whatever stands beside it."""
        products = product_by_record(features, self.weights)
        return products if self.constant is None else products + self.constant

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give the weights, and the constant where there is one."""
        return {"weights": self.weights} | ({} if self.constant is None else {"constant": self.constant})

    def trained(self, constants: FloatArray | None = None) -> "LinearPart":
        """Make the part that answers once training is over: it adds nothing to products.

        Args:
            constants: (columns,) the other parties', added up; they go to the last feature, the label party's bias.
        """
        if constants is None:
            return LinearPart(self.weights)
        return LinearPart(np.vstack([self.weights[:-1], self.weights[-1:] + constants]))

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> "LinearPart":
        """Read the part that ``arrays`` wrote, or that was kept as a network of one layer; raises ValueError."""
        weights = arrays.get("weights", arrays.get("weights_0"))
        if weights is None or weights.ndim != 2 or weights.dtype.kind != "f":
            raise ValueError("a linear part has one matrix of weights")
        constant = arrays.get("constant")
        if constant is not None and (constant.shape != weights.shape[1:] or constant.dtype.kind != "f"):
            raise ValueError("a linear part's constant has a number for each column of its weights")
        return cls(weights.astype(np.float64), None if constant is None else constant.astype(np.float64))

    @property
    def class_rows(self) -> FloatArray:
        """(k, d) class rows."""
        return class_rows(self.weights)

    def with_class_rows(self, rows: FloatArray) -> "LinearPart":
        """Make the part of other class rows: in one column where that says the same, as of undistorted rows."""
        if self.weights.shape[1] == 1 and np.array_equal(rows[0], -rows[1]):
            return LinearPart(2 * rows[1][:, None])
        return LinearPart(rows.T)


# One equation tells several labels while weights are near their start, more where that is all but zero. Measured:
# docs/decisions/0005. From zero itself the first step tells most, and has its own count.
LABELS_PER_EQUATION = 4
LABELS_PER_EQUATION_NEAR_ZERO = 7
# Beyond it every training diverges in its first step, whatever the data.
_LARGEST = 1e9
# Of steps by own moments: beyond it momentum may grow the loss without end.
_LARGEST_OF_OWN_MOMENTS = 0.5

# Of steps by own moments: whole batches for each party, the fewest of them, and epochs of batches for each other party.
_WHOLE, _LEAST_WHOLE, _PARTED = 4, 5, 2
# Of tables with so many records, and so many of a batch for each of its sums, batches cost less than they blur.
_BATCHES, _LARGE, _ROWS_PER_SUM = 4, 1 << 16, 64

Steps = Literal["plain", "own_moments"]


@dataclass(frozen=True)
class LinearRegression(Learner):
    """First-order logistic regression, its label party's last feature the constant 1.

    Attributes:
        learning_rate: Constant step size. With steps=own_moments a share of 2 / parties, 0.5 at most.
        l2: Weight of the squared norm; spares the bias.
        initialisation: Of the weights. zero shows the first batch's labels to who solves for them.
        steps: plain: the gradient times learning_rate. own_moments: times the inverse of the party's own second
            moments as well, so that a model takes tens of steps in place of thousands.
        calibrated: Whether validation records fit a slope and intercepts of the scores after training.
    """

    learning_rate: float = 0.5
    l2: float = 0.0
    initialisation: Initialisation = "xavier"
    steps: Steps = "plain"
    calibrated: bool = False

    name: ClassVar[str] = "linear"
    spec: ClassVar[LearnerSpec] = LearnerSpec(senders="all", part=LinearPart, source="Hu section 2", resumes=True)

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate <= _LARGEST:
            raise ValueError(
                f"Expected learning_rate to be a positive number up to {_LARGEST:g}, got {self.learning_rate!r}."
            )
        if not 0 <= self.l2 <= _LARGEST:
            raise ValueError(f"Expected l2 to be from 0 to {_LARGEST:g}, got {self.l2!r}.")
        if self.steps == "own_moments" and self.learning_rate > _LARGEST_OF_OWN_MOMENTS:
            raise ValueError(
                f"steps=own_moments takes a learning_rate up to {_LARGEST_OF_OWN_MOMENTS:g}, which stands for 1 / "
                f"parties, got {self.learning_rate!r}: choose {_LARGEST_OF_OWN_MOMENTS:g}, or steps=plain."
            )

    def rate(self, parties: int) -> float:
        """Give what a step's direction is multiplied by, of so many parties."""
        return self.learning_rate if self.steps == "plain" else 2.0 * self.learning_rate / parties

    def in_one_place(self, schedule: BatchSchedule, epochs: int, parties: int) -> GradientDescent:
        """Make the descent of a training of so many parties in one place."""
        return GradientDescent(schedule, epochs, self.rate(parties), own_moments=self.steps == "own_moments")

    def descent(
        self,
        columns: TrainingColumns | None,
        penalty: FloatArray,
        *,
        classes: int,
        parties: int,
        turned: bool = False,
    ) -> PlainDescent | OwnMomentsDescent:
        """Make what moves one party's weights.

        Args:
            columns: the party's own; plain steps need none.
            penalty: (d, 1) strength of the penalty on each weight.
            classes: of the labels.
            parties: how many train together.
            turned: whether weights are of columns that ``turn`` has turned.

        Raises:
            LearnerError: for steps by own moments without columns.
        """
        if self.steps == "plain":
            return PlainDescent(self.rate(parties))
        if columns is None:
            raise LearnerError("steps=own_moments needs the party's own training columns: give them, or steps=plain.")
        if turned:
            return OwnMomentsDescent(TurnedMoments(columns.rows), self.rate(parties))
        moments = OwnMoments(columns.table, columns.rows, ResidualScheme(classes).gradient_scale(1), penalty)
        return OwnMomentsDescent(moments, self.rate(parties))

    def turned_norm(self, classes: int, records: int) -> float | None:
        """Bound the norm of a trained record that steps by own moments have turned: (n / c)^(1/2)."""
        return None if self.steps == "plain" else math.sqrt(records / ResidualScheme(classes).gradient_scale(1))

    def turn(self, own: OwnData) -> FloatArray:
        """Make the (d, d) R with which plain steps are those by own moments."""
        if own.trained is None:
            raise LearnerError("steps=own_moments turns the party's own training columns: give them, or steps=plain.")
        return turn_of(own.trained.table[own.trained.rows], ResidualScheme(own.classes).gradient_scale(1))

    def columns(self, classes: int) -> int:
        """Count one for two classes, else one per class."""
        return residual_columns(classes)

    def terms(self) -> Mapping[str, str]:
        """Ask for the protocol in which each party reads its own gradient, where own moments hold a penalty as well.

        In columns that are turned the penalty's gradient is R^T R v: whoever holds a share of v would need R^T R.
        """
        return {"protocol": "hu"} if self.steps == "own_moments" and self.l2 else {}

    def tells(self) -> EquationLeakage:
        """Say that an equation tells several labels near the start; in zero's first step labels alone.

        Steps by own moments move weights by no less than plain ones of the same learning_rate, for up to eight parties:
        a plain step is at most c = 1/4 of it, in a direction of mean square 1, and one by own moments 2 / parties. So
        they end sooner as well: of two parties what is left to move is a tenth after about 2 / learning_rate.
        """
        near_zero = self.initialisation == "normal"
        return EquationLeakage(
            labels=LABELS_PER_EQUATION_NEAR_ZERO if near_zero else LABELS_PER_EQUATION,
            labels_alone="initialisation=zero" if self.initialisation == "zero" else "",
            remedy="initialisation=xavier",
            is_affine=True,
            step_size=self.learning_rate,
            is_gradient_step=self.steps == "plain",
            settled_after=None if self.steps == "plain" else math.ceil(2 / self.learning_rate),
        )

    def few_steps(self, table: TableSize) -> FewSteps | None:
        """Say how few steps by own moments train it: of several parties more, since their columns are alike.

        Measured: docs/decisions/0027.
        """
        if self.steps == "plain":
            return None
        parties = len(table.features)
        is_large = table.rows >= max(_LARGE, _BATCHES * _ROWS_PER_SUM * max(table.features))
        full_steps, split_steps = _WHOLE * parties, _PARTED * (parties - 1)
        return FewSteps(_BATCHES if is_large else 1, whole=full_steps, least=_LEAST_WHOLE, parted=split_steps)

    def quadratic_loss(self, mean_square: float, classes: int) -> float:
        """Expand the log loss at 0 to second order."""
        return ResidualScheme(classes).quadratic_loss(mean_square)

    def calibrates(self) -> bool:
        """Say what the option says."""
        return self.calibrated

    def begin(self, own: OwnData) -> "LinearHalf":
        """Make a party's half; its weights are drawn. Raises LearnerError where own_moments lacks its columns."""
        return LinearHalf(self, own)


class LinearHalf:
    """One party's half of the training.

    Attributes:
        weights: (d, columns) as they stand; gradients are taken where momentum carries them.
    """

    def __init__(self, learner: LinearRegression, own: OwnData) -> None:
        self._scheme, self._labels = ResidualScheme(own.classes), own.labels
        self._penalty = np.full((own.features, 1), learner.l2)
        if own.labels is not None or own.holds_bias:
            self._penalty[-1] = 0.0
        self._descent = learner.descent(
            own.trained, self._penalty, classes=own.classes, parties=own.parties, turned=own.turned
        )
        self._intercept: FloatArray | None = None
        if own.labels is not None and own.trained is not None:
            self._intercept = self._scheme.intercept(own.labels[own.trained.rows])
        self.weights = initial_weights(
            learner.initialisation,
            own.features,
            self._scheme.columns,
            total_features=own.total_features,
            generator=own.generator,
        )

    def step(self, batch: IntArray) -> Step:
        """Send this party's share of the residual, and move against the gradient of the sums."""
        ahead = self._descent.ahead(self.weights, batch)
        products = yield Forward(ahead)
        yield Send(self._descent.sent(self._share(products, batch)))
        sums = yield Ask()
        gradient = self._scheme.gradient_scale(len(batch)) * sums + self._penalty * ahead
        self.weights = self._descent.moved(self.weights, ahead, gradient, batch)

    @property
    def carried(self) -> Mapping[str, Any]:
        """What momentum remembers."""
        return self._descent.state

    @carried.setter
    def carried(self, kept: Mapping[str, Any]) -> None:
        """Take up what a half of these options carried."""
        self._descent.state = kept

    def part(self) -> LinearPart:
        """Give the weights, to answer with; where columns are centred, with the constant that follows from them."""
        constant = self._descent.constant(self.weights)
        if constant is None or self._intercept is None:
            return LinearPart(self.weights, constant)
        # The mean of its own products is taken off as well, but for the bias, whose place this is.
        return LinearPart(np.vstack([self.weights[:-1], self._intercept + constant + self.weights[-1:]]))

    def _share(self, products: FloatArray, batch: IntArray) -> FloatArray:
        if self._labels is None:
            return self._scheme.passive_share(products)
        return self._scheme.active_share(products, self._labels[batch])
