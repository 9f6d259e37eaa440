"""Labels from the sums of a whole training, by a passive party that only listens (ours).

The label party's share of a record is a label term, one of few known values, plus its product theta(t)^T x, which moves
smoothly with time. ``training.smooth_shares`` says how sums of all steps tell both, with linear algebra alone. What the
terms' known values add is passed back and forth as in expectation propagation: evidence from the sums, then how likely
each class makes it, then a better prior for the next look at the sums. Where that tells too little to be believed, as
where every epoch has the same batches, ``attacks.training.least_norm`` answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, Json, require
from attacks.training.least_norm import WHY_NOTHING, by_batch, labels_of_least_norm, least_norm
from attacks.training.recovered_labels import EstimatedLabels, last_epoch
from attacks.training.smooth_shares import SmoothPrior, SmoothSums, SumsReader, best_basis, first_prior
from attacks.training_attack import ListeningAttack
from attacks.training_views import Equations, TrainingView
from attacks.views import ViewError
from vfl.arrays import FloatArray, IntArray
from vfl.learning.confidence import confidence_scores
from vfl.theory.training import residual

# Looks at the sums in which spreads are learned before classes are believed, and the part of what is unknown of
# labels that is all of it.
_SPREADS_FIRST, _CERTAIN = 2, 0.99
# Of fewer sums a record the shortest residuals put records into a better order than movements do; and the least part of
# what is unknown of labels that movements must tell.
_MANY, _LEAST_TOLD = 0.5, 0.06
# How much likelier than not, as a logarithm, an earlier session must be about other labels to be left out.
_OTHERS = -3.0
_MIXTURE_ROUNDS, _TINY = 60, 1e-9
# How far start weights may move all shares alike: the variance of that, in the terms' units.
_START_VARIANCE = 0.25
# Of conjugate gradients.
_TOLERANCE = 5e-3


@dataclass(frozen=True)
class TrajectoryLabels:
    """Reads labels from the sums of all steps: few unknowns per record meet the equations of every step that used it.

    Nothing is known of weights or of how frequent classes are. Functions of time are chosen by how well they
    predict the sums of steps left out; spreads and noise are the most likely ones (EM). Every label has a probability.
    That needs batches that are drawn anew. Of full batches, of the same ones in every epoch, and of few epochs the
    shortest residuals with the same sums answer, as far as a sum for each batch and column tells records apart.

    Attributes:
        rounds: looks at the sums, at most.
        draws: from the posterior in each look, for its variances.
        seed: of the draws.
        believed_from: which part of what is unknown of labels must be told before classes are believed: less goes
            astray by itself. Above 1 they never are.
    """

    rounds: int = 12
    draws: int = 3
    seed: int = 0
    believed_from: float = 0.45

    name: ClassVar[str] = "trajectory_labels"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=("equations",),
        source="ours",
        learners=("linear",),
        summary="reads labels from the sums of all epochs together, since shares move smoothly with time",
        cost="seconds per 1,000 records; minutes at 40,000",
        seconds=lambda extent: 0.5 + 0.001 * extent.steps + 0.03 * extent.distinct_batches,
    )

    def attack(self, view: TrainingView) -> EstimatedLabels:
        """Estimate the labels of all rows in the view's batches. Raises ViewError for the active party's view.

        Earlier sessions are joined where this one alone leaves labels open, unless they tell of other labels.
        """
        alone = self.attack_sessions([view], [np.arange(view.n)])
        if not view.earlier or alone.told >= _CERTAIN:
            return alone
        alike = [one for one in view.earlier if (one.label_party, one.classes) == (view.label_party, view.classes)]
        # The same batches mix the same labels: they tell them once.
        alike = [one for one in alike if not np.array_equal(_first_batch(one), _first_batch(view))]
        alike = [one for one in alike if self._tells_the_same(one, view, alone)]
        if not alike:
            return alone
        return self.attack_sessions([view, *alike], places([view, *alike])).of_first(view.n)

    def _tells_the_same(self, earlier: TrainingView, view: TrainingView, estimate: EstimatedLabels) -> bool:
        """Tell whether an earlier session may be about the same labels: unless others of its own are far likelier."""
        alone = self.attack_sessions([earlier], [np.arange(earlier.n)])
        if estimate.reason or alone.reason:
            return not alone.reason
        here, there = places([view, earlier])
        _, ours, theirs = np.intersect1d(here[estimate.rows], there[alone.rows], return_indices=True)
        first, second = estimate.probabilities[estimate.rows[ours]], alone.probabilities[alone.rows[theirs]]
        if not len(first):
            return True
        agreement = np.log((first * second / first.mean(axis=0)).sum(axis=1)).sum()
        return bool(agreement > _OTHERS)

    def attack_sessions(self, views: Sequence[TrainingView], records: Sequence[IntArray]) -> EstimatedLabels:
        """Estimate labels from several sessions, in which a record has one label.

        Args:
            views: of each session, the same party's.
            records: of each, which record each of its n rows is, (n,), counted from 0 over all sessions.

        Raises:
            ViewError: for an active party's view, one without shares, or sessions with different classes.
        """
        for view in views:
            check_listener(self, view)
        if len({view.classes for view in views}) != 1:
            raise ViewError("The sessions' labels have different numbers of classes: join sessions with the same.")
        equations = [honest_equations(view) for view in views]
        if any(map(draws_anew, views)) and _are_many(equations, records):
            estimate = self._by_movements(views, records)
            if estimate.told >= _LEAST_TOLD:
                return estimate
            return replace(estimate, probabilities=np.full_like(estimate.probabilities, np.nan), reason=WHY_NOTHING)
        shortest = least_norm(equations, records, 1 + max(int(own.max()) for own in records))
        return labels_of_least_norm(views[0], shortest, sessions=len(views))

    def _by_movements(self, views: Sequence[TrainingView], records: Sequence[IntArray]) -> EstimatedLabels:
        """Estimate labels by how shares move, of sessions some of which draw batches anew."""
        generator = np.random.default_rng(self.seed)
        sessions = [_Session(view, own, generator, self.draws) for view, own in zip(views, records, strict=True)]
        belief = _Belief(sessions)
        for number in range(self.rounds):
            for session in sessions:
                session.look()
            belief.update()
            is_believed = number >= _SPREADS_FIRST and belief.told >= self.believed_from
            if belief.told >= _CERTAIN or (number > _SPREADS_FIRST and not is_believed):
                break
            for session in sessions:
                session.learn_spreads()
                if is_believed:
                    session.believe(belief.probabilities[session.records])
        return belief.result()


def _are_many(equations: Sequence[Sequence[Equations]], records: Sequence[IntArray]) -> bool:
    """Tell whether sessions have sums enough for movements of shares to be told apart from labels."""
    batches = [(own, same[0]) for one, own in zip(equations, records, strict=True) for same in by_batch(one)]
    rows = np.unique(np.concatenate([own[first.rows] for own, first in batches]))
    return bool(sum(min(first.matrix.shape) for _, first in batches) > _MANY * len(rows))


def draws_anew(view: TrainingView) -> bool:
    """Tell whether steps mix the same records in several ways: not where all epochs have the same batches."""
    rows = [same[0].rows for same in by_batch(honest_equations(view))]
    return int(np.bincount(np.concatenate(rows)).max()) > 1


def _first_batch(view: TrainingView) -> IntArray:
    """Find the records that the first step used, in order."""
    rows = view.steps[0].rows
    return np.sort(rows if view.records is None else view.records[rows])


def places(views: Sequence[TrainingView]) -> list[IntArray]:
    """Tell which record each view's rows are, counted from 0: the first view's rows in order, then all others."""
    records = [one.records for one in views if one.records is not None]
    distinct = np.concatenate([records[0], np.setdiff1d(np.concatenate(records), records[0])])
    order = np.argsort(distinct)
    return [order[np.searchsorted(distinct, own, sorter=order)] for own in records]


def check_listener(attack: ListeningAttack, view: TrainingView) -> None:
    """Refuse what is no passive party's view of sums of first-order shares; raises ViewError."""
    if view.role != "passive" or view.label_party is None or not view.linear:
        raise ViewError(f"{attack.name} is a passive party's attack on first-order shares: mount it there.")
    require(attack, view)
    if not honest_equations(view):
        raise ViewError(f"{attack.name} needs sums of {view.label_party}'s shares: this view has none.")


