"""What training told of columns: verdicts on its records, beside a shuffled copy and what predictions tell."""

from pathlib import Path

import numpy as np

from plumbline.judge.findings import Findings, read_findings
from services.common.run_folder import RunFolder
from tests.harness.judged_runs import Feature, add_outcome, outcome, typed, write_run
from vfl.arrays import FloatArray

ROWS = 200
COLUMNS = np.random.default_rng(1).random((ROWS, 2))


def run_of(path: Path, estimate: FloatArray | None, *, attack: str = "named_bins(prior=marginals)") -> RunFolder:
    """A run whose label party guessed predictions without scores, and has these estimates of its training records."""
    passive = typed([Feature(COLUMNS[:, 0], "income"), Feature(COLUMNS[:, 1], "age")])
    folder = write_run(
        path, {"passive": passive}, [outcome("half", sees_scores=False)], estimates={"half": np.full((ROWS, 2), 0.5)}
    )
    if estimate is not None:
        arrays = {"values-passive": estimate[:150], "rows-passive": np.arange(150)}
        folder.write_training_arrays("active", attack, arrays)
        add_outcome(folder, "active", attack, kind="estimates")
    return folder


def findings_of(folder: RunFolder) -> Findings:
    return read_findings(folder, ["passive"], "a run")


def near(error: float) -> FloatArray:
    """Estimates that are off by so much in income, and know nothing of age."""
    generator = np.random.default_rng(2)
    return np.column_stack([COLUMNS[:, 0] + error * generator.normal(size=ROWS), np.full(ROWS, COLUMNS[:, 1].mean())])


def test_columns_of_training_records_have_lights_and_a_control(tmp_path: Path) -> None:
    findings = findings_of(run_of(tmp_path, near(0.05)))
    lights = {one.column: one.light for one in findings.answer.columns}
    assert lights == {"income": "red", "age": "grey"}
    trained = findings.predictions.trained
    assert trained.records == 150
    assert trained.control == "A shuffled copy of what training told tells 0 of 2 columns, under 1 % at most."
    assert trained.control in findings.answer.sentences
    assert findings.glance.sentence.startswith("1 of 2 columns leak")
    not_measured = " ".join(findings.answer.not_measured)
    assert "What predictions give away of columns was not measured" in not_measured
    assert findings.as_dict()["trained"]["columns"][0]["column"] == "income"


def test_what_tells_nothing_is_not_called_a_leak_and_not_green_while_predictions_were_not_measured(
    tmp_path: Path,
) -> None:
    other = np.random.default_rng(5).permutation(near(0.01))
    findings = findings_of(run_of(tmp_path, other))
    assert {one.light for one in findings.answer.columns} == {"grey"}
    assert "What predictions tell was not measured" not in findings.answer.sentence
    assert findings.answer.parties[1].light == "grey"


def test_without_such_an_attack_nothing_is_said_of_training_records(tmp_path: Path) -> None:
    for name, attack in (("none", None), ("another", "gram_space(prior=marginals)")):
        folder = run_of(tmp_path / name, None if attack is None else near(0.05), attack=attack or "")
        findings = findings_of(folder)
        assert findings.predictions.trained.columns == ()
        assert {one.light for one in findings.answer.columns} == {"grey"}
