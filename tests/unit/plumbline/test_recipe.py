"""From a request to every process's settings: both ways in give the same, and what is wrong starts no process."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from plumbline.recipe import Recipe, changed, party_names
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
    request = AuditRequest.of(active="a.csv", passive=("b.csv",), label="y", id_column="client", **asked)
    recipe = request.recipe(request.tables.party_settings).checked()
    with pytest.raises(Started) as started:
        Federation.start(LocalProcesses(folder, recipe.settings(folder / "parties")))
    settings: Mapping[str, Settings] = started.value.args[0]
    return settings


def settings_of_the_process(settings: Settings) -> Settings:
    """As the process reads them from its environment."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [one for one in os.environ if one.startswith("PLUMBLINE_")]:
            patch.delenv(name)
        for name, value in settings.environment().items():
            patch.setenv(name, value)
        return load_settings()


def start_local(_: Path, **asked: Any) -> Mapping[str, Settings]:
    """The settings that the processes of ``Federation.local`` would start with."""
    table = pd.DataFrame({"client": ["r1", "r2"], "x": [1.0, 2.0], "y": [0, 1]})
    with pytest.raises(Started) as started:
        Federation.local(active=table, passive=[table.drop(columns="y")], label="y", id="client", **asked)
    settings: Mapping[str, Settings] = started.value.args[0]
    return settings


BOTH = pytest.mark.parametrize("start", [start_audit, start_local])


@BOTH
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"settings": {"epochs": -1}}, "PLUMBLINE_EPOCHS: expected from 0 to 10000, got -1"),
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
    assert active.attack_options["gia"] == {"init": "half"}
    assert "gia" in active.attacks
    assert "gia" not in passive.attacks
    assert passive.disclose
    assert active.record_features
    assert {one.epochs for one in settings.values()} == {3}
    assert active.id_column == passive.id_column == "client"
    assert (active.label_column, passive.label_column) == ("y", "")


ALL_PRIORS = [{"prior": prior} for prior in ("half", "mean", "covariance", "imputation")]


@pytest.mark.parametrize(
    ("asked", "mounted"),
    [
        ({"attacks": ("half_star",)}, {"half_star": None}),
        ({"attacks": ("posterior",)}, {"posterior": ALL_PRIORS[:3]}),
        ({"attacks": ("posterior",), "auxiliary": 9}, {"posterior": ALL_PRIORS}),
        (
            {"attacks": ("posterior",), "settings": {"attack_options": {"posterior": {"prior": "mean"}}}},
            {"posterior": {"prior": "mean"}},
        ),
        # Unasked where attacks on predictions meet a defence, and only there.
        ({"attacks": ("ls",), "defences": ("score_noise",)}, {"ls": None, "posterior": ALL_PRIORS[:3]}),
        ({"attacks": ("ls",), "defences": ("feature_transform",)}, {"ls": None, "posterior": ALL_PRIORS[:3]}),
        (
            {
                "attacks": ("ls",),
                "defences": ("feature_transform",),
                "settings": {"defence_options": TRAINED["defence_options"]},
            },
            {"ls": None, "posterior": ALL_PRIORS[:3]},
        ),
        ({"attacks": ("ls",), "defences": ("dp_noise",)}, {"ls": None}),
        ({"attacks": ("feature_order",), "defences": ("score_noise",)}, {"feature_order": None}),
        ({"defences": ("score_noise",)}, {}),
    ],
    ids=str,
)
def test_an_audit_mounts_the_bayesian_adversary_at_each_level_of_what_it_gives(
    tmp_path: Path, asked: dict[str, Any], mounted: dict[str, Any]
) -> None:
    active = start_audit(tmp_path, **asked)["active"]
    assert active.attacks == tuple(mounted)
    assert active.attack_options == {name: options for name, options in mounted.items() if options}
    assert settings_of_the_process(active).attack_options == active.attack_options


def test_who_serves_a_federation_mounts_what_is_named(tmp_path: Path) -> None:
    active = start_local(tmp_path, attacks=("posterior",), defences=("score_noise",))["active"]
    assert (active.attacks, active.attack_options) == (("posterior",), {})


def test_records_for_no_adversary_are_refused() -> None:
    with pytest.raises(ValueError, match="no attack that could use them is asked for"):
        AuditRequest.of(data="wine", auxiliary=5, attacks=("label_recovery",))


def test_passive_parties_are_named_in_the_agreements_order() -> None:
    """Columns of estimates follow the agreement, which sorts names: passive-10 before passive-2."""
    named = AuditRequest.of(data="wine", parties=12).tables.passive_names
    assert list(named) == sorted(named)
    assert named.index("passive-10") < named.index("passive-2")


# What somebody who serves a party from the same shell has exported.
SERVED = {
    "PLUMBLINE_NAME": "fintech",
    "PLUMBLINE_LISTEN": "127.0.0.1:9",
    "PLUMBLINE_PEERS": "coordinator=127.0.0.1:8",
    "PLUMBLINE_CERTS": "elsewhere",
    "PLUMBLINE_DATA": "c.csv",
    "PLUMBLINE_SHARE": "2/2",
    "PLUMBLINE_LABEL_COLUMN": "z",
    "PLUMBLINE_COLUMNS": "a,b*",
    "PLUMBLINE_DROP": "c",
    "PLUMBLINE_ENCODE": "a=onehot",
    "PLUMBLINE_MODEL": "m.npz",
    "PLUMBLINE_AUXILIARY": "d.csv",
    "PLUMBLINE_PRIVATE_SEED": "7",
    "PLUMBLINE_RUN_DIR": "records",
}


