"""A few attacks on few records, and a small judged run."""

from dataclasses import dataclass

import numpy as np
import pytest

import attacks
from attacks import PredictionView
from studies.speed.attacking.attack_subject import AttacksAsked, MadeRun, measure_attacks
from studies.speed.repetition import WrongResult
from studies.speed.result import Spread
from vfl.arrays import FloatArray

JUDGED = (MadeRun(40, 3, 4), MadeRun(40, 0, 4))


@pytest.mark.slow("two whole runs are judged, and timed twice")
def test_attacks_and_judging_are_timed() -> None:
    names = ("half_star", "ls", "one_feature", "zero")
    result = measure_attacks(AttacksAsked(records=20, names=names, judged=JUDGED, repetitions=2))
    assert result.command == (
        "plumbline bench attacks half_star ls one_feature zero --judged 40 --records 20 --repetitions 2"
    )
    table, judge = result.tables
    assert {row["attack"] for row in table.rows} == {"half_star", "ls", "zero"}
    assert all(isinstance(row["seconds"], Spread) and row["seconds"].runs == 2 for row in table.rows)
    assert any(note.startswith("one_feature: skipped") for note in table.notes)
    assert [row["records"] for row in judge.rows] == [40, 40]


@dataclass(frozen=True)
class Restless:
    """Estimates something else each time."""

    def reconstruct(self, view: PredictionView) -> FloatArray:
        return np.random.default_rng().random((view.n, view.d))


def test_an_attack_that_changes_its_mind_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "load", lambda name: Restless())
    with pytest.raises(WrongResult, match="zero estimates no numbers, or others"):
        measure_attacks(AttacksAsked(records=20, names=("zero",), judged=(), repetitions=2))


def test_a_solver_that_misses_the_only_solution_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    half = attacks.load("half")
    monkeypatch.setattr(attacks, "load", lambda name: half)
    with pytest.raises(WrongResult, match="ls is off by"):
        measure_attacks(AttacksAsked(records=20, names=("ls",), judged=(), repetitions=1))


def test_an_unknown_attack_is_a_sentence() -> None:
    with pytest.raises(attacks.UnknownAttack, match="half_star"):
        measure_attacks(AttacksAsked(records=20, names=("half_stra",), judged=(), repetitions=1))
