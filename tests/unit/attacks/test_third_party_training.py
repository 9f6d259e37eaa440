"""The attacks on training in docs/adding-an-attack.md, installed as other packages would be, in real parties."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attacks
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from tests.harness.documented_plugin import install
from tests.harness.parties import active_data, house, small_settings

# Three passive features: batches of three can be solved, batches of twelve can't.
LABELS = np.random.default_rng(8).permutation(["no", "yes"] * 30).tolist()


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("residual_size", "row_probe"):
        install("adding-an-attack.md", module, tmp_path, monkeypatch)


def run(folder: Path, *names: str, labels: list[Any] = LABELS, **settings: Any) -> list[TrainingFinding]:
    """Train with these attacks at the passive party; what the judge says of them."""
    chosen = small_settings(
        **{"record_features": True, "steps": "plain", "epochs": 1, "initialisation": "zero", **settings}
    )
    adversary = {name: attacks.load_training(name) for name in names}
    with house(folder, settings=chosen, active=active_data(labels=labels), passive_adversary=adversary) as home:
        home.train()
    return read_training_findings(RunFolder(folder))


def arrays(folder: Path, attack: str) -> dict[str, Any]:
    with np.load(folder / "attacks" / f"training-passive-{attack}.npz", allow_pickle=False) as content:
        return dict(content)


def test_a_listening_attack_is_written_and_reported_by_its_own_facts(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (found,) = run(folder, "residual_size", batch_size=3, epochs=2)
    assert (found.attack, found.party, found.kind) == ("residual_size", "passive", "residual sizes")
    assert not found.is_scored
    written = arrays(folder, "residual_size")
    assert found.details["solved_steps"] == len(written["steps"]) > 20
    # At the first step every residual is -2 y: 2 in size.
    assert (written["steps"][0], written["sizes"][0]) == (0, pytest.approx(2.0))
    assert found.details["last_size"] == [written["sizes"][-1]]
    assert f"solved steps: {len(written['steps'])}" in found.facts


def test_a_listening_attack_says_why_it_found_nothing(tmp_path: Path) -> None:
    (found,) = run(tmp_path / "run", "residual_size", batch_size=12)
    assert found.details["solved_steps"] == 0
    assert "fewer than there are records" in found.reason


@pytest.mark.parametrize("packing", [False, True], ids=["unpacked", "packed"])
def test_an_attack_that_replaces_messages_reads_what_listening_does_not_tell(tmp_path: Path, packing: bool) -> None:
    folder = tmp_path / "run"
    probe, size = run(folder, "row_probe", "residual_size", batch_size=12, packing=packing)
    assert (probe.kind, probe.success, probe.resolved, probe.by_epoch) == ("labels", 1.0, 1.0, (1.0,))
    assert probe.details == {"probed": 3}
    assert {probe.conduct, size.conduct} == {"replaces_messages"}, "who listens beside has heard other answers, too"
    assert len(np.flatnonzero(arrays(folder, "row_probe")["labels"] >= 0)) == 3
    assert size.details["solved_steps"] == 0


def test_terms_that_it_cannot_work_with_leave_the_party_honest(tmp_path: Path) -> None:
    several = [f"class-{row % 3}" for row in range(60)]
    (found,) = run(tmp_path / "run", "row_probe", labels=several)
    assert found.reason == "row_probe tells two classes apart, not more."
    (found,) = run(tmp_path / "plain", "row_probe", cipher="plain")
    assert found.reason == "row_probe needs ciphertexts: cipher=paillier."


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"share": np.float32(1)}, "not JSON serializable"),
        ({"status": "won"}, "can't be called status"),
    ],
)
def test_facts_that_cannot_be_written_fail_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any], words: str
) -> None:
    attack = attacks.load_training("residual_size")
    result = type("Result", (), {"kind": "facts", "facts": lambda _: facts, "arrays": lambda _: {}})
    monkeypatch.setattr(type(attack), "attack", lambda *_: result())
    broken, probe = run(tmp_path / "run", "residual_size", "row_probe")
    assert words in broken.reason
    assert probe.success == 1.0


@pytest.mark.thorough
def test_messages_that_cannot_be_made_are_reported_and_the_party_stays_honest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def buggy(*_: Any) -> Any:
        raise KeyError("bug")

    monkeypatch.setattr(type(attacks.load_training("row_probe")), "messages", buggy)
    (found,) = run(tmp_path / "run", "row_probe")
    assert found.reason == "row_probe failed with KeyError: 'bug'"
    (outcome,) = json.loads((tmp_path / "run" / "attacks" / "training-passive.json").read_text())
    assert outcome["status"] == "failed"


def test_a_known_kind_with_other_arrays_is_reported_unscored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = attacks.load_training("residual_size")
    result = type("Result", (), {"kind": "labels", "facts": lambda _: {"found": 3}, "arrays": lambda _: {}})
    monkeypatch.setattr(type(attack), "attack", lambda *_: result())
    (found,) = run(tmp_path / "run", "residual_size")
    assert (found.kind, found.is_scored, found.details) == ("labels", False, {"found": 3})
    assert re.search("can't be scored as such: .* lacks the array labels and step_epoch", found.reason)


def test_two_attacks_that_replace_messages_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="row_probe and auxiliary_ciphertext both replace messages"):
        run(tmp_path / "run", "row_probe", "auxiliary_ciphertext")
