"""Trees that are grown in one place are those of one training in plain, and scores are its scores to the bit."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.audit.clear_trees import ClearTrees
from plumbline.audit.federating import prepared
from plumbline.audit.plan import expected_agreement
from plumbline.judge.column_sets import DEFENCE, Change
from plumbline.what_if.other_settings import with_settings
from plumbline.what_if.simulated_sets import AuditedRun, audited_run
from services.party.party_model import PartyModel
from services.protocols.trees.served_leaves import ServedTrees
from tests.harness.simulated_run import TREE_ATTACKS, TREES, simulated_run
from vfl.learning import confidence_scores
from vfl.learning.trees import OwnedColumns, TreeModel, TreePlan, train_in_plain

STOPPING = {**TREES["learner_options"], "early_stopping_rounds": 1, "own_trees": 2, "n_estimators": 30}  # type: ignore[dict-item]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> AuditedRun:
    settings = {**TREES, "learner_options": STOPPING, "validation_fraction": 0.2}
    return audited_run(simulated_run(tmp_path_factory.mktemp("trees"), settings, TREE_ATTACKS).path)


def grown(run: AuditedRun, *settings: Change) -> tuple[ClearTrees, dict[str, PartyModel]]:
    plan = with_settings(run.plan, settings)
    agreement = expected_agreement(plan.recipe, run.tables, is_trained=True)
    agreement = replace(agreement, plan=agreement.plan.changed(cipher="plain"))
    sessions = ClearTrees(run.tables, prepared(plan, run.tables, run.folder), agreement)
    return sessions, sessions.audited()[0]


def part_of(model: PartyModel) -> Any:
    assert isinstance(model.part, ServedTrees)
    return model.part.own


def plain_twin(run: AuditedRun, sessions: ClearTrees) -> tuple[TreeModel, list[OwnedColumns]]:
    features = [run.tables.aligned[name].features for name in sessions.aligned]
    plan, rows = sessions.agreement.plan, run.tables.split
    columns = tuple(one.shape[1] for one in features)
    options: Any = plan.family
    tree_plan = TreePlan(options, columns, np.sort(rows.train), np.sort(rows.validation), plan.seed)
    owned = [OwnedColumns.of(one, tree_plan.trained, options) for one in features]
    return train_in_plain(run.tables.labels, owned, tree_plan), owned


def test_they_are_those_of_one_training_in_plain(run: AuditedRun) -> None:
    sessions, models = grown(run)
    twin, owned = plain_twin(run, sessions)
    label = part_of(models["active"])
    assert 0 < len(twin.trees) < 30
    assert label.trees == twin.trees
    assert label.before == twin.before
    for model, columns in zip(models.values(), owned, strict=True):
        # The twin's parties keep those of trees behind the best one too.
        splits = part_of(model).splits
        assert splits == tuple(columns.splits[: len(splits)])
    rows = run.tables.split.test
    tables = [run.tables.aligned[name].features[rows] for name in models]
    margins = twin.margins(tables, [one.splits for one in owned])
    told = sessions.scores(models, rows)
    assert told.shape == (len(rows), 32)
    expected = confidence_scores(margins[:, None])
    np.testing.assert_array_equal(models["active"].scores_of(told, len(rows)), expected)
    rounded, others = grown(run, Change("", "score_rounding", DEFENCE))
    np.testing.assert_allclose(rounded.scores(others, rows), expected, rtol=0, atol=0.0501)


def test_their_adversaries_write_what_they_found(run: AuditedRun, tmp_path: Path) -> None:
    grown(run)
    assert [one.attack for one in run.folder.parties.training_outcomes()] == ["leaf_labels"]
