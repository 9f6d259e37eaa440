"""How much noise Hu's Algorithm 3 asks for, and what it does to the model and to the label attack (section 6, appendix
D).

Binary models in Hu's form: f = theta^T x - 2 y with y in {-1, +1}, gradient 1/(4 s) sum_i f_i x_i. The label party A
adds N(0, sigma_A^2) to its shares of f before it encrypts them, every other party B N(0, sigma_B^2). Hence A's half of
the gradient carries B's noise, and the other way round. What B can solve for is f + N(0, sigma_A^2).

*Two readings of (71)-(72).* "lemma" is what Lemma D.4 proves: sigma = sqrt(2 ln(5 / (4 delta))) Delta / epsilon.
"printed" is the formula as typeset, where the root also covers Delta / epsilon. It is not a multiple of Delta, as noise
that hides a change of Delta must be. ``gaussian_epsilon`` says what it is worth.

*T* is the number of steps, m e for m batches in each of e epochs: that is how (117) comes to (118). The paper takes
T = 30, its number of epochs, which changes sigma little.
"""

import math
import sys
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from vfl.arrays import FloatArray, IntArray

Reading = Literal["lemma", "printed"]
READINGS: tuple[Reading, ...] = get_args(Reading)

# The largest |f| at zero initialisation, and the label's own part of f.
LABEL_TERM = 2.0


# --- the calculator ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseLevels:
    """Standard deviations of the noise, what they were computed from, and what must hold for them to mean anything.

    Active is the label party (A), passive every other one (B).

    Attributes:
        reading: of the formula.
        epsilon: of the budget.
        delta: of the budget.
        sensitivity_active: Delta: by how much one changed record can move all of a party's shares of the run, in the
            2-norm.
        sensitivity_passive: the same for B.
        sigma_active: of the noise on each share of A.
        sigma_passive: of the noise on each share of B.
        assumptions: sentences for the report.
    """

    reading: Reading
    epsilon: float
    delta: float
    sensitivity_active: float
    sensitivity_passive: float
    sigma_active: float
    sigma_passive: float
    assumptions: tuple[str, ...]

    @property
    def attained_epsilon(self) -> float:
        """The epsilon that the Gaussian mechanism has, exactly, with the active party's sigma, Delta and delta."""
        return gaussian_epsilon(self.sensitivity_active, self.sigma_active, self.delta)


