"""What is told of persons: known answers, controls, and that who is most at risk stands in its owner's folder only."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from plumbline.audit.folder import AuditFolder
from plumbline.audit.run import write_findings, write_worst_records
from plumbline.audit.tables import JoinedTables
from plumbline.judge.federation_part import at
from plumbline.judge.findings import Findings, read_findings
from plumbline.judge.measures import exact_share
from plumbline.judge.record_risks import RiskShare
from services.common.run_folder import RunFolder
from tests.harness.judged_runs import Feature, outcome, typed, write_run
from tests.harness.reported import FACTS, findings_of, made_run
from vfl.arrays import FloatArray

COUNT = 300
RNG = np.random.default_rng(5)
AGE, PAY, JOB = RNG.random(COUNT), RNG.random(COUNT), RNG.integers(0, 3, COUNT)
COLUMNS = typed(
    [
        Feature(AGE, "age", offset=17, scale=81),
        Feature(PAY, "pay", scale=1_000),
        *(Feature(np.where(value == JOB, 1.0, 0.0), "job", "category", name=f"job={value}") for value in range(3)),
    ]
)
JUDGED = np.arange(200)


def found(path: Path, estimate: FloatArray) -> Findings:
    run = write_run(
        path, {"passive": COLUMNS}, [outcome("half_star")], judged=JUDGED, estimates={"half_star": estimate[JUDGED]}
    )
    return read_findings(run, ["passive"], "run")


def share(findings: Findings, bound: float | None) -> RiskShare:
    (risk,) = findings.persons.risks
    return next(one for one in risk.shares if one.bound == bound)


def test_a_record_s_risk_by_naive_loops(tmp_path: Path) -> None:
    estimate = COLUMNS.features.copy()
    estimate[:, 0] += 0.05 * RNG.normal(size=COUNT)
    estimate[:, 1] = 0.5
    findings = found(tmp_path, estimate)
    (risks,) = findings.record_risks
    headlines = {one.column: at(one.levels) for one in findings.predictions.sources}
    e0 = {name: one.e0 for name, one in headlines.items()}
    constants = {"its mean": None, "guessing 1/2": 0.5}
    age, pay = (
        constants[headlines[name].baseline] or cells[JUDGED].mean() for name, cells in (("age", AGE), ("pay", PAY))
    )
    common = np.bincount(JOB[JUDGED]).argmax()
    assert headlines["job"].baseline == "the most frequent value"
    for row in JUDGED[:20]:
        guess = {
            "age": (AGE[row] - age) ** 2,
            "pay": (PAY[row] - pay) ** 2,
            "job": float(JOB[row] != common),
        }
        # Of the pay nothing is told, so that its adversary guesses.
        attack = {"age": (AGE[row] - estimate[row, 0]) ** 2, "pay": guess["pay"], "job": 0.0}
        unknown, left = (sum(some[name] / e0[name] for name in e0) for some in (guess, attack))
        assert risks.risk[row] == pytest.approx(max(0.0, 1 - left / unknown))


def test_who_is_read_exactly_is_at_risk_and_the_control_is_not(tmp_path: Path) -> None:
    findings = found(tmp_path, COLUMNS.features)
    at_90 = share(findings, 0.9)
    assert at_90.share.mean == 1
    for one in (at_90, share(findings, None)):
        assert one.control is not None
        assert one.share.low > one.control.high


def test_a_person_under_two_ids_is_one_of_the_persons_at_risk(tmp_path: Path) -> None:
    """Every judged person stands twice in the table; of 60 of 100 the column is read exactly, of both records."""
    cells = np.concatenate([np.repeat(RNG.random((100, 2)), 2, axis=0), RNG.random((COUNT - 200, 2))])
    estimate = np.where(np.arange(COUNT) < 120, cells[:, 0], cells[:, 0] + 0.3)[JUDGED, None]
    own = typed([Feature(cells[:, 0], "age")])
    run = write_run(
        tmp_path, {"passive": own}, [outcome("ls")], judged=JUDGED, estimates={"ls": estimate}, active=cells
    )
    findings = read_findings(run, ["passive"], "run")
    (risk,) = findings.persons.risks
    assert (findings.predictions.records, findings.predictions.distinct, risk.records) == (200, 100, 100)
    assert share(findings, 0.9).share == exact_share(60, 100)
    assert at(findings.predictions.sources[0].levels).records == 100


def test_the_control_is_validation_records_with_what_is_said_of_others_by_naive_loops(tmp_path: Path) -> None:
    findings = found(tmp_path, COLUMNS.features)
    (risk,) = findings.persons.risks
    others = np.setdiff1d(findings.summary.agreement.plan.split(COUNT).validation, JUDGED)
    assert risk.controls == len(others) > 5
    headlines = {one.column: at(one.levels) for one in findings.predictions.sources}
    e0 = {name: one.e0 for name, one in headlines.items()}
    age, pay = (
        0.5 if headlines[name].baseline == "guessing 1/2" else cells[JUDGED].mean()
        for name, cells in (("age", AGE), ("pay", PAY))
    )
    lots = np.random.default_rng(0).integers(0, len(JUDGED), len(others))
    common, risks = np.bincount(JOB[JUDGED]).argmax(), []
    for row, said in zip(others, JUDGED[lots], strict=True):
        guess = (AGE[row] - age) ** 2 / e0["age"] + (PAY[row] - pay) ** 2 / e0["pay"]
        left = (AGE[row] - AGE[said]) ** 2 / e0["age"] + (PAY[row] - PAY[said]) ** 2 / e0["pay"]
        guess, left = guess + (JOB[row] != common) / e0["job"], left + (JOB[row] != JOB[said]) / e0["job"]
        risks.append(1 - left / guess)
    for bound in (0.1, 0.5, 0.9):
        control = share(findings, bound).control
        assert control is not None
        assert control.mean == np.mean(np.array(risks) >= bound)


def test_estimates_of_other_records_put_nobody_at_risk(tmp_path: Path) -> None:
    findings = found(tmp_path, COLUMNS.features[RNG.permutation(COUNT)])
    assert share(findings, 0.1).share.mean == 0
    assert share(findings, None).share.mean == 0


def test_means_and_frequencies_are_a_property(tmp_path: Path) -> None:
    properties = found(tmp_path, COLUMNS.features).persons.properties
    assert properties is not None
    assert (properties.error, properties.closer, properties.features) == (0, 5, 5)
    means, even = COLUMNS.features[JUDGED].mean(axis=0), np.array([0.5, 0.5, 1 / 3, 1 / 3, 1 / 3])
    assert properties.guess == pytest.approx(np.abs(even - means).mean())


def test_what_anybody_takes_means_and_frequencies_for_is_no_property(tmp_path: Path) -> None:
    even = np.broadcast_to([0.5, 0.5, 1 / 3, 1 / 3, 1 / 3], COLUMNS.features.shape)
    properties = found(tmp_path, even).persons.properties
    assert properties is not None
    assert properties.closer == 0


def test_of_few_records_nothing_is_said(tmp_path: Path) -> None:
    run = write_run(
        tmp_path,
        {"passive": COLUMNS},
        [outcome("half_star")],
        judged=JUDGED[:40],
        estimates={"half_star": COLUMNS.features[:40]},
    )
    findings = read_findings(run, ["passive"], "run")
    assert findings.persons.properties is None
    assert not findings.persons.risks
    assert not findings.record_risks


def test_with_several_passive_parties_alignment_tells_the_active_one_more(tmp_path: Path) -> None:
    tables = {"passive-1": COLUMNS, "passive-2": COLUMNS}
    (row, *_) = read_findings(write_run(tmp_path, tables), list(tables), "run").persons.rows
    assert "though one that it asks later lacks them" in row.words


def test_every_question_has_a_row_and_says_what_was_not_measured(tmp_path: Path) -> None:
    rows = {one.name: one for one in found(tmp_path, COLUMNS.features).persons.rows}
    assert list(rows) == [
        "alignment alone",
        "risk per record of passive",
        "membership in the training set",
        "membership inference, at predictions",
        "membership inference, after training",
        "attribute inference",
        "property inference",
    ]
    assert "300 records" in rows["alignment alone"].words
    # The run has no weights.
    assert not rows["membership inference, after training"].is_measured
    nothing = read_findings(write_run(tmp_path / "none", {"passive": COLUMNS}), ["passive"], "run").persons
    assert [one.name for one in nothing.rows if one.is_measured] == [
        "alignment alone",
        "membership in the training set",
    ]


def tables_of(findings: Findings) -> JoinedTables:
    """Tables whose passive party has its rows in another order, behind a thousand that nobody shares."""
    ids = [f"person {number}" for number in range(findings.summary.aligned_rows)]
    own = [f"stranger {number}" for number in range(1_000)] + ids[::-1]
    made = SimpleNamespace(
        data={"passive": SimpleNamespace(ids=own)}, ids=ids, ids_of=lambda rows: [ids[row] for row in rows]
    )
    return cast(JoinedTables, made)


def test_the_owner_s_worst_ten_are_in_its_own_folder_and_nowhere_else(tmp_path: Path) -> None:
    run = AuditFolder(tmp_path)
    folder: RunFolder = made_run(run.parties.path)
    findings = findings_of(folder)
    write_worst_records(run, tables_of(findings), findings)
    write_findings(run, findings, FACTS)
    (file,) = tmp_path.rglob("worst-records.json")
    assert file.parent == run.owner("passive")
    assert [path.stat().st_mode & 0o077 for path in (file, file.parent)] == [0, 0]
    worst = json.loads(file.read_text())
    (risks,) = findings.record_risks
    order = np.lexsort((-risks.told, -risks.risk))[:10]
    count = findings.summary.aligned_rows
    assert [one["row"] for one in worst] == [1_000 + count - int(risks.rows[place]) for place in order]
    assert [one["risk"] for one in worst] == sorted((one["risk"] for one in worst), reverse=True)
    results, report = run.results.read_text(), run.report.read_text()
    for text in (results, report):
        assert "worst-records" not in text
        assert not [one for one in worst if repr(one["risk"]) in text]
        assert not [one for one in worst if f"{one['row']:,}" in text or f'"row": {one["row"]}' in text]
    assert not _keys(json.loads(results)) & {"record_risks", "values_told", "risk", "told"}
    assert "What it tells of persons" in report


def _keys(content: Any) -> set[str]:
    if isinstance(content, dict):
        return set(content).union(*map(_keys, content.values()))
    return set().union(*map(_keys, content)) if isinstance(content, list) else set()
