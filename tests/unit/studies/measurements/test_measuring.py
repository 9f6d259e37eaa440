"""What a measurement measures: known answers, parity with attacks used directly, and who can't be mounted."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attacks
from attacks.registry import REGISTRY
from plumbline.judge.measures import LikewiseLabelled
from studies.measurements import AttackMeasurement, Choice, DataChoice, ModelChoice, TaskMeasurement, windows
from studies.measurements.measuring import NotApplicable, measure
from studies.simulation.linear_models import TrainedModel
from tests.harness.prepared import prepare

MODEL = ModelChoice(DataChoice("digits"), seed=1, held_out=0.3)
SMALL = ModelChoice(DataChoice("breast_cancer"), seed=1, held_out=0.4)
PASSIVE = tuple(range(20, 40))


@pytest.fixture(scope="module")
def digits() -> TrainedModel:
    model: TrainedModel = prepare(MODEL, None)
    return model


@pytest.fixture(scope="module")
def cancer() -> TrainedModel:
    model: TrainedModel = prepare(SMALL, None)
    return model


def measurement_of(attack: str, model: ModelChoice = MODEL, /, **options: Any) -> AttackMeasurement:
    return AttackMeasurement(model, PASSIVE, Choice.of(attack, **options), records=30)


def test_half_errs_by_the_distance_from_one_half(digits: TrainedModel) -> None:
    found = measure(measurement_of("half"), digits)
    errors = (digits.features[:30, 20:40] - 0.5) ** 2
    assert found["mse"] == pytest.approx(errors.mean())
    np.testing.assert_allclose(found["mse_by_column"], errors.mean(axis=0))
    assert found["mse_se"] == pytest.approx(errors.mean(axis=1).std(ddof=1) / np.sqrt(30))
    assert found["attacked"] == 30


def test_half_star_is_the_closed_form(digits: TrainedModel) -> None:
    """Rassouli eq. 3-6 and 22, written out with numpy's pseudoinverse."""
    matrix = np.diff(digits.weights[:, 20:40], axis=0)
    rows, active = digits.features[:30], np.setdiff1d(np.arange(64), PASSIVE)
    known = rows[:, active] @ np.diff(digits.weights[:, active], axis=0).T + np.diff(digits.bias)
    side = np.diff(np.log(digits.scores[:30]), axis=1) - known
    inverse = np.linalg.pinv(matrix)
    estimate = side @ inverse.T + (np.eye(20) - inverse @ matrix) @ np.full(20, 0.5)
    found = measure(measurement_of("half_star"), digits)
    assert found["mse"] == pytest.approx(((estimate - rows[:, 20:40]) ** 2).mean(), rel=1e-6)


def test_fewer_features_than_equations_are_read_exactly(digits: TrainedModel) -> None:
    exact = replace(measurement_of("ls"), passive=PASSIVE[:5])
    found = measure(exact, digits)
    assert found["mse"] < 1e-10
    assert found["federation_part"] == pytest.approx(1.0, abs=1e-6)
    assert found["attack_accuracy"] == 1.0


@settings(max_examples=15, deadline=None)
@given(d=st.integers(1, 63), start=st.integers(0, 63), name=st.sampled_from(["ls", "rcc2", "half_star", "cls"]))
def test_a_measurement_is_the_attack_used_directly(digits: TrainedModel, d: int, start: int, name: str) -> None:
    passive = windows(64, d)[start]
    view, truth = digits.view(passive, 20)
    direct = ((attacks.load(name).reconstruct(view) - truth) ** 2).mean()
    found = measure(AttackMeasurement(MODEL, passive, Choice(name), records=20), digits)
    assert found["mse"] == pytest.approx(direct)
    if name in ("half_star", "rcc2"):
        # Theorem 1: what exact scores tell never hurts.
        half = measure(AttackMeasurement(MODEL, passive, Choice("half"), records=20), digits)
        assert found["mse"] <= half["mse"] + 1e-6


