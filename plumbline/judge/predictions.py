"""Scores attacks on predictions: an auditor, who may read every party's files, compares estimates with the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import attacks
from attacks import LEVELS, Level
from plumbline.judge.baselines import Knowledge, Predictor, imputations
from plumbline.judge.categories import find_categories
from plumbline.judge.federation_part import Comparison, LevelVerdict
from plumbline.judge.measures import (
    Interval,
    attack_accuracy,
    conditional_entropy,
    correlation_with_active,
    covered,
    entropy,
    is_discrete,
    misses,
    mse_per_feature,
    r_squared,
)
from plumbline.judge.verdicts import CategoryVerdict, ColumnVerdict, Evidence
from services.common.identity import Role
from services.common.run_folder import RunFolder, RunFolderError
from services.common.run_records import DONE, Estimates, PredictionAttackOutcome
from vfl.arrays import FloatArray

# Arrays beside an attack's estimate: what it would have guessed without scores, and the ends of its 90 % intervals.
_WITHHELD, _LOW, _HIGH = "withheld: ", "low: ", "high: "


@dataclass(frozen=True)
class ColumnLeakage:
    """What one attack tells of one passive column.

    Attributes:
        party: name of the column's owner.
        column: name of the column.
        mse: mean squared error of the reconstruction, on the column's encoded scale.
        half: mean squared error of guessing one half.
        zero: mean squared error of guessing zero.
        correlation: mean absolute correlation with the active party's columns (Jiang eq. 25).
        entropy: bits of a discrete column; None for others.
        remaining_entropy: bits that are left once its reconstruction is known; None for others.
        r_squared: 1 is exact, 0 as good as the column's mean; None for a constant column.
        within: share of cells off by 5 % of the column's range at most.
        coverage: share of cells within the attack's 90 % intervals; None where it gives none.
        levels: what the attack adds, for an adversary who knows as much as it needs, and for those who know more;
            empty for a guess that sees no score.
    """

    party: str
    column: str
    mse: Interval
    half: float
    zero: float
    correlation: float
    entropy: float | None
    remaining_entropy: float | None
    r_squared: float | None = None
    within: float = float("nan")
    coverage: float | None = None
    levels: tuple[LevelVerdict, ...] = ()

    @property
    def gain_over_half(self) -> float:
        """The part of the error of guessing one half that is gone, as papers count it: 0 is no better, 1 is exact.

        No measure of a leak: knowing the column's mean gains as well.
        """
        return 1.0 - self.mse.mean / self.half if self.half > 0 else 0.0


@dataclass(frozen=True)
class AttackFinding:
    """What one attack reconstructs of the first batch of predictions, the test records.

    Attributes:
        attack: name of the attack, with its options where several of it ran.
        status: ``done``, ``not applicable`` or ``failed``.
        reason: why it was not done; empty when it was.
        records: number of attacked records.
        seconds: duration of the attack.
        level: what its adversary knows beforehand of the passive columns.
        sees_scores: False for a guess that no score enters: a baseline.
        mse: mean squared error per feature; None when the attack was not done.
        half: mean squared error per feature of guessing one half.
        zero: mean squared error per feature of guessing zero.
        accuracy: share of records that a classifier labels alike before and after reconstruction (Jiang eq. 24).
        error_correlation: correlation over columns of the error with ``ColumnLeakage.correlation``.
        coverage: share of all cells within the attack's 90 % intervals; None where it gives none.
        columns: each passive column by itself.
        notes: what the attack says of how its estimates came about, such as the solver used.
    """

    attack: str
    status: str
    reason: str
    records: int
    seconds: float
    level: Level = "nothing"
    sees_scores: bool = True
    mse: Interval | None = None
    half: float = float("nan")
    zero: float = float("nan")
    accuracy: float = float("nan")
    error_correlation: float = float("nan")
    coverage: float | None = None
    columns: tuple[ColumnLeakage, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BaselineFinding:
    """How much a guess without scores errs.

    Attributes:
        name: of the guess.
        level: what its adversary knows beforehand.
        mse: mean squared error per feature.
    """

    name: str
    level: Level
    mse: Interval


@dataclass(frozen=True)
class PredictionFindings:
    """What predictions gave away.

    Attributes:
        attacks: every attack that was mounted, baselines among them, in their order.
        baselines: every guess without scores that the attacks are measured against.
        columns: the verdict on each passive column.
        categories: the verdict on each column of few values and each one-hot encoded feature.
        auxiliary_records: number of complete records that the adversary is declared to hold.
    """

    attacks: tuple[AttackFinding, ...] = ()
    baselines: tuple[BaselineFinding, ...] = ()
    columns: tuple[ColumnVerdict, ...] = ()
    categories: tuple[CategoryVerdict, ...] = ()
    auxiliary_records: int = 0


def read_prediction_findings(folder: RunFolder, passive_parties: Sequence[str]) -> PredictionFindings:
    """Score all attacks on predictions that ran; nothing when none was switched on. Raises RunFolderError."""
    outcomes = [outcome for outcome in folder.prediction_outcomes() if outcome.batch == 0]
    if not outcomes:
        return PredictionFindings()
    estimates = folder.estimates(0)
    if absent := [one.attack for one in outcomes if one.is_done and one.attack not in estimates.by_attack]:
        raise RunFolderError(f"{folder.path} has no estimates of {', '.join(absent)}: run it again, into a new folder.")
    return _Judge(_Truth(folder, passive_parties, estimates), outcomes, estimates.by_attack).findings()


def level_of(outcome: PredictionAttackOutcome) -> Level:
    """What the adversary of an attack knew beforehand; older runs say it by the attack's name only."""
    return outcome.level or _spec_of(outcome).level


