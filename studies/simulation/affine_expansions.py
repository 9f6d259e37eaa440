"""Which expansions of the sigmoid two parties can train with, each adding its own share of the residual (Hu 2.1, E, F).

Protocol 1 needs a residual that is a sum of shares: f(z_A + z_B) = u(z_A) + v(z_B) for all products of the two parties.
Taking the equation at four points, f(a + b) - f(a) - f(b) + f(0) = 0 (``cross_term``); and a continuous f for which
that holds everywhere is affine (Cauchy). So 1/2 + a z can be trained under additive encryption whatever its slope, and
nothing bent can: a cubic leaves products of both parties' numbers, a piecewise line compares their sum.

Every affine expansion is the first-order one in other units. With phi = 4 a theta, the residual a z - y/2 is
(phi^T x - 2 y) / 4, and a step of rate eta on theta is a step of rate 4 a eta on phi (``AffineExpansion``).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import brentq, linprog
from scipy.special import expit

from vfl.arrays import FloatArray, IntArray
from vfl.theory.training import Approximation, guaranteed_steps, residual

TAYLOR_SLOPE = 0.25
# Of the interval on which Hu E approximates, [-5, 5].
RADIUS = 5.0
_GRID = 2001


def cross_term(approximation: Approximation, own: FloatArray, others: FloatArray, labels: IntArray) -> FloatArray:
    """Compute what keeps a residual from being a sum of shares: f(a + b) - f(a) - f(b) + f(0), 0 for a sum.

    Args:
        approximation: of the gradient.
        own: (s, 1) products of one party.
        others: (s, 1) products of the other.
        labels: (s,) class indices 0 or 1.

    Returns:
        (s, 1).
    """
    alone = residual(approximation, own, labels) + residual(approximation, others, labels)
    return residual(approximation, own + others, labels) + residual(approximation, 0 * own, labels) - alone


@dataclass(frozen=True)
class AffineExpansion:
    """S(z) ~ 1/2 + slope z, trained as the first-order expansion in other units.

    Attributes:
        slope: a, positive; 1/4 is Taylor's.

    Raises:
        ValueError: for a slope that isn't positive.
    """

    slope: float

    def __post_init__(self) -> None:
        if not self.slope > 0:
            raise ValueError(f"Expected a positive slope, got {self.slope}.")

    @property
    def unit(self) -> float:
        """4 a: what theta, the learning rate and theta^T x are multiplied by for first-order training."""
        return self.slope / TAYLOR_SLOPE

    @property
    def threshold(self) -> float:
        """The bound on |theta^T x| below which the sign of f tells the label (Criterion 4.2): 1 / (2 a)."""
        return 0.5 / self.slope

    def steps(self, learning_rate: float, epsilon: float, *, squared_norm: float = 1.0) -> int:
        """Count T_eps (Hu Corollary 4.5) of training theta at a rate, from max |theta_0^T x| = epsilon.

        It is the first order's in its own units.
        """
        return guaranteed_steps(self.unit * learning_rate, self.unit * epsilon, squared_norm=squared_norm)


def minimax_line(radius: float = RADIUS) -> AffineExpansion:
    """Find the slope whose largest error on [-radius, radius] is least: Hu's Definition E.1 for degree 1.

    The error S(z) - 1/2 - a z is odd. It is largest where S'(z) = a, and as large with the other sign at the end
    (Chebyshev's alternation).
    """
    if not radius > 0:
        raise ValueError(f"Expected a positive radius, got {radius}.")

    def imbalance(slope: float) -> float:
        turning = math.log((1 + math.sqrt(1 - 4 * slope)) / (1 - math.sqrt(1 - 4 * slope)))
        return float(expit(turning) - slope * turning + expit(radius) - slope * radius) - 1.0

    tangent, chord = TAYLOR_SLOPE, (float(expit(radius)) - 0.5) / radius
    return AffineExpansion(float(brentq(imbalance, chord, tangent, xtol=1e-14)))


def minimax_coefficients(degree: Literal[1, 3], radius: float = RADIUS) -> tuple[FloatArray, float]:
    """Find the minimax polynomial of S - 1/2 on [-radius, radius] (Hu Definition E.1), which is odd.

    Returns:
        coefficients of z, z^3, ..., and the largest error, both to about 1e-6: it is a linear programme on a grid.
    """
    points = np.linspace(0.0, radius, _GRID)
    powers = np.stack([points**power for power in range(1, degree + 1, 2)], axis=1)
    target, bound = expit(points) - 0.5, np.ones((_GRID, 1))
    solution = linprog(
        np.append(np.zeros(powers.shape[1]), 1.0),
        A_ub=np.vstack([np.hstack([powers, -bound]), np.hstack([-powers, -bound])]),
        b_ub=np.concatenate([target, -target]),
        bounds=[*[(None, None)] * powers.shape[1], (0, None)],
    )
    return solution.x[:-1], float(solution.x[-1])
