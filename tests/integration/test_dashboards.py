"""What deploy/ brings for Prometheus and Grafana: its rules, its queries against a real one, its compose profile."""

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from services.coordinator import servicer
from services.watching.exposition import serve_metrics
from services.watching.measures import Measure
from services.watching.tally import Tally, Told

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
needs_prometheus = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")), reason="Prometheus isn't installed"
)
_OWN = re.compile(r"\b(?:plumbline|grpc_server)_[a-z_]+\b")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "dashboards" / "plumbline.json").read_text())
    return found


def queries() -> list[str]:
    """Of the dashboard, with seconds in place of what Grafana fills in."""
    targets = [target for panel in dashboard()["panels"] for target in panel.get("targets", ())]
    return [target["expr"].replace("$__rate_interval", "5s") for target in targets]


def test_rules_and_panels_ask_for_metrics_that_there_are() -> None:
    documented = (ROOT / "docs" / "how-to" / "watch.md").read_text()
    known = set(_OWN.findall(documented)) | {"grpc_server_handling_seconds_bucket"}
    asked = {name for text in [*queries(), (PROMETHEUS / "alerts.yml").read_text()] for name in _OWN.findall(text)}
    assert len(asked) > 10
    assert asked <= known
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)


@needs_prometheus
def test_rules_speak_where_they_must_and_nowhere_else() -> None:
    for command in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts.test.yml"]):
        done = subprocess.run(["promtool", *command], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def watched() -> int:
    """A process with every metric, some of which grow; returns its port."""
    tally, asked = Tally(), [0]
    tally.begin({"active": Told(19, 300, 0.5)})

    def source() -> Iterator[Measure]:
        asked[0] += 1
        tally.answered("active", "decryption", 15)
        tally.answered("active", "alignment", 15)
        tally.refused(None, ValueError())
        assert tally.calls is not None
        tally.calls.ended(f"/{servicer.SERVICE_NAME}/Score", "OK", 0.01)
        yield Measure("steps", "", {(): asked[0]}, grows=True)
        yield Measure.by("stage", "stage_seconds", "", {"encrypt": asked[0]}, grows=True)
        yield Measure.by("peer", "bytes", "", {"active": asked[0]}, grows=True)
        for name in ("forms_answered", "opened_bits"):
            yield Measure.by("peer", name, "", {"active": 3})
        for name in ("forms_allowed", "forms_of_a_record", "audit_log_lines", "audit_log_unwritten"):
            yield Measure(name, "", {(): 4})

    tally.add(source)
    port = free_port()
    serve_metrics(f"127.0.0.1:{port}", tally)
    return port


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
    return port


@contextmanager
def prometheus(folder: Path, target: int) -> Iterator[str]:
    """Debian's Prometheus with our rules, which looks at a process every half second; yields its address."""
    shutil.copy(PROMETHEUS / "alerts.yml", folder)
    settings = {
        "global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [{"job_name": "passive", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings))
    address = f"127.0.0.1:{free_port()}"
    command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        yield address
    finally:
        process.terminate()
        process.wait()


def answer(address: str, query: str) -> list[dict[str, Any]]:
    url = f"http://{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=10) as reply:
        content = json.loads(reply.read())
    assert content["status"] == "success"
    found: list[dict[str, Any]] = content["data"]["result"]
    return found


@needs_prometheus
def test_every_query_of_the_dashboard_has_an_answer(tmp_path: Path) -> None:
    with prometheus(tmp_path, watched()) as address:

        def unanswered() -> list[str]:
            try:
                return [query for query in queries() if not answer(address, query)]
            except OSError:
                return ["all: it isn't up yet"]

        deadline = time.monotonic() + 60
        while (left := unanswered()) and time.monotonic() < deadline:
            time.sleep(0.3)
        assert left == [], (tmp_path / "log").read_text()[-2000:]
        (steps,) = answer(address, "sum by (job) (rate(plumbline_steps_total[5s]))")
        assert float(steps["value"][1]) > 0
        # Nothing is told of a party that nobody looks at.
        assert answer(address, 'plumbline_guard_ratio{job="active"}') == []


def test_the_profile_is_a_compose_file() -> None:
    compose = ["docker", "compose", "--profile", "watch", "config", "--format", "json"]
    if not shutil.which("docker") or subprocess.run(compose[:2], capture_output=True, check=False).returncode:
        pytest.skip("docker compose isn't installed")
    done = subprocess.run(compose, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    services = json.loads(done.stdout)["services"]
    for name in ("prometheus", "grafana"):
        service = services[name]
        assert service["read_only"]
        assert [port["host_ip"] for port in service["ports"]] == ["127.0.0.1"]
        # What is mounted of the repository is there.
        mounts = [one["source"] for one in service["volumes"] if one["type"] == "bind"]
        assert mounts
        assert all(Path(one).is_dir() for one in mounts)
    without = subprocess.run(
        ["docker", "compose", "config", "--services"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"coordinator", "active", "passive"} <= set(without)
    assert not {"prometheus", "grafana"} & set(without)
