"""A key of a session decrypts what was sent under it in any step: a peer may ask about one step in the name of all.

No interruption is needed, and rights are kept: each step gives one answer. But the guard counts what the answers of one
step tell about its own batch. With all of them about one batch, its residuals follow, and with them its labels.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.harness.siege import besieged
from tests.unit.services.party.test_once import NETWORK, promises_of
from vfl.arrays import FloatArray

# An answer has 3 sums, with all its room 8, and a batch 63 records. With a linear model the guard has nothing to say.
TERMS: dict[str, Any] = {"rows": range(140), "batch_size": 63, "epochs": 20}


@pytest.mark.parametrize("terms", [{"guard": "refuse"}, NETWORK], ids=["linear", "network"])
def test_questions_in_the_name_of_other_steps_read_no_batch(tmp_path: Path, terms: dict[str, Any]) -> None:
    if "learner" in terms:
        pytest.importorskip("torch")
    with besieged(tmp_path, "active", **TERMS, **terms) as peer:
        peer.ready()
        about = peer.latest()
        assert about is not None
        asked: list[FloatArray] = []
        sums: list[FloatArray] = []
        while len(asked) < 24 and peer.ready():
            features = peer.generator.integers(0, 2, (len(about.values), 3)).astype(np.float64)
            told = peer.ask(about, peer.completed, features)
            if told is not None:
                asked.append(features.T)
                sums.append(told.sums)
            peer.advance()
        # Rights are kept: no more answers than steps.
        assert promises_of(peer) == []
        residuals = np.linalg.lstsq(np.vstack(asked), np.vstack(sums), rcond=None)[0]
        read = np.abs(residuals - about.values).max(axis=1) < 1e-6
        assert not read.any(), f"{read.sum()} of {len(read)} residuals were read by {len(asked)} answers"
