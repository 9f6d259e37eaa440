"""The two moves of the sampler, of many records at once; each leaves every record's posterior as it is.

``slice_moves`` moves what scores tell of, along directions as wide as the posterior is (slice sampling by shrinking,
Neal 2003), with any likelihood. ``box_moves`` moves what they don't tell of, one coordinate after the other, from its
exact conditional, a Gaussian cut to an interval.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from attacks.bayes.frame import Frame
from attacks.bayes.observation import ExactLogits, Observation
from attacks.bayes.stacking import StackedSessions
from vfl.arrays import FloatArray, IntArray

# The first bracket of a slice, in standard deviations.
_BRACKET = 4.0
# By then a bracket has the width of a float64's last bits.
_MOST_SHRINKS = 200
# A column that moves less than this stays in the box.
_STILL = 1e-14


@dataclass(eq=False)
class Walkers:
    """One state per record.

    Attributes:
        rows: (m,), which records.
        informed: (m, r), a.
        uninformed: (m, q), w.
        slack: (m,), by how much each record's region is softened.
        scale: (m, r, r), a root of the covariance that directions are drawn with.
    """

    rows: IntArray
    informed: FloatArray
    uninformed: FloatArray
    slack: FloatArray
    scale: FloatArray

    def some(self, which: IntArray) -> "Walkers":
        """Copy some of them."""
        return Walkers(
            self.rows[which], self.informed[which], self.uninformed[which], self.slack[which], self.scale[which]
        )

    def put(self, which: IntArray, moved: "Walkers") -> None:
        """Put copies back in their places."""
        for name in ("informed", "uninformed", "slack", "scale"):
            getattr(self, name)[which] = getattr(moved, name)


@dataclass(frozen=True, eq=False)
class Target:
    """The posterior in a frame's coordinates."""

    frame: Frame
    observation: Observation

    def log_density(self, informed: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Prior and likelihood of a, without the box: (m,)."""
        density: FloatArray = -0.5 * (informed**2).sum(axis=1)
        return density + self.observation.likelihood.log_density(self.log_scores(informed, rows), rows, slack)

    def log_scores(self, informed: FloatArray, rows: IntArray) -> FloatArray:
        """Compute what comes into the stage that can't be undone, (m, k)."""
        return self.observation.forward.log_scores(self.frame.logits(informed, rows))

    def distance(self, informed: FloatArray, rows: IntArray) -> FloatArray:
        """Measure how far it is from where the delivered rows are possible: (m,)."""
        return self.observation.likelihood.distance(self.log_scores(informed, rows), rows)

    def scale(self, informed: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Find a root of the posterior covariance of a, were the likelihood Gaussian and as wide: (m, r, r)."""
        r = informed.shape[1]
        if isinstance(self.observation.likelihood, ExactLogits):
            return np.zeros((len(rows), r, r))
        logits, slopes = self.frame.logits(informed, rows), self.frame.slopes(informed, rows)
        if isinstance(self.observation.likelihood, StackedSessions):
            posterior = np.eye(r) + self.observation.likelihood.precision_along(logits, slopes, rows, slack)
        else:
            precision = self.observation.likelihood.precision(self.log_scores(informed, rows), rows, slack)
            slopes = self.observation.forward.jacobian(logits) @ slopes
            posterior = np.eye(r) + np.swapaxes(slopes, 1, 2) @ precision @ slopes
        values, vectors = np.linalg.eigh((posterior + np.swapaxes(posterior, 1, 2)) / 2)
        root: FloatArray = vectors / np.sqrt(np.maximum(values, 1.0))[:, None, :]
        return root


def slice_moves(
    walkers: Walkers, target: Target, generator: np.random.Generator, *, box: bool, homewards: bool = False
) -> None:
    """Move a of every record along each of its dimensions, turned at random.

    homewards: along the scale's own axes instead, each as far as where the prior is densest: for walkers that may have
        started hundreds of standard deviations from there, in a direction in which scores tell next to nothing.
    """
    m, r = walkers.informed.shape
    if isinstance(target.observation.likelihood, ExactLogits):
        return
    axes = np.eye(r) if homewards else np.linalg.qr(generator.standard_normal((r, r)))[0]
    for axis in axes:
        direction = walkers.scale @ axis
        least, most = _reach(walkers, target.frame, direction) if box else (np.full(m, -np.inf), np.full(m, np.inf))
        lower = -_BRACKET * generator.random(m)
        upper = lower + _BRACKET
        if homewards:
            home = -(walkers.informed * direction).sum(axis=1) / (direction**2).sum(axis=1)
            lower, upper = np.minimum(lower, home - _BRACKET / 2), np.maximum(upper, home + _BRACKET / 2)
        _slice(walkers, target, generator, (direction, np.maximum(lower, least), np.minimum(upper, most)))


def _reach(walkers: Walkers, frame: Frame, direction: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Tell how far the box lets a record go along a direction of a, backwards and forwards: both (m,)."""
    points = frame.points(walkers.informed, walkers.uninformed, walkers.rows)
    return interval(points.T, (direction @ frame.informed.T).T[: frame.features])


def interval(points: FloatArray, steps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Find the t with 0 <= points + t steps <= 1 for (d, m) points and (d, m) or (d, 1) steps; 0 is one of them."""
    inverse = 1.0 / np.where(np.abs(steps) < _STILL, _STILL, steps)
    zero = -points * inverse
    low, high = (zero + np.minimum(inverse, 0.0)).max(axis=0), (zero + np.maximum(inverse, 0.0)).min(axis=0)
    return np.minimum(low, 0.0), np.maximum(high, 0.0)


def _slice(
    walkers: Walkers,
    target: Target,
    generator: np.random.Generator,
    line: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Slice along a line with directions (m, r) and the first bracket's ends, (m,) each, with 0 between them."""
    direction, lower, upper = line
    m = len(direction)
    level = target.log_density(walkers.informed, walkers.rows, walkers.slack) - generator.exponential(size=m)
    left_over = np.arange(m)
    for _ in range(_MOST_SHRINKS):
        low, high = lower[left_over], upper[left_over]
        step = low + (high - low) * generator.random(len(left_over))
        proposed = walkers.informed[left_over] + step[:, None] * direction[left_over]
        density = target.log_density(proposed, walkers.rows[left_over], walkers.slack[left_over])
        accepted = density >= level[left_over]
        walkers.informed[left_over[accepted]] = proposed[accepted]
        left_over, step = left_over[~accepted], step[~accepted]
        if not len(left_over):
            return
        lower[left_over] = np.where(step < 0, step, lower[left_over])
        upper[left_over] = np.where(step < 0, upper[left_over], step)


def box_moves(walkers: Walkers, frame: Frame, generator: np.random.Generator) -> None:
    """Move w of every record within the box, one coordinate after the other."""
    if not walkers.uninformed.shape[1]:
        return
    # Columns by records: what is taken over columns then runs along the records.
    points = np.ascontiguousarray(frame.points(walkers.informed, walkers.uninformed, walkers.rows).T)
    uniform = generator.random(walkers.uninformed.shape[::-1])
    for column, step in enumerate(frame.uninformed[: frame.features].T[:, :, None]):
        value = walkers.uninformed[:, column].copy()
        low, high = interval(points, step)
        moved = truncated_normal(value + low, value + high, uniform[column])
        walkers.uninformed[:, column] = moved
        points += (moved - value) * step


def truncated_normal(low: FloatArray, high: FloatArray, uniform: FloatArray) -> FloatArray:
    """Draw standard normal numbers cut to [low, high], by inversion from the tail that resolves them."""
    turned = low > 0
    below, above = np.where(turned, -high, low), np.where(turned, -low, high)
    start, end = ndtr(below), ndtr(above)
    normal = ndtri(np.clip(start + uniform * (end - start), 1e-300, 1.0))
    inside: FloatArray = np.clip(np.where(turned, -normal, normal), low, high)
    return inside
