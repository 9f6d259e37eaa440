"""Moved parameters as measurements: what must hold whatever the data, and closed forms that they must meet."""

from typing import Any

import numpy as np
import pytest

from studies.simulation.informed import WITH_RECORDS
from studies.simulation.linear_models import TrainedModel, train
from studies.varasteh.rotation import (
    AS_DISCLOSED,
    AVERAGES,
    CLAMPED,
    HALF,
    MEAN_OF_BOTH,
    NAIVE,
    PREDICTED,
    REPEATS,
    RESCALES,
    distorted_errors,
    secret_errors,
    without_common_row,
)
from vfl.theory.distortion import disclosed_errors
from vfl.theory.prediction import equations, moments


@pytest.fixture(scope="module")
def two() -> TrainedModel:
    return train("breast_cancer", None)


@pytest.fixture(scope="module")
def three() -> TrainedModel:
    return train("wine", None)


def errors(model: TrainedModel, d: int, epsilon: float, **options: Any) -> dict[str, Any]:
    return distorted_errors(model, passive=tuple(range(d)), epsilon=epsilon, records=25, **options)


@pytest.mark.parametrize(("d", "case"), [(1, "iii"), (2, "ii"), (5, "i")])
def test_more_classes_have_their_case_and_meet_epsilon(three: TrainedModel, d: int, case: str) -> None:
    found = errors(three, d, 0.1)
    assert (found["case"], found["classes"]) == (case, 3)
    assert not found["capped"]
    assert found["reached"] == pytest.approx(0.1, abs=1e-9)
    assert found[CLAMPED] <= found[NAIVE] + 1e-12


def test_without_distortion_the_prediction_is_half_stars_error_in_closed_form(two: TrainedModel) -> None:
    passive = [0, 1, 2]
    matrix = equations(two.weights[:, passive])
    own = moments(two.features_train[:, passive])
    found = errors(two, 3, 0.0)
    assert found["reached"] == 0
    assert found[PREDICTED] == pytest.approx(disclosed_errors(matrix, matrix, own).half_star, rel=1e-9)


def test_one_feature_of_two_classes_is_remark_11(two: TrainedModel) -> None:
    """Both parameters move by the root of epsilon: A shrinks by that share, and estimates grow (eq. 49)."""
    found = errors(two, 1, 0.04)
    assert found[PREDICTED] == pytest.approx(found["second_moment"] * (0.2 / 0.8) ** 2, rel=1e-9)


def test_rotating_by_minus_one_is_the_cap_of_two_features(three: TrainedModel) -> None:
    """R = -I has g = 4 mean squared parameters and the error 4 Tr(K_0) / d (eq. 45)."""
    found = errors(three, 2, 5.0)
    assert found["capped"]
    assert found["reached"] == pytest.approx(4)
    assert found[PREDICTED] == pytest.approx(4 * found["second_moment"], rel=1e-6)


def test_two_classes_lose_more_to_free_parameters_than_to_rotations(two: TrainedModel) -> None:
    for d in (2, 7):
        free, rotated = (errors(two, d, 0.1, case=case) for case in (None, "i"))
        assert (free["case"], rotated["case"]) == ("iv", "i")
        assert free[PREDICTED] >= rotated[PREDICTED] - 1e-12


def test_complete_records_tell_what_was_hidden(three: TrainedModel) -> None:
    """Whatever epsilon was: the regression doesn't look at what was disclosed."""
    few, many = (errors(three, 5, epsilon, informed=True) for epsilon in (0.01, 0.5))
    assert few[WITH_RECORDS] == pytest.approx(many[WITH_RECORDS], abs=1e-9)
    assert many[WITH_RECORDS] < many[NAIVE]


def test_centred_rows_give_the_same_scores(three: TrainedModel) -> None:
    centred = without_common_row(three)
    assert np.abs(centred.weights.sum(axis=0)).max() < 1e-12
    np.testing.assert_allclose(centred.scores, three.scores, atol=1e-12)


def test_secrets_do_not_stop_who_knows_the_range_of_the_feature(two: TrainedModel) -> None:
    found = {
        secret: secret_errors(two, passive=0, epsilon=0.3, secret=secret, draws=5, seed=0)
        for secret in ("none", "sign", "epsilon")
    }
    assert found["none"][REPEATS] < 1e-12
    assert found["epsilon"][REPEATS] > 1e-4
    assert np.ptp([one[RESCALES] for one in found.values()]) < 1e-9
    assert found["none"][RESCALES] < found["none"][AS_DISCLOSED]


def test_averaging_both_signs_errs_half_as_much_as_both_do(two: TrainedModel) -> None:
    """x and -x: their average is 0, which errs by E[x^2]; they err by 0 and by 4 E[x^2]."""
    found = secret_errors(two, passive=0, epsilon=0.3, secret="none", draws=1, seed=0)  # noqa: S106 - no password
    second_moment = float(np.mean(two.features[:, 0] ** 2))
    assert found[AVERAGES] == pytest.approx(second_moment)
    assert found[MEAN_OF_BOTH] == pytest.approx(2 * second_moment, rel=1e-6)
    assert found[HALF] == pytest.approx(float(np.mean((two.features[:, 0] - 0.5) ** 2)))
