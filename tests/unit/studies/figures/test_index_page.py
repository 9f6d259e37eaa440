"""The index of all studies: what came out in each, or the command that makes it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from studies.catalogue import STUDIES
from studies.figures.index_page import write_index
from studies.figures.running import run_study
from studies.measurements import SweepOptions
from studies.study import StudyRun
from tests.harness.made_up_study import BROKEN, STUDY

FIRST, *OTHERS = STUDIES


def test_studies_that_nobody_ran_show_their_commands(tmp_path: Path) -> None:
    html = write_index(tmp_path / "new").read_text()
    for name in STUDIES:
        assert f"<code>plumbline figures {name}</code>" in html
    assert "Not run yet" in html


def test_a_study_that_ran_is_linked_with_its_verdicts_and_its_date(tmp_path: Path) -> None:
    study = replace(STUDY, name=FIRST)
    run_study(study, tmp_path / FIRST, StudyRun(SweepOptions(workers=1), quick=True), console=Console(quiet=True))
    html = write_index(tmp_path).read_text()
    assert f'href="{FIRST}/{FIRST}.html">{STUDY.title}</a>' in html
    assert f'href="{FIRST}/{FIRST}.html#reproduced"' in html
    assert "reproduced 1" in html
    assert "differs" not in html
    assert re.search(r"2 sections, last made \d{4}-\d\d-\d\d", html)
    assert "nothing to quote" in html
    assert f"<code>plumbline figures {FIRST}</code>" not in html
    assert f"<code>plumbline figures {OTHERS[0]}</code>" in html


def test_a_failed_section_is_named(tmp_path: Path) -> None:
    study = replace(BROKEN, name=FIRST)
    run_study(study, tmp_path / FIRST, StudyRun(SweepOptions(workers=1), quick=True), console=Console(quiet=True))
    assert "Failed: broken." in write_index(tmp_path).read_text()


@pytest.mark.parametrize("stored", ["[", "{}", '{"sections": {}, "study": 1}'])
def test_what_cannot_be_read_is_said(tmp_path: Path, stored: str) -> None:
    (tmp_path / FIRST).mkdir()
    (tmp_path / FIRST / f"{FIRST}.json").write_text(stored)
    (tmp_path / FIRST / f"{FIRST}.html").write_text("")
    html = write_index(tmp_path).read_text()
    assert "another version of Plumbline wrote it" in html
    assert f"<code>plumbline figures {FIRST}</code>" in html
