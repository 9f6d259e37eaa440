"""The index of all studies: what came out in each, or the command that makes it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from studies.catalogue import STUDIES
from studies.page.panel_charts import PAGES
from studies.page.writing import LIGHTS, put


def write_index(folder: Path) -> Path:
    """Write ``index.html`` into the folder that has a folder per study, and return its path.

    Raises:
        OSError: where it can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "index.html"
    studies = [_entry(folder, name) for name in STUDIES]
    put(page, PAGES.get_template("index.html").render(studies=studies, lights=LIGHTS))
    return page


def _entry(folder: Path, name: str) -> dict[str, Any]:
    """What the index says of a study; without ``page`` where no run is to be found."""
    about = {"name": name, "help": STUDIES[name].help, "command": f"plumbline figures {name}"}
    file = folder / name / f"{name}.json"
    if not file.exists() or not file.with_suffix(".html").exists():
        return about
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return about | {"page": f"{name}/{name}.html"} | _facts(stored)
    except (ValueError, KeyError, TypeError, AttributeError):
        return about | {"unread": f"{name}/{file.name} can't be read: another version of Plumbline wrote it."}


def _facts(stored: dict[str, Any]) -> dict[str, Any]:
    sections = list(stored["sections"].values())
    made = [one["settings"]["made"] for one in sections if one.get("settings", {}).get("made")]
    counts = Counter(statement["verdict"] for one in sections for statement in one.get("statements", ()))
    return {
        "title": stored["study"]["title"],
        "paper": stored["study"]["paper"],
        "made": max(made, default=""),
        "quick": any(one.get("settings", {}).get("quick") for one in sections),
        "sections": len(sections),
        "failed": [one["title"] for one in sections if one.get("failure")],
        "verdicts": [(verdict, counts[verdict]) for verdict in LIGHTS if counts[verdict]],
    }
