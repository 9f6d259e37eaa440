"""Networks trained in the federation, rung by rung: what each way back of the gradients gives away, at what accuracy.

Jiang attacks networks whose parts were trained in one place. Here the first layer is split by party and trained in the
federation; the label party's signal comes back in the clear (``plain``), under its key (``paillier``), or as shares.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

import attacks
from attacks import PredictionView, ViewError
from attacks.training.label_completion import own_classifier
from attacks.training.network_views import network_view
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_views import KnownRecords, TrainingView
from plumbline.judge.measures import mse_per_feature
from studies.jiang.inversion.inversion_plots import plots_of
from studies.jiang.inversion.inversion_setting import Grid, measured, usable
from studies.measurements import DataChoice, TaskMeasurement
from studies.measurements.measuring import NotApplicable
from studies.page.plots import Curve, Panel
from studies.page.section import Section
from studies.simulation.scaled_tables import ScaledTable
from studies.study import StudyRun
from vfl.arrays import FloatArray, IntArray
from vfl.data import column_blocks
from vfl.learning import BatchSchedule, VerticalData
from vfl.learning.confidence import unit_rows, unit_scores
from vfl.learning.network import Network, ReferenceTraining, train_network
from vfl.learning.score_quality import accuracy, area_under_curve

RUNGS = ("plain", "paillier", "shared")
# Attacks on labels by the passive party, and how many labels each knows; on features by the label party.
ON_LABELS: Mapping[str, int] = {"gradient_direction": 1, "batch_inversion": 40, "own_part": 40}
IN_TRAINING, ON_SUMS = "hidden_space", ("gia", "half_star", "ls")
MODEL, GUESS = "model", "own columns alone"
_HERE = "studies.jiang.ladder"
_UNITS, _EPOCHS, _BATCH, _RECORDS = 16, 10, 64, 100


@dataclass(frozen=True, eq=False)
class Trained:
    """A network of two parties, trained in one place by the halves that services run.

    Attributes:
        data: that it was trained on, the label party's block first.
        held_out: the same blocks of other records, and their labels.
        run: the training.
        schedule: its batches.
    """

    data: VerticalData
    held_out: VerticalData
    run: ReferenceTraining
    schedule: BatchSchedule


def told(shared: ScaledTable, *, rung: str, attack: str, seed: int, steps: int) -> dict[str, Any]:
    """Measure what one attack tells on a rung, or the ``model`` itself.

    Returns:
        ``accuracy`` and ``auc`` of the model on held-out records; ``label_auc`` of an attack on labels; ``left`` of an
        attack on features: its squared error over that of the columns' means.

    Raises:
        NotApplicable: where the rung shows nothing that it could be mounted on.
    """
    trained = _trained(shared, seed)
    if attack == MODEL:
        scores, labels = trained.run.scores(trained.held_out.blocks), trained.held_out.labels
        return {"accuracy": accuracy(scores, labels), "auc": area_under_curve(scores, labels)}
    if attack == GUESS:
        return {"label_auc": _guessed_auc(trained)}
    try:
        if attack in ON_LABELS:
            return {"label_auc": _label_auc(trained, rung, attack)}
        if attack == IN_TRAINING:
            return {"left": _left_in_training(trained)}
        return {"left": _left_of_sums(trained, rung, attack, steps)}
    except ViewError as error:
        raise NotApplicable(str(error)) from error


@lru_cache(maxsize=2)
def _trained(table: ScaledTable, seed: int) -> Trained:
    active, passive = column_blocks(table.features.shape[1], 2)
    kept, others = train_test_split(np.arange(len(table.labels)), test_size=0.2, random_state=seed)
    data, held_out = (
        VerticalData(
            [np.column_stack([table.features[rows][:, active], np.ones(len(rows))]), table.features[rows][:, passive]],
            table.labels[rows],
            len(table.class_names),
        )
        for rows in (kept, others)
    )
    schedule = BatchSchedule(np.arange(len(kept)), min(_BATCH, len(kept)), seed, reshuffled=True)
    generators = [np.random.default_rng([seed, party]) for party in range(2)]
    return Trained(
        data, held_out, train_network(Network(_UNITS), data, schedule, epochs=_EPOCHS, generators=generators), schedule
    )


def _view(trained: Trained, rung: str, party: int) -> TrainingView:
    learner = Network(_UNITS, backward=rung)  # type: ignore[arg-type]
    return network_view(trained.run, learner, trained.data, party, trained.schedule)


def _label_auc(trained: Trained, rung: str, attack: str) -> float:
    """How well a passive party puts records into the order of their labels. Raises ViewError where it is told none."""
    labels, count = trained.data.labels, ON_LABELS[attack]
    known: IntArray = np.full(len(labels), UNRESOLVED)
    known[:count] = labels[:count]
    mounted: Any = attacks.load_training(attack)
    found = mounted.attack(replace(_view(trained, rung, 1), known_labels=known))
    if found.reason:
        raise ViewError(found.reason)
    rows = np.setdiff1d(found.rows, np.arange(count))
    return area_under_curve(found.probabilities[rows], labels[rows])


def _guessed_auc(trained: Trained) -> float:
    """Likewise by a classifier of its own columns, from as many known labels."""
    count, labels, own = max(ON_LABELS.values()), trained.data.labels, trained.data.blocks[1]
    classifier = own_classifier().fit(own[:count], labels[:count])
    return area_under_curve(classifier.predict_proba(own[count:]), labels[count:])


def _left_in_training(trained: Trained) -> float:
    """What is left of the columns' variance to a label party that knows some training records in full."""
    truth, rows = trained.data.blocks[1], np.arange(_RECORDS)
    mounted: Any = attacks.load_training(IN_TRAINING)
    view = replace(_view(trained, "plain", 0), known_records=KnownRecords(rows, truth[rows]))
    found = mounted.attack(view)
    return _relative(found.values["party-1"], truth[found.rows])


