"""What each role requires of its settings."""

from typing import Any

import pytest

from services.common.identity import Role
from services.common.settings import SettingsError, load_settings
from services.roles import check_role

PEERS = {"coordinator": "h:1", "active": "h:2", "passive": "h:3"}


@pytest.mark.parametrize(
    ("role", "settings", "words"),
    [
        (Role.PASSIVE, {"data": "t.csv", "label_column": "y"}, "a passive party never holds labels"),
        (Role.COORDINATOR, {"data": "t.csv"}, "the coordinator holds no data"),
        (Role.ACTIVE, {}, "PLUMBLINE_DATA is not set"),
        (Role.PASSIVE, {"peers": {"active": "h:2"}, "data": "t.csv"}, "names no coordinator"),
        (Role.PASSIVE, {"peers": {"coordinator": "h:2"}, "data": "t.csv"}, "names no active party"),
        (Role.ACTIVE, {"peers": {"coordinator": "h:2"}, "data": "t.csv"}, "names no passive party"),
        (Role.ACTIVE, {"name": "bank", "data": "t.csv"}, "the active party is called active"),
        (Role.COORDINATOR, {"name": "bank"}, "called coordinator"),
        (Role.PASSIVE, {"name": "active", "data": "t.csv"}, "another role's name"),
        (Role.PASSIVE, {"name": "operator", "data": "t.csv"}, "another role's name"),
        # Once: the first share of a registered data set comes with its labels; a passive party gets it by default.
        (Role.PASSIVE, {"data": "wine"}, "SHARE|share"),
        (Role.PASSIVE, {"data": "wine", "share": "1/2"}, "SHARE|share"),
        (Role.ACTIVE, {"data": "wine", "share": "2/2"}, "SHARE|share"),
        (Role.ACTIVE, {"data": "t.csv", "kernel": "phe"}, r"KERNEL=phe.*set PLUMBLINE_PACKING=off"),
        (Role.PASSIVE, {"data": "t.csv", "kernel": "phe"}, r"KERNEL=phe.*set PLUMBLINE_PACKING=off"),
    ],
)
def test_settings_that_do_not_fit_the_role_stop_with_a_sentence(
    role: Role, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        check_role(load_settings(**{"peers": PEERS, **settings}), role)


@pytest.mark.parametrize("role", [Role.ACTIVE, Role.PASSIVE])
def test_the_reference_kernel_asks_for_its_extra_before_anything_starts(
    role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(peers=PEERS, data="t.csv", kernel="phe", packing=False)
    check_role(settings, role)
    monkeypatch.setattr("services.roles.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install 'plumbline\[phe\]'"):
        check_role(settings, role)


@pytest.mark.parametrize("role", [Role.COORDINATOR, Role.ACTIVE, Role.PASSIVE])
def test_fitting_settings_pass(role: Role) -> None:
    data = {} if role is Role.COORDINATOR else {"data": "t.csv"}
    check_role(load_settings(peers=PEERS, **data), role)
