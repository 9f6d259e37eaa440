"""Noise on the residuals before they are encrypted (Hu, section 6, Algorithm 3). Every party adds its own."""

import math
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from defences.base import DefenceError, DefenceSpec, TrainingTerms
from defences.noise import NoiseSource
from vfl.arrays import FloatArray
from vfl.theory.dp_noise import (
    LABEL_TERM,
    AttainedPrivacy,
    Calibration,
    NoiseLevels,
    PrivacyBudget,
    PrivacyFromAnyPeer,
    Sensitivities,
    attained_privacy,
    best_success,
    check_gradient_bound,
    largest_deviation,
    noise_levels,
    noisy_guaranteed_steps,
    norm_bound,
    sensitivities,
    worst_sensitivity,
)
from vfl.theory.gaussian_mechanism import gaussian_epsilon
from vfl.theory.noisy_training import (
    error_bound,
)

DEFAULT_EPSILON = 0.5
# Of the default delta: ten times below 1/n, at which publishing one record of n would do.
_DELTA_TIMES_RECORDS = 0.1
# No larger epsilon is recommended: it would promise next to nothing.
_LARGEST_RECOMMENDED = 10.0

# Of one column of residuals over a whole run: a hundred columns together stay below one in a million.
_OVERFLOW_CHANCE = 1e-8
# The widest residuals that a session may agree on (services.common.agreement); with more than 38 fraction bits, less.
_MOST_INTEGER_BITS = 14
_BOUND_FAILURE = 0.01
_TWO_CLASSES = "dp_noise computes sigma for two classes only, as the paper's formula does: give sigma for more."
_NO_NETWORKS = (
    "dp_noise is for residuals of linear models, and this session trains a network: choose marvell or "
    "label_randomised_response, or drop it."
)
_GIVEN = "Sigma was given, not computed from an epsilon: {}"
_WORTH = "what it is worth stands beside it."
_WORTHLESS = "it stands for no epsilon and no delta."
# Rows of unit norm on a fixed-point grid, and projected weights, are longer by rounding.
_ROUNDING = 1.001
# Sigma is a whole number of steps, of so many binary digits: the last of its float are a library's.
_DIGITS = 24
# Whole numbers of noise have as many more; of fewer than 2^20 steps, rounding isn't nothing.
_MOST_DIGITS, _FEWEST_STEPS = 2 * _DIGITS, 1 << 20


@dataclass(frozen=True)
class NoisePrediction:
    """What theory expects of a session with this noise, for two classes, rows of ||x|| <= 1 and zero initialisation.

    At a passive party both successes are None: its noise hides no label, and it doesn't know whether the label party
        adds any.

    Attributes:
        sigma: of this party's shares.
        levels: both parties' noise with its assumptions; None when sigma was given, or as ``attained``.
        attained: what the noise is worth, exactly; None where the sensitivity isn't known (more than two classes, or
            terms that the formula doesn't cover) and where it doesn't hold for this party: parameters that aren't
            projected, rows that are too long, fewer steps than the session has.
        from_any_peer: what it is worth whatever peers send; None where parameters aren't projected.
        first_step_success: how often the sign of a noisy f tells its label at the first step, Phi(2 / sigma).
        best_success: the most that all noisy shares of a record, one per epoch, tell of its label.
        gradient_error: at most sigma / (4 sqrt(s)), the root mean square per step of what this party's noise adds to
            the gradient of the others.
        guaranteed_steps: T~ of Theorem 6.6, but for a chance of 1 %, with the noise of the noisier party (this party's
            where sigma was given). It bounds theta^T x, not what is seen of it.
        note: sentences on what doesn't hold in this session; empty without any.
    """

    sigma: float
    levels: NoiseLevels | None
    attained: AttainedPrivacy | None
    from_any_peer: PrivacyFromAnyPeer | None
    first_step_success: float | None
    best_success: float | None
    gradient_error: float
    guaranteed_steps: int
    note: str


