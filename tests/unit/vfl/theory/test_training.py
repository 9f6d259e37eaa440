"""Hu's thresholds by hand and by simulation, the residuals' properties, and the counts of section 5.2."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.simulation.error_theory import exact_epochs
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, initial_weights
from vfl.learning.linear.reference import train_centrally
from vfl.theory.training import (
    APPROXIMATIONS,
    TURNING_POINT,
    Approximation,
    OracleRun,
    copies,
    gradient_scale,
    guaranteed_steps,
    initial_product_bound,
    minimax_polynomial,
    minimax_product,
    residual,
    sign_threshold,
    simulate_oracle,
    solvable,
    sortable_epochs,
    sum_bits,
)


def test_guaranteed_steps_by_hand() -> None:
    # log 2 / log 1.0025 = 277.6
    assert guaranteed_steps(0.01, 0.0) == 278
    # A bias beside a unit-norm row doubles ||x||^2: log 2 / log 1.005 = 138.98
    assert guaranteed_steps(0.01, 0.0, squared_norm=2.0) == 139
    # log(4/3) / log 1.0025 = 115.2
    assert guaranteed_steps(0.01, 1.0) == 116
    # Theorem E.3: log(5.2/2) / log 1.0025 = 382.7
    assert guaranteed_steps(0.01, 0.0, approximation="minimax") == 383
    assert guaranteed_steps(0.01, 2.0) == 0
    assert guaranteed_steps(0.01, 2.0, approximation="minimax") > 0


def test_guarantee_is_sharp_in_the_worst_case() -> None:
    """One record of norm 1 with a wrong sign grows as fast as Lemma 4.4 allows: valid at T, not at T + 1."""
    eta, z = 0.1, 1.0
    steps = 0
    while z < 2:
        steps += 1
        z += eta / 4 * (z + 2)
    assert guaranteed_steps(eta, 1.0) == steps


@pytest.mark.parametrize(
    ("approximation", "classes"), [("first_order", 2), ("first_order", 3), ("first_order", 5), ("minimax", 2)]
)
def test_signs_are_right_for_the_guaranteed_steps(approximation: Approximation, classes: int) -> None:
    run = _run(approximation=approximation, classes=classes, epochs=6, learning_rate=0.3)
    bound = np.abs(np.sum(_centred(run, 0), axis=0)).max()
    limit = guaranteed_steps(0.3, bound, approximation=approximation, classes=classes)
    assert limit > 2
    for step in run.steps[:limit]:
        guess = (step.residual[:, 0] < 0) if classes == 2 else step.residual.argmin(axis=1)
        np.testing.assert_array_equal(guess, run.labels[step.rows])


def test_initial_bound_holds() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(200, 30))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    for kind in ("zero", "xavier", "kaiming", "normal"):
        bound = initial_product_bound(kind, 30, 200, failure=0.01)
        broken = 0
        for _ in range(100):
            theta = initial_weights(kind, 30, 1, total_features=30, generator=generator)
            broken += bool(np.abs(features @ theta).max() > bound)
        assert broken <= 3
    with pytest.raises(ValueError, match="Choose one of"):
        initial_product_bound("ones", 30, 200, failure=0.01)


def test_minimax_facts_of_appendix_e() -> None:
    inside = np.linspace(-3.1999, 3.1999, 1001)
    assert np.abs(minimax_polynomial(inside)).max() < 0.5
    assert minimax_polynomial(np.array(3.21)) > 0.5
    assert pytest.approx(math.sqrt(197 / 12)) == TURNING_POINT
    z = np.linspace(-TURNING_POINT, TURNING_POINT, 101)
    np.testing.assert_allclose(minimax_product(minimax_polynomial(z)), z, atol=1e-6)
    assert np.isnan(minimax_product(np.array([0.54, -0.54]))).all()


@given(z=st.floats(-6, 6), label=st.integers(0, 1))
def test_piecewise_residual(z: float, label: int) -> None:
    (f,) = residual("piecewise", np.array([[z]]), np.array([label]))[0]
    y = 2 * label - 1
    if f != 0:
        assert np.sign(f) == -y  # (146)-(147)
    else:
        assert y * z >= 0.5  # (148)
    if 0 < abs(f) < 1:
        assert f + y / 2 == pytest.approx(z, abs=1e-12)


@given(z=st.floats(-4, 4), label=st.integers(0, 1), approximation=st.sampled_from(APPROXIMATIONS))
def test_residuals_approximate_the_gradient(z: float, label: int, approximation: Approximation) -> None:
    """scale * f is (S(y z) - 1) y up to the approximation's error."""
    f = residual(approximation, np.array([[z]]), np.array([label]))[0, 0] * gradient_scale(approximation, 1)
    y = 2 * label - 1
    truth = (1 / (1 + math.exp(-y * z)) - 1) * y
    # The Taylor remainder; the cubic's largest error on [-5, 5]; 1 - S(1/2).
    errors = {"first_order": abs(z) ** 3 / 48, "minimax": 0.07, "piecewise": 0.378}
    assert abs(f - truth) <= errors[approximation] + 1e-12


