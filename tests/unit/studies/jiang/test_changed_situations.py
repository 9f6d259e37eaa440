"""Attacks after a change: PSI finds the same records, a purifier of real scores is another, made-up records tell."""

import pytest

pytest.importorskip("torch")

from studies.jiang.changed_situations import after_alignment, behind_real_purifier, with_made_up_records
from studies.measurements import AttackMeasurement, Choice, DataChoice, ModelChoice
from studies.measurements.measuring import measure
from tests.harness.prepared import prepare

_MODEL = ModelChoice(DataChoice("wine"))
_MEASUREMENT = AttackMeasurement(_MODEL, tuple(range(6, 13)), Choice.of("half_star"), records=15)


@pytest.fixture(scope="module")
def model() -> object:
    return prepare(_MODEL, None)


def test_alignment_finds_the_same_records_in_the_same_order(model: object) -> None:
    with_psi, without = measure(after_alignment(_MEASUREMENT), model), measure(_MEASUREMENT, model)
    assert with_psi["aligned"] == 36
    for name in ("mse", "attack_accuracy", "model_accuracy"):
        assert with_psi[name] == without[name]


def test_a_purifier_of_real_scores_is_none_of_random_ones(model: object) -> None:
    real = measure(behind_real_purifier(_MEASUREMENT), model)
    random = measure(
        AttackMeasurement(_MODEL, _MEASUREMENT.passive, _MEASUREMENT.attack, 15, defences=(Choice.of("purification"),)),
        model,
    )
    plain = measure(_MEASUREMENT, model)
    # It knows the scores that there are, and moves them less.
    assert 0 < real["kl"] < random["kl"]
    assert real["mse"] != plain["mse"]


def test_uniform_records_determine_a_linear_part(model: object) -> None:
    shadow = Choice.of("shadow", shadow_steps=800, shadow_learning_rate=0.1, steps=400)
    black = AttackMeasurement(_MODEL, (3,), shadow, 15, auxiliary=20, access="black_box")
    white = AttackMeasurement(_MODEL, (3,), Choice.of("gia", steps=400), 15)
    found, known = measure(with_made_up_records(black, "uniform"), model), measure(white, model)
    assert found["mse"] == pytest.approx(known["mse"], abs=0.02)


def test_made_up_records_repeat_and_follow_the_seed(model: object) -> None:
    measurement = AttackMeasurement(
        _MODEL, (3, 7), Choice.of("posterior", prior="imputation", draws=5), 15, auxiliary=8, access="black_box"
    )
    other = AttackMeasurement(_MODEL, (3, 7), measurement.attack, 15, auxiliary=8, access="black_box", seed=1)
    first, again, moved = (
        measure(with_made_up_records(one, "laplace"), model)["mse"] for one in (measurement, measurement, other)
    )
    assert first == again
    assert first != moved
