"""What is kept of whole studies: pages come from it, and quick runs don't get in."""

import json
from pathlib import Path

import pytest

from studies.figures import kept
from studies.figures.kept import PAGES, RESULTS, keep, page_of

KEPT = sorted(RESULTS.glob("*.json"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_page_is_made_from_what_is_kept_of_whole_runs(file: Path) -> None:
    stored = json.loads(file.read_text())
    page = (PAGES / f"{file.stem}.md").read_text()
    assert page == page_of(stored), "stale: run `python -m studies.figures.kept`"
    for section in stored["sections"].values():
        assert not section["settings"]["quick"]
        assert section["settings"]["commit"]
        assert section["settings"]["machine"]
        assert all((PAGES / plot["file"]).exists() for plot in section["plots"])


def section(*, quick: bool) -> dict[str, object]:
    settings = {"quick": quick, "seed": 0, "made": "today", "machine": "a machine", "commit": "abc"}
    statement = {
        "source": "Figure 1",
        "subject": "bank",
        "paper": "It leaks.",
        "verdict": "differs",
        "measured": "It doesn't.",
        "reason": "",
    }
    plot = {"file": "made-up-first-one.svg", "caption": "One", "panels": [{}], "columns": 1}
    return {
        "title": "The first",
        "settings": settings,
        "data": "made-up-first.parquet",
        "rows": 1,
        "table": {},
        "advice": {
            "caption": "What to use.",
            "headings": ["against", "use"],
            "rows": [["a|b", "none holds"]],
            "right": [],
        },
        "maps": [
            {"caption": "Left", "note": "Of all.", "headings": ["d", "x"], "rows": [["none", "1"]], "shares": [[1]]}
        ],
        "plots": [plot],
        "notes": [],
        "statements": [statement],
    }


def folder_of(folder: Path, *, quick: bool) -> Path:
    folder.mkdir()
    about = {"name": "made-up", "title": "Made up", "paper": "Nobody: Nothing", "lead": "Not much."}
    (folder / "made-up.json").write_text(json.dumps({"study": about, "sections": {"first": section(quick=quick)}}))
    (folder / "made-up-first-one.svg").write_text("<svg/>")
    return folder


def test_a_whole_run_is_kept_with_its_drawings_and_a_quick_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "RESULTS", tmp_path)
    monkeypatch.setattr(kept, "PAGES", tmp_path)
    keep(folder_of(tmp_path / "whole", quick=False))
    page = page_of(json.loads((tmp_path / "made-up.json").read_text()))
    assert "Of 1 statements: 1 differs.\n" in page
    assert "## The first (first)\n\n1 differs. Made today, commit abc, seed 0, on a machine.\n" in page
    assert "- **Differs** (Figure 1, bank). *The paper:* It leaks. *Here:* It doesn't." in page
    assert "What to use.\n\n| against | use |\n| --- | --- |\n| a\\|b | none holds |\n" in page
    assert "### Left\n\n| d | x |\n| --- | --- |\n| none | 1 |\n\nOf all.\n" in page
    assert (tmp_path / "made-up-first-one.svg").exists()
    with pytest.raises(ValueError, match="was run quickly, or failed"):
        keep(folder_of(tmp_path / "quick", quick=True))
    with pytest.raises(ValueError, match="has no study: run"):
        keep(tmp_path / "nowhere")


def test_a_quick_section_beside_a_whole_one_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "RESULTS", tmp_path)
    monkeypatch.setattr(kept, "PAGES", tmp_path)
    folder = folder_of(tmp_path / "run", quick=False)
    stored = json.loads((folder / "made-up.json").read_text())
    stored["sections"]["second"] = section(quick=True)
    (folder / "made-up.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"second of .* was run quickly, or failed"):
        keep(folder)
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_sections_stand_in_the_studys_order_whenever_each_was_kept() -> None:
    about = {"name": "varasteh", "title": "Made up", "paper": "Nobody: Nothing", "lead": "Not much."}
    later, earlier = section(quick=False) | {"title": "Later"}, section(quick=False) | {"title": "Earlier"}
    page = page_of({"study": about, "sections": {"secrets": later, "moments": earlier}})
    assert page.index("## Earlier (moments)") < page.index("## Later (secrets)")
