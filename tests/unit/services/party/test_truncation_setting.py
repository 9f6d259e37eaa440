"""Whether a party cuts its answers is its own setting: on, said in plain words where it is off, and never both."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.training.auxiliary_ciphertext import AuxiliaryCiphertext
from plumbline.judge.training import read_training_findings
from plumbline.recipe import Recipe, shares_of
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.settings import Settings, SettingsError, load_settings
from services.party.features import AlignedFeatures
from services.party.party_defences import PartyDefences
from tests.harness.parties import active_data, house, party_data, small_settings

OFF = {"truncate_answers": False}


def test_it_is_on_by_default_and_the_help_calls_off_insecure() -> None:
    assert load_settings().truncate_answers
    described = Settings.model_fields["truncate_answers"].description
    assert described is not None
    assert "false: INSECURE" in described


def test_it_is_no_term_of_the_plan() -> None:
    """Nobody else could propose it away."""
    assert not hasattr(load_settings().plan(), "truncate_answers")


@pytest.mark.parametrize("role", [Role.ACTIVE, Role.PASSIVE])
def test_off_together_with_the_defence_that_says_the_same_stops_the_service(role: Role) -> None:
    settings = load_settings(defences="response_truncation", **OFF)
    with pytest.raises(
        SettingsError, match=r"truncate_answers=false contradicts response_truncation.*drop one of them"
    ):
        PartyDefences.of(settings, role)
    assert PartyDefences.of(load_settings(defences="response_truncation"), role).names == ("response_truncation",)


def test_an_audit_of_both_is_refused_before_it_starts() -> None:
    recipe = Recipe(tables=shares_of("breast_cancer", 2), defences=("response_truncation",), settings=OFF)
    with pytest.raises(ValueError, match="truncate_answers=false contradicts response_truncation"):
        recipe.checked()


@pytest.mark.parametrize(("settings", "says"), [({}, 0), (OFF, 1), ({**OFF, "cipher": "plain"}, 0)], ids=str)
def test_the_log_says_at_the_start_where_it_is_off(
    settings: dict[str, Any], says: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        PartyDefences.of(load_settings(**settings), Role.PASSIVE)
    assert [text.startswith("INSECURE: truncate_answers=false") for text in caplog.messages] == [True] * says


def test_status_and_record_name_the_party_that_gives_whole_answers(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(), passive_settings=small_settings(**OFF)) as home:
        home.train()
        insecure = [text for text in home.active.warnings if "truncate_answers" in text and "INSECURE" in text]
        assert len(insecure) == 1
        assert insecure[0].startswith("INSECURE: truncate_answers=false at passive")
        assert insecure[0] in home.record()["warnings"]
        assert [party["truncates_answers"] for party in home.record()["agreement"]["parties"]] == [True, False]


@pytest.mark.parametrize("off", [(), ("passive-2",)], ids=["both cut", "one cuts"])
def test_algorithm_2_against_several_reads_single_residuals_of_those_that_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: tuple[str, ...]
) -> None:
    describe = AlignedFeatures.describe

    def as_chosen(self: AlignedFeatures, name: str, *, truncates_answers: bool) -> Any:
        return describe(self, name, truncates_answers=name not in off)

    monkeypatch.setattr(AlignedFeatures, "describe", as_chosen)
    labels = np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()
    with house(
        tmp_path,
        settings=small_settings(packing=False, batch_size=20, learning_rate=0.01, epochs=1, record_features=True),
        active=active_data(labels=labels),
        passive=[party_data(rows=range(60), seed=seed) for seed in (1, 2)],
        passive_adversary={"auxiliary_ciphertext": AuxiliaryCiphertext()},
    ) as home:
        home.train()
    found = next(one for one in read_training_findings(RunFolder(tmp_path)) if one.party == "passive-1")
    # One epoch: six of the fourteen rows of each batch, as the guard counts, and each of them right.
    assert found.success == found.resolved == pytest.approx(6 / 14)
    assert json.loads((tmp_path / "passive-1.json").read_text())["steps"]
