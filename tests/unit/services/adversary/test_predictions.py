"""The active party's attack host: guests may fail, the federation may not."""

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import attacks
from attacks.prediction.adaptive import UndistortedView
from attacks.prediction.baselines import HalfGuess
from services.adversary.knowledge import Knowledge
from services.adversary.load import labelled, load_attacks
from services.adversary.predictions import AttackHost, spread
from services.common.identity import Role
from services.common.run_folder import RunFolder
from vfl.channels import Rounding, ScoreChannel, Temperature, Undeclared
from vfl.learning import class_rows, confidence_scores


@dataclass(frozen=True)
class Broken:
    """A third party's attack with a bug."""

    name: ClassVar[str] = "broken"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("active", "prediction", (), "a test")

    def reconstruct(self, view: attacks.PredictionView) -> Any:
        raise KeyError("bug")


@dataclass(frozen=True)
class Leaving(Broken):
    """A third party's attack that would end the program."""

    def reconstruct(self, view: attacks.PredictionView) -> Any:
        raise SystemExit(0)


class OneView:
    """Knowledge whose view is always the same two records of three passive features."""

    is_defended = False
    auxiliary_rows = None
    order = None

    def view(self, rows: Any, scores: Any) -> attacks.PredictionView:
        return attacks.PredictionView(features_active=np.zeros((2, 1)), scores=scores, passive_features=3)


def outcomes_of(folder: Path, names: dict[str, Any]) -> list[dict[str, Any]]:
    AttackHost(names, folder).attack(cast(Knowledge, OneView()), [4, 7], np.full((2, 2), 0.5))
    outcomes: list[dict[str, Any]] = json.loads((folder / "attacks" / "outcomes.json").read_text())
    return outcomes


def test_a_broken_guest_is_reported_and_the_next_one_still_runs(tmp_path: Path) -> None:
    broken, leaving, half = outcomes_of(
        tmp_path, {"broken": Broken(), "leaving": Leaving(), "half": attacks.load("half")}
    )
    assert broken["status"] == leaving["status"] == "failed"
    assert "broken failed with KeyError" in broken["reason"]
    assert "leaving failed with SystemExit" in leaving["reason"]
    assert half["status"] == "done"
    assert "notes" not in half
    with np.load(tmp_path / "attacks" / "estimates-0.npz") as estimates:
        np.testing.assert_array_equal(estimates["half"], np.full((2, 3), 0.5))
        assert estimates["rows"].tolist() == [4, 7]


@dataclass(frozen=True)
class Annotated(Broken):
    """A third party's attack that says how its estimates came about."""

    name: ClassVar[str] = "annotated"

    def reconstruct_with_notes(self, view: attacks.PredictionView) -> attacks.Reconstruction:
        return attacks.Reconstruction(np.zeros((2, 3)), ("One record was left out.",))


def test_what_an_attack_says_of_its_estimates_is_written_with_them(tmp_path: Path) -> None:
    (outcome,) = outcomes_of(tmp_path, {"annotated": Annotated()})
    assert (outcome["status"], outcome["notes"]) == ("done", ["One record was left out."])
    with np.load(tmp_path / "attacks" / "estimates-0.npz") as estimates:
        np.testing.assert_array_equal(estimates["annotated"], np.zeros((2, 3)))


@dataclass(frozen=True)
class Believing(Broken):
    """A third party's attack with intervals, that says what it would estimate had it seen no score."""

    level: attacks.Level = "marginals"
    is_broken: bool = False

    name: ClassVar[str] = "believing"

    def reconstruct_with_notes(self, view: attacks.PredictionView) -> attacks.Reconstruction:
        half = np.full((2, 3), 0.5)
        return attacks.Reconstruction(half, low=half - 0.1, high=half + 0.1)

    def without_scores(self, view: attacks.PredictionView) -> Any:
        return self.reconstruct(view) if self.is_broken else np.full((2, 3), 0.25)


