"""Conditions on equations A x = b where some columns take few values: sums over the combinations of these.

A combination v is as likely as its values' frequencies, times the density of the equations' sides when the other
columns are Gaussian given v, N(m + T (v - E v), C) with T = S_cv S_vv^+ as the belief's covariance has it. Given v
these are conditioned in closed form; the posterior is the mixture over v. Where there are more than MOST_COMBINATIONS,
categories are decided one after the other, most telling first, and the BEAM likeliest beginnings are kept, with what is
undecided taken for Gaussian.

A combination has to meet the equations to within rounding. Where none does, as with a value that nobody told of, the
record's posterior is the Gaussian one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from attacks.bayes.categories import CategoryPrior
from attacks.bayes.exact import factorise
from attacks.bayes.prior import Belief, Posterior
from vfl.arrays import BoolArray, FloatArray, IntArray

MOST_COMBINATIONS, BEAM = 4096, 512
# The sides' rounding, in units of the largest row of A; and how likely it is that no combination told of holds.
_ROUNDING, UNTOLD = 1e-6, 1e-3
# Components of a mixture whose quantiles are searched; the others weigh next to nothing.
_COMPONENTS = 16
_HALVINGS = 24
# Numbers held at once.
_BLOCK = 4_000_000


@dataclass(frozen=True, eq=False)
class SupportPosterior:
    """What summing over supports gives.

    Attributes:
        posterior: of all columns.
        evidence: (n,), how much likelier each record's equations are than if all columns were Gaussian, as a logarithm.
        complete: whether all combinations were summed over; if not, the likeliest ones found by a beam search.
    """

    posterior: Posterior
    evidence: FloatArray
    complete: bool

    @property
    def explained(self) -> BoolArray:
        """Whether a combination of the supports' values meets each record's equations, (n,)."""
        explained: BoolArray = self.evidence >= np.log(UNTOLD)
        return explained


@dataclass(frozen=True, eq=False)
class _Split:
    """Equations and a belief, taken apart into columns of categories (v) and the others (c); q equations, whitened.

    Attributes:
        continuous: the columns c.
        base: (n, c), their mean where v were 0 and no equation known.
        slope: T, (c, v).
        covariance: C, of the others given v.
        gain: (c, q), from whitened sides.
        whitened: (n, q), whitened sides less what the others' base explains.
        steps: for each category (k, q), what each of its values adds.
        evidence: the log-density's constant.
    """

    continuous: IntArray
    base: FloatArray
    slope: FloatArray
    covariance: FloatArray
    gain: FloatArray
    whitened: FloatArray
    steps: tuple[FloatArray, ...]
    evidence: float


def condition_on_supports(
    belief: Belief, matrix: FloatArray, sides: FloatArray, noise: float = 0.0
) -> SupportPosterior:
    """Condition a belief with categories on A x = b_i, summing over what the categories' columns can be.

    Args:
        belief: with at least one category.
        matrix: A, (m, d).
        sides: b, (n, m).
        noise: standard deviation of what each side is off by; what rounding takes is added.
    """
    off = _rounding(matrix) + noise
    split = _take_apart(belief, matrix, sides, off)
    gaussian = factorise(belief.gaussian.covariance, matrix).posterior(belief.gaussian.mean, sides)
    filled = tuple(np.array(part) for part in (gaussian.mean, gaussian.low, gaussian.high, gaussian.spread))
    evidence = -_gaussian_evidence(belief, matrix, sides, off)
    complete = combinations(belief.categories) <= MOST_COMBINATIONS
    for rows in _blocks(belief.categories, len(sides), split.whitened.shape[1], complete):
        choices, logs = _search(belief.categories, split, rows, complete)
        evidence[rows] += split.evidence + logsumexp(logs, axis=1)
        explained = evidence[rows] >= np.log(UNTOLD)
        mixture = _mixture(
            belief.categories, split, rows, choices, np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        )
        for array, part in zip(filled, (mixture.mean, mixture.low, mixture.high, mixture.spread), strict=True):
            array[rows[explained]] = part[explained]
    return SupportPosterior(Posterior(*filled), evidence, complete)


def combinations(categories: Sequence[CategoryPrior]) -> float:
    """Count the combinations of the categories' values."""
    return float(np.prod([len(category.values) for category in categories], dtype=np.float64))


