"""The adversaries of a judge of received columns: models that guess without them, with them, and with shuffled ones.

What they estimate lies in the run's folder as an audit's attacks leave it: the first batch is of what was received, the
second of the control.
"""

import time
from collections.abc import Iterator

import numpy as np

from attacks import PassiveMoments, PredictionView, Reconstruction
from attacks.prediction.received_columns import (
    Tried,
    label_directions,
    label_order,
    leaf_neighbours,
    linear_weights,
    loss_threshold,
    posteriors,
    without_own_share,
)
from attacks.registry import FROM_RECORDS, LEARNED
from plumbline.judge.columns import Category
from plumbline.judge.evidence import imputations
from plumbline.judge.predictions import DENSEST
from plumbline.judge.truth import Truth
from plumbline.received.judge_request import SECRET
from plumbline.received.received_tables import ReceivedRecords
from plumbline.received.skewed_columns import OF_LOGS, learned_on_logs
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, Estimates, PredictionAttackOutcome
from vfl.arrays import FloatArray, IntArray

# Batches of a run's folder.
RECEIVED_BATCH, SHUFFLED_BATCH = 0, 1


def mount(folder: RunFolder, records: ReceivedRecords, seed: int) -> None:
    """Estimate the secret columns of the judged records from what was received of them, and from a shuffled copy.

    In the copy every record has what was received of another one at random, known records as well.

    Args:
        folder: of the run, in which the features are.
        records: of the three tables.
        seed: draws the copy.

    Raises:
        RunFolderError: where the folder's files are missing or broken.
    """
    truth = Truth(folder, [SECRET], Estimates(records.judged, {}, records.known))
    rows = np.arange(len(records.received))
    weights = _weights(truth, records)
    outcomes = list[PredictionAttackOutcome]()
    for batch, order in (
        (RECEIVED_BATCH, rows),
        (SHUFFLED_BATCH, np.random.default_rng([seed, SHUFFLED_BATCH]).permutation(rows)),
    ):
        outcomes += mounted(folder, truth, records, (batch, order), weights)
    folder.write_prediction_outcomes(outcomes)


def _weights(truth: Truth, records: ReceivedRecords) -> FloatArray:
    """Find how received columns follow from all others: as all records have it of a model that the receiver was given.

    Else as its known records teach. The control is read by the same weights.
    """
    rows = np.arange(len(records.received)) if records.is_model_told else records.known
    features = truth.of_others(rows).own_view().features_active
    return linear_weights(features, records.secret.features[rows], records.received[rows])


def mounted(
    folder: RunFolder,
    truth: Truth,
    records: ReceivedRecords,
    copy: tuple[int, IntArray],
    weights: FloatArray | None = None,
) -> list[PredictionAttackOutcome]:
    """Estimate what a copy of what was received tells, and write it as a batch of the folder.

    Args:
        folder: of the run, in which the features are.
        truth: of the judged records.
        records: of the three tables.
        copy: the batch, and whose part each record has.
        weights: of what was received, as they are for its first copy; by default they are sought.
    """
    batch, order = copy
    view, begun = truth.own_view(records.received[order]), time.perf_counter()
    taught = _weights(truth, records) if weights is None else weights
    tried = [*_regressions(truth, view, taught), *_others(truth, view, records, order, taught)]
    arrays = {one.attack: one.found.estimate for one in tried}
    arrays |= {DENSEST + one.attack: one.found.densest for one in tried if one.found.densest is not None}
    folder.write_estimates(batch, truth.estimates(arrays))
    seconds = (time.perf_counter() - begun) / max(1, len(tried))
    return [
        PredictionAttackOutcome(
            attack=one.attack,
            batch=batch,
            records=view.n,
            status=DONE,
            level=one.level,
            sees_scores=True,
            sees_parameters=False,
            seconds=seconds,
            notes=one.found.notes,
        )
        for one in tried
    ]


def _regressions(truth: Truth, view: PredictionView, weights: FloatArray) -> Iterator[Tried]:
    """Learn by the very models that judge without what was received: what another would add is no part of it."""
    joint_view = without_own_share(view, weights).with_received_as_own()
    predictors = imputations(joint_view, truth.groups, counts=())
    predictors += learned_on_logs(truth, joint_view, predictors)
    for name, predictor in zip((FROM_RECORDS, LEARNED, LEARNED + OF_LOGS), predictors, strict=False):
        yield Tried(f"{name}(received)", predictor.level, Reconstruction(predictor.estimate, densest=predictor.densest))


def _others(
    truth: Truth, view: PredictionView, records: ReceivedRecords, order: IntArray, weights: FloatArray
) -> Iterator[Tried]:
    """Try what knows what was received is."""
    secret = records.secret.features
    moments = PassiveMoments(secret.mean(axis=0), secret.var(axis=0))
    yield from posteriors(view, truth.groups, weights, moments, is_told=records.is_model_told)
    known_rows, judged_rows, leaves = order[records.known], order[records.judged], records.leaves
    yield from leaf_neighbours(view, leaves[known_rows], leaves[judged_rows])
    yield from _thresholds(truth, records, order)
    label = next((one.category for one in truth.sources if one.name == records.facts.label), None)
    if label is None:
        return
    theirs = label.symbols(secret[records.known])
    for guess, received in ((label_directions, records.gradients), (label_order, leaves)):
        if received.shape[1]:
            for guesses in guess(view, theirs, label.count, received[known_rows], received[judged_rows]):
                yield Tried(guesses.attack, guesses.level, _named(label, guesses.probabilities, view.d))


def _thresholds(truth: Truth, records: ReceivedRecords, order: IntArray) -> Iterator[Tried]:
    """Tell who was trained on by how sure scores are of the receiver's labels; other columns are guessed 1/2."""
    labels = records.own.labels
    if labels is None or not (records.facts.trained and records.labelled and records.scores.shape[1]):
        return
    (column,) = next(one.features for one in truth.sources if one.name == records.facts.trained)
    memberships = records.secret.features[records.known, column]
    estimate = np.full(truth.cells.shape, 0.5)
    share = float(memberships.mean()) if len(memberships) else 0.5
    estimate[:, column] = loss_threshold(records.scores[order[records.judged]], labels[records.judged], share)
    yield Tried("threshold(received)", "records" if len(memberships) else "nothing", Reconstruction(estimate))


def _named(label: Category, believed: FloatArray, columns: int) -> Reconstruction:
    """Write (n, k) beliefs of a label's classes as the columns that it is; of all others the middle of their range."""
    estimate = np.full((len(believed), columns), 0.5)
    if len(label.columns) > 1:
        estimate[:, label.columns] = believed[:, : len(label.columns)] * label.values[0]
        return Reconstruction(estimate)
    column, values = label.columns[0], label.values[:, 0]
    estimate[:, column] = believed @ values
    densest = estimate.copy()
    densest[:, column] = values[believed.argmax(axis=1)]
    return Reconstruction(estimate, densest=densest)
