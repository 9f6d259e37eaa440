"""Columns of the records that were trained on, judged by what training told, as columns of predicted ones are.

A session of boosted trees tells most of columns while it trains. Estimates by attacks that listened stand beside the
same guesses as those of attacks on predictions, level by level. The control is a shuffled copy: every record has what
was told of another one. A column of which that tells a tenth beyond chance isn't shown to be told.
"""

from collections.abc import Sequence
from functools import reduce

import numpy as np

from attacks import LEVELS, Level, spec_of
from plumbline.judge.evidence import SourceVerdict
from plumbline.judge.lights import are_too_few
from plumbline.judge.predictions import TrainedColumns, judge_predictions
from plumbline.judge.training import TrainingFinding
from plumbline.judge.truth import Truth
from plumbline.telling.numbers import percent
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, Estimates, FoundValues, PredictionAttackOutcome
from vfl.arrays import FloatArray, IntArray


def read_trained_columns(
    folder: RunFolder, passive_parties: Sequence[str], training: Sequence[TrainingFinding]
) -> TrainedColumns:
    """Judge what a session that reaches leaves told of columns while it trained.

    Args:
        folder: what the parties wrote.
        passive_parties: their names, in the agreement's order.
        training: what attacks on training found.

    Raises:
        RunFolderError: for a file that is missing or broken.
    """
    estimating = [one for one in training if _is_read(one)]
    if not estimating:
        return TrainedColumns()
    values = {one.attack: folder.found_values(one.party, one.attack) for one in estimating}
    rows = reduce(np.intersect1d, [_rows(one) for some in values.values() for one in some.values()])
    is_attacked = any(one.batch == 0 for one in folder.prediction_outcomes())
    known_rows = folder.estimates(0).auxiliary_rows if is_attacked else None
    rows = rows if known_rows is None else np.setdiff1d(rows, known_rows)
    arrays = {
        attack: np.hstack([_of_rows(some[party], rows) for party in passive_parties]) for attack, some in values.items()
    }
    truth = Truth(folder, passive_parties, Estimates(rows, arrays, known_rows))
    outcomes = [_outcome(one, len(rows)) for one in estimating]
    imputed, order = truth.imputations(), np.random.default_rng(0).permutation(len(rows))
    verdicts, shuffled = (
        judge_predictions(truth, outcomes, some, imputed).sources
        for some in (arrays, {attack: array[order] for attack, array in arrays.items()})
    )
    failed = {(one.party, one.column) for one in shuffled if one.is_exposed()}
    columns = tuple(one for one in verdicts if (one.party, one.column) not in failed)
    return TrainedColumns(columns, len(rows), _control_words(shuffled, len(failed)))


def _is_read(finding: TrainingFinding) -> bool:
    """Tell whether an attack that listened to trees has estimates of its own session's records."""
    if finding.kind != "estimates" or finding.has_own_session or not finding.is_scored:
        return False
    try:
        spec = spec_of(finding.attack.partition("(")[0])
    except (ImportError, ValueError):
        return False
    return spec.conduct == "listens" and spec.learners == ("boosted_trees",)


def _rows(estimates: FoundValues) -> IntArray:
    return np.arange(len(estimates.values)) if estimates.rows is None else estimates.rows


def _of_rows(estimates: FoundValues, rows: IntArray) -> FloatArray:
    there = _rows(estimates)
    order = np.argsort(there)
    return estimates.values[order[np.searchsorted(there[order], rows)]]


def _outcome(finding: TrainingFinding, records: int) -> PredictionAttackOutcome:
    """Say of an attack on training what the judge of predictions asks: what it knows beforehand is in its label."""
    level: Level = next(
        (one for one in LEVELS if f"prior={one}" in finding.attack), spec_of(finding.attack.partition("(")[0]).level
    )
    return PredictionAttackOutcome(
        attack=finding.attack,
        batch=0,
        records=records,
        status=DONE,
        level=level,
        sees_scores=True,
        sees_parameters=False,
        seconds=finding.seconds,
    )


def _control_words(shuffled: Sequence[SourceVerdict], failed: int) -> str:
    parts = [
        level.part.mean
        for one in shuffled
        for levels in one.measures
        if not are_too_few(levels)
        for level in levels
        if level.level == one.headline and level.part is not None
    ]
    most = percent(max(parts, default=0.0))
    return f"A shuffled copy of what training told tells {failed} of {len(shuffled)} columns, {most} at most."
