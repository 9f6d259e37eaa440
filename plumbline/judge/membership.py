"""Membership inference: whether a record's score tells that the model was trained on it.

The parties need no attack for that: the split follows from the session's public seed, so that each of them knows of
every aligned record whether it was trained on. It is somebody outside whom scores may tell it: who has a record with
its label, and its score or the model. Measured is the strongest such adversary: it has records of the same kind and
trains reference models as the session trained its own (LiRA: Carlini et al., Membership inference attacks from first
principles, 2022). Beside it stands the plain threshold of the loss (Yeom et al., Privacy risk in machine learning,
2018).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from plumbline.judge.chance import ALPHA, holm
from plumbline.judge.measures import Interval, exact_share
from services.common.agreement import Agreement
from services.common.identity import Role
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.party.party_model import rows_of_plan
from services.shared_weights.opening import stays_shared
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning import GradientDescent, VerticalData, confidence_scores, train_side_by_side
from vfl.learning.confidence import class_rows
from vfl.learning.linear.initialisation import initial_weights
from vfl.learning.linear.regression import LinearRegression
from vfl.learning.linear.scheme import residual_columns

# Reference models, and the share of other records that may be taken for trained ones.
MODELS, FALSE_POSITIVES = 32, 0.01
# Fewer records of either kind say nothing of one in a hundred.
LEAST_RECORDS = 100
# Products of numbers in the training of all reference models: a minute or two of one core.
_MOST_PRODUCTS = 2e10
# Scores that differ by more than rounding does aren't those of the model.
_SAME_SCORES = 1e-3
# A narrower spread of log odds counts as this.
_NARROWEST = 1e-6


@dataclass(frozen=True)
class MembershipAttack:
    """How well one attack tells records that were trained on from others.

    Attributes:
        name: ``likelihood ratio`` or ``threshold``.
        found: share of the trained records that it finds, with at most ``FALSE_POSITIVES`` of the others taken for
            trained; the exact 95 % interval of that share (Clopper and Pearson 1934).
        auc: how often a trained record looks more like one than another does; 1/2 is guessing.
        p_found: how likely chance finds as many, beside all that was judged with it (Holm).
        p_area: how likely chance makes the area as large, likewise.
    """

    name: str
    found: Interval
    auc: float
    p_found: float = 1.0
    p_area: float = 1.0


@dataclass(frozen=True)
class MembershipFinding:
    """What scores tell of membership in the training set.

    Attributes:
        reason: why it wasn't measured; empty when it was.
        attacks: each attack, the one that finds most first.
        control: the first of them on the same records when it was shuffled which of them were trained on.
        trained: how many records of these were.
        others: how many were not: test records, in whose choice training had no part.
        models: number of reference models.
    """

    reason: str = ""
    attacks: tuple[MembershipAttack, ...] = ()
    control: MembershipAttack | None = None
    trained: int = 0
    others: int = 0
    models: int = 0

    @property
    def is_found(self) -> bool:
        """Whether some trained records are told from nearly all others, beyond chance."""
        return any(one.p_found <= ALPHA for one in self.attacks)

    @property
    def is_on_average(self) -> bool:
        """Whether trained records look more like ones than others do, beyond chance."""
        return any(one.p_area <= ALPHA for one in self.attacks)


def read_membership(folder: RunFolder, agreement: Agreement) -> MembershipFinding:
    """Measure membership inference on a run's model, or say why that can't be.

    Args:
        folder: what the parties wrote.
        agreement: the session's terms.
    """
    plan, counts = agreement.plan, agreement.row_counts
    learner = plan.family
    if not isinstance(learner, LinearRegression):
        return MembershipFinding(f"Reference models are linear ones, and this session's learner is {plan.learner}.")
    if stays_shared(agreement):
        return MembershipFinding(
            "The weights stay shared: nobody has the model, and scores of trained records were not asked for."
        )
    if min(counts.train, counts.test) < LEAST_RECORDS:
        return MembershipFinding(
            f"{counts.train:,} trained and {counts.test:,} test records: {LEAST_RECORDS} of each are needed to speak "
            "of one in a hundred."
        )
    products = MODELS * plan.epochs * counts.train * agreement.total_features * agreement.residual_columns
    if products > _MOST_PRODUCTS:
        return MembershipFinding(f"{MODELS} reference models of {counts.train:,} records would take minutes to train.")
    try:
        return _Model(folder, agreement, learner).attacked()
    except RunFolderError as error:
        return MembershipFinding(str(error))


class _Model:
    """A session's model and records, and models of the same kind that were trained on others of them."""

    def __init__(self, folder: RunFolder, agreement: Agreement, learner: LinearRegression) -> None:
        names = [party.name for party in agreement.parties]
        self._agreement, self._learner = agreement, learner
        self._features = np.hstack([folder.features(name).features for name in names])
        self._labels = folder.labels()
        weights = np.vstack([folder.weights(name).weights for name in names])
        if weights.shape != (self._features.shape[1], residual_columns(agreement.classes)):
            raise RunFolderError("The model's weights are of other columns than the parties' features.")
        if agreement.active.aligned_rows != len(self._features):
            raise RunFolderError("The session aligned other records than the parties' features are of.")
        self._split = rows_of_plan(agreement.plan, len(self._features))
        self._confidence = self._confidences(weights[None])[0]
        self._epochs = 1 + (folder.record(Role.ACTIVE).kept_epoch or 0)
        self._weights, self._delivered = weights, folder.delivered_scores(agreement)

    def attacked(self) -> MembershipFinding:
        """Attack it; a model that other scores came from can't be."""
        if not self._agreement.score_defences:
            logits = self._features[self._delivered.rows] @ class_rows(self._weights).T
            if np.abs(confidence_scores(logits) - self._delivered.scores).max(initial=0.0) > _SAME_SCORES:
                return MembershipFinding(
                    "The scores aren't those that the weights give of the parties' tables: a defence changed what was "
                    "trained on, or what answers, and reference models are trained without it."
                )
        generator = np.random.default_rng(self._agreement.plan.seed)
        # Validation records chose the epoch: they are neither trained on nor quite new to the model.
        rows = np.concatenate([self._split.train, self._split.test])
        members = reference_members(len(rows), len(self._split.train), generator)
        confidences = self._confidences(self._references(rows[members], generator))[:, rows]
        is_member = np.zeros((MODELS, len(rows)), dtype=bool)
        np.put_along_axis(is_member, members, values=True, axis=1)
        own = self._confidence[rows]
        scores = {"likelihood ratio": likelihood_ratios(own, confidences, is_member), "threshold": own}
        return membership_of(scores, np.arange(len(rows)) < len(self._split.train), generator)

    def _references(self, members: IntArray, generator: np.random.Generator) -> FloatArray:
        agreement, learner, width = self._agreement, self._learner, self._features.shape[1]
        drawn = [
            initial_weights(
                learner.initialisation,
                width,
                agreement.residual_columns,
                total_features=agreement.total_features,
                generator=generator,
            )
            for _ in range(MODELS)
        ]
        penalty = np.full(width, learner.l2)
        penalty[agreement.active.feature_count - 1] = 0.0
        schedule = agreement.plan.schedule(np.arange(members.shape[1]))
        descent = GradientDescent(schedule, self._epochs, learner.learning_rate)
        data = VerticalData([self._features], self._labels, agreement.classes)
        return train_side_by_side(data, np.stack(drawn), members, descent, penalty=penalty)

    def _confidences(self, weights: FloatArray) -> FloatArray:
        """Log odds of each record's own class by each of (models, d, columns) weights: (models, n)."""
        return np.stack([own_log_odds(self._features @ class_rows(one).T, self._labels) for one in weights])


