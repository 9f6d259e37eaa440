"""A planted trigger is scored by what it turns, beside clean records and a network that nobody planted one in."""

from pathlib import Path

import numpy as np
import pytest

import attacks
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from tests.harness.parties import data_of, house, small_settings
from vfl.data import common_order
from vfl.learning import split_rows

RECORDS = 150


def planted(folder: Path, *, is_trained_on: bool) -> TrainingFinding:
    """What the judge says of a trigger in the last column, 0 of nearly all: of 0 and 1, so the first to travel."""
    generator = np.random.default_rng(0)
    rare = generator.random(RECORDS) < 0.4
    own = np.column_stack([rare + generator.normal(0, 0.3, RECORDS), generator.random(RECORDS)]).clip(0, 1)
    other = np.column_stack([generator.random((RECORDS, 2)), np.zeros(RECORDS)])
    other[0, 2] = 1.0
    table = data_of(np.rint(other * 2**16) / 2**16)
    common = common_order(table.ids)
    labels = rare[[table.ids.index(one) for one in common]]
    split = split_rows(RECORDS, validation_fraction=0.0, test_fraction=0.3, seed=3)
    some = split.train if is_trained_on else split.test
    rows = [int(row) for row in some if labels[row]][:15]
    settings = small_settings(
        learner="network",
        learner_options={"hidden": 4, "learning_rate": 0.3},
        batches="reshuffled",
        validation_fraction=0.0,
        test_fraction=0.3,
        seed=3,
        batch_size=15,
        epochs=10,
        record_features=True,
    )
    with house(
        folder,
        settings=settings,
        active=data_of(np.rint(own * 2**16) / 2**16, labels=np.where(rare, "yes", "no").tolist(), has_bias=True),
        passive=[table],
        passive_adversary={"replacement_backdoor": attacks.load("replacement_backdoor", rows=rows, column=0)},
    ) as home:
        home.train()
    (finding,) = read_training_findings(RunFolder(folder))
    return finding


def test_a_trigger_that_was_planted_turns_records_and_one_that_was_not_turns_none(tmp_path: Path) -> None:
    found = planted(tmp_path / "planted", is_trained_on=True)
    assert found.is_scored, found.reason
    assert found.success >= 0.5
    assert found.details["clean"] <= 0.3
    nothing = planted(tmp_path / "nothing", is_trained_on=False)
    assert nothing.details["replaced"] == 0
    assert nothing.success == pytest.approx(0.0, abs=0.2)
