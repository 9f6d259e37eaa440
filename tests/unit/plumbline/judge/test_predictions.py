"""Known answers of the judge of attacks on predictions."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.judge.predictions import read_prediction_findings
from services.common.run_folder import RunFolder, RunFolderError
from services.common.run_records import DONE, FAILED, Estimates, PartyFeatures, PredictionAttackOutcome
from vfl.arrays import FloatArray

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


def outcome(attack: str, status: str = DONE, *, batch: int = 0, reason: str | None = None) -> PredictionAttackOutcome:
    return PredictionAttackOutcome(attack=attack, batch=batch, records=4, status=status, reason=reason, seconds=0.5)


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
    assert (first.party, first.column, first.gain_over_half) == ("passive-1", "x0", 1.0)
    assert (second.party, second.column, second.gain_over_half) == ("passive-2", "x1", 0.0)
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
