"""A label party that chooses its shares of a network's first layer, under real ciphertexts."""

import numpy as np
import pytest

import attacks
from attacks.training.chosen_share import ChosenShare, ReadColumns
from services.adversary.training import sharing_terms
from services.common.agreement import TrainingPlan
from tests.harness.shared_layers import LAYER_PLAN, run_layers, wired_layers
from tests.harness.shared_sessions import SharedProblem
from vfl.arrays import FloatArray

# The label party trains with it.
pytest.importorskip("torch")

# As much as weights move in such an epoch, by the factor.
NEAR = 0.02


def chosen(problem: SharedProblem, plan: TrainingPlan, attack: ChosenShare) -> ReadColumns:
    agreement = problem.agreement(plan)
    made = attack.choose(sharing_terms(agreement, problem.blocks["active"], "active"))
    with wired_layers(problem, plan, chosen=made) as parties:
        run_layers(parties)
    return made


def errors(problem: SharedProblem, made: ReadColumns) -> FloatArray:
    """The largest error of each column of all passive parties."""
    found = made.result()
    estimate = np.hstack(list(found.values.values()))
    truth = np.hstack([block for name, block in problem.blocks.items() if name != "active"])[found.rows]
    largest: FloatArray = np.abs(estimate - truth).max(axis=0)
    return largest


@pytest.mark.parametrize("columns", [(2, 3), (2, 2, 2)])
def test_it_reads_as_many_columns_an_epoch_as_there_are_units(columns: tuple[int, ...]) -> None:
    problem = SharedProblem.random(columns=columns, signed=False)
    plan = LAYER_PLAN.changed(epochs=3, learner_options={**LAYER_PLAN.learner_options, "learning_rate": 0.05})
    assert (errors(problem, chosen(problem, plan, ChosenShare())) < NEAR).all()


def test_what_it_has_no_epoch_for_is_guessed() -> None:
    problem = SharedProblem.random(columns=(2, 5), signed=False)
    plan = LAYER_PLAN.changed(epochs=2, learner_options={**LAYER_PLAN.learner_options, "learning_rate": 0.05})
    found = errors(problem, chosen(problem, plan, ChosenShare()))
    assert (found[:3] < NEAR).all()
    assert (found[3:] > 0.3).all()


def test_without_added_shares_the_same_reading_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ReadColumns, "added", lambda self, step, peer: None)
    problem = SharedProblem.random(columns=(2, 3), signed=False)
    assert (errors(problem, chosen(problem, LAYER_PLAN.changed(epochs=2), ChosenShare())) > 0.3).all()


def test_one_epoch_is_refused_and_an_end_before_it_reads_is_said() -> None:
    problem = SharedProblem.random(columns=(2, 3))
    once = sharing_terms(problem.agreement(LAYER_PLAN.changed(epochs=1)), problem.blocks["active"], "active")
    with pytest.raises(ValueError, match="compares two uses of each record"):
        ChosenShare().choose(once)
    terms = sharing_terms(problem.agreement(LAYER_PLAN), problem.blocks["active"], "active")
    assert "ended before an epoch that reads" in ChosenShare().choose(terms).result().reason
    with pytest.raises(ValueError, match="epochs >= 0"):
        ChosenShare(epochs=-1)


def test_it_is_on_networks_only() -> None:
    spec = attacks.spec_of("chosen_share")
    assert spec.is_on("network")
    assert not spec.is_on("linear")
