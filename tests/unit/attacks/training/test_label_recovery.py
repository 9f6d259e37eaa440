"""Labels from planted trainings: exact where theory promises them, refused where the equations don't tell."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.training.label_recovery import LabelRecovery, label_party_products
from attacks.training.label_search import TooManyCandidates, sign_solutions
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_views import Equations, simulated_view, solve_shares, solve_steps
from attacks.views import ViewError
from tests.harness.listening import SHARE_STEP, planted, view_of
from vfl.data import load_dataset
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, registry
from vfl.theory.training import guaranteed_steps, simulate_oracle

# --- solving --------------------------------------------------------------------------------------------------


@given(
    s=st.integers(1, 30), d=st.integers(1, 12), u=st.integers(1, 4), columns=st.integers(1, 3), seed=st.integers(0, 99)
)
def test_shares_follow_exactly_when_there_are_enough_equations(s: int, d: int, u: int, columns: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = np.rint(generator.uniform(-1, 1, (s, u * d)) * 2**16) / 2**16
    shares = np.rint(generator.uniform(-4, 4, (s, columns)) * 2**32) / 2**32
    solved = solve_shares(Equations(0, "peer", np.arange(s), matrix, matrix.T @ shares), share_step=SHARE_STEP)
    if s <= u * d and solved.condition_number < 1e4:
        assert solved.values is not None
    if s > u * d:
        assert solved.values is None
        assert f"{s} records in a step and {u * d} sums" in solved.reason
    if solved.values is not None:
        assert np.abs(solved.values - shares).max() <= (0.0 if solved.error < SHARE_STEP / 4 else solved.error)


def test_repeated_rows_and_constant_columns_are_refused_with_their_rank() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(6, 9))
    matrix[5] = matrix[0]
    solved = solve_shares(Equations(0, "peer", np.arange(6), matrix, matrix.T @ np.ones((6, 1))))
    assert solved.values is None
    assert solved.rank == 5
    assert "6 records in a step, and of 9 sums about them 4 repeat" in solved.reason
    nothing = solve_shares(Equations(0, "peer", np.arange(6), np.zeros((6, 9)), np.zeros((9, 1))))
    assert nothing.values is None
    assert nothing.rank == 0


def test_a_nearly_singular_system_is_no_success() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(6, 9))
    matrix[5] = matrix[0] + 1e-12 * matrix[5]
    solved = solve_shares(Equations(0, "peer", np.arange(6), matrix, matrix.T @ np.ones((6, 1))))
    assert solved.rank == 6
    assert solved.values is None
    assert "rounding leaves" in solved.reason


def test_noisy_answers_contradict_each_other() -> None:
    generator = np.random.default_rng(0)
    matrix = generator.normal(size=(6, 9))
    sums = matrix.T @ np.ones((6, 1)) + generator.normal(size=(9, 1))
    noisy = Equations(0, "peer", np.arange(6), matrix, sums)
    assert "contradict" in solve_shares(noisy).reason
    assert solve_shares(noisy, tolerance=10.0).values is not None


# --- Criterion 4.2 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("initialisation", ["zero", "normal"])
def test_every_label_while_guaranteed(classes: int, initialisation: str) -> None:
    run = planted(classes=classes, initialisation=initialisation, learning_rate=0.02, epochs=6)
    found = LabelRecovery(squared_norm=2.0).attack(view_of(run, 1, initialisation))
    assert found.guaranteed_steps is not None
    assert found.guaranteed_steps >= 8
    assert found.guaranteed.all()
    assert len(found.unresolved) == 0
    np.testing.assert_array_equal(found.labels, run.labels)
    for step in found.steps:
        assert step.guaranteed.all() == (step.step < found.guaranteed_steps)
        assert step.rank == len(step.rows)
        assert step.method == "criterion_4.2"
        if step.step < found.guaranteed_steps:
            np.testing.assert_array_equal(step.labels, run.labels[step.rows])


def test_large_weights_are_never_called_guaranteed() -> None:
    run = planted(initialisation="kaiming", norm=30.0)
    found = LabelRecovery(squared_norm=901.0).attack(view_of(run, 1, "kaiming"))
    assert found.guaranteed_steps == 0
    assert not found.guaranteed.any()
    assert (found.labels != run.labels).any()


def test_the_paper_norm_is_not_believed_against_ones_own_features() -> None:
    """Unscaled features grow faster than ||x|| <= 1 promises: the guarantee is made with what the party can see."""
    run = planted(norm=3.0, epochs=1, bias=False)
    view = view_of(run, 1, bias=False)
    seen = float((view.features**2).sum(axis=1).max())
    assert seen > 1
    assert LabelRecovery().attack(view).guaranteed_steps == guaranteed_steps(0.05, 0.0, squared_norm=seen)


def test_late_steps_tell_labels_that_nothing_guarantees() -> None:
    run = planted(learning_rate=0.02, epochs=4)
    late = simulated_view(
        run, 1, initialisation="zero", label_party_bias=True, steps=slice(8, None), share_step=SHARE_STEP
    )
    found = LabelRecovery(squared_norm=100.0).attack(late)
    assert not found.guaranteed.any()
    np.testing.assert_array_equal(found.labels, run.labels)


def test_later_answers_do_not_outvote_a_better_first_one() -> None:
    # Found: over thirty epochs the most frequent answer was right in 81 % where the first epoch's was in all.
    run = planted(learning_rate=4.0, epochs=30)
    view = simulated_view(run, 1, initialisation="zero", label_party_bias=True, share_step=SHARE_STEP)
    found = LabelRecovery(squared_norm=100.0).attack(view)
    last = found.steps[-1]
    assert (last.labels != run.labels[last.rows]).any()
    np.testing.assert_array_equal(found.labels, run.labels)


@pytest.mark.parametrize("party", [1, 2])
def test_several_passive_parties(party: int) -> None:
    run = planted(parties=(6, 9, 10), classes=3, learning_rate=0.02)
    view = view_of(run, party)
    found = LabelRecovery(squared_norm=2.0).attack(view)
    np.testing.assert_array_equal(found.labels, run.labels)
    assert {step.source for step in found.steps} == {"f"}
    # Without the other passive party's sums there is still the label party's share.
    alone = replace(view, equations=tuple(e for e in view.equations if e.peer == "party-0"))
    found = LabelRecovery(squared_norm=2.0).attack(alone)
    np.testing.assert_array_equal(found.labels, run.labels)
    assert {step.source for step in found.steps} == {"label_share"}
    # Without the label party's there is nothing.
    others = replace(view, equations=tuple(e for e in view.equations if e.peer != "party-0"))
    found = LabelRecovery().attack(others)
    assert (found.labels == UNRESOLVED).all()
    assert "nothing was received" in found.reason


@pytest.mark.parametrize(("initialisation", "right"), [("zero", True), ("xavier", False)])
def test_the_first_batch_from_zero_weights_gives_its_labels_away_with_fewer_equations_than_rows(
    initialisation: str, right: bool
) -> None:
    """At step 0 the label party's share is -2 y whatever its features are: only signs are unknown."""
    run = planted(parties=(20, 5), rows=60, batch=20, initialisation=initialisation)
    first = LabelRecovery().attack(view_of(run, 1, initialisation=initialisation)).steps[0]
    assert len(first.rows) > first.rank
    assert bool((first.labels == run.labels[first.rows]).all()) == right
    assert first.guaranteed.all() == right


