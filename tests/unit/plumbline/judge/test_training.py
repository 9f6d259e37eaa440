"""Known answers of the judge of attacks on training."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attacks.training.recovered_values import EstimatedFeatures, value_arrays
from plumbline.judge.lights import light_of_training
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, FAILED, AttackStatus, PartyFeatures, TrainingAttackOutcome

LABELS = np.array([0, 1, 1, 0, 1])
COLUMN = np.array([0.5, -0.25, 0.0, 1.0, 0.75])


def judged(
    path: Path,
    kind: str | None,
    arrays: Mapping[str, NDArray[Any]],
    status: AttackStatus = DONE,
    reason: str = "",
    active: PartyFeatures | None = None,
) -> TrainingFinding:
    folder = RunFolder(path)
    own = PartyFeatures(np.column_stack([COLUMN, COLUMN * 2]), np.array(["a", "b"]), LABELS)
    folder.write_features("active", active or own)
    folder.write_features("passive-1", PartyFeatures(COLUMN[:, None], np.array(["c"])))
    folder.write_features("passive-2", PartyFeatures(COLUMN[:, None], np.array(["d"])))
    found = TrainingAttackOutcome(
        attack="x", party="passive-2", kind=kind, facts={"rank": 3}, status=status, reason=reason, seconds=1.0
    )
    folder.write_training_outcomes("passive-2", [found])
    folder.write_training_arrays("passive-2", "x", arrays)
    (finding,) = read_training_findings(folder)
    return finding


def test_labels_told_some_in_each_epoch_add_up(tmp_path: Path) -> None:
    arrays = {
        "labels": LABELS.copy(),
        "step_epoch": np.repeat([0, 1], 4),
        "step_rows": np.tile(np.arange(4), 2),
        "step_labels": np.array([LABELS[0], -1, -1, -1, -1, LABELS[1], LABELS[2], -1]),
    }
    arrays["labels"][3:] = -1
    found = judged(tmp_path, "labels", arrays)
    assert (found.by_epoch, found.so_far, found.success) == ((0.25, 0.5), (0.25, 0.75), 0.75)
    assert found.told_so_far == (0.25, 0.75)


def test_labels_are_scored_over_the_rows_that_steps_had_and_by_epoch(tmp_path: Path) -> None:
    arrays = {
        "labels": np.array([0, 1, 0, -1, -1]),
        "step_epoch": np.array([0, 0, 0, 0, 1, 1]),
        "step_rows": np.array([0, 1, 2, 3, 0, 1]),
        "step_labels": np.array([0, 1, 0, -1, 1, 1]),
    }
    found = judged(tmp_path, "labels", arrays)
    # Row 4 took part in no step; row 2 is wrong and row 3 has no answer.
    assert (found.success, found.resolved, found.by_epoch) == (0.5, 0.75, (0.5, 0.5))
    assert found.so_far == (0.5, 0.5)
    assert found.told_so_far == (0.75, 0.75)
    assert found.facts == "rank: 3"
    # Two of four are in class 1, as named at random; row 3 is guessed: class 0 is as frequent, and right.
    nothing, marginals = found.levels[:2]
    assert (nothing.e0, nothing.error) == (0.5, 0.375)
    assert (marginals.e0, marginals.error) == (0.5, 0.25)


def test_a_single_feature_counts_up_to_sign_and_several_columns_do_not(tmp_path: Path) -> None:
    values = -COLUMN
    values[:2] = np.nan, 9.0
    found = judged(tmp_path, "features", value_arrays({"passive-1": values, "active": COLUMN}))
    assert (found.success, found.resolved) == (0.6, 0.8)


def test_readings_count_features_that_are_exact(tmp_path: Path) -> None:
    rows = np.array([1, 3])
    read = np.column_stack([COLUMN, COLUMN * 2])[rows]
    read[0, 0] += 1e-9
    found = judged(tmp_path, "readings", value_arrays({"active": read}, {"active": rows}))
    # Four of ten features were read, three of them exactly.
    assert (found.success, found.resolved) == (0.75, 0.4)


def test_readings_stand_as_columns_travel_and_narrow_ones_count_up_to_their_step(tmp_path: Path) -> None:
    """A binary column is first on the wire; that its 1 stands for 1/2 here is told to nobody."""
    full, rows = COLUMN * 2, np.array([0, 1, 3])
    binary = np.array([0.5, 0.0, 0.0, 0.5, 0.0])
    widths = np.array(["full", "binary"])
    active = PartyFeatures(np.column_stack([full, binary]), np.array(["f", "b"]), LABELS, widths=widths)
    read = np.column_stack([binary * 2, full])[rows]
    shares = []
    for first in (read[0, 0], 0.0):
        read[0, 0] = first
        arrays = value_arrays({"active": read.copy()}, {"active": rows})
        found = judged(tmp_path, "readings", arrays, active=active)
        shares.append((found.success, found.resolved))
    assert shares == [(1.0, 0.6), (5 / 6, 0.6)]


@pytest.mark.parametrize(("factor", "told"), [(0.0, 1.0), (0.5, 0.75), (1.0, 0.0), (2.0, 0.0)])
def test_estimates_count_by_what_they_take_off_a_guess(tmp_path: Path, factor: float, told: float) -> None:
    """Of its squared error; one that errs as the guess does, or more, takes nothing off. 48 records show nothing."""
    for copies, light in ((16, "grey"), (17, "red" if told >= 0.5 else "green")):
        rows = np.tile([0, 2, 3], copies)
        truth = np.column_stack([COLUMN, COLUMN * 2])[rows]
        off = np.tile([[0.1, -0.2], [0.3, 0.1], [-0.2, 0.2]], (copies, 1))
        arrays = EstimatedFeatures(rows, {"active": truth + factor * off}, {"active": truth + off}).arrays()
        found = judged(tmp_path, "estimates", dict(arrays))
        assert found.success == pytest.approx(told)
        assert (found.judged, light_of_training(found)) == (3 * copies, light)


def test_an_attack_without_estimates_is_not_scored(tmp_path: Path) -> None:
    assert not judged(tmp_path, "estimates", {}).is_scored


@pytest.mark.parametrize("kind", ["features", "readings", "products"])
def test_an_attack_that_found_nothing_is_not_one_on_too_few_records(tmp_path: Path, kind: str) -> None:
    found = judged(tmp_path, kind, {})
    assert (found.judged, light_of_training(found)) == (None, "green")


@pytest.mark.parametrize(("error", "told"), [(0.0, 1.0), (0.5, 0.75), (2.0, 0.0)])
def test_products_count_by_the_variance_that_they_tell(tmp_path: Path, error: float, told: float) -> None:
    """An error of half a standard deviation leaves a quarter of the variance; more than one is worth nothing."""
    RunFolder(tmp_path).write_part("passive-1", {"weights": np.array([[-2.0]])}, np.array(["c"]))
    truth = -2 * COLUMN[:, None]
    signs = np.array([1, -1, 1, -1, 0])[:, None]
    known = np.where(signs != 0, truth + error * truth[:4].std() * signs, np.nan)
    found = judged(tmp_path, "products", value_arrays({"passive-1": known}))
    assert found.success == pytest.approx(told)
    assert found.resolved == 0.8


@pytest.mark.parametrize(
    ("kind", "status", "reason", "words"),
    [
        (None, FAILED, "x failed with TypeError", "x failed with TypeError"),
        ("shapes", DONE, "", ""),
        ("labels", DONE, "", "x found labels, but its arrays can't be scored as such"),
    ],
)
def test_what_cannot_be_scored_has_no_number(
    tmp_path: Path, kind: str | None, status: AttackStatus, reason: str, words: str
) -> None:
    found = judged(tmp_path, kind, {"labels": np.array([0])}, status, reason)
    assert not found.is_scored
    assert found.status == status
    assert found.reason.startswith(words)
    assert found.kind == (kind or "")


def test_without_attacks_there_is_nothing_to_judge(tmp_path: Path) -> None:
    assert read_training_findings(RunFolder(tmp_path)) == []
