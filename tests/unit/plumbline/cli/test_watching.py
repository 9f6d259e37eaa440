"""``plumbline status`` of a real active party over mTLS: once, watched, as JSON; and what who is lost is told."""

import io
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.federation import Federation, FederationFailed
from protos.v1 import active_pb2_grpc, coordinator_pb2_grpc
from services.active import servicer as active_servicer
from services.common.certificates import create_federation_certificates
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from services.coordinator import servicer as coordinator_servicer
from services.network.transport import Transport
from tests.harness.connections import make_certificates, transport_of
from tests.harness.parties import House, house, small_settings

PLAIN = small_settings(cipher="plain")


@dataclass(frozen=True)
class Served:
    """Party objects of one house, the active one and the coordinator behind real servers.

    Attributes:
        home: the parties.
        certificates: of all of them and the operator.
        address: of the active party.
        coordinator: its address.
    """

    home: House
    certificates: Path
    address: str
    coordinator: str

    def run(self, *options: str, address: str = "", certs: Path | None = None) -> tuple[int, list[str], str]:
        """Exit status, lines of standard output, and standard error of `plumbline status`."""
        where = ("--address", address or self.address, "--certs", str(certs or self.certificates))
        done = CliRunner(env={"COLUMNS": "250"}).invoke(app, ["status", *options, *where])
        return done.exit_code, done.stdout.splitlines(), done.stderr


