"""What an adversary believes of the passive columns, before it sees a score and after."""

from dataclasses import dataclass

from vfl.arrays import FloatArray


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
class Posterior:
    """A belief about each of n records once a channel's output is known.

    Attributes:
        mean: (n, d).
        low: (n, d), lower ends of the 90 % interval of each cell.
        high: (n, d), upper ends.
        spread: (n, d) standard deviations.
        effective_samples: (n,), how many independent draws the sampled ones are worth; None where nothing was sampled.
    """

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    spread: FloatArray
    effective_samples: FloatArray | None = None
