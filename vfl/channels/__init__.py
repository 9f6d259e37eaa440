"""Channels: what a defence lets pass of scores and parameters, as both sides know it (Kerckhoffs).

A defence declares its channel, and an adversary's view carries those of its session, so that neither needs code for the
other. Channels are public: what a defence draws in secret is no part of them, and two seeds give equal channels.

Channels of scores apply to the federation's confidence scores softmax(z) one after the other, in the session's order.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork


@dataclass(frozen=True)
class Rounding:
    """Scores are rounded to some decimals, half to even: each tells an interval of half a unit to both sides."""

    decimals: int


@dataclass(frozen=True)
class Noise:
    """Gaussian noise is added to each score, which is then clipped to [0, 1]; rows are normalised to sum 1.

    The same record gets the same noise.

    Attributes:
        sigma: its standard deviation, in units of a score.
    """

    sigma: float


@dataclass(frozen=True)
class Decision:
    """Only the class with the largest score passes, the first of several: what else a row shows is fixed."""


@dataclass(frozen=True)
class Temperature:
    """Logits are multiplied by a factor, up to a constant per record.

    Attributes:
        factor: positive.
    """

    factor: float


@dataclass(frozen=True)
class StrongestDirection:
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

    scheme: Literal[1, 2]
    alpha: float
    sign: Literal[1, -1] = 1
    delta: float = 0.0


@dataclass(frozen=True, eq=False)
class Purifier:
    """Scores pass a network that anyone can have, and a softmax over what it gives."""

    network: DenseNetwork

    def purify(self, scores: FloatArray) -> FloatArray:
        """What comes out for (n, k) scores: (n, k) rows that sum to 1."""
        # By record: who asks again, beside others, gets the same to the last bit.
        return confidence_scores(self.network.partial_scores(scores, by_record=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Purifier) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @property
    def _content(self) -> tuple[object, ...]:
        arrays = (*self.network.weights, *self.network.biases)
        return (self.network.activation, *((array.shape, array.tobytes()) for array in arrays))


@dataclass(frozen=True)
class Undeclared:
    """A defence that doesn't say what it lets pass, or can't without a secret.

    Attributes:
        defence: its name.
    """

    defence: str


ScoreChannel: TypeAlias = Rounding | Noise | Decision | Temperature | StrongestDirection | Purifier | Undeclared


@dataclass(frozen=True)
class Distorted:
    """Disclosed class rows are not those that scores follow from.

    Attributes:
        kind: what is known of the difference. "negated": W (-I); "orthonormal": W H^T for a secret H;
            "any": nothing but that it is bounded.
        about: the point c about which features were turned, H (x - c) + c, as far as the bias is concerned.
        sign_is_guess: whether -I is worth a try: the distortion is, or is near, -I.
    """

    kind: Literal["negated", "orthonormal", "any"]
    about: float = 0.0
    sign_is_guess: bool = False


ParameterChannel: TypeAlias = Distorted | Undeclared
