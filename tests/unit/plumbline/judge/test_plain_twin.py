"""The plain twin of a run's model: parity with a fit by hand, whose twin is what, and what has none."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from plumbline.judge.plain_twin import PlainTwin, cost_words, plain_twin
from plumbline.judge.summary import read_summary
from services.common.agreement import TrainingPlan
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import DeliveredScores
from tests.harness.judged_runs import Feature, typed, write_run
from vfl.arrays import FloatArray

COUNT = 400
RNG = np.random.default_rng(5)
OWN, CELLS = RNG.random((COUNT, 2)), RNG.random(COUNT)


def run_of(path: Path, plan: TrainingPlan | None = None) -> RunFolder:
    """A run whose labels follow a passive column, and whose delivered scores say one half of every record."""
    run = write_run(path, {"passive": typed([Feature(CELLS, "income")])}, active=OWN)
    features, labels = run.features("active"), (RNG.random(COUNT) * 0.4 + CELLS > 0.7).astype(np.int64)
    run.write_features("active", replace(features, labels=labels))
    record = run.record("active")
    assert record.agreement is not None
    agreement = record.agreement if plan is None else replace(record.agreement, plan=plan)
    run.write_record("active", replace(record, agreement=agreement))
    test = agreement.plan.split(COUNT).test
    run.write_delivered_scores("active", DeliveredScores(test, np.full((len(test), 2), 0.5), labels[test]))
    return run


def twin_of(run: RunFolder) -> PlainTwin | None:
    return plain_twin(run, read_summary(run, "run"))


def standardised(table: FloatArray, like: FloatArray) -> FloatArray:
    found: FloatArray = (table - like.mean(axis=0)) / like.std(axis=0)
    return found


def test_the_twin_of_a_linear_model_is_a_logistic_regression_of_all_columns(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    found, labels = twin_of(run), run.labels()
    agreement = run.record("active").agreement
    assert found is not None
    assert agreement is not None
    rows = agreement.plan.split(COUNT)
    table = np.column_stack([OWN, CELLS])
    trained = table[rows.train]
    model = LogisticRegression(tol=1e-8).fit(standardised(trained, trained), labels[rows.train])
    chance = model.predict_proba(standardised(table[rows.test], trained))[np.arange(len(rows.test)), labels[rows.test]]
    assert found.model == "plain logistic regression"
    assert found.accuracy == (chance > 0.5).mean() > 0.8
    assert found.log_loss == pytest.approx(-np.log(chance).mean(), rel=1e-3)
    assert found.federation_log_loss == pytest.approx(np.log(2))


def test_the_line_sets_both_side_by_side(tmp_path: Path) -> None:
    summary = replace(read_summary(run_of(tmp_path), "run"), accuracy=0.9, auc=0.95, tested_by_class=(30, 10))
    words = cost_words(summary, PlainTwin("plain logistic regression", 0.91, 0.96, 0.25, 0.31))
    assert words == (
        "Accuracy, AUC and log loss: 0.9000, 0.950, 0.3100; plain logistic regression on the same columns: "
        "0.9100, 0.960, 0.2500."
    )
    assert cost_words(summary, None) == ""


def test_the_twin_of_a_network_is_one_of_as_many_units(tmp_path: Path) -> None:
    plan = TrainingPlan(learner="network", learner_options={"hidden": 5, "backward": "plain"}, cipher="plain")
    found = twin_of(run_of(tmp_path, replace(plan, batch_size=8)))
    assert found is not None
    assert found.model == "plain network of 5 units"
    assert found.auc > 0.5


def test_what_was_not_trained_or_not_recorded_has_no_twin(tmp_path: Path) -> None:
    assert (
        twin_of(run_of(tmp_path / "installed", TrainingPlan(learner="installed", cipher="plain", batch_size=8))) is None
    )
    run = run_of(tmp_path / "unrecorded")
    (tmp_path / "unrecorded" / "passive-features.npz").unlink()
    assert twin_of(run) is None


def test_parties_of_other_records_are_refused(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    run.write_features("passive", typed([Feature(CELLS[1:], "income")]))
    with pytest.raises(RunFolderError, match="parties of other records"):
        twin_of(run)