def test_too_few_equations_are_reported_with_the_numbers() -> None:
    run = planted(parties=(20, 7), batch=8)
    found = LabelRecovery().attack(view_of(run, 1))
    assert (found.labels == UNRESOLVED).any()
    first, *full = [step for step in found.steps if len(step.rows) == 8]
    assert (first.method, (first.labels == run.labels[first.rows]).all()) == ("theorem_4.1", True)
    assert all("fewer than there are records. Labels alone can't be searched for" in step.reason for step in full)
    assert not any(step.guaranteed.any() for step in full)
    assert set(found.unresolved) == set(np.flatnonzero(found.labels == UNRESOLVED))


@pytest.mark.parametrize("initialisation", ["zero", "xavier"])
def test_minimax(initialisation: str) -> None:
    run = planted(approximation="minimax", initialisation=initialisation)
    found = LabelRecovery(squared_norm=2.0).attack(view_of(run, 1, initialisation))
    assert found.guaranteed_steps is not None
    assert found.guaranteed_steps >= 8
    np.testing.assert_array_equal(found.labels, run.labels)


def test_piecewise_tells_every_label_it_names() -> None:
    run = planted(approximation="piecewise", initialisation="kaiming", learning_rate=0.5, norm=3.0, epochs=2)
    found = LabelRecovery().attack(view_of(run, 1, "kaiming"))
    named = found.labels != UNRESOLVED
    assert found.guaranteed_steps is None
    assert 0.5 < named.mean() < 1.0  # saturated from the start: f = 0 says nothing
    np.testing.assert_array_equal(found.labels[named], run.labels[named])
    np.testing.assert_array_equal(found.guaranteed, named)
    beyond = np.array([(step.residual == 0).any() for step in run.steps])
    assert beyond.any()


