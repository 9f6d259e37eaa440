"""Writes the evaluation of the defences: Parquet per section, JSON, a drawing per plot, and one self-contained page."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plumbline.figures.page.elements import PageTable, inline, json_text, number_words
from plumbline.figures.page.section import Section
from plumbline.html import template

# A longer table is folded away: the drawings and notes are what a reader comes for.
_OPEN_ROWS = 40
# A table of more columns is set small, and the first of its leading columns become headings between rows.
_WIDE, _KEPT_LEADING = 12, 2
# What the page is made of.
_STORED = {"title", "settings", "data", "rows", "table", "advice", "maps", "plots", "notes"}
# Of an interval.
_ENDS = ("_low", "_high")
# What is below this in magnitude is what rounding left.
_ROUNDING = 1e-12


def stored_sections(folder: Path) -> dict[str, Any]:
    """Read what an earlier run wrote of its sections, by name; empty in a new folder.

    Raises:
        ValueError: where it can't be read.
        OSError: where ``folder`` can't be made or written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=folder):  # found out now, not after an hour of measuring
            pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error
    file = folder / "defences.json"
    if not file.exists():
        return {}
    try:
        sections: dict[str, Any] = json.loads(file.read_text())["sections"]
        complete = all(
            _STORED.issubset(section) and all((folder / plot["file"]).exists() for plot in section["plots"])
            for section in sections.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        complete = False
    if not complete:
        raise ValueError(
            f"{file} is not of this version of Plumbline, or its drawings are gone, so its sections can't be kept: "
            "choose another folder with --out, or move it away."
        )
    return sections


def write_defences(folder: Path, sections: Mapping[str, Section], settings: Mapping[str, Any]) -> Path:
    """Write sections, by name, into ``folder``, beside those of earlier runs; returns the path of ``defences.html``.

    settings: of these sections: seed, quick, made (when) and versions. Raises as ``stored_sections`` does.
    """
    stored = stored_sections(folder)
    for name, section in sections.items():
        for plot in stored.get(name, {}).get("plots", ()):
            (folder / plot["file"]).unlink(missing_ok=True)
        stored[name] = _write_section(folder, name, section, settings)
    (folder / "defences.json").write_text(json_text({"sections": stored}))
    page = folder / "defences.html"
    page.write_text(template("defences.html").render(sections=[_shown(folder, *entry) for entry in stored.items()]))
    return page


def _write_section(folder: Path, name: str, section: Section, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write a section's measurements and drawings; returns all else that its part of the page is made of."""
    section.data.to_parquet(folder / f"defences-{name}.parquet", index=False)
    plots = []
    for plot in section.plots:
        file = f"defences-{name}-{plot.name.removeprefix(section.name + '-')}.svg"
        (folder / file).write_text(plot.svg)
        plots.append({"file": file, "caption": plot.caption})
    return {
        "title": section.title,
        "settings": dict(settings),
        "data": f"defences-{name}.parquet",
        "rows": len(section.data),
        "summary": json.loads(section.summary.to_json(orient="records", double_precision=15)),
        "table": _stored_table(frame_table(section.summary, f"{section.title}: what was measured, summarised.")),
        "advice": None if section.advice is None else _stored_table(section.advice),
        "maps": [asdict(one) for one in section.maps],
        "plots": plots,
        "notes": list(section.notes),
    }


def _stored_table(table: PageTable) -> dict[str, Any]:
    return {**asdict(table), "right": sorted(table.right)}


def _shown(folder: Path, name: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a stored section."""
    count = sum(len(row) > 1 for row in stored["table"]["rows"])
    return {
        **stored,
        "name": name,
        "plots": [
            {
                "drawing": inline((folder / plot["file"]).read_text(), _title(plot["caption"])),
                "caption": plot["caption"],
            }
            for plot in stored["plots"]
        ],
        "look": "wide" if len(stored["table"]["headings"]) > _WIDE else "",
        "count": count,
        "open": count <= _OPEN_ROWS,
    }


def _title(caption: str) -> str:
    """What a drawing is of: its caption up to the first colon or full stop."""
    return caption.partition(":")[0].partition(". ")[0].removesuffix(".")


def frame_table(frame: pd.DataFrame, caption: str = "") -> PageTable:
    """Turn a frame into text. Numbers are short and flush right; the leading columns of text show a value once per run.

    A column NAME_se, a standard error, goes into the cells of NAME; so do NAME_low and NAME_high, an interval's ends.
    Of a wide frame, all leading columns of text but the last two go into rows of one cell, above the rows that they
    hold for.
    """
    names = [str(name) for name in frame.columns if not _belongs_to_another(str(name), frame)]
    numeric = [_is_numeric(frame[name]) for name in names]
    cells = [_cells_with_error(frame, name) for name in names]
    leading = numeric.index(True) if True in numeric else max(len(names) - 1, 0)
    above = max(0, leading - _KEPT_LEADING) if len(names) > _WIDE else 0
    rows: list[tuple[str, ...]] = []
    previous: tuple[str, ...] = ()
    for values in zip(*cells, strict=True):
        same = 0
        while previous and same < leading and values[same] == previous[same]:
            same += 1
        if same < above:
            rows.append((", ".join(values[:above]),))
        rows.append((("",) * same + values[same:])[above:])
        previous = values
    headings = tuple(name if " " in name else name.replace("_", " ") for name in names[above:])
    return PageTable(caption, headings, rows, frozenset(np.flatnonzero(numeric[above:]).tolist()))


def _is_numeric(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _belongs_to_another(name: str, frame: pd.DataFrame) -> bool:
    return any(name.endswith(ending) and name.removesuffix(ending) in frame for ending in ("_se", *_ENDS))


def _cells_with_error(frame: pd.DataFrame, name: str) -> list[str]:
    cells = _column_cells(frame[name])
    low, high = (f"{name}{end}" for end in _ENDS)
    if low in frame and high in frame:
        ends = zip(cells, _column_cells(frame[low]), _column_cells(frame[high]), strict=True)
        return [cell if cell == least == most else f"{cell} ({least} to {most})" for cell, least, most in ends]
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
    size = abs(value)
    if not np.isfinite(value):
        return number_words(value)
    if whole and size < 1e9:
        return f"{value:,.0f}"
    if size < _ROUNDING:
        return "0"
    if size < 1e-3 or size >= 1e6:
        return number_words(value)
    decimals = 4 if size < 1 else 3 if size < 10 else 1 if size < 1000 else 0
    return f"{value:,.{decimals}f}"
