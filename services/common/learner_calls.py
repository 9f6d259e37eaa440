"""Calls a learner, whose code may be another package's: whatever it does wrong ends its session, with its name."""

import logging
import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from services.common.errors import OutOfOrder
from services.common.plugin_calls import done_within
from services.common.scores import SLACK
from vfl.arrays import FloatArray
from vfl.learning import (
    EquationLeakage,
    FewSteps,
    Half,
    Learner,
    LearnerError,
    OwnData,
    Part,
    TableSize,
    registry,
)
from vfl.learning.learner import CarryingHalf, Request, ScoringPart, Step

_log = logging.getLogger(__name__)

T = TypeVar("T")

# That another package's learner may take for an answer outside a step, whose timeout is a setting.
ANSWER_SECONDS = 60.0


class LearnerFailed(OutOfOrder):
    """A learner has raised, hangs, or has asked for what no learner may."""


def made(name: str, options: Mapping[str, Any]) -> Learner:
    """Make a learner from its name and options.

    Raises:
        ValueError: for a name that no learner has, with the known ones, and for options that it doesn't take.
        LearnerFailed: where it takes too long.
    """
    if registry.is_built_in(name):
        return registry.load(name, **options)
    return _within(ANSWER_SECONDS, name, lambda: registry.load(name, **options))


