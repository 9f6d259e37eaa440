"""The measurements behind Hu, appendices E and F: trainings with other expansions of the sigmoid, and attacks on them.

SIMULATION. A cubic and a piecewise line leave no shares that parties could add under encryption. They are trained in
one place, and the attacks get f from the oracle of section 2.2, as the appendices assume (s <= d).
"""

from typing import Any, Literal

import numpy as np

from attacks.training.feature_order import FeatureOrder
from attacks.training_views import simulated_view
from studies.hu.experiments import INITIALISATIONS
from studies.hu.trainings import Prepared, prepared
from studies.simulation.affine_expansions import TAYLOR_SLOPE, AffineExpansion, cross_term, minimax_line
from studies.simulation.error_theory import exact_epochs
from studies.simulation.records import LoadedTable, Scaling, records_of, scaled_features
from studies.simulation.side_by_side import LEARNING_RATE, MEASURES, Starts, Watch, train_side_by_side
from vfl.arrays import FloatArray, IntArray
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, initial_weights
from vfl.theory.training import Approximation, guaranteed_steps, simulate_oracle

Expansion = Literal["taylor", "minimax line", "minimax cubic", "piecewise"]
EXPANSIONS: tuple[Expansion, ...] = ("taylor", "minimax line", "minimax cubic", "piecewise")
# How each is trained: a line as the first order in other units, the rest by their own residuals.
_RESIDUALS: dict[Expansion, Approximation] = {
    "taylor": "first_order",
    "minimax line": "first_order",
    "minimax cubic": "minimax",
    "piecewise": "piecewise",
}
# Beyond these the cubic tells one product from others (Hu E.1): twice its turning point.
UNIQUE_FROM = 2 * float(np.sqrt(0.197 / 0.012))
_FEATURE_STREAM = 0x4658
# A norm of weights that no training of these comes near to unless it diverges.
_DIVERGED = 1e6
# Of a feature attack: rows, the rest of a table's columns are the active party's.
_FEATURE_BATCH, _FEATURE_BATCHES, _FEATURE_RATE, _EXACT = 16, 8, 0.05, 1e-4
# Of the piecewise line, which leaves saturated records out of each epoch.
_MORE_EPOCHS = 3


def line_of(expansion: Expansion) -> AffineExpansion:
    """The units in which an expansion is trained: 1 for all but the minimax line."""
    return minimax_line() if expansion == "minimax line" else AffineExpansion(TAYLOR_SLOPE)


class _SignWatch:
    """Watches trainings of one expansion: what f tells by its sign, and what keeps it from being a sum of shares."""

    def __init__(self, ready: Prepared, approximation: Approximation, columns: int) -> None:
        self._ready, self._approximation = ready, approximation
        self._told = np.zeros((len(ready.labels), columns), dtype=np.bool_)
        self.epochs: dict[str, list[list[float]]] = {
            name: [] for name in ("answered", "right_of_answered", "told_so_far", "cross_share", "largest_product")
        }
        self._reset()

    def _reset(self) -> None:
        shape = self._told.shape[1]
        self._answered, self._right = np.zeros(shape), np.zeros(shape)
        self._cross, self._size, self._largest = np.zeros(shape), np.zeros(shape), np.zeros(shape)

    def observe(self, rows: IntArray, residual: FloatArray, seen: FloatArray, theta: FloatArray) -> None:
        """Look at one step; see ``train_side_by_side``."""
        labels, active = self._ready.labels[rows], self._ready.active
        batch = self._ready.features[rows]
        answered = seen != 0
        right = answered & ((seen < 0) == (labels[:, None] == 1))
        self._told[rows] |= right
        self._answered += answered.sum(axis=0)
        self._right += right.sum(axis=0)
        own, others = batch[:, ~active] @ theta[~active], batch[:, active] @ theta[active]
        self._largest = np.maximum(self._largest, np.abs(own + others).max(axis=0))
        crossed = np.hstack(
            [
                cross_term(self._approximation, own[:, [column]], others[:, [column]], labels)
                for column in range(own.shape[1])
            ]
        )
        self._cross += (crossed**2).sum(axis=0)
        self._size += (residual**2).sum(axis=0)

    def end_epoch(self) -> None:
        """Keep what an epoch told."""
        train = self._ready.schedule.train_rows
        values = {
            "answered": self._answered / len(train),
            "right_of_answered": self._right / np.maximum(self._answered, 1),
            "told_so_far": self._told[train].mean(axis=0),
            "cross_share": np.sqrt(self._cross / np.maximum(self._size, np.finfo(np.float64).tiny)),
            "largest_product": self._largest,
        }
        for name, value in values.items():
            self.epochs[name].append(value.tolist())
        self._reset()


