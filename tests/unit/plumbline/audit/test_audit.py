"""An audit before any process runs: what is refused, where a run is written, and what its report shows of leaks."""

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import defences
from plumbline.audit import run as audit
from plumbline.audit.console import print_leakage, print_training_leakage, unaware_words
from plumbline.audit.report import write_report
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import AttackFinding, ColumnLeakage
from plumbline.judge.summary import RunSummary
from plumbline.judge.training import TrainingFinding
from plumbline.processes import LocalProcesses
from vfl.data import SplitError


@pytest.mark.parametrize("name", [".", "..", "../../evil", "a/b", "/evil", "a\\b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="--name is part of the name of the run's folder"):
        AuditRequest(data="wine", name=name)


@pytest.mark.parametrize("parties", [14, 50])
def test_more_parties_than_columns_are_refused_before_anything_is_made(parties: int) -> None:
    # Once: after a minute, when every party had been given a certificate and a process.
    with pytest.raises(SplitError, match=f"13 columns cannot give each of {parties} parties"):
        AuditRequest(data="wine", parties=parties)
    assert AuditRequest(data="wine", parties=13).parties == 13


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    made = [audit._new_folder(tmp_path / "runs", "now-wine") for _ in range(3)]
    assert [folder.name for folder in made] == ["now-wine", "now-wine-2", "now-wine-3"]
    assert all(folder.is_dir() for folder in made)


def test_a_broken_link_as_folder_of_all_runs_ends_in_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs").symlink_to(tmp_path / "nowhere" / "else")
    with pytest.raises(OSError, match="runs"):
        audit._new_folder(tmp_path / "runs", "now-wine")


def test_logs_are_written_where_they_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(processes: LocalProcesses) -> None:
        processes.log("active").write_text("last words")
        raise RuntimeError("stopped")

    monkeypatch.setattr(LocalProcesses, "start", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        run_audit(AuditRequest(data="wine", runs=tmp_path), Console(file=io.StringIO()))
    (run,) = tmp_path.iterdir()
    assert (run / "logs" / "active.log").read_text() == "last words"


# -- the report -------------------------------------------------------------------------------------------------------


def column(name: str, mse: float) -> ColumnLeakage:
    return ColumnLeakage("passive", name, Interval(mse, mse, mse), 0.1, 0.2, 0.5, None, None)


def attack(name: str, *columns: ColumnLeakage) -> AttackFinding:
    mean = sum(one.mse.mean for one in columns) / len(columns)
    return AttackFinding(name, "", 10, 0.1, Interval(mean, mean, mean), 0.1, 0.2, 0.5, columns=columns)


def report(
    folder: Path, leakage: list[AttackFinding], unaware: str = "", training: Sequence[TrainingFinding] = ()
) -> str:
    plan = {"cipher": "plain", "batch_size": 8}
    parties = [{"name": name, "feature_count": 2, "aligned_rows": 10} for name in ("active", "passive")]
    findings = RunSummary(
        name="r",
        aligned_rows=10,
        test_rows=10,
        accuracy=0.5,
        auc=0.5,
        majority=0.5,
        epochs=[],
        kept_epoch=0,
        steps=0,
        timings=[],
        bytes_by_message={},
        agreement={"session_id": "0123456789", "plan": plan, "parties": parties},
        class_names=["0", "1"],
        warnings=[],
        simulation=[],
        transport="mtls",
        defences={},
        channels=[],
        predictions={},
    )
    write_report(folder / "report.html", findings, leakage, list(training), {"seconds": 1.0, "versions": {}}, unaware)
    return (folder / "report.html").read_text()


def test_a_column_that_leaked_is_shown_though_the_attack_errs_more_than_a_guess(tmp_path: Path) -> None:
    # Once: hidden behind columns that were reconstructed worse than by guessing.
    html = report(
        tmp_path,
        [
            attack("half_star", column("leaked", 0.08), column("safe", 0.9)),
            attack("rcc2", column("x", 0.3)),
            AttackFinding("gia", "needs a network", 10, 0.0),
        ],
    )
    assert "<code>half_star</code>, column by column" in html
    assert "<td>leaked</td>" in html
    assert "20 %" in html
    assert "<code>rcc2</code>, column by column" not in html
    assert "<code>gia</code>, column by column" not in html


def test_the_report_says_above_the_table_which_defences_the_attacks_do_not_know(tmp_path: Path) -> None:
    applied = [defences.load(name) for name in ("score_scheme1", "response_truncation", "feature_transform")]
    words = unaware_words(applied)
    assert "feature_transform" in unaware_words([defences.load("feature_transform", kind="negate", at="training")])
    assert words.startswith("These attacks don't know of score_scheme1 and feature_transform: an adversary who does")
    html = report(tmp_path, [attack("half_star", column("a", 0.9))], words)
    assert "don&#39;t know of score_scheme1" in html
    assert html.index("know of score_scheme1") < html.index("95 % interval")
    console = Console(file=io.StringIO(), width=200)
    print_leakage(console, [attack("half_star", column("a", 0.9))], words)
    assert isinstance(console.file, io.StringIO)
    assert "What each one does not stop" in console.file.getvalue()


def test_what_attacks_say_of_their_results_is_shown_and_what_is_not_scored_is_no_number(tmp_path: Path) -> None:
    noted = replace(attack("rcc1", column("a", 0.9)), notes=("3 of 10 records are certified to equal rcc2.",))
    details = {"solved_steps": 7, "sizes": list(range(99))}
    sizes = TrainingFinding("residual_size", "passive", "", 0.1, "residual sizes", details=details)
    html = report(tmp_path, [noted], training=[sizes])
    assert "<code>rcc1</code>: 3 of 10 records are certified to equal rcc2." in html
    assert "not scored: solved steps: 7; sizes: [0, 1, 2, 3, 4, 5, ...]" in html
    assert "nan" not in html
    console = Console(file=io.StringIO(), width=200)
    print_leakage(console, [noted], "")
    print_training_leakage(console, [sizes])
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert "rcc1: 3 of 10 records are certified" in printed
    assert "residual_size by passive found residual sizes: solved steps: 7" in printed
    assert "nan" not in printed


@pytest.mark.parametrize("names", [[], ["response_truncation"], ["dp_noise"]])
def test_without_a_defence_that_they_meet_nothing_is_said(tmp_path: Path, names: list[str]) -> None:
    assert unaware_words([defences.load(name) for name in names]) == ""
    assert "know of" not in report(tmp_path, [attack("half_star", column("a", 0.9))])
