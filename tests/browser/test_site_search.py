"""The site's search from disk: what stands in for a worker is spoken to as one, and asks nothing of a network."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness.pages import LOOKS, visited

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SITE = Path(__file__).parents[2] / "docs" / "site"
# As the theme does: it speaks to the worker before that can have been loaded.
PAGE = """<!doctype html><title>search</title><script src="iframe-worker.js"></script><body><script>
const worker = new Worker("worker.js");
window.answers = new Promise((resolve) => worker.addEventListener("message", (event) => resolve(event.data)));
worker.postMessage({ type: 2, data: "paillier" });
</script>"""
WORKER = "addEventListener('message', (event) => postMessage({ found: event.data.data.toUpperCase() }));"


def test_a_page_from_disk_is_answered_by_what_stands_in_for_a_worker(browser: "Browser", tmp_path: Path) -> None:
    (tmp_path / "iframe-worker.js").write_text((SITE / "iframe-worker.js").read_text())
    (tmp_path / "worker.js").write_text(WORKER)
    (tmp_path / "search.html").write_text(PAGE)
    with visited(browser, tmp_path / "search.html", LOOKS[0]) as visit:
        assert visit.page.evaluate("window.answers") == {"found": "PAILLIER"}
        assert [one for one in visit.asked if not one.startswith("file:")] == []
