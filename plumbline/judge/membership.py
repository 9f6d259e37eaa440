"""Membership inference: whether a record's score tells that the model was trained on it.

The parties need no attack for that: the split follows from the session's public seed, so that each of them knows of
every aligned record whether it was trained on. It is somebody outside whom scores may tell it: who has a record with
its label, and its score or the model. Measured is one that knows all but that: it has all these records, lacks only
which of them were trained on, and trains reference models as the session trained its own (LiRA: Carlini et al.,
Membership inference attacks from first principles, 2022). Beside it stand what each record did to the weights, which
scores of as many records as features tell as well (as GLiR: Leemann et al., Gaussian membership inference privacy,
2023), and the plain threshold of the loss (Yeom et al., Privacy risk in machine learning, 2018).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy.linalg import block_diag
from scipy.special import logsumexp

from plumbline.judge.chance import ALPHA, holm
from plumbline.judge.measures import Interval, exact_share
from plumbline.judge.summary import RunSummary
from services.common.agreement import Agreement
from services.common.identity import Role
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import CalibrationRecord
from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.data.labels import NO_LABEL
from vfl.learning import (
    GradientDescent,
    ResidualScheme,
    VerticalData,
    confidence_scores,
    initial_weights,
    residual_columns,
    train_by_sums,
    train_centrally,
)
from vfl.learning.confidence import class_rows
from vfl.learning.linear.own_moments import OwnMoments
from vfl.learning.linear.regression import LinearRegression

# Reference models, and the share of other records that may be taken for trained ones.
MODELS, FALSE_POSITIVES = 32, 0.01
# Fewer records of either kind say nothing of one in a hundred.
LEAST_RECORDS = 100
# Products of numbers in the training of all reference models: half a minute of one core.
_MOST_PRODUCTS = 1e11
# Of a block's eigenvalues and directions, for each of its columns cubed.
_OF_EIGENVALUES = 10
# Scores that differ by more than rounding does aren't those of the model.
_SAME_SCORES = 1e-3
# A narrower spread of log odds counts as this.
_NARROWEST = 1e-6
# An interval of the share that is found can miss by either end, and either by the threshold or the share above it.
_TAIL = 0.05 / 4


@dataclass(frozen=True)
class MembershipAttack:
    """How well one attack tells records that were trained on from others.

    Attributes:
        name: ``likelihood ratio``, ``influence on weights`` or ``threshold``.
        found: share of the trained records that it finds, with at most ``FALSE_POSITIVES`` of the others taken for
            trained. Its 95 % interval also allows for where the threshold lies, which these others are few to tell.
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
        without: the parties' defences, which reference models are trained without.
    """

    reason: str = ""
    attacks: tuple[MembershipAttack, ...] = ()
    control: MembershipAttack | None = None
    trained: int = 0
    others: int = 0
    models: int = 0
    without: tuple[str, ...] = ()

    @property
    def is_found(self) -> bool:
        """Whether some trained records are told from nearly all others, beyond chance."""
        return any(one.p_found <= ALPHA for one in self.attacks)

    @property
    def is_on_average(self) -> bool:
        """Whether trained records look more like ones than others do, beyond chance."""
        return any(one.p_area <= ALPHA for one in self.attacks)


def read_membership(folder: RunFolder, summary: RunSummary) -> MembershipFinding:
    """Measure membership inference on a run's model, or say why that can't be.

    Args:
        folder: what the parties wrote.
        summary: the run's terms.
    """
    agreement = summary.agreement
    plan, counts, width = agreement.plan, agreement.row_counts, agreement.total_features
    learner = plan.family
    if not isinstance(learner, LinearRegression):
        return MembershipFinding(f"Reference models are linear ones, and this session's learner is {plan.learner}.")
    if not agreement.serving.tells_owners:
        return MembershipFinding(
            "The weights stay shared: nobody has the model, and scores of trained records were not asked for."
        )
    if min(counts.train, counts.test) < LEAST_RECORDS:
        return MembershipFinding(
            f"{counts.train:,} trained and {counts.test:,} test records: {LEAST_RECORDS} of each are needed to speak "
            "of one in a hundred."
        )
    if agreement.score_defences and any(party.disclosure_defences for party in agreement.parties):
        return MembershipFinding("Scores and parameters are both defended: nothing shows which model is the true one.")
    if MODELS * _products(agreement, learner) > _MOST_PRODUCTS:
        return MembershipFinding(
            f"{MODELS} reference models of {counts.train:,} records and {width:,} features would take too long."
        )
    try:
        return _attacked(folder, summary, learner)
    except RunFolderError:  # its words name folders of this machine
        return MembershipFinding("The run's folder lacks weights, features or scores, or has them of another session.")


def _products(agreement: Agreement, learner: LinearRegression) -> int:
    """Count the products of numbers in training one reference model, roughly."""
    plan, width, rows = agreement.plan, agreement.total_features, agreement.row_counts.train
    schedule = plan.schedule(np.arange(rows))
    steps = plan.epochs * schedule.steps_per_epoch
    if learner.steps == "plain":
        passes = plan.epochs if schedule.reshuffled else 1
        return width * (passes * rows * width + steps * min(width, 2 * plan.batch_size))
    squares, cubes = (sum(party.feature_count**power for party in agreement.parties) for power in (2, 3))
    of_steps = 2 * plan.epochs * rows * width * agreement.residual_columns
    if schedule.steps_per_epoch == 1:
        return rows * squares + cubes + of_steps
    # Each batch has a block of its own, and eigenvalues.
    return (1 + plan.epochs) * rows * squares + _OF_EIGENVALUES * steps * cubes + of_steps


def _attacked(folder: RunFolder, summary: RunSummary, learner: LinearRegression) -> MembershipFinding:
    """Train reference models and attack the session's; a model that other scores came from can't be attacked."""
    agreement, width = summary.agreement, summary.agreement.total_features
    plan, names = agreement.plan, [party.name for party in agreement.parties]
    blocks, labels = [folder.features(name).features for name in names], folder.labels()
    features = np.hstack(blocks)
    weights = np.vstack([folder.weights(name).weights for name in names])
    shapes = (agreement.active.aligned_rows, width), (width, residual_columns(agreement.classes))
    if (features.shape, weights.shape) != shapes:
        raise RunFolderError("Weights or features are of another session.")
    if not agreement.score_defences:
        delivered = folder.delivered_scores(agreement)
        follow = confidence_scores(features[delivered.rows] @ weights)
        if np.abs(follow - delivered.scores).max(initial=0.0) > _SAME_SCORES:
            return MembershipFinding(
                "The scores aren't those that the weights give of the parties' tables: a defence changed what was "
                "trained on, or what answers, and reference models are trained without it."
            )
    record, generator = folder.record(Role.ACTIVE), np.random.default_rng(plan.seed)
    epoch, bias = record.kept_epoch, agreement.active.feature_count - 1
    weights = _as_trained(weights, record.calibration, bias)
    epochs = len(summary.epochs) if epoch is None else epoch + 1
    penalty = np.full((width, 1), learner.l2)
    penalty[bias] = 0.0  # spares the bias
    split = plan.split(len(features))
    # Validation records may have chosen the epoch: they are neither trained on nor quite new to the model.
    rows = np.concatenate([split.train, split.test[labels[split.test] != NO_LABEL]])
    data = VerticalData([block[rows] for block in blocks], labels[rows], agreement.classes)

    def log_odds(weights: FloatArray) -> FloatArray:
        return own_log_odds(features[rows] @ class_rows(weights).T, data.labels)

    # Weights that were shared took steps without centring: their default plan has twice as many, and ends near these.
    descent = partial(learner.in_one_place, epochs=epochs, parties=len(names))

    def start() -> FloatArray:
        columns = weights.shape[1]
        return initial_weights(learner.initialisation, width, columns, total_features=width, generator=generator)

    members = np.stack([generator.permutation(len(rows))[: len(split.train)] for _ in range(MODELS)])
    is_member = np.zeros((MODELS, len(rows)), dtype=bool)
    np.put_along_axis(is_member, members, values=True, axis=1)
    trained = [_trained(data, start(), descent(plan.schedule(one)), penalty) for one in members]
    odds = log_odds(weights)
    scores = {
        "likelihood ratio": likelihood_ratios(odds, np.stack([log_odds(one) for one in trained]), is_member),
        "influence on weights": influences(
            data, weights, np.mean(trained, axis=0), descent(plan.schedule(split.train)), penalty, float(start().var())
        ),
        "threshold": odds,
    }
    finding = membership_of(scores, np.arange(len(rows)) < len(split.train), generator)
    return replace(finding, without=tuple(sorted({one for name in names for one in summary.defences.get(name, ())})))


def _trained(data: VerticalData, start: FloatArray, descent: GradientDescent, penalty: FloatArray) -> FloatArray:
    """Train one reference model; by own moments each party's are of this model's records, as the session's were."""
    if not descent.own_moments:
        return train_by_sums(data, start, descent, penalty)
    ends = np.cumsum([block.shape[1] for block in data.blocks])[:-1]
    spared = [part[:, 0] == 0 for part in np.split(penalty, ends)]
    parts = train_centrally(data, np.split(start, ends), descent, l2=float(penalty.max()), unpenalised=spared)
    return np.vstack(parts)


