"""Known answers: equations against unknowns of what each party received."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from plumbline.judge.summary import read_summary
from plumbline.report.ledger import ledger
from services.common.agreement import Agreement, TrainingPlan
from services.common.exposure import Exposure
from services.protocols.hu.guard import channels_of
from tests.harness.agreements import UNPACKED, agreed, letting_all_open, trained_on, with_truncation
from tests.harness.reported import made_run

DISCLOSED: dict[str, Any] = {"request": {"black_box": False}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_run(tmp_path_factory.mktemp("run")).path


def rows_of(folder: Path, agreement: Agreement, facts: dict[str, Any] = DISCLOSED) -> list[Exposure]:
    from services.common.run_folder import RunFolder

    return ledger(replace(read_summary(RunFolder(folder), "r"), agreement=agreement), facts)


def training_row(rows: list[Exposure], party: str) -> Exposure:
    return next(one for one in rows if one.party == party and "training step" in one.received)


def test_counts_are_the_guards(folder: Path) -> None:
    agreement = trained_on(agreed(truncating=("active", "passive")), 64)
    row = training_row(rows_of(folder, agreement), "passive")
    (channel,) = channels_of(agreement, "active")
    assert (row.equations, row.unknowns) == (channel.capacity.equations, channel.rows)
    assert "active's residuals, and so the labels," in row.about


def test_whole_answers_are_solvable_from_the_first_step(folder: Path) -> None:
    row = training_row(rows_of(folder, trained_on(agreed(), 64)), "passive")
    assert row.equations >= row.unknowns
    assert row.possible
    assert row.since.startswith("From the first step: there are no more unknowns")


def test_cut_answers_about_a_large_batch_tell_nothing_within_few_steps(folder: Path) -> None:
    plan = replace(UNPACKED, batch_size=2_000, epochs=1)
    agreement = trained_on(with_truncation(with_truncation(agreed(plan), "active"), "passive"), 2_000)
    agreement = replace(agreement, parties=tuple(replace(one, truncates_answers=True) for one in agreement.parties))
    row = training_row(rows_of(folder, agreement), "passive")
    assert row.equations < row.unknowns
    assert not row.possible
    assert row.since.startswith("Not within this session: 1 steps, where ")
    # Over epochs of other batches: honest sums are enough.
    told = replace(agreement, plan=agreement.plan.changed(batch_size=500, batches="reshuffled", epochs=60))
    heard = training_row(rows_of(folder, told), "passive")
    assert (heard.possible, heard.since[:27]) == (True, "From epoch 11 on, by listen")
    # The same from zero weights: the first answers are about labels alone.
    zero = replace(agreement, plan=agreement.plan.changed(initialisation="zero"))
    assert training_row(rows_of(folder, zero), "passive").since.startswith("From the first step: with zero weights")


def test_a_session_in_the_clear_is_counted_as_under_paillier(folder: Path) -> None:
    agreement = trained_on(agreed(TrainingPlan(batch_size=64)), 64)
    clear = replace(agreement, plan=replace(agreement.plan, cipher="plain"))
    assert rows_of(folder, clear) == rows_of(folder, agreement)


def test_an_installed_model_was_not_trained(folder: Path) -> None:
    agreement = agreed(TrainingPlan(batch_size=64).changed(learner="installed"))
    assert [one.party for one in rows_of(folder, agreement)] == ["active", "coordinator"]


@pytest.mark.parametrize(
    ("classes", "features", "black_box", "since"),
    [
        (2, (16, 15), False, "From the first prediction, as an estimate"),
        (4, (16, 3), False, "From the first prediction, exactly"),
        (4, (16, 3), True, "Not by solving: without parameters"),
    ],
)
def test_scores_are_equations_about_features_where_parameters_are_known(
    folder: Path, classes: int, features: tuple[int, int], black_box: bool, since: str
) -> None:
    rows = rows_of(folder, agreed(features=features, classes=classes), {"request": {"black_box": black_box}})
    row = next(one for one in rows if "confidence scores" in one.received)
    assert (row.party, row.equations, row.unknowns) == ("active", classes - 1, features[1])
    assert row.since.startswith(since)
    assert row.possible != black_box


def test_on_shared_weights_what_is_opened_is_counted_and_no_step(folder: Path) -> None:
    agreement = letting_all_open(trained_on(agreed(TrainingPlan(protocol="shared")), 64))
    active, passive, *_ = rows_of(folder, agreement)
    own = agreement.parties[1]
    assert (passive.party, passive.unknowns) == (own.name, agreement.training_rows)
    assert f"once, when training is over: {24 * own.feature_count:,} bits" in passive.received
    assert passive.about == "active's labels"
    assert "features of one record" in active.about
    assert not any("training step" in row.received for row in rows_of(folder, agreement))


def test_of_weights_that_stay_shared_nothing_is_opened_and_no_parameters_are_known(folder: Path) -> None:
    """A party refuses the opening of so few records: the ledger said all the same what would have been opened."""
    active, passive, scores, coordinator = rows_of(folder, trained_on(agreed(TrainingPlan(protocol="shared")), 64))
    for row in (active, passive):
        assert (row.received, row.equations, row.possible) == ("uniform numbers", 0, False)
        assert row.since == "Never: weights stay shared, and none are opened."
    assert (scores.received.partition("; ")[2], scores.possible) == ("no parameters", False)
    assert "uniform by itself" in coordinator.received


@pytest.mark.parametrize(
    ("backward", "equations", "possible"), [("plain", 4 * 64, True), ("paillier", 4, True), ("shared", 0, False)]
)
def test_a_network_is_counted_by_units_and_by_how_its_signal_comes_back(
    folder: Path, backward: str, equations: int, possible: bool
) -> None:
    agreement = trained_on(agreed(), 64)
    plan = agreement.plan.changed(learner="network", hidden=4, backward=backward, epochs=3)
    plan = replace(plan, cipher="plain" if backward == "plain" else "paillier")
    plan = replace(plan, protocol="shared" if backward == "shared" else "hu")
    rows = rows_of(folder, replace(agreement, plan=plan))
    forwarded, back, scores, summed = rows
    features = sum(party.feature_count for party in agreement.parties[1:])
    assert (forwarded.party, forwarded.equations, forwarded.unknowns) == ("active", 4 * 3, features)
    per_record = agreement.party("passive").feature_count if backward == "paillier" else 1
    assert (back.party, back.equations, back.possible) == ("passive", equations * per_record, possible)
    assert "4 sums of the first layer" in scores.received
    assert "part of these sums" in summed.received


@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_trees_are_counted_by_sums_routes_and_splits(folder: Path, cipher: str) -> None:
    options = {"n_estimators": 4, "max_depth": 3, "max_bin": 8}
    plan = replace(UNPACKED, packing=True, learner="boosted_trees", protocol="trees", cipher=cipher, epochs=4)
    agreement = agreed(replace(plan, learner_options=options, batch_size=300))
    rows = rows_of(folder, agreement)
    sums, routes, splits, *rest = rows
    # Two sums a bin: of the root, of one of its children, and of two a level below.
    assert (sums.party, sums.equations, sums.possible) == ("active", 2 * 4 * 4 * 8, True)
    assert "8 bins of each column, in up to 4 nodes of each of 4 trees" in sums.received
    assert (routes.party, routes.about, routes.possible) == ("passive", "active's labels", True)
    # 15 columns of 8 bins, or none of them: 6.9 bits.
    assert "6.9 bits a split" in splits.received
    assert splits.equations == 4 * 7
    in_the_clear = [one for one in rest if "in the clear" in one.received]
    assert [one.party for one in in_the_clear] == ["passive"] * (cipher == "plain")
    told, parts = rest[-2:]
    assert told.received == "which leaf of each of 4 trees is reached for each record; parameters as disclosed"
    assert (told.possible, "between bounds" in told.since) == (True, True)
    assert parts.received == "each party's part of these leaves, uniform by itself; no parameters"


def test_defended_trees_are_counted_by_scores_that_the_coordinator_knows(folder: Path) -> None:
    plan = replace(UNPACKED, packing=True, learner="boosted_trees", protocol="trees", epochs=4)
    agreement = agreed(replace(plan, learner_options={"n_estimators": 4, "max_depth": 3}, batch_size=300))
    *_, told, parts = rows_of(folder, replace(agreement, score_defences=("score_rounding",)))
    assert told.received == "2 confidence scores for each record, after score_rounding; parameters as disclosed"
    assert told.since.startswith("From the first prediction, between bounds")
    assert "what each leaf weighs" in parts.received
