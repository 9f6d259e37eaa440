"""``plumbline.audit`` of data frames: what it returns is what the command writes, and what is kept of the frames."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plumbline
from plumbline.audit import run as audit_run
from plumbline.judge.findings import Findings, read_findings
from services.common.run_folder import RunFolder


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two parties' tables of the same people."""
    draw = np.random.default_rng(3)
    ids, features = [f"r{number}" for number in range(60)], draw.random((60, 3))
    active = pd.DataFrame({"who": ids, "a": features[:, 0], "good": features.sum(axis=1) > 1.5})
    return active, pd.DataFrame({"who": ids, "b": features[:, 1], "c": features[:, 2]})


def test_an_audit_is_judged_once_and_returned_as_it_was_reported(
    tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def counted(folder: RunFolder, *names: object, **options: object) -> Findings:
        judged.append(str(folder))
        return read_findings(folder, *names, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(audit_run, "read_findings", counted)
    asked: Any = {"attacks": ["half_star"], "epochs": 1, "cipher": "auto", "verbosity": "quiet"}
    other = tmp_path / "clinic.csv"
    tables[1].to_csv(other, index=False)
    found = plumbline.audit(tables[0], other, label="good", id="who", runs=tmp_path / "runs", **asked)
    (run,) = (folder for folder in (tmp_path / "runs").iterdir() if not folder.is_symlink())
    assert len(judged) == 1
    assert found.report(tmp_path / "page.html").exists()
    page = (run / "report.html").read_text()
    assert all(sentence in page for sentence in found.answer.sentences)
    # One table is a file and stays; of the other there is none to repeat the run with.
    text = (run / "audit.toml").read_text()
    asked_again = tomllib.loads(text)
    assert asked_again["passive"] == [str(other)]
    assert not Path(asked_again["active"]).exists()
    assert "# But first save the table of active: no file is left of a data frame." in text


@pytest.mark.parametrize(
    ("option", "words"),
    [("epoch", "Did you mean 'epochs'"), ("fail_above", "has no option 'fail_above'"), ("frames", "has no option")],
)
def test_an_option_that_would_say_nothing_is_refused(
    tables: tuple[pd.DataFrame, pd.DataFrame], option: str, words: str
) -> None:
    nothing: Any = {option: 1}
    with pytest.raises(ValueError, match=words):
        plumbline.audit(*tables, label="good", id="who", **nothing)


def test_every_fault_of_every_frame_is_told_before_a_process_starts(
    tables: tuple[pd.DataFrame, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: "active ended with status 2", with the last lines of its log; the other party's fault came the next time.
    def fail(processes: object) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr("plumbline.processes.LocalProcesses.start", fail)
    active, passive = tables
    with pytest.raises(ValueError, match="label") as refused:
        plumbline.Federation.local(
            active=active.assign(good=1), passive=[pd.concat([passive, passive])], label="good", id="who"
        )
    assert [line.partition(": ")[0] for line in str(refused.value).splitlines()] == ["active", "passive"]
    assert "r59" not in str(refused.value)
