"""Samples the posterior of a Gaussian prior under what a channel tells, in the box or without it, with its spread.

Logits depend on at most k - 1 directions of a record (``frame``). Along these the posterior may be as narrow as a
rounded score's interval; across them it is the prior, cut to the box. So each sweep moves the first by slices that are
as narrow, and the second coordinate by coordinate (``moves``): a walk over the raw features stands still.

A record's walk starts where its delivered row is possible. To get there its region is softened, less from stage to
stage. Where nothing in the box is possible the region stays as soft as it must be, and the record counts as
contradicted.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtr

from attacks.bayes.frame import Frame, frame_of
from attacks.bayes.moves import Target, Walkers, box_moves, slice_moves
from attacks.bayes.observation import ExactLogits, Observation
from attacks.bayes.prior import GaussianPrior, Posterior
from attacks.bayes.stacking import StackedSessions
from attacks.solving.box_projection import project_onto_solutions
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.theory.prediction import equations, row_space

# What a 90 % interval leaves out at either end.
_TAIL = 0.05
# Answers less likely than this under the prior contradict it.
_UNLIKELY = 1e-6
# A column that equations determine is known to within float64's error, through a model's smallest singular value.
_ROUNDING = 1e-6
# Of regions as thin as float64 tells, a walk in many equations may stay so far outside: that contradicts nothing.
_STRAY = 1e-4
# Records walk together in groups whose draws fit a processor's cache.
_GROUP = 500
_STAGES, _LEAST_STAGES = 80, 10
_PROJECTIONS = 30
_COOLING = 0.4
# Walks start this far from the box's faces; solutions of equations only as far as they may.
_INSIDE, _MARGIN = 0.01, 1e-9
# Points of a line on which a density is looked at, twice; what is less likely than e to this isn't looked at again.
_POINTS, _FAINT = 200, -25.0
# Mean square, in variances, by which cutting a prior to the box may move its columns' means.
_MOVED, _LEAST_VARIANCE = 0.03, 1e-8


@dataclass(frozen=True, eq=False)
class SampledPosterior(Posterior):
    """A posterior by sampling.

    Attributes:
        contradicted: (n,), records whose answers are all but impossible beforehand; where nothing in the box explains
            them, it is the nearest that something does which was sampled.
    """

    contradicted: BoolArray | None = None


def sampled_posterior(
    prior: GaussianPrior, observation: Observation, *, box: bool, seed: int, draws: int
) -> SampledPosterior:
    """Sample the posterior of every record.

    Args:
        prior: of n records.
        observation: of the same records.
        box: whether features lie in [0, 1].
        seed: of the walks; the same one gives the same answer.
        draws: sweeps that are kept; a third as many go before them.
    """
    frame = frame_of(prior, observation)
    target = Target(frame, observation)
    if not len(prior.mean):
        nothing = np.zeros((0, frame.features))
        return SampledPosterior(nothing, nothing, nothing, nothing, np.zeros(0), nothing, np.zeros(0, dtype=np.bool_))
    parts = [_of_group(target, *group, box=box, draws=draws) for group in _groups(len(prior.mean), seed)]
    return SampledPosterior(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def box_agrees(prior: GaussianPrior) -> bool:
    """Tell whether a prior that is cut to the box still has about the means that were believed.

    Where columns are skewed, with most values near 0, it hasn't: what cutting moves them by is more than scores tell.
    """
    spread = np.sqrt(np.maximum(np.diag(prior.covariance), _LEAST_VARIANCE))
    low, high = -prior.mean / spread, (1.0 - prior.mean) / spread
    inside = np.maximum(ndtr(high) - ndtr(low), 1e-300)
    moved = np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)
    return bool((np.square(moved / inside) / (2 * np.pi)).mean() <= _MOVED) if moved.size else True


def _groups(n: int, seed: int) -> Iterator[tuple[IntArray, np.random.Generator]]:
    """Group records that walk together, with what draws their walks."""
    seeds = np.random.SeedSequence(seed).spawn(-(-n // _GROUP))
    for start, each in zip(range(0, n, _GROUP), seeds, strict=True):
        yield np.arange(start, min(start + _GROUP, n)), np.random.default_rng(each)


def informed_draws(frame: Frame, observation: Observation, *, seed: int, draws: int) -> tuple[FloatArray, BoolArray]:
    """Sample what logits depend on, without the box: a, (draws, n, r), and whether nothing explains a record, (n,)."""
    n, target = len(frame.centre), Target(frame, observation)
    sample, contradicted = np.empty((draws, n, frame.informed.shape[1])), np.zeros(n, dtype=np.bool_)
    for rows, generator in _groups(n, seed):
        walkers, contradicted[rows], warm_up = _warmed_up(target, rows, generator, box=False, draws=draws)
        sample[:, rows] = _unboxed_draws(walkers, warm_up, target, generator, draws)
    return sample, contradicted


def _unboxed_draws(
    walkers: Walkers, warm_up: FloatArray, target: Target, generator: np.random.Generator, draws: int
) -> FloatArray:
    """Draws of a without the box, (draws, m, r); along a single direction they are quantiles, which err by less."""
    is_linear = target.frame.effect is not None and not isinstance(target.observation.likelihood, ExactLogits)
    if is_linear and walkers.informed.shape[1] == 1:
        return generator.permutation(_quantiles(walkers, warm_up[:, :, 0], target, draws))[:, :, None]
    sample = np.empty((draws, *walkers.informed.shape))
    for draw in range(draws):
        _sweep(walkers, target, generator, box=False)
        sample[draw] = walkers.informed
    return sample


def _quantiles(walkers: Walkers, warm_up: FloatArray, target: Target, draws: int) -> FloatArray:
    """So many quantiles of the single a of each record, (draws, m), near where (s, m) draws of it were seen."""
    low, high, m = warm_up.min(axis=0), warm_up.max(axis=0), warm_up.shape[1]
    low, high = low - (high - low) / 2 - _MARGIN, high + (high - low) / 2 + _MARGIN
    for _ in range(2):
        points = np.linspace(low, high, _POINTS)
        logs = target.log_density(
            points.reshape(-1, 1), np.tile(walkers.rows, _POINTS), np.tile(walkers.slack, _POINTS)
        ).reshape(_POINTS, m)
        likely = logs > logs.max(axis=0) + _FAINT
        step = (high - low) / (_POINTS - 1)
        covered = likely.any(axis=0)  # a region between two points holds a draw all the same
        low = np.where(covered, np.where(likely, points, np.inf).min(axis=0) - step, warm_up.min(axis=0))
        high = np.where(covered, np.where(likely, points, -np.inf).max(axis=0) + step, warm_up.max(axis=0))
    weights = np.where(covered, np.exp(logs - np.where(covered, logs.max(axis=0), 0.0)), 1.0)
    below = np.cumsum(weights, axis=0) - weights / 2
    levels = (np.arange(draws) + 0.5) / draws
    return np.stack(
        [
            np.interp(levels * total, own, at)
            for total, own, at in zip(weights.sum(axis=0), below.T, points.T, strict=True)
        ],
        axis=1,
    )


def _warmed_up(
    target: Target, rows: IntArray, generator: np.random.Generator, *, box: bool, draws: int
) -> tuple[Walkers, BoolArray, FloatArray]:
    """Walkers that have forgotten where they started, for which nothing explains the record, and a on their way."""
    walkers, contradicted = _started(target, rows, box=box)
    contradicted |= _led_inside(walkers, target, generator, box=box)
    warm_up = max(20, draws // 3)
    path = np.empty((warm_up, *walkers.informed.shape))
    for sweep in range(warm_up):
        _sweep(walkers, target, generator, box=box)
        path[sweep] = walkers.informed
    path = path[warm_up // 4 :]
    _adapt(walkers, path)
    return walkers, contradicted, path


def _of_group(
    target: Target, rows: IntArray, generator: np.random.Generator, *, box: bool, draws: int
) -> tuple[FloatArray | BoolArray, ...]:
    """Mean, ends, spread, effective samples, densest places and contradictions of some records."""
    walkers, contradicted, warm_up = _warmed_up(target, rows, generator, box=box, draws=draws)
    sample, informed = np.empty((draws, len(rows), target.frame.features)), np.zeros_like(walkers.informed)
    unboxed = None if box else _unboxed_draws(walkers, warm_up, target, generator, draws)
    for draw in range(draws):
        if unboxed is None:
            _sweep(walkers, target, generator, box=box)
        else:
            walkers.informed = unboxed[draw]
        informed += walkers.informed / draws
        sample[draw] = target.frame.points(walkers.informed, walkers.uninformed, walkers.rows)
    contradicted |= chdtrc(max(1, informed.shape[1]), (informed**2).sum(axis=1)) < _UNLIKELY
    return (*_summary(sample, target.frame, generator, box=box), contradicted)


def _sweep(
    walkers: Walkers, target: Target, generator: np.random.Generator, *, box: bool, homewards: bool = False
) -> None:
    slice_moves(walkers, target, generator, box=box, homewards=homewards)
    if box:
        box_moves(walkers, target.frame, generator)


def _summary(sample: FloatArray, frame: Frame, generator: np.random.Generator, *, box: bool) -> tuple[FloatArray, ...]:
    mean, variance, effective = sample.mean(axis=0), sample.var(axis=0), effective_samples(sample)
    if not box:  # what scores don't tell of is drawn afresh for each draw, and its moments are known
        beside = frame.uninformed[: frame.features]
        sample += generator.standard_normal((*sample.shape[:2], beside.shape[1])) @ beside.T
        variance = variance + (beside**2).sum(axis=1)
    low, high = np.quantile(sample, _levels(float(np.median(effective))), axis=0)
    low, high = low - _ROUNDING, high + _ROUNDING
    if box:
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    return mean, low, high, np.sqrt(variance), effective.min(axis=1), densest_places(sample)


def densest_places(draws: FloatArray) -> FloatArray:
    """Average the draws (t, n, d) in the narrowest interval that holds a quarter of a cell's, (n, d)."""
    ordered = np.sort(draws, axis=0)
    quarter = max(1, len(draws) // 4)
    start = (ordered[quarter - 1 :] - ordered[: len(draws) - quarter + 1]).argmin(axis=0)
    sums = np.concatenate([np.zeros_like(ordered[:1]), ordered.cumsum(axis=0)])
    places = [np.take_along_axis(sums, (start + more)[None], axis=0)[0] for more in (0, quarter)]
    densest: FloatArray = (places[1] - places[0]) / quarter
    return densest


def _levels(effective: float) -> tuple[float, float]:
    """Sample quantiles that so few draws exceed as often as the interval says: plain ones are too narrow."""
    low = max(0.0, (_TAIL * (effective + 1) - 1) / max(effective - 1, 1.0))
    return low, 1.0 - low


def effective_samples(draws: FloatArray) -> FloatArray:
    """Count the independent draws (t, n, d) that consecutive ones are worth, for the mean of each cell: (n, d).

    Sums autocorrelations over lags until pairs of neighbouring ones turn negative (Geyer 1992).
    """
    count = len(draws)
    deviations = draws - draws.mean(axis=0)
    spectrum = np.abs(np.fft.rfft(deviations, 2 * count, axis=0)) ** 2
    lagged = np.fft.irfft(spectrum, axis=0)[:count]
    constant = lagged[0] <= 1e-20 * count
    correlations = lagged / np.where(constant, 1.0, lagged[0])
    pairs = correlations[: count // 2 * 2].reshape(count // 2, 2, *draws.shape[1:]).sum(axis=1)
    falling = np.maximum(np.minimum.accumulate(pairs, axis=0), 0.0)
    time = np.maximum(2.0 * falling.sum(axis=0) - 1.0, 1.0)
    return np.where(constant, count, count / time)


# --- where walks start --------------------------------------------------------------------------------------------


def _started(target: Target, rows: IntArray, *, box: bool) -> tuple[Walkers, BoolArray]:
    """Walkers near the prior's mean, on solutions of what is known exactly; and those for which there is none."""
    frame, likelihood = target.frame, target.observation.likelihood
    r, q = frame.informed.shape[1], frame.uninformed.shape[1]
    coordinates: FloatArray = np.zeros((len(rows), r + q))
    unsolved: BoolArray = np.zeros(len(rows), dtype=np.bool_)
    if isinstance(likelihood, ExactLogits):
        coordinates, unsolved = _solved(target, rows, coordinates, likelihood.logits[rows], box=box)
    elif isinstance(likelihood, StackedSessions):
        coordinates[:, :r] = _guessed(frame, rows, likelihood)
    elif frame.effect is not None:
        for _ in range(_PROJECTIONS):
            log_scores = target.log_scores(coordinates[:, :r], rows)
            outside = likelihood.distance(log_scores, rows) > 0
            nearest = likelihood.nearest(log_scores, rows)
            sought = None if nearest is None else target.observation.forward.undone(nearest)
            if sought is None or not outside.any():
                break
            coordinates[outside] = _solved(target, rows[outside], coordinates[outside], sought[outside], box=box)[0]
    if box:
        columns = _columns(frame, rows, coordinates)
        columns[:, : frame.features] = np.clip(columns[:, : frame.features], _MARGIN, 1 - _MARGIN)
        coordinates = _coordinates(frame, rows, columns)
    informed, uninformed = coordinates[:, :r].copy(), coordinates[:, r:].copy()
    return Walkers(rows, informed, uninformed, np.zeros(len(rows)), np.zeros((len(rows), r, r))), unsolved


def _guessed(frame: Frame, rows: IntArray, sessions: StackedSessions) -> FloatArray:
    """Guess the posterior mean of a, were logits Gaussian about where several sessions put them: (m, r)."""
    assert frame.effect is not None  # noqa: S101 - for the type checker
    slopes = frame.effect - frame.effect[:1]
    weighted = slopes.T * sessions.certainty[rows][:, None, :]
    offset = frame.known[rows] - frame.known[rows, :1]
    sides = weighted @ (sessions.guess[rows] - offset)[:, :, None]
    return np.asarray(np.linalg.solve(np.eye(slopes.shape[1]) + weighted @ slopes, sides)[:, :, 0], dtype=np.float64)


def _solved(
    target: Target, rows: IntArray, coordinates: FloatArray, logits: FloatArray, *, box: bool
) -> tuple[FloatArray, BoolArray]:
    """Coordinates with these logits, near those given, in the box if any are; and where none are."""
    frame, observation = target.frame, target.observation
    assert frame.effect is not None  # noqa: S101 - for the type checker
    assert isinstance(observation.model, np.ndarray)  # noqa: S101 - as above
    differences = np.diff(logits - frame.known[rows], axis=1) @ np.linalg.pinv(np.diff(frame.effect, axis=0)).T
    moved = np.hstack([differences, coordinates[:, differences.shape[1] :]])
    if not box:
        return moved, np.zeros(len(rows), dtype=np.bool_)
    d, columns = frame.features, _columns(frame, rows, moved)
    if columns.shape[1] > d:  # the errors take up what is missing
        features = np.clip(columns[:, :d], _INSIDE, 1 - _INSIDE)
        errors = logits - observation.known[rows] - features @ observation.model.T
        errors -= errors.mean(axis=1, keepdims=True)
        return _coordinates(frame, rows, np.hstack([features, errors])), np.zeros(len(rows), dtype=np.bool_)
    space = row_space(equations(observation.model))
    aimed = np.diff(logits - observation.known[rows], axis=1) @ (space.left / space.singular_values)
    solutions = project_onto_solutions(space, aimed, np.clip(columns, _INSIDE, 1 - _INSIDE))
    return _coordinates(frame, rows, solutions.points), ~solutions.feasible


def _columns(frame: Frame, rows: IntArray, coordinates: FloatArray) -> FloatArray:
    return frame.centre[rows] + coordinates @ np.hstack([frame.informed, frame.uninformed]).T


def _coordinates(frame: Frame, rows: IntArray, columns: FloatArray) -> FloatArray:
    basis = np.hstack([frame.informed, frame.uninformed])
    return np.asarray(np.linalg.lstsq(basis, (columns - frame.centre[rows]).T, rcond=None)[0].T, dtype=np.float64)


def _led_inside(walkers: Walkers, target: Target, generator: np.random.Generator, *, box: bool) -> BoolArray:
    """Soften regions until each walker is in its own, and less and less; tell which never get inside."""
    moving = np.arange(len(walkers.rows))
    for stage in range(_STAGES):
        movers = walkers.some(moving)
        outside = target.distance(movers.informed, movers.rows)
        movers.slack = outside * (_COOLING if stage else 1.0)
        movers.scale = target.scale(movers.informed, movers.rows, movers.slack)
        for _ in range(2):
            _sweep(movers, target, generator, box=box, homewards=True)
        walkers.put(moving, movers)
        if stage >= _LEAST_STAGES:
            moving = moving[target.distance(movers.informed, movers.rows) > 0]
        if not len(moving):
            break
    outside = target.distance(walkers.informed, walkers.rows)
    walkers.slack = outside
    walkers.scale = target.scale(walkers.informed, walkers.rows, walkers.slack)
    return outside > _STRAY


def _adapt(walkers: Walkers, path: FloatArray) -> None:
    """Let directions be as wide as what was seen, as far as so few draws tell; a fifth stays as it was."""
    deviations = path - path.mean(axis=0)
    covariance = np.einsum("tnr,tns->nrs", deviations, deviations) / max(1, len(path) - 1)
    before = walkers.scale @ np.swapaxes(walkers.scale, 1, 2)
    values, vectors = np.linalg.eigh(0.8 * covariance + 0.2 * before)
    walkers.scale = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
