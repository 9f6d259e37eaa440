"""Scores attacks on predictions: an auditor, who may read every party's files, compares estimates with the truth."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import attacks
from attacks import LEVELS, Level
from plumbline.judge import Progress, silent
from plumbline.judge.evidence import (
    CategoryVerdict,
    ColumnVerdict,
    Evidence,
    JudgedFeatures,
    JudgedSource,
    Predictor,
    SourceVerdict,
    judged_source,
    no_less_than,
    verdicts_of,
)
from plumbline.judge.federation_part import Comparison, Judged, LevelVerdict, at, beside_each_other
from plumbline.judge.lights import are_too_few, light_of_column, worst
from plumbline.judge.measures import Interval, covered, misses, mse_per_feature, r_squared
from plumbline.judge.truth import Truth
from plumbline.telling.numbers import percent
from services.common.limits import LARGEST_SHARE
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, FAILED, NOT_APPLICABLE, AttackStatus, PredictionAttackOutcome
from services.common.session_limit import SessionLimit
from vfl.arrays import FloatArray

# Arrays beside an attack's estimate: what it would have guessed without scores, the ends of its 90 % intervals, and
# where cells most likely are.
WITHHELD, LOW, HIGH, DENSEST = "withheld: ", "low: ", "high: ", "densest: "
# What is judged besides each attack, in order.
_JUDGED = ("guesses without scores", "errors", "columns", "categories")


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
        within: share of cells off by 5 % of the column's usual range, or what is near it, at most.
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
        sessions: after how many sessions about these records.
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
    sessions: int = 1


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
class TrainedColumns:
    """What training told of columns of its records.

    Attributes:
        columns: the verdict on each; empty where no attack that listened has estimates.
        records: how many judge.
        control: how the shuffled copy came out, a sentence; empty without verdicts.
    """

    columns: tuple[SourceVerdict, ...] = ()
    records: int = 0
    control: str = ""


@dataclass(frozen=True)
class PredictionFindings:
    """What predictions gave away.

    Attributes:
        attacks: every attack that was mounted, baselines among them, in their order.
        baselines: every guess without scores that the attacks are measured against.
        columns: the verdict on each passive column.
        categories: the verdict on each column of few values and each one-hot encoded feature.
        auxiliary_records: number of complete records that the adversary is declared to hold.
        sources: the verdict on each column of the passive parties' own tables.
        records: number of judged records.
        distinct: number of those that differ from all others by more than rounding: so many are judged.
        limit: after how many sessions the verdicts hold; None where no auditor looked beyond the run's own.
        kept: as ``sources``, by the attacks into which no disclosed parameter entered: what is left where passive
            parties keep theirs. Empty where they did, and for runs that don't say which attacks those are.
        left_out: how many columns of each passive table became no feature, by party; only parties that left any out.
        trained: what training told of columns, where that is judged as predictions are.
    """

    attacks: tuple[AttackFinding, ...] = ()
    baselines: tuple[BaselineFinding, ...] = ()
    columns: tuple[ColumnVerdict, ...] = ()
    categories: tuple[CategoryVerdict, ...] = ()
    auxiliary_records: int = 0
    sources: tuple[SourceVerdict, ...] = ()
    records: int = 0
    distinct: int = 0
    limit: SessionLimit | None = None
    kept: tuple[SourceVerdict, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    trained: TrainedColumns = field(default_factory=TrainedColumns)

    @property
    def verdicts(self) -> tuple[SourceVerdict, ...]:
        """The verdict on each column by its worse light: of predicted records, or of those trained on."""
        return _worse_of(self.sources, self.trained.columns)

    @property
    def kept_verdicts(self) -> tuple[SourceVerdict, ...]:
        """The same where passive parties keep the parameters that they disclosed here."""
        return _worse_of(self.kept, self.trained.columns)

    @property
    def untried(self) -> tuple[str, ...]:
        """Say that nobody knows what predictions tell of columns, where training told some; else nothing."""
        is_measured = any(
            light_of_column(one) != "grey" or (at(one.levels).attack and not are_too_few(one.levels))
            for one in self.sources
        )
        is_untried = self.trained.columns and not is_measured
        return ("What predictions tell was not measured.",) if is_untried else ()


def _worse_of(sources: Sequence[SourceVerdict], trained: Sequence[SourceVerdict]) -> tuple[SourceVerdict, ...]:
    """Choose, column by column, the verdict with the worse light: of predicted records, or of those trained on."""
    by_column = {(one.party, one.column): one for one in trained}

    def chosen(verdict: SourceVerdict) -> SourceVerdict:
        other = by_column.get((verdict.party, verdict.column), verdict)
        light, other_light = light_of_column(verdict), light_of_column(other)
        return other if worst([light, other_light]) != light else verdict

    return tuple(map(chosen, sources)) or tuple(trained)


def read_prediction_findings(
    folder: RunFolder, passive_parties: Sequence[str], *, progress: Progress = silent
) -> PredictionFindings:
    """Score all attacks on predictions that ran; nothing when none was switched on.

    Args:
        folder: what the parties wrote.
        passive_parties: their names, in the agreement's order.
        progress: called with what is being judged, how much is done and of how much.

    Raises:
        RunFolderError: for a file that is missing or broken, and for estimates that don't fit the records.
    """
    outcomes = [outcome for outcome in folder.prediction_outcomes() if outcome.batch == 0]
    if not outcomes:
        return PredictionFindings()
    estimates = folder.estimates(0)
    if absent := [one.attack for one in outcomes if one.is_done and one.attack not in estimates.by_attack]:
        raise RunFolderError(f"{folder.path} has no estimates of {', '.join(absent)}: run it again, into a new folder.")
    truth = Truth(folder, passive_parties, estimates)
    for name, array in estimates.by_attack.items():
        if array.shape != truth.cells.shape:
            raise RunFolderError(
                f"{folder.path} has estimates of {name} of shape {array.shape}, and {truth.cells.shape} were attacked: "
                "run it again, into a new folder."
            )
    usable = [_without_unusable(outcome, estimates.by_attack) for outcome in outcomes]
    if not len(truth.cells):
        statuses: list[AttackStatus] = [NOT_APPLICABLE if one.is_done else one.status for one in usable]
        unjudged = [replace(one, status=status) for one, status in zip(usable, statuses, strict=True)]
        return PredictionFindings(tuple(map(_unscored, unjudged)))
    progress(_JUDGED[0], 0, len(_JUDGED) + len(usable))
    findings = judge_predictions(truth, usable, estimates.by_attack, truth.imputations(), progress)
    return replace(findings, limit=folder.session_limit())


def judge_predictions(
    truth: Truth,
    outcomes: Sequence[PredictionAttackOutcome],
    arrays: Mapping[str, FloatArray],
    imputed: Sequence[Predictor] = (),
    progress: Progress = silent,
) -> PredictionFindings:
    """Score attacks on records whose truth is known.

    Args:
        truth: of the attacked records.
        outcomes: how the attacks went.
        arrays: what they estimate, as ``Estimates`` has it.
        imputed: what complete records tell without scores, the truth's ``imputations``.
        progress: called with what is being judged, how much is done and of how much.
    """
    return _Judge(truth, outcomes, arrays, imputed, progress).findings()


def _without_unusable(outcome: PredictionAttackOutcome, arrays: Mapping[str, FloatArray]) -> PredictionAttackOutcome:
    """Fail an attack's outcome where its estimates hold what is no number."""
    # The square of what is larger is no number either.
    usable = np.abs(arrays[outcome.attack]) <= LARGEST_SHARE if outcome.is_done else np.True_
    if usable.all():
        return outcome
    broken = 1 - usable.mean()
    reason = (
        f"{outcome.attack} gave estimates that are no numbers, {percent(float(broken))} of them: it counts as failed"
    )
    return replace(outcome, status=FAILED, reason=reason)


