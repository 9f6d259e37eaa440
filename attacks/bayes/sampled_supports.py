"""The posterior of columns that take few values, of which a channel tells a likelihood and no equations.

Logits depend on a few coordinates a of a record (``frame``). These are sampled as if all columns were Gaussian. Each
draw is then an equation told (x - m) = a, on which the belief is conditioned by summing over the columns' values
(``support``), and draws weigh as much as the sum makes them likelier than the Gaussian did. Between draws stands a
kernel, a part of their spread. Where all columns take few values, in few combinations, each is weighed by its own
likelihood. As for equations, nothing is confined to the box.
"""

import numpy as np
from scipy.linalg import block_diag
from scipy.special import softmax

from attacks.bayes.frame import Frame, frame_of
from attacks.bayes.observation import ExactLogits, Observation
from attacks.bayes.prior import Belief, GaussianPrior, Posterior
from attacks.bayes.sampling import informed_draws
from attacks.bayes.support import (
    MOST_COMBINATIONS,
    UNTOLD,
    SupportPosterior,
    combinations,
    condition_on_supports,
    interval,
)
from vfl.arrays import BoolArray, FloatArray, IntArray

# Draws of each record that are conditioned on; of one whose draws lie close together, fewer.
_DRAWS, _OF_NARROW, _NARROW = 48, 12, 0.02
# Likelihoods of combinations that are weighed at once.
_AT_ONCE = 200_000
# With a narrower kernel, draws are points.
_NARROWEST = 1e-9


def sample_on_supports(
    belief: Belief, observation: Observation, *, seed: int, draws: int
) -> tuple[Posterior, BoolArray, bool]:
    """Sample the posterior of a belief with categories under what a linear model's channel tells.

    Args:
        belief: with at least one category.
        observation: of the same n records.
        seed: of the walks.
        draws: sweeps that are kept.

    Returns the posterior, for which records (n,) nothing that was believed explains the answers, and whether all
    combinations of values were summed over.
    """
    if _is_enumerable(belief, observation):
        return _enumerated(belief, observation)
    frame = frame_of(belief.gaussian, observation)
    coordinates, contradicted = informed_draws(frame, observation, seed=seed, draws=draws)
    kernels = _kernels(coordinates)
    covariance = belief.gaussian.covariance
    if observation.error is not None:
        covariance = block_diag(covariance, observation.error)
    extended = Belief(GaussianPrior(frame.centre, covariance), belief.categories)
    n, d = belief.gaussian.mean.shape
    filled, complete = Posterior(*(np.empty((n, d)) for _ in range(4))), True
    for kernel in np.unique(kernels):
        rows = np.flatnonzero(kernels == kernel)
        representatives = _representatives(coordinates[:, rows], _DRAWS if kernel > _NARROW else _OF_NARROW)
        posteriors = _conditioned(extended, frame, representatives, rows, float(kernel))
        for name, pooled in _pooled(posteriors, len(representatives), d).items():
            getattr(filled, name)[rows] = pooled
        contradicted[rows] |= ~posteriors.explained.reshape(len(representatives), -1).any(axis=0)
        complete &= posteriors.complete
    return filled, contradicted, complete


def _is_enumerable(belief: Belief, observation: Observation) -> bool:
    """Tell whether all columns take few values, in few combinations, so that each has its likelihood."""
    columns = sum(len(category.columns) for category in belief.categories)
    few = columns == belief.gaussian.mean.shape[1] and combinations(belief.categories) <= MOST_COMBINATIONS
    return few and observation.error is None and not isinstance(observation.likelihood, ExactLogits)


