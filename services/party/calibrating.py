"""Whether a session's scores are calibrated, as every party knows it, and what its record says of it."""

import math

from services.common.agreement import Agreement
from services.common.run_records import CalibrationRecord
from services.exchange.opening_ledger import OpeningLedger
from vfl.learning.calibration import LEAST_RECORDS, SLOPE_BITS, Calibration


def calibrates(agreement: Agreement) -> bool:
    """Tell whether the label party may fit a slope in this session, and tell it to the others."""
    return agreement.plan.calls.calibrates() and not obstacle(agreement)


def obstacle(agreement: Agreement) -> str:
    """Say what is in the way of calibrated scores in this session, a sentence; empty for nothing."""
    records = agreement.row_counts.validation
    if records < LEAST_RECORDS:
        return f"A slope takes {LEAST_RECORDS} validation records, and there are {records}: raise validation_fraction."
    if agreement.score_defences:
        return f"Scores of validation records are defended ({', '.join(agreement.score_defences)}): no slope is fitted."
    return agreement.plan.training.no_slope(agreement)


def calibration_record(agreement: Agreement, calibration: Calibration | None) -> CalibrationRecord | None:
    """Say what became of the scores' calibration; None where the plan doesn't ask for it.

    Args:
        agreement: the session's public terms.
        calibration: what this party has scaled its weights by; None where the label party's fit gave none.
    """
    if not agreement.plan.calls.calibrates():
        return None
    if in_the_way := obstacle(agreement):
        return CalibrationRecord(reason=in_the_way)
    if calibration is None:
        return CalibrationRecord(reason="No slope above 0 makes the validation records' log loss smaller.")
    loss = None if math.isnan(calibration.loss) else calibration.loss
    return CalibrationRecord(calibration.slope, calibration.intercepts or None, loss)


def count_slope(agreement: Agreement, name: str, ledger: OpeningLedger) -> None:
    """Count, at the label party of opened weights, what a slope tells of its labels, before the others are told.

    Raises:
        StateNotKept: where it couldn't be counted. Nothing may be told then.
    """
    if agreement.plan.training.opens and calibrates(agreement):
        ledger.count(f"{agreement.session_id} slope", {peer.name: SLOPE_BITS for peer in agreement.peers_of(name)})
