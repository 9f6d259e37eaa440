"""The evaluation of the defences: page and files, and the command that writes them."""

import inspect
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.figures.defences import study as evaluation
from plumbline.figures.defences.page import frame_table, write_defences
from plumbline.figures.defences.study import SECTIONS, run_defences
from plumbline.figures.page.elements import HeatMap, PageTable
from plumbline.figures.page.section import Plot, Section

pytest.importorskip("torch")


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
    svg = f'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><text>{name}</text></svg>'
    heat = HeatMap(
        f"Map of {name}", "Read it <so>.", ("defence", "one"), (("<none>", "0.52"), ("all", "–")), ((0.52,), (None,))
    )
    return Section(
        name,
        f"Title of {name}",
        data,
        data,
        (Plot(f"{name}-one", svg, "A <caption>."),),
        ("A note & more.",),
        maps=(heat,),
    )


# --- page and files -----------------------------------------------------------------------------------------------


def test_files_hold_what_the_sections_have_and_are_the_same_every_time(tmp_path: Path) -> None:
    sections = {"first": fake_section("first"), "second": fake_section("second", 2)}
    written = []
    for number in range(2):
        page = write_defences(tmp_path / str(number), sections, SETTINGS)
        written.append({path.name: path.read_bytes() for path in page.parent.iterdir()})
    assert written[0] == written[1]
    assert set(written[0]) == {
        "defences.html",
        "defences.json",
        *(f"defences-{name}{end}" for name in sections for end in (".parquet", "-one.svg")),
    }
    for name, section in sections.items():
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "0" / f"defences-{name}.parquet"), section.data)
        assert written[0][f"defences-{name}-one.svg"].decode() == section.plots[0].svg
    first = json.loads(written[0]["defences.json"])["sections"]["first"]
    assert first["settings"] == SETTINGS
    assert first["notes"] == ["A note & more."]
    assert [row["kl"] for row in first["summary"]] == [0.012345, None, None, 2e-30]
    assert first["plots"] == [{"file": "defences-first-one.svg", "caption": "A <caption>."}]


def test_the_page_is_self_contained_and_shows_every_part(tmp_path: Path) -> None:
    html = write_defences(tmp_path, {"first": fake_section("first")}, SETTINGS).read_text()
    for words in (
        "Title of first",
        "A note &amp; more.",
        "A &lt;caption&gt;.",
        "<text>first</text>",
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
    quick = write_defences(tmp_path, {"first": fake_section("first")}, {**SETTINGS, "quick": True}).read_text()
    assert "a quick run" in quick


def test_what_another_run_measured_stays_on_the_page_as_it_was(tmp_path: Path) -> None:
    # Once: the second run left nothing but its own section.
    first = replace(fake_section("first"), advice=PageTable("Held.", ("against", "use"), [("label_recovery", "more")]))
    write_defences(tmp_path, {"first": first}, {**SETTINGS, "made": "2026-01-02 03:04"})
    before = json.loads((tmp_path / "defences.json").read_text())["sections"]["first"]
    other = fake_section("second")
    write_defences(tmp_path, {"second": other}, {**SETTINGS, "quick": True, "made": "2026-05-06 07:08"})
    stored = json.loads((tmp_path / "defences.json").read_text())["sections"]
    assert list(stored) == ["first", "second"]
    assert stored["first"] == before
    html = (tmp_path / "defences.html").read_text()
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
    write_defences(tmp_path, {"second": again}, SETTINGS)
    html = (tmp_path / "defences.html").read_text()
    assert "Title of first" in html
    assert "Another title" in html
    assert "Title of second" not in html
    assert {path.name for path in tmp_path.glob("*.svg")} == {"defences-first-one.svg", "defences-second-two.svg"}


@pytest.mark.parametrize("stored", ['{"sections": {"matrix": {"title": "old"}}}', "{}", "[", '{"sections": [1]}'])
def test_a_page_of_another_version_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    monkeypatch.setattr(evaluation, "_function", lambda name: pytest.fail("something ran"))
    (tmp_path / "defences.json").write_text(stored)
    with pytest.raises(ValueError, match="choose another folder with --out"):
        run_defences(tmp_path, None, sections=["cost"], console=Console(file=io.StringIO()))
    assert (tmp_path / "defences.json").read_text() == stored


def test_a_page_whose_drawings_are_gone_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_function", lambda name: pytest.fail("something ran"))
    write_defences(tmp_path, {"first": fake_section("first")}, SETTINGS)
    (tmp_path / "defences-first-one.svg").unlink()
    with pytest.raises(ValueError, match=r"its drawings are gone.* choose another folder with --out"):
        run_defences(tmp_path, None, sections=["cost"], console=Console(file=io.StringIO()))


@pytest.mark.parametrize("place", ["a file", "/proc/nowhere", "/proc"])
def test_a_place_that_cannot_be_written_to_is_refused_in_a_sentence_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(evaluation, "_function", lambda name: pytest.fail("something ran"))
    out = tmp_path / place
    if place == "a file":
        out.write_text("")
    refused = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["figures", "defences", "--out", str(out)])
    assert refused.exit_code == 2
    assert f"Cannot use {out} (" in refused.output
    assert "Errno" not in refused.output
    assert "choose a place that you can write to" in refused.output