def sees_scores(outcome: PredictionAttackOutcome) -> bool:
    """Whether scores entered an attack; older runs say it by the attack's name only."""
    return _spec_of(outcome).sees_scores if outcome.sees_scores is None else outcome.sees_scores


def _spec_of(outcome: PredictionAttackOutcome) -> attacks.AttackSpec:
    try:
        return attacks.spec_of(outcome.attack.partition("(")[0])
    except attacks.UnknownAttack:  # another package's, which isn't installed here: the least is assumed of it
        return attacks.AttackSpec(adversary="active", phase="prediction", knowledge="agnostic", needs=(), source="")


class _Truth:
    """The passive features behind the attacked rows, and what else an auditor needs to judge reconstructions."""

    def __init__(self, folder: RunFolder, passive_parties: Sequence[str], estimates: Estimates) -> None:
        blocks, self.owners, self.names = [], list[str](), list[str]()
        for party in passive_parties:
            own = folder.features(party)
            blocks.append(own.features)
            self.names += [str(name) for name in own.names]
            self.owners += [party] * own.features.shape[1]
        self._passive = np.hstack(blocks)
        self._active, self._labels = folder.features(Role.ACTIVE).features, folder.labels()
        known = estimates.auxiliary_rows
        self._rows, self._known = estimates.rows, np.empty(0, dtype=np.int64) if known is None else known
        self.cells = self._passive[self._rows]
        self.ranges = np.ptp(self._passive, axis=0)
        self.categories = find_categories(self._passive, self.owners)
        varying = self._active[:, np.ptp(self._active, axis=0) > 0]
        self.correlation = correlation_with_active(self._passive, varying)

    @property
    def auxiliary_records(self) -> int:
        """How many complete records the adversary is declared to hold."""
        return len(self._known)

    def accuracy(self, estimate: FloatArray) -> float:
        """Jiang's eq. 24, by a classifier of the records that aren't judged."""
        held_out = np.setdiff1d(np.arange(len(self._passive)), self._rows)
        return attack_accuracy(
            self.cells, estimate, held_out=self._passive[held_out], held_out_labels=self._labels[held_out]
        )

    def imputations(self) -> list[Predictor]:
        """What the declared complete records tell of the judged ones by the active party's columns and labels."""
        if not self.auxiliary_records or self._active.min() < 0 or self._active.max() > 1:
            return []  # views, and so attacks, are for columns in [0, 1]
        return imputations(
            Knowledge(
                features_active=self._active[self._rows],
                labels=self._labels[self._rows],
                auxiliary_active=self._active[self._known],
                auxiliary_passive=self._passive[self._known],
                auxiliary_labels=self._labels[self._known],
            )
        )