@dataclass(frozen=True)
class DpNoise:
    """Adds Gaussian noise to this party's residual shares before it encrypts them (Hu Algorithm 3).

    Each party turns it on for itself. The label party's noise hides labels from those who solve for f; a passive
    party's hides its products theta^T x from the label party. Who sees the noisy shares guesses a label right with
    probability at most Phi(2 / sigma) at a step, and ``NoisePrediction.best_success`` with all steps of a record
    together.

    Noise is the discrete Gaussian on the residuals' own grid, of sigma rounded up by at most 2^-23 of it, to S steps,
    and shares are rounded to that grid before. Neither changes epsilon from S = 2^20 on, below which none is stated: a
    number is within 1 / (49 S^2) of a rounded Gaussian one in statistical distance, and Delta grows by at most a step
    times the root of how many shares are sent.

    The default is the least noise that the Gaussian mechanism needs, at an epsilon that costs little accuracy. Its
    sigma exceeds what the default fixed point holds: ``check`` says which residual_integer_bits to set.

    It does not stop a party from using its own part of the trained model, which predicts labels as well as it was
    meant to, nor anything after training. The parties' parameters are noisy, and so are the scores.

    Attributes:
        epsilon: of this party's shares of one run (Hu 71-72); 0.5 unless said otherwise. In (0, 1) unless the
            calibration is exact.
        delta: of the same, in (0, 1); 1 / (10 n) for n training records unless said otherwise. The paper takes 0.1.
        gradient_bound: G, so that ||theta|| <= 4 G - 2.
        calibration: how sigma follows: "exact", "lemma" or "printed" (``vfl.theory.dp_noise``).
        steps: T, the session's own number of steps unless given. The paper takes 30.
        sigma: the noise itself, instead of epsilon; needed for more than two classes, for which (71)-(72) say nothing.
        project: whether this party shortens its part of theta, whenever it is longer, to its share of 4 G - 2: as its
            features are of all. Where every party does so, the whole keeps the bound, and no step moves two
            neighbouring runs further apart: projections on convex sets bring nothing further from each other. Of two
            classes; with more no epsilon rests on it. Without it none is stated.

    Raises:
        ValueError: for options out of range, and for sigma together with epsilon.
    """

    name: ClassVar[str] = "dp_noise"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active", "passive"),
        stages=("residuals", "updates"),
        keeps="nothing",
        source="Hu Algorithm 3, eq. 71-72",
        summary="Gaussian noise on residuals before they are encrypted",
        cost="accuracy",
        needs=("linear_model",),
        stops=("labels",),
    )

    epsilon: float | None = None
    delta: float | None = None
    gradient_bound: float = 1.0
    calibration: Calibration = "exact"
    steps: int | None = None
    sigma: float | None = None
    project: bool = True

    def __post_init__(self) -> None:
        PrivacyBudget(self._epsilon, 0.5 if self.delta is None else self.delta, self.calibration)
        check_gradient_bound(self.gradient_bound)
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"Expected steps to be at least 1, got {self.steps}.")
        if self.sigma is None:
            return
        if not 0 < self.sigma <= sys.float_info.max:
            raise ValueError(f"Expected sigma to be a positive, finite number, got {self.sigma}.")
        if self.epsilon is not None:
            raise ValueError(f"Expected epsilon or sigma, got both ({self.epsilon} and {self.sigma}): drop one.")

    @property
    def _epsilon(self) -> float:
        return DEFAULT_EPSILON if self.epsilon is None else self.epsilon

    def levels(self, terms: TrainingTerms) -> NoiseLevels | None:
        """Compute both parties' noise for a session; None when sigma was given.

        Raises:
            DefenceError: for terms that the formula doesn't cover: a learning rate above 1, fewer steps than epochs.
        """
        return None if self.sigma is not None else self._computed(terms)

    def sigma_for(self, terms: TrainingTerms) -> float:
        """Give the standard deviation of the noise on each of this party's residuals.

        Raises:
            DefenceError: as ``levels``.
        """
        if self.sigma is not None:
            return self.sigma
        levels = self._computed(terms)
        return levels.sigma_active if terms.role == "active" else levels.sigma_passive

    def prediction(self, terms: TrainingTerms) -> NoisePrediction:
        """Predict what to expect of a session under these terms.

        Raises:
            DefenceError: as ``levels``.
        """
        levels, sigma = self.levels(terms), self.sigma_for(terms)
        unmet = self._unmet(terms)
        attained = None if unmet else self._attained(levels, terms)
        largest = sigma if levels is None else max(levels.sigma_active, levels.sigma_passive)
        u = error_bound(largest, terms.rows, terms.steps, _BOUND_FAILURE)
        return NoisePrediction(
            sigma=sigma,
            levels=None if unmet else levels,
            attained=attained,
            from_any_peer=self._from_any_peer(terms),
            first_step_success=best_success(sigma, 1) if terms.role == "active" else None,
            best_success=best_success(sigma, terms.epochs) if terms.role == "active" else None,
            gradient_error=sigma / (4 * math.sqrt(terms.rows)),
            guaranteed_steps=0
            if math.isnan(terms.learning_rate)
            else noisy_guaranteed_steps(terms.learning_rate, 0.0, u),
            note=" ".join(
                filter(
                    None,
                    [
                        "" if self.sigma is None else _GIVEN.format(_WORTHLESS if attained is None else _WORTH),
                        *unmet,
                        _too_likely(self._delta_for(terms), terms.most_records),
                    ],
                )
            ),
        )

    def check(self, terms: TrainingTerms) -> None:
        """Refuse terms under which the noise would leave the range of fixed point.

        What must fit is the largest |share| that G allows plus the largest deviation of all the run's residuals, but
        for a chance of 1e-8 per column: for up to a hundred columns, below one in a million.

        Raises:
            DefenceError: says what would fit; also for terms as in ``levels``, and where a network is trained.
        """
        if terms.hidden:
            raise DefenceError(_NO_NETWORKS)
        if terms.columns > 1 and self.sigma is None:
            raise DefenceError(_TWO_CLASSES)
        sigma, signal = self.sigma_for(terms), _largest_share(self.gradient_bound, terms)
        largest_batch = terms.rows + 1
        deviation = largest_deviation(terms.steps * largest_batch, _OVERFLOW_CHANCE)
        needed = signal + deviation * sigma
        if needed < terms.residual_limit:
            return
        if not math.isfinite(needed):
            raise DefenceError(
                f"dp_noise would add noise of standard deviation {sigma:.4g} to residuals of up to {signal:.4g}, which "
                "exceeds every float64: give a larger epsilon, a smaller sigma or a smaller gradient_bound."
            )
        bits = math.floor(math.log2(needed)) + 1
        agreeable = bits <= _MOST_INTEGER_BITS
        wider = [f"set residual_integer_bits to {bits}"] if agreeable else []
        weaker = self._weaker((terms.residual_limit - signal) / deviation, terms)
        remedies = [*wider, *weaker] or ["give a larger epsilon, a smaller sigma or a smaller gradient_bound"]
        raise DefenceError(
            f"dp_noise would add noise of standard deviation {sigma:.4g} to residuals whose fixed point ends at "
            f"{terms.residual_limit:g}, and over {terms.steps} steps of up to {largest_batch} rows it would reach "
            f"{needed:.4g}{'' if agreeable else f', which no residual_integer_bits up to {_MOST_INTEGER_BITS} hold'}: "
            f"{', or '.join(remedies)}."
        )

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        """Add noise to (rows, columns) residual shares: whole numbers of a step of the grid on which they are sent.

        Raises:
            DefenceError: for more than one column (more than two classes) unless sigma was given.
        """
        if residuals.shape[1] != 1 and self.sigma is None:
            raise DefenceError(_TWO_CLASSES)
        deviation, step = _in_steps(self.sigma_for(terms), terms.residual_step)
        sample = noise.discrete_gaussian(residuals.shape, deviation)
        return (np.rint(residuals / step) + sample.astype(np.float64)) * step

    def project_parameters(self, weights: FloatArray, terms: TrainingTerms) -> FloatArray:
        """Shorten (d, 1) parameters to this party's share of the norm that the proof assumes, unless asked not to."""
        norm = float(np.linalg.norm(weights))
        if not self.project or terms.columns > 1 or norm <= self._own_norm_bound(terms):
            return weights
        return weights * (self._own_norm_bound(terms) / norm)

    def remark(self, largest_norm: float, terms: TrainingTerms) -> str:
        """Say that this party's parameters were longer than their share of the bound; empty where they weren't.

        What the others' came to, no party sees: where each keeps its share, the whole keeps the bound.
        """
        share = self._own_norm_bound(terms)
        if largest_norm <= share * _ROUNDING or terms.columns > 1:
            return ""
        enough = (norm_bound(self.gradient_bound) * largest_norm / share + 2) / 4
        return (
            f"dp_noise: this party's part of the model reached a norm of {largest_norm:.3g}. Its share of the "
            f"{norm_bound(self.gradient_bound):g} that epsilon rests on is {share:.3g}, so epsilon and delta may not "
            "hold. Leave project=true for dp_noise at every party, or set a gradient_bound of "
            f"{math.ceil(enough * 100) / 100:g} or more."
        )

    def _own_norm_bound(self, terms: TrainingTerms) -> float:
        return norm_bound(self.gradient_bound) * _share(terms)

    def _delta_for(self, terms: TrainingTerms) -> float:
        return _DELTA_TIMES_RECORDS / terms.most_records if self.delta is None else self.delta

    def _computed(self, terms: TrainingTerms) -> NoiseLevels:
        if math.isnan(terms.learning_rate):
            raise DefenceError(
                "dp_noise can't compute sigma for this session: its proof is of plain steps, the gradient times a "
                "learning rate (Hu, Lemma D.2), and the learner takes others. Set steps=plain, or give sigma."
            )
        try:
            return noise_levels(
                PrivacyBudget(self._epsilon, self._delta_for(terms), self.calibration),
                epochs=terms.epochs,
                steps=self._steps(terms),
                rows=terms.rows,
                learning_rate=terms.learning_rate,
                gradient_bound=self.gradient_bound,
            )
        except ValueError as error:
            raise DefenceError(f"dp_noise can't compute sigma for this session. {error}") from error

    def _moved(self, terms: TrainingTerms) -> Sensitivities | None:
        """Tell by how much a record moves the shares; None for terms that the formula doesn't cover."""
        try:
            moved = sensitivities(
                epochs=terms.epochs,
                steps=self._steps(terms),
                rows=terms.rows,
                learning_rate=terms.learning_rate,
                gradient_bound=self.gradient_bound,
            )
        except ValueError:
            return None
        return moved if terms.columns == 1 and moved.active < math.inf else None

    def _attained(self, levels: NoiseLevels | None, terms: TrainingTerms) -> AttainedPrivacy | None:
        moved = self._moved(terms)
        if moved is None:
            return None
        sigma = self.sigma_for(terms)
        sigmas = (sigma, sigma) if levels is None else (levels.sigma_active, levels.sigma_passive)
        return attained_privacy(
            Sensitivities(moved.active / sigmas[0], moved.passive / sigmas[1]),
            role=terms.role,
            epochs=terms.epochs,
            parties=terms.parties,
            delta=self._delta_for(terms),
            asked=math.inf if levels is None else levels.epsilon,
        )

    def _from_any_peer(self, terms: TrainingTerms) -> PrivacyFromAnyPeer | None:
        """Tell what the noise is worth whatever peers send; None where nothing bounds this party's weights."""
        if not self.project or terms.columns > 1 or _is_coarse(self.sigma_for(terms), terms):
            return None
        worst = worst_sensitivity(
            role=terms.role,
            epochs=terms.epochs,
            records=terms.most_records,
            largest_product=self._own_norm_bound(terms) * terms.row_norm,
        )
        delta = self._delta_for(terms)
        assumption = (
            f"Peers may send what they like. This party's rows are at most {terms.row_norm:.3g} long in the 2-norm."
        )
        return PrivacyFromAnyPeer(gaussian_epsilon(worst, self.sigma_for(terms), delta), delta, (assumption,))

    def _steps(self, terms: TrainingTerms) -> int:
        return terms.steps if self.steps is None else self.steps

    def _unmet(self, terms: TrainingTerms) -> list[str]:
        """Say, in sentences, why no epsilon holds in this session, as far as this party sees."""
        if terms.columns > 1:
            return []
        share, sentences = _share(terms), []
        if terms.row_norm > share * _ROUNDING:
            sentences.append(
                f"This party's rows are up to {terms.row_norm:.3g} long in the 2-norm, and (71)-(72) take all parties' "
                f"together to be at most 1, of which its share is {share:.3g}: no epsilon is stated. Scale the rows to "
                "that beforehand, or read sigma for itself."
            )
        if not self.project:
            sentences.append(
                "With project=false this party's weights have no bound, and a peer can drive them: no epsilon is "
                "stated. Leave project out."
            )
        if _is_coarse(self.sigma_for(terms), terms):
            sentences.append(
                f"Sigma is {self.sigma_for(terms) / terms.residual_step:,.0f} steps of the fixed point, whose rounding "
                f"is negligible from {_FEWEST_STEPS:,} on: no epsilon is stated. Raise residual_fraction_bits."
            )
        if self._steps(terms) < terms.steps:
            sentences.append(
                f"Sigma is for {self.steps:,} steps, and the session has {terms.steps:,}: no epsilon is stated. Leave "
                "steps out."
            )
        return sentences

    def _weaker(self, fitting: float, terms: TrainingTerms) -> list[str]:
        """Say how to come from a sigma down to one that fits; empty where none is positive."""
        if fitting <= 0:
            return []
        advice = f"give a sigma of {_rounded_down(fitting)} or less instead"
        # What sigma would be worth is not what a given one was asked for.
        if self.sigma is not None or (epsilon := self._epsilon_for(fitting, terms)) is None:
            return [advice]
        return [f"set epsilon to {math.ceil(epsilon * 1000) / 1000:g} or more", advice]

    def _epsilon_for(self, sigma: float, terms: TrainingTerms) -> float | None:
        """Find the least epsilon whose noise is at most sigma; None where none that is worth its name is."""
        levels = self._computed(terms)
        if self.calibration == "exact":
            moved = levels.sensitivity_active if terms.role == "active" else levels.sensitivity_passive
            epsilon = gaussian_epsilon(moved, sigma, levels.delta)
            return epsilon if epsilon <= _LARGEST_RECOMMENDED else None
        factor = self.sigma_for(terms) / sigma
        epsilon = self._epsilon * (factor if self.calibration == "lemma" else factor * factor)
        return epsilon if epsilon <= 0.999 else None