# --- Theorem 4.1 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_features_beside_the_labels(bias: bool, classes: int) -> None:
    """s > d: signs alone. With weights that Criterion 4.2 can't cope with, since d_A = 0 needs none."""
    generator = np.random.default_rng(3)
    features = generator.normal(size=(36, 5)) * 4
    labels = generator.integers(0, classes, 36)
    columns = 1 if classes == 2 else classes
    run = simulate_oracle(
        VerticalData([np.ones((36, int(bias))), features], labels, classes=classes),
        [np.zeros((int(bias), columns)), np.zeros((5, columns))],
        GradientDescent(BatchSchedule(np.arange(36), 12, 0), epochs=2, learning_rate=0.2),
        share_step=SHARE_STEP,
    )
    assert np.abs(features @ run.weights[1]).max() > 1.0
    found = LabelRecovery().attack(view_of(run, 1, bias=bias))
    np.testing.assert_array_equal(found.labels, labels)
    assert found.guaranteed.all()
    # What the first epoch has told needs no search in the second.
    assert [step.method for step in found.steps] == ["theorem_4.1"] * 3 + ["joined"] * 3


def test_an_unknown_bias_shows_itself_where_both_values_do() -> None:
    run = planted(parties=(0, 12), initialisation="xavier", norm=5.0)
    found = LabelRecovery().attack(view_of(run, 1, "xavier"))
    np.testing.assert_array_equal(found.labels, run.labels)
    assert found.guaranteed.all()


def test_too_many_free_signs_are_reported() -> None:
    run = planted(parties=(0, 5), rows=50, batch=50, bias=False)
    found = LabelRecovery().attack(view_of(run, 1, bias=False))
    assert "5 of which tell something new: 45 labels stay open, and features on no grid" in found.steps[0].reason


def test_twins_of_different_labels_leave_the_batch_open() -> None:
    run = simulate_oracle(
        VerticalData(
            [np.ones((6, 0)), np.tile(np.random.default_rng(0).normal(size=(3, 2)), (2, 1))],
            np.array([0, 1, 0, 1, 0, 1]),
        ),
        [np.zeros((0, 1)), np.zeros((2, 1))],
        GradientDescent(BatchSchedule(np.arange(6), 6, 0), epochs=1, learning_rate=0.1),
    )
    found = LabelRecovery().attack(view_of(run, 1, bias=False))
    assert "2 of which tell something new: several choices of labels fit" in found.reason
    assert len(found.unresolved) == 6


def test_several_solutions_are_not_guessed() -> None:
    matrix = np.ones((4, 2))
    assert len(sign_solutions(matrix, matrix.T @ np.array([1.0, 1, -1, -1]))) == 2
    assert sign_solutions(matrix, np.array([1.0, 1.0])) == []