def honest_equations(view: TrainingView) -> list[Equations]:
    """Find the label party's equations, of the steps in which own messages were honest if there are any.

    Another attack of the same party may have asked for further sums, and been told of some rows only.
    """
    equations = [one for one in view.equations if one.peer == view.label_party]
    honest = [one for one in equations if one.matrix.shape[1] == view.features.shape[1]]
    return honest or equations


class _Session:
    """What one session's sums say of label terms, and what is believed of its shares.

    Attributes:
        records: (n,) which record each row is.
        seen: the rows that steps used.
        codes: (k, columns), the label term of each class.
        terms: (n, columns), label terms by the sums alone.
        precision: of each of them.
        shift: (columns,), how far all of them are off alike: what the start weights do to all shares.
    """

    def __init__(self, view: TrainingView, records: IntArray, generator: np.random.Generator, draws: int) -> None:
        equations = honest_equations(view)
        self.records = records
        self.seen = np.unique(np.concatenate([one.rows for one in equations]))
        self.codes = residual(
            "first_order", np.zeros((view.classes, view.columns)), np.arange(view.classes), view.classes
        )
        # Of label terms while classes count as equally frequent.
        self._spread = float((self.codes**2).mean())
        self.chosen = best_basis(view, equations, self._spread)
        sums = SmoothSums(view, equations, self.chosen.functions)
        self._reader = SumsReader(sums, view.columns, generator, draws=draws)
        self.prior = first_prior(view, self.chosen.functions, self._spread)
        self.terms, self.precision = self.prior.terms, 0.0
        self.shift = np.zeros(view.columns)
        self.last_epoch = last_epoch(view)

    def look(self) -> None:
        """Condition the prior on the sums, and take the prior's part out of what follows of label terms."""
        self._found = self._reader.condition(self.prior, _TOLERANCE)
        before, after = 1 / self.prior.term_variance, 1 / max(self._found.term_variance, _TINY)
        precision = max(after - before, _TINY * before)
        self.terms = (after * self._found.terms - before * self.prior.terms) / precision
        # Where terms scatter more than their values and that precision explain, records aren't told alike.
        scatter = float(self.terms[self.seen].var(axis=0).mean())
        self.precision = min(precision, 1 / max(scatter - self._spread, _TINY))

    def distances(self) -> FloatArray:
        """Minus twice the logarithm of how likely each class makes the sums of each row, (n, k), up to a constant."""
        apart = ((self.terms - self.shift)[:, None] - self.codes) ** 2
        # Of several classes' columns the mean is taken off: they have one freedom less.
        freedom = 1.0 if len(self.codes) == 2 else 1 - 1 / len(self.codes)
        distances: FloatArray = self.precision * freedom * apart.sum(axis=2)
        return distances

    def align(self, probabilities: FloatArray) -> None:
        """Find the most likely ``shift`` for classes of (n, k) probabilities."""
        off = (self.terms - probabilities @ self.codes)[self.seen].sum(axis=0)
        weight = self.precision * len(self.seen) + 1 / _START_VARIANCE
        self.shift = (self.precision * off - self.prior.mean[:, 0] / _START_VARIANCE) / weight

    def learn_spreads(self) -> None:
        """Take over the most likely spreads and noise; label terms stay Gaussian, about one mean."""
        posterior = self._found
        terms = np.tile(posterior.terms[self.seen].mean(axis=0), (len(self.records), 1))
        mean = posterior.rest[self.seen].mean(axis=0)
        self._before = self.prior
        self.prior = SmoothPrior(terms, self._spread, mean, posterior.second_moments, posterior.noise)

    def believe(self, probabilities: FloatArray) -> None:
        """Take over what classes' (n, k) probabilities say of label terms beyond this session's own sums."""
        expected = probabilities @ self.codes
        variance = (probabilities @ self.codes**2 - expected**2)[self.seen].mean()
        after, own_precision = 1 / max(float(variance), _TINY), self.precision
        # Doubling at most keeps early mistakes from being believed for good.
        precision = min(max(after - own_precision, 1 / self._spread), 2 / self._before.term_variance)
        terms = (after * expected - own_precision * (self.terms - self.shift)) / max(
            after - own_precision, 1 / self._spread
        )
        mean = self.prior.mean.copy()
        mean[:, 0] = self._before.mean[:, 0] + self.shift
        self.prior = replace(self.prior, terms=terms, term_variance=1 / precision, mean=mean)


