"""What an adversary believes of the passive columns, before it sees a score and after; the priors of its levels.

half        nothing     N(1/2, I/12), the mean and variance of what is uniform on [0, 1]
mean        marginals   N(mu, diag(variance)), and the frequencies of columns that take few values
covariance  covariance  N(mu, Sigma), and the same frequencies
imputation  records     what complete records tell from the record's own columns and label (``attacks.bayes.records``)
"""

from dataclasses import dataclass

import numpy as np

from attacks.bayes.categories import CategoryPrior, published_categories
from attacks.views import PassiveMoments, PredictionView, ViewError
from vfl.arrays import FloatArray

# Of one feature that is uniform on [0, 1].
UNIFORM_VARIANCE = 1.0 / 12.0


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """A Gaussian belief about each of n records, N(mean_i, covariance).

    Attributes:
        mean: (n, d).
        covariance: (d, d), positive semidefinite, the same for all records; it may be singular.
    """

    mean: FloatArray
    covariance: FloatArray


@dataclass(frozen=True, eq=False)
class Belief:
    """What an adversary knows beforehand: a Gaussian over all columns, and which of them take few values.

    Attributes:
        gaussian: with the mean and covariance of all columns, categories included.
        categories: with disjoint columns; independent of each other as far as their values go.
    """

    gaussian: GaussianPrior
    categories: tuple[CategoryPrior, ...] = ()


@dataclass(frozen=True, eq=False)
class Posterior:
    """A belief about each of n records once a channel's output is known.

    Attributes:
        mean: (n, d).
        low: (n, d), lower ends of the 90 % interval of each cell.
        high: (n, d), upper ends.
        spread: (n, d) standard deviations.
        effective_samples: (n,), how many independent draws the sampled ones are worth for a record's worst cell; None
            where nothing was sampled.
        densest: (n, d), where each cell most likely is; None where that is the mean.
    """

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    spread: FloatArray
    effective_samples: FloatArray | None = None
    densest: FloatArray | None = None


def from_nothing(view: PredictionView) -> Belief:
    """Believe of each column that it is somewhere in [0, 1]. Raises ViewError where the view doesn't tell d."""
    return Belief(GaussianPrior(np.full((view.n, view.d), 0.5), np.eye(view.d) * UNIFORM_VARIANCE))


def from_marginals(view: PredictionView) -> Belief:
    """Believe the moments' means and variances. Raises ViewError without moments that fit."""
    moments = _moments(view, "mean")
    return _believed(view, moments, np.diag(np.maximum(moments.variance, 0.0)))


def from_covariance(view: PredictionView) -> Belief:
    """Believe the moments' means and covariance. Raises ViewError without moments that have one, and fit."""
    moments = _moments(view, "covariance")
    if moments.covariance is None:
        raise ViewError(
            "The prior covariance needs the covariance of the passive columns, and this view's moments have only each "
            "column's variance: give it, or take prior=mean."
        )
    if moments.covariance.shape != (view.d, view.d):
        raise ViewError(f"The covariance of {view.d} passive columns can't have shape {moments.covariance.shape}.")
    return _believed(view, moments, (moments.covariance + moments.covariance.T) / 2)


def _believed(view: PredictionView, moments: PassiveMoments, covariance: FloatArray) -> Belief:
    return Belief(GaussianPrior(np.tile(moments.mean, (view.n, 1)), covariance), published_categories(moments))


def _moments(view: PredictionView, prior: str) -> PassiveMoments:
    moments = view.moments
    if moments is None:
        raise ViewError(
            f"The prior {prior} needs what is known of the passive columns beforehand, and this view has no moments: "
            "give them, or take prior=half."
        )
    check_moments(moments, view.d)
    return moments


def check_moments(moments: PassiveMoments, d: int) -> None:
    """Raise ViewError unless the moments are of d columns."""
    fits = moments.mean.shape == moments.variance.shape == (d,)
    fits &= len(moments.supports) in (0, d) and len(moments.frequencies) == len(moments.supports)
    fits &= all(group.min(initial=0) >= 0 and group.max(initial=0) < d for group in moments.groups)
    if not fits:
        raise ViewError(f"The moments don't fit the {d} passive columns that are attacked: give one entry for each.")