def _share(terms: TrainingTerms) -> float:
    """Take this party's share of a bound on all parties' columns together, in the 2-norm."""
    return math.sqrt(terms.features / terms.all_features)


def _is_coarse(sigma: float, terms: TrainingTerms) -> bool:
    return sigma < _FEWEST_STEPS * terms.residual_step


def _in_steps(sigma: float, finest: float) -> tuple[int, float]:
    """Count sigma in steps of a grid, rounded up, and give the step: the finest, or 2^-48 of sigma if that is more."""
    exponent = math.frexp(sigma)[1]
    step = max(finest, math.ldexp(1.0, exponent - _MOST_DIGITS))
    unit = max(step, math.ldexp(1.0, exponent - _DIGITS))
    return math.ceil(sigma / unit) * int(unit / step), step


def _largest_share(gradient_bound: float, terms: TrainingTerms) -> float:
    """|theta^T x| is at most 4 G - 2 for ||x|| <= 1 (eq. 41); the label party adds 2.

    Longer rows give larger ones, but how long this party's are must not show in a refusal that others read.
    """
    products = norm_bound(gradient_bound)
    return products + LABEL_TERM if terms.role == "active" else products


def _too_likely(delta: float, records: int) -> str:
    """Say what a delta as large as this allows; empty for one that allows next to nothing."""
    if delta <= _DELTA_TIMES_RECORDS / records:
        return ""
    return (
        f"Delta is {delta:.3g}, and there are {records} training records: publishing each of them with a chance of "
        f"{delta:.3g}, {delta * records:.3g} in all, would keep it too. Leave delta out for one of 1 in 10 times "
        "the number of records."
    )


def _rounded_down(value: float) -> str:
    """Round down to three digits that don't exceed the value."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.floor(value / step) * step:.4g}"
