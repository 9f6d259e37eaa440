"""The page of a federation at work, in a browser, from the server that shows it under compose."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plumbline.audit.watching.observer import RunEntry, WatchPages
from plumbline.federation_status import JobStatus
from tests.harness.pages import LOOKS, Look, problems_of
from tests.harness.served import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

LINES = ["training: step 120 of 400, epoch 3 of 10, about 27 seconds left", "passive answers and brings 15 features."]
JOB, LOSSES = JobStatus(120, 400, 2, 10, 0.52), {1: 0.61, 2: 0.52}
TROUBLE = ["INSECURE: <script>document.title = 'no'</script> 512-bit keys."]


@pytest.fixture
def pages(tmp_path: Path) -> WatchPages:
    return WatchPages(tmp_path)


@pytest.fixture
def page(browser: "Browser", tmp_path: Path) -> Iterator["Page"]:
    """An open page of a browser that may reach the server, which runs."""
    with served(tmp_path) as port:
        context = browser.new_context(base_url=f"http://127.0.0.1:{port}")
        yield context.new_page()
        context.close()


def test_what_changes_is_shown_and_a_new_report_appears(page: "Page", pages: WatchPages, tmp_path: Path) -> None:
    said: list[str] = []
    page.on("console", lambda one: said.append(one.text))
    pages.show(LINES)
    page.goto("/")
    assert page.locator("progress").count() == page.locator("svg.chart").count() == 0
    assert page.locator("#lines li").all_inner_texts()[0] == LINES[0]
    assert page.locator("#trouble").is_hidden()
    pages.show(["testing"], TROUBLE)
    page.get_by_text("testing").wait_for()
    page.get_by_text("512-bit keys").wait_for()
    pages.show(LINES, TROUBLE, job=JOB, losses=LOSSES)
    page.locator("svg.chart").wait_for()
    assert page.locator("progress").get_attribute("value") == "120"
    assert page.title() == "Plumbline: a federation at work"
    pages.report_of("0123456789").write_text("<!doctype html><title>The report</title><p>Read me.</p>")
    pages.add("0123456789", RunEntry("01234567", "2026-01-01T10:00:00+00:00", "Nothing leaked.", "green", 0.93))
    pages.show(["serving"], is_over=True)
    page.get_by_role("link", name="01234567").click()
    page.get_by_text("Read me.").wait_for()
    assert json.loads((tmp_path / "status.json").read_text())["is_over"]
    assert not [text for text in said if "favicon" not in text and "404" not in text]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_the_page_is_read_at_every_size(browser: "Browser", pages: WatchPages, tmp_path: Path, look: Look) -> None:
    # Over, so that the file asks nobody.
    pages.add("0123456789", RunEntry("01234567", "2026-01-01T10:00:00+00:00", "One column leaks. " * 9, "red", 0.93))
    pages.show(LINES, TROUBLE, is_over=True, job=JOB, losses=LOSSES)
    assert problems_of(browser, tmp_path / "index.html", look) == []
