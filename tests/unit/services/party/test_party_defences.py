"""Defences in a service: which are loaded, where each acts, in what order, and what is refused before anything runs."""

import logging
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import defences
from defences import Defence, DefenceError, DefenceSpec, NoiseSource, TrainingTerms, UnknownDefence, load_all
from services.common.applied_defences import load_defences, noise_source
from services.common.identity import Role
from services.common.run_records import DefencePrediction
from services.common.settings import SettingsError, load_settings
from services.party.party_defences import Message, PartyDefences
from vfl.arrays import FloatArray, IntArray

TERMS = TrainingTerms("passive", epochs=2, steps=10, rows=8, learning_rate=0.5, residual_limit=128.0)


@dataclass(frozen=True)
class Expectation:
    shift: float


@dataclass(frozen=True)
class Shift:
    """Adds a constant to residuals, features and parameters: what is applied shows in the numbers."""

    by: float = 1.0
    limit: float = 1e9

    name: ClassVar[str] = "shift"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("passive",), stages=("residuals", "features", "parameters"), keeps="nothing", source="a test"
    )

    def check(self, terms: TrainingTerms) -> None:
        if self.by > self.limit:
            raise DefenceError(f"Expected at most {self.limit}, got {self.by}.")

    def prediction(self, terms: TrainingTerms) -> Expectation:
        return Expectation(self.by * terms.rows)

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        return residuals + self.by

    def transform_features(self, features: FloatArray, noise: NoiseSource) -> FloatArray:
        return features + self.by

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        shifted: FloatArray = weights + self.by * features.mean()
        return shifted


@dataclass(frozen=True)
class Double:
    """Doubles residuals only; with ``Shift`` the order shows."""

    name: ClassVar[str] = "double"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active", "passive"), stages=("residuals",), keeps="nothing", source="a test"
    )

    def check(self, terms: TrainingTerms) -> None:
        """It always can."""

    def prediction(self, terms: TrainingTerms) -> Expectation:
        return Expectation(0.0)

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        return 2 * residuals


@dataclass(frozen=True)
class Jitter:
    """Adds what the noise source gives."""

    name: ClassVar[str] = "jitter"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active", "passive"), stages=("residuals",), keeps="nothing", source="a test"
    )

    def check(self, terms: TrainingTerms) -> None:
        """It always can."""

    def prediction(self, terms: TrainingTerms) -> Expectation:
        return Expectation(0.0)

    def protect_residuals(self, residuals: FloatArray, terms: TrainingTerms, noise: NoiseSource) -> FloatArray:
        return residuals + noise.gaussian(residuals.shape)


@dataclass(frozen=True)
class Cut:
    """Truncates answers."""

    name: ClassVar[str] = "cut"
    spec: ClassVar[DefenceSpec] = DefenceSpec(sits=("active",), stages=("answers",), keeps="scores", source="a test")


@dataclass(frozen=True)
class Conceal:
    """Discloses zeros."""

    name: ClassVar[str] = "conceal"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("passive",),
        stages=("parameters",),
        keeps="scores",
        source="a test",
        replaces="disclosed parameters",
    )

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        return np.zeros_like(weights)


@dataclass(frozen=True)
class ByLabel:
    """Adds each record's label to its residual, and trains on the next class."""

    name: ClassVar[str] = "by_label"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("active",), stages=("labels", "labelled_residuals"), keeps="nothing", source="a test"
    )

    def check(self, terms: TrainingTerms) -> None:
        if terms.classes != 2:
            raise DefenceError("by_label is for two classes.")

    def prediction(self, terms: TrainingTerms) -> None:
        """Theory says nothing."""

    def replace_labels(self, labels: IntArray, ids: Sequence[str], classes: int, noise: NoiseSource) -> IntArray:
        return (labels + len(ids)) % classes

    def protect_labelled_residuals(
        self, residuals: FloatArray, labels: IntArray, terms: TrainingTerms, noise: NoiseSource
    ) -> FloatArray:
        return residuals + labels[:, None]


@dataclass(frozen=True)
class Halve:
    """Halves what is sent of hidden units."""

    name: ClassVar[str] = "halve"
    spec: ClassVar[DefenceSpec] = DefenceSpec(sits=("passive",), stages=("hidden",), keeps="nothing", source="a test")

    def check(self, terms: TrainingTerms) -> None:
        """It always can."""

    def prediction(self, terms: TrainingTerms) -> Expectation:
        return Expectation(0.5 * terms.hidden)

    def protect_hidden(self, products: FloatArray, noise: NoiseSource) -> FloatArray:
        return products / 2