class _Judge:
    """Scores every attack of one batch against every guess without scores."""

    def __init__(
        self, truth: _Truth, outcomes: Sequence[PredictionAttackOutcome], arrays: Mapping[str, FloatArray]
    ) -> None:
        self._truth, self._outcomes, self._arrays = truth, outcomes, arrays
        self._generator = np.random.default_rng(0)
        done = [one for one in outcomes if one.is_done]
        withheld = [
            Predictor(f"{one.attack}, scores withheld", level_of(one), arrays[_WITHHELD + one.attack])
            for one in done
            if _WITHHELD + one.attack in arrays
        ]
        self._attacks = [self._predictor(one) for one in done if sees_scores(one)]
        self._score_free = [self._predictor(one) for one in done if not sees_scores(one)] + withheld
        self._score_free += truth.imputations()
        self._evidence = Evidence.of(truth.cells, self._attacks, self._score_free, ranges=truth.ranges)

    def _predictor(self, outcome: PredictionAttackOutcome) -> Predictor:
        return Predictor(outcome.attack, level_of(outcome), self._arrays[outcome.attack])

    def findings(self) -> PredictionFindings:
        """Everything that a run tells of its predictions."""
        truth, evidence, generator = self._truth, self._evidence, self._generator
        comparison = evidence.compared(generator=generator)
        return PredictionFindings(
            attacks=tuple(self._finding(one, comparison) for one in self._outcomes),
            baselines=tuple(
                BaselineFinding(name, level, comparison.mean_losses(name)[0]) for name, level in comparison.score_free
            ),
            columns=evidence.column_verdicts(truth.names, truth.owners, generator=generator),
            categories=evidence.category_verdicts(truth.categories, truth.names, truth.owners, generator=generator),
            auxiliary_records=truth.auxiliary_records,
        )

    def _finding(self, outcome: PredictionAttackOutcome, comparison: Comparison) -> AttackFinding:
        finding = AttackFinding(
            attack=outcome.attack,
            status=outcome.status,
            reason=outcome.reason or "",
            records=outcome.records,
            seconds=outcome.seconds,
            level=level_of(outcome),
            sees_scores=sees_scores(outcome),
            notes=outcome.notes or (),
        )
        return self._scored(finding, comparison) if outcome.is_done else finding

    def _scored(self, finding: AttackFinding, comparison: Comparison) -> AttackFinding:
        truth, estimate = self._truth, self._arrays[finding.attack]
        mse, by_column = comparison.mean_losses(finding.attack)
        coverage = self._coverage(finding.attack)
        errors = np.array([column.mean for column in by_column])
        return replace(
            finding,
            status=DONE,
            records=len(truth.cells),
            mse=mse,
            half=mse_per_feature(truth.cells, np.full_like(truth.cells, 0.5)),
            zero=mse_per_feature(truth.cells, np.zeros_like(truth.cells)),
            accuracy=truth.accuracy(estimate),
            error_correlation=_correlation(truth.correlation, errors),
            coverage=None if coverage is None else float(coverage.mean()),
            columns=self._columns(finding, by_column, comparison),
        )

    def _columns(
        self, finding: AttackFinding, errors: Sequence[Interval], comparison: Comparison
    ) -> tuple[ColumnLeakage, ...]:
        truth, estimate = self._truth, self._arrays[finding.attack]
        explained = r_squared(truth.cells, estimate)
        within = 1 - misses(truth.cells, estimate, self._evidence.tolerance).mean(axis=0)
        coverage = self._coverage(finding.attack)
        levels = self._levels(finding, comparison)
        plain = [self._column(index, estimate[:, index], error) for index, error in enumerate(errors)]
        return tuple(
            replace(
                one,
                r_squared=None if np.isnan(explained[index]) else float(explained[index]),
                within=float(within[index]),
                coverage=None if coverage is None else float(coverage[index]),
                levels=levels[index],
            )
            for index, one in enumerate(plain)
        )

    def _column(self, index: int, estimate: FloatArray, error: Interval) -> ColumnLeakage:
        cells = self._truth.cells[:, index]
        discrete = is_discrete(cells)
        return ColumnLeakage(
            party=self._truth.owners[index],
            column=self._truth.names[index],
            mse=error,
            half=mse_per_feature(cells, np.full_like(cells, 0.5)),
            zero=mse_per_feature(cells, np.zeros_like(cells)),
            correlation=float(self._truth.correlation[index]),
            entropy=entropy(cells) if discrete else None,
            remaining_entropy=conditional_entropy(cells, estimate) if discrete else None,
        )

    def _levels(self, finding: AttackFinding, comparison: Comparison) -> list[tuple[LevelVerdict, ...]]:
        """What the attack adds at its level and at those above, column by column; nothing for a baseline."""
        columns = range(self._truth.cells.shape[1])
        if not finding.sees_scores:
            return [() for _ in columns]
        tables = [comparison.at(level) for level in LEVELS[LEVELS.index(finding.level) :]]
        return [tuple(table.verdict(finding.attack, column) for table in tables) for column in columns]

    def _coverage(self, attack: str) -> FloatArray | None:
        low, high = self._arrays.get(_LOW + attack), self._arrays.get(_HIGH + attack)
        return None if low is None or high is None else covered(self._truth.cells, low, high)


def _correlation(left: FloatArray, right: FloatArray) -> float:
    if len(left) < 2 or left.std() == 0 or right.std() == 0:
        return float("nan")
    return float(np.corrcoef(left, right)[0, 1])