def test_attack_accuracy_is_by_records_that_are_not_attacked(digits: TrainedModel) -> None:
    found = measure(measurement_of("half"), digits)
    truth, others = digits.features[:30, 20:40], digits.features[30:, 20:40]
    judge = LikewiseLabelled(truth, held_out=others, held_out_labels=digits.labels[30:])
    assert found["attack_accuracy"] == judge.accuracy(np.full((30, 20), 0.5))
    assert found["model_accuracy"] == (digits.scores.argmax(axis=1) == digits.labels).mean()


@pytest.mark.slow("a measurement is measured several times")
def test_what_is_measured_does_not_depend_on_what_was_before(cancer: TrainedModel) -> None:
    passive = tuple(range(15, 30))
    chosen = [Choice("half_star"), Choice.of("posterior", prior="imputation"), Choice("agnostic"), Choice("imputation")]
    noise = (Choice.of("score_noise", sigma=0.01),)
    measurements = [AttackMeasurement(SMALL, passive, one, 20, 40, moments=True, defences=noise) for one in chosen]
    forwards = [measure(measurement, cancer) for measurement in measurements]
    backwards = [measure(measurement, prepare(SMALL, None)) for measurement in reversed(measurements)]
    for one, other in zip(forwards, reversed(backwards), strict=True):
        assert list(one) == list(other)
        np.testing.assert_equal(one, other)


def test_knowledge_sets_the_level_of_guesses(cancer: TrainedModel) -> None:
    passive = tuple(range(15, 30))
    truth = cancer.features[:40, 15:]

    def found(attack: Choice) -> dict[str, Any]:
        return measure(AttackMeasurement(SMALL, passive, attack, 40, 60, moments=True), cancer)

    nothing, mean = found(Choice("half_star")), found(Choice.of("posterior", prior="mean"))
    records, imputation = found(Choice.of("posterior", prior="imputation")), found(Choice("imputation"))
    assert nothing["guess"] == pytest.approx(min(((guess - truth) ** 2).mean() for guess in (0.0, 0.5, 1.0)))
    others = np.vstack([cancer.features_train, cancer.features[40:]])[:, 15:]
    assert mean["guess"] == pytest.approx(((others.mean(axis=0) - truth) ** 2).mean(), rel=0.2)
    assert mean["guess"] < nothing["guess"]
    assert records["guess"] <= imputation["mse"] < mean["guess"]
    assert imputation["federation_part"] == 0.0
    assert records["federation_part"] == pytest.approx(max(0.0, 1 - records["mse"] / records["guess"]))
    assert np.isnan(nothing["baseline"])
    assert records["baseline"] > records["mse"]
    assert 0.6 < records["covered"] <= 1.0
    assert np.isnan(nothing["covered"])


def test_agnostic_attacks_see_delivered_scores_only(digits: TrainedModel) -> None:
    measurement = measurement_of("agnostic", refine="scores")
    with pytest.raises(NotApplicable, match="needs delivered scores"):
        measure(measurement, digits)
    refined = measure(replace(measurement, delivered=100), digits)
    assert refined["mse"] != measure(measurement_of("agnostic"), digits)["mse"]
    # With the passive columns besides, the same records tell it the same.
    assert measure(replace(measurement, auxiliary=100), digits)["mse"] == refined["mse"]


