"""Known answers of the judge of attacks on predictions."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks import LEVELS, Level
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.predictions import AttackFinding, PredictionFindings, read_prediction_findings
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import DONE, FAILED, AttackStatus, Estimates, PartyFeatures, PredictionAttackOutcome
from vfl.arrays import FloatArray, IntArray

LABELS = np.array([0, 1] * 10)
# Two passive columns, 0 or 1; the first is the label.
PASSIVE = np.column_stack([LABELS, np.repeat([0, 1], 10)]).astype(float)
ATTACKED = np.array([0, 1, 18, 19])


def folder(path: Path, *outcomes: PredictionAttackOutcome, **estimates: FloatArray) -> RunFolder:
    made = RunFolder(path)
    active = np.column_stack([LABELS * 2.0, np.ones(20)])
    made.write_features("active", PartyFeatures(active, np.array(["y", "bias"]), LABELS))
    for number, name in enumerate(("passive-1", "passive-2")):
        made.write_features(name, PartyFeatures(PASSIVE[:, [number]], np.array([f"x{number}"])))
    made.write_estimates(0, Estimates(ATTACKED, estimates))
    made.write_prediction_outcomes(outcomes)
    return made


def outcome(
    attack: str, status: AttackStatus = DONE, *, batch: int = 0, reason: str | None = None, level: Level | None = None
) -> PredictionAttackOutcome:
    return PredictionAttackOutcome(
        attack=attack, batch=batch, records=4, status=status, reason=reason, level=level, seconds=0.5
    )


def test_the_truth_and_a_guess_by_hand(tmp_path: Path) -> None:
    truth = PASSIVE[ATTACKED]
    half_right = np.column_stack([truth[:, 0], np.full(4, 0.5)])
    run = folder(tmp_path, outcome("exact"), outcome("partly"), exact=truth, partly=half_right)
    exact, partly = read_prediction_findings(run, ["passive-1", "passive-2"]).attacks
    assert exact.mse is not None
    assert partly.mse is not None
    assert (exact.status, exact.records, exact.mse.mean, exact.accuracy) == (DONE, 4, 0.0, 1.0)
    # Columns of 0 and 1: one half errs by 1/4, zero by the share of ones.
    assert (exact.half, exact.zero) == (0.25, 0.5)
    assert partly.mse.mean == 0.125
    first, second = partly.columns
    assert (first.party, first.column, first.mse.mean) == ("passive-1", "x0", 0.0)
    assert (second.party, second.column, second.mse.mean) == ("passive-2", "x1", 0.25)
    # The active party's one column that varies is the first passive one, and says nothing of the second.
    assert (first.correlation, second.correlation) == pytest.approx((1.0, 0.0))
    # A bit each; what is known exactly leaves none.
    assert (first.entropy, first.remaining_entropy) == pytest.approx((1.0, 0.0))
    assert (second.entropy, second.remaining_entropy) == pytest.approx((1.0, 1.0))


def test_what_was_not_done_keeps_its_status_and_later_batches_are_not_judged(tmp_path: Path) -> None:
    run = folder(tmp_path, outcome("gia", FAILED, reason="gia failed"), outcome("exact", batch=1))
    (found,) = read_prediction_findings(run, ["passive-1", "passive-2"]).attacks
    assert (found.attack, found.status, found.reason, found.mse) == ("gia", FAILED, "gia failed", None)


def test_estimates_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="has no estimates of exact"):
        read_prediction_findings(folder(tmp_path, outcome("exact")), ["passive-1", "passive-2"])


# -- verdicts: forty records, one column that the active party's single column predicts, one that nothing does -------

RNG = np.random.default_rng(6)
OWN = RNG.random((40, 1))
COLUMNS = np.column_stack([0.9 * OWN[:, 0] + 0.05 * RNG.random(40), RNG.random(40)])
JUDGED, KNOWN = np.arange(20), np.arange(20, 40)
TRUTH = COLUMNS[JUDGED]


def judged(
    path: Path, *outcomes: PredictionAttackOutcome, known: IntArray | None = None, **arrays: FloatArray
) -> PredictionFindings:
    run = RunFolder(path)
    labels = np.arange(40) % 2
    run.write_features("active", PartyFeatures(np.hstack([OWN, np.ones((40, 1))]), np.array(["y", "bias"]), labels))
    run.write_features("passive", PartyFeatures(COLUMNS, np.array(["predicted", "free"])))
    named = {name.replace("_of_", ": "): array for name, array in arrays.items()}
    run.write_estimates(0, Estimates(JUDGED, named, auxiliary_rows=known))
    run.write_prediction_outcomes(outcomes)
    return read_prediction_findings(run, ["passive"])


def near(truth: FloatArray, width: float) -> FloatArray:
    """The truth, off by this much in every cell, up and down by turns."""
    return truth + width * np.where(np.arange(truth.size).reshape(truth.shape) % 2, 1, -1)


def finding(found: PredictionFindings, attack: str) -> AttackFinding:
    return next(one for one in found.attacks if one.attack == attack)


def test_baselines_are_listed_and_never_chosen(tmp_path: Path) -> None:
    # Zero is perfect here, and still no attack.
    found = judged(tmp_path, outcome("zero"), outcome("half_star"), zero=TRUTH, half_star=near(TRUTH, 0.1))
    assert "zero" in {one.name for one in found.baselines}
    assert "half_star" not in {one.name for one in found.baselines}
    chosen = {(level.attack, level.baseline) for column in found.columns for level in column.squared}
    assert chosen == {("half_star", "zero")}
    assert not finding(found, "zero").sees_scores
    assert not any(column.levels for column in finding(found, "zero").columns)


def test_an_attack_counts_from_its_level_on_and_what_it_knew_without_scores_with_it(tmp_path: Path) -> None:
    label = "posterior(prior=covariance)"
    arrays: dict[str, Any] = {label: near(TRUTH, 0.01), f"withheld_of_{label}": near(TRUTH, 0.02)}
    found = judged(
        tmp_path,
        outcome("half_star"),
        outcome(label, level="covariance"),
        half_star=near(TRUTH, 0.2),
        **arrays,
    )
    free = found.columns[1].squared
    assert [one.attack for one in free] == ["half_star", "half_star", label, label]
    assert [one.baseline for one in free][1:3] == ["its mean", f"{label}, scores withheld"]
    # Half as far off is a quarter of the squared error.
    assert free[2].part is not None
    assert free[2].part.mean == pytest.approx(0.75)
    assert [one.level for one in finding(found, label).columns[0].levels] == list(LEVELS[2:])
    assert finding(found, label).level == "covariance"


def test_known_records_make_imputations_of_the_judge_part_of_e0(tmp_path: Path) -> None:
    found = judged(tmp_path, outcome("half_star"), known=KNOWN, half_star=near(TRUTH, 0.03))
    assert found.auxiliary_records == 20
    assert {"imputation from 20 records", "regression from 20 records"} <= {one.name for one in found.baselines}

    def at_records(column: int) -> LevelVerdict:
        return found.columns[column].squared[-1]

    # The own column predicts the first: its e0 falls below the floor. Nothing predicts the second.
    assert at_records(0).baseline.endswith(" from 20 records")
    assert at_records(0).e0 < 0.002 < found.columns[0].squared[1].e0
    assert not at_records(0).is_exposed
    assert [one.known for one in found.columns[0].squared] == [None, None, None, 20]
    assert found.columns[0].squared[1].is_exposed
    nearly_all = at_records(1).part
    assert nearly_all is not None
    assert nearly_all.mean > 0.9


def test_intervals_of_an_attack_are_counted_by_what_they_cover(tmp_path: Path) -> None:
    low = TRUTH - 0.1
    low[:, 1] = TRUTH[:, 1] + np.where(np.arange(20) < 5, 0.1, -0.1)
    found = judged(tmp_path, outcome("half_star"), half_star=TRUTH, low_of_half_star=low, high_of_half_star=TRUTH + 0.2)
    half_star = finding(found, "half_star")
    assert [one.coverage for one in half_star.columns] == [1.0, 0.75]
    assert half_star.coverage == pytest.approx(0.875)
    assert finding(judged(tmp_path / "none", outcome("ls"), ls=TRUTH), "ls").coverage is None


def test_measures_of_one_attack_and_column(tmp_path: Path) -> None:
    (column, _) = finding(judged(tmp_path, outcome("ls"), ls=near(TRUTH, 0.04)), "ls").columns
    # The tolerance is 5 % of the column's range, and the column spans most of [0, 1].
    assert column.within == (1.0 if np.ptp(COLUMNS[:, 0]) >= 0.8 else 0.0)
    assert column.mse.mean == pytest.approx(0.0016)
    assert column.r_squared == pytest.approx(1 - 0.0016 / TRUTH[:, 0].var())


def test_runs_from_before_levels_are_read_by_the_attacks_names(tmp_path: Path) -> None:
    found = judged(
        tmp_path,
        outcome("zero"),
        outcome("imputation"),
        outcome("someone_elses"),
        zero=TRUTH,
        imputation=TRUTH,
        someone_elses=TRUTH,
    )
    assert [(one.level, one.sees_scores) for one in found.attacks] == [
        ("nothing", False),
        ("records", False),
        ("nothing", True),
    ]


def test_an_attack_that_errs_more_than_the_mean_gives_nothing_away(tmp_path: Path) -> None:
    found = judged(tmp_path, outcome("half_star"), half_star=near(TRUTH, 0.4))
    (_, free) = finding(found, "half_star").columns
    assert free.levels[1].removed is not None
    assert free.levels[1].removed.mean == pytest.approx(TRUTH[:, 1].var() - 0.16)
    assert free.levels[1].removed.high < 0
    assert not found.columns[1].squared[1].is_exposed
