"""What a secret of the distortion is worth: Varasteh, Remarks 10, 13 and 14, with an adversary who rescales beside.

SIMULATION: models are trained in one place, on all parties' columns; no service runs.
"""

from dataclasses import dataclass
from typing import get_args

import pandas as pd

from defences.parameter_rotation import Secret
from studies.measurements import TaskMeasurement
from studies.page.section import Section
from studies.study import StudyRun
from studies.varasteh.distortion_claims import secret_statements
from studies.varasteh.rivals import ADULT, GRID, paper_model
from studies.varasteh.rotation import AS_DISCLOSED, HALF, REPEATS, RESCALES

_TASK = "studies.varasteh.rotation:secret_errors"
_SHOWN = ("dataset", "secret", AS_DISCLOSED, REPEATS, RESCALES, HALF)


@dataclass(frozen=True)
class _Plan:
    """Data sets of two classes; epsilon in mean squared parameters; draws of each secret."""

    datasets: tuple[str, ...] = ("bank", ADULT, GRID)
    epsilon: float = 0.3
    draws: int = 50


_FULL = _Plan()
_QUICK = _Plan(draws=5)


def secrets_section(run: StudyRun) -> Section:
    """Measure those who repeat the optimisation, or rescale its outcome, under each secret."""
    plan = _QUICK if run.quick else _FULL
    names, missing = run.available(plan.datasets)
    common = {"passive": 0, "epsilon": plan.epsilon, "draws": plan.draws, "seed": run.seed}
    data = run.measure(
        [
            TaskMeasurement.of(_TASK, paper_model(name, run.seed), secret=secret, **common)
            for name in names
            for secret in get_args(Secret)
        ]
    )
    return Section(
        name="secrets",
        title="Secrets of the distortion (Remarks 10, 13 and 14)",
        data=data,
        summary=data[[name for name in _SHOWN if name in data]],
        plots=(),
        notes=(*missing, *_rescaling(data)),
        statements=secret_statements(data),
    )


def _rescaling(data: pd.DataFrame) -> tuple[str, ...]:
    if RESCALES not in data:
        return ()
    worst = float(data[RESCALES].max())
    return (
        f"No secret helps against who knows that features were scaled to [0, 1], which errs by {worst:.4f} at most: "
        "whatever is disclosed of one feature, estimates are x but for a factor, which their extreme tells.",
    )
