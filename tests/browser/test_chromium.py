"""The browser that tests share ends with their run, however that ends."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.pages import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: install the package chromium"),
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each file of tests has its own"),
]


def test_the_browser_ends_when_the_run_is_killed(tmp_path: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    command = [sys.executable, "-m", "tests.harness.chromium", str(run.pid), str(tmp_path)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True) as browser:
        assert browser.stderr is not None
        assert any("DevTools listening on ws://127.0.0.1:" in line for line in browser.stderr)
        run.kill()
        run.communicate()
        browser.stderr.read()  # to its end: no process of the browser is left to write any more
        assert browser.wait(60) == 0