@dataclass(frozen=True, eq=False)
class LabelTerms:
    """What a session's sums say of label terms while no class is believed in.

    Attributes:
        rows: (m,) the records that steps used.
        terms: (n, columns), label terms.
        precision: of each of them.
        details: which functions of time, and what they missed.
    """

    rows: IntArray
    terms: FloatArray
    precision: float
    details: Mapping[str, Json]


def label_terms(view: TrainingView, *, looks: int, seed: int) -> LabelTerms:
    """Read label terms off a session's sums, with spreads and noise learned in so many looks. Raises ViewError."""
    session = _Session(view, np.arange(view.n), np.random.default_rng(seed), TrajectoryLabels.draws)
    for number in range(looks):
        if number:
            session.learn_spreads()
        session.look()
    details: dict[str, Json] = {
        "functions_of_time": [session.chosen.name],
        "left_out_missed": [round(session.chosen.missed, 6)],
    }
    return LabelTerms(session.seen, session.terms, session.precision, details)


class _Belief:
    """How likely each class is for each record, by the sums of all sessions.

    Attributes:
        probabilities: (records, k).
        frequencies: (k,), of the classes.
        seen: the records that any step used.
    """

    def __init__(self, sessions: Sequence[_Session]) -> None:
        self._sessions = sessions
        self.seen = np.unique(np.concatenate([one.records[one.seen] for one in sessions]))
        classes = len(sessions[0].codes)
        self.frequencies = np.full(classes, 1 / classes)
        self.probabilities = np.full((1 + max(int(one.records.max()) for one in sessions), classes), 1 / classes)

    def update(self) -> None:
        """Find the most likely frequencies and shifts, and the probabilities with them (EM of a mixture)."""
        self.frequencies = np.full_like(self.frequencies, 1 / len(self.frequencies))
        for _ in range(_MIXTURE_ROUNDS):
            logits = np.tile(np.log(self.frequencies), (len(self.probabilities), 1))
            for session in self._sessions:
                logits[session.records] -= session.distances() / 2
            self.probabilities = confidence_scores(logits)
            # Where little is told, a mean that start weights moved passes for rare classes: counts hold against it.
            alike = 1 + len(self.seen) * (1 - self.told) ** 2 / len(self.frequencies)
            counts = self.probabilities[self.seen].sum(axis=0) + alike
            self.frequencies = counts / counts.sum()
            for session in self._sessions:
                session.align(self.probabilities[session.records])

    @property
    def expected_right(self) -> float:
        """The share of labels that the likeliest classes should get right."""
        return float(self.probabilities[self.seen].max(axis=1).mean())

    @property
    def told(self) -> float:
        """Which part of the labels' entropy the sums took away, in [0, 1]."""
        unknown = _entropy(self.frequencies)
        entropy = float(_entropy(self.probabilities[self.seen]).mean())
        return 1 - entropy / float(unknown) if unknown > _TINY else 0.0

    def result(self) -> EstimatedLabels:
        """Say what is believed."""
        probabilities = np.full_like(self.probabilities, np.nan)
        probabilities[self.seen] = self.probabilities[self.seen]
        details: dict[str, Json] = {
            "expected_right": round(self.expected_right, 4),
            "sessions": len(self._sessions),
            "functions_of_time": [one.chosen.name for one in self._sessions],
            "left_out_missed": [round(one.chosen.missed, 6) for one in self._sessions],
        }
        return EstimatedLabels(probabilities, self.seen, self._sessions[0].last_epoch, self.told, details)


def _entropy(probabilities: FloatArray) -> FloatArray:
    """Compute the entropy in nats, along the last axis."""
    entropy: FloatArray = -(probabilities * np.log(np.maximum(probabilities, _TINY))).sum(axis=-1)
    return entropy
