"""Measurements: many and independent, of attacks and defences, each made once and kept.

results = measure_all(measurements, SweepOptions(store=Path("runs/cells")))   # a pandas frame, a row per measurement
"""

from studies.measurements.descriptions import (
    AttackMeasurement,
    Choice,
    DataChoice,
    Measurement,
    ModelChoice,
    TaskMeasurement,
    windows,
)
from studies.measurements.engine import SweepOptions, measure_all

__all__ = [
    "AttackMeasurement",
    "Choice",
    "DataChoice",
    "Measurement",
    "ModelChoice",
    "SweepOptions",
    "TaskMeasurement",
    "measure_all",
    "windows",
]
