"""How much noise Hu's Algorithm 3 asks for, and what it does to the model and to the label attack (section 6, appendix
D).

Binary models in Hu's form: f = theta^T x - 2 y with y in {-1, +1}, gradient 1/(4 s) sum_i f_i x_i. The label party A
adds N(0, sigma_A^2) to its shares of f before it encrypts them, every other party B N(0, sigma_B^2). Hence A's half of
the gradient carries B's noise, and the other way round. What B can solve for is f + N(0, sigma_A^2).

*Three calibrations.* "exact" is the least sigma of the Gaussian mechanism (``vfl.theory.gaussian_mechanism``). "lemma"
is what Lemma D.4 proves: sigma = sqrt(2 ln(5 / (4 delta))) Delta / epsilon; it is two to eight times as much at the
paper's budgets. "printed" is (71)-(72) as typeset, where the root also covers Delta / epsilon. It is not a multiple of
Delta, as noise that hides a change of Delta must be. ``attained_privacy`` says what each is worth.

*What the theorem counts.* Delta is of all shares of one party in the whole run: every epoch and every step is in it.
Not in it: the other parties' shares of the same records, and further sessions on them. Each of those is a Gaussian
mechanism of its own; together they have the root of the sum of the squares of Delta / sigma.

*T* is the number of steps, m e for m batches in each of e epochs: that is how (117) comes to (118). The paper takes
T = 30, its number of epochs, which changes sigma little.
"""

import math
import sys
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr, ndtri

from vfl.arrays import FloatArray, IntArray
from vfl.theory.gaussian_mechanism import composed, gaussian_delta, gaussian_epsilon, gaussian_sigma

Calibration = Literal["exact", "lemma", "printed"]
CALIBRATIONS: tuple[Calibration, ...] = get_args(Calibration)

# The largest |f| at zero initialisation, and the label's own part of f.
LABEL_TERM = 2.0


# --- the calculator ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrivacyBudget:
    """What the noise may cost in privacy, and how sigma follows from it.

    Attributes:
        epsilon: positive; below 1 unless the calibration is exact (Lemma D.4).
        delta: in (0, 1).
        calibration: "exact", "lemma" or "printed".

    Raises:
        ValueError: for a number out of range, or an unknown calibration.
    """

    epsilon: float
    delta: float
    calibration: Calibration = "exact"

    def __post_init__(self) -> None:
        if self.calibration not in CALIBRATIONS:
            raise ValueError(f"Expected calibration to be one of {', '.join(CALIBRATIONS)}, got {self.calibration!r}.")
        # Compared with the largest float, which a whole number may exceed without being infinite.
        if not 0 < self.epsilon <= sys.float_info.max:
            raise ValueError(f"Expected epsilon to be a positive, finite number, got {self.epsilon}.")
        if self.calibration != "exact" and not self.epsilon < 1:
            raise ValueError(
                f"Expected epsilon to be between 0 and 1, exclusive, got {self.epsilon}: Lemma D.4 holds there only. "
                'For less noise choose the calibration "exact", or give sigma.'
            )
        if not 0 < self.delta < 1:
            raise ValueError(f"Expected delta to be between 0 and 1, exclusive, got {self.delta}.")

    def sigma(self, sensitivity: float) -> float:
        """Compute the noise that hides a change of ``sensitivity`` as far as the budget asks; infinite beyond float64's
        range.
        """
        if self.calibration == "exact":
            return gaussian_sigma(sensitivity, self.epsilon, self.delta)
        # The logarithm of 5 / (4 delta), which the quotient of a tiny delta has no number for.
        squared = 2 * (math.log(5 / 4) - math.log(self.delta))
        if self.calibration == "lemma":
            return math.sqrt(squared) * sensitivity / self.epsilon
        return math.sqrt(squared * sensitivity) / math.sqrt(self.epsilon)


@dataclass(frozen=True)
class Sensitivities:
    """By how much one changed record can move all of a party's shares of the run, in the 2-norm: Delta of (71)-(72).

    Attributes:
        active: of the label party (A).
        passive: of every other one (B).
    """

    active: float
    passive: float


