"""What is looked at before a first session: real certificates, folders and servers; nothing wrong, nothing said."""

import json
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from plumbline import party_checks
from plumbline.cli import app
from plumbline.party_checks import Finding, check_party
from plumbline.processes import _free_addresses
from services.common.certificates import create_federation_certificates, issue_certificate, revoke_certificates
from services.common.identity import Identity, Role
from services.common.settings import Settings, load_settings
from services.common.state_folder import StateFolder
from services.network import health
from services.network.versions import CLOCK_KEY, RELEASE_KEY, WIRE_KEY, WIRE_VERSION
from tests.harness.connections import make_certificates, transport_of


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def certificates(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "certs"))


@pytest.fixture
def active(certificates: Path) -> Iterator[str]:
    """Where an active party serves."""
    server, port = transport_of(certificates, "active").serve("127.0.0.1:0", [], {}, [])
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.fixture
def settings(certificates: Path, active: str, tmp_path: Path) -> Settings:
    (own,) = _free_addresses(1)
    return load_settings(certs=certificates, listen=own, peers={"active": active}, state_dir=tmp_path / "state")


def found(settings: Settings, **changes: object) -> list[Finding]:
    return [*check_party(settings.model_copy(update=changes), Role.PASSIVE)]


def wrong(settings: Settings, **changes: object) -> str:
    """The one thing that is wrong."""
    (one,) = [one.words for one in found(settings, **changes) if one.level == "wrong"]
    return one


def test_nothing_is_wrong_with_a_party_that_is_ready(settings: Settings, tmp_path: Path) -> None:
    findings = found(settings, run_dir=tmp_path / "runs")
    assert [(one.subject, one.level) for one in findings] == [
        ("certificates", "ok"),
        ("disk", "ok"),
        ("disk", "ok"),
        ("address", "ok"),
        ("peer", "ok"),
        ("versions", "ok"),
        ("clock", "ok"),
    ]


def test_a_party_that_runs_already_is_no_mistake(settings: Settings, certificates: Path) -> None:
    assert settings.state_dir is not None
    held = StateFolder(settings.state_dir, Identity(Role.PASSIVE, "passive"))
    server, port = transport_of(certificates, "passive").serve("127.0.0.1:0", [], {}, [])
    try:
        findings = found(settings, listen=f"127.0.0.1:{port}")
    finally:
        server.stop(None).wait()
        held.close()
    assert {one.level for one in findings} == {"ok"}
    assert "is in use by this party's process" in findings[1].words
    assert "This party serves on" in findings[2].words


def test_certificates_come_first(settings: Settings, certificates: Path) -> None:
    (certificates / "passive.key").chmod(0o644)
    assert "chmod 600" in wrong(settings)
    (certificates / "passive.key").chmod(0o600)
    issue_certificate(certificates, Identity(Role.PASSIVE, "passive"), days=3)
    first = found(settings)[0]
    assert (first.level, "certs --renew" in first.words) == ("note", True)


def test_a_revoked_peer_is_named(settings: Settings, certificates: Path) -> None:
    revoke_certificates(certificates, ["active"])
    assert "The certificate shown at its address is revoked" in wrong(settings)


def test_another_federations_peer_and_a_silent_one_are_told_apart(settings: Settings, tmp_path: Path) -> None:
    create_federation_certificates(tmp_path / "other", [Identity(Role.PASSIVE, "passive")])
    assert "authority" in wrong(settings, certs=tmp_path / "other")
    assert "nothing listens at its address" in wrong(settings, peers={"active": _free_addresses(1)[0]})
    assert "its address can't be found" in wrong(settings, peers={"active": "nowhere.invalid:50051"})
    assert "another party answers at its address" in wrong(settings, peers={"coordinator": settings.peers["active"]})


def test_a_state_folder_of_another_and_a_full_disk_are_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    StateFolder(tmp_path / "foreign", Identity(Role.ACTIVE, "active")).close()
    assert "is the state of active" in wrong(settings, state_dir=tmp_path / "foreign")
    monkeypatch.setattr(party_checks, "_LEAST_FREE_MEGABYTES", 1 << 60)
    assert "make room" in wrong(settings)


def test_a_taken_address_is_named(settings: Settings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "another process is there" in wrong(settings, listen=f"127.0.0.1:{taken.getsockname()[1]}")


def test_another_wire_and_another_clock_are_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "own_facts", lambda: ((WIRE_KEY, str(WIRE_VERSION + 1)),))
    assert f"active speaks version {WIRE_VERSION + 1} of Plumbline's wire" in wrong(settings)
    assert "clocks weren't compared" in found(settings)[-1].words
    for seconds, side in ((300, "ahead of"), (-300, "behind")):
        facts = ((WIRE_KEY, str(WIRE_VERSION)), (RELEASE_KEY, "9.9.9"), (CLOCK_KEY, f"{time.time() + seconds:.1f}"))
        monkeypatch.setattr(health, "own_facts", lambda facts=facts: facts)
        assert f"active's clock is 300 s {side} this machine's: set both by a time server" in wrong(settings)
        assert "active runs release 9.9.9" in found(settings)[-2].words
    monkeypatch.setattr(health, "own_facts", lambda: ((WIRE_KEY, str(WIRE_VERSION)), (CLOCK_KEY, "nan")))
    assert "clocks weren't compared" in found(settings)[-1].words


def test_the_command_ends_with_what_it_found(settings: Settings) -> None:
    peers = {**settings.peers, "coordinator": _free_addresses(1)[0]}
    given = load_settings(**{**settings.given(), "peers": peers, "data": "breast_cancer", "share": "2/2"})
    runner = CliRunner(env=given.environment())
    told = runner.invoke(app, ["doctor", "passive"])
    assert told.exit_code == 1
    assert "wrong  coordinator does not answer" in told.output
    document = json.loads(runner.invoke(app, ["doctor", "passive", "--json"]).output)
    assert document["ok"] is False
    assert {"subject", "party", "level", "words"} == set(document["findings"][0])
