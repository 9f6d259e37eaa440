"""Every study as a user runs it, quickly: the command ends well, says what it measured, and its page can be read."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from studies.catalogue import STUDIES, load_study
from studies.claims.statement import Verdict
from tests.harness.pages import CHROMIUM, LOOKS, problems_of

# Read before the tests' own environment is made. Without it, studies skip what they have no data for, and say so.
DATA = os.environ.get("PLUMBLINE_DATA_DIR")
MOST_BYTES = 3_000_000
# One look of each width: the elements have been looked at in all of them.
WIDE, NARROW = (next(look for look in LOOKS if look.width == width) for width in (1400, 400))
VERDICTS = set(get_args(Verdict))

pytestmark = [pytest.mark.studies, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all studies, so that they share their cells."""
    return tmp_path_factory.mktemp("studies")


@pytest.mark.parametrize("name", STUDIES)
def test_a_quick_run_writes_every_section(name: str, folder: Path, request: pytest.FixtureRequest) -> None:
    command = [sys.executable, "-m", "plumbline", "figures", name, "--quick"]
    where = ["--out", str(folder / name), "--store", str(folder / "cells")]
    where += ["--data-dir", DATA] if DATA else []
    ended = subprocess.run([*command, *where], capture_output=True, text=True, timeout=800, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    stored = json.loads((folder / name / f"{name}.json").read_text())["sections"]
    assert list(stored) == list(load_study(name).sections)
    for section in stored.values():
        assert {one["verdict"] for one in section["statements"]} <= VERDICTS
        assert all(one["measured"] for one in section["statements"] if one["verdict"] != "not measured")
    page = folder / name / f"{name}.html"
    if CHROMIUM is not None:
        browser = request.getfixturevalue("browser")
        for look in (WIDE, NARROW):
            assert problems_of(browser, page, look, most_bytes=MOST_BYTES) == []
