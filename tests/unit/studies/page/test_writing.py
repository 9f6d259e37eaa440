"""The page of any study, and the files beside it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from studies.claims.statement import Statement
from studies.page.elements import HeatMap, PageTable
from studies.page.panel_charts import document, stored_panels
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.page.writing import stored_sections, write_study
from studies.study import Study

STUDY = Study("made_up", "A <study>", "Nobody & co., 2026", {"first": "a:b", "second": "a:c"}, "It measures.")

SETTINGS = {"seed": 3, "quick": False, "versions": {"numpy": "2"}}


def fake_section(name: str, rows: int = 4) -> Section:
    data = pd.DataFrame(
        {
            "defence": ["one", "one", "two", "two"][:rows],
            "case": ["a", "b", "b", "b"][:rows],
            "kl": [0.012345, np.inf, np.nan, 2e-30][:rows],
            "records": [1000, 2, 3, 4][:rows],
        }
    )
    panel = Panel(f"Panel of {name}", "d", "MSE", (Curve("ls", (1.0, 2.0), (0.1, 0.2)),))
    heat = HeatMap(
        f"Map of {name}", "Read it <so>.", ("defence", "one"), (("<none>", "0.52"), ("all", "–")), ((0.52,), (None,))
    )
    return Section(
        name,
        f"Title of {name}",
        data,
        data,
        (Plot(f"{name}-one", (panel,), "A <caption>."),),
        ("A note & more.",),
        maps=(heat,),
    )


# --- page and files -----------------------------------------------------------------------------------------------


def test_files_hold_what_the_sections_have_and_are_the_same_every_time(tmp_path: Path) -> None:
    sections = {"first": fake_section("first"), "second": fake_section("second", 2)}
    written = []
    for number in range(2):
        page = write_study(tmp_path / str(number), STUDY, sections, SETTINGS)
        written.append({path.name: path.read_bytes() for path in page.parent.iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {
        "made_up.html",
        "made_up.json",
        *(f"made_up-{name}{end}" for name in sections for end in (".parquet", "-one.svg")),
    }
    for name, section in sections.items():
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "0" / f"made_up-{name}.parquet"), section.data)
        assert written[0][f"made_up-{name}-one.svg"].decode() == document(section.plots[0])
    first = json.loads(written[0]["made_up.json"])["sections"]["first"]
    assert first["settings"] == SETTINGS
    assert first["notes"] == ["A note & more."]
    assert [row["kl"] for row in first["summary"]] == [0.012345, None, None, 2e-30]
    panels = stored_panels(sections["first"].plots[0].panels)
    stored = {"file": "made_up-first-one.svg", "caption": "A <caption>.", "panels": panels, "columns": 2}
    assert first["plots"] == [stored]


def test_options_of_several_kinds_have_a_column(tmp_path: Path) -> None:
    data = pd.DataFrame({"options": [(("init", "half"), ("steps", 20)), (), None], "mse": [0.1, 0.2, 0.3]})
    made = replace(fake_section("first"), data=data)
    write_study(tmp_path, STUDY, {"first": made}, SETTINGS)
    read = pd.read_parquet(tmp_path / "made_up-first.parquet")["options"]
    assert read[:2].tolist() == ['[["init", "half"], ["steps", 20]]', "[]"]
    assert read.isna().tolist() == [False, False, True]


def test_the_page_is_self_contained_and_shows_every_part(tmp_path: Path) -> None:
    html = write_study(tmp_path, STUDY, {"first": fake_section("first")}, SETTINGS).read_text()
    for words in (
        "Title of first",
        "A note &amp; more.",
        "A &lt;caption&gt;.",
        "Panel of first",
        "0.0123",
        "Seed 3",
    ):
        assert words in html
    for words in (
        "Map of first",
        "Read it &lt;so&gt;.",
        '<th scope="row">&lt;none&gt;</th><td class="heat5">0.52</td>',
    ):
        assert words in html
    assert '<td class="none">–</td>' in html
    for outside in (" src=", "<link", "<?xml", "<metadata", str(tmp_path)):
        assert outside not in html
    assert "default-src 'none'" in html
    assert "quick run" not in html
    quick = write_study(tmp_path, STUDY, {"first": fake_section("first")}, {**SETTINGS, "quick": True}).read_text()
    assert "a quick run" in quick


def test_what_another_run_measured_stays_on_the_page_as_it_was(tmp_path: Path) -> None:
    # Once: the second run left nothing but its own section.
    first = replace(fake_section("first"), advice=PageTable("Held.", ("against", "use"), [("label_recovery", "more")]))
    write_study(tmp_path, STUDY, {"first": first}, {**SETTINGS, "made": "2026-01-02 03:04"})
    before = json.loads((tmp_path / "made_up.json").read_text())["sections"]["first"]
    other = fake_section("second")
    write_study(tmp_path, STUDY, {"second": other}, {**SETTINGS, "quick": True, "made": "2026-05-06 07:08"})
    stored = json.loads((tmp_path / "made_up.json").read_text())["sections"]
    assert list(stored) == ["first", "second"]
    assert stored["first"] == before
    html = (tmp_path / "made_up.html").read_text()
    # Infinity isn't lost on the way.
    assert html.count("∞") == 2
    parts = html[: html.index('id="first"')], html[html.index('id="first"') : html.index('id="second"')]
    assert "What to use against what" in parts[0]
    assert "label_recovery" in parts[0]
    assert "a full run, made 2026-01-02 03:04" in parts[1]
    assert "quick" not in parts[1]
    assert "a quick run" in html[html.index('id="second"') :]
    # The same section again replaces itself, drawings included.
    again = replace(other, plots=(replace(other.plots[0], name="second-two"),), title="Another title")
    write_study(tmp_path, STUDY, {"second": again}, SETTINGS)
    html = (tmp_path / "made_up.html").read_text()
    assert "Title of first" in html
    assert "Another title" in html
    assert "Title of second" not in html
    assert {path.name for path in tmp_path.glob("*.svg")} == {"made_up-first-one.svg", "made_up-second-two.svg"}


# --- what can't be kept -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", ['{"sections": {"matrix": {"title": "old"}}}', "{}", "[", '{"sections": [1]}'])
def test_a_page_of_another_version_is_refused(tmp_path: Path, stored: str) -> None:
    (tmp_path / "made_up.json").write_text(stored)
    with pytest.raises(ValueError, match="choose another folder with --out"):
        stored_sections(tmp_path, "made_up")
    assert (tmp_path / "made_up.json").read_text() == stored


def test_a_page_whose_drawings_are_gone_is_refused(tmp_path: Path) -> None:
    write_study(tmp_path, STUDY, {"first": fake_section("first")}, SETTINGS)
    (tmp_path / "made_up-first-one.svg").unlink()
    with pytest.raises(ValueError, match=r"its drawings are gone.* choose another folder with --out"):
        stored_sections(tmp_path, "made_up")


@pytest.mark.parametrize("plot", [{"panels": []}, {"pictures": [1]}])
def test_drawings_that_an_earlier_version_described_otherwise_are_refused(tmp_path: Path, plot: dict[str, Any]) -> None:
    write_study(tmp_path, STUDY, {"first": fake_section("first")}, SETTINGS)
    file = tmp_path / "made_up.json"
    written = json.loads(file.read_text())
    written["sections"]["first"]["plots"] = [{"file": "made_up-first-one.svg", "caption": "", "columns": 2, **plot}]
    file.write_text(json.dumps(written))
    with pytest.raises(ValueError, match="not of this version"):
        stored_sections(tmp_path, "made_up")


# --- verdicts and failures ----------------------------------------------------------------------------------------


def stating(name: str, *verdicts: str) -> Section:
    statements = tuple(
        Statement(f"Figure {n}", "satellite", "It <falls>.", verdict, "0.5 (0.4 to 0.6)", "Noise & more.")  # type: ignore[arg-type]
        for n, verdict in enumerate(verdicts)
    )
    return replace(fake_section(name), statements=statements)


def test_verdicts_are_counted_and_each_leads_to_its_statement(tmp_path: Path) -> None:
    sections = {"first": stating("first", "reproduced", "differs"), "second": stating("second", "reproduced")}
    html = write_study(tmp_path, STUDY, sections, SETTINGS).read_text()
    top = html[: html.index('id="contents"')]
    for words in ("reproduced 2", "in part 0", "differs 1", "not measured 0"):
        assert words in top
    for anchor in ("first-1", "first-2", "second-1"):
        assert f'href="#{anchor}"' in top
        assert f'id="{anchor}"' in html
    assert "It &lt;falls&gt;." in html
    assert "Noise &amp; more." in html
    stored = json.loads((tmp_path / "made_up.json").read_text())
    assert [one["verdict"] for one in stored["sections"]["first"]["statements"]] == ["reproduced", "differs"]


def test_sections_stand_in_the_order_of_the_study_whichever_ran_first(tmp_path: Path) -> None:
    for name in ("second", "first"):
        page = write_study(tmp_path, STUDY, {name: fake_section(name)}, SETTINGS)
    html = page.read_text()
    assert html.index('<h2 id="first">') < html.index('<h2 id="second">')
    assert "Not run yet" not in html


def test_a_failure_is_said_and_what_was_measured_before_stays(tmp_path: Path) -> None:
    page = write_study(tmp_path, STUDY, {}, SETTINGS, {"first": "The disk is <full>."})
    html = page.read_text()
    assert "This section failed: The disk is &lt;full&gt;." in html
    assert "of an earlier run" not in html
    assert "Not run yet: second." in html
    write_study(tmp_path, STUDY, {"first": fake_section("first")}, SETTINGS)
    assert "failed" not in page.read_text()
    write_study(tmp_path, STUDY, {}, SETTINGS, {"first": "Again."})
    html = page.read_text()
    assert "This section failed: Again. What stands below is of an earlier run." in html
    assert "Title of first" in html


def test_cells_that_failed_or_cannot_apply_are_named_on_the_page(tmp_path: Path) -> None:
    cells = {"measured": 1200, "known": 34, "failed": ["gia on bank: <boom>"], "not_applicable": ["cls on grid: k = 2"]}
    html = write_study(tmp_path, STUDY, {"first": fake_section("first")}, {**SETTINGS, "cells": cells}).read_text()
    for words in ("1,200 of them made anew", "Failed: gia on bank: &lt;boom&gt;", "Not applicable: cls on grid"):
        assert words in html


def test_a_study_of_forty_panels_is_under_three_megabytes(tmp_path: Path) -> None:
    heights = np.random.default_rng(0).random((12, 35))
    at = tuple(range(35))
    curves = tuple(Curve(f"attack {n}", at, tuple(y), tuple(0.9 * y), tuple(1.1 * y)) for n, y in enumerate(heights))
    panels = [Panel(f"satellite, split {n}", "d", "MSE per feature", curves) for n in range(40)]
    section = replace(fake_section("first"), plots=(Plot("all", panels, "All of them."),))
    page = write_study(tmp_path, STUDY, {"first": section}, SETTINGS)
    assert page.read_text().count("<svg class=") == 40
    assert page.stat().st_size < 3_000_000
