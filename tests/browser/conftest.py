"""One headless Chromium per file of tests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.harness.pages import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser


# Not for the session: as long as it runs, tests of this process couldn't start an event loop of their own.
@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: install the package chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright here: install the extra dev")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()
