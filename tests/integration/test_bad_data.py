"""Bad data and settings at the command line: one sentence, status 2, no traceback, before any training."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plumbline
from plumbline.federation import Federation, FederationFailed
from plumbline.processes import LocalProcesses, ProcessFailed
from plumbline.recipe import Recipe, own_tables
from services.common.certificates import create_federation_certificates
from services.common.identity import Identity, role_of
from tests.harness.documented_plugin import lay_out
from vfl.data.faults import TableError

GOOD = pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, 2.0, 4.0], "y": [0, 1, 0]})
PEERS = "coordinator=127.0.0.1:1,active=127.0.0.1:2,passive=127.0.0.1:3"


def serve(role: str, folder: Path, **settings: str) -> str:
    """Run a service that must refuse to start; returns its one sentence."""
    line = refused_start(role, folder, **settings)
    assert line.startswith("plumbline: ")
    return line


def refused_start(role: str, folder: Path, **settings: str) -> str:
    """Run a service that must refuse to start; returns the one line that it writes."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLUMBLINE_")}
    environment |= {f"PLUMBLINE_{name}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-m", "plumbline", "serve", role],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": ["", "", ""]}, "No column is left to learn from"),
        ({"y": [1, 1, 1]}, "one class only"),
        ({"id": ["a", "b", "a"]}, "id of an earlier row"),
    ],
    ids=["no column", "one class", "duplicate id"],
)
def test_a_table_that_cannot_be_used_stops_the_service_with_a_sentence(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    _certificates(tmp_path)
    GOOD.assign(**change).to_csv(tmp_path / "t.csv", index=False)
    assert words in serve("active", tmp_path, DATA="t.csv", LABEL_COLUMN="y", PEERS=PEERS)


def test_where_the_log_is_json_its_last_sentence_is_too(tmp_path: Path) -> None:
    said = json.loads(refused_start("passive", tmp_path, LOG_FORMAT="json", PEERS=PEERS))
    assert (said["level"], said["party"]) == ("CRITICAL", "passive")
    assert "PLUMBLINE_DATA" in said["message"]


def test_without_certificates_the_service_stops_with_the_remedy(tmp_path: Path) -> None:
    GOOD.to_csv(tmp_path / "t.csv", index=False)
    words = serve("passive", tmp_path, DATA="t.csv", PEERS=PEERS, CERTS="nowhere")
    assert "nowhere/ca.crt" in words
    assert "point PLUMBLINE_CERTS to this party's folder" in words


@pytest.mark.parametrize("data", ["data[old].csv", "[/tmp]/t.csv"])
def test_a_path_in_brackets_is_shown_as_it_is(tmp_path: Path, data: str) -> None:
    # Once: rich reads [old] as markup and swallows it; [/tmp] ends the command with a MarkupError.
    _certificates(tmp_path)
    assert f"'{data}'" in serve("passive", tmp_path, DATA=data, PEERS=PEERS)


def test_a_misspelt_variable_stops_the_service_with_the_close_match(tmp_path: Path) -> None:
    assert "Did you mean PLUMBLINE_BATCH_SIZE?" in serve("coordinator", tmp_path, BATCHSIZE="4")


SETTINGS = {"cipher": "plain", "batch_size": 8, "epochs": 1, "step_timeout": 10}


def table(first: int, last: int, **columns: object) -> pd.DataFrame:
    rows = range(first, last)
    return pd.DataFrame({"id": [f"id-{row}" for row in rows], "x": [row / 7 for row in rows], **columns})


def test_parties_without_a_common_record_are_told_so_and_no_traceback_is_written() -> None:
    # Once: "INTERNAL: Unexpected EmptyIntersection; the service's log has the rest.", with a traceback there.
    active = table(0, 40, y=[row % 2 for row in range(40)])
    with Federation.local(active=active, passive=[table(100, 140)], label="y", settings=SETTINGS) as federation:
        stages: list[str] = []
        with pytest.raises(FederationFailed, match="no id in common"):
            federation.train(watch=lambda event: stages.append(event.stage))
        assert "training" not in stages
        assert federation.status().stage == "failed"
        assert "no id in common" in federation.status().failure
        log = (federation.processes.folder / "active.log").read_text()
    assert "Traceback" not in log


def test_a_party_whose_table_is_refused_ends_the_start_with_its_own_words_and_leaves_no_process(tmp_path: Path) -> None:
    files = [str(tmp_path / "active.csv"), str(tmp_path / "passive.csv")]
    for file, frame in zip(files, (table(0, 40, y=[1] * 40), table(0, 40)), strict=True):
        frame.to_csv(file, index=False)
    recipe = Recipe(own_tables(files, label="y", id_column="id"), settings=SETTINGS)
    processes = LocalProcesses(tmp_path, recipe.checked().settings(tmp_path))
    with pytest.raises(ProcessFailed, match="active ended with status 2"):
        Federation.start(processes)
    assert all(processes.process(name).poll() is not None for name in processes.settings)


@pytest.mark.parametrize(
    ("rows", "cells", "labels", "words"),
    [
        (1, {"x": [1.0]}, [0, 1], "every row has the same value"),
        (40, {"x": [3.0] * 40}, [0, 1], "every row has the same value"),
        (40, {"x": range(40)}, [1], "one class only"),
        (40, {f"k{at}": [0, 1] * 20 for at in range(10_000)}, [0, 1], "10,001 columns, and 5,000 are read"),
    ],
    ids=["one record", "rows alike", "one class", "10,000 one-hot columns"],
)
def test_an_audit_of_what_cannot_be_learned_from_ends_in_a_sentence(
    tmp_path: Path, rows: int, cells: dict[str, Any], labels: list[int], words: str
) -> None:
    passive = pd.DataFrame({"id": [f"id-{row}" for row in range(rows)], **cells})
    active = table(0, 40, y=[labels[row % len(labels)] for row in range(40)])
    with pytest.raises(TableError, match=words):
        plumbline.audit(active, passive, label="y", runs=tmp_path, verbosity="quiet", cipher="plain")
    assert not list(tmp_path.iterdir())


def test_one_common_record_is_nothing_to_learn_from() -> None:
    with Federation.local(
        active=table(0, 40, y=[row % 2 for row in range(40)]), passive=[table(39, 79)], label="y", settings=SETTINGS
    ) as federation:
        with pytest.raises(FederationFailed, match="one class only"):
            federation.train()
        assert not [log for log in federation.processes.folder.rglob("*.log") if "Traceback" in log.read_text()]


def test_common_records_that_are_all_alike_are_grey(tmp_path: Path) -> None:
    """Each table has other rows besides, so that nobody can refuse it; all attacks on labels and columns run."""
    draw = np.random.default_rng(0)
    active = table(0, 300, y=draw.integers(0, 2, 300))
    passive = pd.concat([table(0, 300).assign(x=2.0), table(300, 400)])
    asked: Any = {"attacks": ["half_star", "ls", "posterior", "own_part"], "epochs": 1, "cipher": "plain"}
    answer = plumbline.audit(active, passive, label="y", runs=tmp_path, verbosity="quiet", **asked).answer
    assert {one.light for one in answer.parties} == {one.light for one in answer.columns} == {"grey"}
    assert any("Nothing is left to give away of “x”." in sentence for sentence in answer.sentences)
    assert not [log for log in tmp_path.rglob("*.log") if "Traceback" in log.read_text()]


_BROKEN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import defences

@dataclass(frozen=True)
class Broken:
    name: ClassVar[str] = "broken"
    spec: ClassVar[defences.DefenceSpec] = defences.DefenceSpec(
        sits=("coordinator",), stages=("scores",), keeps="nothing", source="a test", stops=("columns",)
    )

    def protect_scores(self, scores, context):
        return np.full_like(scores, np.nan)
"""


def test_a_defence_that_makes_no_numbers_ends_the_session_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once, after all of the training: "Scores must be finite numbers, at most 1e+150 in magnitude."
    lay_out(tmp_path, "broken", _BROKEN, {"plumbline.defences": "broken = broken:Broken"})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    active, passive = table(0, 40, y=[row % 2 for row in range(40)]), table(0, 40)
    asked: Any = {"attacks": ["ls"], "epochs": 1, "cipher": "plain", "defences": ["broken"]}
    with pytest.raises(FederationFailed, match="Defence broken makes scores that aren't finite"):
        plumbline.audit(active, passive, label="y", runs=tmp_path / "runs", verbosity="quiet", **asked)
    assert not [log for log in tmp_path.rglob("*.log") if "Traceback" in log.read_text()]


def _certificates(folder: Path) -> None:

    create_federation_certificates(folder / "certs", [Identity(role_of(name), name) for name in ("active", "passive")])