ONES = np.ones((2, 1))
MESSAGE = Message("residuals", "session", 3, np.array([7, 4]))


# -- where each acts --------------------------------------------------------------------------------------------------


def test_without_any_defence_everything_comes_back_as_it_was() -> None:
    nothing = PartyDefences()
    nothing.check(TERMS)
    assert nothing.protect_residuals(ONES, TERMS, MESSAGE) is ONES
    assert nothing.transform_features(ONES) is ONES
    assert nothing.disclose(ONES, ONES) is ONES
    assert (nothing.names, nothing.distorts_parameters) == ((), False)
    assert nothing.predictions(TERMS) == []


@pytest.mark.parametrize(("chosen", "expected"), [((Shift(), Double()), 4.0), ((Double(), Shift()), 3.0)])
def test_defences_of_a_stage_are_applied_in_the_order_given(chosen: Sequence[Defence], expected: float) -> None:
    party = PartyDefences(chosen)
    np.testing.assert_array_equal(party.protect_residuals(ONES, TERMS, MESSAGE), expected * ONES)
    assert party.names == tuple(defence.name for defence in chosen)


def test_each_defence_acts_at_its_stages_and_at_no_other() -> None:
    party = PartyDefences((Double(), Cut()))
    assert not party.distorts_parameters
    np.testing.assert_array_equal(party.transform_features(ONES), ONES)
    np.testing.assert_array_equal(party.disclose(ONES, ONES), ONES)
    np.testing.assert_array_equal(party.protect_residuals(ONES, TERMS, MESSAGE), 2 * ONES)
    everywhere = PartyDefences((Shift(by=3.0),))
    assert everywhere.distorts_parameters
    np.testing.assert_array_equal(everywhere.transform_features(ONES), 4 * ONES)
    np.testing.assert_array_equal(everywhere.disclose(ONES, 2 * ONES), 7 * ONES)


def test_every_residual_defence_is_asked_whether_it_can_work_and_what_to_expect() -> None:
    party = PartyDefences((Double(), Shift(by=2.0)))
    assert party.predictions(TERMS) == [
        DefencePrediction("double", {"shift": 0.0}),
        DefencePrediction("shift", {"shift": 16.0}),
    ]
    with pytest.raises(DefenceError, match=r"at most 1\.0, got 2\.0"):
        PartyDefences((Double(), Shift(by=2.0, limit=1.0))).check(TERMS)


def test_defences_that_go_by_labels_take_their_turn_among_those_that_dont() -> None:
    labels = np.array([0, 1])
    for chosen, expected in (((Double(), ByLabel()), [2.0, 3.0]), ((ByLabel(), Double()), [2.0, 4.0])):
        party = PartyDefences(chosen)
        np.testing.assert_array_equal(party.protect_residuals(ONES, TERMS, MESSAGE, labels)[:, 0], expected)
        assert party.changes_residuals
    with pytest.raises(DefenceError, match="for two classes"):
        PartyDefences((ByLabel(),)).check(replace(TERMS, classes=3))


def test_labels_and_hidden_units_pass_their_own_stages_only() -> None:
    party = PartyDefences((Halve(), ByLabel(), Halve()))
    np.testing.assert_array_equal(party.protect_hidden(ONES, MESSAGE), ONES / 4)
    np.testing.assert_array_equal(party.replace_labels(np.array([0, 1, 2]), ["a", "b", "c"], 4), [3, 0, 1])
    assert party.changes_hidden
    assert party.predictions(replace(TERMS, hidden=4)) == [DefencePrediction("halve", {"shift": 2.0})] * 2
    nothing, labels = PartyDefences((Cut(),)), np.array([0, 1])
    assert nothing.protect_hidden(ONES, MESSAGE) is ONES
    assert nothing.replace_labels(labels, ["a", "b"], 2) is labels
    assert (nothing.changes_hidden, nothing.changes_residuals) == (False, False)


@dataclass(frozen=True)
class Random:
    """Draws everything anew: what the service makes of it shows."""

    name: ClassVar[str] = "random"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("passive",), ("features", "parameters"), "nothing", "a test")

    def transform_features(self, features: FloatArray, noise: NoiseSource) -> FloatArray:
        return noise.gaussian(features.shape)

    def disclose(self, weights: FloatArray, features: FloatArray, noise: NoiseSource) -> FloatArray:
        return noise.gaussian(weights.shape)


