"""What measurements are measured on, made as a sweep makes it."""

from pathlib import Path
from typing import Any

from studies.measurements import DataChoice
from studies.measurements.measuring import Shared, data_and_seed, load_table, train_model


def prepare(on: Shared, data_dir: Path | None) -> Any:
    """Load a data set (``ScaledTable``), or train a model."""
    table = load_table(*data_and_seed(on), data_dir)
    return table if isinstance(on, DataChoice) else train_model(on, table)
