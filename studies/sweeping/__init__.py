"""Sweeps: a grid of measurements as a file, ``plumbline sweep``.

measurements = read_sweep(Path("sweep.toml")).measurements   # what `studies.measurements` computes
"""

from studies.sweeping.file import Sweep, read_sweep
from studies.sweeping.grids import SweepFileError

__all__ = ["Sweep", "SweepFileError", "read_sweep"]
