"""Cells: many independent measurements of attacks and defences, each made once and kept.

results = run_cells(cells, SweepOptions(store=Path("runs/cells")))   # a pandas frame, a row per cell
"""

from plumbline.cells.cells import AttackCell, Cell, Choice, DataChoice, ModelChoice, TaskCell, windows
from plumbline.cells.engine import SweepOptions, run_cells

__all__ = [
    "AttackCell",
    "Cell",
    "Choice",
    "DataChoice",
    "ModelChoice",
    "SweepOptions",
    "TaskCell",
    "run_cells",
    "windows",
]
