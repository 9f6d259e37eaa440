"""A label party that sends powers of two reads the bins of the rows that it chose, exactly, under real ciphertexts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attacks.training.chosen_gradients import ChosenGradients, PowersOfTwo
from attacks.training.named_bins import NamedBins
from attacks.training.tree_views import tree_view
from attacks.training_attack import RequestTerms
from attacks.training_views import TrainingView
from attacks.views import ViewError
from tests.harness.keys import KeyPair
from tests.harness.tree_sessions import TreeSession
from tests.harness.tree_tables import made_table
from vfl.arrays import IntArray
from vfl.crypto import keygen
from vfl.learning import VerticalData
from vfl.learning.trees import BeginTree, Histograms, OwnedColumns, TreeModel, TreePlan, boost
from vfl.learning.trees.boosted_trees import BoostedTrees
from vfl.learning.trees.tree_requests import AskPlan

ROWS = 60
OPTIONS = BoostedTrees(n_estimators=2, max_depth=3, max_bin=4, min_rows_of_a_node=4, gradient_bits=12)


@pytest.fixture(scope="module")
def small_keys() -> KeyPair:
    return keygen(512, insecure=True)


def asked_by(
    requests: PowersOfTwo, labels: IntArray, plan: TreePlan, own: OwnedColumns, answer: Callable[[Any], Any]
) -> TreeModel:
    """Run the label party's program, with these requests in place of its own."""
    requests.answered(0, AskPlan(), plan)
    program, told = boost(labels, plan, own), None
    try:
        while True:
            request = requests.asked(0, program.send(told))
            told = requests.answered(0, request, answer(request))
    except StopIteration as ended:
        model: TreeModel = ended.value
        return model


def view_of(rows: int = ROWS) -> TrainingView:
    """A view in which nothing is known beforehand."""
    table = made_table(rows, (2, 2))
    data = VerticalData([np.column_stack([table.tables[0], np.ones(rows)]), table.tables[1]], table.labels, 2)
    return tree_view(OPTIONS, data, 0, np.arange(rows), seed=1)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_bins_of_chosen_rows_are_read_from_ciphertexts(small_keys: KeyPair, missing: float) -> None:
    table = made_table(ROWS, (2, 2), missing=missing)
    plan = table.plan(OPTIONS)
    session = TreeSession(table, plan, small_keys)
    requests = ChosenGradients(prior="nothing").ask(RequestTerms(session.terms.names, session.terms.key_bits))

    model = asked_by(requests, table.labels, plan, session.label.owned, session.label.answer)
    found = requests.result(view_of())
    assert isinstance(found, NamedBins)
    each = session.terms.layout.slot_bits - 2
    assert each < ROWS < 2 * each
    owned = session.passive["fintech 1"].owned
    np.testing.assert_array_equal(found.bins["fintech 1"], owned.sampled_bins(np.arange(ROWS), np.arange(2)))
    # It gives up the model for it.
    assert all(not tree.splits for tree in model.trees)


def test_without_ciphertexts_more_rows_are_named() -> None:
    table = made_table(150, (1, 2))
    plan = table.plan(OPTIONS)
    owned = table.owned(plan)
    requests = ChosenGradients(prior="nothing").ask(RequestTerms(("bank", "fintech"), 0))
    values: list[IntArray] = []

    def answer(request: Any) -> Any:
        if isinstance(request, BeginTree):
            values.append(request.gradients.values)
        if not isinstance(request, Histograms):
            return []
        return [one.sums(request.nodes, np.arange(one.binned.shape[1]), values[-1]) for one in owned]

    asked_by(requests, table.labels, plan, owned[0], answer)
    # One power of two to a row, and each another one.
    assert [int(one.any(axis=1).sum()) for one in values] == [104, 46]
    assert len({tuple(pair) for pair in values[0].tolist() if any(pair)}) == 104
    found = requests.result(view_of())
    assert isinstance(found, NamedBins)
    np.testing.assert_array_equal(found.bins["fintech"], owned[1].binned)


def test_what_it_cannot_do_is_said() -> None:
    requests = ChosenGradients(prior="nothing").ask(RequestTerms(("bank", "fintech"), 0))
    with pytest.raises(ViewError, match="too few training rows"):
        requests.result(view_of())
    with pytest.raises(ViewError, match=r"chosen_gradients\(prior=covariance\) needs moments"):
        ChosenGradients().ask(RequestTerms(("bank", "fintech"), 0)).result(view_of())
    with pytest.raises(ValueError, match="prior to be one of nothing"):
        ChosenGradients(prior="guess")  # type: ignore[arg-type]