def own_log_odds(logits: FloatArray, labels: IntArray) -> FloatArray:
    """Log odds of each record's own class, (n,), of (n, k) logits: LiRA's scale, on which scores are nearly normal."""
    own = np.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    others = np.array(logits, dtype=np.float64)
    np.put_along_axis(others, labels[:, None], -np.inf, axis=1)
    odds: FloatArray = own - logsumexp(others, axis=1)
    return odds


def reference_members(records: int, members: int, generator: np.random.Generator) -> IntArray:
    """Draw which records each reference model is trained on, (models, members).

    Runs of two circles of all records, evenly spread: every record is in about as many models, and out of as many.
    """
    half = MODELS // 2
    circles = [generator.permutation(records) for _ in range(2)]
    starts = np.arange(half) * records // half
    places = (starts[:, None] + np.arange(members)) % records
    return np.concatenate([circle[places] for circle in circles])


def likelihood_ratios(own: FloatArray, references: FloatArray, is_member: BoolArray) -> FloatArray:
    """How much likelier each record's log odds are of a model that was trained on it (Carlini et al., algorithm 1).

    With few reference models all records share a spread (their section V), of models that had them and of others.

    Args:
        own: (n,) log odds of the attacked model.
        references: (models, n) of reference models.
        is_member: (models, n), whether each was trained on the record.
    """
    counted = [is_member, ~is_member]
    means, spreads = [], []
    for some in counted:
        held = np.maximum(some.sum(axis=0), 1)
        mean = np.where(some, references, 0.0).sum(axis=0) / held
        freedom = max(1, int(some.sum()) - int((some.sum(axis=0) > 0).sum()))
        means.append(mean)
        spreads.append(max(np.sqrt(np.where(some, (references - mean) ** 2, 0.0).sum() / freedom), _NARROWEST))
    inside, outside = (
        -(((own - mean) / spread) ** 2) / 2 - np.log(spread) for mean, spread in zip(means, spreads, strict=True)
    )
    is_told = is_member.any(axis=0) & ~is_member.all(axis=0)
    ratios: FloatArray = np.where(is_told, inside - outside, 0.0)
    return ratios