@BOTH
@pytest.mark.parametrize("asked", [{}, {"settings": {"transport": "insecure"}}])
def test_the_shell_says_nothing_of_one_partys_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[..., Any], asked: dict[str, Any]
) -> None:
    # Once: they went to all parties, and what the active party alone may have was refused at the coordinator.
    expected = start(tmp_path, **asked)
    for name, value in SERVED.items():
        monkeypatch.setenv(name, value)
    varying = {"data", "run_dir"} if start is start_local else set()
    assert {name: one.model_dump(exclude=varying) for name, one in start(tmp_path, **asked).items()} == {
        name: one.model_dump(exclude=varying) for name, one in expected.items()
    }


def test_the_shells_common_settings_are_those_of_an_audit_and_not_of_a_notebooks_federation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_EPOCHS", "3")
    monkeypatch.setenv("PLUMBLINE_BATCH_SIZE", "16")
    audited = start_audit(tmp_path, settings={"batch_size": 8})
    assert {(one.epochs, one.batch_size) for one in audited.values()} == {(3, 8)}
    assert {(one.epochs, one.batch_size) for one in start_local(tmp_path).values()} == {(0, 0)}
    # Not even a variable that no setting has: it is somebody else's.
    monkeypatch.setenv("PLUMBLINE_EPOCH", "3")
    assert start_local(tmp_path)
    with pytest.raises(ValueError, match="Did you mean PLUMBLINE_EPOCHS"):
        AuditRequest.of(data="wine").recipe({}).checked()


@pytest.mark.parametrize(
    ("count", "names"), [(2, ("active", "passive")), (4, ("active", "passive-1", "passive-2", "passive-3"))]
)
def test_parties_are_named_alike_whoever_asks(tmp_path: Path, count: int, names: tuple[str, ...]) -> None:
    assert party_names(count) == names
    request = AuditRequest.of(data="wine", parties=count)
    assert request.tables.passive_names == names[1:]
    dealt = request.recipe(request.tables.party_settings).checked().parties
    assert [one.share for one in dealt.values()] == ["", *(f"{number}/{count}" for number in range(1, count + 1))]
    table = pd.DataFrame({"id": ["r1", "r2"], "x": [1.0, 2.0], "y": [0, 1]})
    with pytest.raises(Started) as started:
        Federation.local(active=table, passive=[table.drop(columns="y")] * (count - 1), label="y")
    assert tuple(started.value.args[0]) == tuple(dealt) == ("coordinator", *names)


def test_only_a_repeatable_recipe_draws_secrets_from_its_seed(tmp_path: Path) -> None:
    seeds = [one.private_seed for one in start_audit(tmp_path).values()]
    assert len(set(seeds)) == 3
    assert None not in seeds
    assert [one.private_seed for one in start_audit(tmp_path).values()] == seeds
    assert {one.private_seed for one in start_local(tmp_path).values()} == {None}


def test_a_change_is_checked_like_the_recipe(tmp_path: Path) -> None:
    recipe = Recipe(TABLES, disclose=True, defences=("feature_transform",), settings=TRAINED)
    settings = recipe.checked().settings(tmp_path)
    assert changed("active", settings["active"], model=tmp_path / "m.npz").model
    with pytest.raises(ValueError, match="PLUMBLINE_MODEL was trained on those"):
        changed("passive", settings["passive"], model=tmp_path / "m.npz")


def test_processes_get_their_settings_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, dict[str, str]] = {}

    def start(command: list[str], env: dict[str, str], **_: Any) -> None:
        given[command[-1]] = env

    monkeypatch.undo()
    monkeypatch.setattr("plumbline.processes.launch", start)
    monkeypatch.setenv("PLUMBLINE_LOG_LEVEL", "ERROR")
    made = Recipe(TABLES, settings={"epochs": 3}, heeds_shell=True).checked().settings(tmp_path)
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
                "state_dir": processes.state(name),
                "workers": processes.fair_share(),
            }
        )
        assert load_settings() == expected
        for variable in [one for one in environment if one.startswith("PLUMBLINE_")]:
            monkeypatch.delenv(variable)
    assert set(given) == {"coordinator", "active", "passive"}
    assert expected.log_level == "ERROR"


def test_each_party_has_a_folder_of_its_own_for_its_state_also_under_one_that_is_given(tmp_path: Path) -> None:
    settings: list[tuple[dict[str, Any], Path]] = [
        ({}, tmp_path / "state"),
        ({"state_dir": tmp_path / "mine"}, tmp_path / "mine"),
    ]
    for given, root in settings:
        made = Recipe(TABLES, settings=given).checked().settings(tmp_path)
        processes = LocalProcesses(tmp_path, made)
        assert {name: processes.state(name) for name in made} == {name: root / name for name in made}


def test_the_state_folder_of_a_service_in_this_shell_is_not_that_of_a_federation_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_STATE_DIR", str(tmp_path / "served"))
    made = Recipe(TABLES, heeds_shell=True).checked().settings(tmp_path)
    assert {settings.state_dir for settings in made.values()} == {None}


def test_a_local_federation_trains_under_the_protocol_that_it_is_asked_for(tmp_path: Path) -> None:
    for asked in ({"protocol": "shared"}, {"settings": {"protocol": "shared"}}):
        assert {one.protocol for one in start_local(tmp_path, **asked).values()} == {"shared"}
    assert {one.protocol for one in start_local(tmp_path).values()} == {"hu"}


def test_a_network_without_torch_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vfl.learning.network.top", None)
    with pytest.raises(ValueError, match=r"the label party trains a network with torch: pip install"):
        Recipe(TABLES, settings={"learner": "network"}).checked()
    Recipe(TABLES, settings={"learner": "linear"}).checked()
