"""The residual shares against what they approximate: expansions and losses differentiated numerically."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vfl.arrays import FloatArray, IntArray
from vfl.learning import ResidualScheme, confidence_scores, log_loss


def softmax(logits: FloatArray) -> FloatArray:
    exponentials = np.exp(logits)
    total: FloatArray = exponentials / exponentials.sum()
    return total


def numerical_jacobian_at_zero(classes: int) -> FloatArray:
    """d softmax_c / d z_j at z = 0 by central differences: (classes, classes)."""
    step = 1e-5
    columns = [(softmax(step * unit) - softmax(-step * unit)) / (2 * step) for unit in np.eye(classes)]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("classes", [3, 4, 7])
def test_the_multiclass_residual_is_the_first_order_expansion_of_softmax_minus_the_label(classes: int) -> None:
    generator = np.random.default_rng(classes)
    products = generator.normal(size=(20, classes))
    labels = generator.integers(classes, size=20)

    residual = ResidualScheme(classes).active_share(products, labels)

    jacobian = numerical_jacobian_at_zero(classes)
    expected = np.stack([1 / classes + jacobian @ z for z in products]) - np.eye(classes)[labels]
    np.testing.assert_allclose(residual / classes, expected, atol=1e-9)


def test_the_binary_residual_is_the_first_order_expansion_of_the_sigmoid_minus_the_label() -> None:
    products = np.linspace(-2, 2, 9)[:, None]
    labels = np.arange(9) % 2

    residual = ResidualScheme(2).active_share(products, labels)

    step = 1e-5
    slope = (1 / (1 + np.exp(-step)) - 1 / (1 + np.exp(step))) / (2 * step)
    np.testing.assert_allclose(residual / 4, 0.5 + slope * products - labels[:, None], atol=1e-9)


def test_two_classes_of_the_multiclass_formula_are_hus_binary_residual_shared_by_two_columns() -> None:
    def multiclass(products: FloatArray, labels: IntArray, classes: int) -> FloatArray:
        centred: FloatArray = products - products.mean(axis=1, keepdims=True)
        return centred + 1.0 - classes * np.eye(classes)[labels]

    generator = np.random.default_rng(0)
    three, labels = generator.normal(size=(8, 3)), generator.integers(3, size=8)
    np.testing.assert_allclose(ResidualScheme(3).active_share(three, labels), multiclass(three, labels, 3))

    two, labels = generator.normal(size=(8, 2)), generator.integers(2, size=8)
    hu = ResidualScheme(2).active_share(two[:, 1:] - two[:, :1], labels)
    np.testing.assert_allclose(multiclass(two, labels, 2), np.hstack([-hu, hu]) / 2)


def expanded_loss(products: FloatArray, labels: IntArray, classes: int) -> float:
    """The cross-entropy, expanded to second order at 0, mean over rows."""
    logits = np.hstack([-products / 2, products / 2]) if classes == 2 else products
    mean = logits.mean(axis=1)
    variance = ((logits - mean[:, None]) ** 2).mean(axis=1)
    return float((np.log(classes) + mean + variance / 2 - logits[np.arange(len(labels)), labels]).mean())


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_the_gradient_is_that_of_the_expanded_loss(classes: int) -> None:
    generator = np.random.default_rng(classes)
    scheme = ResidualScheme(classes)
    features = generator.uniform(size=(11, 4))
    theta = generator.normal(size=(4, scheme.columns))
    labels = generator.integers(classes, size=11)

    residual = scheme.active_share(features @ theta, labels)
    gradient = scheme.gradient_scale(len(features)) * features.T @ residual

    numerical = np.empty_like(theta)
    for index in np.ndindex(theta.shape):
        change = np.zeros_like(theta)
        change[index] = 1e-4
        above = expanded_loss(features @ (theta + change), labels, classes)
        below = expanded_loss(features @ (theta - change), labels, classes)
        numerical[index] = (above - below) / 2e-4
    np.testing.assert_allclose(gradient, numerical, atol=1e-8)


@given(
    classes=st.integers(2, 6),
    parties=st.integers(2, 4),
    rows=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
def test_shares_of_the_residual_add_up_to_the_residual_of_the_sum(
    classes: int, parties: int, rows: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    scheme = ResidualScheme(classes)
    products = generator.normal(size=(parties, rows, scheme.columns))
    labels = generator.integers(classes, size=rows)
    shares = scheme.active_share(products[0], labels) + sum(scheme.passive_share(part) for part in products[1:])
    np.testing.assert_allclose(shares, scheme.active_share(products.sum(axis=0), labels), atol=1e-12)


@pytest.mark.parametrize("classes", [-1, 0, 1])
def test_fewer_than_two_classes_are_refused(classes: int) -> None:
    with pytest.raises(ValueError, match="at least 2 classes"):
        ResidualScheme(classes)


@given(
    products=st.sampled_from([1, 3, 4]).flatmap(
        lambda columns: arrays(np.float64, (5, columns), elements=st.floats(-1e4, 1e4))
    )
)
def test_confidence_scores_are_probabilities_that_sum_to_one(products: FloatArray) -> None:
    scores = confidence_scores(products)
    assert scores.shape == (5, max(2, products.shape[1]))
    assert ((scores >= 0) & (scores <= 1)).all()
    np.testing.assert_allclose(scores.sum(axis=1), 1.0, atol=1e-12)


def test_a_binary_score_is_the_sigmoid_of_the_product() -> None:
    products = np.array([[-3.0], [0.0], [1.5]])
    np.testing.assert_allclose(confidence_scores(products)[:, 1:], 1 / (1 + np.exp(-products)), rtol=1e-14)


def test_log_loss_is_the_mean_negative_log_likelihood_and_finite_for_a_score_of_zero() -> None:
    scores = np.array([[0.25, 0.75], [0.5, 0.5]])
    assert log_loss(scores, np.array([1, 0])) == pytest.approx(-(np.log(0.75) + np.log(0.5)) / 2)
    assert log_loss(np.array([[0.0, 1.0]]), np.array([0])) == pytest.approx(-np.log(1e-15))
