"""Puts what several sessions tell of the same records together: more classes of one model, as far as a prior sees it.

Each session's logits count from its first class, and these differences stand side by side behind a class whose logit is
0. So m sessions of k classes look like one of 1 + m (k - 1) classes. Exact sessions of linear models are equations, of
which only independent ones are kept; what others tell is a likelihood each.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from scipy.linalg import block_diag

from attacks.bayes.forward import ForwardStages
from attacks.bayes.logit_estimate import estimated_logits
from attacks.bayes.observation import ExactLogits, Observation
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.channels import Likelihood
from vfl.channels.likelihoods import NARROWEST, DifferenceIntervals

# Directions with less than this part of the largest weight drown in float64's own error of the scores.
_LEAST_WEIGHT = 1e-13


@dataclass(frozen=True, eq=False)
class SessionGroup:
    """Sessions whose answers are read in the same way, all at once: a row for each session and record.

    Attributes:
        likelihood: of the delivered rows, s n rows of s sessions and n records.
        forward: what stands between the logits and ``likelihood``.
        columns: (s, k), where each session's logits stand among all.
    """

    likelihood: Likelihood
    forward: ForwardStages
    columns: IntArray

    def rows(self, rows: IntArray, records: int) -> IntArray:
        """Find, of m records among so many, the rows of each session: (s m,)."""
        return (np.arange(len(self.columns))[:, None] * records + rows).ravel()

    def own(self, values: FloatArray) -> FloatArray:
        """Take the sessions' own of (m, all, ...) values: (s m, k, ...)."""
        arranged = np.swapaxes(values[:, self.columns], 0, 1)
        return arranged.reshape(-1, *arranged.shape[2:])


