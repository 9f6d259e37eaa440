"""protocol=shared between processes over mTLS: the weights of float64, and nothing decrypted on the way back."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plumbline.judge.summary import read_summary
from services.common.run_folder import RunFolder
from tests.harness.exchanges import largest_difference, train_plainly
from tests.harness.processes import quick_federation, registered_problem, weights_of

# An opened word's last bit, and its rounding at both.
OPENED = 2.0**-16


@pytest.mark.parametrize(("parties", "rows"), [(2, 121), (3, 118)])
def test_processes_train_on_shared_weights(tmp_path: Path, parties: int, rows: int) -> None:
    """Each step takes all rows, so that a yardstick that knows no blocks takes the same steps."""
    with quick_federation(
        tmp_path, data="wine", parties=parties, protocol="shared", opening="always", batch_size=rows, epochs=4
    ) as federation:
        federation.train()
        findings = read_summary(RunFolder(tmp_path / "parties"), "wine")
        plan, names = findings.agreement.plan, [party.name for party in findings.agreement.parties]
        problem = registered_problem(federation.processes, "wine", plan)
        # Every party's features in the session's fixed point.
        # No party has grids of its own.
        snapped = {name: np.rint(block * 2**16) / 2**16 for name, block in problem.blocks.items()}
        problem = replace(problem, blocks=snapped, on_grids=None)
        seeds = [federation.processes.settings[name].private_seed or 0 for name in names]
        trained = weights_of(tmp_path / "parties", names)
        assert largest_difference(trained, train_plainly(problem, plan, seeds)) <= 2 * OPENED
        assert all(np.array_equal(weights, np.round(weights / OPENED) * OPENED) for weights in trained)
        scores = federation.predict([f"r{row:06d}" for row in range(20)])
    assert (scores["error"] == "").sum() > 5
    assert plan.protocol == "shared"
    record = RunFolder(tmp_path / "parties").record("active")
    assert any("could read labels" in warning for warning in record.guard or ())


@pytest.mark.parametrize("data", ["breast_cancer", "wine"])
def test_processes_stop_early_on_shares(tmp_path: Path, data: str) -> None:
    """Two and three classes; validation losses that fall, one kept epoch everywhere, and words that are counted."""
    with quick_federation(
        tmp_path,
        data=data,
        protocol="shared",
        opening="always",
        epochs=6,
        patience=6,
        validation_fraction=0.2,
        learning_rate=0.5,
    ) as federation:
        federation.train()
        scores = federation.predict([f"r{row:06d}" for row in range(20)])
    folder = RunFolder(tmp_path / "parties")
    active, passive = (folder.record(name) for name in ("active", "passive"))
    losses = [epoch.validation_loss for epoch in active.epochs or ()]
    assert len(losses) == 6
    assert losses[-1] < losses[0] < np.log(3)
    assert active.kept_epoch == int(np.argmin(losses))
    assert (scores["error"] == "").sum() > 5
    assert any("and validation losses" in warning for warning in passive.guard or ())
