"""Tiny federations of processes: steps beside their own cryptography, and scores in bulk and alone."""

import pytest

from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from studies.speed.federations import step_subject
from studies.speed.federations.made_tables import TableShape, made_tables
from studies.speed.federations.serving_subject import ServingAsked, measure_serving
from studies.speed.federations.step_subject import OwnCryptography, StepsAsked, measure_steps
from studies.speed.repetition import WrongResult
from studies.speed.result import middle
from vfl.crypto.kernels import kernel_named


def test_made_tables_share_their_ids_and_have_columns_of_every_width() -> None:
    shape = TableShape(50, 2, byte=3, binary=4)
    active, passive = made_tables(shape)
    assert set(active["id"]) == set(passive["id"])
    assert list(active["id"]) != list(passive["id"])
    assert set(active["label"]) == {"yes", "no"}
    for table in (active, passive):
        values = table.drop(columns=["id", "label"], errors="ignore")
        assert values.shape == (50, shape.columns)
        assert values.iloc[:, 2:5].isin(range(256)).all(axis=None)
        assert values.iloc[:, 5:].isin([0, 1]).all(axis=None)


@pytest.mark.slow("a federation of processes is what is timed")
def test_a_step_is_told_beside_its_own_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_subject, "kernel_settings", lambda: ())
    asked = StepsAsked({"one-hot, tiny": TableShape(32, 2, binary=2)}, batch=16, epochs=2, key_bits=512)
    result = measure_steps(asked)
    assert result.command == "plumbline bench federation --repetitions 1 --batch 16 --epochs 2 --key-bits 512"
    (table,) = result.tables
    # One federation is enough here: others differ in their settings.
    assert [row["variant"] for row in table.rows] == ["portable, all columns full"]
    for row in table.rows:
        assert all(
            (middle(row[key]) or 0) > 0 for key in ("step", "own", "cpu", "from_active", "from_passive", "start")
        )


def test_scores_are_the_same_in_bulk_and_alone() -> None:
    result = measure_serving(ServingAsked(records=200, columns=2, repetitions=2, rate=50, seconds=0.2))
    assert result.command == (
        "plumbline bench predict --records 200 --rate 50 --repetitions 2 --columns 2 --seconds 0.2"
    )
    bulk, alone = result.tables
    assert bulk.rows[0]["records"] == 200
    assert (middle(bulk.rows[0]["rate"]) or 0) > 0
    assert alone.rows[0]["requests"] == 10
    assert alone.rows[0]["refused"] == 0
    assert (middle(alone.rows[0]["p99"]) or 0) >= (middle(alone.rows[0]["p50"]) or 1)
    assert (middle(alone.rows[0]["served"]) or 0) > 0
    # Ten requests may take less than the system's clock of processors tells apart.
    assert middle(alone.rows[0]["cpu"]) is not None


def test_cryptography_that_computes_wrongly_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    parties = tuple(PartyDescription(name, 2, 1, False, 20) for name in ("active", "passive"))
    plan = TrainingPlan(batch_size=8, key_bits=256, validation_fraction=0.0, test_fraction=0.0)
    alone = OwnCryptography(Agreement("0" * 32, plan, 2, parties), kernel_named("portable"))
    assert alone.step() > 0
    monkeypatch.setattr(step_subject, "_SAME", -1.0)
    with pytest.raises(WrongResult, match="aren't the plain ones"):
        alone.step()