def expanded(
    table: LoadedTable, *, expansion: Expansion, scaling: Scaling, seed: int, epochs: int
) -> dict[str, list[Any]]:
    """Train with one expansion from each initialisation, and attack the labels by the sign of f at each step.

    Returns:
        lists with an entry per initialisation and epoch: initialisation, epoch, each of ``MEASURES``; answered, the
        share of the epoch's rows whose f isn't 0; right_of_answered; told_so_far, the share of rows that some step has
        told rightly; cross_share, the root mean square of what keeps f from being a sum of shares over that of f;
        largest_product, max |theta^T x|. All are NaN once weights have grown beyond any use. An entry per
        initialisation: guaranteed_steps (-1 where theory has no limit)
        and first_wrong_step (-1 for none).
    """
    ready, line = prepared(records_of(table), scaling, seed), line_of(expansion)
    approximation = _RESIDUALS[expansion]
    watch = _SignWatch(ready, approximation, len(INITIALISATIONS))
    limits = [_limit(expansion, ready.initial_bound(kind), ready.squared_norm) for kind in INITIALISATIONS]
    starts = Starts(
        line.unit * np.hstack([ready.start(kind) for kind in INITIALISATIONS]),
        np.maximum(limits, 0),
        (approximation,) * len(INITIALISATIONS),
    )
    # Far outside its interval a cubic turns round, and weights grow without end.
    with np.errstate(over="ignore", invalid="ignore"):
        trained = train_side_by_side(
            ready.features,
            ready.labels,
            starts,
            ready.descent(epochs, line.unit * LEARNING_RATE),
            test=ready.test,
            watch=Watch(step=watch.observe, epoch=watch.end_epoch),
        )
    by_epoch = {measure: getattr(trained, measure) for measure in MEASURES}
    by_epoch |= {name: np.array(values) for name, values in watch.epochs.items()}
    diverged = ~(by_epoch["theta_norm"] < _DIVERGED)
    by_epoch = {name: np.where(diverged, np.nan, values) for name, values in by_epoch.items()}
    for name in ("theta_norm", "largest_product"):
        by_epoch[name] = by_epoch[name] / line.unit
    return {
        "initialisation": np.repeat(INITIALISATIONS, epochs).tolist(),
        "epoch": list(range(1, epochs + 1)) * len(INITIALISATIONS),
        **{name: values.T.ravel().tolist() for name, values in by_epoch.items()},
        "guaranteed_steps": limits,
        "first_wrong_step": trained.first_wrong_step.tolist(),
    }


def _limit(expansion: Expansion, epsilon: float, squared_norm: float) -> int:
    """T_eps of an expansion; -1 for piecewise, whose every f tells by itself."""
    if expansion == "piecewise":
        return -1
    if expansion == "minimax cubic":
        return guaranteed_steps(LEARNING_RATE, epsilon, approximation="minimax", squared_norm=squared_norm)
    return line_of(expansion).steps(LEARNING_RATE, epsilon, squared_norm=squared_norm)


def single_feature(table: LoadedTable, *, approximation: Approximation, scaling: Scaling, seed: int) -> dict[str, Any]:
    """Mount the active party's attack on a passive party of one feature, the table's last (Theorems 3.5, E.2, F.1).

    Returns:
        epochs (max(Q, 2)), batches, rows, exact (share of values right to 1e-4 of the largest, up to one sign),
        resolved (share of rows that were given a value), sortable (whether all rows got into one order), reason (why
        not all values followed).
    """
    records = records_of(table)
    train, _ = records.rows_of(seed)
    chosen = np.random.default_rng((_FEATURE_STREAM, seed)).permutation(train)[: _FEATURE_BATCH * _FEATURE_BATCHES]
    features = scaled_features(records, scaling, train)[chosen]
    blocks = [np.hstack([features[:, :-1], np.ones((len(chosen), 1))]), features[:, -1:]]
    schedule = BatchSchedule(np.arange(len(chosen)), _FEATURE_BATCH, seed)
    epochs = exact_epochs(schedule.steps_per_epoch) * (_MORE_EPOCHS if approximation == "piecewise" else 1)
    width = sum(block.shape[1] for block in blocks)
    generator = np.random.default_rng((_FEATURE_STREAM, seed, 1))
    start = [
        initial_weights("xavier", block.shape[1], 1, total_features=width, generator=generator) for block in blocks
    ]
    run = simulate_oracle(
        VerticalData(blocks, records.labels[chosen]),
        start,
        GradientDescent(schedule, epochs=epochs, learning_rate=_FEATURE_RATE),
        approximation=approximation,
    )
    view = simulated_view(run, 0, initialisation="xavier", label_party_bias=True)
    found, truth = FeatureOrder().attack(view).features["party-1"], features[:, -1]
    errors = [np.abs(sign * found.values - truth) for sign in (1, -1)]
    return {
        "epochs": epochs,
        "batches": schedule.steps_per_epoch,
        "rows": len(chosen),
        "exact": max(float((error <= _EXACT * np.abs(truth).max()).mean()) for error in errors),
        "resolved": float(np.isfinite(found.values).mean()),
        "sortable": found.sortable,
        "reason": found.reason,
    }
