"""The compose file as a newcomer runs it: up, scores and a report in a browser, and what no party may see or do."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from plumbline.federation import Federation, FederationFailed
from protos.v1 import active_pb2, active_pb2_grpc
from services.common.certificates import CertificateFiles
from services.common.identity import Identity, Role
from services.network.credentials import read_credentials

pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
PARTIES = ("coordinator", "active", "passive")
RECORDS = [f"r{number:06d}" for number in range(1, 21)]
BUILD_SECONDS = 400
UP_SECONDS = 300
SERVING_SECONDS = 240
REPORT_SECONDS = 120
_CALL_PREDICT = """
import grpc
from protos.v1 import active_pb2, active_pb2_grpc
from services.network.bootstrap import make_transport
from services.common.identity import Role
from services.common.settings import load_settings
transport = make_transport(load_settings(), Role.PASSIVE)
stub = active_pb2_grpc.ActiveStub(transport.dial("active:50051", "active"))
try:
    print(list(stub.Predict(iter([active_pb2.PredictRequest(ids=["r000001"])]), timeout=20)))
except grpc.RpcError as error:
    print(error.code().name)
"""


def run(*command: str, seconds: float = 60, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the repository; the failure of a checked one shows what it printed."""
    result = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if check and result.returncode != 0:
        output = f"{result.stdout[-3000:]}{result.stderr[-3000:]}"
        pytest.fail(f"{' '.join(command)} ended with {result.returncode}:\n{output}")
    return result


@dataclass(frozen=True)
class Stack:
    """One project of one compose command."""

    compose: tuple[str, ...]
    project: str
    port: int
    pages_port: int
    operator: Path

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __call__(self, *arguments: str, seconds: float = 60, check: bool = True) -> str:
        """Run the compose command; returns its standard output."""
        environment = {
            "COMPOSE_PROJECT_NAME": self.project,
            "PLUMBLINE_PORT": str(self.port),
            "PLUMBLINE_PAGES_PORT": str(self.pages_port),
            "PLUMBLINE_DEFENCES": "response_truncation,score_scheme3",
            # Long enough to be watched.
            "PLUMBLINE_EPOCHS": "20",
        }
        return run(*self.compose, *arguments, seconds=seconds, check=check, **environment).stdout.strip()

    def shell(self, service: str, script: str, *, check: bool = True) -> str:
        """Run a shell script in a service's container; returns its standard output."""
        return self("exec", "-T", service, "sh", "-c", script, check=check)

    def container(self, service: str) -> dict[str, Any]:
        """What the engine knows of a service's container."""
        described: list[dict[str, Any]] = json.loads(run("docker", "inspect", self("ps", "-aq", service)).stdout)
        return described[0]

    def connect(self) -> Federation:
        return Federation.connect(self.address, self.operator)

    def start(self) -> None:
        """Up, in the background; a failure shows the containers' last words."""
        try:
            self("up", "-d", seconds=UP_SECONDS)
        except BaseException:
            sys.stderr.write(self("logs", "--tail", "30", check=False))
            raise

    def page(self, path: str = "") -> str:
        """What the page server has; empty before the auditor has written it."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.pages_port}/{path}", timeout=10) as answer:
                return str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            return ""

    def await_report(self) -> None:
        """Wait until the auditor has said its last word."""
        deadline = time.monotonic() + REPORT_SECONDS
        while not json.loads(self.page("status.json") or "{}").get("is_over"):
            if time.monotonic() > deadline:
                pytest.fail(f"No report after {REPORT_SECONDS} s:\n{self('logs', '--tail', '30', 'audit')}")
            time.sleep(1)

    def await_serving(self) -> None:
        """Wait until the job is done."""
        deadline = time.monotonic() + SERVING_SECONDS
        last = "no answer"
        while time.monotonic() < deadline:
            try:
                with self.connect() as federation:
                    reply = federation.status()
            except FederationFailed as error:
                last = str(error)
            else:
                last = f"{reply.stage} {reply.failure}"
                if reply.stage == "serving":
                    return
                if reply.stage == "failed":
                    break
            time.sleep(1)
        pytest.fail(f"Not serving after {SERVING_SECONDS} s: {last}\n{self('logs', '--tail', '30')}")


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


@pytest.fixture(scope="module", params=["docker compose", "docker-compose"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The federation, built, up and serving; taken down with its volumes whatever happens."""
    compose = tuple(request.param.split())
    if shutil.which("docker") is None or run("docker", "info", check=False).returncode != 0:
        pytest.skip("no Docker engine answers `docker info`")
    if shutil.which(compose[0]) is None or run(*compose, "version", check=False).returncode != 0:
        pytest.skip(f"`{request.param}` is not installed")
    operator = tmp_path_factory.mktemp("compose") / "certs"
    stack = Stack(compose, f"plumbline{uuid.uuid4().hex[:8]}", free_port(), free_port(), operator)
    try:
        stack("build", seconds=BUILD_SECONDS)
        stack.start()
        run("docker", "cp", f"{stack('ps', '-aq', 'certs')}:/parties/operator/.", str(operator))
        stack.await_serving()
        stack.await_report()
        yield stack
    finally:
        stack("down", "-v", "--remove-orphans", seconds=90)


