"""``plumbline.audit`` of data frames: what it returns is what the command writes, and what is kept of the frames."""

import json
import tomllib
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import plumbline
from plumbline.audit import run as audit_run
from plumbline.audit.folder import AuditFolder
from plumbline.audit.past_runs import past_runs
from plumbline.audit.request import AuditRequest
from plumbline.judge.findings import Findings, read_findings
from plumbline.notebook import NotebookFindings
from plumbline.report.annex import annex_of
from services.common.run_folder import RunFolder
from tests.harness.annexes import docx_text, needs_annex, pdf_text


@pytest.fixture(scope="module")
def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two parties' tables of the same people; no page has a word that is like one of their cells."""
    draw = np.random.default_rng(3)
    ids, features = [f"qzid{number}" for number in range(60)], draw.random((60, 3))
    active = pd.DataFrame(
        {"who": ids, "a": features[:, 0], "good": np.where(features.sum(axis=1) > 1.5, "qzyes", "qzno")}
    )
    return active, pd.DataFrame({"who": ids, "b": features[:, 1], "c": features[:, 2]})


@dataclass(frozen=True)
class Audited:
    """An audit: its findings, its folder, the folders that were judged, and the file of one of its tables."""

    findings: NotebookFindings
    run: Path
    judged: list[str]
    other: Path


@pytest.fixture(scope="module")
def audited(tables: tuple[pd.DataFrame, pd.DataFrame], tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """The audit of a frame beside a file."""
    judged, folder = list[str](), tmp_path_factory.mktemp("audited")

    def counted(folder: RunFolder, *names: object, **options: object) -> Findings:
        judged.append(str(folder))
        return read_findings(folder, *names, **options)  # type: ignore[arg-type]

    asked: Any = {"attacks": ["half_star"], "epochs": 1, "cipher": "auto", "verbosity": "quiet"}
    other = folder / "clinic.csv"
    tables[1].to_csv(other, index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_run, "read_findings", counted)
        found = plumbline.audit(tables[0], other, label="good", id="who", runs=folder / "runs", **asked)
    (run,) = (one for one in (folder / "runs").iterdir() if not one.is_symlink())
    return Audited(found, run, judged, other)


def test_an_audit_is_judged_once_and_returned_as_it_was_reported(audited: Audited, tmp_path: Path) -> None:
    found, run, other = audited.findings, audited.run, audited.other
    assert len(audited.judged) == 1
    assert found.report(tmp_path / "page.html").exists()
    page = (run / "report.html").read_text()
    assert all(sentence in page for sentence in found.answer.sentences)
    # One table is a file and stays; of the other there is none to repeat the run with.
    text = (run / "audit.toml").read_text()
    asked_again = tomllib.loads(text)
    assert asked_again["passive"] == [str(other)]
    assert not Path(asked_again["active"]).exists()
    assert "# But first save the table of active: no file is left of a data frame." in text


def test_what_a_list_says_of_it_is_written_beside_its_results(audited: Audited) -> None:
    (listed,), answer = past_runs(audited.run.parent), audited.findings.answer
    sentence = audited.findings.glance.sentence
    assert json.loads((audited.run / "verdict.json").read_text())["sentence"] == sentence
    assert (listed.headline, listed.light, listed.part) == (sentence, answer.light, answer.largest_part)


@needs_annex
def test_no_cell_of_any_table_stands_in_the_annex(audited: Audited, tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    pdf, document = audit_run.write_annex(AuditFolder(audited.run), partial(annex_of, audited.findings))
    cells = {str(cell) for table in tables for row in table.to_numpy() for cell in row}
    assert len(cells) > 4 * 60
    digest = sha256((audited.run / "results.json").read_bytes()).hexdigest()
    for text in (pdf_text(pdf.read_bytes()), docx_text(document.read_bytes())):
        # Numbers also as a page would round them.
        assert not [cell for cell in cells if cell[:7] in text]
        for told in ("clinic", "2columns", "half_star", "columngood", digest):
            assert told in text


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


def test_every_attack_that_can_apply_is_mounted_unless_told_otherwise(
    tables: tuple[pd.DataFrame, pd.DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once none was: the example of the README measured nothing.
    asked: list[tuple[str, ...]] = []

    def kept(request: AuditRequest, _: object) -> None:
        asked.append(request.adversary.attacks)
        raise InterruptedError

    monkeypatch.setattr(audit_run, "audited", kept)
    told: list[dict[str, Any]] = [{}, {"attacks": "none"}, {"attacks": "ls,half"}]
    for attacks in told:
        with pytest.raises(InterruptedError):
            plumbline.audit(*tables, label="good", id="who", **attacks)
    assert asked == [("all",), (), ("ls", "half")]


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
    # Of the second frame both: ids that are there twice, and that their rows are copies.
    told = [line.partition(": ")[0] for line in str(refused.value).splitlines()]
    assert told == ["active", "passive", "passive"]
    assert "qzid59" not in str(refused.value)