def _blocks(categories: Sequence[CategoryPrior], n: int, equations: int, complete: bool) -> Iterator[IntArray]:
    """List the indices of records that are searched at once."""
    largest = max(len(category.values) for category in categories)
    width = combinations(categories) if complete else BEAM * largest
    size = max(1, int(_BLOCK / (width * (equations + len(categories) + 1))))
    for start in range(0, n, size):
        yield np.arange(start, min(n, start + size))


def _rounding(matrix: FloatArray) -> float:
    return _ROUNDING * float(np.linalg.norm(matrix, axis=1).max(initial=0.0)) + 1e-300


def _gaussian_evidence(belief: Belief, matrix: FloatArray, sides: FloatArray, noise: float) -> FloatArray:
    """Compute the log-density of each record's sides under the Gaussian over all columns, less a constant: (n,)."""
    whitening, evidence = _whiten(matrix, belief.gaussian.covariance, noise)
    whitened = (sides - belief.gaussian.mean @ matrix.T) @ whitening.T
    densities: FloatArray = evidence - 0.5 * (whitened**2).sum(axis=1)
    return densities


def _whiten(matrix: FloatArray, covariance: FloatArray, noise: float) -> tuple[FloatArray, float]:
    """W with W (A C A^T + noise^2 I) W^T = I, (q, q), and log |W|."""
    values, vectors = np.linalg.eigh(matrix @ covariance @ matrix.T)
    scale = 1.0 / np.sqrt(np.maximum(values, 0.0) + noise**2)
    return scale[:, None] * vectors.T, float(np.log(scale).sum())


def _take_apart(belief: Belief, matrix: FloatArray, sides: FloatArray, noise: float) -> _Split:
    prior, categories = belief.gaussian, belief.categories
    categorical = np.concatenate([category.columns for category in categories])
    continuous = np.setdiff1d(np.arange(matrix.shape[1]), categorical)
    among, across = (
        prior.covariance[np.ix_(categorical, categorical)],
        prior.covariance[np.ix_(continuous, categorical)],
    )
    slope = across @ np.linalg.pinv(among, rcond=1e-9, hermitian=True)
    covariance = prior.covariance[np.ix_(continuous, continuous)] - slope @ across.T
    base = prior.mean[:, continuous] - prior.mean[:, categorical] @ slope.T
    whitening, evidence = _whiten(matrix[:, continuous], covariance, noise)
    whitened = whitening @ matrix[:, continuous]
    effects = (whitening @ matrix[:, categorical] + whitened @ slope).T
    ends = np.cumsum([len(category.columns) for category in categories])[:-1]
    parts = zip(categories, np.split(effects, ends), strict=True)
    return _Split(
        continuous=continuous,
        base=base,
        slope=slope,
        covariance=covariance,
        gain=covariance @ whitened.T,
        whitened=sides @ whitening.T - base @ whitened.T,
        steps=tuple(category.values @ effect for category, effect in parts),
        evidence=evidence,
    )


# --- the search ------------------------------------------------------------------------------------------------------


def _search(
    categories: Sequence[CategoryPrior], split: _Split, rows: IntArray, complete: bool
) -> tuple[IntArray, FloatArray]:
    """Search combinations of the records in rows: indices of values (r, w, categories), and log-weights (r, w)."""
    order = sorted(range(len(categories)), key=lambda one: -_variance_of(categories[one], split.steps[one]))
    choices = np.zeros((len(rows), 1, len(categories)), dtype=np.int64)
    logs: FloatArray = np.zeros((len(rows), 1))
    remainder: FloatArray = split.whitened[rows][:, None]
    for place, index in enumerate(order):
        frequencies, steps = categories[index].of(len(split.whitened))[rows], split.steps[index]
        width, k = logs.shape[1], len(steps)
        logs = (logs[:, :, None] + np.log(frequencies)[:, None]).reshape(len(rows), width * k)
        remainder = (remainder[:, :, None] - steps).reshape(len(rows), width * k, -1)
        choices = np.repeat(choices, k, axis=1)
        choices[:, :, index] = np.tile(np.arange(k), width)
        if not complete and width * k > BEAM:
            undecided = [(categories[other], split.steps[other]) for other in order[place + 1 :]]
            likely = logs + _outlook(undecided, remainder, rows, len(split.whitened))
            beam = np.argpartition(-likely, BEAM, axis=1)[:, :BEAM]
            choices = np.take_along_axis(choices, beam[:, :, None], axis=1)
            remainder = np.take_along_axis(remainder, beam[:, :, None], axis=1)
            logs = np.take_along_axis(logs, beam, axis=1)
    return choices, logs - 0.5 * (remainder**2).sum(axis=2)