@dataclass(frozen=True)
class PrivacyBudget:
    """What the noise may cost in privacy: epsilon and delta, both in (0, 1), where Lemma D.4 holds.

    Raises:
        ValueError: for either out of range.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < 1:
            raise ValueError(
                f"Expected epsilon to be between 0 and 1, exclusive, got {self.epsilon}: the bound that gives sigma "
                "holds there only (Lemma D.4). For less noise, give sigma."
            )
        if not 0 < self.delta < 1:
            raise ValueError(f"Expected delta to be between 0 and 1, exclusive, got {self.delta}.")


def noise_levels(
    budget: PrivacyBudget,
    *,
    epochs: int,
    steps: int,
    rows: int,
    learning_rate: float,
    gradient_bound: float = 1.0,
    reading: Reading = "lemma",
) -> NoiseLevels:
    """Compute sigma_A and sigma_B of Hu (71)-(72).

    Args:
        budget: epsilon and delta.
        epochs: e.
        steps: T, of the whole run.
        rows: s, of the smallest batch.
        learning_rate: eta, at most 1 (Lemma D.2).
        gradient_bound: G, above 1/2 (eq. 41).
        reading: of the formula, "lemma" or "printed".

    Raises:
        ValueError: for an argument out of range, fewer steps than epochs, an unknown reading, or a sigma beyond
            float64's range.
    """
    epsilon, delta = budget.epsilon, budget.delta
    check_reading(reading)
    check_gradient_bound(gradient_bound)
    if not 0 < learning_rate <= 1:
        raise ValueError(
            f"Expected a learning rate in (0, 1], as Lemma D.2 needs, got {learning_rate}: lower it, or give sigma."
        )
    if epochs < 1 or rows < 1 or steps < epochs:
        raise ValueError(
            f"Expected epochs >= 1, rows >= 1 and no fewer steps than epochs, got {epochs}, {rows} and {steps}."
        )
    # The logarithm of 5 / (4 delta), which the quotient of a tiny delta has no number for.
    squared = 2 * (math.log(5 / 4) - math.log(delta))

    def sigma(sensitivity: float) -> float:
        if reading == "lemma":
            return math.sqrt(squared) * sensitivity / epsilon
        return math.sqrt(squared * sensitivity) / math.sqrt(epsilon)

    try:
        drift = 8 * (gradient_bound * epochs * learning_rate) ** 2 * steps / rows
        active = math.sqrt(drift + (8 * gradient_bound) ** 2 * epochs)
        passive = math.sqrt(drift + (8 * gradient_bound - 4) ** 2 * epochs)
        sigmas = sigma(active), sigma(passive)
    except OverflowError:
        sigmas = math.inf, math.inf
    if not all(map(math.isfinite, sigmas)):
        raise ValueError(
            f"Sigma for epsilon = {epsilon:g} and gradient_bound = {gradient_bound:g} exceeds every float64: raise "
            "epsilon, or lower gradient_bound or the number of steps."
        )
    return NoiseLevels(
        reading=reading,
        epsilon=epsilon,
        delta=delta,
        sensitivity_active=active,
        sensitivity_passive=passive,
        sigma_active=sigmas[0],
        sigma_passive=sigmas[1],
        assumptions=_assumptions(gradient_bound, reading),
    )


def check_reading(reading: str) -> None:
    """Accept only a known reading.

    Raises:
        ValueError: for another.
    """
    if reading not in READINGS:
        raise ValueError(f"Expected reading to be one of {', '.join(READINGS)}, got {reading!r}.")


def check_gradient_bound(gradient_bound: float) -> None:
    """Accept only a G that leaves room for theta in eq. (41).

    Raises:
        ValueError: for 1/2 and below, or infinity.
    """
    # Compared with the largest float, which a whole number may exceed without being infinite.
    if not 0.5 < gradient_bound <= sys.float_info.max:
        raise ValueError(f"Expected gradient_bound to be a finite number above 1/2, got {gradient_bound}.")


def _assumptions(gradient_bound: float, reading: Reading) -> tuple[str, ...]:
    longest = 4 * gradient_bound - 2
    said = (
        "Every record has ||x|| <= 1 over the features of all parties, an intercept's constant 1 included.",
        f"||theta|| stays within 4 G - 2 = {longest:g} (G = {gradient_bound:g}); nobody checks it during training.",
        "The learning rate is at most 1, and there are two classes.",
        "Neighbouring data sets differ in one record, which is used once per epoch; both have the same batches.",
        "epsilon is below 1 and is spent once on all of one party's shares of the run; the other party's shares, and "
        "those of further sessions on the same records, spend their own.",
        "Delta is that of a run without noise: by how much the noise on the changed record moves theta is not counted.",
        "This is not privacy of membership: the parties know whose records they train on. The paper says so too.",
    )
    if reading == "lemma":
        return said
    return (*said, "The printed formula is not what Lemma D.4 proves: epsilon is a name here, not a guarantee.")


def gaussian_delta(sensitivity: float, sigma: float, epsilon: float) -> float:
    """Compute the smallest delta of the Gaussian mechanism at epsilon >= 0 (Balle and Wang 2018, Theorem 8); exact."""
    ratio = sensitivity / sigma
    near = ndtr(ratio / 2 - epsilon / ratio)
    far = math.exp(epsilon + log_ndtr(-ratio / 2 - epsilon / ratio))
    return float(max(near - far, 0.0))


def gaussian_epsilon(sensitivity: float, sigma: float, delta: float) -> float:
    """Compute the smallest epsilon >= 0 of the Gaussian mechanism at delta, to 1e-9 of it; the inverse of
    ``gaussian_delta``.

    Raises:
        ValueError: unless sensitivity and sigma are positive and delta is in (0, 1).
    """
    if not (sensitivity > 0 and sigma > 0 and 0 < delta < 1):
        raise ValueError(
            f"Expected sensitivity > 0, sigma > 0 and 0 < delta < 1, got {sensitivity}, {sigma} and {delta}."
        )
    low, high = 0.0, 1.0
    if gaussian_delta(sensitivity, sigma, low) <= delta:
        return 0.0
    while gaussian_delta(sensitivity, sigma, high) > delta:
        low, high = high, 2 * high
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(sensitivity, sigma, middle) > delta else (low, middle)
    return high


def largest_deviation(draws: int, failure: float) -> float:
    """Count how many sigmas none of ``draws`` Gaussian numbers exceeds, except with probability ``failure`` (union
    bound).

    Raises:
        ValueError: unless draws >= 1 and failure is in (0, 1).
    """
    if draws < 1 or not 0 < failure < 1:
        raise ValueError(f"Expected draws >= 1 and failure in (0, 1), got {draws} and {failure}.")
    return float(-ndtri(failure / (2 * draws)))


# --- the label attack --------------------------------------------------------------------------------------------


def sign_success(residuals: FloatArray, labels: IntArray, sigma: FloatArray | float) -> FloatArray:
    """Compute the probability that the sign of f + N(0, sigma^2) tells each label (Criterion 4.2): Phi(-y f / sigma).

    At zero initialisation and t = 1, f = -2 y and it is Phi(2 / sigma) for every record. An f of 0 without noise counts
    half.

    Args:
        residuals: f without noise, any shape.
        labels: 0 or 1, of a shape that broadcasts with it.
        sigma: >= 0, of a shape that broadcasts with it.
    """
    margin = np.where(labels == 1, -residuals, residuals)
    return _standard_normal_cdf(margin, sigma)


def best_success(sigma: float, uses: int) -> float:
    """Bound how often any guess at a label from noisy shares of its own record is right: Phi(2 sqrt(e) / sigma).

    Both labels are taken to be equally likely whatever theta^T x is. Who knows every theta^T x attains the bound by
    averaging f - theta^T x = -2 y (Neyman and Pearson). What theta^T x itself tells of the label, as a trained model's
    does, is another matter.

    Args:
        sigma: of the noise.
        uses: e, the number of noisy shares; one per epoch.

    Raises:
        ValueError: for numbers out of range.
    """
    if not sigma > 0 or uses < 1:
        raise ValueError(f"Expected sigma > 0 and uses >= 1, got {sigma} and {uses}.")
    return float(ndtr(LABEL_TERM * math.sqrt(uses) / sigma))


def noisy_guaranteed_steps(learning_rate: float, epsilon: float, u: float, *, squared_norm: float = 1.0) -> int:
    """Count T~_eps of Theorem 6.6 (eq. 70): the first steps at which |theta^T x| < 2 is certain when noise is at most
    u.

    It bounds theta^T x only. The sign that a party sees is that of f plus the noise on its own record: it fails from
    the first step on, as often as ``sign_success`` says. T~_eps is no time for which labels are safe, nor exposed.

    Args:
        learning_rate: eta.
        epsilon: max_i |theta_0^T x_i|, 0 for zero initialisation; 0 steps once it reaches 2.
        u: ``vfl.theory.noisy_training.error_bound`` at unit rows.
        squared_norm: the largest ||x||^2; it takes the place of 1 in the growth and leaves the ratio as it is.

    Raises:
        ValueError: for numbers out of range.
    """
    if not (learning_rate > 0 and epsilon >= 0 and u >= 0 and squared_norm > 0):
        raise ValueError(
            f"Expected learning_rate > 0, epsilon >= 0, u >= 0, squared_norm > 0; "
            f"got {learning_rate}, {epsilon}, {u}, {squared_norm}."
        )
    if epsilon >= 2:
        return 0
    # log1p of the ratio's excess over 1: with much noise the ratio itself rounds to 1.
    logarithm = math.log1p((2 - epsilon) / (4 * u + 2 + epsilon))
    return math.ceil(logarithm / math.log1p(learning_rate * squared_norm / 4))


def _standard_normal_cdf(margin: FloatArray, sigma: FloatArray | float) -> FloatArray:
    """Phi(margin / sigma), its limit where sigma is 0, and 1/2 where both are."""
    scale = np.maximum(np.asarray(sigma, dtype=np.float64), np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        probability: FloatArray = ndtr(margin / scale)
    return probability