def _as_trained(weights: FloatArray, calibration: CalibrationRecord | None, bias: int) -> FloatArray:
    """Take off the slope, which every party was told, and the intercepts: reference models are trained without."""
    if calibration is None or calibration.slope is None:
        return weights
    trained = weights.copy()
    if calibration.intercepts:
        # Class rows of one column are its halves.
        added = np.array(calibration.intercepts)
        trained[bias] -= added[1:] - added[:1] if weights.shape[1] == 1 else added
    return trained / calibration.slope


def own_log_odds(logits: FloatArray, labels: IntArray) -> FloatArray:
    """Log odds of each record's own class, (n,), of (n, k) logits: LiRA's scale, on which scores are nearly normal."""
    class_logits = np.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    other_logits = np.array(logits, dtype=np.float64)
    np.put_along_axis(other_logits, labels[:, None], -np.inf, axis=1)
    odds: FloatArray = class_logits - logsumexp(other_logits, axis=1)
    return odds


def likelihood_ratios(odds: FloatArray, references: FloatArray, is_member: BoolArray) -> FloatArray:
    """Compute how much likelier each record's log odds are of a model trained on it (Carlini et al., algorithm 1).

    With few reference models all records share a spread (their section V), of models that had them and of others.

    Args:
        odds: (n,) log odds of the attacked model.
        references: (models, n) of reference models.
        is_member: (models, n), whether each was trained on the record.
    """
    sides = [is_member, ~is_member]
    means, spreads = [], []
    for is_counted in sides:
        counts = np.maximum(is_counted.sum(axis=0), 1)
        mean = np.where(is_counted, references, 0.0).sum(axis=0) / counts
        freedom = max(1, int(is_counted.sum()) - int((is_counted.sum(axis=0) > 0).sum()))
        means.append(mean)
        spreads.append(max(np.sqrt(np.where(is_counted, (references - mean) ** 2, 0.0).sum() / freedom), _NARROWEST))
    inside, outside = (
        -(((odds - mean) / spread) ** 2) / 2 - np.log(spread) for mean, spread in zip(means, spreads, strict=True)
    )
    is_told = is_member.any(axis=0) & ~is_member.all(axis=0)
    ratios: FloatArray = np.where(is_told, inside - outside, 0.0)
    return ratios


