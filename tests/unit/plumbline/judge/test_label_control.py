"""A control of an attack on labels: there where it can be, and a sentence where it can't."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.judge.label_control import LabelControl, label_control
from services.common.run_folder import RunFolder
from tests.harness.judged_runs import Feature, typed, write_run
from vfl.arrays import FloatArray


def run_of(folder: Path, cells: FloatArray) -> RunFolder:
    return write_run(folder, {"passive": typed([Feature(cells, "x")])})


def test_few_records_have_no_control(tmp_path: Path) -> None:
    found = label_control(run_of(tmp_path, np.arange(20.0) / 20), "passive", "trajectory_labels")
    assert "needs 50 records" in found.reason
    assert not found.words


def test_tables_that_nobody_recorded_have_no_control(tmp_path: Path) -> None:
    run = run_of(tmp_path, np.arange(20.0) / 20)
    (tmp_path / "passive-features.npz").unlink()
    assert label_control(run, "passive", "trajectory_labels").reason


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ("no_such_attack", "can't be repeated"),
        ("trajectory_products", "can't be repeated"),
        ("auxiliary_ciphertext", "needs ciphertexts"),
    ],
)
def test_an_attack_that_cannot_be_repeated_costs_its_control_only(tmp_path: Path, attack: str, said: str) -> None:
    assert said in label_control(run_of(tmp_path, np.random.default_rng(0).random(200)), "passive", attack).reason


def test_shuffled_labels_are_told_by_messages_and_true_ones_by_columns(tmp_path: Path) -> None:
    # Labels alternate, and so does the only column; batches of eight and one sum of each.
    cells = np.arange(200) % 2 + np.random.default_rng(0).normal(0, 0.1, 200)
    found = label_control(run_of(tmp_path, cells), "passive", "own_part")
    assert found.records == 140
    assert found.columns_right == 1.0
    assert found.shuffled_right <= 0.65
    assert "what the messages tell" in found.words


def test_without_a_reason_both_shares_are_said() -> None:
    words = LabelControl(records=100, shuffled_right=0.98, majority=0.6, columns_right=0.9).words
    assert "98 %" in words
    assert "90 %" in words
