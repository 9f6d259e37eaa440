"""Other sums than bins' name the labels of chosen rows, in the clear and under ciphertexts, whatever g and h are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attacks.training.chosen_sums import ChosenSums, NamedBySplits
from attacks.training_attack import RequestTerms
from services.common.run_folder import RunFolder
from tests.harness.parties import house, small_settings
from vfl.learning.trees import Candidate, NodeRows, TreeOptions
from vfl.learning.trees.split_gains import best_division
from vfl.learning.trees.tree_requests import FollowTree

TERMS = RequestTerms(("active", "passive"), 0)
ROWS = np.arange(90)
NODE = NodeRows(1, ROWS, ROWS)


def begun() -> NamedBySplits:
    requests = ChosenSums().ask(TERMS)
    asked = requests.asked(0, FollowTree())
    assert isinstance(asked, FollowTree)
    assert asked.chooses is requests
    return requests


@pytest.mark.parametrize("seed", range(8))
def test_the_candidate_that_gains_most_names_labels(seed: int) -> None:
    generator, options, requests = np.random.default_rng(seed), TreeOptions(max_bin=8, min_rows_of_a_node=4), begun()
    # Scores are off by as much as they like: of g the sign alone is the label.
    probabilities, labels = generator.uniform(0.05, 0.95, len(ROWS)), generator.integers(0, 2, len(ROWS))
    derivatives = np.column_stack([probabilities - labels, probabilities * (1 - probabilities)])
    values = np.rint(derivatives * options.unit).astype(np.int64)
    sent = requests.sums(NODE, 4, options)
    assert len(sent.rows) == 5
    sums = values[sent.base].sum(axis=0) + sent.signs @ values[sent.rows] + sent.added
    chosen = best_division([np.zeros((0, 8, 2), dtype=np.int64), sums.reshape(4, 8, 2)], values, options)
    assert chosen is not None
    left = requests.left(NODE, chosen)
    assert left.sum() == len(ROWS) // 2
    assert (requests.left(NODE, chosen) != left).any()
    assert requests._labels == dict(zip(sent.rows.tolist(), labels[sent.rows].tolist(), strict=True))


def test_other_rows_come_next_and_what_was_not_sent_names_nothing() -> None:
    options, requests = TreeOptions(max_bin=8, min_rows_of_a_node=4), begun()
    first = requests.sums(NODE, 4, options).rows
    requests.left(NODE, Candidate(1, 0, 3, missing_left=False))
    assert not set(requests.sums(NODE, 4, options).rows.tolist()) & set(first.tolist())
    known = dict(requests._labels)
    requests.left(NodeRows(3, ROWS[:40], ROWS[:40]), Candidate(1, 0, 3, missing_left=False))
    assert requests._labels == known
    # So few rows prove no two sides beside signs.
    few = requests.sums(NodeRows(2, ROWS[:9], ROWS[:9]), 4, options)
    assert few.signs.shape == (0, 0)
    assert few.added.shape == (0, 2)


@pytest.mark.parametrize("cipher", ["plain", "paillier"])
def test_labels_are_named_in_a_session(tmp_path: Path, cipher: str) -> None:
    options = {"n_estimators": 4, "max_depth": 3, "max_bin": 6, "min_rows_of_a_node": 4, "gradient_bits": 10}
    settings: dict[str, Any] = {
        "learner": "boosted_trees",
        "learner_options": options,
        "epochs": 4,
        "batch_size": 0,
        "cipher": cipher,
        "record_features": True,
    }
    adversary = {"chosen_sums": ChosenSums()}
    with house(tmp_path, settings=small_settings(**settings), passive_adversary=adversary) as home:
        home.train()
    folder = RunFolder(tmp_path)
    (outcome,) = folder.training_outcomes()
    found, truth = folder.found_labels("passive", "chosen_sums"), folder.labels()
    assert outcome.conduct == "replaces_requests"
    likely = found.probabilities
    assert likely is not None
    is_named = np.isin(likely[:, 0], (0.0, 1.0))
    assert is_named.sum() == outcome.facts["labels_named"] > 10
    np.testing.assert_array_equal(found.labels[is_named], truth[is_named])
