"""What sessions tell together, by how many linear forms they were of how many columns: what a limit of equations binds.

``pytest --log-cli-level=INFO -m hostile_long tests/unit/attacks/test_share_of_equations.py`` prints the whole table.
"""

import logging
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import attacks
from attacks.prediction.known_moments import known_moments
from tests.unit.attacks.bayes.test_observation import defended
from vfl.arrays import FloatArray, IntArray
from vfl.data import encode_labels, fit_encoder, load_dataset
from vfl.data.datasets import DatasetNotFound
from vfl.learning import (
    BatchSchedule,
    GradientDescent,
    VerticalData,
    class_rows,
    confidence_scores,
    initial_weights,
    residual_columns,
    train_centrally,
)

_log = logging.getLogger(__name__)
DATA_DIR = os.environ.get("PLUMBLINE_DATA_DIR")
KNOWN, ATTACKED, MOST_TRAINED = 100, 100, 3000
DEFENCES: dict[str, tuple[tuple[str, dict[str, object]], ...]] = {
    "exact": (),
    "3 decimals": (("score_rounding", {"decimals": 3}),),
    "2 decimals": (("score_rounding", {"decimals": 2}),),
    "noise": (("score_noise", {}),),
}


@dataclass(frozen=True)
class Plan:
    """How a session is trained; ``active_scale`` is of the active party's start weights, which are its own choice."""

    epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 0.5
    active_scale: float = 1.0


USUAL, HOSTILE = Plan(), Plan(epochs=1, active_scale=5.0)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns in [0, 1] of both parties: those that train, those that are known and those that are attacked."""

    own: FloatArray
    passive: FloatArray
    labels: IntArray
    groups: tuple[slice, slice, slice]


def table(name: str) -> Table:
    try:
        data = load_dataset(name, None if DATA_DIR is None else Path(DATA_DIR))
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    labels = encode_labels(data.labels)[0]
    order = np.random.default_rng(0).permutation(len(labels))[: KNOWN + ATTACKED + MOST_TRAINED]
    rows = fit_encoder("minmax", data.features).transform(data.features)[order]
    half = rows.shape[1] - rows.shape[1] // 2
    known = min(KNOWN, len(rows) // 4)
    end = known + min(ATTACKED, len(rows) // 4)
    groups = slice(0, known), slice(known, end), slice(end, None)
    return Table(rows[:, :half], rows[:, half:], labels[order], groups)


def sessions(table: Table, plan: Plan, count: int) -> list[attacks.PredictionView]:
    """What an active party sees of so many sessions, the passive party's start weights being kept."""
    known, attacked, trained = table.groups
    own = np.hstack([table.own, np.ones((len(table.own), 1))])
    classes, d = len(np.unique(table.labels)), table.passive.shape[1]
    columns, total = residual_columns(classes), own.shape[1] + d
    data = VerticalData((own, table.passive), table.labels, classes)
    kept = initial_weights("xavier", d, columns, total_features=total, generator=np.random.default_rng(1))
    schedule = BatchSchedule(np.arange(len(own))[trained], plan.batch_size, 1)
    moments = known_moments(table.passive[trained])
    views = []
    for session in range(count):
        drawn = np.random.default_rng(100 + session)
        start = initial_weights("xavier", own.shape[1], columns, total_features=total, generator=drawn)
        descent = GradientDescent(schedule, plan.epochs, plan.learning_rate)
        weights = [class_rows(part) for part in train_centrally(data, (start * plan.active_scale, kept), descent)]
        scores = confidence_scores(own @ weights[0].T + table.passive @ weights[1].T)
        view = attacks.PredictionView(
            features_active=table.own[attacked],
            scores=scores[attacked],
            weights_active=weights[0][:, :-1],
            weights_passive=weights[1],
            bias=weights[0][:, -1],
            auxiliary=attacks.AuxiliaryRows(table.own[known], table.passive[known], scores[known], table.labels[known]),
            moments=moments,
            record_labels=table.labels[attacked],
        )
        views.append(view)
    return views


def part_told(views: list[attacks.PredictionView], truth: FloatArray, defences: str, prior: str) -> float:
    """The federation's part, 1 - e / e0: of what was unknown beforehand, how much these sessions tell together."""
    *earlier, last = [defended(view, *DEFENCES[defences]) for view in views]
    attack = attacks.load("many_sessions", prior=prior, draws=40)
    view = replace(last, earlier=tuple(earlier))
    errors = [float(((found - truth) ** 2).mean()) for found in (attack.reconstruct(view), attack.without_scores(view))]
    return 1 - errors[0] / errors[1]


def curve(name: str, plan: Plan, defences: str, shares: tuple[float, ...]) -> list[tuple[int, int, list[float]]]:
    """How many equations of how many columns, and the part told at levels covariance and records."""
    data = table(name)
    d, equations = data.passive.shape[1], len(np.unique(data.labels)) - 1
    counts = sorted({max(1, -(-round(share * d) // equations)) for share in shares})
    views = sessions(data, plan, counts[-1])
    truth = data.passive[data.groups[1]]
    return [
        (
            count * equations,
            d,
            [part_told(views[:count], truth, defences, prior) for prior in ("covariance", "imputation")],
        )
        for count in counts
    ]


def test_what_exact_scores_tell_grows_with_the_equations_and_is_everything_at_d() -> None:
    found = curve("wine", HOSTILE, "exact", (0.0, 0.6, 1.0))
    assert [equations for equations, _, _ in found] == [2, 4, 6]
    for level in range(2):
        parts = [part[level] for _, _, part in found]
        assert parts == sorted(parts)
        assert 0.3 < parts[0] < 0.7
        assert parts[-1] == pytest.approx(1.0, abs=1e-12)


def test_weights_that_hardly_move_tell_all_the_same() -> None:
    """A count of equations has to tell apart what float64 does: at a millionth of the largest it would see two."""
    data = table("wine")
    views = sessions(data, Plan(epochs=1, learning_rate=1e-6, active_scale=5.0), 3)
    equations = np.vstack([np.diff(np.asarray(view.weights_passive), axis=0) for view in views])
    values = np.linalg.svd(equations, compute_uv=False)
    assert (values > 1e-5 * values[0]).sum() == 2
    for prior in ("half", "covariance", "imputation"):
        assert part_told(views, data.passive[data.groups[1]], "exact", prior) > 0.999999


@pytest.mark.hostile_long
@pytest.mark.parametrize("defences", DEFENCES)
@pytest.mark.parametrize("plan", [USUAL, HOSTILE], ids=["usual", "hostile"])
@pytest.mark.parametrize("name", ["breast_cancer", "wine", "credit", "bank", "satellite"])
def test_no_defence_of_scores_leaves_more_than_exact_ones_tell(name: str, plan: Plan, defences: str) -> None:
    shares = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0) if defences == "exact" else (0.0, 0.4, 1.0)
    exact, behind = curve(name, plan, "exact", shares), curve(name, plan, defences, shares)
    for (equations, d, most), (_, _, part) in zip(exact, behind, strict=True):
        _log.info(
            "%s, %s: %d of %d equations tell %.2f (covariance), %.2f (records)", name, defences, equations, d, *part
        )
        assert all(one <= bound + 0.05 for one, bound in zip(part, most, strict=True))