def serve(transport: Transport, home: House) -> tuple[object, int]:
    if transport.identity.role is Role.ACTIVE:
        active = active_servicer.ActiveServicer(home.active, home.settings.plan())
        return transport.serve(
            "127.0.0.1:0",
            [lambda server: active_pb2_grpc.add_ActiveServicer_to_server(active, server)],
            active_servicer.PERMISSIONS,
            [],
        )
    coordinator = coordinator_servicer.CoordinatorServicer(home.sessions)
    return transport.serve(
        "127.0.0.1:0",
        [lambda server: coordinator_pb2_grpc.add_CoordinatorServicer_to_server(coordinator, server)],
        coordinator_servicer.PERMISSIONS,
        [],
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A federation that has trained once."""
    folder = tmp_path_factory.mktemp("served")
    certificates = make_certificates(folder / "certs")
    with house(folder / "run", settings=PLAIN) as home:
        home.train()
        active, port = serve(transport_of(certificates, "active"), home)
        coordinator, other = serve(transport_of(certificates, "coordinator"), home)
        yield Served(home, certificates, f"127.0.0.1:{port}", f"127.0.0.1:{other}")
        for server in (active, coordinator):
            server.stop(None).wait()  # type: ignore[attr-defined]


def test_what_is_stands_on_standard_output_and_what_is_unprotected_on_standard_error(served: Served) -> None:
    code, lines, errors = served.run()
    assert (code, lines[0], lines[1]) == (0, "serving", "55 records are aligned.")
    assert lines[2] == "Protocol: hu."
    parties = [re.sub(r" \(.*\)", "", line) for line in lines[3:6]]
    assert parties == ["active brings 3 features.", "passive brings 3 features.", "coordinator was not asked."]
    assert lines[6].startswith("The model that answers: accuracy ")
    assert "INSECURE" in errors


def test_json_has_all_of_it_in_one_line(served: Served) -> None:
    code, lines, errors = served.run("--json")
    assert (code, len(lines), errors) == (0, 1, "")
    content = json.loads(lines[0])
    assert content["stage"] == "serving"
    assert content["aligned_rows"] == 55
    assert content["job"] is None
    assert content["test"]["test_rows"] == len(served.home.tested().labels)
    nothing = {"feature_count": None, "answers": None, "binary_features": 0, "byte_features": 0}
    assert content["parties"][2] == {"name": "coordinator", **nothing}
    with Federation.connect(served.address, served.certificates) as federation:
        assert federation.status().content() == content | {
            "parties": tuple(content["parties"]),
            "class_names": tuple(content["class_names"]),
            "warnings": tuple(content["warnings"]),
            "test": content["test"] | {"by_class": tuple(content["test"]["by_class"])},
        }


class Clock:
    """Stands for the time module of the command: a test's steps take place while the command sleeps."""

    def __init__(self, *steps: object) -> None:
        self._steps = iter(steps)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        step = next(self._steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()  # type: ignore[operator]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_watch_through_a_pipe_tells_what_changes_until_ctrl_c(
    served: Served, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    answer = Federation.status

    def out_of_reach(_: Federation) -> object:
        raise FederationFailed("active does not answer: \x1b[31mgone.")

    def vanish() -> None:
        monkeypatch.setattr(Federation, "status", out_of_reach)

    def come_back_with_a_failed_job() -> None:
        monkeypatch.setattr(Federation, "status", answer)
        with pytest.raises(OutOfOrder):
            served.home.train(packing=False)

    steps = (lambda: None, vanish, lambda: None, come_back_with_a_failed_job)
    monkeypatch.setattr("plumbline.cli.watching.time", Clock(*steps))
    code, lines, errors = served.run("--watch", *(["--json"] if as_json else []))
    served.home.train()
    assert (code, errors) == (130, "")
    assert "\x1b" not in "".join(lines)
    if as_json:
        found = [json.loads(line) for line in lines]
        assert [one.get("stage", one["failure"]) for one in found] == [
            "serving",
            "active does not answer: \\x1b[31mgone.",
            "failed",
        ]
        return
    gone = lines.index("active does not answer: \\x1b[31mgone.")
    assert lines[0] == "serving"
    assert lines[gone + 1] == "failed"
    assert lines[gone + 2].startswith("The last job: ")
    assert lines[gone + 3 :] == ["Predictions are answered by the model from before."]


def test_a_watch_on_a_terminal_is_redrawn(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr("plumbline.cli.watching.console_out", terminal)
    monkeypatch.setattr("plumbline.cli.watching.time", Clock(lambda: None, lambda: None))
    code, lines, errors = served.run("--watch")
    assert (code, lines, errors) == (130, [], "")
    shown = screen.getvalue()
    # Three looks, each over the one before: the cursor goes back up between them.
    assert shown.count("serving") >= 3
    assert shown.count("\x1b[2K\x1b[1A") + shown.count("\x1b[1A\x1b[2K") >= 2
    assert "The model that answers: accuracy" in shown


def test_a_watch_of_a_wrong_address_ends_at_once(served: Served) -> None:
    code, lines, errors = served.run("--watch", address=served.coordinator)
    assert (code, lines) == (2, [])
    assert errors.startswith("plumbline: No active party answers at ")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_watch_that_began_before_the_services_waits_for_them(
    served: Served, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """It ended at once, so that nobody could begin to watch and then start them."""
    answer, here = Federation.status, Federation.connect(served.address, served.certificates)

    def begin() -> None:
        monkeypatch.setattr(Federation, "status", lambda _: answer(here))

    monkeypatch.setattr("plumbline.cli.watching.time", Clock(lambda: None, begin, lambda: None))
    with socket.socket() as unheard, here:
        unheard.bind(("127.0.0.1", 0))
        code, lines, errors = served.run(
            "--watch", *(["--json"] if as_json else []), address=f"127.0.0.1:{unheard.getsockname()[1]}"
        )
    assert (code, errors) == (130, "")
    first = json.loads(lines[0])["failure"] if as_json else lines[0]
    assert first.startswith("active does not answer: nothing listens at its address.")
    assert first.endswith("It is waited for, until Ctrl-C.")
    assert (json.loads(lines[1])["stage"] if as_json else lines[1]) == "serving"


# -- who is lost is told where to look ---------------------------------------------------------------------------------


def test_the_coordinator_is_not_taken_for_a_broken_active_party(served: Served) -> None:
    words = (
        f"plumbline: No active party answers at {served.coordinator}: is it the active party's address? You may be "
        "asking the coordinator or a passive party.\n"
    )
    assert served.run(address=served.coordinator) == (2, [], words)


def test_without_tls_another_service_is_not_taken_for_the_active_party_either(served: Served) -> None:
    transport = Transport(
        Identity(Role.COORDINATOR, "coordinator"), None, transport_of(served.certificates, "active").meter
    )
    server, port = serve(transport, served.home)
    try:
        with (
            Federation.connect(f"127.0.0.1:{port}", None) as federation,
            pytest.raises(FederationFailed, match=f"^No active party answers at 127.0.0.1:{port}: is it"),
        ):
            federation.status()
    finally:
        server.stop(None).wait()  # type: ignore[attr-defined]


def certificates_of(folder: Path, *, days: float = 365) -> Path:
    create_federation_certificates(folder, [Identity(Role.OPERATOR, "operator")], days=days)
    return folder


def test_an_expired_or_missing_certificate_says_what_to_renew(served: Served, tmp_path: Path) -> None:
    expired = certificates_of(tmp_path / "expired", days=-1e-3)
    code, _, errors = served.run(certs=expired)
    assert code == 2
    assert "has expired: run `plumbline certs --renew` where the authority is" in errors
    code, _, errors = served.run(certs=tmp_path)
    assert (code, errors) == (
        2,
        f"plumbline: There is no operator's certificate in {tmp_path}: give the folder of ca.crt, operator.crt and "
        "operator.key with --certs (`plumbline certs` makes them).\n",
    )


def test_another_federations_certificates_are_told_from_a_party_that_is_down(served: Served, tmp_path: Path) -> None:
    code, _, errors = served.run(certs=certificates_of(tmp_path / "others"))
    assert code == 2
    assert "the certificate shown there is not of this federation's authority." in errors
    assert served.address in errors


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("localhost", "The address 'localhost' has no port: give the active party's, such as localhost:50051."),
        ("localhost:", "Expected the active party's address as HOST:PORT, got 'localhost:'."),
        ("", "Expected the active party's address as HOST:PORT, got ''."),
        ("no.such.host.invalid:50051", "active does not answer: its address can't be found."),
    ],
)
def test_an_address_that_is_none_is_one_sentence(served: Served, address: str, words: str) -> None:
    done = CliRunner(env={"COLUMNS": "250"}).invoke(
        app, ["status", "--address", address, "--certs", str(served.certificates)]
    )
    assert done.exit_code == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_busy_port_is_one_sentence_and_no_service(served: Served) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-m", "plumbline", "serve", "coordinator"],
            env={**os.environ, "PLUMBLINE_LISTEN": address, "PLUMBLINE_CERTS": str(served.certificates)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        f"plumbline: Cannot listen on {address}: another process is there. Choose a free address with PLUMBLINE_LISTEN."
    )
    assert "Traceback" not in done.stderr
