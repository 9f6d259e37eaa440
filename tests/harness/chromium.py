"""One headless Chromium for all workers of a test run, and whoever of them comes first starts it."""

import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.harness.pages import CHROMIUM

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Those of Playwright's that change what a page looks like or keep the browser from work of its own.
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--hide-scrollbars",
    "--mute-audio",
    "--force-color-profile=srgb",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-renderer-backgrounding",
    "--disable-sync",
    "--remote-debugging-port=0",
)
_SAYS_WHERE = "DevTools listening on "


@contextmanager
def chromium_of(folder: Path) -> Iterator["Browser"]:
    """Reach the browser of the run to which this folder belongs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        yield driver.chromium.connect_over_cdp(_address(folder))


def _address(folder: Path) -> str:
    known = folder / "chromium.address"
    with (folder / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            known.write_text(_start(folder))
    return known.read_text()


def _start(folder: Path) -> str:
    """Start a browser that outlives this worker; returns the address at which it is driven."""
    assert CHROMIUM is not None
    with (folder / "chromium.log").open("w") as log:
        process = subprocess.Popen(
            [CHROMIUM, *_OPTIONS, f"--user-data-dir={folder / 'chromium'}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        (folder / "chromium.pid").write_text(str(process.pid))
        assert process.stderr is not None
        with process.stderr:  # what it says afterwards is lost
            for line in process.stderr:
                log.write(line)
                if line.startswith(_SAYS_WHERE):
                    return line.removeprefix(_SAYS_WHERE).strip()
    raise AssertionError(f"Chromium ended with {process.wait()}:\n{(folder / 'chromium.log').read_text()}")


def end_chromium(folder: Path) -> None:
    """End the browser of a run that is over, where it had any."""
    with suppress(FileNotFoundError, ProcessLookupError):
        os.killpg(int((folder / "chromium.pid").read_text()), signal.SIGKILL)
