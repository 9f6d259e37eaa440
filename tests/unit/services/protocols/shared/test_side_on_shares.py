"""When a training on shared weights must end: from the step on behind which weights are opened."""

from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem
from tests.harness.shared_wiring import wired_shares


def test_nobody_goes_back_from_the_last_step() -> None:
    problem = SharedProblem.random(columns=(3, 2))
    with wired_shares(problem, SHARED_PLAN.changed(epochs=3)) as parties:
        steps = 3 * problem.terms().schedule.steps_per_epoch
        for party in parties.values():
            assert [party.must_end(step) for step in (0, steps - 1, steps, steps + 1)] == [False, False, True, True]
