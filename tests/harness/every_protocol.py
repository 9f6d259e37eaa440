"""A small session of each protocol, whose parties are real and wired to each other."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from services.common.agreement import Agreement, TrainingPlan
from services.in_process.wired_trainings import Through, wired_trainings
from services.party.party_training import PartyTraining
from tests.harness.exchanges import random_problem

_SHARED: dict[str, Any] = {"protocol": "shared"}
_TREES: dict[str, Any] = {
    "protocol": "trees",
    "learner": "boosted_trees",
    "learner_options": {"gradient_bits": 10, "n_estimators": 2, "max_depth": 3, "max_bin": 4, "min_rows_of_a_node": 3},
}
PLANS: dict[str, dict[str, Any]] = {
    "hu": {"batch_size": 16},
    "cut layer": {"learner": "network", "learner_options": {"backward": "paillier", "hidden": 3}, "batch_size": 16},
    "cut layer in the clear": {
        "learner": "network",
        "learner_options": {"backward": "plain", "hidden": 3},
        "cipher": "plain",
    },
    "shared": _SHARED,
    "shared, validated": {**_SHARED, "patience": 1},
    "shared, unopened": {**_SHARED, "protocol_options": {"serving": "shared"}},
    "first layer": {"learner": "network", "learner_options": {"backward": "shared", "hidden": 3}, "batch_size": 16},
    "trees": _TREES,
    "trees in the clear": {**_TREES, "cipher": "plain"},
    "pairwise_sums": {"protocol": "pairwise_sums", "cipher": "plain", "batch_size": 16},
}

NOT_TRAINED = (("pairwise_sums", 2), ("shared, validated", 3))
SESSIONS = [(name, parties) for name in PLANS for parties in (2, 3) if (name, parties) not in NOT_TRAINED]


@contextmanager
def session_of(
    name: str, parties: int, through: Through | None = None
) -> Iterator[tuple[Agreement, Mapping[str, PartyTraining]]]:
    """A session's trainings, not begun; its weights are opened unless its plan keeps them shared."""
    problem = random_problem(parties=parties)
    agreement = problem.agreement(TrainingPlan(epochs=2, key_bits=512).changed(**PLANS[name]))
    always = tuple(replace(party, opens_always=True) for party in agreement.parties)
    agreement = replace(agreement, parties=always)

    def means(name: str) -> dict[str, Any]:
        return {"generator": np.random.default_rng(0), "timeout": 20.0}

    with wired_trainings(agreement, problem.gridded, problem.labels, means, through=through) as trainings:
        yield agreement, trainings
