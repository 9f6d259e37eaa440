"""Networks in real processes: each rung trains what one place trains, and answers the same after all were killed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.federation import Federation
from services.common.errors import InvalidMessage
from services.common.run_folder import RunFolder
from tests.harness.processes import QUICK, local_processes, registered_problem
from tests.integration.test_restarts import answered, assert_goes_on, restart
from vfl.learning import VerticalData
from vfl.learning.network import Network, train_network

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("parties", "backward", "tolerance"),
    # On shared weights they are served in steps of 2^-16.
    [(3, "paillier", 1e-4), pytest.param(2, "plain", 1e-7, marks=pytest.mark.thorough), (3, "shared", 1e-3)],
    ids=["paillier", "plain", "shared"],
)
def test_a_rung_trains_what_one_place_trains_and_answers_after_a_restart(
    tmp_path: Path, parties: int, backward: str, tolerance: float
) -> None:
    chosen: dict[str, Any] = {"learner": "network", "backward": backward, "epochs": 4, "batch_size": 32}
    chosen |= {"patience": 3, "learner_options": {"hidden": 6, "upper": 4}, "step_timeout": 20}
    chosen |= {name: QUICK[name] for name in ("key_bits", "allow_insecure_keys") if backward != "plain"}
    processes = local_processes(tmp_path, data="wine", parties=parties, **chosen)
    with Federation.start(processes) as federation:
        outcome = federation.train()
        agreement = RunFolder(tmp_path / "parties").record("active").agreement
        assert agreement is not None
        plan, problem = agreement.plan, registered_problem(processes, "wine", agreement.plan)
        assert isinstance(plan.family, Network)
        assert plan.family.backward == backward
        assert (plan.protocol, plan.cipher) == tuple(plan.family.terms().values())
        seeds = [processes.settings[name].private_seed for name in problem.blocks]
        blocks = list(problem.blocks.values())
        expected = train_network(
            plan.family,
            VerticalData(blocks, problem.labels, problem.classes),
            plan.schedule(plan.split(problem.rows).train),
            epochs=outcome.kept_epoch + 1,
            generators=[np.random.default_rng(seed) for seed in seeds],
        )
        with pytest.raises(InvalidMessage, match="Expected hidden to be from 1 to 1024 units, got 10000"):
            federation.train(hidden=10_000)
        scores = federation.predict([f"r{row:06d}" for row in range(178)])
        found = scores[scores["error"] == ""].drop(columns="error").to_numpy(dtype=np.float64)
        assert np.abs(found - expected.scores(blocks)).max() < tolerance
        assert len(np.unique(found.argmax(axis=1))) == 3
        before = answered(processes)
        assert before is not None
        restart(processes, *processes.settings)
        assert_goes_on(processes, before)