@dataclass(frozen=True)
class NoiseLevels:
    """Standard deviations of the noise, what they were computed from, and what must hold for them to mean anything.

    Active is the label party (A), passive every other one (B).

    Attributes:
        calibration: how sigma follows from the budget.
        epsilon: of the budget.
        delta: of the budget.
        sensitivity_active: Delta of A (``Sensitivities``).
        sensitivity_passive: Delta of B.
        sigma_active: of the noise on each share of A.
        sigma_passive: of the noise on each share of B.
        assumptions: sentences for the report.
    """

    calibration: Calibration
    epsilon: float
    delta: float
    sensitivity_active: float
    sensitivity_passive: float
    sigma_active: float
    sigma_passive: float
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class AttainedPrivacy:
    """What noise is worth by the Gaussian mechanism, exactly, whichever calibration gave it.

    Attributes:
        at_delta: what the epsilons hold at.
        delta_at_the_asked_epsilon: of this party's shares of the run; None where no epsilon was asked for.
        epsilon_of_one_epoch: of this party's shares of an average epoch.
        epsilon_of_the_run: of its shares of all epochs, which is what Theorem D.5 counts.
        epsilon_of_all_parties: of all parties' shares of the run together, each with the noise that this one would have
            in its place.
        epsilon_of_ten_sessions: of all parties' shares of ten such runs on the same records.
    """

    at_delta: float
    delta_at_the_asked_epsilon: float | None
    epsilon_of_one_epoch: float
    epsilon_of_the_run: float
    epsilon_of_all_parties: float
    epsilon_of_ten_sessions: float


@dataclass(frozen=True)
class PrivacyFromAnyPeer:
    """What noise is worth where peers add what they like to a party's gradients (``worst_sensitivity``).

    Attributes:
        epsilon_whatever_peers_send: of this party's shares of the run.
        at_delta: what it holds at.
        assumptions: sentences for the report.
    """

    epsilon_whatever_peers_send: float
    at_delta: float
    assumptions: tuple[str, ...]


def sensitivities(
    *, epochs: int, steps: int, rows: int, learning_rate: float, gradient_bound: float = 1.0
) -> Sensitivities:
    """Compute Delta of both kinds of party, the root in Hu (71)-(72) (eq. 118-119).

    Args:
        epochs: e.
        steps: T, of the whole run.
        rows: s, of the smallest batch.
        learning_rate: eta, at most 1 (Lemma D.2).
        gradient_bound: G, above 1/2 (eq. 41).

    Returns:
        Both, infinite beyond float64's range.

    Raises:
        ValueError: for an argument out of range, or fewer steps than epochs.
    """
    check_gradient_bound(gradient_bound)
    if not 0 < learning_rate <= 1:
        raise ValueError(
            f"Expected a learning rate in (0, 1], as Lemma D.2 needs, got {learning_rate}: lower it, or give sigma."
        )
    if epochs < 1 or rows < 1 or steps < epochs:
        raise ValueError(
            f"Expected epochs >= 1, rows >= 1 and no fewer steps than epochs, got {epochs}, {rows} and {steps}."
        )
    try:
        drift = 8 * (gradient_bound * epochs * learning_rate) ** 2 * steps / rows
        active = math.sqrt(drift + (8 * gradient_bound) ** 2 * epochs)
        passive = math.sqrt(drift + (8 * gradient_bound - 4) ** 2 * epochs)
    except OverflowError:
        return Sensitivities(math.inf, math.inf)
    return Sensitivities(active, passive)


def noise_levels(
    budget: PrivacyBudget,
    *,
    epochs: int,
    steps: int,
    rows: int,
    learning_rate: float,
    gradient_bound: float = 1.0,
) -> NoiseLevels:
    """Compute sigma_A and sigma_B for the sensitivities of Hu (71)-(72); arguments as of ``sensitivities``.

    Raises:
        ValueError: as ``sensitivities``, and for a sigma beyond float64's range.
    """
    moved = sensitivities(
        epochs=epochs, steps=steps, rows=rows, learning_rate=learning_rate, gradient_bound=gradient_bound
    )
    sigmas = [budget.sigma(one) if one < math.inf else math.inf for one in (moved.active, moved.passive)]
    if not all(map(math.isfinite, sigmas)):
        raise ValueError(
            f"Sigma for epsilon = {budget.epsilon:g} and gradient_bound = {gradient_bound:g} exceeds every float64: "
            "raise epsilon, or lower gradient_bound or the number of steps."
        )
    return NoiseLevels(
        calibration=budget.calibration,
        epsilon=budget.epsilon,
        delta=budget.delta,
        sensitivity_active=moved.active,
        sensitivity_passive=moved.passive,
        sigma_active=sigmas[0],
        sigma_passive=sigmas[1],
        assumptions=_assumptions(gradient_bound, budget.calibration),
    )