def test_what_is_told_again_is_the_same() -> None:
    party = PartyDefences((Random(),))
    shape = np.zeros((4, 3))
    for apply in (party.transform_features, lambda values: party.disclose(values, shape)):
        np.testing.assert_array_equal(apply(shape), apply(shape))
    other = PartyDefences((Random(),))
    assert not np.isin(party.transform_features(shape), other.transform_features(shape)).any()


def test_without_a_source_noise_is_the_systems() -> None:
    first, second = (PartyDefences((Jitter(),)).protect_residuals(ONES, TERMS, MESSAGE) for _ in range(2))
    assert not np.isin(first, second).any()


# -- what is refused at start -----------------------------------------------------------------------------------------


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[Defence]:
    """What the settings are taken to name, for a test to fill."""
    found: list[Defence] = []
    monkeypatch.setattr("services.party.party_defences.load_defences", lambda settings, role: tuple(found))
    return found


def test_parameters_that_are_not_disclosed_cant_be_distorted(chosen: list[Defence]) -> None:
    chosen.append(Conceal())
    with pytest.raises(SettingsError, match=r"conceal changes the parameters.*black box.*PLUMBLINE_DISCLOSE=true"):
        PartyDefences.of(load_settings(), Role.PASSIVE)
    assert PartyDefences.of(load_settings(disclose=True), Role.PASSIVE).names == ("conceal",)


def test_features_of_an_installed_model_cant_be_changed(chosen: list[Defence], tmp_path: Path) -> None:
    chosen.append(Shift())
    installed = load_settings(model=tmp_path / "model.npz", disclose=True)
    with pytest.raises(SettingsError, match=r"shift changes this party's features.*PLUMBLINE_MODEL.*drop one"):
        PartyDefences.of(installed, Role.PASSIVE)
    assert PartyDefences.of(load_settings(disclose=True), Role.PASSIVE).names == ("shift",)


def test_another_defence_doesnt_excuse_one_that_has_nothing_to_do(chosen: list[Defence]) -> None:
    chosen.extend([Conceal(), Shift()])
    with pytest.raises(SettingsError, match="conceal"):
        PartyDefences.of(load_settings(), Role.PASSIVE)


def test_a_transform_at_disclosure_is_refused_in_black_box() -> None:
    with pytest.raises(SettingsError, match="black box"):
        PartyDefences.of(load_settings(defences="feature_transform"), Role.PASSIVE)


def test_a_transform_in_training_works_in_black_box_and_both_kinds_where_parameters_are_shown() -> None:
    training = {"feature_transform": {"at": "training"}}
    for settings in (
        load_settings(defences="feature_transform", defence_options=training),
        load_settings(defences="feature_transform", disclose=True),
    ):
        assert PartyDefences.of(settings, Role.PASSIVE).names == ("feature_transform",)


def test_a_transform_at_disclosure_goes_with_an_installed_model(tmp_path: Path) -> None:
    settings = load_settings(defences="feature_transform", disclose=True, model=tmp_path / "model.npz")
    assert PartyDefences.of(settings, Role.PASSIVE).names == ("feature_transform",)


@pytest.mark.parametrize("kind", ["random", "negate", "permutation"])
def test_features_that_leave_the_unit_cube_dont_go_with_what_needs_them_there(kind: str) -> None:
    """Known when the process starts, not after parties were aligned."""
    both = load_settings(
        defences="feature_transform,parameter_rotation",
        defence_options={"feature_transform": {"at": "training", "kind": kind}},
        disclose=True,
    )
    if kind == "random":
        told = (
            r"feature_transform takes this party's features out of \[0, 1\], and parameter_rotation needs them there: "
            r"drop one.*kind=negate or kind=permutation"
        )
        with pytest.raises(SettingsError, match=told):
            PartyDefences.of(both, Role.PASSIVE)
        return
    party = PartyDefences.of(both, Role.PASSIVE)
    moved = party.transform_features(np.random.default_rng(0).random((9, 3)))
    party.disclose(np.random.default_rng(1).normal(size=(2, 3)), moved)


