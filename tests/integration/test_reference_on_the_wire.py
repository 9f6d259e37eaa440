"""One party computes with python-paillier, the other with ours: the same parameters, digit by digit, as ours alone."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.federation import Federation
from plumbline.recipe import changed
from tests.harness.exchanges import largest_difference, train_plainly
from tests.harness.processes import QUICK, local_processes, registered_problem, weights_of
from vfl.arrays import FloatArray

pytest.importorskip("phe", reason="needs the extra phe")
PARTIES = ("active", "passive")
DATA = "wine"


def trained(folder: Path, **kernels: str) -> tuple[list[FloatArray], list[FloatArray]]:
    """Each party's weights after training in processes of their own, and those of plain training in one place."""
    folder.mkdir()
    processes = local_processes(folder, data=DATA, **{**QUICK, "packing": False, "step_timeout": 30})
    processes.settings = {
        name: changed(name, one, kernel=kernels.get(name, "portable")) if name in PARTIES else one
        for name, one in processes.settings.items()
    }
    with Federation.start(processes) as federation:
        federation.train()
        for name in PARTIES:
            is_reference = kernels.get(name) == "phe"
            assert ("Arithmetic: python-paillier" in processes.log(name).read_text()) == is_reference
        plan = processes.settings["active"].plan()
        seeds = [processes.settings[name].private_seed or 0 for name in PARTIES]
        problem = registered_problem(processes, DATA, plan)
        return weights_of(folder / "parties", PARTIES), train_plainly(problem, plan, seeds)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[FloatArray]:
    return trained(tmp_path_factory.mktemp("ours") / "run")[0]


@pytest.mark.parametrize("party", PARTIES)
def test_one_party_on_phe_changes_no_digit(tmp_path: Path, party: str, ours: list[FloatArray]) -> None:
    found, plain = trained(tmp_path / "run", **{party: "phe"})
    assert all(np.array_equal(one, other) for one, other in zip(found, ours, strict=True))
    assert largest_difference(found, plain) <= 1e-6
