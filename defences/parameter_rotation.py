"""Distorts disclosed parameters as far as the parties agreed, so that attacks miss most (Varasteh V-B).

The passive party discloses W_n in place of its class rows W, with g = mean((W_n - W)^2) = epsilon (eq. 33). An
adversary with exact scores then errs by eq. 38, 45, 47 or 51, and W_n is chosen to make that a maximum:

    case i    k > 2, d >= k    W_n = W R, R orthonormal: the best of many local maxima of eq. 38
    case ii   1 < d < k        the same; without a bound on g, R = -I
    case iii  d = 1            any W_n: the global maximum of eq. 47
    case iv   k = 2, d > 1     any W_n whose rows move by opposite amounts: the global maximum of eq. 51

Cases i and ii approach maxima by steps with exact solutions and end with Riemannian trust regions (pymanopt). Where
the paper adds a penalty for g, here g is met. Cases iii and iv maximise a ratio of quadratics on a sphere. The paper
climbs with trust-constr, which can stop at a local maximum. Dinkelbach's method, with spherical subproblems that have
exact solutions, finds the global one.

epsilon is capped where more of it buys nothing, and `Distortion.capped` says so. For i and ii that is g of the best
rotation found. For iii and iv it is just before A_n = 0 comes within reach and the error has no maximum any more (iii:
g = the variance of the class rows; iv: g = |A|^2/(4 d)).

What it does not stop:
- an adversary with a few complete records, from which the true A follows by regression;
- one who guesses -I (Remark 10), or repeats the optimisation, which in case iii needs no data at all (Remark 13);
- for one feature, anybody: ls gives q x whatever W_n is, and the largest of many estimates tells q to those who know
  that features were scaled to [0, 1].

The promised error is that of an adversary who takes W_n at its word. Estimates that leave [0, 1] tell it that it
shouldn't, and an error beyond that of guessing 1/2 everywhere protects nothing more.
"""

import sys
from dataclasses import dataclass
from typing import ClassVar, Literal

from defences.base import DefenceSpec
from defences.distortion import distort
from defences.noise import NoiseSource
from vfl.arrays import FloatArray
from vfl.channels import Distorted

Secret = Literal["none", "sign", "epsilon"]


@dataclass(frozen=True)
class ParameterRotation:
    """Discloses the parameters that `distort` finds, with a secret. Scores and the model stay what they are.

    The secret (Remark 10) is drawn anew at each call: a session calls once and repeats the answer.

    Attributes:
        epsilon: the g to aim at; None for the cap.
        relative: whether epsilon is a multiple of the mean squared parameter. False takes it as it is, as the paper
            does.
        secret: "epsilon" draws g uniformly between 0 and epsilon (or the cap), so that an adversary who could repeat
            the optimisation doesn't know of which g; the price is a smaller distortion on average. "sign" discloses the
            distorted or the true parameters with equal chances; the price is no distortion in half of the sessions.
            "none" leaves all of it to those who can repeat it.

    Raises:
        ValueError: for options out of range.
    """

    name: ClassVar[str] = "parameter_rotation"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("passive",),
        stages=("parameters",),
        keeps="scores",
        source="Varasteh V-B, eq. 33-52",
        summary="discloses other parameters near the true ones, those that serve an attack least",
        cost="seconds; the model stays",
        needs=("unit_features",),
        replaces="disclosed parameters",
        stops=("columns",),
    )
    epsilon: float | None = 0.5
    relative: bool = True
    secret: Secret = "epsilon"  # noqa: S105 - says what is kept secret

    def __post_init__(self) -> None:
        if self.epsilon is not None and not 0 < self.epsilon <= sys.float_info.max:
            raise ValueError(f"Expected epsilon to be a positive number or None, got {self.epsilon}.")

    def disclosure(self) -> Distorted:
        """Say what all parties know of the disclosed rows: they were moved, and -I is worth a guess (Remark 10)."""
        return Distorted("any", sign_is_guess=True)

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        """Choose (k, d) class rows to disclose in place of these; (-theta/2, theta/2) stays of that form for d > 1.

        Args:
            weights: (k, d) class rows.
            features: the party's own, (n, d) in [0, 1]: K_0 and mu are theirs.
            noise: draws the secret.

        Raises:
            DefenceError: as `distort`.
        """
        share = 1.0
        if self.secret == "sign":  # noqa: S105 - as above
            # The true parameters are share 0 of a distortion, so that what can't be distorted is refused either way.
            share = float(noise.integers(2, 1)[0])
        elif self.secret == "epsilon":  # noqa: S105 - as above
            share = float(noise.integers(2**53, 1)[0]) / 2**53
        return distort(weights, features, self.epsilon, relative=self.relative, share=share).weights