def _enumerated(belief: Belief, observation: Observation) -> tuple[Posterior, BoolArray, bool]:
    """Weigh every combination of values by its frequency and by how likely it makes the answers."""
    likelihood, categories = observation.likelihood, belief.categories
    n, d = belief.gaussian.mean.shape
    choices = np.indices([len(one.values) for one in categories]).reshape(len(categories), -1)
    cells = np.empty((choices.shape[1], d))
    for category, which in zip(categories, choices, strict=True):
        cells[:, category.columns] = category.values[which]
    partial = cells @ np.asarray(observation.model).T
    filled, contradicted = Posterior(*(np.empty((n, d)) for _ in range(4))), np.zeros(n, dtype=np.bool_)
    for rows in np.array_split(np.arange(n), max(1, n * len(cells) // _AT_ONCE)):
        each = np.repeat(rows, len(cells))
        scores = observation.forward.log_scores(observation.known[each] + np.tile(partial, (len(rows), 1)))
        # Where no combination explains a record, its region is softened until the nearest one does.
        slack = likelihood.distance(scores, each).reshape(len(rows), -1).min(axis=1)
        logs = likelihood.log_density(scores, each, np.repeat(slack, len(cells))).reshape(len(rows), -1)
        logs = logs + sum(np.log(one.of(n)[rows])[:, which] for one, which in zip(categories, choices, strict=True))
        weights = softmax(logs, axis=1)
        contradicted[rows] = slack > 0
        filled.mean[rows] = weights @ cells
        filled.spread[rows] = np.sqrt(np.maximum(weights @ cells**2 - filled.mean[rows] ** 2, 0.0))
        for column, values in enumerate(cells.T):
            filled.low[rows, column], filled.high[rows, column] = interval(values, weights)
    return filled, contradicted, True


def _kernels(draws: FloatArray) -> FloatArray:
    """Widths of kernels between (t, n, r) draws: by Silverman's rule, in steps that many records share, (n,)."""
    t, n, r = draws.shape
    deviations = draws - draws.mean(axis=0)
    variances = np.linalg.eigvalsh(np.einsum("tnr,tns->nrs", deviations, deviations) / t)
    narrowest = np.sqrt(np.maximum(variances.min(axis=1), 0.0)) if r else np.zeros(n)
    width = _DRAWS ** (-1 / (r + 4)) * narrowest
    steps = np.floor(np.log2(np.maximum(width, _NARROWEST)))
    return np.where(width > _NARROWEST, 2.0**steps, 0.0)


def _representatives(draws: FloatArray, count: int) -> FloatArray:
    """So many of (t, m, r) draws of each record, spread evenly along the first coordinate."""
    if not draws.shape[2]:
        return draws[:1]
    places = ((np.arange(count) + 0.5) * len(draws) / count).astype(np.int64)
    ordered = np.take_along_axis(draws, draws[:, :, :1].argsort(axis=0), axis=0)
    return ordered[places]


def _conditioned(belief: Belief, frame: Frame, draws: FloatArray, rows: IntArray, kernel: float) -> SupportPosterior:
    """Condition the belief about some records on each of (t, m, r) draws of them: t m posteriors."""
    assert frame.told is not None  # noqa: S101 - for the type checker
    every = np.tile(rows, len(draws))
    prior = GaussianPrior(belief.gaussian.mean[every], belief.gaussian.covariance)
    categories = tuple(category.restricted_to(every) for category in belief.categories)
    sides = draws.reshape(len(every), -1) + prior.mean @ frame.told.T
    return condition_on_supports(Belief(prior, categories), frame.told, sides, kernel)


def _pooled(posteriors: SupportPosterior, draws: int, d: int) -> dict[str, FloatArray]:
    """Mix t m posteriors over draws, of d columns: their mean, spread and an interval that is wide enough."""
    weights = softmax(np.maximum(posteriors.evidence, np.log(UNTOLD)).reshape(draws, -1), axis=0)[:, :, None]
    mean, low, high, spread = (
        getattr(posteriors.posterior, name)[:, :d].reshape(draws, -1, d) for name in ("mean", "low", "high", "spread")
    )
    middle = (weights * mean).sum(axis=0)
    variance = (weights * (spread**2 + (mean - middle) ** 2)).sum(axis=0)
    return {
        "mean": middle,
        "low": _quantile(low, weights, 0.05),
        "high": _quantile(high, weights, 0.95),
        "spread": np.sqrt(variance),
    }


def _quantile(values: FloatArray, weights: FloatArray, level: float) -> FloatArray:
    """Find a quantile over the first axis of (t, m, d) values with weights (t, m, 1)."""
    order = values.argsort(axis=0)
    below = np.cumsum(np.take_along_axis(np.broadcast_to(weights, values.shape), order, axis=0), axis=0)
    place = (below < level).sum(axis=0, keepdims=True).clip(max=len(values) - 1)
    quantile: FloatArray = np.take_along_axis(np.take_along_axis(values, order, axis=0), place, axis=0)[0]
    return quantile
