"""Features and parameters that are not the party's own, whole parties in one process."""

from pathlib import Path

import numpy as np
import pytest

from defences import Defence, load
from services.common.errors import FederationError, InvalidMessage
from services.party.party_defences import PartyDefences
from tests.harness.defended import INSTALLED, Bias, Flip, Turn, party_training, with_defences
from tests.harness.exchanges import names_of
from tests.harness.parties import (
    ACTIVE,
    House,
    Watcher,
    active_data,
    house,
    party_data,
    small_settings,
    values_of,
    with_values,
)
from tests.harness.processes import weights_of
from vfl.arrays import FloatArray
from vfl.learning import class_rows
from vfl.learning.networks import DenseNetwork

# -- features and parameters that are not the party's own -------------------------------------------------------------

DISCLOSING = small_settings(cipher="plain", disclose=True, record_features=True)


def disclosed(home: House) -> FloatArray:
    shown: FloatArray = home.passive["passive"].disclose_parameters(ACTIVE, home.active.session_id).arrays()["weights"]
    return shown


def test_without_a_defence_the_trained_parameters_are_disclosed(tmp_path: Path) -> None:
    with house(tmp_path, settings=DISCLOSING) as home:
        home.train()
        np.testing.assert_array_equal(disclosed(home), weights_of(tmp_path, ["passive"])[0])


@pytest.mark.parametrize("classes", [pytest.param(2, marks=pytest.mark.thorough), 3])
@pytest.mark.parametrize(
    "defence",
    [Turn(), pytest.param(load("feature_transform"), marks=pytest.mark.thorough)],
    ids=["double", "feature_transform"],
)
def test_distorted_parameters_are_the_same_whenever_asked_and_scores_are_those_of_the_true_ones(
    tmp_path: Path, defence: Defence, classes: int
) -> None:
    labels = [f"class-{row % classes}" for row in range(60)]
    outcomes, shown = [], []
    for number, chosen in enumerate(((), (defence,))):
        folder = tmp_path / str(number)
        with house(
            folder,
            settings=DISCLOSING,
            active=active_data(labels=labels),
            passive_defences=with_defences(*chosen, seed=None),
        ) as home:
            home.train()
            first, again = disclosed(home), disclosed(home)
            np.testing.assert_array_equal(again, first)
            shown.append(first)
            scores = home.tested().scores
            trained = weights_of(folder, ["passive"])[0]
            outcomes.append((scores, trained))
            # The same in the next session, whose model is the same: another draw would tell more.
            home.train()
            np.testing.assert_array_equal(disclosed(home), first)
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(one, other)
    assert shown[0].shape == shown[1].shape, "how many columns there are must not tell"
    assert np.abs(shown[0] - shown[1]).max() > 1e-3
    # Orthonormal: the same geometry over classes.
    rows = [class_rows(weights) for weights in shown]
    np.testing.assert_allclose(rows[1] @ rows[1].T, rows[0] @ rows[0].T, atol=1e-12)


def test_another_party_distorts_otherwise(tmp_path: Path) -> None:
    shown = []
    for number in range(2):
        defences = with_defences(Turn(), seed=None)
        with house(tmp_path / str(number), settings=DISCLOSING, passive_defences=defences) as home:
            home.train()
            shown.append(disclosed(home))
    assert np.abs(shown[0] - shown[1]).max() > 1e-3


def test_a_binary_model_that_no_longer_fits_one_column_is_shown_as_two_that_say_the_same(tmp_path: Path) -> None:
    with house(tmp_path, settings=DISCLOSING, passive_defences=with_defences(Bias())) as home:
        home.train()
        shown = disclosed(home)
    rows = class_rows(weights_of(tmp_path, ["passive"])[0])
    np.testing.assert_array_equal(shown.T, rows + np.array([[0.0], [1.0]]))


def test_parameters_that_a_defence_cant_distort_are_refused_before_training_and_it_says_why(tmp_path: Path) -> None:
    data = party_data(rows=range(59, 4, -1))
    wide = with_values(data, values_of(data) * 3)
    with (
        house(tmp_path, settings=DISCLOSING, passive=[wide], passive_defences=with_defences(Bias())) as home,
        pytest.raises(FederationError, match="bias is for features up to 1: scale them"),
    ):
        home.train()


def test_features_that_parameters_cant_be_distorted_with_are_refused_before_training(tmp_path: Path) -> None:
    data = party_data(rows=range(59, 4, -1))
    wide = with_values(data, values_of(data) * 3)
    rotation = with_defences(load("parameter_rotation"))
    with house(tmp_path, settings=DISCLOSING, passive=[wide], passive_defences=rotation) as home:
        watcher = Watcher()
        with pytest.raises(FederationError, match=r"\[0, 1\]"):
            home.active.train(home.settings.plan(), watcher)
        assert "training" not in watcher.stages


def test_a_network_whose_parameters_cant_be_distorted_is_refused_when_the_session_begins() -> None:
    deep = DenseNetwork((np.ones((2, 3)), np.ones((3, 2))), (np.zeros(3), np.zeros(2)))
    with pytest.raises(InvalidMessage, match="turn: only a linear model's parameters can be distorted"):
        party_training(INSTALLED, deep, with_defences(Turn()))


def test_only_linear_parameters_can_be_distorted() -> None:
    deep = DenseNetwork((np.ones((2, 3)), np.ones((3, 2))), (np.zeros(3), np.zeros(2)))
    assert party_training(INSTALLED, deep, PartyDefences()).model.disclosed_by(PartyDefences()) is deep
    assert party_training(INSTALLED, deep, PartyDefences()).model.parameter_gram() is None
    with pytest.raises(InvalidMessage, match="turn: only a linear model's parameters can be distorted"):
        party_training(INSTALLED, deep, PartyDefences()).model.disclosed_by(with_defences(Turn()))
    shallow = DenseNetwork((np.array([[1.0, -2.0], [0.5, 3.0]]),), (np.array([0.25, -0.5]),))
    shown = party_training(INSTALLED, shallow, PartyDefences()).model.disclosed_by(with_defences(Turn()))
    np.testing.assert_array_equal(shown.arrays()["biases_0"], shallow.biases[0])
    assert np.abs(shown.arrays()["weights_0"] - shallow.weights[0]).max() > 1e-3


@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_a_transformed_party_trains_on_other_features_and_the_auditor_sees_the_true_ones(
    tmp_path: Path, cipher: str
) -> None:
    settings = small_settings(cipher=cipher, disclose=True, record_features=True)
    data = party_data(rows=range(59, 4, -1))
    flipped = with_values(data, 1.0 - values_of(data))
    runs: list[tuple[list[FloatArray], FloatArray, FloatArray]] = []
    for number, (table, chosen) in enumerate(((data, (Flip(),)), (flipped, ()))):
        folder = tmp_path / str(number)
        with house(folder, settings=settings, passive=[table], passive_defences=with_defences(*chosen)) as home:
            home.train()
            np.testing.assert_array_equal(disclosed(home), weights_of(folder, ["passive"])[0])
            recorded = np.load(folder / "passive-features.npz")["features"]
            runs.append((weights_of(folder, names_of(2)), home.tested().scores, recorded))
    # Trained as a party that holds the other features would have.
    for one, other in zip(runs[0][0], runs[1][0], strict=True):
        assert one.tobytes() == other.tobytes()
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    # The record of the first has its own features, that of the second those that it holds.
    np.testing.assert_allclose(runs[0][2], 1.0 - runs[1][2], atol=2.0**-15)
    np.testing.assert_allclose(np.sort(runs[0][2], axis=0), np.sort(values_of(data), axis=0), atol=2.0**-15)
