"""The active party's attack host: guests may fail, the federation may not."""

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

import attacks
from attacks.baselines import Half
from services.adversary.knowledge import Knowledge
from services.adversary.load import load_attacks
from services.adversary.predictions import AttackHost
from services.common.identity import Role
from vfl.learning import class_rows, confidence_scores


@dataclass(frozen=True)
class Broken:
    """A third party's attack with a bug."""

    name: ClassVar[str] = "broken"
    spec: ClassVar[attacks.AttackSpec] = attacks.AttackSpec("active", "prediction", "agnostic", (), "a test")

    def reconstruct(self, view: attacks.PredictionView) -> Any:
        raise KeyError("bug")


class OneView:
    """Knowledge whose view is always the same two records of three passive features."""

    is_defended = False
    auxiliary_rows = None

    def view(self, rows: Any, scores: Any) -> attacks.PredictionView:
        return attacks.PredictionView(features_active=np.zeros((2, 1)), scores=scores, passive_features=3)


def outcomes_of(folder: Path, names: dict[str, Any]) -> list[dict[str, Any]]:
    AttackHost(names, folder).attack(cast(Knowledge, OneView()), [4, 7], np.full((2, 2), 0.5))
    outcomes: list[dict[str, Any]] = json.loads((folder / "attacks" / "outcomes.json").read_text())
    return outcomes


def test_a_broken_guest_is_reported_and_the_next_one_still_runs(tmp_path: Path) -> None:
    broken, half = outcomes_of(tmp_path, {"broken": Broken(), "half": attacks.load("half")})
    assert broken["status"] == "failed"
    assert "broken failed with KeyError" in broken["reason"]
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
    monkeypatch.setattr(Half, "spec", replace(Half.spec, adversary="either"))
    with caplog.at_level(logging.WARNING):
        assert set(load_attacks(["half"], {}, Role.ACTIVE)[0]) == {"half"}
        assert load_attacks(["half"], {}, Role.PASSIVE) == ({}, {})
    assert "half is an attack on predictions, which only the active party sees" in caplog.text


def test_an_unknown_name_or_option_stops_before_anything_is_served() -> None:
    with pytest.raises(attacks.UnknownAttack, match="half_star"):
        load_attacks(["half_moon"], {}, Role.ACTIVE)
    with pytest.raises(ValueError, match=r"Its options: .*solver"):
        load_attacks(["rcc2"], {"rcc2": {"start": 1}}, Role.ACTIVE)
