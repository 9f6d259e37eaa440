"""Whole parties that train a network on shared weights: a job from its terms to its scores."""

from pathlib import Path

import numpy as np
import pytest

from services.shared_weights.shared_serving import SharedPart
from tests.harness.parties import active_data, house, party_data, small_settings

SETTINGS = {
    "learner": "network",
    "batch_size": 12,
    "epochs": 3,
    "patience": 0,
}
OPTIONS = {"hidden": 3, "learning_rate": 0.2}


@pytest.mark.parametrize("parties", [2, 3])
def test_a_job_scores_as_the_rung_that_reads_gradients_does(tmp_path: Path, parties: int) -> None:
    rows, scores = range(60), {}
    passive = [party_data(rows=rows, seed=seed) for seed in range(1, parties)]
    for rung in ("paillier", "shared"):
        settings = small_settings(**SETTINGS, learner_options={**OPTIONS, "backward": rung})
        with house(tmp_path / rung, active=active_data(rows=rows), passive=passive, settings=settings) as one:
            one.train()
            scores[rung] = one.tested().scores
            if rung == "shared":
                assert one.record()["agreement"]["plan"]["protocol"] == "shared"
                part = one.active_training.model.part
                assert isinstance(part, SharedPart)
                assert part.own is not None
                again = SharedPart.of(part.arrays(), type(part.own).of)
                assert np.array_equal(again.scores(np.ones((2, 3))), part.scores(np.ones((2, 3))))
    # Weights are served in steps of 2**-16.
    assert np.abs(scores["paillier"] - scores["shared"]).max() < 1e-3