def test_intervals_and_what_would_be_estimated_without_scores_stand_beside_the_estimate(tmp_path: Path) -> None:
    label = "believing(level=marginals)"
    outcomes = outcomes_of(
        tmp_path, {label: Believing(), "half": attacks.load("half"), "broken": Believing("records", True)}
    )
    assert [(one["level"], one["sees_scores"]) for one in outcomes] == [
        ("marginals", True),
        ("nothing", False),
        ("records", True),
    ]
    with np.load(tmp_path / "attacks" / "estimates-0.npz") as arrays:
        found = {name: array[0, 0] for name, array in arrays.items() if name != "rows"}
    assert found == {
        label: 0.5,
        f"low: {label}": 0.4,
        f"high: {label}": 0.6,
        f"withheld: {label}": 0.25,
        "half": 0.5,
        "broken": 0.5,
        "low: broken": 0.4,
        "high: broken": 0.6,
    }
    assert outcomes[2]["status"] == "done"
    assert outcomes[2]["notes"] == ["What it would estimate without scores is unknown: KeyError: 'bug'"]


class ScaledView(OneView):
    """The same under a defence that scaled logits, or one that nobody knows."""

    is_defended = True

    def __init__(self, *channel: ScoreChannel) -> None:
        self.channel = channel

    def view(self, rows: Any, scores: Any) -> attacks.PredictionView:
        return replace(super().view(rows, scores), channel=self.channel)

    def undone_names(self, undone: UndistortedView) -> list[str]:
        return ["mild", "scaled"][-undone.channels :]


@dataclass(frozen=True)
class Greedy(Broken):
    """Writes into the view that it is given, and gives back its scores."""

    name: ClassVar[str] = "greedy"
    spec: ClassVar[attacks.AttackSpec] = replace(Broken.spec)

    def reconstruct(self, view: attacks.PredictionView) -> Any:
        found = np.hstack([np.asarray(view.scores), np.zeros((view.n, 1))])
        np.asarray(view.scores)[:] = 0.5
        return found


def test_who_reads_no_channel_runs_again_on_what_knowing_it_makes_of_the_view(tmp_path: Path) -> None:
    known = cast(Knowledge, ScaledView(Rounding(3), Temperature(0.5)))
    mounted = {"greedy(eager=true)": Greedy(), "half": attacks.load("half"), "greedy": Greedy()}
    AttackHost(mounted, tmp_path).attack(known, [4, 7], np.array([[0.75, 0.25], [0.5, 0.5]]))
    found = RunFolder(tmp_path).estimates(0).by_attack
    assert set(found) == {*mounted, "greedy(eager=true, knowing=scaled)", "greedy(knowing=scaled)"}
    for label in ("greedy(eager=true)", "greedy"):
        np.testing.assert_allclose(found[label][:, 0], [0.75, 0.5])
    for label in ("greedy(eager=true, knowing=scaled)", "greedy(knowing=scaled)"):
        np.testing.assert_allclose(found[label][:, 0], [0.9, 0.5])


class LongNames(ScaledView):
    """Other parties announce as many defences as they may, of names as long as these may be."""

    def undone_names(self, undone: UndistortedView) -> list[str]:
        return [f"{number:04}{'ä/' * 30}" for number in range(1_024)]


def test_names_that_other_parties_choose_leave_labels_short(tmp_path: Path) -> None:
    known = cast(Knowledge, LongNames(Temperature(0.5)))
    AttackHost({"greedy": Greedy()}, tmp_path).attack(known, [4, 7], np.array([[0.75, 0.25], [0.5, 0.5]]))
    assert set(RunFolder(tmp_path).estimates(0).by_attack) == {"greedy", "greedy(knowing=1024 defences)"}


def test_nobody_runs_again_where_knowing_takes_nothing_off(tmp_path: Path) -> None:
    known = cast(Knowledge, ScaledView(Undeclared("velvet")))
    AttackHost({"greedy": Greedy()}, tmp_path).attack(known, [4, 7], np.full((2, 2), 0.5))
    assert set(RunFolder(tmp_path).estimates(0).by_attack) == {"greedy"}


