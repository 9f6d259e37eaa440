"""What a training on shared weights costs, counted a second way: of its own schedule and layout."""

from services.common.costs import Operations
from services.protocols.shared_weights.shared_weights import SharedWeights
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem
from vfl.crypto.kernels.counts import product_cost


def test_a_step_is_the_first_and_largest() -> None:
    problem, plan = SharedProblem.random(columns=(3, 2)), SHARED_PLAN.changed(batch_size=16)
    terms, cost = problem.terms(plan), SharedWeights().cost(problem.agreement(plan))
    first, second, *_ = terms.schedule.epoch(0)
    assert (len(first), len(second)) == (5, 4)
    ring, bits = terms.formats.ring, terms.formats.residual_bits
    for name, peer in (("active", "passive-1"), ("passive-1", "active")):
        products = 5 * product_cost(terms.columns(peer), ring, ring)
        products += terms.groups(peer) * product_cost(16, bits, bits)
        assert cost.of_step[name] == Operations(0, products, 5 + terms.groups(peer))
