"""Labels from fewer equations than rows: planted trainings on the features' grid, and what stops it, in words."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from attacks.solving.lattices import has_flint
from attacks.training.label_recovery import LabelRecovery
from attacks.training.label_search import common_offset
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_views import Equations, TrainingView, simulated_view
from vfl.arrays import FloatArray
from vfl.data import snap_to_grid
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, initial_weights
from vfl.theory.training import OracleRun, simulate_oracle

SHARE_STEP = 2.0**-32
needs_flint = pytest.mark.skipif(not has_flint(), reason="needs python-flint, of the extra lab")


def training(
    rows: int,
    *,
    batch: int | None = None,
    columns: tuple[int, int] = (8, 13),
    classes: int = 2,
    initialisation: str = "zero",
    learning_rate: float = 0.1,
    epochs: int = 1,
    bits: int = 16,
) -> OracleRun:
    """Records of breast_cancer; party 0 has the labels, its columns and a bias, party 1 the rest."""
    features, labels = load_breast_cancer(return_X_y=True)
    generator = np.random.default_rng(rows)
    scaled = snap_to_grid((features - features.min(axis=0)) / np.ptp(features, axis=0), bits)
    chosen = generator.choice(len(labels), rows, replace=False)
    if classes > 2:
        labels = generator.integers(0, classes, len(labels))
    blocks = [
        np.hstack([scaled[chosen][:, 13 : 13 + columns[0]], np.ones((rows, 1))]),
        scaled[chosen][:, : columns[1]],
    ]
    total, width = sum(columns) + 1, 1 if classes == 2 else classes
    weights = [
        initial_weights(initialisation, block.shape[1], width, total_features=total, generator=generator)
        for block in blocks
    ]
    return simulate_oracle(
        VerticalData(blocks, labels[chosen].astype(np.int64), classes=classes),
        weights,
        GradientDescent(BatchSchedule(np.arange(rows), batch or rows, 3), epochs=epochs, learning_rate=learning_rate),
        unpenalised=[
            np.arange(block.shape[1]) == columns[0] if one == 0 else np.zeros(block.shape[1], dtype=np.bool_)
            for one, block in enumerate(blocks)
        ],
        share_step=SHARE_STEP,
    )


def view_of(run: OracleRun, initialisation: str = "zero") -> TrainingView:
    return simulated_view(run, 1, initialisation=initialisation, label_party_bias=True, share_step=SHARE_STEP)


# -- zero weights -----------------------------------------------------------------------------------------------------


@needs_flint
@pytest.mark.parametrize("classes", [2, 3])
def test_one_honest_answer_gives_all_labels_of_four_times_as_many_rows_as_it_has_sums(classes: int) -> None:
    run = training(52, classes=classes)
    found = LabelRecovery().attack(view_of(run))
    np.testing.assert_array_equal(found.labels, run.labels)
    assert found.guaranteed.all()
    assert [step.method for step in found.steps] == ["lattice"]
    assert found.steps[0].rank == 13


@needs_flint
def test_only_the_first_batch_is_told_and_it_is_said_what_stops_the_others() -> None:
    run = training(156, batch=52)
    found = LabelRecovery().attack(view_of(run))
    first, *later = found.steps
    np.testing.assert_array_equal(first.labels, run.labels[first.rows])
    for step in later:
        assert step.method == "none"
        assert step.reason.startswith("party-0: Not possible: 52 records in a step and 13 sums about them, fewer")
        assert "weights have moved since they were zero" in step.reason
    assert len(found.unresolved) == 104


@needs_flint
def test_weights_that_no_sum_shows_to_have_moved_are_as_good_as_zero() -> None:
    run = training(156, batch=52, learning_rate=1e-10)
    found = LabelRecovery().attack(view_of(run))
    np.testing.assert_array_equal(found.labels, run.labels)
    assert {step.method for step in found.steps} == {"lattice"}


@pytest.mark.parametrize("initialisation", ["xavier", "normal"])
def test_random_weights_are_named_as_what_stops_the_search(initialisation: str) -> None:
    run = training(52, initialisation=initialisation)
    found = LabelRecovery().attack(view_of(run, initialisation))
    assert (found.labels == UNRESOLVED).all()
    assert f"party-0's weights started at private random values (initialisation={initialisation})" in found.reason
    assert "its residuals aren't two known values but numbers near them" in found.reason


def test_noise_on_residuals_is_named_as_what_stops_the_search() -> None:
    run = training(52)
    view = view_of(run)
    noisy = replace(view.equations[0], sums=view.equations[0].sums + 0.3)
    found = LabelRecovery().attack(replace(view, equations=(noisy,)))
    assert (
        "39 labels stay open, and the sums hold more than labels: noise was added, or weights have moved"
        in found.reason
    )


def test_without_flint_few_signs_are_searched_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    run = training(40)
    np.testing.assert_array_equal(LabelRecovery().attack(view_of(run)).labels, run.labels)
    found = LabelRecovery().attack(view_of(training(52)))
    assert (found.labels == UNRESOLVED).all()
    assert 'lattice reduction needs python-flint: pip install "plumbline[lab]"' in found.reason


# -- a label party with nothing but labels ----------------------------------------------------------------------------


@needs_flint
@pytest.mark.parametrize("classes", [2, 3])
def test_a_random_bias_is_read_off_the_grid_of_one_answer_and_all_batches_follow(classes: int) -> None:
    run = training(104, batch=52, columns=(0, 13), classes=classes, initialisation="xavier", epochs=2)
    found = LabelRecovery().attack(view_of(run, "xavier"))
    np.testing.assert_array_equal(found.labels, run.labels)
    assert found.guaranteed.all()
    # The second epoch alone, too: no earlier step is needed for the bias of a later one.
    late = simulated_view(
        run, 1, initialisation="xavier", label_party_bias=True, steps=slice(3, None), share_step=SHARE_STEP
    )
    (step,) = LabelRecovery().attack(late).steps
    np.testing.assert_array_equal(step.labels, run.labels[step.rows])


@needs_flint
@pytest.mark.parametrize("epochs", [1, 14, 40])
def test_steps_that_dont_tell_alone_are_joined_over_the_rows_that_they_share(epochs: int) -> None:
    """Three columns of four bits, 48 rows: some 20 bits a step. 14 epochs hold 84 equations, 40 hold 240."""
    run = training(96, batch=48, columns=(0, 3), bits=4, epochs=epochs)
    found = LabelRecovery().attack(view_of(run))
    if epochs == 1:
        assert (found.labels == UNRESOLVED).all()
        assert "choices of labels fit" in found.reason
    else:
        np.testing.assert_array_equal(found.labels, run.labels)
        # A step whose features' sums have too much in common keeps its bias to itself.
        assert {"joined"} <= {step.method for step in found.steps} <= {"joined", "none"}
        assert found.guaranteed.all()


@given(
    st.integers(2, 300), st.integers(2, 12), st.sampled_from([2, 3, 10]), st.floats(-0.99, 0.99), st.integers(0, 999)
)
def test_what_all_shares_have_in_common_follows_from_any_sums_of_features_on_a_grid(
    rows: int, columns: int, classes: int, bias: float, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    grid = generator.integers(0, 2**16, (rows, columns), endpoint=True)
    labels = generator.integers(0, classes, rows)
    offset = np.rint(np.full(1 if classes == 2 else classes, bias) / SHARE_STEP) * SHARE_STEP
    terms = 2.0 - 4.0 * labels[:, None] if classes == 2 else 1.0 - classes * np.eye(classes)[labels]
    # As an answer is decoded: the float64 nearest to each whole number of steps.
    sums = grid.T.astype(object) @ ((offset + terms) / SHARE_STEP).astype(np.int64).astype(object)
    answered = Equations(0, "party-0", np.arange(rows), grid / 2**16, sums.astype(np.float64) * SHARE_STEP / 2**16)
    found = common_offset(answered, classes, SHARE_STEP)
    # Sums of features that all share a factor with the distance of the terms may leave several: none is named then.
    if found is not None:
        np.testing.assert_array_equal(found, offset)
    assert found is not None or not (np.gcd(grid.sum(axis=0), 2 * classes) == 1).any() or columns < 3


def test_shares_that_differ_by_more_than_labels_have_nothing_in_common() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.integers(0, 2**16, (50, 5)) / 2**16
    shares: FloatArray = np.rint(generator.normal(size=(50, 1)) / SHARE_STEP) * SHARE_STEP
    assert common_offset(Equations(0, "party-0", np.arange(50), matrix, matrix.T @ shares), 2, SHARE_STEP) is None
    assert common_offset(Equations(0, "party-0", np.arange(50), matrix / 3, matrix.T @ shares), 2, SHARE_STEP) is None
    assert common_offset(Equations(0, "party-0", np.arange(50), matrix, matrix.T @ shares), 2, 0.0) is None