def _unscored(outcome: PredictionAttackOutcome) -> AttackFinding:
    """Say what is known of an attack without its score."""
    return AttackFinding(
        attack=outcome.attack,
        status=outcome.status,
        reason=outcome.reason or "",
        records=outcome.records,
        seconds=outcome.seconds,
        level=level_of(outcome),
        sees_scores=sees_scores(outcome),
        notes=outcome.notes or (),
        sessions=outcome.sessions or 1,
    )


def level_of(outcome: PredictionAttackOutcome) -> Level:
    """Say what the adversary of an attack knew beforehand; older runs say it by the attack's name only."""
    return outcome.level or _spec_of(outcome).level


def sees_scores(outcome: PredictionAttackOutcome) -> bool:
    """Tell whether scores entered an attack; older runs say it by the attack's name only."""
    return _spec_of(outcome).sees_scores if outcome.sees_scores is None else outcome.sees_scores


def _spec_of(outcome: PredictionAttackOutcome) -> attacks.AttackSpec:
    try:
        return attacks.spec_of(outcome.attack.partition("(")[0])
    except ValueError:  # another package's, which isn't installed here, or broken: the least is assumed of it
        return attacks.AttackSpec(adversary="active", phase="prediction", needs=(), source="")


def predictors(
    done: Sequence[PredictionAttackOutcome], arrays: Mapping[str, FloatArray]
) -> tuple[list[Predictor], list[Predictor]]:
    """Say what attacks that were done take every cell for: where scores entered, and without, scores withheld too.

    Args:
        done: how they went.
        arrays: what they estimate, as ``Estimates`` has it.
    """

    def usable(name: str) -> FloatArray | None:
        array = arrays.get(name)
        return array if array is not None and np.isfinite(array).all() else None

    seeing, blind = list[Predictor](), list[Predictor]()
    for outcome in done:
        predictor = Predictor(
            outcome.attack, level_of(outcome), arrays[outcome.attack], usable(DENSEST + outcome.attack)
        )
        (seeing if sees_scores(outcome) else blind).append(predictor)
    for outcome in done:
        if (withheld := usable(WITHHELD + outcome.attack)) is not None:
            blind.append(Predictor(f"{outcome.attack}, scores withheld", level_of(outcome), withheld))
    return seeing, blind


