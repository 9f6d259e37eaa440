"""Hu's study on data of nobody: its measurements are measured in this process, whatever data set they name."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from studies.measurements import Measurement, TaskMeasurement
from studies.measurements.descriptions import description
from studies.simulation.records import Records
from studies.study import StudyRun


def made_up_records(rows: int = 120, features: int = 12, *, seed: int = 0, train_rows: int | None = None) -> Records:
    """Normal features of several scales, labels of a noisy line."""
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(rows, features)) * generator.uniform(0.5, 4.0, features)
    labels = (values @ generator.normal(size=features) + generator.normal(size=rows) > 0).astype(np.int64)
    return Records(values, labels, train_rows)


# As wide as batches of 256 need with Algorithm 2, and enough rows for batches of 1,024.
MADE_UP = {
    "mnist01": made_up_records(700, 300, seed=1, train_rows=600),
    "credit": made_up_records(1300, 23, seed=2),
}


@dataclass(frozen=True, eq=False)
class MadeUpHu(StudyRun):
    """A run for which both data sets are there."""

    def available(self, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """All of them."""
        return tuple(names), ()

    def measure(self, measurements: Sequence[Measurement]) -> pd.DataFrame:
        """Measure tasks on made-up records."""
        return pd.DataFrame([description(one) | outcome(one) for one in measurements])


def outcome(measurement: Measurement) -> dict[str, Any]:
    """Call a task as the engine does."""
    assert isinstance(measurement, TaskMeasurement)
    assert measurement.on is not None
    module, _, name = measurement.function.partition(":")
    found: dict[str, Any] = getattr(import_module(module), name)(
        MADE_UP[getattr(measurement.on, "name", "")], **dict(measurement.options)
    )
    return {"status": "done", "reason": ""} | found