def membership_of(
    scores: dict[str, FloatArray], is_trained: BoolArray, generator: np.random.Generator
) -> MembershipFinding:
    """Judge attacks that call records trained on which have the largest scores.

    Args:
        scores: (n,) by the attack's name.
        is_trained: (n,), whether the attacked model was trained on each.
        generator: shuffles the control.
    """
    judged = [_Ranking(one, is_trained) for one in scores.values()]
    chances = holm(np.array([chance for one in judged for chance in one.p_values])).reshape(-1, 2)
    found = [
        MembershipAttack(name, one.found, one.auc, *map(float, chance))
        for name, one, chance in zip(scores, judged, chances, strict=True)
    ]
    best = max(found, key=lambda one: (one.found.mean, one.auc))
    shuffled = _Ranking(scores[best.name], generator.permutation(is_trained))
    return MembershipFinding(
        attacks=tuple(sorted(found, key=lambda one: one is not best)),
        control=MembershipAttack(best.name, shuffled.found, shuffled.auc, *shuffled.p_values),
        trained=int(is_trained.sum()),
        others=int((~is_trained).sum()),
        models=MODELS,
    )


class _Ranking:
    """One attack's scores of trained records and of others."""

    def __init__(self, scores: FloatArray, is_trained: BoolArray) -> None:
        self._trained, self._others = scores[is_trained], scores[~is_trained]
        # Of the others as many are above it as make chance find this share of trained ones: (allowed + 1) / (n + 1).
        self._allowed = int(FALSE_POSITIVES * (len(self._others) + 1)) - 1
        self._hits = int((self._trained > np.sort(self._others)[::-1][self._allowed]).sum())

    @property
    def found(self) -> Interval:
        """Share of the trained records above the threshold, with its exact interval."""
        return exact_share(self._hits, len(self._trained))

    @cached_property
    def _order(self) -> tuple[float, float]:
        from scipy.stats import mannwhitneyu  # slow to import

        tested = mannwhitneyu(self._trained, self._others, alternative="greater")
        return float(tested.statistic), float(tested.pvalue)

    @property
    def auc(self) -> float:
        """How often a trained record has the larger score."""
        return self._order[0] / (len(self._trained) * len(self._others))

    @property
    def p_values(self) -> tuple[float, float]:
        """How likely chance finds as many, and makes the area as large.

        Were membership drawn by lot, that so many trained ones are above the threshold means that of as many largest
        scores at most the allowed ones are others': exact by the hypergeometric law.
        """
        from scipy.stats import hypergeom

        trained, others = len(self._trained), len(self._others)
        found = hypergeom.cdf(self._allowed, trained + others, others, self._hits + self._allowed)
        return float(found) if self._hits else 1.0, self._order[1]
