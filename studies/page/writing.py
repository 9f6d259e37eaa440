"""Writes any study: Parquet per section, a drawing per plot, JSON, and one self-contained page.

A page keeps the sections of earlier runs, each with the settings that it was made with.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from studies.page.elements import WIDE, PageTable, frame_table
from studies.page.panel_charts import PAGES, document, restored_panels, shown_panels, stored_panels
from studies.page.section import Section
from studies.study import Study

# A longer table is folded away: the drawings and statements are what a reader comes for.
_OPEN_ROWS = 12
# What a page is made of.
_STORED = {"title", "settings", "data", "rows", "table", "advice", "maps", "plots", "notes", "statements"}
_PLOT = {"file", "caption", "panels", "columns"}
# The light that a verdict has beside its word.
LIGHTS = {
    "reproduced": "green",
    "in part": "amber",
    "differs": "red",
    "not seen": "grey",
    "empty": "grey",
    "not measured": "grey",
}


def stored_sections(folder: Path, study: str) -> dict[str, Any]:
    """Read what earlier runs wrote of a study's sections, by name; empty in a new folder.

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
    file = folder / f"{study}.json"
    if not file.exists():
        return {}
    try:
        sections: dict[str, Any] = json.loads(file.read_text())["sections"]
        complete = all(_is_complete(folder, section) for section in sections.values())
    except (ValueError, KeyError, TypeError, AttributeError):
        complete = False
    if not complete:
        raise ValueError(
            f"{file} is not of this version of Plumbline, or its drawings are gone, so its sections can't be kept: "
            "choose another folder with --out, or move it away."
        )
    return sections


def _is_complete(folder: Path, section: Mapping[str, Any]) -> bool:
    """Whether a page can be made of it: all parts of a measured section, or a title and why there are none."""
    if "title" in section and section.get("failure"):
        return True
    plots = section["plots"] if _STORED.issubset(section) else [{}]
    return all(_PLOT.issubset(plot) and plot["panels"] and (folder / plot["file"]).exists() for plot in plots)


def write_study(
    folder: Path,
    study: Study,
    sections: Mapping[str, Section],
    settings: Mapping[str, Any],
    failures: Mapping[str, str] | None = None,
) -> Path:
    """Write sections, by name, into ``folder``, beside those of earlier runs; returns the path of the page.

    Written, for each section NAME of study STUDY: ``STUDY-NAME.parquet``, one row per measurement, and
    ``STUDY-NAME-PLOT.svg``. For all of them together: ``STUDY.json`` and ``STUDY.html``.

    Args:
        folder: for the files.
        study: whose sections these are.
        sections: what was measured.
        settings: of these sections: seed, quick, made (when), versions, command, cells.
        failures: sections that failed, by name, and why; what an earlier run measured of them stays.

    Raises:
        ValueError: as ``stored_sections``.
        OSError: where something can't be written.
    """
    stored = stored_sections(folder, study.name)
    for name, section in sections.items():
        for plot in stored.get(name, {}).get("plots", ()):
            (folder / plot["file"]).unlink(missing_ok=True)
        stored[name] = _write_section(folder, f"{study.name}-{name}", section, settings)
    for name, reason in (failures or {}).items():
        failure = {"reason": reason, "made": settings.get("made", "")}
        stored[name] = {"title": name, **stored.get(name, {}), "failure": failure}
    order = [*(name for name in study.sections if name in stored), *(n for n in stored if n not in study.sections)]
    stored = {name: stored[name] for name in order}
    about = {"name": study.name, "title": study.title, "paper": study.paper, "lead": study.lead}
    put(folder / f"{study.name}.json", json.dumps({"study": about, "sections": stored}, indent=1, allow_nan=False))
    shown = [_shown(*entry) for entry in stored.items()]
    page = folder / f"{study.name}.html"
    missing = [name for name in study.sections if name not in stored]
    put(page, PAGES.get_template("study.html").render(study=study, sections=shown, missing=missing, **_counted(shown)))
    return page


def put(file: Path, text: str) -> None:
    """Replace a text file at once: whoever interrupts keeps the earlier one, whole."""
    part = file.with_name(f".{file.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)


def _in_columns(data: pd.DataFrame) -> pd.DataFrame:
    """Values that no column of Parquet holds together, as an attack's options of several kinds, become JSON."""
    made = data.copy()
    for name in data.columns:
        try:
            pa.array(data[name], from_pandas=True)
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            made[name] = [None if one is None else json.dumps(one) for one in data[name]]
    return made


def _write_section(folder: Path, stem: str, section: Section, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write a section's measurements and drawings; returns all else that its part of the page is made of."""
    _in_columns(section.data).to_parquet(folder / f"{stem}.parquet", index=False)
    plots = []
    for plot in section.plots:
        file = f"{stem}-{plot.name.removeprefix(section.name + '-')}.svg"
        (folder / file).write_text(document(plot), encoding="utf-8")
        plots.append(
            {"file": file, "caption": plot.caption, "panels": stored_panels(plot.panels), "columns": plot.columns}
        )
    return {
        "title": section.title,
        "settings": dict(settings),
        "data": f"{stem}.parquet",
        "rows": len(section.data),
        "summary": json.loads(section.summary.to_json(orient="records", double_precision=15)),
        "table": _stored_table(frame_table(section.summary, f"{section.title}: what was measured, summarised.")),
        "advice": None if section.advice is None else _stored_table(section.advice),
        "maps": [asdict(one) for one in section.maps],
        "plots": plots,
        "notes": list(section.notes),
        "statements": [asdict(one) for one in section.statements],
    }


def _stored_table(table: PageTable) -> dict[str, Any]:
    return {**asdict(table), "right": sorted(table.right)}


# --- what is shown ------------------------------------------------------------------------------------------------


def _shown(name: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """What the page shows of a stored section."""
    if "table" not in stored:
        return {**stored, "name": name, "statements": []}
    count = sum(len(row) > 1 for row in stored["table"]["rows"])
    return {
        **stored,
        "name": name,
        "statements": [
            {**one, "light": LIGHTS.get(one["verdict"], "grey"), "anchor": f"{name}-{number}"}
            for number, one in enumerate(stored["statements"], start=1)
        ],
        "plots": [{**plot, **shown_panels(restored_panels(plot["panels"]))} for plot in stored["plots"]],
        "look": "wide" if len(stored["table"]["headings"]) > WIDE else "",
        "count": count,
        "open": count <= _OPEN_ROWS,
    }


def _counted(shown: list[dict[str, Any]]) -> dict[str, Any]:
    """Statements by verdict, those with one first; how many cells there were, and whether some run was quick."""
    statements = [one for section in shown for one in section["statements"]]
    verdicts = [
        {"words": verdict, "light": light, "statements": [one for one in statements if one["verdict"] == verdict]}
        for verdict, light in LIGHTS.items()
    ]
    measured = [section["settings"] for section in shown if "settings" in section]
    cells = [one["cells"] for one in measured if "cells" in one]
    return {
        "verdicts": verdicts if statements else [],
        "cells": {kind: sum(one[kind] for one in cells) for kind in ("measured", "known")} if cells else None,
        "quick": [section["name"] for section in shown if section.get("settings", {}).get("quick")],
    }
