"""parameter_rotation: what each secret discloses, what repeats, what is refused, and what it does not stop."""

import sys
from subprocess import run

import numpy as np
import pytest

import defences
from defences.distortion import distort
from defences.parameter_rotation import ParameterRotation
from tests.harness.distortions import attacked, model, rotation
from vfl.arrays import FloatArray


@pytest.mark.parametrize("secret", ["none", "sign", "epsilon"])
@pytest.mark.parametrize(("k", "d"), [(4, 1), (2, 3), (3, 4)])
def test_a_seed_repeats(secret: str, k: int, d: int) -> None:
    weights, features = model(1, k, d)
    defence = rotation(secret)
    first, second = (defence.disclose(weights, features, defences.NoiseSource(5)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert first.shape == weights.shape


def test_the_relative_epsilon_is_of_the_mean_squared_parameter() -> None:
    weights, features = model(1, 2, 4)
    for defence in (
        rotation("none", epsilon=0.3),
        rotation("none", epsilon=0.3 * float(np.mean(weights**2)), relative=False),
    ):
        disclosed = defence.disclose(weights, features, defences.NoiseSource(0))
        assert np.mean((disclosed - weights) ** 2) == pytest.approx(0.3 * np.mean(weights**2))


def test_a_secret_sign_is_the_optimum_or_the_truth_with_equal_chances() -> None:
    weights, features = model(1, 5, 3)
    defence = rotation("sign", epsilon=None)
    drawn = [defence.disclose(weights, features, defences.NoiseSource(seed)) for seed in range(400)]
    signs = np.array([float(np.sign(np.sum(disclosed * weights))) for disclosed in drawn])
    assert all(np.allclose(disclosed, sign * weights) for disclosed, sign in zip(drawn, signs, strict=True))
    assert 150 < (signs > 0).sum() < 250


@pytest.mark.parametrize("epsilon", [0.4, 50.0])
def test_a_secret_epsilon_is_uniform_below_what_makes_sense(epsilon: float) -> None:
    weights, features = model(1, 2, 3)
    most = min(epsilon * float(np.mean(weights**2)), distort(weights, features, None).epsilon)
    defence = ParameterRotation(epsilon=epsilon)
    drawn = [defence.disclose(weights, features, defences.NoiseSource(seed)) for seed in range(400)]
    shares = np.array([np.mean((disclosed - weights) ** 2) for disclosed in drawn]) / most
    assert shares.max() < 1
    np.testing.assert_allclose(np.quantile(shares, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.08)


def test_the_system_draws_another_epsilon_each_time() -> None:
    weights, features = model(1, 2, 3)
    drawn = [ParameterRotation().disclose(weights, features, defences.NoiseSource()) for _ in range(2)]
    assert not np.allclose(drawn[0], drawn[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "Expected epsilon to be a positive number or None, got 0"),
        ({"epsilon": float("nan")}, "Expected epsilon to be a positive number or None, got nan"),
        ({"secret": "rotation"}, "expected secret to be one of none, sign, epsilon, got 'rotation'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float | str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        defences.load("parameter_rotation", **options)


def test_what_does_not_fit_is_refused() -> None:
    weights, features = model(0, 3, 4)
    for bad, message in (
        (4 * features - 2, "scale them with the min-max encoder"),
        (features[:, :3], "for linear models"),
        (features[:0], "Expected features of shape"),
    ):
        with pytest.raises(defences.DefenceError, match=message):
            ParameterRotation().disclose(weights, bad, defences.NoiseSource(0))
    with pytest.raises(defences.DefenceError, match="NaN or infinity"):
        distort(weights * np.nan, features, 0.1)
    with pytest.raises(defences.DefenceError, match="Expected epsilon to be 0 or more"):
        distort(weights, features, -1.0)
    with pytest.raises(defences.DefenceError, match="Case iv is not for 3 classes and 4 features"):
        distort(weights, features, 0.1, case="iv")


def test_the_attacker_that_has_complete_records_is_not_stopped() -> None:
    """What the docstring admits: d records tell A by regression."""
    weights, features = model(0, 4, 3)
    known = features[:3]
    recovered: FloatArray = (np.linalg.pinv(known) @ (known @ weights.T)).T
    assert attacked("half_star", weights, recovered, features) < 1e-12


def test_services_that_do_not_rotate_start_without_pymanopt_and_torch() -> None:
    program = (
        "import sys, defences; defences.load('parameter_rotation'); defences.load('feature_transform');"
        "sys.exit(any(name in sys.modules for name in ('pymanopt', 'torch')))"
    )
    assert run([sys.executable, "-c", program], check=False).returncode == 0