def test_an_attack_is_mounted_once_for_each_of_its_options() -> None:
    pytest.importorskip("torch")
    listed = [{"init": "half"}, {"init": "zero", "distance": "kld"}, {}]
    mounted, _ = load_attacks(["half", "gia", "ls"], {"gia": listed, "ls": {}}, Role.ACTIVE)
    assert list(mounted) == ["half", "gia(init=half)", "gia(init=zero, distance=kld)", "gia", "ls"]
    assert labelled("gia", steps=3, deep=True) == "gia(steps=3, deep=true)"
    _, training = load_attacks(["feature_order"], {"feature_order": [{}]}, Role.PASSIVE)
    assert list(training) == ["feature_order"]


def test_two_of_one_label_and_labels_that_name_no_file_are_refused() -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=r"gia\(init=half\) is mounted twice"):
        load_attacks(["gia"], {"gia": [{"init": "half"}, {"init": "half"}]}, Role.ACTIVE)
    with pytest.raises(ValueError, match="half is mounted twice"):
        load_attacks(["half", "half"], {}, Role.ACTIVE)
    with pytest.raises(ValueError, match="be part of a file's name"):
        load_attacks(["feature_order"], {"feature_order": [{"where": "../../x"}]}, Role.PASSIVE)


def test_an_attack_without_its_pieces_is_not_applicable_with_the_remedy(tmp_path: Path) -> None:
    (outcome,) = outcomes_of(tmp_path, {"half_star": attacks.load("half_star")})
    assert outcome["status"] == "not applicable"
    assert "weights" in outcome["reason"]
    assert "disclose" in outcome["reason"]


def test_class_rows_of_a_binary_model_give_the_same_scores() -> None:
    generator = np.random.default_rng(0)
    weights, features = generator.normal(size=(4, 1)), generator.random((6, 4))
    logits = features @ class_rows(weights).T
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax, confidence_scores(features @ weights), atol=1e-15)


def test_attacks_go_where_their_adversary_sits_and_others_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        predictions, training = load_attacks(["half", "label_recovery", "feature_order"], {}, Role.ACTIVE)
        assert (set(predictions), set(training)) == ({"half"}, {"feature_order"})
        predictions, training = load_attacks(["half", "label_recovery", "feature_order"], {}, Role.PASSIVE)
        assert (set(predictions), set(training)) == (set(), {"label_recovery", "feature_order"})
    assert "label_recovery is an attack of the passive party" in caplog.text
    assert "half is an attack of the active party" in caplog.text