def test_scores_for_an_operator_outside(stack: Stack) -> None:
    with stack.connect() as federation:
        answers = federation.predict([*RECORDS, "nobody"])
    assert list(answers.index) == [*RECORDS, "nobody"]
    known = answers[answers["error"] == ""].drop(columns="error")
    assert len(known) > len(RECORDS) / 2
    assert known.sum(axis=1).to_numpy() == pytest.approx(1)
    assert known.to_numpy().min() >= 0
    assert "not among the aligned records" in str(answers.loc["nobody", "error"])
    assert answers.drop(columns="error").loc["nobody"].isna().all()


def in_browser(address: str) -> str:
    """What a page comes to in a browser that has run its scripts."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium here")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=4000")
    return run(browser, *options, "--dump-dom", address).stdout


def test_training_is_watched_and_ends_in_a_report_in_a_browser(stack: Stack) -> None:
    # What it showed, the auditor has said in its log as well.
    assert "training: step " in (said := stack("logs", "--no-color", "audit")), said
    assert stack.container("audit")["State"]["ExitCode"] == 0
    (session,) = {path.split("/")[1] for path in stack.shell("pages", "cd /pages; ls -d runs/*/report.html").split()}
    first = in_browser(f"http://127.0.0.1:{stack.pages_port}/")
    assert "<li>serving</li>" in first
    assert f'href="runs/{session}/report.html"' in first
    report = in_browser(f"http://127.0.0.1:{stack.pages_port}/runs/{session}/report.html")
    assert f"session {session}" in report
    # The attacks that the demo mounts by itself, at either party.
    for attack in (
        "half_star",
        "method_of_moments",
        "posterior",
        "auxiliary_ciphertext",
        "own_part",
        "trajectory_labels",
    ):
        assert attack in report
    assert "gia needs an extra" in report
    assert "means or covariances was not measured" in report


def test_the_auditor_only_reads_and_the_page_server_knows_the_pages_only(stack: Stack) -> None:
    def mounts(service: str) -> dict[str, bool]:
        volumes = [one for one in stack.container(service)["Mounts"] if one["Type"] == "volume"]
        return {one["Name"].removeprefix(f"{stack.project}_"): one["RW"] for one in volumes}

    runs = {"runs-active": False, "runs-passive": False}
    assert mounts("audit") == runs | {"certs-operator": False, "pages": True}
    assert mounts("pages") == {"pages": False}
    assert list(stack.container("pages")["NetworkSettings"]["Networks"]) == [f"{stack.project}_readers"]
    published = stack.container("pages")["NetworkSettings"]["Ports"]["8080/tcp"]
    assert published == [{"HostIp": "127.0.0.1", "HostPort": str(stack.pages_port)}]
    for service in ("audit", "pages"):
        host = stack.container(service)["HostConfig"]
        assert (host["ReadonlyRootfs"], host["CapDrop"], host["Memory"]) == (True, ["ALL"], 600 << 20)
        assert "no-new-privileges:true" in host["SecurityOpt"]
    assert stack.shell("pages", "id -u; find / -name '*.key' -not -path '/proc/*' 2>/dev/null || true") == "10001"


def test_every_party_becomes_healthy(stack: Stack) -> None:
    deadline = time.monotonic() + 40
    while True:
        health = {party: stack.container(party)["State"]["Health"]["Status"] for party in PARTIES}
        if set(health.values()) == {"healthy"} or time.monotonic() > deadline:
            break
        time.sleep(1)
    assert health == dict.fromkeys(PARTIES, "healthy")


def test_defences_of_the_shell_reach_the_services_that_they_sit_with(stack: Stack) -> None:
    agreement = json.loads(stack.shell("active", "cat /runs/active.json"))["agreement"]
    assert agreement["score_defences"] == ["score_scheme3"]
    assert [party["truncates_answers"] for party in agreement["parties"]] == [True, True]
    assert "score_scheme3 is a defence of the coordinator: ignored here" in stack("logs", "passive")


def test_only_the_active_party_can_be_reached(stack: Stack) -> None:
    network = f"{stack.project}_federation"
    (described,) = json.loads(run("docker", "network", "inspect", network).stdout)
    assert described["Internal"] is True
    for party in ("coordinator", "passive"):
        settings = stack.container(party)["NetworkSettings"]
        assert list(settings["Networks"]) == [network]
        assert not any(settings["Ports"].values())
    published = stack.container("active")["NetworkSettings"]["Ports"]
    assert published == {"50051/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(stack.port)}]}


@pytest.mark.parametrize("party", PARTIES)
def test_a_party_has_only_what_is_its_own(stack: Stack, party: str) -> None:
    mounts = {mount["Name"] for mount in stack.container(party)["Mounts"] if mount["Type"] == "volume"}
    own = {"certs", "state"} | ({"runs"} if party != "coordinator" else set())
    assert mounts == {f"{stack.project}_{one}-{party}" for one in own}
    assert stack.shell(party, "find / -name '*.key' -not -path '/proc/*' 2>/dev/null || true") == f"/certs/{party}.key"
    assert set(stack.shell(party, "ls /certs").split()) == {"ca.crt", f"{party}.crt", f"{party}.key"}
    if party != "coordinator":
        # Features are the demo's, for its auditor.
        own_files = {f"{party}.json", f"{party}-weights.npz", f"{party}-features.npz", "attacks"}
        own_files |= {"active-test-scores.npz"} if party == "active" else set()
        assert set(stack.shell(party, "ls /runs").split()) == own_files


@pytest.mark.parametrize("party", PARTIES)
def test_a_party_runs_without_privileges(stack: Stack, party: str) -> None:
    # A health check may end between the shell's look and cat's.
    status = stack.shell(party, "cat /proc/[0-9]*/status 2>/dev/null || true")
    fields = [line.split() for line in status.splitlines()]
    assert ["Name:", "plumbline"] in fields
    assert {field[1] for field in fields if field[0] == "Uid:"} == {"10001"}
    assert {int(field[1], 16) for field in fields if field[0] in ("CapEff:", "CapPrm:", "CapBnd:")} == {0}
    assert {field[1] for field in fields if field[0] == "NoNewPrivs:"} == {"1"}
    written = "for folder in / /opt/venv /certs tmp; do touch $folder/x 2>/dev/null && echo $folder; done; true"
    assert stack.shell(party, f"cd /; {written}") == "tmp"
    host = stack.container(party)["HostConfig"]
    assert host["ReadonlyRootfs"] is True
    assert host["Memory"] == 600 << 20
    assert host["RestartPolicy"]["Name"] == "unless-stopped"


def test_image_has_no_compiler_and_no_torch(stack: Stack) -> None:
    tools = "for tool in gcc cc g++ c++ clang make ld python; do command -v $tool; done; true"
    assert stack.shell("active", tools) == "/opt/venv/bin/python"
    find = "from importlib.util import find_spec as f; print(*[n for n in ('torch', 'psycopg', 'pytest') if f(n)])"
    assert stack("exec", "-T", "active", "python", "-c", find) == "psycopg"


def _status_code(channel: grpc.Channel) -> grpc.StatusCode:
    with channel:
        call = active_pb2_grpc.ActiveStub(channel).Status.future(active_pb2.StatusRequest(), timeout=20)
        return call.code()


def test_callers_without_a_certificate_are_refused(stack: Stack) -> None:
    shown = read_credentials(CertificateFiles.of(stack.operator, "operator"), Identity(Role.OPERATOR, "operator"))
    options = [("grpc.ssl_target_name_override", Identity(Role.ACTIVE, "active").host_name)]
    identified = grpc.ssl_channel_credentials(shown.authority, shown.key, shown.certificate)
    anonymous = grpc.ssl_channel_credentials(shown.authority)
    assert _status_code(grpc.secure_channel(stack.address, identified, options)) is grpc.StatusCode.OK
    assert _status_code(grpc.secure_channel(stack.address, anonymous, options)) is grpc.StatusCode.UNAVAILABLE
    assert _status_code(grpc.insecure_channel(stack.address)) is grpc.StatusCode.UNAVAILABLE


def test_a_passive_party_may_not_ask_for_scores(stack: Stack) -> None:
    assert stack("exec", "-T", "passive", "python", "-c", _CALL_PREDICT) == "PERMISSION_DENIED"


def test_without_the_passive_party_predictions_fail_and_a_new_start_serves_the_same_model(stack: Stack) -> None:
    """Last in the file: it takes the federation down and up again."""
    with stack.connect() as federation:
        session, before = federation.status().session_id, federation.predict(RECORDS)
    stack("kill", "passive")
    started = time.monotonic()
    with (
        stack.connect() as federation,
        pytest.raises(FederationFailed, match="passive does not answer"),
    ):
        federation.predict(RECORDS[:1])
    assert time.monotonic() - started < 90
    authority = (stack.operator / "ca.crt").read_text().strip()
    stack("stop")
    stack.start()
    stack.await_serving()
    assert stack.shell("active", "cat /certs/ca.crt") == authority
    with stack.connect() as federation:
        assert federation.status().session_id == session
        assert federation.predict(RECORDS).equals(before)
    # The auditor has looked again, and has found its report there.
    stack.await_report()
    assert json.loads(stack.page("status.json"))["reports"] == 1
