"""What the guard says of networks: labels always, where gradients are learned; features by units times epochs."""

from dataclasses import replace

import pytest

from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import OutOfOrder
from tests.harness.agreements import agreed, guarded

PLAN = TrainingPlan(epochs=3, batch_size=64, learner="network").changed(hidden=4)


def with_plan(plan: TrainingPlan, features: tuple[int, ...] = (16, 15)) -> Agreement:
    return agreed(plan, features=features)


@pytest.mark.parametrize(
    ("features", "is_warned"),
    [((5, 24), True), ((5, 25), False), ((5, 12, 12), True), ((5, 12, 13), False)],
)
def test_a_passive_party_is_warned_unless_units_times_epochs_stay_below_half_of_the_columns(
    features: tuple[int, ...], is_warned: bool
) -> None:
    agreement = with_plan(PLAN, features)
    for name in [party.name for party in agreement.parties[1:]]:
        found = guarded(agreement, name).warnings
        assert bool(found) == is_warned
        if is_warned:
            assert f"active could learn every column of {name}'s records: it reads 4 sums of them" in found[0]
            with pytest.raises(OutOfOrder, match=r"PLUMBLINE_GUARD=refuse"):
                guarded(agreement, name, "refuse")
        else:
            assert guarded(agreement, name, "refuse").warnings == []
        assert guarded(agreement, name, "off").warnings == []
        # Sums of units are no equations of an answer: what is told of a record is compared with what is warned of.
        (told,) = guarded(agreement, name).told.values()
        assert (told.equations, told.bits, told.ratio) == (0, 0, pytest.approx(24 / sum(features[1:])))
    assert guarded(agreement, "active").told == {}


@pytest.mark.parametrize(
    ("backward", "words"),
    [("plain", "travels in the clear"), ("paillier", "whatever its size"), ("paillier", "choose backward=shared")],
)
def test_a_label_party_is_always_warned_where_others_learn_their_gradients(backward: str, words: str) -> None:
    agreement = with_plan(PLAN.changed(backward=backward), (5, 10_000))
    (found,) = guarded(agreement, "active").warnings
    assert words in found
    assert found.startswith("passive can" if backward == "plain" else "passive could")
    (of_several,) = guarded(with_plan(agreement.plan, (5, 12, 12)), "active").warnings
    assert of_several.startswith("passive-1 and passive-2 c")
    with pytest.raises(OutOfOrder, match="labels of active's records"):
        guarded(agreement, "active", "refuse")


def test_the_guard_of_equations_says_nothing_of_networks_and_this_one_nothing_of_others() -> None:
    assert list(guarded(with_plan(PLAN), "active").channels) == []
    linear = replace(PLAN, learner="linear", learner_options={})
    assert list(guarded(with_plan(linear), "active").channels) != []
    assert all("units" not in " ".join(guarded(with_plan(linear), name).warnings) for name in ("active", "passive"))
