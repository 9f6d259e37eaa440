"""Slopes and intercepts that are fitted to scores: known answers, bounds, and never worse than before."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vfl.arrays import FloatArray, IntArray
from vfl.learning import LinearPart, confidence_scores, log_loss
from vfl.learning.calibration import Calibration, fitted
from vfl.learning.networks import DenseNetwork


def frequencies(probabilities: FloatArray, *, of_each: int = 1_000) -> tuple[IntArray, IntArray]:
    """Rows and labels of records whose classes come as often as (n, k) probabilities say."""
    counts = np.rint(of_each * probabilities).astype(np.int64)
    rows, classes = np.indices(counts.shape)
    return np.repeat(rows.ravel(), counts.ravel()), np.repeat(classes.ravel(), counts.ravel())


@pytest.mark.parametrize(("steepness", "slope"), [(2.0, 0.5), (0.25, 4.0), (1.0, 1.0)])
def test_two_classes_whose_logits_are_too_steep_are_fitted_to_the_inverse(steepness: float, slope: float) -> None:
    logits = np.linspace(-3, 3, 41)[:, None]
    rows, labels = frequencies(confidence_scores(logits + 0.7))
    fit = fitted(confidence_scores(steepness * logits[rows]), labels)
    assert fit is not None
    assert fit.slope == slope
    np.testing.assert_allclose(fit.intercepts, [-0.35, 0.35], atol=2e-3)
    assert fit.intercepts[0] == -fit.intercepts[1]
    assert fit.loss == pytest.approx(log_loss(confidence_scores(logits + 0.7)[rows], labels), abs=1e-4)


def test_many_classes_share_a_slope_and_have_an_intercept_each() -> None:
    logits = np.random.default_rng(0).normal(size=(60, 4))
    shift = np.array([0.5, -0.25, 0.0, -0.25])
    rows, labels = frequencies(confidence_scores(logits + shift))
    fit = fitted(confidence_scores(2 * logits[rows]), labels)
    assert fit is not None
    assert fit.slope == 0.5
    np.testing.assert_allclose(fit.intercepts, shift, atol=5e-3)


def test_a_class_with_few_records_has_all_classes_go_without_an_intercept() -> None:
    logits = np.random.default_rng(1).normal(size=(200, 3))
    labels = np.random.default_rng(2).permutation([0] * 100 + [1] * 91 + [2] * 9)
    fit = fitted(confidence_scores(3 * logits + 2 * np.eye(3)[labels]), labels)
    assert fit is not None
    assert fit.intercepts == ()
    assert fit.slope < 1


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        pytest.param(np.linspace(-1, 1, 49), np.arange(49) % 2, id="49 records"),
        pytest.param(np.linspace(-1, 1, 60), np.ones(60, dtype=np.int64), id="one class"),
        pytest.param(np.zeros(60), np.arange(60) % 2, id="all the same"),
        pytest.param(np.linspace(-900, 900, 60), np.arange(60) % 2, id="scores of 0, whose logits nobody knows"),
        pytest.param(np.linspace(-1, 1, 60), (np.arange(60) < 30).astype(np.int64), id="the wrong way round"),
    ],
)
def test_what_cant_be_fitted_stays_as_it_is(logits: FloatArray, labels: IntArray) -> None:
    assert fitted(confidence_scores(logits[:, None]), labels) is None


@pytest.mark.parametrize("length", [1e-9, 1.0, 1e3])
def test_classes_that_can_be_separated_have_a_slope_within_its_range(length: float) -> None:
    logits = length * np.linspace(-1, 1, 60)[:, None]
    labels = (logits[:, 0] > 0).astype(np.int64)
    fit = fitted(confidence_scores(logits), labels)
    assert (fit is None) == (length == 1e3), "nothing is better than scores that are sure of what is so"
    assert fit is None or (1 / 16 <= fit.slope < 16 and np.isfinite(fit.intercepts).all())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    classes=st.integers(2, 5),
    records=st.integers(50, 120),
    length=st.floats(-4, 3).map(lambda power: 10.0**power),
    told=st.floats(-1, 1),
)
def test_no_fit_is_worse_than_none(seed: int, classes: int, records: int, length: float, told: float) -> None:
    generator = np.random.default_rng(seed)
    labels = generator.integers(classes, size=records)
    logits = length * (told * np.eye(classes)[labels] + generator.normal(size=(records, classes)))
    scores = confidence_scores(logits)
    fit = fitted(scores, labels)
    if fit is not None:
        assert fit.loss < log_loss(scores, labels)
        assert 1 / 16 <= fit.slope < 16
        assert log_loss(fit.scores(np.log(scores)), labels) == pytest.approx(fit.loss)


@pytest.mark.parametrize(("columns", "intercepts"), [(1, (-0.3, 0.3)), (3, (0.1, 0.2, -0.3))])
def test_scaled_parts_score_as_scaled_logits(columns: int, intercepts: tuple[float, ...]) -> None:
    """sigmoid(slope z + intercept), whichever party adds what."""
    generator = np.random.default_rng(5)
    own = np.hstack([generator.normal(size=(30, 2)), np.ones((30, 1))])
    other = generator.normal(size=(30, 4))
    parts = LinearPart(generator.normal(size=(3, columns))), LinearPart(generator.normal(size=(4, columns)))
    logits = parts[0].shares(own) + parts[1].shares(other)
    told = Calibration(step=17)
    fit = Calibration(17, intercepts)
    calibrated = fit.part_of(parts[0]).shares(own) + told.part_of(parts[1]).shares(other)
    added = np.array([intercepts[1] - intercepts[0]]) if columns == 1 else np.array(intercepts)
    np.testing.assert_allclose(calibrated, fit.slope * logits + added, atol=1e-12)
    rows = np.hstack([-logits / 2, logits / 2]) if columns == 1 else logits
    np.testing.assert_allclose(confidence_scores(calibrated), fit.scores(rows), atol=1e-12)


def test_slopes_are_eight_bits() -> None:
    assert [Calibration(step).slope for step in (-128, -32, 0, 32)] == [1 / 16, 0.5, 1.0, 2.0]
    assert 15 < Calibration(127).slope < 16
    for step in (-129, 128):
        with pytest.raises(ValueError, match="from -128 to 127"):
            Calibration(step)
    assert math.isnan(Calibration().loss)


def test_a_part_without_class_rows_is_refused() -> None:
    network = DenseNetwork((np.ones((2, 3)), np.ones((3, 2))), (np.zeros(3), np.zeros(2)), "tanh")
    with pytest.raises(ValueError, match="class rows"):
        Calibration(1).part_of(network)