@dataclass(frozen=True)
class LearnerCalls:
    """Calls one learner's code. Of another package's, no exception's text is told: it may hold a party's values.

    Attributes:
        learner: whose.
        timeout: seconds that a call may take; only another package's is watched.
    """

    learner: Learner
    timeout: float = field(default_factory=lambda: ANSWER_SECONDS)

    @property
    def _is_ours(self) -> bool:
        return registry.is_built_in(self.learner.name)

    def __call__(self, work: Callable[[], T]) -> T:
        """Do ``work``.

        Raises:
            LearnerFailed: for whatever it raises, in the words of a learner of ours, and after the timeout.
        """
        try:
            return work() if self._is_ours else _within(self.timeout, self.learner.name, work)
        except _Hangs:
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, LearnerError) and self._is_ours:
                raise LearnerFailed(f"learner {self.learner.name}: {error}") from error
            _log.exception("Learner %s failed.", self.learner.name)
            raise self.refused(f"failed with {type(error).__name__}") from error

    def columns(self, classes: int) -> int:
        """Count the columns that are sent in a step."""
        return self._count(self(lambda: self.learner.columns(classes)), "columns")

    def outputs(self, classes: int) -> int:
        """Count the columns of a part's shares."""
        return self._count(self(lambda: self.learner.outputs(classes)), "outputs")

    def quadratic_loss(self, mean_square: float, classes: int) -> float | None:
        """Compute the loss, in nats, of the mean square of what is sent; None for a learner that has none."""
        loss = self(lambda: self.learner.quadratic_loss(mean_square, classes))
        if loss is not None and not (isinstance(loss, Real) and math.isfinite(loss)):
            raise self.refused("gives a loss that is no finite number")
        return None if loss is None else float(loss)

    def terms(self) -> Mapping[str, str | int]:
        """Name terms of the plan that follow from the learner's options."""
        terms = self(self.learner.terms)
        if not isinstance(terms, Mapping) or not all(
            isinstance(name, str) and isinstance(value, (str, int)) for name, value in terms.items()
        ):
            raise self.refused("gives terms of a plan that aren't words or whole numbers by name")
        return dict(terms)

    def turned_norm(self, classes: int, records: int) -> float | None:
        """Bound a trained record's norm in columns that the learner turns; None where it turns none."""
        norm = self(lambda: self.learner.turned_norm(classes, records))
        if norm is not None and not (isinstance(norm, Real) and 0 < norm < math.inf):
            raise self.refused("bounds the norm of a record by no positive number")
        return None if norm is None else float(norm)

    def turn(self, own: OwnData) -> FloatArray:
        """Make the (d, d) matrix by which a party's columns are turned."""
        return self.checked(self(lambda: self.learner.turn(own)), (own.features, own.features), "a turn of columns")

    def calibrates(self) -> bool:
        """Say whether scores are calibrated after training."""
        if not isinstance(calibrates := self(self.learner.calibrates), bool):
            raise self.refused("says neither that scores are calibrated nor that they aren't")
        return calibrates

    def few_steps(self, table: TableSize) -> FewSteps | None:
        """Say how few steps train it on a table; None where it doesn't say."""
        few = self(lambda: self.learner.few_steps(table))
        if few is None:
            return None
        if not isinstance(few, FewSteps):
            raise self.refused("says no FewSteps of a table")
        return FewSteps(*(self._count(count, "steps of a plan") for count in vars(few).values()))

    def leakage(self) -> EquationLeakage:
        """Say what one answered equation tells."""
        told = self(self.learner.tells)
        if not isinstance(told, EquationLeakage):
            raise self.refused("tells no EquationLeakage")
        self._count(told.labels, "labels that an equation tells")
        if not isinstance(told.labels_alone, str) or not isinstance(told.remedy, str):
            raise self.refused("tells an option or a remedy that is no text")
        rate = told.step_size
        if rate is not None and not (isinstance(rate, Real) and math.isfinite(rate)):
            raise self.refused("tells a step size that is no finite number")
        if told.settled_after is not None:
            self._count(told.settled_after, "steps after which weights settle")
        return told

    def _count(self, count: int, what: str) -> int:
        if not isinstance(count, Integral) or count < 1:
            raise self.refused(f"gives a number of {what} that isn't 1 or more")
        return int(count)

    def begin(self, own: OwnData) -> Half:
        """Make a party's half, with its first weights."""
        return self(lambda: self.learner.begin(own))

    def weights(self, half: Half, features: int) -> FloatArray:
        """Read a half's weights, (features, c)."""
        return self.checked(self(lambda: half.weights), (features, None), "weights")

    def carried(self, half: Half) -> dict[str, Any]:
        """Read what a half carries from step to step beside its weights."""

        def copied() -> dict[str, Any]:
            carried = half.carried if isinstance(half, CarryingHalf) else {}
            return {name: copy(values) for name, values in carried.items()}

        return self(copied)

    def set_weights(self, half: Half, weights: FloatArray, carried: Mapping[str, Any] | None = None) -> None:
        """Give a half other weights, and copies of what it carried with them; None leaves that."""

        def given() -> None:
            half.weights = weights
            if carried is not None and isinstance(half, CarryingHalf):
                half.carried = {name: copy(values) for name, values in carried.items()}

        self(given)

    def next_request(self, step: Step, answer: FloatArray | None = None) -> Request | None:
        """Ask what a step asks for next, after the answer to the last; None at its end."""

        def asked() -> Request | None:
            try:
                return step.send(answer)
            except StopIteration:
                return None

        request = self(asked)
        if request is not None and not isinstance(request, Request):
            raise self.refused("yields something else than Forward, Send or Ask")
        return request

    def part(self, make: Callable[[], Part]) -> Part:
        """Make the learner's part of the model; a class of another package's is watched from then on."""
        if self._is_ours:
            return self(make)

        def looked_into() -> tuple[Part, dict[str, NDArray[Any]], FloatArray | None] | None:
            part = make()
            known = isinstance(part, self.learner.spec.part)
            return (part, dict(part.arrays()), part.class_rows) if known else None

        if (found := self(looked_into)) is None:
            raise self.refused("gives a part of another class than its spec says")
        part, arrays, rows = found
        for name, array in arrays.items():
            if not (isinstance(name, str) and isinstance(array, np.ndarray) and array.dtype.kind in "biufU"):
                raise self.refused("has a part that isn't made of named arrays of numbers or words")
            if not _is_finite(array):
                raise self.refused("has a part with numbers that aren't finite")
        if rows is not None:
            self.checked(rows, (None, None), "class rows")
        return part if _is_ours(type(part)) else cast(Part, _WatchedPart(self, part, arrays, rows))

    def read_part(self, arrays: Mapping[str, NDArray[Any]]) -> Part:
        """Read the part that wrote these arrays.

        Raises:
            ValueError: for arrays that no part of ours wrote.
            LearnerFailed: for whatever another package's class raises.
        """
        kind = self.learner.spec.part
        return kind.of(arrays) if _is_ours(kind) else self.part(lambda: kind.of(arrays))

    def join(self, shares: list[FloatArray]) -> FloatArray:
        """Join all parties' shares of some records' outputs to one, (n, outputs)."""
        return self.checked(self(lambda: self.learner.join(shares)), (len(shares[0]), None), "joined shares")

    def link(self, joined: FloatArray, classes: int) -> FloatArray:
        """Score what ``join`` gave, (n, classes)."""
        return self._scores(lambda: self.learner.link(joined), (len(joined), classes))

    def told(self, classes: int) -> int:
        """Count the numbers that the label party is told of a record, where these are no scores."""
        return self._count(self(lambda: self.learner.told(classes)), "numbers that are told")

    def scores(self, part: Part, joined: FloatArray, classes: int) -> FloatArray:
        """Score by the label party's part, of a learner that answers with something else than scores."""
        return self._scores(lambda: cast(ScoringPart, part).scores(joined), (len(joined), classes))

    def _scores(self, work: Callable[[], FloatArray], shape: tuple[int, int]) -> FloatArray:
        scores = self.checked(self(work), shape, "confidence scores")
        # As the active party checks them, which would take the coordinator for a liar.
        if not self._is_ours and not (
            scores.min(initial=0) >= -SLACK and np.allclose(scores.sum(axis=1), 1, atol=SLACK)
        ):
            raise self.refused("gives confidence scores that aren't shares of 1")
        return scores

    def checked(self, values: FloatArray, shape: tuple[int | None, ...], what: str) -> FloatArray:
        """Check the learner's values: what the contract says; None stands for any length.

        Raises:
            LearnerFailed: for anything else.
        """
        if not isinstance(values, np.ndarray) or values.dtype != np.float64 or values.ndim != len(shape):
            raise self.refused(f"gives {what} that are no {len(shape)}-dimensional float64 array")
        if any(expected not in (None, found) for found, expected in zip(values.shape, shape, strict=True)):
            expected = " x ".join("any" if length is None else str(length) for length in shape)
            raise self.refused(f"gives {what} of shape {' x '.join(map(str, values.shape))}, expected {expected}")
        # Ours diverges where the terms don't fit the data, and is told so by whoever meets its numbers.
        if not self._is_ours and not _is_finite(values):
            raise self.refused(f"gives {what} that aren't finite")
        return values

    def refused(self, why: str) -> LearnerFailed:
        """Make the error of a learner that has done what none may."""
        return LearnerFailed(f"learner {self.learner.name} {why}.")


@dataclass(frozen=True, eq=False)
class _WatchedPart:
    """A part of another package's class: what it is made of was checked when it was made.

    Attributes:
        calls: of its learner.
        part: as it was made.
        made_of: its arrays.
        class_rows: (k, d), or None.
    """

    calls: LearnerCalls
    part: Part
    made_of: Mapping[str, NDArray[Any]]
    class_rows: FloatArray | None

    def shares(self, features: FloatArray) -> FloatArray:
        return self.part.shares(features)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        return self.made_of

    def scores(self, joined: FloatArray) -> FloatArray:
        return cast(ScoringPart, self.part).scores(joined)

    def with_class_rows(self, rows: FloatArray) -> Part:
        return self.calls.part(lambda: self.part.with_class_rows(rows))


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "vfl"


def _is_finite(array: NDArray[Any]) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


class _Hangs(LearnerFailed):
    """A call isn't over in time."""


def _within(seconds: float, name: str, work: Callable[[], T]) -> T:
    """Do a learner's work in time; raises _Hangs, or what it raises."""
    hangs = _Hangs(f"learner {name} takes longer than the {seconds:g} s of a step's timeout.")
    return done_within(seconds, work, hangs)
