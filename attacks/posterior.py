"""The Bayesian adversary: a prior of what it knows beforehand, conditioned on what the scores tell."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from attacks.base import AttackSpec, Level, Reconstruction
from attacks.bayes.equations import exact_equations
from attacks.bayes.exact import factorise
from attacks.bayes.prior import Belief, GaussianPrior, Posterior, from_covariance, from_marginals, from_nothing
from attacks.bayes.records import from_records
from attacks.bayes.support import condition_on_supports
from attacks.imputation import check_records
from attacks.linear_system import check_option
from attacks.views import PredictionView, ViewError
from vfl.arrays import BoolArray, FloatArray, IntArray

_LEVELS: Mapping[str, Level] = {
    "half": "nothing",
    "mean": "marginals",
    "covariance": "covariance",
    "imputation": "records",
}
_PRIORS: Mapping[str, Callable[[PredictionView], Belief]] = {
    "half": from_nothing,
    "mean": from_marginals,
    "covariance": from_covariance,
}
_KNEW: Mapping[str, str] = {
    "half": "nothing but the public ranges",
    "mean": "the mean and variance of each passive column",
    "covariance": "the means and the covariance of the passive columns",
}


@dataclass(frozen=True)
class BayesianAdversary:
    """Estimates the posterior mean of each feature, with a 90 % interval, from a Gaussian prior and the scores.

    The scores of a linear model are linear equations, on which the prior is conditioned in closed form. For prior=half
    and box=False that is half*. Columns that take few values are summed over (``attacks.bayes.support``) where the
    prior knows of them. Answers that contradict the prior win over it. A score of 0 tells no equation. Never NaN.

    Attributes:
        prior: what it knows beforehand. "half": ranges only; "mean": each passive column's mean and variance;
            "covariance": their covariance besides (both from the view's moments); "imputation": what auxiliary records
            predict from the record's own columns and label.
        box: whether features are known to lie in [0, 1].
        records: prior=imputation learns from the first so many auxiliary records; None for all.

    Raises:
        ValueError: for an option out of range.
    """

    name: ClassVar[str] = "posterior"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="white_box",
        needs=("scores",),
        source="this project; half* of Rassouli Prop. 1 is its special case",
    )

    prior: Literal["half", "mean", "covariance", "imputation"] = "half"
    box: bool = True
    records: int | None = None

    def __post_init__(self) -> None:
        check_option(self.name, "prior", self.prior, tuple(_LEVELS))
        check_records(self.name, self.records)

    @property
    def level(self) -> Level:
        """What the adversary knows beforehand."""
        return _LEVELS[self.prior]

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d); in [0, 1] with the box.

        Raises:
            ViewError: without scores, parameters or what the prior needs, or for a channel that it can't read.
        """
        return self.reconstruct_with_notes(view).estimate

    def reconstruct_with_notes(self, view: PredictionView) -> Reconstruction:
        """The estimate of ``reconstruct``, with intervals, and notes on what was known beforehand."""
        _refuse_channels(view)
        equations = list(exact_equations(view))
        belief = self._belief(view)
        mean, low, high = (np.empty((view.n, view.d)) for _ in range(3))
        contradicting, complete = 0, True
        for block in equations:
            own = _of(belief, block.records)
            found, contradicts, summed = _conditioned(own, block.matrix, block.sides)
            mean[block.records], low[block.records], high[block.records] = found.mean, found.low, found.high
            contradicting, complete = contradicting + int(contradicts.sum()), complete and summed
        if self.box:
            mean, low, high = (np.clip(part, 0.0, 1.0) for part in (mean, low, high))
        return Reconstruction(mean, self._notes(view, belief, contradicting, complete), low, high)

    def without_scores(self, view: PredictionView) -> FloatArray:
        """The mean of the prior, (n, d): what it would estimate without a score. Raises ViewError."""
        mean = self._belief(view).gaussian.mean
        return np.clip(mean, 0.0, 1.0) if self.box else mean

    def _belief(self, view: PredictionView) -> Belief:
        return from_records(view, self.records) if self.prior == "imputation" else _PRIORS[self.prior](view)

    def _notes(self, view: PredictionView, belief: Belief, contradicting: int, complete: bool) -> tuple[str, ...]:
        knew = _KNEW.get(self.prior) or _knew_of_records(view, self.records)
        notes = [f"Level of prior knowledge: {self.level}. The adversary knew {knew} before it saw a score."]
        if belief.categories:
            columns = sum(len(category.columns) for category in belief.categories)
            how = (
                "all their combinations" if complete else "the likeliest of their combinations, found by a beam search"
            )
            notes.append(f"{columns} columns take few values; {how} were weighed.")
        if contradicting:
            notes.append(
                f"The answers of {contradicting} of {view.n} records contradict what the adversary knew; they won."
            )
        return tuple(notes)


def _knew_of_records(view: PredictionView, records: int | None) -> str:
    known = view.auxiliary
    # The belief was made from them.
    if known is None:
        raise AssertionError
    labels = " and their labels" if known.labels is not None and view.record_labels is not None else ""
    return f"{len(known.features_active[:records])} complete records{labels}"


def _refuse_channels(view: PredictionView) -> None:
    """Raises ViewError for scores or parameters that the closed form can't read."""
    for channel in (*view.channel, *(() if view.disclosure is None else (view.disclosure,))):
        name = type(channel).__name__.lower()
        raise ViewError(f"posterior can't read what {name} lets pass: judge this defence by other attacks.")
    if view.network is not None:
        raise ViewError("posterior reads the scores of a linear model: take gia or grn for a network.")


def _of(belief: Belief, records: IntArray) -> Belief:
    """The belief about some of the records."""
    prior = GaussianPrior(belief.gaussian.mean[records], belief.gaussian.covariance)
    return Belief(prior, tuple(category.restricted_to(records) for category in belief.categories))


def _conditioned(belief: Belief, matrix: FloatArray, sides: FloatArray) -> tuple[Posterior, BoolArray, bool]:
    """The posterior, which records contradict the prior (n,), and whether all combinations of values were summed."""
    if belief.categories:
        found = condition_on_supports(belief, matrix, sides)
        return found.posterior, ~found.explained, found.complete
    conditioning = factorise(belief.gaussian.covariance, matrix)
    prior = belief.gaussian
    return conditioning.posterior(prior.mean, sides), conditioning.contradicts(prior.mean, sides), True