def test_a_wide_table_has_its_first_columns_between_the_rows() -> None:
    frame = pd.DataFrame({"set": ["s"] * 3, "way": ["v", "v", "w"], "start": list("aab"), "x": list("cdd")})
    table = frame_table(frame.assign(**{f"number {number}": 1.5 for number in range(9)}))
    assert table.headings[:3] == ("start", "x", "number 0")
    assert table.right == set(range(2, 11))
    numbers = ("1.500",) * 9
    assert table.rows == [("s, v",), ("a", "c", *numbers), ("", "d", *numbers), ("s, w",), ("b", "d", *numbers)]


def test_tables_show_a_group_once_and_numbers_short() -> None:
    table = frame_table(fake_section("x").data)
    assert table.rows == [
        ("one", "a", "0.0123", "1,000"),
        ("", "b", "∞", "2"),
        ("two", "b", "", "3"),
        ("", "", "0", "4"),
    ]
    assert table.right == {2, 3}
    frame = pd.DataFrame({"x": [0.5, 12.345, 1234.5, 2e-5, -0.25, 3.0e7], "ok": [True, False] * 3})
    assert [row[0] for row in frame_table(frame).rows] == [
        "0.5000",
        "12.3",
        "1,234",
        "0.000020",
        "-0.2500",
        "30,000,000",
    ]
    assert frame_table(frame).rows[1][1] == "no"
    ends = pd.DataFrame(
        {"part": [0.5, 1.0], "part_low": [0.25, 1.0], "part_high": [0.75, 1.0], "other_low": [2.5, 3.5]}
    )
    assert frame_table(ends).headings == ("part", "other low")
    assert frame_table(ends).rows == [("0.5000 (0.2500 to 0.7500)", "2.500"), ("1.000", "3.500")]
    errors = pd.DataFrame({"set_name": ["a"], "x_y": [0.5], "x_y_se": [0.01], "b_c, d": [1], "z_se": [0.25]})
    assert frame_table(errors).rows == [("a", "0.5000 ± 0.0100", "1", "0.2500")]
    assert frame_table(errors).headings == ("set name", "x y", "b_c, d", "z se")


def test_chosen_sections_run_in_order_with_the_arguments_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[str, dict[str, Any]]] = []

    def function_of(name: str) -> Any:
        def run(data_dir: Path | None, **arguments: Any) -> Section:
            called.append((name, arguments))
            assert data_dir == tmp_path
            return fake_section(name)

        return run

    monkeypatch.setattr(evaluation, "_function", function_of)
    console = Console(file=io.StringIO(), width=200)
    page = run_defences(
        tmp_path / "out", tmp_path, seed=7, quick=True, sections=["scores", "cost", "scores"], console=console
    )
    assert [name for name, _ in called] == ["scores", "cost"]
    for _, arguments in called:
        assert callable(arguments.pop("done"))
        assert arguments == {"seed": 7, "quick": True}
    content = json.loads((page.parent / "defences.json").read_text())
    assert list(content["sections"]) == ["scores", "cost"]
    assert all(section["settings"]["seed"] == 7 for section in content["sections"].values())
    assert isinstance(console.file, io.StringIO)
    assert f"Report: {page}" in console.file.getvalue()


def test_what_is_done_stays_when_a_later_section_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(data_dir: Path | None, **arguments: Any) -> Section:
        if (tmp_path / "defences.html").exists():
            raise RuntimeError("stopped")
        return fake_section("cost")

    monkeypatch.setattr(evaluation, "_function", lambda name: run)
    with pytest.raises(RuntimeError, match="stopped"):
        run_defences(tmp_path, None, sections=["cost", "scores"], console=Console(file=io.StringIO()))
    assert list(json.loads((tmp_path / "defences.json").read_text())["sections"]) == ["cost"]


@pytest.mark.parametrize(("sections", "message"), [(["matrix", "costs"], "no section 'costs'"), ([], "No section")])
def test_bad_sections_are_refused_before_anything_runs(tmp_path: Path, sections: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        run_defences(tmp_path / "out", None, sections=sections, console=Console(file=io.StringIO()))
    assert all(name in str(refused.value) for name in SECTIONS)
    assert not (tmp_path / "out").exists()


def test_every_section_is_there_and_has_its_share_of_the_bar() -> None:
    for name in SECTIONS:
        assert "done" in inspect.signature(evaluation._function(name)).parameters
    assert set(evaluation._SHARES) == set(SECTIONS)


def test_the_command_has_an_example_and_says_which_sections_there_are(tmp_path: Path) -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    shown = runner.invoke(app, ["figures", "defences", "--help"])
    assert shown.exit_code == 0
    assert "plumbline figures defences --section matrix --section cost" in shown.output
    refused = runner.invoke(app, ["figures", "defences", "--section", "price", "--out", str(tmp_path / "out")])
    assert refused.exit_code == 2
    assert "no section 'price'" in refused.output
    assert "matrix, cost, noise" in refused.output
    assert not (tmp_path / "out").exists()
