"""From a request to every process's settings: both ways in give the same, and what is wrong starts no process."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from plumbline.recipe import Recipe, changed
from services.common.settings import Settings, load_settings

TABLES = {
    "active": {"data": "a.csv", "id_column": "client", "label_column": "y"},
    "passive": {"data": "b.csv", "id_column": "client"},
}


TRAINED = {"defence_options": {"feature_transform": {"kind": "negate", "at": "training"}}}


class Started(Exception):
    """A test's processes would have been started with these settings."""


@pytest.fixture(autouse=True)
def never_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(processes: LocalProcesses) -> None:
        raise Started(processes.settings)

    monkeypatch.setattr(LocalProcesses, "start", start)


def start_audit(folder: Path, **asked: Any) -> Mapping[str, Settings]:
    """The settings that an audit's processes would start with."""
    request = AuditRequest(active="a.csv", passive=("b.csv",), label="y", id_column="client", **asked)
    with pytest.raises(Started) as started:
        Federation.start(LocalProcesses(folder, request.party_settings(folder / "parties")))
    settings: Mapping[str, Settings] = started.value.args[0]
    return settings


def start_local(_: Path, **asked: Any) -> Mapping[str, Settings]:
    """The settings that the processes of ``Federation.local`` would start with."""
    table = pd.DataFrame({"client": ["r1"], "x": [1.0], "y": [0]})
    with pytest.raises(Started) as started:
        Federation.local(active=table, passive=[table.drop(columns="y")], label="y", id="client", **asked)
    settings: Mapping[str, Settings] = started.value.args[0]
    return settings


BOTH = pytest.mark.parametrize("start", [start_audit, start_local])


@BOTH
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"settings": {"epochs": 0}}, "PLUMBLINE_EPOCHS: expected at least 1, got 0"),
        ({"settings": {"cipher": "plain", "key_bits": 2048}}, "cipher=plain uses no keys"),
        ({"attacks": ("half_starr",)}, "half_star"),
        ({"attacks": ("gia",), "settings": {"attack_options": {"gia": {"init": "nowhere"}}}}, "nowhere"),
        ({"settings": {"attack_options": {"gia": {}}}}, "attack_options names gia"),
        ({"defences": ("score_nose",)}, "score_noise"),
        ({"defences": ("parameter_rotation",)}, "black box"),
        ({"defences": ("dp_sgd",)}, "dp_sgd trains models in the lab"),
        ({"settings": {"share": "2/2"}}, "PLUMBLINE_SHARE"),
        ({"settings": {"label_column": "y"}}, "a passive party never holds labels"),
    ],
)
def test_what_cannot_work_is_refused_before_a_process_starts(
    tmp_path: Path, start: Callable[..., object], asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        start(tmp_path, **asked)


@BOTH
def test_attacks_and_defences_go_where_they_belong_with_their_options(
    tmp_path: Path, start: Callable[..., Any]
) -> None:
    settings = start(
        tmp_path,
        attacks=("gia", "label_recovery"),
        defences=("score_rounding", "dp_noise"),
        settings={
            "attack_options": {"gia": {"init": "half"}},
            "defence_options": {"score_rounding": {"decimals": 2}, "dp_noise": {"epsilon": 0.5}},
            "epochs": 3,
        },
    )
    assert list(settings) == ["coordinator", "active", "passive"]
    active, passive, coordinator = settings["active"], settings["passive"], settings["coordinator"]
    assert coordinator.defences == ("score_rounding",)
    assert coordinator.defence_options == {"score_rounding": {"decimals": 2}}
    assert active.defences == passive.defences == ("dp_noise",)
    assert active.attack_options == {"gia": {"init": "half"}}
    assert "gia" in active.attacks
    assert "gia" not in passive.attacks
    assert passive.disclose
    assert active.record_features
    assert {one.epochs for one in settings.values()} == {3}
    assert active.id_column == passive.id_column == "client"
    assert (active.label_column, passive.label_column) == ("y", "")


def test_only_a_repeatable_recipe_draws_secrets_from_its_seed(tmp_path: Path) -> None:
    seeds = [one.private_seed for one in start_audit(tmp_path).values()]
    assert len(set(seeds)) == 3
    assert None not in seeds
    assert [one.private_seed for one in start_audit(tmp_path).values()] == seeds
    assert {one.private_seed for one in start_local(tmp_path).values()} == {None}


def test_a_change_is_checked_like_the_recipe(tmp_path: Path) -> None:
    recipe = Recipe(TABLES, tmp_path, disclose=True, defences=("feature_transform",), settings=TRAINED)
    settings = recipe.party_settings()
    assert changed("active", settings["active"], model=tmp_path / "m.npz").installed_model
    with pytest.raises(ValueError, match="PLUMBLINE_MODEL was trained on those"):
        changed("passive", settings["passive"], model=tmp_path / "m.npz")


def test_the_plan_is_that_of_the_active_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(processes: LocalProcesses) -> None:
        processes.addresses = dict.fromkeys(processes.settings, "127.0.0.1:1")

    monkeypatch.setattr(LocalProcesses, "start", start)
    monkeypatch.setattr("plumbline.federation._await_health", lambda *_: None)
    asked = {"epochs": "7", "cipher": "plain", "transport": "insecure"}
    made = Recipe(TABLES, tmp_path, settings=asked).party_settings()
    made["active"] = changed("active", made["active"], model=tmp_path / "m.npz")
    with Federation.start(LocalProcesses(tmp_path, made)) as federation:
        assert federation._plan == made["active"].plan()
    assert (federation._plan.epochs, federation._plan.installed_model) == (7, True)


def test_processes_get_their_settings_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, dict[str, str]] = {}

    def start(command: list[str], env: dict[str, str], **_: Any) -> None:
        given[command[-1]] = env

    monkeypatch.undo()
    monkeypatch.setattr("plumbline.processes.subprocess.Popen", start)
    monkeypatch.setenv("PLUMBLINE_LOG_LEVEL", "ERROR")
    made = Recipe(TABLES, tmp_path, settings={"epochs": 3}).party_settings()
    processes = LocalProcesses(tmp_path, made)
    monkeypatch.setenv("PLUMBLINE_EPOCHS", "5")  # too late: settings are loaded once
    processes.start()
    for name, environment in given.items():
        for variable in [one for one in environment if one.startswith("PLUMBLINE_")]:
            monkeypatch.setenv(variable, environment[variable])
        expected = made[name].model_copy(
            update={
                "listen": processes.addresses[name],
                "peers": processes.addresses,
                "certs": processes.certificates,
            }
        )
        assert load_settings() == expected
        for variable in [one for one in environment if one.startswith("PLUMBLINE_")]:
            monkeypatch.delenv(variable)
    assert set(given) == {"coordinator", "active", "passive"}
    assert expected.log_level == "ERROR"