def _left_of_sums(trained: Trained, rung: str, attack: str, steps: int) -> float:
    """Likewise of records that are predicted, to a label party that is told the passive party's weights.

    Raises ViewError on the shared rung, where nobody has weights to tell.
    """
    own, other = trained.run.parts
    features, truth = (block[:_RECORDS] for block in trained.held_out.blocks)
    units = unit_rows(own.weights)
    view = PredictionView(
        features_active=features[:, :-1],
        scores=unit_scores(own.shares(features) + other.shares(truth)),
        weights_active=units[:, :-1],
        bias=units[:, -1],
        passive_features=truth.shape[1],
        weights_passive=None if rung == "shared" else unit_rows(other.weights),
    )
    options: dict[str, Any] = {"steps": steps} if attack == "gia" else {}
    return _relative(attacks.load_prediction(attack, **options).reconstruct(view), truth)


def _relative(estimate: FloatArray, truth: FloatArray) -> float:
    mean = np.broadcast_to(truth.mean(axis=0), truth.shape)
    return mse_per_feature(truth, estimate) / mse_per_feature(truth, mean)


_FULL = Grid(("breast_cancer", "bank", "adult", "credit"), ratios=(0.5,), seeds=3, rows=4_000)
_QUICK = Grid(("breast_cancer",), ratios=(0.5,), seeds=1)
_QUICK_STEPS, _STEPS = 300, 2_000


def ladder(run: StudyRun, grid: Grid | None = None) -> Section:
    """Measure every rung by every attack."""
    grid, skipped = usable(run, grid or (_QUICK if run.quick else _FULL))
    steps = _QUICK_STEPS if run.quick else _STEPS
    planned = [
        (
            {"dataset": name, "rung": rung, "place": number, "curve": attack, "seed": seed},
            TaskMeasurement.of(
                f"{_HERE}:told", DataChoice(name, grid.rows), rung=rung, attack=attack, seed=seed, steps=steps
            ),
        )
        for name in grid.datasets
        for seed in range(run.seed, run.seed + grid.seeds)
        for number, rung in enumerate(RUNGS, start=1)
        for attack in (MODEL, *ON_LABELS, GUESS, IN_TRAINING, *ON_SUMS)
    ]
    results = measured(run, planned).reindex(columns=[*_COLUMNS])
    panels = tuple(_panel(results, name, measure) for name in grid.datasets for measure in _MEASURES)
    return Section(
        name="ladder",
        title="Networks trained in the federation: the gradients in the clear, encrypted, or shared",
        data=results,
        summary=_table(results),
        plots=plots_of("ladder", panels, _CAPTION),
        notes=(
            f"One layer of {_UNITS} tanh units, split by party, and the label party's own above it; {_EPOCHS} epochs "
            f"in batches of {_BATCH}, {grid.seeds} splits, half of the columns each.",
            "SIMULATION: a network is trained once for all rungs, in one place, by the halves that services run; so no "
            "accuracy differs. `plumbline audit --learner network --backward plain,paillier,shared` trains each rung "
            "in services.",
            "Labels: the area under the ROC curve of the passive party's order of training records, of which it knows "
            f"{max(ON_LABELS.values())} labels ({ON_LABELS['gradient_direction']} for gradient_direction).",
            f"Features: {IN_TRAINING} is a label party that knows {_RECORDS} training records in full, on any rung, as "
            "each forwards the layer. gia (Jiang), half_star and ls (Rassouli) have the sums of a prediction and the "
            "passive party's weights, if it discloses them.",
            "Where a curve has no point, the rung shows nothing that the attack could be mounted on: the data say why.",
            "Jiang's Figures 7, 9 and 10 stay trained in one place: his networks have layers of each party's own "
            "before parts are added, and no rung trains these.",
            *skipped,
        ),
    )


_COLUMNS = ("dataset", "rung", "place", "curve", "seed", "accuracy", "auc", "label_auc", "left", "status", "reason")
_MEASURES = {"auc": "test AUC", "label_auc": "AUC of training labels", "left": "error over that of means"}
_CAPTION = (
    "Rungs from left to right: plain, paillier, shared. The model; what a passive party tells of training labels; and "
    "what is left unknown of the passive columns to the label party."
)


def _panel(results: pd.DataFrame, name: str, measure: str) -> Panel:
    rows = results[(results["dataset"] == name) & results[measure].notna()]
    means = rows.groupby(["curve", "place"], sort=False)[measure].mean()
    curves = tuple(
        Curve(str(curve), tuple(map(float, one.index.get_level_values("place"))), tuple(map(float, one)), ours=True)
        for curve, one in means.groupby(level="curve", sort=False)
    )
    marks = tuple((float(number), rung) for number, rung in enumerate(RUNGS, start=1))
    return Panel(f"{name}: {_MEASURES[measure]}", "rung", _MEASURES[measure], curves, marks=marks)


def _table(results: pd.DataFrame) -> pd.DataFrame:
    """Means over splits: a row for each data set and attack, a column for each rung."""
    done = results[results["status"] == "done"]
    if done.empty:
        return pd.DataFrame(columns=["dataset", "what", *RUNGS])
    longer = done.melt(["dataset", "curve", "rung"], list(_MEASURES), "measure").dropna(subset="value")
    longer["what"] = longer["curve"] + ": " + longer["measure"].map(_MEASURES)
    means = longer.groupby(["dataset", "what", "rung"], sort=False)["value"].mean().unstack("rung")
    table = (
        means.reindex(columns=list(RUNGS)).map(lambda value: "" if np.isnan(value) else f"{value:.3f}").reset_index()
    )
    return table.rename_axis(columns=None)
