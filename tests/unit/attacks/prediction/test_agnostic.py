"""The agnostic attack: between half and half* on small data, refining, bases, training rows; the papers' data sets.

Raw data are tested where PLUMBLINE_DATA_DIR names a directory that has them. Errors there are means over windows of d
neighbouring features, against a linear model that is trained as the adversary's model is (Varasteh, section III).
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import attacks
from attacks import AuxiliaryRows, PredictionView, ViewError
from studies.measurements import (
    AttackMeasurement,
    Choice,
    DataChoice,
    ModelChoice,
    SweepOptions,
    measure_all,
    windows,
)
from vfl.arrays import FloatArray
from vfl.data import dataset
from vfl.learning import confidence_scores

torch.set_num_threads(1)


TRAINING, DELIVERED, ATTACKED = 2000, 50, 200


def federation(k: int = 4, d: int = 2) -> tuple[PredictionView, FloatArray]:
    """A view of the last rows, and the passive features of all rows: noisy copies of active ones.

    The training rows come first, then those with delivered scores.
    """
    generator = np.random.default_rng(0)
    active = generator.random((TRAINING + DELIVERED + ATTACKED, 6))
    passive = np.clip(active[:, :d] + 0.1 * generator.normal(size=(len(active), d)), 0, 1)
    weights_active, weights_passive = generator.normal(size=(k, 6)), 4 * generator.normal(size=(k, d))
    bias = generator.normal(size=k)
    scores = confidence_scores(active @ weights_active.T + passive @ weights_passive.T + bias)
    labels = np.array([generator.choice(k, p=row) for row in scores])
    delivered = slice(TRAINING, TRAINING + DELIVERED)
    view = PredictionView(
        features_active=active[-ATTACKED:],
        weights_active=weights_active,
        weights_passive=weights_passive,
        bias=bias,
        labels=labels[:TRAINING],
        features_train=active[:TRAINING],
        auxiliary=AuxiliaryRows(active[delivered], np.empty((DELIVERED, 0)), scores[delivered]),
    )
    return view, passive


def error(estimate: FloatArray, truth: FloatArray) -> float:
    return float(((estimate - truth) ** 2).mean())


@pytest.mark.parametrize(("k", "d"), [(4, 2), (2, 3)])
def test_between_half_star_and_half_and_better_when_refined_by_scores(k: int, d: int) -> None:
    view, passive = federation(k, d)
    truth = passive[-ATTACKED:]
    known = view.features_active @ np.asarray(view.weights_active).T + np.asarray(view.bias)
    exact = replace(view, scores=confidence_scores(known + truth @ np.asarray(view.weights_passive).T))
    half, half_star = error(np.full_like(truth, 0.5), truth), error(attacks.load("half_star").reconstruct(exact), truth)
    plain, refined = (error(attacks.load("agnostic", refine=by).reconstruct(view), truth) for by in ("none", "scores"))
    assert half_star < plain < half
    assert half_star < refined < plain


def test_labels_refine_by_adding_rows() -> None:
    view, _ = federation()
    assert view.auxiliary is not None
    assert view.labels is not None
    assert view.features_train is not None
    for training in ("adam", "converged"):
        refined = attacks.load("agnostic", refine="labels", training=training).reconstruct(view)
        more = replace(
            view,
            labels=np.concatenate([view.labels, view.auxiliary.scores.argmax(axis=1)]),
            features_train=np.vstack([view.features_train, view.auxiliary.features_active]),
        )
        np.testing.assert_array_equal(attacks.load("agnostic", training=training).reconstruct(more), refined)


def test_the_scores_of_the_attacked_records_are_not_looked_at() -> None:
    view, _ = federation()
    others = replace(view, scores=np.full((view.n, 4), 0.25))
    for refine in ("none", "scores"):
        attack = attacks.load("agnostic", refine=refine)
        np.testing.assert_array_equal(attack.reconstruct(view), attack.reconstruct(others))


def test_without_auxiliary_rows_the_views_own_scores_refine() -> None:
    view, _ = federation()
    assert view.auxiliary is not None
    rows = view.auxiliary
    own = replace(view, auxiliary=None, features_active=rows.features_active, scores=rows.scores)
    attack = attacks.load("agnostic", refine="scores")
    expected = attack.reconstruct(replace(view, features_active=rows.features_active))
    np.testing.assert_array_equal(attack.reconstruct(own), expected)


def test_training_rows_can_be_attacked() -> None:
    view, passive = federation()
    assert view.features_train is not None
    truth = passive[:TRAINING]
    estimate = attacks.load("agnostic").reconstruct(replace(view, features_active=view.features_train))
    assert error(estimate, truth) < error(np.full_like(truth, 0.5), truth)


@pytest.mark.parametrize(("k", "d"), [(4, 2), (4, 3)])
def test_least_squares_by_qr_is_the_normal_equations(k: int, d: int) -> None:
    view, _ = federation(k, d)
    attack = attacks.load("agnostic")
    scores = attack.adversary_scores(view)
    matrix = np.diff(np.asarray(view.weights_passive), axis=0)
    known = view.features_active @ np.asarray(view.weights_active).T + np.asarray(view.bias)
    target = np.diff(np.log(scores) - known, axis=1)
    solved = np.linalg.solve(matrix.T @ matrix, matrix.T @ target.T).T
    np.testing.assert_allclose(attack.reconstruct(view), np.clip(solved, 0, 1), atol=1e-9)


@pytest.mark.parametrize("base", ["half_star", "ls", "rcc2", "clamped_ls"])
def test_any_white_box_base_gets_the_estimated_scores(base: str) -> None:
    view, _ = federation(2, 3)
    attack = attacks.load("agnostic", base=base)
    expected = attacks.load(base).reconstruct(replace(view, scores=attack.adversary_scores(view)))
    np.testing.assert_array_equal(attack.reconstruct(view), np.clip(expected, 0, 1))
    assert ((attack.reconstruct(view) >= 0) & (attack.reconstruct(view) <= 1)).all()


def test_a_rank_deficient_model_falls_back_on_the_base() -> None:
    view, _ = federation(4, 2)
    weights = np.asarray(view.weights_passive)
    estimate = attacks.load("agnostic").reconstruct(replace(view, weights_passive=0 * weights))
    assert (estimate == 0.5).all()


@pytest.mark.parametrize("alpha", [1.0, 5.0])
def test_the_gradient_of_the_refined_objective(alpha: float) -> None:
    """The minimiser of eq. 9 can't be improved in any direction, whatever the rounded scores of 0 among them."""
    view, _ = federation()
    assert view.auxiliary is not None
    rounded = replace(view.auxiliary, scores=view.auxiliary.scores.round(1))
    attack = attacks.load("agnostic", refine="scores", alpha=alpha)
    estimate = attack.reconstruct(replace(view, auxiliary=rounded))
    assert np.isfinite(estimate).all()
    from attacks.prediction.agnostic import _DeliveredScores, _minimise, _with_intercept
    from vfl.channels.base import normalised

    assert view.labels is not None
    assert view.features_train is not None
    features, own = _with_intercept(view.features_train), _with_intercept(rounded.features_active)
    delivered = _DeliveredScores(own, rounded.scores, alpha)
    model = _minimise(np.zeros((7, 4)), features, view.labels, 1e-5, delivered)

    def objective(theta: FloatArray) -> float:
        entropy = -normalised(features @ theta)[np.arange(TRAINING), view.labels].sum() / (TRAINING + DELIVERED)
        with np.errstate(divide="ignore"):
            mismatch = normalised(own @ theta) - np.log(rounded.scores)
        refined = alpha * (mismatch[rounded.scores > 0] ** 2).sum() / DELIVERED
        return float(entropy + refined + 1e-5 * (theta[:-1] ** 2).sum())

    generator = np.random.default_rng(0)
    for _ in range(20):
        assert objective(model) <= objective(model + 1e-3 * generator.normal(size=model.shape)) + 1e-9


