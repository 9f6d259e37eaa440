"""Sets that are measured side by side: each once, with the same numbers whoever measures, and what can't be named."""

from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from plumbline.audit.folder import AuditFolder
from plumbline.judge.column_sets import Change
from plumbline.what_if.measured_sets import measured_sets
from plumbline.what_if.simulated_sets import AuditedRun, audited_run
from tests.harness.simulated_run import simulated_run

SETS = [(Change("passive", "debt", "drop"),), (Change("passive", "town", "drop"),), ()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> AuditFolder:
    return simulated_run(tmp_path_factory.mktemp("tables"))


def moved(run: AuditFolder, folder: Path) -> AuditedRun:
    return audited_run(Path(copytree(run.path, folder / run.path.name)))


@pytest.mark.slow("two processes start, and import what a simulation needs")
def test_two_processes_measure_what_one_does_and_nothing_twice(run: AuditFolder, tmp_path: Path) -> None:
    shares: list[float] = []
    audited = moved(run, tmp_path)
    two = measured_sets(audited, SETS, ("half_star",), 20, 2, shares.append)
    assert [round(3 * share) for share in shares] == [1, 2, 3, 3]
    kept = {path: path.stat().st_mtime_ns for path in (audited.folder.path / "whatif-cells").iterdir()}
    assert len(kept) == len(SETS)
    shares.clear()
    assert measured_sets(audited, SETS[::-1], ("half_star",), 20, 1, shares.append) == two[::-1]
    assert shares == [1.0]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    (tmp_path / "other").mkdir()
    assert measured_sets(moved(run, tmp_path / "other"), SETS, ("half_star",), 20, 1, shares.append) == two


def test_what_can_not_be_simulated_is_said(run: AuditFolder) -> None:
    other = replace(audited_run(run.path), digest="of other tables")
    with pytest.raises(ValueError, match=r"can't be simulated: ValueError: The tables of .* have changed"):
        measured_sets(other, [()], ("half_star",), 20, 1, lambda _: None)
