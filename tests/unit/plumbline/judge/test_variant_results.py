"""Variants side by side: what stands in the table, and how "then how?" is answered."""

from dataclasses import asdict, replace
from pathlib import Path

from plumbline.judge.variant_results import AttackTold, VariantResult, headings_of, rows_of, then_how
from services.common.run_files import parsed
from services.common.run_records import FAILED, NOT_APPLICABLE

HU = VariantResult(
    "protocol=hu",
    (
        AttackTold("feature_order", "active", "features", 0.0),
        AttackTold("own_part", "passive", "labels", 0.9, 0.64, is_exposed=True),
        AttackTold("auxiliary_ciphertext", "passive", "labels", 1.0, 0.64, is_exposed=True),
    ),
    exposed=7,
    columns=15,
    sessions=1,
    part=0.5,
    accuracy=0.95,
    auc=0.99,
    seconds=2.0,
    bytes=3_000_000,
    tested_by_class=(40, 9),
)
SHARED = replace(
    HU,
    variant="protocol=shared",
    training=(
        HU.training[1],
        AttackTold("auxiliary_ciphertext", "passive", reason="it has no messages", status=NOT_APPLICABLE),
    ),
    accuracy=0.94,
    seconds=5.0,
    bytes=1_500_000,
)


def test_every_attack_has_a_row_with_a_cell_for_each_variant() -> None:
    rows = {row[0]: row[1:] for row in rows_of([HU, SHARED])}
    assert rows["labels: own_part by passive"] == ("90 %", "90 %")
    assert rows["labels: auxiliary_ciphertext by passive"] == ("100 %", "can't be mounted")
    assert rows["labels: by guessing"] == ("64 %", "64 %")
    assert rows["features: feature_order by active"] == ("0 %", "not mounted")
    assert rows["columns exposed"] == ("7 of 15", "7 of 15")
    assert rows["test AUC"] == ("0.99 (95 %: 0.69 to 1.00), 9 positive records",) * 2
    assert rows["on the wire, MB"] == ("3.0", "1.5")
    # Labels come first.
    assert [name.partition(":")[0] for name in list(rows)[:4]] == ["labels"] * 3 + ["features"]


def test_then_how_says_what_is_left_and_what_it_costs() -> None:
    words = then_how([HU, SHARED])
    assert "own_part by passive has 90 % right, where under protocol=hu auxiliary_ciphertext" in words
    assert "7 of 15 columns are exposed, where 7 were" in words
    assert "1.0 points of accuracy, 2.5 times the time of training and 0.5 times the bytes" in words
    assert then_how([HU]) == then_how([]) == ""
    assert "no attack on them can be judged" in then_how([HU, replace(SHARED, training=())])


def test_what_was_not_judged_alike_is_named() -> None:
    judged = replace(HU, sessions=3, disclosed=True, steps="8 steps (own moments)", attacks=("half_star", "rcc1(x=1)"))
    kept = replace(SHARED, steps="16 steps (plain)", attacks=("half_star",))
    assert "Not like beside like" not in then_how([HU, SHARED])
    assert (
        "Not like beside like: 1 session where there were 3 sessions; kept parameters where there were disclosed "
        "parameters; 16 steps (plain) where there were 8 steps (own moments); attacks on scores under "
        "protocol=hu alone: rcc1."
    ) in then_how([judged, kept])
    rows = {row[0]: row[1:] for row in rows_of([judged, kept])}
    assert rows["passive parameters"] == ("disclosed", "kept")
    assert rows["training steps"] == ("8 steps (own moments)", "16 steps (plain)")


def test_labels_that_no_attack_tells_better_than_a_guess_are_said_so() -> None:
    blind = replace(SHARED, training=(replace(HU.training[1], right=0.5),))
    assert "of labels no attack has more right than a guess, where under protocol=hu" in then_how([HU, blind])


def test_many_results_have_short_headings_and_say_after_how_many_sessions() -> None:
    plain = replace(HU, variant="learner=network backward=plain", sessions=3)
    assert headings_of([HU, SHARED, plain]) == ["hu", "shared", "network plain"]
    assert headings_of([HU, SHARED]) == ["protocol=hu", "protocol=shared"]
    rows = {row[0]: row[3] for row in rows_of([HU, SHARED, plain])}
    assert rows["columns exposed"] == "7 of 15 after 3 sessions"


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
    told = AttackTold("auxiliary_ciphertext", "passive", "labels", reason="it failed", status=FAILED)
    failed = replace(SHARED, training=(told,), failed=("gia", "auxiliary_ciphertext by passive"))
    rows = {row[0]: row[1:] for row in rows_of([SHARED, failed])}
    assert rows["labels: auxiliary_ciphertext by passive"] == ("can't be mounted", "failed")
    unknown = "so that what they would have told is unknown: gia, auxiliary_ciphertext by passive."
    assert unknown in then_how([HU, failed])
    assert "unknown" not in then_how([HU, SHARED])


def test_what_is_written_is_read_again() -> None:
    assert parsed(tuple[VariantResult, ...], [asdict(SHARED)], Path(__file__)) == (SHARED,)
