"""Sweeps: many independent measurements of attacks and defences, each made once and kept.

cells = read_sweep(Path("sweep.toml")).cells                          # or made in Python
results = run_cells(cells, SweepOptions(store=Path("runs/cells")))   # a pandas frame, a row per cell
"""

from plumbline.sweep.cells import AttackCell, Cell, Choice, DataChoice, ModelChoice, TaskCell, windows
from plumbline.sweep.engine import SweepOptions, run_cells
from plumbline.sweep.file import Sweep, read_sweep
from plumbline.sweep.grids import SweepFileError

__all__ = [
    "AttackCell",
    "Cell",
    "Choice",
    "DataChoice",
    "ModelChoice",
    "Sweep",
    "SweepFileError",
    "SweepOptions",
    "TaskCell",
    "read_sweep",
    "run_cells",
    "windows",
]
