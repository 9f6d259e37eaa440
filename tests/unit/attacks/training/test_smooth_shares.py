"""Smooth shares from sums: the same numbers as dense algebra, and movements that are the weights' own."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.training.smooth_shares import SmoothPrior, SmoothSums, SumsReader, best_basis, own_movement, time_bases
from attacks.training_views import TrainingView
from attacks.views import ViewError
from tests.harness.listening import planted, trained, view_of

PRIOR_VARIANCE = 4.0


def sums_of(view: TrainingView, functions: np.ndarray) -> SmoothSums:
    return SmoothSums(view, view.equations, functions)


def matrix_of(sums: SmoothSums, columns: int = 1) -> np.ndarray:
    """A, column by column."""
    size = sums.records * sums.functions
    units = np.eye(size).reshape(size, sums.records, 1, sums.functions)
    return np.column_stack([sums.predicted(unit)[:, 0] for unit in units])


@pytest.mark.parametrize("batch", [10, 40])
@pytest.mark.parametrize("own_moments", [False, True])
def test_own_movements_are_those_of_the_weights(batch: int, own_moments: bool) -> None:
    run = planted(rows=40, batch=batch, parties=(4, 5), epochs=4, initialisation="xavier", own_moments=own_moments)
    moved = own_movement(view_of(run, 1, "xavier"))
    truth = np.array([(step.weights[1] - run.steps[0].weights[1]).ravel() for step in run.steps])
    assert np.abs(moved - truth).max() < 1e-7


def test_functions_of_time_begin_at_nothing_but_the_constant() -> None:
    for functions in time_bases(view_of(planted(parties=(4, 5)), 1)).values():
        assert (functions[0, 1:] == 0).all()
        assert (functions[:, 0] == 1).all()
        assert (functions**2).mean(axis=0) == pytest.approx(1.0)


@given(rows=st.integers(6, 30), width=st.integers(1, 5), seed=st.integers(0, 50))
def test_what_is_gathered_is_the_transpose_of_what_is_predicted(rows: int, width: int, seed: int) -> None:
    view = view_of(planted(rows=rows, batch=4, parties=(3, width), seed=seed, initialisation="normal"), 1)
    sums = sums_of(view, next(iter(time_bases(view).values())))
    generator = np.random.default_rng(seed)
    coefficients = generator.normal(size=(rows, 2, sums.functions))
    values = generator.normal(size=(len(sums.values), 2))
    there, back = (sums.predicted(coefficients) * values).sum(), (sums.gathered(values) * coefficients).sum()
    assert there == pytest.approx(back, rel=1e-9, abs=1e-9)


@pytest.mark.slow("dense algebra is what it is compared with")
def test_posterior_means_and_variances_are_those_of_dense_algebra() -> None:
    view = view_of(planted(rows=30, batch=6, parties=(4, 5), epochs=6, initialisation="xavier"), 1, "xavier")
    functions = time_bases(view)["3 own movements"]
    sums = sums_of(view, functions)
    r = functions.shape[1]
    spread = np.diag([0.2, 0.5, 0.1, 0.05])
    spread[0, 1] = spread[1, 0] = 0.1
    generator = np.random.default_rng(0)
    terms, mean = generator.normal(size=(30, 1)), generator.normal(size=(1, r))
    prior = SmoothPrior(terms, PRIOR_VARIANCE, mean, spread, 0.01)
    found = SumsReader(sums, 1, generator, draws=400).condition(prior, 1e-9)
    matrix, whole = matrix_of(sums), spread.copy()
    whole[0, 0] += PRIOR_VARIANCE
    covariance = np.kron(np.eye(30), whole)
    gain = covariance @ matrix.T @ np.linalg.inv(matrix @ covariance @ matrix.T + 0.01 * np.eye(len(matrix)))
    centre = np.repeat(mean, 30, axis=0) + np.column_stack([terms, np.zeros((30, r - 1))])
    told = (gain @ (sums.values[:, 0] - matrix @ centre.ravel())).reshape(30, r)
    left = (np.eye(30 * r) - gain @ matrix) @ covariance
    by_term = PRIOR_VARIANCE * np.linalg.inv(whole)[0]
    assert found.terms[:, 0] == pytest.approx(terms[:, 0] + told @ by_term, abs=1e-5)
    of_terms = [by_term @ left[i * r : i * r + r, i * r : i * r + r] @ by_term for i in range(30)]
    exact = np.mean(of_terms) + PRIOR_VARIANCE - PRIOR_VARIANCE * by_term[0]
    assert found.term_variance == pytest.approx(exact, rel=0.05)


def test_a_second_look_from_where_the_first_ended_is_the_same_as_a_fresh_one() -> None:
    view = view_of(planted(rows=30, batch=6, parties=(4, 5), epochs=6, initialisation="xavier"), 1, "xavier")
    sums = sums_of(view, time_bases(view)["3 own movements"])
    first = SmoothPrior(np.zeros((30, 1)), PRIOR_VARIANCE, np.zeros((1, 4)), np.eye(4), 0.1)
    second = SmoothPrior(np.ones((30, 1)), 1.0, np.ones((1, 4)), 0.5 * np.eye(4), 0.01)
    warm, cold = (SumsReader(sums, 1, np.random.default_rng(0), draws=3) for _ in range(2))
    warm.condition(first, 1e-9)
    ahead, afresh = warm.condition(second, 1e-9), cold.condition(second, 1e-9)
    assert ahead.terms == pytest.approx(afresh.terms, abs=1e-5)
    assert ahead.second_moments == pytest.approx(afresh.second_moments, abs=1e-5)


def test_steps_of_the_same_rows_are_one_block_and_tell_what_they_told_one_by_one() -> None:
    run = trained(epochs=12, batch=20, reshuffled=False, rows=np.arange(60))
    view = view_of(run, 1, "xavier")
    turned = [replace(one, rows=np.roll(one.rows, one.step)) for one in view.equations]  # no two alike, the same sums
    functions = time_bases(view)["3 own movements"]
    blocks, alone = sums_of(view, functions), SmoothSums(view, turned, functions)
    assert len(blocks.values) == len(alone.values) * 4 / 12
    assert blocks.count == alone.count
    prior = SmoothPrior(np.zeros((60, 1)), PRIOR_VARIANCE, np.zeros((1, 4)), np.eye(4), 1.0)
    found, told = (
        SumsReader(one, 1, np.random.default_rng(0), draws=20).condition(prior, 1e-7) for one in (blocks, alone)
    )
    assert found.terms == pytest.approx(told.terms, abs=1e-5)
    assert found.rest == pytest.approx(told.rest, abs=1e-5)
    assert found.noise == pytest.approx(told.noise, rel=0.1)
    chosen, likewise = (best_basis(view, one, PRIOR_VARIANCE) for one in (view.equations, turned))
    assert chosen.name == likewise.name
    assert chosen.missed == pytest.approx(likewise.missed, rel=1e-3)


def test_steps_left_out_choose_functions_that_fit() -> None:
    view = view_of(planted(rows=60, batch=10, parties=(4, 5), epochs=20, initialisation="xavier"), 1, "xavier")
    assert best_basis(view, view.equations, PRIOR_VARIANCE).missed < 0.5


def test_features_of_nothing_but_zeros_are_refused_in_a_sentence() -> None:
    run = planted(parties=(4, 2))
    run.blocks[1][:] = 0
    view = view_of(run, 1)
    with pytest.raises(ViewError, match="all 0"):
        sums_of(view, np.ones((len(view.steps), 1)))
