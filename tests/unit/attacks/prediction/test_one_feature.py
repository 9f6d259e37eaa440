"""One passive feature in black box: each case by hand, the bounds of the proofs, and what it refuses."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import attacks
from attacks import PredictionView, ViewError
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores


def view_of(observed: Any, own: float = 0.0) -> PredictionView:
    """A view whose log odds are the observed v, plus what the active party's own feature (all 1/2) adds."""
    v = np.asarray(observed, dtype=np.float64)
    return PredictionView(
        features_active=np.full((len(v), 1), 0.5),
        scores=confidence_scores(np.column_stack([np.zeros(len(v)), v + own])),
        weights_active=np.array([[0.0], [2 * own]]),
        passive_features=1,
    )


def estimate(observed: Any, **options: Any) -> FloatArray:
    result: FloatArray = attacks.load("one_feature", **options).reconstruct(view_of(observed, own=1.5))
    assert result.shape == (len(observed), 1)
    return result[:, 0]


@pytest.mark.parametrize(
    ("observed", "options", "expected"),
    [
        ([1.0, 4.0, 2.0], {"case": 1}, [0.25, 1.0, 0.5]),
        ([-1.0, -4.0, 0.0], {"case": 1}, [0.25, 1.0, 0.0]),
        ([2.0, 4.0, 3.0, 2.0], {"case": 2}, [0.0, 1.0, 0.5, 0.0]),
        ([-2.0, -4.0, -3.5], {"case": 2}, [0.0, 1.0, 0.75]),
        # All positive, so b > 0 > omega: the largest v belongs to X = 0.
        ([2.0, 4.0, 3.0], {"case": 3}, [1.0, 0.0, 0.5]),
        ([-2.0, -4.0, -3.5], {"case": 3}, [1.0, 0.0, 0.25]),
        ([-1.0, 3.0, 0.0], {"case": 3}, [0.5, 0.5, 0.5]),
        ([-1.0, 3.0, 0.0], {"case": 3, "omega_sign": "positive"}, [0.0, 1.0, 0.25]),
        ([-1.0, 3.0, 0.0], {"case": 3, "omega_sign": "negative"}, [1.0, 0.0, 0.75]),
        ([2.0, 2.0], {"case": 2}, [0.5, 0.5]),
        ([0.0, 0.0], {"case": 1}, [0.5, 0.5]),
        ([3.0], {"case": 3}, [0.5]),
    ],
)
def test_by_hand(observed: list[float], options: dict[str, Any], expected: list[float]) -> None:
    np.testing.assert_allclose(estimate(observed, **options), expected, atol=1e-9)


@given(st.lists(st.floats(0, 1), min_size=2, max_size=30), st.floats(0.1, 5), st.booleans())
def test_errors_stay_below_the_bounds_of_the_proofs(values: list[float], scale: float, negative: bool) -> None:
    truth = np.array(values)
    omega = -scale if negative else scale
    gap = 1 - truth.max()
    if truth.max() > 1e-3:
        assert ((estimate(omega * truth, case=1) - truth) ** 2).mean() <= gap**2 + 1e-9  # eq. 65
    if truth.max() - truth.min() > 1e-3:
        bound = gap**2 + truth.min() ** 2 + 1e-9
        assert ((estimate(omega * truth + 2 * omega, case=2) - truth) ** 2).mean() <= bound  # eq. 71
        assert ((estimate(omega * truth - 2 * omega, case=3) - truth) ** 2).mean() <= bound


def test_the_error_vanishes_with_the_number_of_predictions() -> None:
    """Rassouli figure 7: case 2, averaged over instances."""
    generator = np.random.default_rng(0)
    errors = []
    for n in (5, 50, 500):
        truths = generator.random((100, n))
        errors.append(np.mean([((estimate(0.98916 * x + 3.048751) - x) ** 2).mean() for x in truths]))
    assert errors[0] > 3 * errors[1] > 9 * errors[2]
    assert errors[2] < 1e-4


def test_saturated_records_are_not_taken_for_extremes() -> None:
    view = view_of([1.0, 3.0, 2.0, 0.0])
    assert view.scores is not None
    scores = view.scores.copy()
    scores[3] = [0.0, 1.0]
    saturated = attacks.load("one_feature", case=2).reconstruct(replace(view, scores=scores))
    np.testing.assert_allclose(saturated[:, 0], [0.0, 1.0, 0.5, 1.0], atol=1e-9)
    only = replace(view, scores=np.tile([0.0, 1.0], (4, 1)))
    assert (attacks.load("one_feature").reconstruct(only) == 0.5).all()


def test_pairs_of_several_classes() -> None:
    truth = np.linspace(0, 1, 5)
    weights, bias = np.array([0.0, 1.0, -3.0]), np.array([0.0, 1.0, 0.0])
    view = PredictionView(
        features_active=np.zeros((5, 1)),
        scores=confidence_scores(truth[:, None] * weights + bias),
        weights_active=np.ones((3, 1)),
        passive_features=1,
    )
    # Row 0: omega = 1, b = 1; row 1: omega = -4, b = -1.
    for pair in (0, 1):
        found = attacks.load("one_feature", case=2, pair=pair).reconstruct(view)
        np.testing.assert_allclose(found[:, 0], truth, atol=1e-9)
    with pytest.raises(ViewError, match="needs 4 classes"):
        attacks.load("one_feature", pair=2).reconstruct(view)


def test_more_than_one_feature_is_refused() -> None:
    view = view_of([1.0, 2.0])
    with pytest.raises(ViewError, match="works on one passive feature, this view has 2"):
        attacks.load("one_feature").reconstruct(replace(view, passive_features=2))
    with pytest.raises(ViewError, match="passive_features"):
        attacks.load("one_feature").reconstruct(replace(view, passive_features=None))


@pytest.mark.parametrize("piece", ["scores", "weights_active"])
def test_missing_pieces(piece: str) -> None:
    with pytest.raises(ViewError, match=f"one_feature needs {piece}"):
        attacks.load("one_feature").reconstruct(replace(view_of([1.0]), **{piece: None}))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"case": 4}, {"omega_sign": "+"}, {"pair": -1}])
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|Expected"):
        attacks.load("one_feature", **options)