def test_seeds_and_determinism() -> None:
    view, _ = federation()
    one, again, other = (attacks.load("agnostic", seed=seed).reconstruct(view) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    converged = [attacks.load("agnostic", training="converged", seed=seed).reconstruct(view) for seed in (0, 1)]
    np.testing.assert_array_equal(*converged)


@pytest.mark.parametrize(
    "options",
    [
        {"refine": "both"},
        {"base": "zero_point_five"},
        {"base": "shadow"},
        {"base": "agnostic"},
        {"training": "sgd"},
        {"delivered": 0},
        {"l2": -1.0},
    ],
)
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"choose|expected|Expected|Unknown attack"):
        attacks.load("agnostic", **options)


@pytest.mark.parametrize("pieces", [("labels", "features_train"), ("weights_active",), ("weights_passive",), ("bias",)])
def test_missing_pieces(pieces: tuple[str, ...]) -> None:
    view, _ = federation()
    changes: dict[str, Any] = {**dict.fromkeys(pieces), "passive_features": 2}
    with pytest.raises(ViewError, match=f"agnostic needs {pieces[0]}"):
        attacks.load("agnostic").reconstruct(replace(view, **changes))


def test_views_that_do_not_fit() -> None:
    view, _ = federation()
    rows = view.auxiliary
    assert rows is not None
    refined = attacks.load("agnostic", refine="scores")
    with pytest.raises(ViewError, match="needs delivered scores"):
        refined.reconstruct(replace(view, auxiliary=None))
    with pytest.raises(ViewError, match="don't fit the view"):
        refined.reconstruct(replace(view, auxiliary=replace(rows, features_active=rows.features_active[:, :2])))
    with pytest.raises(ViewError, match="labels from 0 to below"):
        refined.reconstruct(replace(view, labels=np.full(TRAINING, 4)))