@dataclass(frozen=True, eq=False)
class StackedSessions(Likelihood):
    """The likelihood of what several sessions delivered, given their logits side by side.

    Attributes:
        parts: sessions that are read alike.
        records: n.
        guess: (n, all) logits about where the answers put them; 0 where they say nothing.
        certainty: (n, all), the inverse of the squared width of that guess.
    """

    parts: tuple[SessionGroup, ...]
    records: int
    guess: FloatArray
    certainty: FloatArray

    def log_density(self, logits: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Sessions are independent given the record."""
        total: FloatArray = np.zeros(len(rows))
        for part, each, scores in self._each(logits, rows):
            total += (
                part.likelihood.log_density(scores, each, _repeated(slack, part)).reshape(-1, len(rows)).sum(axis=0)
            )
        return total

    def distance(self, logits: FloatArray, rows: IntArray) -> FloatArray:
        """From where the session furthest away is possible."""
        furthest: FloatArray = np.zeros(len(rows))
        for part, each, scores in self._each(logits, rows):
            furthest = np.maximum(furthest, part.likelihood.distance(scores, each).reshape(-1, len(rows)).max(axis=0))
        return furthest

    def precision_along(self, logits: FloatArray, slopes: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Roughly what is informed, as an inverse covariance of coordinates that logits have (m, all, r) slopes by."""
        total = np.zeros((len(rows), slopes.shape[2], slopes.shape[2]))
        for part, each, scores in self._each(logits, rows):
            precision = part.likelihood.precision(scores, each, _repeated(slack, part))
            jacobian = part.forward.jacobian(part.own(logits)) @ part.own(slopes)
            along = np.swapaxes(jacobian, 1, 2) @ precision @ jacobian
            total += along.reshape(-1, len(rows), *along.shape[1:]).sum(axis=0)
        return total

    def precision(self, logits: FloatArray, rows: IntArray, slack: FloatArray) -> FloatArray:
        """Add up the precision of all logits, (m, all, all)."""
        every = np.broadcast_to(np.eye(logits.shape[1]), (len(rows), logits.shape[1], logits.shape[1]))
        return self.precision_along(logits, every, rows, slack)

    def _each(self, logits: FloatArray, rows: IntArray) -> Iterator[tuple[SessionGroup, IntArray, FloatArray]]:
        """Give each part with its rows and log scores."""
        for part in self.parts:
            yield part, part.rows(rows, self.records), part.forward.log_scores(part.own(logits))


def stacked(observations: Sequence[Observation]) -> Observation:
    """Put together what sessions tell of the same records; one session alone is left as it is."""
    if len(observations) == 1:
        return observations[0]
    exact = [one for one in observations if one.is_linear]
    inexact = [one for one in observations if not one.is_linear]
    if not inexact:
        return _independent(exact)
    return _side_by_side([*([_narrow(_independent(exact))] if exact else []), *inexact])


# --- equations ----------------------------------------------------------------------------------------------------


def _independent(exact: Sequence[Observation]) -> Observation:
    """Orthonormal equations V^T x = t that say what all of the sessions' say."""
    parts = [one.linear_equations() for one in exact]
    matrix, sides = np.vstack([part[0] for part in parts]), np.hstack([part[1] for part in parts])
    left_vectors, values, right = np.linalg.svd(matrix, full_matrices=False)
    informative = values > _LEAST_WEIGHT * max(values.max(initial=0.0), 1e-300)
    coordinates = sides @ (left_vectors[:, informative] / values[informative])
    model = np.vstack([np.zeros(matrix.shape[1]), right[informative]])
    logits = np.hstack([np.zeros((len(sides), 1)), coordinates])
    return Observation(np.zeros_like(logits), model, ExactLogits(logits))


def _narrow(exact: Observation) -> Observation:
    """Make intervals as narrow as float64 tells, for standing beside likelihoods."""
    return replace(exact, likelihood=_as_intervals(exact.likelihood))


def _as_intervals(likelihood: Likelihood) -> Likelihood:
    if not isinstance(likelihood, ExactLogits):
        return likelihood
    lead = likelihood.logits - likelihood.logits[:, :1]
    return DifferenceIntervals(np.zeros(len(lead), dtype=np.int64), lead - NARROWEST, lead + NARROWEST)


# --- likelihoods --------------------------------------------------------------------------------------------------


def _side_by_side(sessions: Sequence[Observation]) -> Observation:
    offsets, models, errors, columns = [np.zeros((len(sessions[0].known), 1))], [], [], []
    end = 1
    for session in sessions:
        if not isinstance(session.model, np.ndarray):
            raise ViewError("many_sessions puts linear models together, and this one is a network.")
        k = len(session.model)
        offsets.append(session.known[:, 1:] - session.known[:, :1])
        models.append(session.model[1:] - session.model[:1])
        lead = np.hstack([-np.ones((k - 1, 1)), np.eye(k - 1)])
        errors.append(np.zeros((k - 1, k - 1)) if session.error is None else lead @ session.error @ lead.T)
        columns.append(np.append(0, np.arange(end, end + k - 1)))
        end += k - 1
    model = np.vstack([np.zeros((1, models[0].shape[1])), *models])
    error = None if all(one.error is None for one in sessions) else block_diag(0.0, *errors)
    return Observation(np.hstack(offsets), model, _stacked(sessions, columns, end), ForwardStages(), error)


def _stacked(sessions: Sequence[Observation], columns: Sequence[IntArray], count: int) -> StackedSessions:
    n = len(sessions[0].known)
    guess, certainty = np.zeros((n, count)), np.zeros((n, count))
    alike: dict[Hashable, list[tuple[Likelihood, ForwardStages, IntArray]]] = {}
    for place, (session, indices) in enumerate(zip(sessions, columns, strict=True)):
        if (estimate := estimated_logits(session.forward, session.likelihood)) is not None:
            guess[:, indices[1:]] = estimate.middle[:, 1:] - estimate.middle[:, :1]
            certainty[:, indices[1:]] = 1.0 / (estimate.variance[:, 1:] + estimate.variance[:, :1])
        likelihood = _as_intervals(session.likelihood)
        # v_1 is each model's own.
        turned = any(stage.needs_parameter_gram for stage in session.forward.stages)
        key = (place if turned else None, type(likelihood), session.forward.stages, len(indices), *_scalars(likelihood))
        alike.setdefault(key, []).append((likelihood, session.forward, indices))
    parts = [
        SessionGroup(
            _joined([likelihood for likelihood, _, _ in group]), group[0][1], np.array([own for _, _, own in group])
        )
        for group in alike.values()
    ]
    return StackedSessions(tuple(parts), n, guess, certainty)


def _joined(kinds: Sequence[Any]) -> Likelihood:
    """Likelihoods of one kind, below each other."""
    values = {field.name: [getattr(one, field.name) for one in kinds] for field in fields(kinds[0])}
    likelihood: Likelihood = type(kinds[0])(
        **{
            name: np.concatenate(column) if isinstance(column[0], np.ndarray) else column[0]
            for name, column in values.items()
        }
    )
    return likelihood


def _scalars(likelihood: Any) -> tuple[Hashable, ...]:
    values = (getattr(likelihood, field.name) for field in fields(likelihood))
    return tuple(value for value in values if not isinstance(value, np.ndarray))


def _repeated(slack: FloatArray, part: SessionGroup) -> FloatArray:
    return np.tile(slack, len(part.columns))