def test_truncation_without_encryption_is_told_that_it_has_nothing_to_do(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for role in (Role.ACTIVE, Role.PASSIVE):
            PartyDefences.of(load_settings(defences="response_truncation"), role)
            PartyDefences.of(load_settings(defences="dp_noise", cipher="plain"), role)
        assert caplog.messages == []
        assert PartyDefences.of(load_settings(defences="response_truncation", cipher="plain"), Role.ACTIVE).names
    assert caplog.messages == ["response_truncation has nothing to truncate without encryption (cipher=plain)."]


@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_defences_of_training_are_told_that_an_installed_model_has_none(
    cipher: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    settings = load_settings(defences="dp_noise,response_truncation", model=tmp_path / "model.npz", cipher=cipher)
    with caplog.at_level(logging.WARNING):
        assert len(PartyDefences.of(settings, Role.PASSIVE).names) == 2
    assert caplog.messages == [
        "With PLUMBLINE_MODEL nothing is trained here: there is nothing to protect by dp_noise, response_truncation."
    ]


# -- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "stages", "applied"),
    [
        (Role.ACTIVE, ("features", "parameters"), "labels, residuals, labelled_residuals, updates, answers"),
        (Role.ACTIVE, ("scores",), "labels, residuals, labelled_residuals, updates, answers"),
        (Role.PASSIVE, ("scores",), "residuals, hidden, updates, answers, features, parameters"),
        (Role.COORDINATOR, ("answers",), "scores"),
        (Role.COORDINATOR, ("training",), "scores"),
    ],
)
def test_a_defence_that_its_service_has_no_place_for_stops_it(
    role: Role, stages: tuple[Any, ...], applied: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def misplaced(*stages: Any) -> Any:
        spec = DefenceSpec((role.value,), stages, "nothing", "a test")  # type: ignore[arg-type]
        return type("Misplaced", (), {"name": "misplaced", "spec": spec})()

    loaded = [misplaced(*stages)]
    monkeypatch.setattr("defences.load_all", lambda names, options: tuple(loaded))
    told = (
        f"misplaced sits at the {role} and works on {', '.join(stages)}, and that service applies defences of {applied}"
    )
    with pytest.raises(ValueError, match=f"{told} only: drop it, or correct its spec"):
        load_defences(load_settings(), role)
    loaded[:] = [misplaced(*stages, applied.split(", ")[0])]
    assert load_defences(load_settings(), role) == tuple(loaded)


def test_every_built_in_defence_has_a_place_where_it_sits() -> None:
    places = {Role.ACTIVE: "active", Role.PASSIVE: "passive", Role.COORDINATOR: "coordinator"}
    for name in defences.names():
        settings = load_settings(defences=name)
        sits = load_all([name], {})[0].spec.sits
        applied = {place for role, place in places.items() if load_defences(settings, role)}
        assert applied == set(sits) - {"lab"}, name


def test_a_service_takes_what_sits_with_its_role_in_the_order_given_and_says_what_it_ignores(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = load_settings(defences="score_rounding,response_truncation,class_label")
    with caplog.at_level(logging.WARNING):
        assert [one.name for one in load_defences(settings, Role.ACTIVE)] == ["response_truncation"]
    assert "score_rounding is a defence of the coordinator: ignored here." in caplog.messages
    assert "class_label is a defence of the coordinator: ignored here." in caplog.messages
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        applied = load_defences(settings, Role.COORDINATOR)
    assert [one.name for one in applied] == ["score_rounding", "class_label"]
    assert caplog.messages == ["response_truncation is a defence of the active and the passive: ignored here."]


def test_options_reach_the_defence_that_they_are_for() -> None:
    settings = load_settings(defences="score_rounding", defence_options='{"score_rounding": {"decimals": 3}}')
    (rounding,) = load_defences(settings, Role.COORDINATOR)
    assert asdict(rounding) == {"decimals": 3}  # type: ignore[call-overload]


def test_an_unknown_name_stops_every_service_with_the_list_of_known_ones() -> None:
    settings = load_settings(defences="score_floor")
    for role in (Role.ACTIVE, Role.PASSIVE, Role.COORDINATOR):
        with pytest.raises(UnknownDefence, match=r"Unknown defence 'score_floor'\. Known: class_label, .*score_noise"):
            load_defences(settings, role)


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (("score_rounding",), {"score_noise": {"sigma": 0.1}}, "Options for score_noise.*not among the defences"),
        (("score_rounding", "score_rounding"), {}, "named once: got score_rounding, score_rounding"),
        (("class_label", "purification"), {}, "class_label and purification both replace the scores: choose one"),
        (
            ("feature_transform", "parameter_rotation"),
            {},
            "feature_transform and parameter_rotation both replace the disclosed parameters: choose one",
        ),
        (("score_noise",), {"score_noise": {"sigma": -1}}, r"Expected sigma to be a positive number, got -1"),
        (("score_noise",), {"score_noise": {"sigma": float("nan")}}, "Expected sigma to be a positive number, got nan"),
        (("dp_noise",), {"dp_noise": {"epsilon": 0}}, "epsilon"),
        (("dp_noise",), {"dp_noise": {"delta": 1.5}}, "delta"),
        (("dp_noise",), {"dp_noise": {"sigma": float("inf")}}, "sigma"),
        (("score_rounding",), {"score_rounding": {"digits": 1}}, "score_rounding can't take digits.*options: decimals"),
        (("response_truncation",), {"response_truncation": {"bits": 1}}, "can't take bits.*Its options: none"),
    ],
)
def test_options_and_combinations_that_cant_work_are_refused_with_a_sentence(
    names: tuple[str, ...], options: dict[str, dict[str, Any]], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as error:
        load_all(names, options)
    assert not isinstance(error.value, UnknownDefence)


def test_defences_that_change_different_things_go_together_in_the_order_given() -> None:
    names = ("score_scheme1", "class_label", "parameter_rotation", "response_truncation", "score_rounding")
    assert tuple(one.name for one in load_all(names, {})) == names
    # A transform in training replaces nothing that is disclosed.
    options = {"feature_transform": {"at": "training"}}
    assert len(load_all(("feature_transform", "parameter_rotation"), options)) == 2


def test_options_of_no_chosen_defence_are_refused_by_the_settings_already() -> None:
    with pytest.raises(SettingsError, match="defence_options names score_noise, which defences doesn't"):
        load_settings(defences="score_rounding", defence_options='{"score_noise": {"sigma": 0.1}}')


@pytest.mark.parametrize("options", ["{not json", '{"score_noise": 0.1}', '["score_noise"]'])
def test_options_that_are_no_object_of_objects_are_refused_with_the_variables_name(options: str) -> None:
    with pytest.raises(SettingsError, match="PLUMBLINE_DEFENCE_OPTIONS"):
        load_settings(defences="score_noise", defence_options=options)


def test_a_service_that_loads_them_starts_without_torch() -> None:
    """Each role loads what all roles are told, to refuse what contradicts itself."""
    code = (
        "import sys; from defences import load, names; loaded = [load(name) for name in names() if name != 'dp_sgd'];"
        "print([module for module in ('torch', 'opacus') if module in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- noise ------------------------------------------------------------------------------------------------------------


def test_a_private_seed_repeats_noise_and_the_log_says_what_that_means(caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings(defences="score_noise", private_seed=4)
    with caplog.at_level(logging.WARNING):
        first, second = (noise_source(settings).gaussian((3,)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, NoiseSource(4).gaussian((3,)))
    assert "PLUMBLINE_PRIVATE_SEED is set: noise repeats" in caplog.text


def test_without_a_private_seed_noise_is_fresh_and_without_defences_nothing_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        first, second = (noise_source(load_settings(defences="score_noise")).gaussian((3,)) for _ in range(2))
        noise_source(load_settings(private_seed=4))
    assert not np.isin(first, second).any()
    assert caplog.messages == []


# -- defences of other packages ---------------------------------------------------------------------------------------

_MODULE = """
from dataclasses import dataclass
from typing import ClassVar
from defences import DefenceSpec


@dataclass(frozen=True)
class ScoreFloor:
    floor: float = 0.01
    name: ClassVar[str] = "score_floor"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("coordinator",), ("scores",), "decision", "a test", replaces="scores")

    def protect_scores(self, scores, context):
        return self.floor + (1 - scores.shape[1] * self.floor) * scores
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "score_floor.py").write_text(_MODULE)
    information = tmp_path / "score_floor-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: score-floor\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[plumbline.defences]\nscore_floor = score_floor:ScoreFloor\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "score_floor", raising=False)


@pytest.mark.usefixtures("installed")
def test_a_defence_of_another_package_is_loaded_by_name_with_its_options() -> None:
    assert "score_floor" in defences.names()
    settings = load_settings(defences="score_floor", defence_options='{"score_floor": {"floor": 0.1}}')
    (floor,) = load_defences(settings, Role.COORDINATOR)
    protected = floor.protect_scores(np.array([[1.0, 0.0]]), None)  # type: ignore[attr-defined]
    np.testing.assert_allclose(protected, [[0.9, 0.1]])
    assert load_defences(settings, Role.ACTIVE) == ()


@pytest.mark.usefixtures("installed")
def test_it_is_checked_against_the_others_like_those_built_in() -> None:
    with pytest.raises(ValueError, match="class_label and score_floor both replace the scores"):
        load_all(("class_label", "score_floor"), {})
    with pytest.raises(ValueError, match=r"score_floor can't take ceiling.*Its options: floor"):
        load_all(("score_floor",), {"score_floor": {"ceiling": 1}})


def test_without_installation_it_is_unknown() -> None:
    assert "score_floor" not in defences.names()