@given(s=st.integers(1, 18), d=st.integers(1, 20), seed=st.integers(0, 999))
def test_signs_are_unique(s: int, d: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.normal(size=(s, d))
    signs = generator.choice([-1.0, 1.0], size=s)
    (found,) = sign_solutions(matrix, matrix.T @ signs)
    np.testing.assert_array_equal(found, signs)


# --- Remark 4.9 and views -------------------------------------------------------------------------------------


def test_with_the_labels_the_label_partys_products_follow() -> None:
    run = planted(classes=3)
    view = view_of(run, 1)
    products = label_party_products(view, solve_steps(view), run.labels)
    for step in run.steps:
        true = run.blocks[0][step.rows] @ step.weights[0]
        number = next(own.step for own in view.steps if own.rows is step.rows)
        np.testing.assert_allclose(products[number], true - true.mean(axis=1, keepdims=True), atol=SHARE_STEP)


def test_the_active_party_has_the_labels() -> None:
    with pytest.raises(ViewError, match="passive party's attack"):
        LabelRecovery().attack(view_of(planted(), 0))


def test_views_are_checked() -> None:
    view = view_of(planted(), 1)
    broken = replace(view.equations[0], sums=view.equations[0].sums[:-1])
    for change, message in (
        ({"label_party": "nobody"}, "label_party"),
        ({"labels": np.zeros(60, dtype=np.int64)}, "no labels"),
        ({"steps": ()}, "at least one step"),
        ({"steps": view.steps[::-1]}, "in order"),
        ({"equations": (broken,)}, "sums of step 0 has shape"),
        ({"equations": view.equations[:1] * 2}, "one each"),
        ({"approximation": "minimax", "classes": 3}, "(approximation|shape)"),
        ({"features": view.features * np.nan}, "finite"),
        ({"batch_size": 0}, "plan"),
    ):
        with pytest.raises(ViewError, match=message):
            replace(view, **change)
    with pytest.raises(ViewError, match="of the learner installed: give one of linear"):
        _ = replace(view, learner=registry.load("installed")).regression


# --- the papers' data -----------------------------------------------------------------------------------------

DATA = os.environ.get("PLUMBLINE_DATA_DIR")


@pytest.mark.skipif(not DATA, reason="needs the data sets in PLUMBLINE_DATA_DIR")
def test_mnist_01_at_batch_128_and_256() -> None:
    """Batch 128 determines f for every batch; at 256 the pixels' rank is below s (errata)."""
    assert DATA
    dataset = load_dataset("mnist01", Path(DATA), whole_row_unit_norm=True)
    rows = np.random.default_rng(0).permutation(len(dataset.labels))[:1280]
    blocks = np.split(np.rint(dataset.features[rows] * 2**16) / 2**16, 2, axis=1)
    blocks[0] = np.hstack([blocks[0], np.ones((1280, 1))])
    labels = (dataset.labels[rows] == dataset.class_names[1]).astype(np.int64)
    for batch, solvable in ((128, True), (256, False)):
        run = simulate_oracle(
            VerticalData(blocks, labels),
            [np.zeros((block.shape[1], 1)) for block in blocks],
            GradientDescent(BatchSchedule(np.arange(1280), batch, 0), epochs=1, learning_rate=0.01),
            share_step=SHARE_STEP,
        )
        # Lattices find the first batch's labels even so, in ten seconds: not here.
        found = LabelRecovery(squared_norm=2.0, lattice_rows=200).attack(view_of(run, 1))
        if solvable:
            np.testing.assert_array_equal(found.labels, labels)
            assert found.guaranteed.all()
        else:
            assert "lattice_rows allows 200 rows" in found.steps[0].reason
            assert all("repeat what others say" in step.reason for step in found.steps[1:])
            assert all(190 < step.rank < 250 for step in found.steps)


def test_the_sign_search_takes_no_more_memory_than_a_block_where_features_are_zeros_and_ones() -> None:
    """One column of ones and 34 rows: millions of sign vectors have the same sum, and two of them say so."""
    several = sign_solutions(np.ones((20, 1)), np.zeros(1))
    assert len(several) == 2
    assert not np.array_equal(several[0], several[1])
    with pytest.raises(TooManyCandidates, match="sign vectors agree"):
        sign_solutions(np.ones((34, 1)), np.zeros(1))