def worst_sensitivity(
    *, role: Literal["active", "passive"], epochs: int, records: int, largest_product: float
) -> float:
    """Bound by how much a changed record moves a party's shares of a run, whatever peers have added to its gradients.

    (71)-(72) take |f| <= 4 G of every record. A peer that sends a larger share of one drives theta as far as it may
    go, to one side or the other as that record says, and all records' later shares with it. What then remains is that
    each share's theta^T x stays within what projected parameters and bounded rows make: two runs are at most twice that
    apart, at every record and in every epoch, and the changed record's labels 4 besides.

    Args:
        role: of the party.
        epochs: of the run.
        records: that are trained on.
        largest_product: the most that |theta^T x| of the party's own part comes to.
    """
    label = 2 * LABEL_TERM if role == "active" else 0.0
    moved = 2 * largest_product
    return math.sqrt(epochs * ((moved + label) ** 2 + (records - 1) * moved**2))


def attained_privacy(
    ratios: Sensitivities, *, role: Literal["active", "passive"], epochs: int, parties: int, delta: float, asked: float
) -> AttainedPrivacy:
    """Compute what noise is worth, over epochs, parties and sessions.

    Args:
        ratios: Delta / sigma of the label party and of every other.
        role: of the party whose own shares are meant.
        epochs: of the run.
        parties: how many there are, this one included.
        delta: in (0, 1), for all the epsilons.
        asked: the epsilon that the noise was computed for; infinite for none.
    """
    ratio = ratios.active if role == "active" else ratios.passive
    everyone = composed([ratios.active, *[ratios.passive] * (parties - 1)])
    return AttainedPrivacy(
        at_delta=delta,
        delta_at_the_asked_epsilon=gaussian_delta(ratio, 1.0, asked) if asked < math.inf else None,
        epsilon_of_one_epoch=gaussian_epsilon(ratio / math.sqrt(epochs), 1.0, delta),
        epsilon_of_the_run=gaussian_epsilon(ratio, 1.0, delta),
        epsilon_of_all_parties=gaussian_epsilon(everyone, 1.0, delta),
        epsilon_of_ten_sessions=gaussian_epsilon(composed([everyone] * 10), 1.0, delta),
    )


def check_gradient_bound(gradient_bound: float) -> None:
    """Accept only a G that leaves room for theta in eq. (41).

    Raises:
        ValueError: for 1/2 and below, or infinity.
    """
    # Compared with the largest float, which a whole number may exceed without being infinite.
    if not 0.5 < gradient_bound <= sys.float_info.max:
        raise ValueError(f"Expected gradient_bound to be a finite number above 1/2, got {gradient_bound}.")


def norm_bound(gradient_bound: float) -> float:
    """Compute the norm that all parties' parameters together must keep: 4 G - 2 (eq. 41)."""
    return 4 * gradient_bound - 2


def _assumptions(gradient_bound: float, calibration: Calibration) -> tuple[str, ...]:
    sentences = (
        "Every record has ||x|| <= 1 over the features of all parties, an intercept's constant 1 included.",
        f"||theta|| stays within 4 G - 2 = {norm_bound(gradient_bound):g} (G = {gradient_bound:g}). With project=true "
        "at every party it does.",
        "Peers send what the protocol says. One that adds to another's gradients moves its later shares further: "
        "epsilon_whatever_peers_send is for any peer.",
        "The learning rate is at most 1, and there are two classes.",
        "Neighbouring data sets differ in one record, which is used once per epoch; both have the same batches.",
        "epsilon is spent once on all of one party's shares of the run, over all its epochs and steps; the other "
        "parties' shares, and those of further sessions on the same records, spend their own.",
        "Delta is that of a run without noise. For records that differ in the label only it holds with noise too; "
        "where features differ, by how much the noise on the changed record moves theta is not counted.",
        "This is not privacy of membership: the parties know whose records they train on. The paper says so too.",
    )
    if calibration != "printed":
        return sentences
    return (*sentences, "The printed formula is not what Lemma D.4 proves: epsilon is a name here, not a guarantee.")


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
