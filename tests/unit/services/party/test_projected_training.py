"""Training with weights kept to the norm that dp_noise's proof assumes, whole parties in one process."""

import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from defences import load
from plumbline.judge.summary import read_summary
from services.common.run_folder import RunFolder
from services.party.party_training import remarks_of
from tests.harness.defended import PLAIN, with_defences
from tests.harness.exchanges import SMALL_PLAN, Problem, largest_difference, random_problem, run_together, wired
from tests.harness.parties import house
from vfl.arrays import FloatArray
from vfl.learning import ResidualScheme, initial_weights, split_rows

PLAN = SMALL_PLAN.changed(epochs=4, initialisation="xavier")
# Too little noise to be seen: what is left is the projection.
SILENT = {"sigma": 1e-9, "gradient_bound": 0.7}
BOUND = 4 * 0.7 - 2


def projected(weights: FloatArray, bound: float) -> FloatArray:
    return weights * min(1.0, bound / float(np.linalg.norm(weights)))


def train_projected(problem: Problem, bound: float) -> tuple[list[FloatArray], float]:
    """The yardstick in float64, all columns at once: the weights by party, and the longest that they all were."""
    scheme, blocks = ResidualScheme(2), list(problem.blocks.values())
    split = split_rows(
        problem.rows, validation_fraction=PLAN.validation_fraction, test_fraction=PLAN.test_fraction, seed=PLAN.seed
    )
    schedule = PLAN.schedule(split.train)
    width = sum(block.shape[1] for block in blocks)
    shares = [bound * math.sqrt(block.shape[1] / width) for block in blocks]
    thetas = [
        initial_weights(
            PLAN.learner_options["initialisation"],
            block.shape[1],
            1,
            total_features=width,
            generator=np.random.default_rng(100 + number),
        )
        for number, block in enumerate(blocks)
    ]
    thetas = [projected(*pair) for pair in zip(thetas, shares, strict=True)]
    longest = 0.0
    for epoch in range(PLAN.epochs):
        for batch in schedule.epoch(epoch):
            longest = max(longest, float(np.linalg.norm(np.vstack(thetas))))
            products = sum(block[batch] @ theta for block, theta in zip(blocks, thetas, strict=True))
            f = scheme.active_share(np.asarray(products), problem.labels[batch])
            scale = PLAN.learner_options["learning_rate"] * scheme.gradient_scale(len(batch))
            moved = [theta - scale * block[batch].T @ f for block, theta in zip(blocks, thetas, strict=True)]
            thetas = [projected(*pair) for pair in zip(moved, shares, strict=True)]
    return thetas, longest


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_parties_that_project_train_as_projected_descent_on_all_columns_does(cipher: str, parties: int) -> None:
    problem, plan = random_problem(parties=parties, columns=7), replace(PLAN, cipher=cipher)
    expected, longest = train_projected(problem, BOUND)
    defences = {name: with_defences(load("dp_noise", **SILENT)) for name in problem.blocks}
    with wired(problem, plan, defences=defences) as trainings:
        weights = run_together(trainings, plan.epochs)
        assert all(remarks_of(training) == [] for training in trainings.values())
    assert largest_difference(weights, expected) <= 1e-6
    assert longest <= BOUND * (1 + 1e-9)
    # It had something to do: unprojected training ends elsewhere, and longer.
    free, _ = train_projected(problem, 1e9)
    assert largest_difference(weights, free) > 0.05
    assert np.linalg.norm(np.vstack(free)) > BOUND


def test_who_does_not_project_is_told_of_its_own_part_and_nothing_changes() -> None:
    problem, plan = random_problem(), replace(PLAN, cipher="plain")
    silent = {name: with_defences(load("dp_noise", **SILENT, project=False)) for name in problem.blocks}
    expected, _ = train_projected(problem, 1e9)
    with wired(problem, plan, defences=silent) as trainings:
        weights = run_together(trainings, plan.epochs)
        remarks = {name: remarks_of(training) for name, training in trainings.items()}
    assert largest_difference(weights, expected) <= 1e-6
    for name, said in remarks.items():
        (sentence,) = said
        share = BOUND * math.sqrt(problem.blocks[name].shape[1] / 7)
        assert f"Its share of the 0.8 that epsilon rests on is {share:.3g}, so" in sentence
        assert "project=true" in sentence


def test_each_party_writes_it_into_its_own_record_and_log_and_the_report_warns(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    noisy, projecting = load("dp_noise", **SILENT, project=False), load("dp_noise", **SILENT)
    with (
        caplog.at_level(logging.WARNING),
        house(
            tmp_path, settings=PLAIN, active_defences=with_defences(noisy), passive_defences=with_defences(projecting)
        ) as home,
    ):
        home.train(initialisation="xavier")
        active, passive = home.record(), home.record("passive")
    (remark,) = active["remarks"]
    assert passive["remarks"] == []
    assert sum(remark in record.getMessage() for record in caplog.records) == 1
    warnings = read_summary(RunFolder(tmp_path), "a run").warnings
    assert warnings[-1] == f"active: {remark}"
    assert not any(text.startswith("passive: dp_noise") for text in warnings)