def influences(
    data: VerticalData,
    weights: FloatArray,
    reference: FloatArray,
    descent: GradientDescent,
    penalty: FloatArray,
    start_variance: float = 0.0,
) -> FloatArray:
    """How far each record's gradient explains in what the weights differ from reference ones.

    The residual is linear, so that weights differ by F sum_i (m_i - p) g_i: g_i is record i's gradient at the weights,
    m_i whether it was trained on, p the share that was, and F what T steps of descent make of a gradient, in the
    direction of an eigenvalue h of the gradient's slope (1 - (1 - eta h)^T) / h. Were the sum normal, the likelihood
    ratio of record i would grow with g_i^T S^-1 F^-1 (weights - reference), S the sum's covariance.

    Steps by own moments are plain ones of centred columns X R, R R^T the inverse of the parties' blocks: so are
    gradients and eigenvalues then, and momentum is part of F. It's an approximation there: the blocks are of all
    records, in place of those that were trained on, and aren't raised on batches. Of a model that fits its records
    exactly no gradient is left at the end, under whatever steps: likelihood ratios find these.

    Args:
        data: all records, those that were trained on and others.
        weights: (d, columns) of the attacked model.
        reference: (d, columns), the mean of reference models.
        descent: how the attacked model was trained; of its batches only their number counts, and that of their rows.
        penalty: (d, 1) strength of the penalty on each feature's weights.
        start_variance: of the weights that training began from.

    Returns:
        (n,), larger for records that were likelier trained on.
    """
    scheme, features = ResidualScheme(data.classes), np.hstack(data.blocks)
    residuals = scheme.active_share(features @ weights, data.labels)
    trained, turn = len(descent.schedule.train_rows), np.eye(len(weights))
    if descent.own_moments:
        turn = _turn(data.blocks, scheme.gradient_scale(1), penalty)
        features = (features - features.mean(axis=0)) @ turn
    _, spread, directions = np.linalg.svd(np.linalg.qr(features, mode="r"), full_matrices=False)
    reached = spread > 1e-9 * spread[0]
    spread, directions = spread[reached], directions[reached]
    slopes = scheme.gradient_scale(len(features)) * spread**2 + ((directions @ turn.T) ** 2) @ penalty[:, 0]
    remaining = _left(slopes, descent)
    filters, back = (1 - remaining) / slopes, directions @ np.linalg.inv(turn)
    evidence = back @ (reference - weights) / filters[:, None]
    projected, share = features @ directions.T * scheme.gradient_scale(trained), trained / len(features)
    start_noise = start_variance * (back**2).sum(axis=1) * (remaining / filters) ** 2
    ratios = np.zeros(len(features))
    for residual, of_column in zip(residuals.T, evidence.T, strict=True):
        gradients = residual[:, None] * projected
        covariance = share * (1 - share) * (gradients.T @ gradients) + np.diag(start_noise)
        covariance += 1e-9 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
        ratios += gradients @ np.linalg.solve(covariance, of_column)
    return ratios


