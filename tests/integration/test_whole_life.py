"""A federation from its start to its page, once a protocol: what `make test` has of processes.

Coordinator, active and passive party run as processes over mTLS. An environment variable of the active party mounts an
attack. One process is killed in mid-training and started again, the training goes on, the model answers, all of it is
audited, and the audit's page is looked at in a browser. Every other test of processes is one of `make check`.
"""

import io
import json
import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from rich.console import Console

from plumbline.audit.folder import AuditFolder, new_run, run_at_work, write_duration, write_plan
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import judged, prepare, write_findings
from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2
from tests.harness.pages import CHROMIUM, LOOKS, problems_of
from tests.harness.strikes import assert_no_traceback, log_of, send

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IDS = [f"r{row:06d}" for row in range(178)]
TERMS = {
    "key_bits": 512,
    "allow_insecure_keys": True,
    "batch_size": 32,
    "step_timeout": 30,
    "resume_within": 60,
    "private_seed": 1,
    "seed": 7,
}
# Protocol 1 and shared weights; a network with its first layer on shared weights.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "hu": {"protocol": "hu", "epochs": 4, "disclose": True},
    "shared": {"protocol": "shared", "epochs": 2, "opening": "always", "disclose": True},
    "network": {"learner": "network", "backward": "shared", "epochs": 2, "learner_options": {"hidden": 4, "upper": 4}},
}
ATTACKS = {"hu": "half_star", "shared": "half_star", "network": "half"}


def killed_once(federation: Federation, steps: int) -> list[str]:
    """Train; the passive party is killed after some steps and started again. Returns the stages, as they came."""
    stages: list[str] = []

    def watch(event: active_pb2.JobEvent) -> None:
        if event.stage:
            stages.append(event.stage)
        if stages[-1:] == ["training"] and event.progress.steps_done >= steps and "killed" not in stages:
            stages.insert(0, "killed")
            send(federation.processes, "passive", signal.SIGKILL)
            federation.processes.start_party("passive")

    federation.train(watch=watch)
    return stages


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_federation_is_killed_goes_on_answers_and_is_audited(
    tmp_path: Path, protocol: str, request: pytest.FixtureRequest
) -> None:
    if protocol == "network":
        pytest.importorskip("torch")  # its label party trains the upper layers
    attack = ATTACKS[protocol]
    audit = AuditRequest.of(
        data="wine", runs=tmp_path / "runs", attacks=(attack,), settings={**TERMS, **PROTOCOLS[protocol]}
    )
    plan, _ = prepare(audit, Console(file=io.StringIO()))
    run = new_run(audit.output.runs, audit.title)
    with run_at_work(run.path):
        write_plan(run, plan)
        processes = LocalProcesses(tmp_path, plan.recipe.settings(run.parties.path.resolve()))
        assert not processes.is_insecure
        with Federation.start(processes) as federation:
            assert killed_once(federation, 3)[0] == "killed"
            assert "the training goes on from step" in log_of(federation, "active")
            scores = federation.predict(IDS)
            assert_no_traceback(processes)
        findings = judged(run, plan.request)
        write_findings(run, findings, write_duration(run, 1.0))
    known = scores[scores["error"] == ""].drop(columns="error").to_numpy(dtype=np.float64)
    assert 150 < len(known) < len(IDS)
    np.testing.assert_allclose(known.sum(axis=1), 1.0, atol=1e-3)
    assert_audited(run, attack)
    if CHROMIUM is None:
        warnings.warn("No Chromium here: the page was not looked at. Install the package chromium.", stacklevel=1)
        return
    browser: Browser = request.getfixturevalue("browser")
    problems = problems_of(browser, run.report, LOOKS[0])
    assert not problems, "\n".join(problems[:20])


def assert_audited(run: AuditFolder, attack: str) -> None:
    """The attack of the environment was mounted on the answers, and the page says what it found."""
    results = json.loads(run.results.read_text())
    (finding,) = (one for one in results["attacks"] if one["attack"] == attack)
    assert finding["mse"] is not None, finding["reason"]
    assert finding["records"] > 0
    assert results["accuracy"] > 0.5
    assert attack in run.report.read_text()
