"""The channels of scores that this project's defences declare."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NoReturn

import numpy as np

from vfl.arrays import FloatArray
from vfl.channels.base import ChannelError, Delivered, RepeatableChannel, ScoreChannel, normalised
from vfl.channels.likelihoods import NARROWEST, ArgMax, DifferenceIntervals, Intervals, Likelihood
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork
from vfl.theory.logit_schemes import (
    BoundedLogits,
    logits_of,
    maximisers,
    scheme1_noise,
    without_scheme1,
    without_scheme2,
)
from vfl.theory.score_noise import strongest_noise

# Far from a multiple of the rounding's unit, after the sum was put right.
_OFF_THE_GRID = 1e-3
# Noise of this width leaves nothing of a score in [0, 1].
_WIDEST = 1e3


@dataclass(frozen=True)
class Rounding(RepeatableChannel):
    """Scores are rounded to some decimals, half to even: each tells an interval of half a unit to both sides."""

    keeps_decision: ClassVar[bool] = True
    is_smooth: ClassVar[bool] = False

    decimals: int

    def likelihood(self, delivered: Delivered) -> Likelihood:
        """Place each score in its interval."""
        low, high = self._cells(delivered)
        with np.errstate(divide="ignore"):
            return Intervals(np.log(low) - NARROWEST, np.log(high) + NARROWEST)

    def likelihood_after(self, noise: ScoreChannel, delivered: Delivered) -> Likelihood | None:
        """Place each score with its noise in its interval."""
        if not isinstance(noise, Noise):
            return None
        from vfl.channels.noise_likelihoods import NoisyIntervals

        return NoisyIntervals(*self._cells(delivered), noise.width)

    def passed(self, log_scores: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        """Round scores; rows need not sum to 1."""
        scores: FloatArray = np.exp(log_scores)
        return logits_of(scores.round(self.decimals))

    def _cells(self, delivered: Delivered) -> tuple[FloatArray, FloatArray]:
        """Bound the scores that are rounded to these, from below and above: both (n, k)."""
        rounded: FloatArray = np.exp(delivered.log_scores)
        if delivered.rescaled:
            rounded = self._on_grid(rounded)
        half = 0.5 * 10.0**-self.decimals
        return np.maximum(rounded - half, 0.0), rounded + half

    def _on_grid(self, rescaled: FloatArray) -> FloatArray:
        """Find the rounded scores from what they are after division by their sum, which is one of few numbers.

        Raises:
            ChannelError: where no sum puts a row on the grid.
        """
        unit, k = 10.0**-self.decimals, rescaled.shape[1]
        sums = 1.0 + unit * np.arange(-(k // 2) - 1, k // 2 + 2)
        candidates = rescaled[:, None, :] * sums[None, :, None]
        off = np.abs(candidates / unit - np.round(candidates / unit)).max(axis=2)
        off[:, sums <= 0] = np.inf
        if (off.min(axis=1) > _OFF_THE_GRID).any():
            raise ChannelError(
                "Scores don't look rounded as their channel says: check the order of the score defences."
            )
        best = off.argmin(axis=1)
        snapped: FloatArray = np.round(candidates[np.arange(len(best)), best], self.decimals)
        return snapped


@dataclass(frozen=True)
class Noise(ScoreChannel):
    """Gaussian noise is added to each score, which is then clipped to [0, 1]; rows are normalised to sum 1.

    The same record gets the same noise.

    Attributes:
        sigma: its standard deviation, in units of a score.
    """

    sigma: float

    @property
    def width(self) -> float:
        """Sigma, or the end of what makes a difference to float64."""
        return min(max(self.sigma, NARROWEST), _WIDEST)

    def likelihood(self, delivered: Delivered) -> Likelihood:
        """Take the likelihood of rows with noise."""
        from vfl.channels.noise_likelihoods import NoisyRow

        return NoisyRow(np.exp(delivered.log_scores), self.width)


@dataclass(frozen=True)
class Decision(ScoreChannel):
    """Only the class with the largest score passes, the first of several: what else a row shows is fixed."""

    is_decision: ClassVar[bool] = True
    keeps_decision: ClassVar[bool] = True

    def likelihood(self, delivered: Delivered) -> Likelihood:
        """Say which score is the largest."""
        return ArgMax(delivered.scores.argmax(axis=1))

    def likelihood_after(self, noise: ScoreChannel, delivered: Delivered) -> Likelihood | None:
        """Say which score is the largest with its noise."""
        if not isinstance(noise, Noise):
            return None
        from vfl.channels.noise_likelihoods import NoisyArgMax

        return NoisyArgMax(delivered.scores.argmax(axis=1), noise.width)


@dataclass(frozen=True)
class Temperature(RepeatableChannel):
    """Logits are multiplied by a factor, up to a constant per record.

    Attributes:
        factor: positive.
    """

    keeps_decision: ClassVar[bool] = True

    factor: float

    def inverse(self, logits: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        """Exact, up to a constant per record."""
        return logits / self.factor

    def passed(self, log_scores: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        """Multiplied."""
        return normalised(log_scores * self.factor)


@dataclass(frozen=True)
class StrongestDirection(RepeatableChannel):
    """Logits are shifted along v_1, the direction that least squares amplify most (Rassouli VII-B, schemes 1 and 2).

    v_1 follows from W W^T of the passive class rows (``vfl.theory.score_noise.strongest_noise``), with its entry of
    largest magnitude positive.

    Attributes:
        scheme: 1 raises the decision's entry to the largest before it is normalised (eq. 91-93); 2 raises it after the
            shift, where it was overtaken, to a lead of ``delta`` (eq. 94).
        alpha: the squared norm of the shift.
        sign: of v_1.
        delta: the lead of scheme 2; 0 for scheme 1.
    """

    needs_parameter_gram: ClassVar[bool] = True
    keeps_decision: ClassVar[bool] = True

    scheme: Literal[1, 2]
    alpha: float
    sign: Literal[1, -1] = 1
    delta: float = 0.0

    def cleared(self, logits: FloatArray, parameter_gram: FloatArray) -> BoundedLogits:
        """Take the shift off delivered (n, k) logits, given W W^T.

        Raises:
            ValueError: for a Gram matrix of another size than the logits'.
        """
        if parameter_gram.shape != (logits.shape[1],) * 2:
            raise ValueError(f"Expected a Gram matrix of {logits.shape[1]} classes, got shape {parameter_gram.shape}.")
        if self.scheme == 1:
            return without_scheme1(logits, self._direction(parameter_gram), self.alpha)
        return without_scheme2(logits, math.sqrt(self.alpha) * self._direction(parameter_gram), self.delta)

    def likelihood(self, delivered: Delivered) -> Likelihood | None:
        """Place decisions that were raised in an interval; None where the inverse tells all."""
        if delivered.parameter_gram is None:
            return None
        cleared = self.cleared(delivered.logits, delivered.parameter_gram)
        if not cleared.raised.any():
            return None
        rivals = np.where(cleared.decided, -np.inf, cleared.logits)
        level = rivals.max(axis=1, keepdims=True)
        low = np.where(cleared.decided, cleared.lowest[:, None], cleared.logits) - level - NARROWEST
        high = np.where(cleared.decided, cleared.highest[:, None], cleared.logits) - level + NARROWEST
        return DifferenceIntervals(rivals.argmax(axis=1), low, high)

    def inverse(self, logits: FloatArray, parameter_gram: FloatArray | None) -> FloatArray | None:
        """Exact, but for decisions that were raised: these are put in the middle of what they can have been."""
        return None if parameter_gram is None else self.cleared(logits, parameter_gram).logits

    def passed(self, log_scores: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        """Shifted."""
        assert parameter_gram is not None  # noqa: S101 - for the type checker
        direction, winners = self._direction(parameter_gram), maximisers(log_scores)
        if self.scheme == 1:
            return normalised(log_scores + scheme1_noise(winners, direction, self.alpha))
        moved = log_scores + math.sqrt(self.alpha) * direction
        lead = np.where(winners, moved, moved + self.delta).max(axis=1, keepdims=True)
        return normalised(np.where(winners, lead, moved))

    def _direction(self, parameter_gram: FloatArray) -> FloatArray:
        return self.sign * strongest_noise(parameter_gram).direction


@dataclass(frozen=True, eq=False)
class Purifier(RepeatableChannel):
    """Scores pass a network that anyone can have, and a softmax over what it gives."""

    network: DenseNetwork

    def purify(self, scores: FloatArray) -> FloatArray:
        """Purify (n, k) scores: (n, k) rows come out that sum to 1."""
        # By record: who asks again, beside others, gets the same to the last bit.
        return confidence_scores(self.network.partial_scores(scores, by_record=True))

    def passed(self, log_scores: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        """Purified, all records at once."""
        return normalised(self.network.partial_scores(np.exp(log_scores)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Purifier) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[object, ...]:
        arrays = (*self.network.weights, *self.network.biases)
        return (self.network.activation, *((array.shape, array.tobytes()) for array in arrays))


@dataclass(frozen=True)
class Undeclared(ScoreChannel):
    """A defence that doesn't say what it lets pass, or can't without a secret.

    Attributes:
        defence: its name.
    """

    defence: str

    def likelihood(self, delivered: Delivered) -> NoReturn:
        """Raise ChannelError: none is known."""
        raise ChannelError(f"{self.defence} doesn't declare what it lets pass of scores: nothing can be concluded.")
