"""What a channel of scores says of itself, in the terms of who reads what it delivered."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vfl.arrays import FloatArray
from vfl.channels.likelihoods import Likelihood


class ChannelError(ValueError):
    """Nothing can be concluded from what a channel delivered; the message says why."""


@dataclass(frozen=True, eq=False)
class Delivered:
    """What came out of a channel, as far as the channels after it were taken off.

    Attributes:
        scores: (n, k), as they arrived in the end.
        logits: (n, k), the logarithms of what came out of the channel.
        rescaled: whether later channels were taken off, which leaves logits up to a constant per record.
        parameter_gram: (k, k), W W^T of all passive class rows together; None where it isn't known.
    """

    scores: FloatArray
    logits: FloatArray
    rescaled: bool = False
    parameter_gram: FloatArray | None = None

    @property
    def log_scores(self) -> FloatArray:
        """Logarithms of the channel's scores, (n, k): rows of scores sum to 1 where their constant was lost."""
        return normalised(self.logits) if self.rescaled else self.logits


class ScoreChannel(ABC):
    """What a defence lets pass of scores: its likelihood, or else how it is taken off or repeated.

    A channel is a frozen dataclass of public options. Whoever brings a defence may bring a channel with it.

    Attributes:
        needs_parameter_gram: whether it follows from W W^T of the passive class rows.
        is_decision: whether nothing but the class with the largest score passes.
        keeps_decision: whether a row that shows a decision alone still shows it behind this channel.
    """

    needs_parameter_gram: ClassVar[bool] = False
    is_decision: ClassVar[bool] = False
    keeps_decision: ClassVar[bool] = False

    @abstractmethod
    def likelihood(self, delivered: Delivered) -> Likelihood | None:
        """Compute the likelihood of what was delivered, given the log scores before this channel.

        None where ``inverse`` tells all, or where the likelihood is that of an equality.

        Raises:
            ChannelError: where there is none to be had.
        """

    def likelihood_after(self, noise: "ScoreChannel", delivered: Delivered) -> Likelihood | None:
        """Compute the same, given the log scores before ``noise``, a channel with secret draws just before this one.

        None where no likelihood of both is known.
        """
        return None

    def inverse(self, logits: FloatArray, parameter_gram: FloatArray | None) -> FloatArray | None:
        """Logits before this channel, (n, k), of those behind it, up to a constant per record; None: no such thing."""
        return None


class RepeatableChannel(ScoreChannel):
    """A channel without secret draws: who knows its options repeats it on scores of its own.

    Attributes:
        is_smooth: whether what comes out has a derivative; rounding has none.
    """

    is_smooth: ClassVar[bool] = True

    def likelihood(self, delivered: Delivered) -> Likelihood | None:
        """None: what was delivered is taken off, or else equals what comes out."""
        return None

    @abstractmethod
    def passed(self, log_scores: FloatArray, parameter_gram: FloatArray | None) -> FloatArray:
        """Log scores behind this channel, (m, k), of normalised (m, k) log scores before it."""


def normalised(logits: FloatArray) -> FloatArray:
    """Take the logarithms of softmax scores, (m, k)."""
    lowered = logits - logits.max(axis=1, keepdims=True)
    log_scores: FloatArray = lowered - np.log(np.exp(lowered).sum(axis=1, keepdims=True))
    return log_scores
