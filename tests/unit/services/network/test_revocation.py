"""Certificates that are taken back while parties run, over real TLS: neither answered nor called from then on."""

import logging
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from typer.testing import CliRunner

from plumbline.cli import app
from services.common.certificates import (
    CertificateError,
    CertificateFiles,
    create_authority,
    issue_certificate,
    revoke_certificates,
)
from services.common.errors import PeerRefused, PeerVanished
from services.common.heartbeat import Answer
from services.common.identity import Identity, Role
from services.network import credentials
from services.network.credentials import RenewedCredentials, read_credentials
from services.network.health_link import HealthLink
from services.network.statuses import naming
from services.network.transport import is_serving
from tests.harness.connections import make_certificates, transport_of
from tests.harness.proxy import Fault, Proxy

PASSIVE = Identity(Role.PASSIVE, "passive")
SECONDS = 20.0


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_SECONDS_BETWEEN_LOOKS", 0.0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture
def folders(made: Path, tmp_path: Path) -> dict[str, Path]:
    """A folder of certificates for each end, and the authority's own."""
    return {name: Path(shutil.copytree(made, tmp_path / name)) for name in ("authority", "active", "passive")}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


class Calls(list[str]):
    """The methods that a server was asked for."""

    def ended(self, method: str, code: str, seconds: float) -> None:
        self.append(method)


def serve(stack: ExitStack, folders: dict[str, Path], calls: Calls | None = None) -> str:
    transport = transport_of(folders["active"], "active")
    transport.tally.calls = calls
    server, port = transport.serve("127.0.0.1:0", [], {}, [])
    stack.callback(lambda: server.stop(None).wait())
    return f"127.0.0.1:{port}"


def dial(stack: ExitStack, folders: dict[str, Path], address: str) -> grpc.Channel:
    return stack.enter_context(transport_of(folders["passive"], "passive").dial(address, "active"))


def revoke(folders: dict[str, Path], name: str, *ends: str) -> None:
    shutil.copy(revoke_certificates(folders["authority"], [name]), folders[ends[0]])
    for end in ends[1:]:
        shutil.copy(folders["authority"] / "ca.crl", folders[end])


def test_a_revoked_callers_next_call_is_refused_in_words_and_its_new_pair_is_not(
    stack: ExitStack, folders: dict[str, Path], caplog: pytest.LogCaptureFixture
) -> None:
    channel = dial(stack, folders, serve(stack, folders))
    ask = health_pb2_grpc.HealthStub(channel)
    ask.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)  # type: ignore[attr-defined]
    revoke(folders, "operator", "active")
    # Over the connection that it has.
    ask.Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)  # type: ignore[attr-defined]
    revoke(folders, "passive", "active")
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(PeerRefused, match=r"certificate is revoked.*needs a new pair"),
    ):
        HealthLink("active", channel).await_ready(SECONDS)
    assert "Refused Check of passive" in caplog.text
    issue_certificate(folders["authority"], PASSIVE)
    for end in ("crt", "key"):
        shutil.copy(folders["authority"] / f"passive.{end}", folders["passive"])
    assert is_serving(channel)


def test_a_revoked_server_is_not_called_and_its_new_pair_is(stack: ExitStack, folders: dict[str, Path]) -> None:
    channel = dial(stack, folders, serve(stack, folders))
    link = HealthLink("active", channel)
    revoke(folders, "operator", "passive")
    link.await_ready(SECONDS)
    revoke(folders, "active", "passive")
    with pytest.raises(PeerRefused, match="active: The certificate shown at its address is revoked"):
        link.await_ready(SECONDS)
    assert not is_serving(channel)
    issue_certificate(folders["active"], Identity(Role.ACTIVE, "active"))
    link.await_ready(SECONDS)


@pytest.fixture
def stolen(stack: ExitStack, folders: dict[str, Path]) -> tuple[str, str, Calls]:
    """Who serves with active's revoked pair, active itself with its new one, and what the former was asked for."""
    calls = Calls()
    thief = serve(stack, folders, calls)
    revoke(folders, "active", "passive")
    honest = Path(shutil.copytree(folders["authority"], folders["active"].parent / "honest"))
    issue_certificate(honest, Identity(Role.ACTIVE, "active"))
    return thief, serve(stack, {"active": honest}), calls


def between(stack: ExitStack, target: str, first: str) -> str:
    proxy = Proxy(target, first=first)
    stack.callback(proxy.close)
    return proxy.address


def test_a_revoked_server_that_shows_the_look_the_honest_ones_face_is_not_called(
    stack: ExitStack, folders: dict[str, Path], stolen: tuple[str, str, Calls]
) -> None:
    thief, honest, calls = stolen
    channel = dial(stack, folders, between(stack, thief, first=honest))
    assert not is_serving(channel, timeout=SECONDS)
    # The call has failed, so there is another look, which meets the thief.
    with pytest.raises(PeerRefused, match="active: The certificate shown at its address is revoked"):
        HealthLink("active", channel).await_ready(SECONDS)
    assert calls == []


