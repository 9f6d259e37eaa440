"""A federation that is watched: what its metrics and its audit logs say, and what they must never say."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pandas as pd
import pytest

from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses
from protos.v1 import coordinator_pb2, coordinator_pb2_grpc
from services.watching.audit_log import files_of, verify
from tests.harness.metrics import Labels, samples, scraped
from tests.harness.processes import QUICK, dial

PARTIES = ("coordinator", "active", "passive")
# What must stand in no metric and no log: an id, a column, a class, a value.
ID, COLUMNS, CLASSES, VALUE = "zanzibar", ("quetzal", "xylophone", "obelisk"), ("yggdrasil", "popocatepetl"), 8675309
STRANGER = "krakatoa"


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalProcesses]:
    """Three parties that have trained, predicted and refused."""
    folder, generator = tmp_path_factory.mktemp("watched"), np.random.default_rng(3)
    ids = [f"{ID}{number}" for number in range(320)]
    features = generator.integers(VALUE, VALUE + 90, size=(320, 7))
    active = pd.DataFrame(features[:, :3], columns=[f"{COLUMNS[0]}{at}" for at in range(3)])
    passive = pd.DataFrame(features[:, 3:], columns=[f"{COLUMNS[1]}{at}" for at in range(4)])
    active.insert(0, COLUMNS[2], [CLASSES[int(row.sum()) % 2] for row in features])
    for name, frame in (("active", active), ("passive", passive)):
        frame.insert(0, "id", ids)
        frame.to_csv(folder / f"{name}.csv", index=False)
    request = AuditRequest.of(
        active=str(folder / "active.csv"),
        passive=[str(folder / "passive.csv")],
        label=COLUMNS[2],
        settings={**QUICK, "metrics": "127.0.0.1:0", "disclose": True},
    )
    made = LocalProcesses(folder, request.recipe(request.tables.party_settings).checked().settings(folder / "parties"))
    with Federation.start(made) as federation:
        federation.train()
        federation.predict([*ids[:5], STRANGER])
        federation.predict_one(ids[7])
        with pytest.raises(FederationFailed, match="not among"):
            federation.predict_one(STRANGER)
        with dial(made, "operator", "coordinator") as channel, pytest.raises(grpc.RpcError):
            coordinator_pb2_grpc.CoordinatorStub(channel).OpenSession(
                coordinator_pb2.OpenSessionRequest(passive_parties=[STRANGER]), timeout=10
            )
        yield made


@pytest.fixture(scope="module")
def texts(processes: LocalProcesses) -> dict[str, str]:
    return {name: scraped(processes.log(name)) for name in PARTIES}


def logged(processes: LocalProcesses, name: str) -> str:
    return "".join(file.read_text() for file in files_of(processes.state(name) / "audit-log"))


def test_no_id_label_value_or_column_is_in_a_metric_or_a_log(processes: LocalProcesses, texts: dict[str, str]) -> None:
    planted = [ID, *COLUMNS, *CLASSES, str(VALUE)[:5], STRANGER, "r000001"]
    told = {**texts, **{f"{name}'s log": logged(processes, name) for name in PARTIES}}
    assert len(told) == 6
    for whose, text in told.items():
        assert len(text) > 500
        assert not [one for one in planted if one in text.lower()], whose
    # The services themselves know them: where they aren't found, nothing was planted.
    assert ID in (processes.folder / "passive.csv").read_text()


def one(found: dict[Labels, float], **labels: str) -> float:
    return found[tuple(sorted(labels.items()))]


def test_privacy_is_a_time_series(processes: LocalProcesses, texts: dict[str, str]) -> None:
    active, passive = samples(texts["active"]), samples(texts["passive"])
    steps = active["plumbline_steps_total"][()]
    assert steps > 1
    assert passive["plumbline_steps_total"][()] == steps
    for found, peer in ((active, "passive"), (passive, "active")):
        assert one(found["plumbline_answers_total"], peer=peer, kind="decryption") == steps
        numbers = one(found["plumbline_answered_items_total"], peer=peer, kind="decryption")
        # Answers are cut to honest sums: as many equations as numbers of a step, at least one for each.
        assert one(found["plumbline_equations_answered_total"], peer=peer) >= steps
        assert one(found["plumbline_capacity_bits_total"], peer=peer) >= numbers
        assert one(found["plumbline_guard_ratio"], peer=peer) > 0
        for kind in ("residuals", "sums"):
            assert one(found["plumbline_messages_total"], kind=kind) == steps
            assert one(found["plumbline_message_bytes_total"], kind=kind) > 100 * steps
        assert one(found["plumbline_bytes_total"], peer=peer) > 1000
        assert set(found["plumbline_stage_seconds_total"]) >= {(("stage", "encrypt"),), (("stage", "decrypt"),)}
    assert one(passive["plumbline_answers_total"], peer="active", kind="alignment") == 1
    assert one(passive["plumbline_answered_items_total"], peer="active", kind="alignment") == 320
    # One form of each record was told: that of the model which is served.
    assert one(passive["plumbline_forms_answered"], peer="active") >= 1
    assert passive["plumbline_forms_of_a_record"][()] == 4
    assert one(active["plumbline_answered_items_total"], peer="operator", kind="scores") == 7
    coordinator = samples(texts["coordinator"])
    assert one(coordinator["plumbline_refusals_total"], peer="operator", reason="not_allowed") == 1
    assert one(coordinator["plumbline_answered_items_total"], peer="active", kind="scores") >= 7


def test_calls_have_their_usual_names(texts: dict[str, str]) -> None:
    handled = samples(texts["active"])["grpc_server_handled_total"]
    codes = {dict(labels)["grpc_code"] for labels in handled if ("grpc_method", "PredictOne") in labels}
    assert codes == {"OK", "NotFound"}
    types = {dict(labels)["grpc_method"]: dict(labels)["grpc_type"] for labels in handled}
    assert (types["Ask"], types["Predict"], types["Train"]) == ("bidi_stream", "bidi_stream", "server_stream")
    assert samples(texts["active"])["grpc_server_handling_seconds_count"]
    assert samples(texts["active"])["process_cpu_seconds_total"][()] > 0


def test_audit_logs_agree_with_the_metrics(processes: LocalProcesses, texts: dict[str, str]) -> None:
    for name in PARTIES:
        text, result = logged(processes, name), verify(processes.state(name))
        assert result.last == len(text.splitlines())
        answers = samples(texts[name])["plumbline_answers_total"]
        for labels, count in answers.items():
            peer, kind = dict(labels)["peer"], dict(labels)["kind"]
            assert len(re.findall(f'"peer": "{peer}", "kind": "{kind}"', text)) == count


def test_the_command_verifies_a_log(processes: LocalProcesses) -> None:
    state = processes.state("passive")
    command = [sys.executable, "-m", "plumbline", "log", "verify"]
    found = subprocess.run([*command, str(state)], capture_output=True, text=True, check=True).stdout
    assert found.startswith("Lines 1 to ")
    assert verify(state).head in found
    wrong = Path(processes.folder / "copy")
    wrong.mkdir()
    lines = files_of(state / "audit-log")[0].read_text().splitlines(keepends=True)
    (wrong / "000001.jsonl").write_text("".join([lines[0], *lines[2:]]))
    refused = subprocess.run([*command, str(wrong)], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "expected line 2 and found line 3" in refused.stderr
    assert "Traceback" not in refused.stderr
