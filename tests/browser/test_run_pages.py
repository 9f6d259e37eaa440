"""The list of runs in a browser, from its own server: read at every size, filtered, compared; the way to a report."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plumbline.audit.watching.run_pages import Filter, RunPagesHandler, compare_page, list_page, listed_runs
from tests.harness.pages import LOOKS, Look, problems_of
from tests.harness.run_lists import make_run, make_runs
from tests.harness.served import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

MARKUP = "<img src=x onerror=document.title='taken'>\u202e"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    make_runs(folder, 6)
    make_run(folder / f"20260301-120000-{MARKUP}".replace("/", ""), sentence=f"All leaked. {MARKUP}", light="red")
    return folder


@pytest.fixture
def page(browser: "Browser", runs: Path) -> Iterator["Page"]:
    with served(runs, RunPagesHandler) as port:
        context = browser.new_context(base_url=f"http://127.0.0.1:{port}")
        yield context.new_page()
        context.close()


def test_a_reader_filters_compares_and_opens_a_report(page: "Page") -> None:
    said: list[str] = []
    page.on("console", lambda one: said.append(one.text) if one.type in ("error", "warning") else None)
    page.goto("/")
    assert page.title() == "Plumbline: 7 runs"
    assert page.locator("tbody tr").count() == 7
    assert page.locator("img").count() == 0
    page.get_by_label("Find").fill("run-1")
    page.get_by_role("button", name="Filter").click()
    page.get_by_text("1 of 7 shown").wait_for()
    page.get_by_role("link", name="all").click()
    page.get_by_label("Verdict").select_option("green")
    page.get_by_role("button", name="Filter").click()
    page.get_by_text("2 of 7 shown").wait_for()
    page.get_by_role("link", name="all").click()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("alert").get_by_text("Choose 2 to 4 runs to compare: 0 were chosen.").wait_for()
    for number in range(3):
        page.get_by_label(f"run-{number}").check()
    page.get_by_role("button", name="Compare").click()
    page.get_by_role("heading", name="3 runs side by side").wait_for()
    cells = page.get_by_role("row", name="settings.epochs").get_by_role("cell").all_inner_texts()
    assert sorted(cells) == ["1", "2", "3"]
    assert not [text for text in said if "favicon" not in text and "404" not in text and "400" not in text]
    page.get_by_role("link", name="run-1").click()
    page.get_by_text("The report of run-1.").wait_for()


def test_a_report_of_somebody_else_reads_no_other_page(page: "Page", runs: Path) -> None:
    from playwright.sync_api import expect

    script = "fetch('/').then(r => r.text()).then(t => document.title = t, () => document.title = 'kept out')"
    (runs / "20260101-120000-run-0" / "report.html").write_text(f"<!doctype html><p>Mine.<script>{script}</script>")
    page.goto("/20260101-120000-run-0/report.html")
    expect(page).to_have_title("kept out")


def test_an_annex_is_saved(page: "Page", runs: Path) -> None:
    (runs / "20260101-120000-run-0" / "annex.pdf").write_bytes(b"%PDF-1.7")
    page.goto("/")
    with page.expect_download() as saved:
        page.get_by_role("link", name="annex.pdf").click()
    assert saved.value.path().read_bytes() == b"%PDF-1.7"


@pytest.mark.parametrize(
    "look",
    [look if look in LOOKS[::3] else pytest.param(look, marks=pytest.mark.thorough) for look in LOOKS],
    ids=lambda look: look.name,
)
def test_both_pages_are_read_at_every_size(browser: "Browser", runs: Path, tmp_path: Path, look: Look) -> None:
    pages = {
        "list": list_page(runs, listed_runs(runs), Filter(), "Something can't be done."),
        "beside": compare_page(listed_runs(runs)[-4:]),
    }
    for name, html in pages.items():
        file = tmp_path / f"{name}.html"
        file.write_text(html)
        assert problems_of(browser, file, look) == []
