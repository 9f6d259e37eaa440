"""Newcomers of retrainings: read where each joins a batch of before, and not where they wait for their own."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from scripts.newcomers import PLANS, RULES, read_by, sessions
from vfl.data import snap_to_grid
from vfl.learning.score_quality import area_under_curve


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("plan", ["plain", "default"])
def test_six_retrainings_with_a_newcomer_each(plan: str, rule: str) -> None:
    likely, truth = [], []
    features, _ = load_breast_cancer(return_X_y=True)
    features = (features - features.min(axis=0)) / np.ptp(features, axis=0)
    for seed in range(4):
        generator = np.random.default_rng(seed)
        chosen = snap_to_grid(features[generator.permutation(569)[:406]][:, generator.permutation(30)[:24]])
        blocks, labels = (
            [np.column_stack([chosen[:, :12], np.ones(406)]), chosen[:, 12:]],
            generator.integers(0, 2, 406),
        )
        found = read_by("newcomer", sessions(PLANS[plan], blocks, labels, range(400, 407), rule, seed, least=100))
        assert bool(found.reason) == (rule == "waits")
        likely.append(np.nan_to_num(found.probabilities[400:406], nan=0.5))
        truth.append(labels[400:])
    area = area_under_curve(np.concatenate(likely), np.concatenate(truth))
    assert area >= 0.9 if rule == "joins" else area == pytest.approx(0.5)