# --- the papers' data sets ------------------------------------------------------------------------------------


RIVALS = {
    "half": Choice.of("half"),
    "half*": Choice.of("half_star"),
    "AM": Choice.of("agnostic"),
    "RAM scores": Choice.of("agnostic", refine="scores"),
}


Errors = Callable[..., dict[str, float]]


@pytest.fixture(scope="module")
def errors_of(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """Mean errors on a data set with so many passive columns: two windows, 1,000 records, 100 delivered scores."""
    directory = os.environ.get("PLUMBLINE_DATA_DIR")
    if not directory:
        pytest.skip("set PLUMBLINE_DATA_DIR to the directory of the raw data sets")

    # It keeps trained models.
    store = tmp_path_factory.mktemp("cells")

    def measured(name: str, d: int, seed: int = 0) -> dict[str, float]:
        model = ModelChoice(DataChoice(name), trainer="adam", seed=seed)
        at = windows(dataset(name).features, d, 2)
        measurements = [
            AttackMeasurement(model, one, attack, 1000, delivered=100) for attack in RIVALS.values() for one in at
        ]
        found = measure_all(measurements, SweepOptions(data_dir=Path(directory), store=store, workers=1))
        assert set(found["status"]) == {"done"}, set(found["reason"])
        return dict(zip(RIVALS, found["mse"].to_numpy().reshape(len(RIVALS), -1).mean(axis=1).tolist(), strict=True))

    return measured


@pytest.mark.slow("many records, each solved for")
@pytest.mark.parametrize(
    ("name", "d"),
    [
        ("bank", 2),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in (("satellite", 2), ("satellite", 16), ("adult", 2))
        ),
    ],
)
def test_between_half_and_half_star_and_refined_by_scores(errors_of: Errors, name: str, d: int) -> None:
    """Varasteh figure 4. Measured with four windows and 2,000 rows (half, half*, AM, RAM by 100 scores):

    bank d = 2: .149 .068 .089 .082; satellite d = 2: .037 .000 .030 .003, d = 16: .038 .014 .023 .016;
    adult d = 2: .138 .054 .072 .072.
    """
    found = errors_of(name, d)
    assert found["half*"] < found["AM"] < found["half"]
    assert found["half*"] < found["RAM scores"] < 1.01 * found["AM"]
    if name != "adult":
        assert found["RAM scores"] < 0.97 * found["AM"]


@pytest.mark.slow("many records, each solved for")
def test_refining_by_scores_helps_on_bank_for_small_d_only(errors_of: Errors) -> None:
    """errata.md saw no gain on bank. Here it is large at d = 1 and gone at d = 9 (.1556 to .1559, half .1696)."""
    small, large = (errors_of("bank", d) for d in (1, 9))
    assert small["RAM scores"] < 0.8 * small["AM"]
    assert abs(large["RAM scores"] - large["AM"]) < 0.01 * large["AM"]


@pytest.mark.thorough
def test_satellite_at_d_just_below_k_depends_on_the_split(errors_of: Errors) -> None:
    """d = 5 = k - 1: the AM's errors go through the smallest singular value of A, another one for each model.

    Four windows of three splits: .030, .090 and .096, beside .039, .037 and .038 of half.
    """
    lucky, unlucky = (errors_of("satellite", 5, seed) for seed in (0, 1))
    assert lucky["AM"] < lucky["half"]
    assert unlucky["AM"] > 1.5 * unlucky["half"]
    assert max(found["RAM scores"] / found["AM"] for found in (lucky, unlucky)) < 1


@pytest.mark.parametrize("d", [4, 8])
def test_almost_nothing_is_gained_on_grid(errors_of: Errors, d: int) -> None:
    """Varasteh figure 7: features that say nothing about each other. Measured at d = 4: half .0795, AM .0791."""
    found = errors_of("grid", d)
    assert found["AM"] == pytest.approx(found["half"], rel=0.05)