def test_approximations_are_refused_where_undefined() -> None:
    with pytest.raises(ValueError, match="2 classes"):
        residual("minimax", np.zeros((1, 3)), np.zeros(1, dtype=np.int64), 3)
    with pytest.raises(ValueError, match="no threshold"):
        sign_threshold("piecewise")
    with pytest.raises(ValueError, match="Choose one of"):
        residual("taylor", np.zeros((1, 1)), np.zeros(1, dtype=np.int64))  # type: ignore[arg-type]


def test_simulation_is_the_reference_training() -> None:
    for classes in (2, 4):
        run = _run(classes=classes, epochs=3, learning_rate=0.1, l2=0.01)
        expected = train_centrally(
            VerticalData(run.blocks, run.labels, classes=classes),
            run.steps[0].weights,
            GradientDescent(BatchSchedule(np.arange(40), 8, 0), epochs=3, learning_rate=0.1),
            l2=0.01,
        )
        for ours, theirs in zip(run.weights, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_sortable_epochs() -> None:
    assert [sortable_epochs(m) for m in (1, 2, 3, 4, 5, 8, 9, 99)] == [1, 2, 3, 3, 4, 4, 5, 8]
    assert exact_epochs(1) == 2
    with pytest.raises(ValueError, match="batches"):
        sortable_epochs(0)


@pytest.mark.parametrize(("batches", "size"), [(2, 2), (2, 3), (3, 2)])
def test_regrouping_probability(batches: int, size: int) -> None:
    """P(a batch is regrouped into one batch) = m / C(ms, s), by enumeration; eq. 78 gives 1 / C(ms, s)."""
    n = batches * size
    hits = sum(
        any(set(order[b * size : (b + 1) * size]) == set(range(size)) for b in range(batches))
        for order in itertools.permutations(range(n))
    )
    assert hits / math.factorial(n) == pytest.approx(batches / math.comb(n, size))


def test_schedules_sort_as_often_as_the_bound_says() -> None:
    batches, size, trials = 8, 4, 300
    failures = 0
    for seed in range(trials):
        schedule = BatchSchedule(np.arange(batches * size), size, seed)
        group = np.arange(batches * size)
        for epoch in range(sortable_epochs(batches)):
            for rows in schedule.epoch(epoch):
                group[np.isin(group, group[rows])] = group[rows[0]]
        failures += len(np.unique(group)) > 1
    # 2 / m^(s-2): one power of m more than eq. 79, since (78) misses a factor, as the test above shows.
    assert failures / trials <= 2 * batches ** (2.0 - size)


@given(
    rows=st.integers(1, 1000),
    residual_bits=st.integers(1, 39),
    feature_bits=st.integers(1, 20),
    sign=st.sampled_from([-1, 1]),
)
def test_sum_bits_hold_every_sum(rows: int, residual_bits: int, feature_bits: int, sign: int) -> None:
    bits = sum_bits(rows, 1 << residual_bits, 1 << feature_bits)
    worst = sign * rows * ((1 << residual_bits) - 1) * (1 << feature_bits)
    assert -(1 << bits - 1) <= worst < 1 << bits - 1


def test_copies() -> None:
    assert copies(2048, 64) == 31
    assert copies(512, 64) == 7
    # This project's formats: 256 rows fit the paper's 64 bits, 257 don't.
    assert sum_bits(256, 1 << 39, 1 << 16) == 64
    assert sum_bits(257, 1 << 39, 1 << 16) == 65
    assert solvable(372, 12, 31)
    assert not solvable(373, 12, 31)
    with pytest.raises(ValueError, match="iota"):
        copies(512, 512)


@given(epsilon=st.floats(0, 1.99), eta=st.floats(0.001, 1), norm=st.floats(0.1, 4))
def test_guarantee_shrinks(epsilon: float, eta: float, norm: float) -> None:
    steps = guaranteed_steps(eta, epsilon, squared_norm=norm)
    assert steps >= 1
    assert guaranteed_steps(eta, epsilon, squared_norm=2 * norm) <= steps
    assert guaranteed_steps(eta, min(epsilon + 0.5, 5), squared_norm=norm) <= steps
    with pytest.raises(ValueError, match="learning_rate"):
        guaranteed_steps(0.0, epsilon)


def _run(
    *,
    approximation: Approximation = "first_order",
    classes: int = 2,
    epochs: int,
    learning_rate: float,
    l2: float = 0.0,
) -> OracleRun:
    generator = np.random.default_rng(5)
    features = generator.normal(size=(40, 12))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    blocks = np.split(features, [5], axis=1)
    columns = 1 if classes == 2 else classes
    weights = [generator.normal(size=(block.shape[1], columns)) / 5 for block in blocks]
    return simulate_oracle(
        VerticalData(blocks, generator.integers(0, classes, 40), classes=classes),
        weights,
        GradientDescent(BatchSchedule(np.arange(40), 8, 0), epochs=epochs, learning_rate=learning_rate),
        approximation=approximation,
        l2=l2,
    )


def _centred(run: OracleRun, step: int) -> list[np.ndarray]:
    """Per party, all rows' products at a step, centred over classes where there are several."""
    products = [block @ theta for block, theta in zip(run.blocks, run.steps[step].weights, strict=True)]
    return [z - z.mean(axis=1, keepdims=True) if z.shape[1] > 1 else z for z in products]