def _turn(blocks: Sequence[FloatArray], curvature: float, penalty: FloatArray) -> FloatArray:
    """Make the (d, d) R of all parties, whose R R^T are the inverses of their blocks over all these records."""
    penalties = np.split(penalty, np.cumsum([block.shape[1] for block in blocks])[:-1])
    rows = np.arange(len(blocks[0]))
    turn: FloatArray = block_diag(
        *(OwnMoments(block, rows, curvature, part).turn for block, part in zip(blocks, penalties, strict=True))
    )
    return turn


def _left(slopes: FloatArray, descent: GradientDescent) -> FloatArray:
    """Give what all steps leave of a distance in directions of these slopes, (k,); momentum is OwnMomentsDescent's."""
    steps, shrunk = max(1, descent.epochs) * descent.schedule.steps_per_epoch, 1 - descent.learning_rate * slopes
    if not descent.own_moments or descent.schedule.steps_per_epoch > 1:
        powers: FloatArray = np.clip(shrunk, 0.0, 1.0) ** steps
        return powers
    remaining = before = np.ones_like(slopes)
    for step in range(steps):
        before, remaining = remaining, shrunk * (remaining + step / (step + 3) * (remaining - before))
    return remaining


def membership_of(
    scores: dict[str, FloatArray], is_trained: BoolArray, generator: np.random.Generator, models: int = MODELS
) -> MembershipFinding:
    """Judge attacks that call records trained on which have the largest scores.

    Args:
        scores: (n,) by the attack's name.
        is_trained: (n,), whether the attacked model was trained on each.
        generator: shuffles the control.
        models: number of reference models behind them.
    """
    rankings = [_Ranking(one, is_trained) for one in scores.values()]
    chances = holm(np.array([chance for one in rankings for chance in one.p_values])).reshape(-1, 2)
    attacks = [
        MembershipAttack(name, one.found, one.auc, *map(float, chance))
        for name, one, chance in zip(scores, rankings, chances, strict=True)
    ]
    best = max(attacks, key=lambda one: (one.found.mean, one.auc))
    shuffled = _Ranking(scores[best.name], generator.permutation(is_trained))
    return MembershipFinding(
        attacks=tuple(sorted(attacks, key=lambda one: one is not best)),
        control=MembershipAttack(best.name, shuffled.found, shuffled.auc, *shuffled.p_values),
        trained=int(is_trained.sum()),
        others=int((~is_trained).sum()),
        models=models,
    )


class _Ranking:
    """One attack's scores of trained records and of others."""

    def __init__(self, scores: FloatArray, is_trained: BoolArray) -> None:
        self._trained, self._others = np.sort(scores[is_trained]), np.sort(scores[~is_trained])
        # Of the others as many are above it as make chance find this share of trained ones: (allowed + 1) / (n + 1).
        self._allowed = int(FALSE_POSITIVES * (len(self._others) + 1)) - 1
        self._hits = self._above(self._allowed)

    def _above(self, rank: int) -> int:
        """Count the trained records that are above the other one of this rank, from 0 for the largest."""
        return len(self._trained) - int(np.searchsorted(self._trained, self._others[-1 - rank], side="right"))

    @property
    def found(self) -> Interval:
        """Share of the trained records above the threshold.

        The interval is of the share above the threshold that lets pass ``FALSE_POSITIVES`` of all others there could
        be: these bound it between two ranks (binomial), and each end is exact by Clopper and Pearson.
        """
        from scipy.stats import binom  # slow to import

        count = len(self._trained)
        surely, perhaps = binom.ppf([_TAIL, 1 - _TAIL], len(self._others), FALSE_POSITIVES).astype(int)
        low = exact_share(self._above(surely - 1), count, _TAIL).low if surely else 0.0
        return Interval(self._hits / count, low, exact_share(self._above(perhaps), count, _TAIL).high)

    @cached_property
    def _order(self) -> tuple[float, float]:
        from scipy.stats import mannwhitneyu

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

        trained, untrained = len(self._trained), len(self._others)
        chance = hypergeom.cdf(self._allowed, trained + untrained, untrained, self._hits + self._allowed)
        return float(chance) if self._hits else 1.0, self._order[1]
