"""A session that is trained in the clear shows a passive party what real parties in one process do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from plumbline.judge.redrawn_messages import clear_session
from services.adversary.listening_side import listening
from services.adversary.transcript import Transcript
from services.common.agreement import Agreement, TrainingPlan
from services.in_process.wired_trainings import train_together, wired_trainings
from services.party.side import Side, SideSetting
from tests.harness.exchanges import Problem, random_problem

WHOLE: dict[str, Any] = {"validation_fraction": 0.0, "test_fraction": 0.0}
NETWORK = {"hidden": 3, "backward": "plain"}


def heard(problem: Problem, agreement: Agreement, generators: list[np.random.Generator]) -> Transcript:
    """What the first passive party of real ones computes and is told."""
    transcript, passive = Transcript(), agreement.parties[1]

    def seat(setting: SideSetting, make: Callable[[SideSetting], Side]) -> Side:
        return listening(setting, make(setting), transcript)

    def means(name: str) -> dict[str, Any]:
        number = [party.name for party in agreement.parties].index(name)
        beside = {"seat": seat, "tape": transcript} if name == passive.name else {}
        return {"generator": generators[number], "timeout": 20.0, **beside}

    with wired_trainings(agreement, problem.gridded, problem.labels, means) as trainings:
        train_together(trainings, agreement.plan.epochs)
    return transcript


@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("terms", [{"l2": 0.3}, {"steps": "own_moments", "l2": 0.3}, {"batch_size": 5}])
def test_of_a_linear_model_shares_and_sums_of_every_step_are_the_same(parties: int, terms: dict[str, Any]) -> None:
    problem = random_problem(rows=30, parties=parties)
    plan = TrainingPlan(epochs=3, batch_size=8, cipher="plain", **WHOLE).changed(initialisation="xavier", **terms)
    agreement, one = problem.agreement(plan), np.random.default_rng(4)
    told = heard(problem, agreement, [one] * parties)
    blocks = list(problem.blocks.values())
    view = clear_session(agreement, blocks, problem.labels, 1, np.arange(30), np.random.default_rng(4)).view
    assert [own.step for own in view.steps] == sorted(told.shares)
    for own in view.steps:
        np.testing.assert_allclose(told.shares[own.step], own.share, atol=1e-9)
    assert len(view.equations) == len(told.answers)
    gridded = problem.gridded[agreement.parties[1].name]
    names = [party.name for party in agreement.parties]
    for equations in view.equations:
        _, sums = told.answers[equations.step, names[int(equations.peer.removeprefix("party-"))]]
        np.testing.assert_allclose(gridded.restore(sums), equations.sums, atol=1e-9)


def test_of_a_network_products_and_the_backward_signal_of_every_step_are_the_same() -> None:
    problem = random_problem(rows=30, parties=3)
    plan = TrainingPlan(epochs=2, batch_size=8, cipher="plain", learner="network", learner_options=NETWORK, **WHOLE)
    agreement = problem.agreement(plan)
    told = heard(problem, agreement, np.random.default_rng(4).spawn(3))
    blocks = list(problem.blocks.values())
    view = clear_session(agreement, blocks, problem.labels, 1, np.arange(30), np.random.default_rng(4)).view
    assert [own.step for own in view.steps] == sorted(told.shares)
    for own, equations in zip(view.steps, view.equations, strict=True):
        np.testing.assert_allclose(told.shares[own.step], own.share, atol=1e-6)
        np.testing.assert_allclose(told.residuals[own.step, "active"], equations.sums, atol=1e-6)
