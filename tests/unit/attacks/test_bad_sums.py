"""Attacks on sums of labels that meet what no training should send: a sentence, or probabilities of what is told."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

import attacks
from attacks.training.recovered_labels import UNRESOLVED, EstimatedLabels
from attacks.training_attack import ListeningAttack
from attacks.training_views import TrainingView
from tests.harness.listening import seen, trained
from tests.harness.network_views import breast_cancer, network_run
from vfl.arrays import FloatArray, IntArray

ON_LINEAR, ON_NETWORKS = ("trajectory_labels", "newcomer", "own_part"), ("batch_inversion",)
TRUTH = np.random.default_rng(3).integers(0, 2, 569)

Change = Callable[[TrainingView], TrainingView]


def linear_view(rows: IntArray, *, batch: int = 50, reshuffled: bool = False, start: int = 0) -> TrainingView:
    run = trained(labels=TRUTH, shuffled=False, rows=rows, batch=batch, reshuffled=reshuffled, start=start, epochs=8)
    return replace(seen(run), records=rows)


def sessions(*rows: IntArray, batch: int = 50, reshuffled: bool = False) -> TrainingView:
    *earlier, last = [
        linear_view(own, batch=batch, reshuffled=reshuffled, start=number) for number, own in enumerate(rows)
    ]
    return replace(last, earlier=tuple(earlier))


def network_view() -> TrainingView:
    pytest.importorskip("torch")
    blocks, labels = breast_cancer(shuffled=True)
    return network_run(blocks, labels, batch=64, epochs=2, learning_rate=0.03).passive()


def attacked(name: str, view: TrainingView) -> EstimatedLabels:
    found = cast(EstimatedLabels, cast(ListeningAttack, attacks.load_training(name)).attack(view))
    if not found.reason:
        named = found.probabilities[found.labels != UNRESOLVED]
        assert np.isfinite(named).all()
        assert named.sum(axis=1) == pytest.approx(1.0)
    else:
        assert (found.labels == UNRESOLVED).all()
    return found


def with_columns(view: TrainingView, change: Callable[[FloatArray], FloatArray]) -> TrainingView:
    """Change own columns, and make the sums again of what these are sums of: as good as any, the labels' terms."""
    terms = 2.0 - 4.0 * TRUTH[np.arange(view.n) if view.records is None else view.records][:, None]
    features = change(view.features)
    return replace(
        view,
        features=features,
        equations=tuple(
            replace(one, matrix=features[one.rows], sums=features[one.rows].T @ terms[one.rows])
            for one in view.equations
        ),
        earlier=tuple(with_columns(one, change) for one in view.earlier),
    )


def silent(view: TrainingView) -> TrainingView:
    """All messages are zero."""
    equations = tuple(replace(one, sums=np.zeros_like(one.sums)) for one in view.equations)
    return replace(view, equations=equations, earlier=tuple(map(silent, view.earlier)))


def resumed(view: TrainingView) -> TrainingView:
    """A session that went on: steps of the second epoch were passed over, and told nothing."""
    skipped = {own.step for own in view.steps[len(view.steps) // 4 : len(view.steps) // 2]}
    return replace(
        view,
        steps=tuple(own for own in view.steps if own.step not in skipped),
        equations=tuple(one for one in view.equations if one.step not in skipped),
    )


@pytest.mark.parametrize("reshuffled", [True, False])
@pytest.mark.parametrize("name", ["trajectory_labels", "newcomer"])
def test_messages_all_zero_are_a_sentence(name: str, reshuffled: bool) -> None:
    view = sessions(np.arange(200), np.arange(201), batch=201 if name == "newcomer" else 50, reshuffled=reshuffled)
    assert attacked(name, silent(view)).reason.startswith("Not possible: ")


@pytest.mark.parametrize("name", ON_LINEAR)
def test_a_resumed_session_is_read_as_far_as_it_goes(name: str) -> None:
    attacked(name, resumed(sessions(np.arange(200), np.arange(200))))
    attacked(name, resumed(sessions(np.arange(200), np.arange(201), batch=300)))


@pytest.mark.parametrize("name", ON_LINEAR)
@pytest.mark.parametrize("reshuffled", [True, False])
def test_tables_shrink_and_ids_change(name: str, reshuffled: bool) -> None:
    for later in (np.arange(120), np.arange(199), np.arange(300, 500), np.arange(199, -1, -1)):
        attacked(name, sessions(np.arange(200), later, reshuffled=reshuffled))


@pytest.mark.parametrize("name", ON_LINEAR)
def test_two_records_a_batch(name: str) -> None:
    attacked(name, sessions(np.arange(20), np.arange(21), batch=2))


@pytest.mark.parametrize("name", ON_LINEAR)
def test_a_column_that_copies_another_tells_no_more(name: str) -> None:
    view = sessions(np.arange(200), np.arange(201), batch=300)
    copied = attacked(name, with_columns(view, lambda own: np.column_stack([own, own[:, 0]])))
    once = attacked(name, with_columns(view, lambda own: own))
    assert bool(copied.reason) == bool(once.reason)
    if not np.isnan(once.told):
        assert copied.told == pytest.approx(once.told, abs=0.02)


@pytest.mark.parametrize("name", ["trajectory_labels", "own_part"])
def test_rows_that_are_all_alike_name_nobody(name: str) -> None:
    found = attacked(name, with_columns(linear_view(np.arange(200), batch=200), np.ones_like))
    # One sum of all is told, and no record apart from others.
    assert found.reason or np.ptp(found.probabilities[found.rows], axis=0).max() < 1e-6


@pytest.mark.parametrize("name", ON_NETWORKS)
@pytest.mark.parametrize("change", [silent, resumed])
def test_a_network_s_sums_too(name: str, change: Change) -> None:
    attacked(name, change(network_view()))
