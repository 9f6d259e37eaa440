"""What if trees were grown otherwise: sets of a run's own columns under other settings, with labels beside columns."""

from dataclasses import replace

import pytest

from plumbline.audit.candidates import BLACK_BOX, Candidate
from plumbline.audit.folder import AuditFolder
from plumbline.audit.run import report_again
from plumbline.job_progress import RunProgress
from plumbline.judge.column_sets import DEFENCE, Change, ColumnPart, ColumnSet, WhatIf, set_of
from plumbline.judge.remedies import measures_of
from plumbline.what_if.asking import Question, ask, named_changes
from plumbline.what_if.other_settings import candidate_of, settings_to_try, together
from plumbline.what_if.simulated_sets import audited_run, simulated
from tests.harness.simulated_run import TREE_ATTACKS, TREES, simulated_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> AuditFolder:
    return simulated_run(tmp_path_factory.mktemp("trees"), TREES, TREE_ATTACKS)


def test_settings_stand_beside_columns_and_the_replay_is_the_audit(run: AuditFolder) -> None:
    sets = ("own_trees=30", "debt", "score_rounding", BLACK_BOX)
    found = ask(run, Question(tuple((one,) for one in sets), confirms=False, workers=1), RunProgress())
    assert found.whole == found.run
    assert [one.title for one in found.asked] == [
        "with own_trees=30; not all of it measured",
        "without debt",
        "with score_rounding; not all of it measured",
        f"with {BLACK_BOX}",
    ]
    own_trees, without, rounded, kept = found.asked
    assert found.whole.labels is not None
    assert found.whole.labels > 0.5
    assert without.labels is not None
    assert without.labels < 0.2
    # Trees behind these can't be ordered: nothing is known of labels, and that isn't taken for nothing told.
    assert own_trees.labels is None
    assert found.whole.part > kept.part
    assert (own_trees.is_measured, rounded.is_measured, kept.is_measured) == (False, False, True)
    assert "with own_trees=30" in run.report.read_text()


def test_own_trees_are_not_advised_where_settings_were_measured(run: AuditFolder) -> None:
    findings, advice = replace(report_again(run), what_if=None), "Grow trees on the label party's own columns first"
    assert any(one.startswith(advice) for one in measures_of(findings))
    whole = set_of(findings.answer, (), 0.9, with_labels=True)
    own = replace(whole, changes=(Change("", "own_trees", "30"),), columns=(), auc=0.8)
    measured = measures_of(replace(findings, what_if=WhatIf(whole, whole, settings=(own,))))
    assert not any(one.startswith(advice) for one in measured)
    assert any("with own_trees=30: part" in one for one in measured)


def test_what_is_tried_is_what_trees_can_be_grown_by(run: AuditFolder) -> None:
    tried = {one.column: one.kind for one in settings_to_try(audited_run(run.path).plan)}
    assert tried["own_trees"] == "30"
    assert (tried["n_estimators"], tried["min_rows_of_a_node"], tried["gradient_bits"]) == ("2", "100", "6")
    # For linear models alone; of messages that trees don't send.
    assert not {"score_scheme1", "marvell", "dp_noise"} & set(tried)
    assert {BLACK_BOX, "score_rounding", "label_randomised_response"} <= set(tried)


def test_settings_become_what_an_audit_is_asked(run: AuditFolder) -> None:
    audited = audited_run(run.path)
    names = ["label_randomised_response", "own_trees=10", "learning_rate=.5", "town", BLACK_BOX]
    changes = named_changes(audited, names)
    assert Change("", "own_trees", "10") in changes
    own = {**TREES["learner_options"], "own_trees": 10, "learning_rate": 0.5}  # type: ignore[dict-item]
    assert candidate_of(audited.plan, changes) == Candidate(
        ("label_randomised_response",), {"label_randomised_response": {"epsilon": 1.0}}, True, {"learner_options": own}
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("max_depth=9", "Expected max_depth to be from 3 to 6, got 9"),
        ("own_trees=many", "own_trees=many: expected a number"),
        ("marvell", "marvell"),
        ("own_tree=3", "No passive party has a column 'own_tree=3'"),
    ],
)
def test_settings_that_can_t_be_are_refused(run: AuditFolder, name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        named_changes(audited_run(run.path), [name])


def test_flipped_labels_are_trained_on_and_the_true_ones_judged(run: AuditFolder) -> None:
    audited = audited_run(run.path)
    flipped = simulated(audited, (Change("", "label_randomised_response", DEFENCE),), TREE_ATTACKS)
    assert 0.6 < flipped.auc < simulated(audited, (), TREE_ATTACKS).auc


def of_setting(name: str, column: float, labels: float) -> ColumnSet:
    parts = (ColumnPart("passive", "debt", column, True), ColumnPart("", "labels", labels, True))
    return ColumnSet((Change("", name, "1"),), parts, 0.8)


def test_what_leaves_least_of_columns_and_of_labels_is_joined() -> None:
    labels, columns = of_setting("own_trees", 0.6, 0.1), of_setting("n_estimators", 0.2, 0.7)
    assert together([of_setting("max_bin", 0.5, 0.5), labels, columns]) == (*columns.changes, *labels.changes)
    assert together([labels, replace(labels, changes=(), auc=0.7)]) == labels.changes