def test_black_box_discloses_nothing(digits: TrainedModel) -> None:
    with pytest.raises(NotApplicable, match="the passive party must disclose its parameters"):
        measure(replace(measurement_of("ls"), access="black_box"), digits)
    lone = replace(measurement_of("one_feature"), passive=(36,))
    inside, outside = measure(lone, digits), measure(replace(lone, access="black_box"), digits)
    assert inside["mse"] == outside["mse"]
    with pytest.raises(NotApplicable, match="in black box nothing is"):
        measure(replace(measurement_of("half"), access="black_box", defences=(Choice("parameter_rotation"),)), digits)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"auxiliary": 600}, "holds out 540 records: 30 to attack and 600"),
        ({"defences": (Choice("dp_noise"),)}, "a model that is trained in one place has none"),
        ({"attack": Choice("one_feature")}, "one_feature works on one passive feature"),
        ({"attack": Choice("imputation")}, "give complete auxiliary records"),
        ({"undo": True}, "Nothing that these defences did"),
    ],
)
def test_what_cannot_work_is_not_applicable(digits: TrainedModel, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(NotApplicable, match=words):
        measure(replace(measurement_of("ls"), **changed), digits)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"records": 0}, "records >= 1"),
        ({"auxiliary": 3, "delivered": 3}, "not both"),
        ({"passive": ()}, "at least one"),
    ],
)
def test_impossible_measurements_are_refused(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(measurement_of("ls"), **changed)


def test_a_network_is_attacked_in_both_boxes() -> None:
    pytest.importorskip("torch")
    options = (("epochs", 20), ("hidden", (4,)))
    choice = ModelChoice(DataChoice("wine"), "network", "adam", passive=(0, 5, 9), options=options)
    network = prepare(choice, None)
    white = AttackMeasurement(choice, (0, 5, 9), Choice.of("gia", steps=200, init="half"), records=15)
    view, truth = network.view((0, 5, 9), 15)
    direct = attacks.load("gia", steps=200, init="half").reconstruct(view)
    assert measure(white, network)["mse"] == pytest.approx(((direct - truth) ** 2).mean())
    black = replace(white, attack=Choice.of("shadow", steps=50, shadow_steps=50, hidden=(4,)), auxiliary=15)
    assert 0 < measure(replace(black, access="black_box"), network)["mse"] < 1
    with pytest.raises(NotApplicable, match="weights"):
        measure(replace(white, attack=Choice("half_star")), network)
    with pytest.raises(NotApplicable, match="class rows, which a network"):
        measure(replace(white, defences=(Choice("feature_transform"),)), network)


def double(table: Any, *, by: int) -> dict[str, Any]:
    return {"rows": by * len(table.features)}


def test_a_task_is_its_function_on_what_it_shares() -> None:
    measurement = TaskMeasurement.of(f"{__name__}:double", DataChoice("wine"), by=2)
    assert measure(measurement, prepare(DataChoice("wine"), None)) == {"rows": 356}


@dataclass(frozen=True)
class Careless:
    """An attack of another package, whose estimates are whatever ``ESTIMATES`` has."""

    gives: str = "one row"

    name: ClassVar[str] = "careless"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(
        adversary="active", phase="prediction", knowledge="white_box", needs=("scores",), source="a test"
    )

    def reconstruct(self, view: attacks.PredictionView) -> Any:
        return ESTIMATES[self.gives]


ESTIMATES: dict[str, Any] = {
    "one row": np.full((1, 20), 0.5),
    "a number": 0.5,
    "one column": np.full((30, 1), 0.5),
    "nothing": None,
    "not a number": np.full((30, 20), np.nan),
    "complex": np.full((30, 20), 0.5 + 0j),
    "a list": [[0.5] * 20] * 30,
}


@pytest.mark.parametrize(
    ("gives", "words"),
    [(one, r"expected \(30, 20\)") for one in ("one row", "a number", "one column", "nothing")]
    + [(one, "aren't finite numbers") for one in ("not a number", "complex")],
)
def test_estimates_that_numpy_would_stretch_or_pass_on_are_refused(
    digits: TrainedModel, monkeypatch: pytest.MonkeyPatch, gives: str, words: str
) -> None:
    monkeypatch.setitem(cast(dict[str, str], REGISTRY.built_in), "careless", f"{__name__}:Careless")
    with pytest.raises(ValueError, match=f"careless gave estimates.*{words}"):
        measure(measurement_of("careless", gives=gives), digits)


def test_estimates_in_lists_are_as_good_as_arrays(digits: TrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cast(dict[str, str], REGISTRY.built_in), "careless", f"{__name__}:Careless")
    found = measure(measurement_of("careless", gives="a list"), digits)
    assert found["mse"] == measure(measurement_of("half"), digits)["mse"]