def test_an_attack_on_predictions_that_either_side_claims_is_ignored_where_no_scores_arrive(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(HalfGuess, "spec", replace(HalfGuess.spec, adversary="either"))
    with caplog.at_level(logging.WARNING):
        assert set(load_attacks(["half"], {}, Role.ACTIVE)[0]) == {"half"}
        assert load_attacks(["half"], {}, Role.PASSIVE) == ({}, {})
    assert "half is an attack on predictions, which only the active party sees" in caplog.text


def test_an_unknown_name_or_option_stops_before_anything_is_served() -> None:
    with pytest.raises(attacks.UnknownAttack, match="half_star"):
        load_attacks(["half_moon"], {}, Role.ACTIVE)
    with pytest.raises(ValueError, match=r"Its options: .*clamp"):
        load_attacks(["gia"], {"gia": {"start": 1}}, Role.ACTIVE)


def test_who_watches_is_told_which_attack_is_at_work_and_how_many_there_are() -> None:
    told: list[tuple[int, int, str]] = []

    def tell(done: int, planned: int, attack: str) -> None:
        told.append((done, planned, attack))

    host = AttackHost({"broken": Broken(), "half": attacks.load("half")}, None)
    host.attack(cast(Knowledge, OneView()), [4, 7], np.full((2, 2), 0.5), tell)
    assert told == [(0, 2, "broken"), (1, 2, "half"), (2, 2, "")]


@pytest.mark.parametrize(("count", "most"), [(10, 3), (10, 10), (10, 400), (7911, 2000), (1, 1)])
def test_attacked_records_are_spread_over_all_of_them(count: int, most: int) -> None:
    places = spread(count, most)
    assert len(places) == min(count, most)
    assert places[0] == 0
    assert places[-1] == (count - 1 if most > 1 else 0)
    assert np.diff(places).max(initial=1) <= -(-count // most) + 1


@dataclass(frozen=True)
class Regressing(Broken):
    """Takes the disclosed parameters where there are any, and else does without."""

    name: ClassVar[str] = "regressing"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(
        "active", "prediction", ("scores",), "a test", knowledge="white_box"
    )

    def reconstruct(self, view: attacks.PredictionView) -> Any:
        is_told = view.weights_passive is not None or view.bias is not None
        return np.full((view.n, view.d), 1.0 if is_told else 0.5)


@dataclass(frozen=True)
class Dependent(Regressing):
    """Can't do without."""

    name: ClassVar[str] = "dependent"

    def reconstruct(self, view: attacks.PredictionView) -> Any:
        if view.weights_passive is None:
            raise attacks.ViewError("dependent needs parameters.")
        return super().reconstruct(view)


class Disclosing(OneView):
    """The same where the passive party discloses its parameters."""

    def view(self, rows: Any, scores: Any) -> attacks.PredictionView:
        told: dict[str, Any] = {
            "weights_active": np.ones((2, 1)),
            "weights_passive": np.ones((2, 3)),
            "bias": np.ones(2),
        }
        return replace(super().view(rows, scores), **told)


def test_who_can_do_without_disclosed_parameters_runs_once_more_without(tmp_path: Path) -> None:
    mounted = {"regressing": Regressing(), "dependent": Dependent(), "half": attacks.load("half")}
    for folder, knowledge in ((tmp_path / "told", Disclosing()), (tmp_path / "kept", OneView())):
        AttackHost(mounted, folder).attack(cast(Knowledge, knowledge), [4, 7], np.full((2, 2), 0.5))
    told, kept = (
        {one.attack: (one.status, one.sees_parameters) for one in RunFolder(tmp_path / name).prediction_outcomes()}
        for name in ("told", "kept")
    )
    assert told == {
        "regressing": ("done", True),
        "dependent": ("done", True),
        "half": ("done", False),
        "regressing(parameters=kept)": ("done", False),
    }
    assert kept == {
        "regressing": ("done", False),
        "dependent": ("not applicable", False),
        "half": ("done", False),
    }
    found = RunFolder(tmp_path / "told").estimates(0).by_attack
    assert (found["regressing"] == 1.0).all()
    assert (found["regressing(parameters=kept)"] == 0.5).all()


@dataclass(frozen=True)
class Unaided(Regressing):
    """A black-box attack."""

    name: ClassVar[str] = "unaided"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec(
        "active", "prediction", ("scores",), "a test", knowledge="black_box"
    )


def test_a_black_box_attack_sees_nothing_that_was_disclosed(tmp_path: Path) -> None:
    @dataclass(frozen=True, eq=False)
    class Told(Disclosing):
        disclosed: Any = ()

        def view(self, rows: Any, scores: Any) -> attacks.PredictionView:
            return OneView.view(self, rows, scores) if self.disclosed is None else super().view(rows, scores)

    AttackHost({"unaided": Unaided()}, tmp_path).attack(cast(Knowledge, Told()), [4, 7], np.full((2, 2), 0.5))
    assert (RunFolder(tmp_path).estimates(0).by_attack["unaided"] == 0.5).all()
    assert [one.sees_parameters for one in RunFolder(tmp_path).prediction_outcomes()] == [False]
