"""Skewed columns are learned on the log scale that they are judged on besides, with and without what was received.

A mean of such cells is far from most of them: who learns it is worse there, on either side, than who learns their
logs. Boosted trees add up what many columns tell a little each, such as leaf numbers, which forests of them don't.
"""

from collections.abc import Sequence

import numpy as np
from threadpoolctl import threadpool_limits

import attacks
from attacks import AuxiliaryRows, PredictionView
from attacks.registry import LEARNED
from plumbline.judge.evidence import Predictor
from plumbline.judge.truth import Truth

# Added to the name of the regression.
OF_LOGS = " of logs"


def guesses(truth: Truth) -> list[Predictor]:
    """Impute the judged records without what was received, skewed columns by their logs as well."""
    plain = truth.imputations()
    return [*plain, *learned_on_logs(truth, truth.own_view(), plain)]


def learned_on_logs(truth: Truth, view: PredictionView, plain: Sequence[Predictor]) -> list[Predictor]:
    """Learn the skewed columns by boosted trees on their log scales; others stay as a regression has them.

    Args:
        truth: of the judged records.
        view: of these and of the known ones; no score in it is looked at.
        plain: what imputations of the same view are, of which the last is the regression of the most records.

    Returns:
        One predictor more; none where nothing is skewed, or nothing known.
    """
    scales = {one.value: one.logs for one in truth.sources if one.logs is not None}
    known_rows = view.auxiliary
    if not (scales and plain and known_rows is not None):
        return []
    cells = known_rows.features_passive
    targets = np.column_stack([scale.of(cells[:, column]) for column, scale in scales.items()])
    log_view = PredictionView(
        features_active=view.features_active,
        record_labels=view.record_labels,
        passive_features=len(scales),
        auxiliary=AuxiliaryRows(known_rows.features_active, targets, np.empty((len(targets), 0)), known_rows.labels),
    )
    with threadpool_limits(1):
        log_estimate = attacks.load(LEARNED, model="boosting").guess(log_view).estimate
    estimate = plain[-1].estimate.copy()
    for (column, scale), places in zip(scales.items(), log_estimate.T, strict=True):
        estimate[:, column] = scale.cells_at(places)
    return [Predictor(plain[-1].name.replace(LEARNED, LEARNED + OF_LOGS), plain[-1].level, estimate)]
