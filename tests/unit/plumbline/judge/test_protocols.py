"""Protocols side by side: what stands in the table, and how "then how?" is answered."""

from dataclasses import asdict, replace
from pathlib import Path

from plumbline.judge.protocols import AttackTold, ProtocolResult, rows_of, then_how
from services.common.run_files import parsed
from services.common.run_records import FAILED, NOT_APPLICABLE

HU = ProtocolResult(
    "hu",
    (
        AttackTold("feature_order", "active", "features", 0.0),
        AttackTold("own_part", "passive", "labels", 0.9, 0.64, is_exposed=True),
        AttackTold("auxiliary_ciphertext", "passive", "labels", 1.0, 0.64, is_exposed=True),
    ),
    exposed=7,
    columns=15,
    part=0.5,
    accuracy=0.95,
    auc=0.99,
    seconds=2.0,
    bytes=3_000_000,
)
SHARED = replace(
    HU,
    protocol="shared",
    training=(
        HU.training[1],
        AttackTold("auxiliary_ciphertext", "passive", reason="it has no messages", status=NOT_APPLICABLE),
    ),
    accuracy=0.94,
    seconds=5.0,
    bytes=1_500_000,
)


def test_every_attack_has_a_row_with_a_cell_for_each_protocol() -> None:
    rows = {row[0]: row[1:] for row in rows_of([HU, SHARED])}
    assert rows["own_part by passive"] == ("labels: 90 %, 64 % by guessing",) * 2
    assert rows["auxiliary_ciphertext by passive"] == ("labels: 100 %, 64 % by guessing", "can't be mounted")
    assert rows["feature_order by active"] == ("features: 0 %", "not mounted")
    assert rows["columns exposed"] == ("7 of 15", "7 of 15")
    assert rows["on the wire, MB"] == ("3.0", "1.5")
    # Labels come first.
    assert next(iter(rows)) == "own_part by passive"


def test_then_how_says_what_is_left_and_what_it_costs() -> None:
    words = then_how([HU, SHARED])
    assert "own_part by passive has 90 % right, where under protocol=hu auxiliary_ciphertext" in words
    assert "7 of 15 columns are exposed, where 7 were" in words
    assert "1.0 points of accuracy, 2.5 times the time of training and 0.5 times the bytes" in words
    assert then_how([HU]) == then_how([]) == ""
    assert "no attack on them can be judged" in then_how([HU, replace(SHARED, training=())])


def test_columns_that_no_attack_was_carried_out_on_are_not_called_safe() -> None:
    """Where weights stay shared, attacks that take parameters have none."""
    unmeasured = replace(SHARED, exposed=0, part=None)
    words = then_how([HU, unmeasured])
    assert "tell of columns was not measured: no attack on them could be carried out" in words
    assert "Under protocol=hu 7 of 15 columns are exposed." in words
    assert "0 of 15" not in words
    rows = {row[0]: row[1:] for row in rows_of([HU, unmeasured])}
    assert rows["columns exposed"] == ("7 of 15", "not measured")


def test_an_attack_that_failed_is_told_from_one_that_cannot_be_mounted() -> None:
    told = AttackTold("auxiliary_ciphertext", "passive", reason="it failed with KeyError", status=FAILED)
    failed = replace(SHARED, training=(told,), failed=("gia", "auxiliary_ciphertext by passive"))
    rows = {row[0]: row[1:] for row in rows_of([SHARED, failed])}
    assert rows["auxiliary_ciphertext by passive"] == ("can't be mounted", "failed")
    unknown = "so that what they would have told is unknown: gia, auxiliary_ciphertext by passive."
    assert unknown in then_how([HU, failed])
    assert "unknown" not in then_how([HU, SHARED])


def test_what_is_written_is_read_again() -> None:
    assert parsed(tuple[ProtocolResult, ...], [asdict(SHARED)], Path(__file__)) == (SHARED,)