def _variance_of(category: CategoryPrior, steps: FloatArray) -> float:
    """Tell how much of the whitened sides' variance a category makes."""
    frequencies = np.atleast_2d(category.frequencies).mean(axis=0)
    return float(frequencies @ ((steps - frequencies @ steps) ** 2).sum(axis=1))


def _outlook(
    undecided: Sequence[tuple[CategoryPrior, FloatArray]], remainder: FloatArray, rows: IntArray, n: int
) -> FloatArray:
    """Compute the log-density, less a constant, of the rest of the sides (r, w, q), undecided categories Gaussian."""
    variance = np.eye(remainder.shape[2])
    for category, steps in undecided:
        likely = category.of(n)[rows]
        remainder = remainder - (likely @ steps)[:, None]
        shared = likely.mean(axis=0)
        variance += (steps * shared[:, None]).T @ steps - np.outer(shared @ steps, shared @ steps)
    densities: FloatArray = -0.5 * np.einsum("rwq,rwq->rw", remainder @ np.linalg.inv(variance), remainder)
    return densities


# --- the mixture -----------------------------------------------------------------------------------------------------


def _mixture(
    categories: Sequence[CategoryPrior], split: _Split, rows: IntArray, choices: IntArray, weights: FloatArray
) -> Posterior:
    """Find the posterior of the records in rows: combinations (r, w, categories) with weights (r, w)."""
    d = len(split.continuous) + sum(len(category.columns) for category in categories)
    mean, low, high, spread = (np.empty((len(rows), d)) for _ in range(4))
    for position, category in enumerate(categories):
        indices = choices[:, :, position]
        marginal = np.stack([(weights * (indices == value)).sum(axis=1) for value in range(len(category.values))], 1)
        mean[:, category.columns] = middle = marginal @ category.values
        spread[:, category.columns] = np.sqrt(np.maximum(marginal @ category.values**2 - middle**2, 0.0))
        for place, column in enumerate(category.columns):
            low[:, column], high[:, column] = interval(category.values[:, place], marginal)
    likeliest = np.argsort(-weights, axis=1)[:, :_COMPONENTS]
    # Moments are of all combinations, quantiles of the likeliest.
    values = np.concatenate([category.values[choices[:, :, one]] for one, category in enumerate(categories)], axis=2)
    steps = sum(split.steps[one][choices[:, :, one]] for one in range(len(categories)))
    centres = (
        split.base[rows][:, None] + values @ split.slope.T + (split.whitened[rows][:, None] - steps) @ split.gain.T
    )
    middle = np.einsum("rw,rwc->rc", weights, centres)
    within = np.maximum(np.diag(split.covariance) - (split.gain**2).sum(axis=1), 0.0)
    between = np.einsum("rw,rwc->rc", weights, (centres - middle[:, None]) ** 2)
    mean[:, split.continuous], spread[:, split.continuous] = middle, np.sqrt(within + between)
    likely = np.take_along_axis(weights, likeliest, axis=1)
    parts = np.take_along_axis(centres, likeliest[:, :, None], axis=1), likely / likely.sum(axis=1, keepdims=True)
    for ends, level in ((low, 0.05), (high, 0.95)):
        ends[:, split.continuous] = _quantile(*parts, np.sqrt(within), level)
    return Posterior(mean, low, high, spread)


def interval(values: FloatArray, marginal: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the 5 % and 95 % quantiles, (n,) each, of values (k,) with probabilities (n, k)."""
    order = np.argsort(values)
    below = np.cumsum(marginal[:, order], axis=1)[:, :-1]
    return values[order][(below < 0.05).sum(axis=1)], values[order][(below < 0.95).sum(axis=1)]


def _quantile(centres: FloatArray, weights: FloatArray, deviation: FloatArray, level: float) -> FloatArray:
    """Find a quantile, (n, c), of mixtures of Gaussians with centres (n, w, c), weights (n, w) and deviations (c,)."""
    deviation = np.maximum(deviation, 1e-12)
    low, high = centres.min(axis=1) - 3 * deviation, centres.max(axis=1) + 3 * deviation
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = np.einsum("nw,nwc->nc", weights, ndtr((middle[:, None] - centres) / deviation)) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    quantile: FloatArray = (low + high) / 2
    return quantile
