"""Findings of an audit, made up."""

from plumbline.judge.measures import Interval
from plumbline.judge.predictions import AttackFinding, ColumnLeakage
from plumbline.judge.training import TrainingFinding
from services.common.run_records import DONE

# An attack whose result nobody scores.
SIZES = TrainingFinding(
    "residual_size", "passive", "", 0.1, "residual sizes", details={"solved_steps": 7, "sizes": list(range(99))}
)


def column(name: str, mse: float) -> ColumnLeakage:
    return ColumnLeakage("passive", name, Interval(mse, mse, mse), 0.1, 0.2, 0.5, None, None)


def attack(name: str, *columns: ColumnLeakage) -> AttackFinding:
    mean = sum(one.mse.mean for one in columns) / len(columns)
    return AttackFinding(name, DONE, "", 10, 0.1, Interval(mean, mean, mean), 0.1, 0.2, 0.5, columns=columns)
