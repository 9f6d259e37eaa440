"""serving=shared between processes: the opened model's scores, which go on after a kill of whoever keeps its state."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from plumbline.federation import Federation
from tests.integration.test_restarts import answered, assert_goes_on, eventually, kill, operator, quick, restart

# Weights of two trainings differ in the last opened bit, at both holders; 14 features up to 1, and three classes.
ROUNDED = 14 * 2 * 2.0**-16


@pytest.mark.parametrize("parties", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_scores_are_the_opened_models_and_go_on_after_a_kill(tmp_path: Path, parties: int) -> None:
    processes = quick(tmp_path, data="wine", parties=parties, protocol="shared", opening="always")
    with Federation.start(processes) as federation:
        federation.train()
        opened = answered(processes)
        federation.train(serving="shared")
        found = answered(processes)
        assert opened is not None
        assert found is not None
        assert np.isfinite(found).any()
        assert 0 < np.nanmax(np.abs(found - opened)) <= ROUNDED
        if parties == 3:
            return
        restart(processes, *processes.settings)
        assert_goes_on(processes, found)
        # The serving key is nowhere else.
        kill(processes, "passive")
        shutil.rmtree(processes.state("passive"))
        processes.start_party("passive")
        with operator(processes) as after:
            eventually(lambda: "or train again" in after.status().obstacle, "it says what to do")
