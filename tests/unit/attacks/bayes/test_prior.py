"""The priors of the first three levels of knowledge, and what is said where a piece is missing."""

import numpy as np
import pytest

import attacks
from attacks.bayes.prior import from_covariance, from_marginals, from_nothing


def view_of(moments: attacks.PassiveMoments | None = None) -> attacks.PredictionView:
    return attacks.PredictionView(features_active=np.zeros((2, 1)), passive_features=2, moments=moments)


MOMENTS = attacks.PassiveMoments(
    mean=np.array([0.2, 0.5]),
    variance=np.array([0.01, 0.25]),
    covariance=np.array([[0.01, 0.02], [0.02, 0.25]]),
    supports=(None, np.array([0.0, 1.0])),
    frequencies=(None, np.array([0.5, 0.5])),
)


def test_nothing_is_uniform() -> None:
    belief = from_nothing(view_of(MOMENTS))
    np.testing.assert_array_equal(belief.gaussian.mean, np.full((2, 2), 0.5))
    np.testing.assert_allclose(belief.gaussian.covariance, np.eye(2) / 12)
    assert belief.categories == ()


def test_marginals_know_no_covariance_and_covariance_does() -> None:
    for belief, across in ((from_marginals(view_of(MOMENTS)), 0.0), (from_covariance(view_of(MOMENTS)), 0.02)):
        np.testing.assert_array_equal(belief.gaussian.mean, [[0.2, 0.5]] * 2)
        np.testing.assert_allclose(belief.gaussian.covariance, [[0.01, across], [across, 0.25]])
        assert [category.columns.tolist() for category in belief.categories] == [[1]]


def test_what_is_missing_is_said_with_what_to_do() -> None:
    with pytest.raises(attacks.ViewError, match=r"prior mean needs .* give them, or take prior=half"):
        from_marginals(view_of())
    with pytest.raises(attacks.ViewError, match=r"prior covariance needs .* give them, or take prior=half"):
        from_covariance(view_of())
    with pytest.raises(attacks.ViewError, match="give it, or take prior=mean"):
        from_covariance(view_of(attacks.PassiveMoments(np.zeros(2), np.zeros(2))))


@pytest.mark.parametrize(
    "moments",
    [
        attacks.PassiveMoments(np.zeros(3), np.zeros(3)),
        attacks.PassiveMoments(np.zeros(2), np.zeros(2), supports=(None,), frequencies=(None,)),
        attacks.PassiveMoments(np.zeros(2), np.zeros(2), supports=(None, None)),
        attacks.PassiveMoments(np.zeros(2), np.zeros(2), groups=(np.array([1, 2]),)),
    ],
)
def test_moments_of_other_columns_are_refused(moments: attacks.PassiveMoments) -> None:
    with pytest.raises(attacks.ViewError, match="don't fit the 2 passive columns"):
        from_marginals(view_of(moments))


def test_a_covariance_of_other_columns_is_refused() -> None:
    with pytest.raises(attacks.ViewError, match=r"2 passive columns can't have shape \(1, 1\)"):
        from_covariance(view_of(attacks.PassiveMoments(np.zeros(2), np.zeros(2), np.eye(1))))
