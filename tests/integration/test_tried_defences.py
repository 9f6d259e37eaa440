"""``--try-defences`` on a federation that leaks: real trials, their numbers, and what the folder and terminal keep."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from defences import registry
from plumbline.audit import candidates
from plumbline.audit.candidates import read_trials
from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import report_again, run_audit


def test_a_leak_is_tried_on_and_the_cheapest_that_holds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One of the list beside the black box: each is a federation of its own.
    one = {"class_label": registry.candidates()["class_label"]}
    monkeypatch.setattr(candidates, "candidates", lambda: one)
    output = io.StringIO()
    request = AuditRequest.of(
        data="breast_cancer",
        attacks=("half_star",),
        cipher="plain",
        settings={"epochs": 2, "calibrated": False},
        runs=tmp_path,
        try_defences=True,
    )
    run = AuditFolder(run_audit(request, Console(file=output, width=200)))
    black_box, class_label = read_trials(run)
    results = json.loads(run.results.read_text())
    assert [one["defence"] for one in results["trials"]] == ["black box", "class_label"]
    # half_star needs parameters: that it can't be tried is no proof.
    assert black_box.defence == "black box"
    assert not black_box.holds
    assert "was not measured" in black_box.reason
    assert black_box.accuracy == results["accuracy"]
    # Who gets the class alone, from the same model, decides alike and knows less.
    assert class_label.accuracy == results["accuracy"]
    assert class_label.accuracy_change == 0
    assert class_label.cipher == "plain"
    assert class_label.part is not None
    assert class_label.part < results["largest_part"]
    assert class_label.holds == (class_label.exposed == 0)
    assert ("The cheapest defence that holds is class_label" in output.getvalue()) == class_label.holds
    assert ("None of the 2 defences that were tried holds." in output.getvalue()) != class_label.holds
    assert not list(run.path.glob("trial-*"))
    assert report_again(run).trials == (black_box, class_label)
    assert "class_label" in run.report.read_text()
