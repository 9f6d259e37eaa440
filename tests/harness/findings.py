"""Findings of an audit, made up."""

from attacks import LEVELS
from plumbline.judge.evidence import ColumnVerdict
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.measures import Interval
from plumbline.judge.predictions import AttackFinding, BaselineFinding, ColumnLeakage, PredictionFindings
from plumbline.judge.training import TrainingFinding
from services.common.run_records import DONE

# An attack whose result nobody scores.
SIZES = TrainingFinding(
    "residual_size", "passive", "", 0.1, "residual sizes", details={"solved_steps": 7, "sizes": list(range(99))}
)
# What guessing each column's mean costs, in these findings.
E0 = 0.1


def levels(attack: str, error: float, *, width: float = 0.05) -> tuple[LevelVerdict, ...]:
    """Verdicts of all levels on an attack that errs by this much; its part has an interval of twice this width."""
    part = max(0.0, 1 - error / E0)
    interval = Interval(part, max(0.0, part - width), part + width)
    removed = Interval(E0 - error, E0 - error - width, E0 - error + width)
    return tuple(LevelVerdict(level, "its mean", E0, attack, error, interval, removed) for level in LEVELS)


def column(name: str, mse: float) -> ColumnLeakage:
    interval = Interval(mse, mse, mse)
    return ColumnLeakage(
        "passive", name, interval, 0.1, 0.2, 0.5, None, None, within=0.25, levels=levels("half_star", mse)
    )


def attack(name: str, *columns: ColumnLeakage) -> AttackFinding:
    mean = sum(one.mse.mean for one in columns) / len(columns)
    interval = Interval(mean, mean, mean)
    return AttackFinding(name, DONE, "", 10, 0.1, mse=interval, half=0.1, zero=0.2, accuracy=0.5, columns=columns)


def findings(*found: AttackFinding) -> PredictionFindings:
    """Findings of these attacks, the verdict of each column being the first attack's that was done."""
    done = [one for one in found if one.columns and one.sees_scores]
    verdicts = [
        ColumnVerdict(one.party, one.column, levels(done[0].attack, one.mse.mean), levels(done[0].attack, one.mse.mean))
        for one in (done[0].columns if done else ())
    ]
    guess = BaselineFinding("its mean", "marginals", Interval(E0, E0, E0))
    return PredictionFindings(found, (guess,) if done else (), tuple(verdicts))
