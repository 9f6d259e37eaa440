"""One headless Chromium for all workers of a test run: whoever comes first starts it, and it ends with the run.

python -m tests.harness.chromium PID FOLDER    runs it until the process PID is no more
"""

import fcntl
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
        if hasattr(os, "pidfd_open"):
            # Without a limit of its own: on a busy machine a browser takes as long as it takes, and pytest has a limit.
            yield driver.chromium.connect_over_cdp(_address(folder), timeout=0)
        else:
            # Nobody could tell it of the run's end.
            with driver.chromium.launch(executable_path=CHROMIUM, timeout=0) as own:
                yield own


def _address(folder: Path) -> str:
    known = folder / "chromium.address"
    with (folder / "chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not known.exists():
            known.write_text(_start(folder))
    return known.read_text()


def _start(folder: Path) -> str:
    """Start a browser that outlives this worker; returns the address at which it is driven."""
    run = os.getppid() if os.environ.get("PYTEST_XDIST_WORKER") else os.getpid()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.harness.chromium", str(run), str(folder)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert process.stderr is not None
    said = list[str]()
    with process.stderr:  # what it says afterwards is lost
        for line in process.stderr:
            if line.startswith(_SAYS_WHERE):
                return line.removeprefix(_SAYS_WHERE).strip()
            said.append(line)
    raise AssertionError(f"Chromium ended with {process.wait()}:\n{''.join(said)}")


def _run_until(run: int, folder: str) -> None:
    assert CHROMIUM is not None
    with subprocess.Popen([CHROMIUM, *_OPTIONS, f"--user-data-dir={folder}/chromium"]) as browser:
        ends = [os.pidfd_open(run), os.pidfd_open(browser.pid)]
        select.select(ends, [], [])
        browser.kill()


if __name__ == "__main__":
    _run_until(int(sys.argv[1]), sys.argv[2])
