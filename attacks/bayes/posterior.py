"""The Bayesian adversary: a prior of what it knows beforehand, conditioned on what the scores tell."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from attacks.base import AttackSpec, Reconstruction
from attacks.bayes.exact import condition, factorise
from attacks.bayes.observation import nothing_observed, observe
from attacks.bayes.parameters import ModelParameters, find_parameters
from attacks.bayes.prior import Belief, GaussianPrior, Posterior, from_covariance, from_marginals, from_nothing
from attacks.bayes.records import check_records, from_records, learned
from attacks.bayes.rehearsal import HeldOutRecords, trust
from attacks.bayes.sampled_supports import sample_on_supports
from attacks.bayes.sampling import SampledPosterior, box_agrees, sampled_posterior
from attacks.bayes.stacking import stacked
from attacks.bayes.support import condition_on_supports
from attacks.views import AuxiliaryRows, PredictionView
from vfl.adversary_words import Level
from vfl.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ScoreEquations:
    """Equations of the records that share their left-hand side.

    Attributes:
        records: (r,) indices.
        matrix: A, (m, d); m is one less than the number of classes with a positive score.
        sides: b, (r, m).
    """

    records: IntArray
    matrix: FloatArray
    sides: FloatArray


def exact_equations(scores: FloatArray, own_logits: FloatArray, class_rows: FloatArray) -> Iterator[ScoreEquations]:
    """Form the equations of (n, k) scores, a block for each set of classes whose scores are positive.

    A score of 0 has no logarithm: its class tells an inequality of hundreds, and no equation.

    Args:
        scores: as delivered.
        own_logits: the part of the logits that the adversary knows, (n, k).
        class_rows: the passive ones, (k, d).
    """
    patterns, which = np.unique(scores > 0, axis=0, return_inverse=True)
    for index, positive in enumerate(patterns):
        records = np.flatnonzero(which.ravel() == index)
        classes = np.flatnonzero(positive)
        logits = np.log(scores[np.ix_(records, classes)]) - own_logits[np.ix_(records, classes)]
        yield ScoreEquations(records, np.diff(class_rows[classes], axis=0), np.diff(logits, axis=1))


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

    Where it samples it also tells the densest place of each cell's posterior, for who counts hits.

    Exact scores of a linear model are linear equations, on which the prior is conditioned in closed form without the
    box. For prior=half that is half*. Columns that take few values are summed over (``attacks.bayes.support``) where
    the prior knows of them, for what score defences let pass as well (``attacks.bayes.sampled_supports``). In the box
    the posterior is sampled (``attacks.bayes.sampling``), unless the prior says other things there than without it.
    Answers that contradict the prior win over it. A score of 0 tells no equation. Never NaN. With networks, columns of
    few values count as Gaussian.

    Parameters that a defence distorted, or that were not disclosed, are regressed from complete records with their
    scores at prior=imputation, and else taken or turned or left alone as the scores suggest
    (``attacks.bayes.parameters``).

    Attributes:
        prior: what it knows beforehand. "half": ranges only; "mean": each passive column's mean and variance;
            "covariance": their covariance besides (both from the view's moments); "imputation": what auxiliary records
            predict from the record's own columns and label.
        box: whether features are known to lie in [0, 1].
        records: prior=imputation learns from the first so many auxiliary records; None for all.
        draws: sweeps of the sampler that are kept. Errors of a posterior mean are about 2 / sqrt(draws) of its
            spread, 1 / sqrt(draws) for exact scores.
        seed: of the sampler.

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
        summary="what a Bayesian believes, who knows the defence and the prior and sees the scores",
        cost="milliseconds per 1,000 records; seconds with categories",
        reads_channel=True,
        seconds=lambda extent: 0.2 + 2e-5 * extent.records * extent.features**1.5,
        at_level={level: {"prior": prior} for prior, level in _LEVELS.items()},
        # Sampling takes minutes then: the posterior is computed in closed form.
        when_wide={"box": False},
    )

    prior: Literal["half", "mean", "covariance", "imputation"] = "half"
    box: bool = True
    records: int | None = None
    draws: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        check_records(self.name, self.records)
        if self.draws < 1 or self.seed < 0:
            raise ValueError(
                f"{self.name} can't take draws={self.draws}, seed={self.seed}: draws are 1 or more, seeds 0."
            )

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
        """Estimate as ``reconstruct`` does, with intervals, and notes on what was known beforehand."""
        belief, left_out = learned(view, self.records) if self.prior == "imputation" else (self._belief(view), ())
        sessions = self._sessions(view)
        parameters = [
            find_parameters(one, belief.gaussian, self._own_records(one), own_bias=len(sessions) > 1)
            for one in sessions
        ]
        posterior, how = self._found(belief, parameters)
        posterior = self._as_far_as_trusted(posterior, belief, parameters, left_out)
        mean, low, high, densest = posterior.mean, posterior.low, posterior.high, posterior.densest
        if self.box:
            mean, low, high = (np.clip(part, 0.0, 1.0) for part in (mean, low, high))
            densest = None if densest is None else np.clip(densest, 0.0, 1.0)
        notes = dict.fromkeys(note for one in parameters for note in one.notes)
        return Reconstruction(mean, (self._knew(view), *notes, *how), low, high, densest)

    def without_scores(self, view: PredictionView) -> FloatArray:
        """Take the mean of the prior, (n, d): what it would estimate without a score. Raises ViewError."""
        belief = self._belief(view)
        mean = self._alone(belief).mean
        return np.clip(mean, 0.0, 1.0) if self.box else mean

    def _alone(self, belief: Belief) -> Posterior:
        """Cut the prior itself to the box as the posterior is, so that the box's part isn't credited to scores."""
        n, d = belief.gaussian.mean.shape
        if belief.categories or not self._is_boxed(belief):
            return condition(belief.gaussian, np.zeros((0, d)), np.zeros((n, 0)))
        return sampled_posterior(belief.gaussian, nothing_observed(n, d), box=True, seed=self.seed, draws=self.draws)

    def _is_boxed(self, belief: Belief) -> bool:
        return self.box and box_agrees(belief.gaussian)

    def _belief(self, view: PredictionView) -> Belief:
        return from_records(view, self.records) if self.prior == "imputation" else _PRIORS[self.prior](view)

    def _own_records(self, view: PredictionView) -> AuxiliaryRows | None:
        """Find the complete records that its level of knowledge has."""
        auxiliary = view.auxiliary
        if self.level != "records" or auxiliary is None:
            return None
        labels = None if auxiliary.labels is None else auxiliary.labels[: self.records]
        active, passive = auxiliary.features_active[: self.records], auxiliary.features_passive[: self.records]
        return AuxiliaryRows(active, passive, auxiliary.scores[: self.records], labels)

    def _sessions(self, view: PredictionView) -> tuple[PredictionView, ...]:
        """List the sessions whose answers it reads: one."""
        return (view,)

    def _found(self, belief: Belief, parameters: Sequence[ModelParameters]) -> tuple[Posterior, tuple[str, ...]]:
        """Find the posterior, with notes on how it was found."""
        sessions = [(one.view, one.error) for one in parameters if one.view is not None]
        if not sessions:
            return self._alone(belief), ()
        view = sessions[0][0]
        observation = stacked([observe(*one) for one in sessions])
        linear = isinstance(observation.model, np.ndarray) and observation.error is None
        boxed = self._is_boxed(belief)
        determined = len(sessions) > 1 and observation.is_linear and len(np.asarray(observation.model)) > view.d
        if linear and (belief.categories or not boxed or determined):
            if len(sessions) == 1 and not view.channel and view.network is None:
                scores, class_rows = np.asarray(view.scores), np.asarray(observation.model)
                return _in_closed_form(belief, list(exact_equations(scores, observation.known, class_rows)))
            if observation.is_linear:
                return _in_closed_form(belief, [ScoreEquations(np.arange(view.n), *observation.linear_equations())])
        if belief.categories and isinstance(observation.model, np.ndarray):
            posterior, contradicted, complete = sample_on_supports(
                belief, observation, seed=self.seed, draws=self.draws
            )
            count = int(contradicted.sum())
            return posterior, (*_weighed(belief, complete), *_contradictions(count, len(contradicted)))
        sampled = sampled_posterior(belief.gaussian, observation, box=boxed, seed=self.seed, draws=self.draws)
        return sampled, _of_samples(sampled, bool(belief.categories))

    def _as_far_as_trusted(
        self,
        posterior: Posterior,
        belief: Belief,
        parameters: Sequence[ModelParameters],
        left_out: Sequence[HeldOutRecords],
    ) -> Posterior:
        """Move the posterior back to the prior as far as that would have been better with records that are known."""
        sessions = [one for one in parameters if one.view is not None]
        if not left_out or not sessions or any(one.view is None or one.view.auxiliary is None for one in sessions):
            return posterior
        estimates = [
            self._found(part.belief, [_of_known(one, part.rows) for one in sessions])[0].mean for part in left_out
        ]
        guesses = np.vstack([part.belief.gaussian.mean for part in left_out])
        moved = np.clip(np.vstack(estimates), 0.0, 1.0) - guesses
        part, alone = trust(moved, np.vstack([one.truth for one in left_out]) - guesses), self._alone(belief)
        names = ("mean", "low", "high", "spread")
        between = {
            name: getattr(alone, name) + part * (getattr(posterior, name) - getattr(alone, name)) for name in names
        }
        densest = None if posterior.densest is None else alone.mean + part * (posterior.densest - alone.mean)
        return replace(posterior, **between, densest=densest)

    def _knew(self, view: PredictionView) -> str:
        knew = _KNEW.get(self.prior) or _knew_of_records(view, self.records)
        return f"Level of prior knowledge: {self.level}. The adversary knew {knew} before it saw a score."


def _of_known(parameters: ModelParameters, rows: IntArray) -> ModelParameters:
    """Find what parameters tell of some of the complete records, which were answered as the attacked ones were."""
    view = parameters.view
    assert view is not None  # noqa: S101 - for the type checker
    assert view.auxiliary is not None  # noqa: S101 - as above
    features, scores = view.auxiliary.features_active[rows], view.auxiliary.scores[rows]
    attacked = replace(view, features_active=features, scores=scores, record_labels=None, own_shift=None, earlier=())
    return replace(parameters, view=attacked)


def _knew_of_records(view: PredictionView, records: int | None) -> str:
    auxiliary = view.auxiliary
    # The belief was made from them.
    if auxiliary is None:
        raise AssertionError
    labels = " and their labels" if auxiliary.labels is not None and view.record_labels is not None else ""
    return f"{len(auxiliary.features_active[:records])} complete records{labels}"


def _in_closed_form(belief: Belief, equations: Sequence[ScoreEquations]) -> tuple[Posterior, tuple[str, ...]]:
    shape = belief.gaussian.mean.shape
    contradicting, complete = 0, True
    filled = Posterior(*(np.empty(shape) for _ in range(4)))
    for block in equations:
        posterior, contradicts, summed = _conditioned(_of(belief, block.records), block.matrix, block.sides)
        for name in ("mean", "low", "high", "spread"):
            getattr(filled, name)[block.records] = getattr(posterior, name)
        contradicting, complete = contradicting + int(contradicts.sum()), complete and summed
    notes = _weighed(belief, complete) if belief.categories else ()
    return filled, (*notes, *_contradictions(contradicting, shape[0]))


def _weighed(belief: Belief, complete: bool) -> tuple[str, ...]:
    columns = sum(len(category.columns) for category in belief.categories)
    how = "all their combinations" if complete else "the likeliest of their combinations, found by a beam search"
    return (f"{columns} columns take few values; {how} were weighed.",)


def _of_samples(sampled: SampledPosterior, categories: bool) -> tuple[str, ...]:
    effective, contradicted = sampled.effective_samples, sampled.contradicted
    if effective is None or contradicted is None:
        raise AssertionError  # a sampler fills in both; this tells the type checker
    typical = np.median(effective) if len(effective) else 0.0
    notes = [f"The posterior was sampled; the draws of half of the records are worth {typical:.0f} or more."]
    if categories:
        notes.append("Columns that take few values were taken for Gaussian.")
    return (*notes, *_contradictions(int(contradicted.sum()), len(contradicted)))


def _contradictions(count: int, n: int) -> tuple[str, ...]:
    return (f"The answers of {count} of {n} records contradict what the adversary knew; they won.",) if count else ()


def _of(belief: Belief, records: IntArray) -> Belief:
    """Take the belief about some of the records."""
    prior = GaussianPrior(belief.gaussian.mean[records], belief.gaussian.covariance)
    return Belief(prior, tuple(category.restricted_to(records) for category in belief.categories))


def _conditioned(belief: Belief, matrix: FloatArray, sides: FloatArray) -> tuple[Posterior, BoolArray, bool]:
    """Find the posterior, the records that contradict the prior (n,), and whether all combinations were summed."""
    if belief.categories:
        mixture = condition_on_supports(belief, matrix, sides)
        return mixture.posterior, ~mixture.explained, mixture.complete
    conditioning = factorise(belief.gaussian.covariance, matrix)
    prior = belief.gaussian
    return conditioning.posterior(prior.mean, sides), conditioning.contradicts(prior.mean, sides), True


@dataclass(frozen=True)
class ManySessions(BayesianAdversary):
    """Estimates what ``posterior`` does, from the answers of all sessions in which the same records were predicted.

    A session of k classes tells k - 1 equations of each record. After d / (k - 1) sessions with models of their own the
    equations have one solution. With one session this is ``posterior``; options and options' errors are the same.

    Each session is read through its own channel, with its own parameters, or with those that complete records tell by
    their scores in that session.
    """

    name: ClassVar[str] = "many_sessions"
    spec: ClassVar[AttackSpec] = replace(
        BayesianAdversary.spec,
        source="this project",
        summary="puts the answers of all sessions about the same records together",
        cost="that of posterior; with score defences it grows with the number of sessions",
        joins_sessions=True,
    )

    def _sessions(self, view: PredictionView) -> tuple[PredictionView, ...]:
        return (view, *view.earlier)
