"""The shortest residuals with a session's sums: what they are, and what of labels follows."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.training.least_norm import labels_of_least_norm, least_norm
from attacks.training.recovered_labels import UNRESOLVED, EstimatedLabels
from attacks.training.trajectory_labels import TrajectoryLabels
from attacks.training_views import Equations, TrainingView
from tests.harness.listening import planted, seen, trained, view_of
from vfl.arrays import IntArray
from vfl.learning.score_quality import area_under_curve

ATTACK = TrajectoryLabels()


def equations(matrix: np.ndarray, values: np.ndarray, rows: IntArray, step: int = 0) -> Equations:
    return Equations(step, "bank", rows, matrix, matrix.T @ values)


def joined(count: int, **options: int) -> tuple[EstimatedLabels, IntArray]:
    """The same shuffled labels in so many sessions with batches and start weights of their own."""
    truth = np.random.default_rng(9).permutation(trained(epochs=1, shuffled=False, rows=np.arange(383)).labels)
    labels = np.concatenate([truth, np.zeros(569 - 383, dtype=np.int64)])
    runs = [
        trained(seed, shuffled=False, reshuffled=False, rows=np.arange(383), labels=labels, **options)
        for seed in range(count)
    ]
    views = [replace(seen(run), records=np.arange(383)) for run in runs]
    return ATTACK.attack(replace(views[0], earlier=tuple(views[1:]))), truth


def test_sums_of_batches_that_share_no_record_are_solved_by_the_pseudo_inverse() -> None:
    generator = np.random.default_rng(0)
    matrix, values = generator.normal(size=(20, 3)), generator.normal(size=(20, 2))
    rows = [np.arange(0, 12), np.arange(12, 20)]
    found = least_norm([[equations(matrix[own], values[own], own) for own in rows]], [np.arange(20)], 20)
    for own in rows:
        projection = matrix[own] @ np.linalg.pinv(matrix[own])
        assert found.residuals[own] == pytest.approx(projection @ values[own])
        assert found.ones[own] == pytest.approx(projection.sum(axis=1))
        assert found.told[own] == pytest.approx(np.diag(projection))


def test_sums_of_sessions_that_share_records_are_solved_together() -> None:
    generator = np.random.default_rng(0)
    matrix, values = generator.normal(size=(40, 4)), generator.normal(size=(40, 1))
    orders = [generator.permutation(40) for _ in range(2)]
    sessions = [[equations(matrix[own], values[own], own) for own in np.split(order, 4)] for order in orders]
    found = least_norm(sessions, [np.arange(40)] * 2, 40)
    stacked = np.zeros((32, 40))
    for number, own in enumerate([*np.split(orders[0], 4), *np.split(orders[1], 4)]):
        stacked[4 * number : 4 * number + 4, own] = matrix[own].T
    assert found.residuals == pytest.approx(np.linalg.pinv(stacked) @ (stacked @ values), abs=1e-4)
    assert found.told.mean() == pytest.approx(32 / 40, abs=0.1)


def test_one_session_of_the_same_batches_reads_shuffled_labels_and_further_sessions_read_more() -> None:
    areas = []
    for count in (1, 3, 5):
        found, truth = joined(count, batch=100)
        assert found.details["sessions"] == count
        areas.append(area_under_curve(found.probabilities, truth))
    assert areas[0] >= 0.68
    assert areas[1] >= 0.85
    assert areas[2] >= 0.93


@pytest.mark.parametrize("own_moments", [False, True])
def test_few_steps_on_full_batches_tell_what_one_does(own_moments: bool) -> None:
    run = planted(
        rows=90,
        batch=90,
        parties=(6, 12),
        epochs=8,
        initialisation="xavier",
        learning_rate=0.5,
        own_moments=own_moments,
    )
    found = ATTACK.attack(view_of(run, 1, "xavier"))
    assert found.details["sums_a_record"] == pytest.approx(12 / 90, abs=1e-3)
    assert area_under_curve(found.probabilities, run.labels) >= 0.6


def with_matrix(view: TrainingView, features: np.ndarray) -> TrainingView:
    """The view of a party with other columns, which hears the sums that these make."""
    shares = {one.step: np.linalg.lstsq(one.matrix.T, one.sums, rcond=None)[0] for one in view.equations}
    told = tuple(
        replace(one, matrix=features[one.rows], sums=features[one.rows].T @ shares[one.step]) for one in view.equations
    )
    return replace(view, features=features, equations=told)


@pytest.mark.parametrize("case", ["zeros", "copied column", "rows alike", "batches of two", "one step"])
def test_bad_input_ends_in_an_answer_or_a_sentence(case: str) -> None:
    run = trained(epochs=2, batch=2 if case == "batches of two" else 128, reshuffled=False, rows=np.arange(60))
    view = seen(run)
    if case == "zeros":
        view = replace(view, equations=tuple(replace(one, sums=0 * one.sums) for one in view.equations))
    elif case == "copied column":
        view = with_matrix(view, np.hstack([view.features, view.features[:, :1]]))
    elif case == "rows alike":
        view = with_matrix(view, np.tile(view.features[:1], (60, 1)))
    elif case == "one step":
        view = replace(view, steps=view.steps[:1], equations=view.equations[:1])
    found = ATTACK.attack(view)
    if case in ("zeros", "rows alike"):
        assert "say nothing of single records" in found.reason
        assert (found.labels == UNRESOLVED).all()
        assert np.isnan(found.probabilities).all()
    else:
        assert not found.reason
        assert np.isfinite(found.probabilities[found.rows]).all()
    if case == "batches of two":
        # As many columns as records: every residual is told, and so is its label.
        assert (found.labels == run.labels).mean() >= 0.9


def test_sessions_whose_tables_grew_and_shrank_are_joined_by_their_records() -> None:
    labels = np.random.default_rng(9).permutation(trained(epochs=1, shuffled=False, rows=np.arange(569)).labels)
    rows = [np.arange(0, 383), np.arange(50, 500), np.arange(0, 200)]
    runs = [trained(seed, shuffled=False, reshuffled=False, rows=own, labels=labels) for seed, own in enumerate(rows)]
    views = [replace(seen(run), records=own) for run, own in zip(runs, rows, strict=True)]
    alone = area_under_curve(ATTACK.attack(replace(views[0], records=None)).probabilities, labels[:383])
    found = ATTACK.attack(replace(views[0], earlier=tuple(views[1:])))
    assert len(found.probabilities) == 383
    assert area_under_curve(found.probabilities, labels[:383]) >= alone + 0.03


def test_ids_that_share_no_record_are_sessions_of_their_own() -> None:
    first, second = trained(0, reshuffled=False), trained(1, reshuffled=False)
    view = replace(seen(first), records=np.arange(383))
    other = replace(seen(second), records=np.arange(1000, 1383))
    alone, beside = ATTACK.attack(view), ATTACK.attack(replace(view, earlier=(other,)))
    assert area_under_curve(beside.probabilities, first.labels) == pytest.approx(
        area_under_curve(alone.probabilities, first.labels), abs=0.02
    )


def test_nothing_follows_of_labels_where_no_residual_is_told() -> None:
    view = seen(trained(epochs=1, rows=np.arange(60)))
    silent = replace(view, equations=tuple(replace(one, sums=0 * one.sums) for one in view.equations))
    found = labels_of_least_norm(silent, least_norm([silent.equations], [np.arange(60)], 60))
    assert found.reason
    assert found.told == pytest.approx(0, abs=1e-9)