def test_a_revoked_server_that_hangs_up_on_the_look_is_not_called(
    stack: ExitStack, folders: dict[str, Path], stolen: tuple[str, str, Calls]
) -> None:
    thief, _, calls = stolen
    with (
        pytest.raises(PeerVanished, match=r"can't be compared with the list of revoked ones"),
        naming("active"),
    ):
        health_pb2_grpc.HealthStub(dial(stack, folders, between(stack, thief, first=""))).Check(  # type: ignore[attr-defined]
            health_pb2.HealthCheckRequest(), timeout=SECONDS
        )
    assert calls == []
    # One that asks without waiting counts it as no answer.
    answers: list[Answer] = []
    channel = dial(stack, folders, between(stack, thief, first=""))
    HealthLink("active", channel).ask("session", SECONDS, answers.append)
    assert answers == [Answer.UNREACHABLE]


def test_a_server_with_a_new_pair_is_waited_for_and_called_while_others_are_revoked(
    stack: ExitStack, folders: dict[str, Path]
) -> None:
    revoke(folders, "operator", "passive")
    address = serve(stack, folders)
    proxy = Proxy(address)
    stack.callback(proxy.close)
    link = HealthLink("active", dial(stack, folders, proxy.address))
    proxy.strike(Fault.CUT)
    threading.Timer(0.5, proxy.heal).start()
    link.await_ready(SECONDS)
    issue_certificate(folders["active"], Identity(Role.ACTIVE, "active"))
    proxy.strike(Fault.CUT)
    proxy.heal()
    # The connection ended, and the new one shows another certificate than the one that was looked at.
    link.await_ready(SECONDS)


def test_nobody_is_taken_off_the_list_by_a_file_that_is_lost_or_broken(folders: dict[str, Path]) -> None:
    files = CertificateFiles.of(folders["passive"], "passive")
    kept = RenewedCredentials(files, PASSIVE)
    assert kept.present().revoked == frozenset()
    revoke(folders, "active", "passive")
    revoked = kept.present().revoked
    assert len(revoked) == 1
    files.revocations.write_bytes(files.revocations.read_bytes()[:-40])
    assert kept.present().revoked == revoked
    files.revocations.unlink()
    assert kept.present().revoked == revoked
    revoke(folders, "operator", "passive")
    assert len(kept.present().revoked) == 2


def test_a_party_whose_own_certificate_is_revoked_says_so(folders: dict[str, Path]) -> None:
    revoke(folders, "passive", "passive")
    with pytest.raises(CertificateError, match=r"passive.crt is revoked by .*ca.crl: get a new pair"):
        read_credentials(CertificateFiles.of(folders["passive"], "passive"), PASSIVE)


def test_a_list_of_another_authority_or_cut_off_anywhere_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    files = CertificateFiles.of(folders["passive"], "passive")
    create_authority(tmp_path / "other")
    issue_certificate(tmp_path / "other", PASSIVE)
    whole = revoke_certificates(tmp_path / "other", ["passive"]).read_bytes()
    files.revocations.write_bytes(whole)
    with pytest.raises(CertificateError, match=r"ca.crl isn't signed by the authority in ca.crt"):
        read_credentials(files, PASSIVE)
    whole = revoke_certificates(folders["authority"], ["active"]).read_bytes()
    # The end of its last line alone says nothing.
    for size in (*range(0, len(whole) - 1, 97), len(whole) - 2):
        files.revocations.write_bytes(whole[:size])
        with pytest.raises(CertificateError, match="can't be read as a list of revoked certificates"):
            read_credentials(files, PASSIVE)


def test_the_command_keeps_who_was_revoked_before_and_refuses_what_is_no_certificate(
    made: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(made, tmp_path / "certs"))
    old = str(shutil.copy(folder / "passive.crt", tmp_path / "old.crt"))

    def command(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, ["certs", "--out", str(folder), *words])
        return done.exit_code, " ".join(done.output.split())

    assert command("--revoke", "operator")[0] == 0
    assert command("--renew")[0] == 0
    status, words = command("--revoke", old, "--revoke", "operator")
    assert (status, "beside ca.crt" in words) == (0, True)
    files = CertificateFiles.of(folder, "passive")
    # Its new pair stands, its old one doesn't; the operator's two are both gone.
    assert len(read_credentials(files, PASSIVE).revoked) == 3
    for wrong in ("nobody", str(folder / "passive.key"), "ca"):
        status, words = command("--revoke", wrong)
        assert status == 2
        assert "no certificate of this authority" in words or "can't revoke itself" in words
    assert len(read_credentials(files, PASSIVE).revoked) == 3
