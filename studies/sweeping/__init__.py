"""Sweeps: a grid of measurements as a file, ``plumbline sweep``.

cells = read_sweep(Path("sweep.toml")).cells   # what `plumbline.cells` computes
"""

from studies.sweeping.file import Sweep, read_sweep
from studies.sweeping.grids import SweepFileError

__all__ = ["Sweep", "SweepFileError", "read_sweep"]
