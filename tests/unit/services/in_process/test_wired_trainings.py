"""Real parties in one process end where one vectorised training of the same plan ends."""

import numpy as np
import pytest

from services.common.agreement import TrainingPlan
from services.common.errors import OutOfOrder
from services.in_process.wired_trainings import ignore_step, train_together, wired_trainings
from services.party.resumption import Resumption
from tests.harness.agreements import letting_all_open
from tests.harness.exchanges import Problem, largest_difference, random_problem, train_plainly
from tests.harness.shared_sessions import SHARED_PLAN
from vfl.learning import ResidualScheme, VerticalData, initial_weights
from vfl.learning.network import train_network
from vfl.learning.network.part import NetworkPart

PLAN = TrainingPlan(epochs=2, batch_size=8, cipher="plain", learner_options={"initialisation": "xavier"})


def _means(problem: Problem, seed: int = 100) -> dict[str, dict[str, object]]:
    return {
        name: {"generator": np.random.default_rng(seed + number), "timeout": 20.0}
        for number, name in enumerate(problem.blocks)
    }


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("steps", ["plain", "own_moments"])
def test_linear_parties_end_where_the_float64_training_does(parties: int, steps: str) -> None:
    problem = random_problem(parties=parties)
    plan = PLAN.changed(steps=steps)
    with wired_trainings(
        problem.agreement(plan), problem.gridded, problem.labels, _means(problem).__getitem__
    ) as trainings:
        train_together(trainings, plan.epochs)
        found = [one.half.part().arrays()["weights"] for one in trainings.values()]
    expected = train_plainly(problem, plan)
    if steps == "own_moments":  # the label party's bias has, besides, what the others' means add
        found[0], expected[0] = found[0][:-1], expected[0][:-1]
    assert largest_difference(found, expected) <= 1e-9


def test_a_networks_parties_end_where_its_training_in_one_place_does() -> None:
    problem = random_problem(parties=3)
    plan = TrainingPlan(
        epochs=2, batch_size=8, cipher="plain", learner="network", learner_options={"hidden": 3, "backward": "plain"}
    )
    agreement = problem.agreement(plan)
    with wired_trainings(agreement, problem.gridded, problem.labels, _means(problem).__getitem__) as trainings:
        train_together(trainings, plan.epochs)
        found = [one.half.part() for one in trainings.values()]
        schedule = next(iter(trainings.values())).schedule
    expected = train_network(
        plan.family,  # type: ignore[arg-type]
        VerticalData(list(problem.blocks.values()), problem.labels, problem.classes),
        schedule,  # type: ignore[arg-type]
        epochs=plan.epochs,
        generators=[np.random.default_rng(100 + number) for number in range(3)],
    ).parts
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, NetworkPart)
        for name, array in other.arrays().items():
            if array.dtype.kind == "f":
                assert np.abs(one.arrays()[name] - array).max() <= 1e-7, name


def test_shared_weights_open_where_the_float64_training_ends() -> None:
    problem = random_problem(rows=24, columns=4)
    plan = SHARED_PLAN.changed(protocol="shared", serving="opened", epochs=1, batch_size=8)
    agreement, means = letting_all_open(problem.agreement(plan)), _means(problem)
    with wired_trainings(agreement, problem.gridded, problem.labels, means.__getitem__) as trainings:
        features = np.hstack(list(problem.blocks.values()))
        theta = np.vstack([np.asarray(_begun(problem, plan, name)) for name in problem.blocks])
        for rows in plan.training.batches(agreement):
            residual = ResidualScheme(2).active_share(features[rows] @ theta, problem.labels[rows])
            theta = theta - plan.family.learning_rate / 4 / len(rows) * features[rows].T @ residual  # type: ignore[attr-defined]
        train_together(trainings, plan.epochs)
        found = [np.asarray(one.half.weights) for one in trainings.values()]
    assert np.abs(np.vstack(found) - theta).max() <= 1e-3  # weights are opened in few bits


@pytest.mark.parametrize("protocol", ["hu", "shared"])
def test_who_goes_on_does_so_at_the_step_under_another_key(protocol: str) -> None:
    problem = random_problem(rows=24, columns=4)
    plan = SHARED_PLAN.changed(protocol=protocol, epochs=1, batch_size=8)
    agreement = letting_all_open(problem.agreement(plan))
    with wired_trainings(agreement, problem.gridded, problem.labels, _means(problem).__getitem__) as trainings:
        setting, before = trainings["active"].setting, trainings["active"].side
        side = plan.training.resumed(setting, before, Resumption(2))
        assert side.exchange.public_key.key_id != before.exchange.public_key.key_id
        assert side.exchange._order.step == 2
        # What was sent on shares is of no use under another key.
        assert side.goes_back_anew == (protocol == "shared")
        # Weights are set by who has them go on: of one protocol the half is the same, of the other it is begun anew.
        assert (side.half is before.half) == (protocol == "hu")


def _begun(problem: Problem, plan: TrainingPlan, name: str) -> object:
    """A party's start weights."""
    number, width = list(problem.blocks).index(name), sum(block.shape[1] for block in problem.blocks.values())
    return initial_weights(
        plan.learner_options["initialisation"],
        problem.blocks[name].shape[1],
        1,
        total_features=width,
        generator=np.random.default_rng(100 + number),
    )


def test_what_a_party_refuses_reaches_who_runs_them() -> None:
    problem = random_problem()
    with wired_trainings(
        problem.agreement(PLAN), problem.gridded, problem.labels, _means(problem).__getitem__
    ) as trainings:
        train_together(trainings, 1)
        with pytest.raises(OutOfOrder, match="Epoch 0 is out of order"):
            trainings["active"].run_epoch(0, ignore_step)
