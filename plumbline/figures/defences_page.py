"""Writes the evaluation of the defences: Parquet per section, JSON, a drawing per plot, and one self-contained page."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plumbline.figures.page import PageTable, inline, json_text
from plumbline.figures.section import Section
from plumbline.report import template

# A longer table is folded away: the drawings and notes are what a reader comes for.
_OPEN_ROWS = 40
# What is below this in magnitude is what rounding left.
_ROUNDING = 1e-12


def write_defences(folder: Path, sections: Mapping[str, Section], settings: Mapping[str, Any]) -> Path:
    """Write all files of ``run_defences`` from its sections, by name; returns the path of ``defences.html``."""
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"settings": dict(settings), "sections": {}}
    shown = []
    for name, section in sections.items():
        section.data.to_parquet(folder / f"defences-{name}.parquet", index=False)
        drawings = {
            plot.name: f"defences-{name}-{plot.name.removeprefix(section.name + '-')}.svg" for plot in section.plots
        }
        for plot in section.plots:
            (folder / drawings[plot.name]).write_text(plot.svg)
        content["sections"][name] = {
            "title": section.title,
            "data": f"defences-{name}.parquet",
            "rows": len(section.data),
            "summary": json.loads(section.summary.to_json(orient="records", double_precision=15)),
            "plots": [{"file": drawings[plot.name], "caption": plot.caption} for plot in section.plots],
            "notes": list(section.notes),
        }
        shown.append(
            {
                "name": name,
                "title": section.title,
                "notes": section.notes,
                "plots": [{"drawing": inline(plot.svg), "caption": plot.caption} for plot in section.plots],
                "table": frame_table(section.summary),
                "open": len(section.summary) <= _OPEN_ROWS,
                "data": f"defences-{name}.parquet",
                "rows": len(section.data),
            }
        )
    (folder / "defences.json").write_text(json_text(content))
    page = folder / "defences.html"
    page.write_text(template("defences.html").render(settings=settings, sections=shown))
    return page


def frame_table(frame: pd.DataFrame, caption: str = "") -> PageTable:
    """A frame as text. Numbers are short and flush right; the leading columns of text show a value once per run.

    A column NAME_se, a standard error, goes into the cells of NAME.
    """
    names = [str(name) for name in frame.columns if str(name).removesuffix("_se") not in set(frame.columns) - {name}]
    numeric = [_is_numeric(frame[name]) for name in names]
    cells = [_cells_with_error(frame, name) for name in names]
    leading = numeric.index(True) if True in numeric else max(len(names) - 1, 0)
    rows: list[tuple[str, ...]] = []
    previous: tuple[str, ...] = ()
    for values in zip(*cells, strict=True):
        same = 0
        while previous and same < leading and values[same] == previous[same]:
            same += 1
        rows.append(("",) * same + values[same:])
        previous = values
    headings = tuple(name if " " in name else name.replace("_", " ") for name in names)
    return PageTable(caption, headings, rows, frozenset(np.flatnonzero(numeric).tolist()))


def _is_numeric(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _cells_with_error(frame: pd.DataFrame, name: str) -> list[str]:
    cells = _column_cells(frame[name])
    if f"{name}_se" not in frame:
        return cells
    errors = _column_cells(frame[f"{name}_se"])
    return [f"{cell} ± {error}" if error else cell for cell, error in zip(cells, errors, strict=True)]


def _column_cells(column: "pd.Series[Any]") -> list[str]:
    if pd.api.types.is_bool_dtype(column):
        return ["yes" if value else "no" for value in column]
    if not _is_numeric(column):
        return ["" if pd.isna(value) else str(value) for value in column]
    known = column[np.isfinite(column.astype(np.float64))]
    whole = bool((known == known.round()).all())
    return [_number(float(value), whole=whole) for value in column]


def _number(value: float, *, whole: bool) -> str:
    """Short: four decimals below 1, fewer above, none where the whole column has none."""
    if np.isnan(value):
        return ""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if whole and size < 1e9:
        return f"{value:,.0f}"
    if size < _ROUNDING:
        return "0"
    if size < 1e-3 or size >= 1e6:
        return f"{value:.1e}"
    decimals = 4 if size < 1 else 3 if size < 10 else 1 if size < 1000 else 0
    return f"{value:,.{decimals}f}"
