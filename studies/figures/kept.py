"""Keep what whole studies found, and make the pages of docs/studies from it.

    python -m studies.figures.kept [FOLDER ...]

FOLDER is what `plumbline figures NAME` wrote, without --quick. Without any the pages are made anew from what is kept.
"""

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.catalogue import STUDIES, load_study
from studies.page.writing import LIGHTS, stored_sections

_ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGES = _ROOT / "studies" / "results" / "figures", _ROOT / "docs" / "studies"
# Of a section; what drawings are made of is in the drawings.
_KEPT = ("title", "table", "advice", "maps", "notes", "statements")
_SETTINGS = ("seed", "quick", "options", "brought", "made", "cells", "versions", "machine", "commit")


def main() -> None:
    """Keep the studies in the folders that are named, and write the page of each that is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    for folder in parser.parse_args().folders:
        try:
            keep(folder)
        except ValueError as error:
            parser.error(str(error))
    for kept in sorted(RESULTS.glob("*.json")):
        (PAGES / f"{kept.stem}.md").write_text(page_of(json.loads(kept.read_text())))


def keep(folder: Path) -> None:
    """Add the sections of a study's folder, whole runs only, to what is kept of that study; its drawings to the docs.

    Raises:
        ValueError: as ``stored_sections``, and where the folder has no study, a quick run, or a section that failed.
    """
    file = next(folder.glob("*.json"), None)
    if file is None:
        raise ValueError(f"{folder} has no study: run `plumbline figures NAME` first.")
    about = json.loads(file.read_text())["study"]
    kept_file = RESULTS / file.name
    earlier = json.loads(kept_file.read_text())["sections"] if kept_file.exists() else {}
    sections = stored_sections(folder, file.stem)
    for name, section in sections.items():
        if section.get("failure") or section["settings"]["quick"]:
            raise ValueError(f"{name} of {folder} was run quickly, or failed: only whole sections are kept.")
    for name, section in sections.items():
        plots = [{"file": plot["file"], "caption": plot["caption"]} for plot in section["plots"]]
        settings = {key: section["settings"].get(key) for key in _SETTINGS}
        earlier[name] = {key: section[key] for key in _KEPT} | {"settings": settings, "plots": plots}
        for plot in plots:
            shutil.copy(folder / plot["file"], PAGES / plot["file"])
    kept_file.write_text(json.dumps({"study": about, "sections": earlier}, indent=1, allow_nan=False) + "\n")


def page_of(kept: Mapping[str, Any]) -> str:
    """Make the Markdown page of a study that is kept."""
    return "\n".join(_lines(kept["study"], kept["sections"])) + "\n"


def _lines(study: Mapping[str, str], sections: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "<!-- Made by `python -m studies.figures.kept` from studies/results/figures: don't edit. -->"
    yield f"# {study['title']}\n"
    yield f"{study['paper']}.\n\n{study['lead']}\n"
    statements = [one for section in sections.values() for one in section["statements"]]
    if statements:
        yield f"Of {len(statements)} statements: {_counts(statements)}.\n"
    yield f"Each section is measured again by `plumbline figures {study['name']} --section NAME`, its name in brackets."
    every = list(load_study(study["name"]).sections) if study["name"] in STUDIES else list(sections)
    if missing := [name for name in every if name not in sections]:
        yield f"\nNot run whole so far: {', '.join(missing)}."
    # As the study has them, whenever each was run.
    for name, section in sorted(sections.items(), key=lambda one: every.index(one[0])):
        yield f"\n## {section['title']} ({name})\n"
        counts = f"{_counts(section['statements']).capitalize()}. " if section["statements"] else ""
        yield f"{counts}{_made(section['settings'])}\n"
        if advice := section.get("advice"):
            yield f"{advice['caption']}\n\n{_table(advice)}\n"
        for one in section.get("maps", ()):
            yield f"### {one['caption']}\n\n{_table(one)}\n\n{one['note']}\n"
        yield from (f"![{plot['caption']}]({plot['file']})\n" for plot in section["plots"])
        # Of what no paper states there are notes alone.
        yield from map(_said, section["statements"]) if section["statements"] else map("- {}".format, section["notes"])


def _table(table: Mapping[str, Any]) -> str:
    """A table in Markdown; rows may be shorter than the headings."""
    headings = table["headings"]
    rows = (headings, ["---"] * len(headings), *table["rows"])
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows)


def _counts(statements: Sequence[Mapping[str, str]]) -> str:
    counts = Counter(one["verdict"] for one in statements)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in LIGHTS if counts[verdict])


def _made(settings: Mapping[str, Any]) -> str:
    where = f"commit {settings['commit']}, " if settings.get("commit") else ""
    return f"Made {settings['made']}, {where}seed {settings['seed']}, on {settings['machine']}."


def _said(one: Mapping[str, str]) -> str:
    why = f" *Why:* {one['reason']}" if one["reason"] else ""
    verdict = f"**{one['verdict'].capitalize()}** ({one['source']}, {one['subject']})."
    return f"- {verdict} *The paper:* {one['paper']} *Here:* {one['measured']}{why}"


if __name__ == "__main__":
    main()
