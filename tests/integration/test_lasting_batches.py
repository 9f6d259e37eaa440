"""Batches over two sessions of real processes: rosters and keys cross the wire, and both sessions train the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plumbline import Federation
from services.common.run_folder import RunFolder
from services.party.lasting_batches import BATCHES, batches_in


def batches_of(federation: Federation) -> dict[str, Any]:
    """What all parties remember, which is the same."""
    processes = federation.processes
    first, *others = (
        batches_in((processes.state(name) / BATCHES).read_bytes())
        for name in processes.settings
        if name != "coordinator"
    )
    assert all(one == first for one in others)
    return first[0]


def test_a_second_session_goes_on_with_the_batches_of_the_first(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    ids = [f"r{row:03d}" for row in range(120)]
    active = pd.DataFrame({"id": ids, "a": generator.uniform(size=120), "y": generator.integers(0, 2, 120)})
    passive = [pd.DataFrame({"id": ids, f"b{at}": generator.uniform(size=120)}) for at in range(2)]
    settings = {"cipher": "plain", "batch_size": 40, "run_dir": tmp_path}
    with Federation.local(active=active, passive=passive, label="y", settings=settings) as federation:
        federation.train(epochs=1)
        first = batches_of(federation)
        # Of another seed: without one nothing has changed, and all is as it was drawn.
        federation.train(epochs=1, seed=5)
        agreement = RunFolder(tmp_path).record("active").agreement
        assert agreement is not None
        roster = agreement.plan.roster
        assert roster is not None
        assert roster.batches == (28, 28, 28)
        assert (roster.test, roster.waiting, roster.held) == (24, 0, 0)
        assert batches_of(federation) == first
        assert len(federation.predict(ids)) == 120