class _Judge:
    """Scores every attack of one batch against every guess without scores."""

    def __init__(
        self,
        truth: Truth,
        outcomes: Sequence[PredictionAttackOutcome],
        arrays: Mapping[str, FloatArray],
        imputed: Sequence[Predictor],
        progress: Progress,
    ) -> None:
        self._truth, self._outcomes, self._arrays = truth, outcomes, arrays
        self._progress = progress
        done = [one for one in outcomes if one.is_done]
        self._attacks, self._score_free = predictors(done, arrays)
        self._score_free += [*truth.published(), *imputed]
        self._evidence = replace(
            Evidence.of(
                truth.cells,
                self._attacks,
                self._score_free,
                tolerance=truth.tolerance,
                near=truth.near,
                persons=truth.persons,
            ),
            of_sessions=frozenset(one.attack for one in done if one.sessions),
            logs={one.value: one.logs for one in truth.sources if one.logs is not None},
            known=truth.auxiliary_records or None,
        )
        self._told = {one.attack for one in done if one.sees_parameters}

    def _tell(self, what: str, done: int) -> None:
        self._progress(what, done, len(_JUDGED) + len(self._outcomes))

    def findings(self) -> PredictionFindings:
        """Find everything that a run tells of its predictions."""
        truth = self._truth
        self._tell(_JUDGED[1], 1)
        comparison = self._evidence.compared()
        scored = []
        for number, outcome in enumerate(self._outcomes, start=2):
            self._tell(outcome.attack, number)
            scored.append(self._scored(_unscored(outcome), comparison) if outcome.is_done else _unscored(outcome))
        result = PredictionFindings(
            attacks=tuple(scored),
            baselines=tuple(
                BaselineFinding(name, level, comparison.mean_losses(name)[0]) for name, level in comparison.score_free
            ),
            auxiliary_records=truth.auxiliary_records,
            records=len(truth.cells),
            distinct=truth.persons.count,
        )
        return self._with_verdicts(result)

    def _with_verdicts(self, findings: PredictionFindings) -> PredictionFindings:
        """Add the verdict on each feature, each category and each column of a passive table."""
        truth, evidence = self._truth, self._evidence
        self._tell(_JUDGED[2], 2 + len(self._outcomes))
        features = evidence.judged()
        self._tell(_JUDGED[3], 3 + len(self._outcomes))
        categories = list({id(one): one for one in (*truth.told_categories, *truth.categories)}.values())
        wrong = dict(zip(map(id, categories), evidence.wrong_names(categories), strict=True))
        sources, keeping = self._sources(features, wrong), list[JudgedSource]()
        if self._told:
            without = replace(evidence, attacks=tuple(one for one in evidence.attacks if one.name not in self._told))
            named = dict(zip(map(id, truth.told_categories), without.wrong_names(truth.told_categories), strict=True))
            keeping = self._sources(without.judged(), named)
        both = verdicts_of([*sources, *keeping])
        named_wrongly = beside_each_other([(id(one), wrong[id(one)]) for one in truth.categories])
        return replace(
            findings,
            columns=evidence.column_verdicts(truth.names, truth.owners, features),
            categories=tuple(
                CategoryVerdict(
                    truth.owners[one.columns[0]],
                    tuple(truth.names[column] for column in one.columns),
                    one.count,
                    judged.levels,
                )
                for one, judged in zip(truth.categories, named_wrongly, strict=True)
            ),
            sources=tuple(map(no_less_than, both, both[len(sources) :])) if keeping else both,
            kept=both[len(sources) :],
            left_out=truth.left_out,
        )

    def _sources(self, features: JudgedFeatures, wrong: Mapping[int, Judged]) -> list[JudgedSource]:
        """Judge columns of the passive tables; ``wrong``: how often categories are named wrongly, by their id."""
        return [
            judged_source(one, features, wrong.get(id(one.category)), wrong.get(id(one.missing)))
            for one in self._truth.sources
        ]

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
        return tuple(
            ColumnLeakage(
                party=truth.owners[index],
                column=truth.names[index],
                mse=error,
                half=mse_per_feature(cells, np.full_like(cells, 0.5)),
                zero=mse_per_feature(cells, np.zeros_like(cells)),
                correlation=float(truth.correlation[index]),
                entropy=truth.entropies[index],
                remaining_entropy=truth.remaining_entropy(index, estimate[:, index]),
                r_squared=None if np.isnan(explained[index]) else float(explained[index]),
                within=float(within[index]),
                coverage=None if coverage is None else float(coverage[index]),
                levels=levels[index],
            )
            for index, (error, cells) in enumerate(zip(errors, truth.cells.T, strict=True))
        )

    def _levels(self, finding: AttackFinding, comparison: Comparison) -> list[tuple[LevelVerdict, ...]]:
        """Say what the attack adds at its level and at those above, column by column; nothing for a baseline."""
        columns = range(self._truth.cells.shape[1])
        if not finding.sees_scores:
            return [() for _ in columns]
        tables = [comparison.at(level) for level in LEVELS[LEVELS.index(finding.level) :]]
        return [tuple(table.verdict(finding.attack, column) for table in tables) for column in columns]

    def _coverage(self, attack: str) -> FloatArray | None:
        low, high = self._arrays.get(LOW + attack), self._arrays.get(HIGH + attack)
        return None if low is None or high is None else covered(self._truth.cells, low, high)


def _correlation(first: FloatArray, second: FloatArray) -> float:
    if len(first) < 2 or first.std() == 0 or second.std() == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])
