"""What each protocol says of one session, as everybody outside reads it: 16 and 15 columns, 280 rows to train on."""

from dataclasses import replace
from typing import Any

import pytest

from services.common.agreement import Agreement, TrainingPlan
from services.common.exposure import ToldEquations
from tests.harness.agreements import agreed

_CUT = {"learner": "network", "learner_options": {"backward": "paillier"}}
_LAYER = {"learner": "network", "learner_options": {"backward": "shared"}}
_SHARED = {"protocol": "shared"}
SESSIONS: dict[str, dict[str, Any]] = {
    "hu": {},
    "cut layer": _CUT,
    "shared": _SHARED,
    "shared, validated": {**_SHARED, "patience": 2},
    "first layer": _LAYER,
    "first layer, validated": {**_LAYER, "patience": 2},
}


def session(name: str, *, opens: bool = False) -> Agreement:
    agreement = agreed(TrainingPlan(batch_size=40, epochs=5).changed(**SESSIONS[name]))
    return replace(agreement, parties=tuple(replace(party, opens_always=opens) for party in agreement.parties))


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        # sizes_tell, one_grid, sends_sums, opens, told rows, validated epochs of 4, goes on, bytes kept of 3 columns
        ("hu", (True, False, True, False, 0, 4, True, 3 * 8)),
        ("cut layer", (False, False, True, False, 280, 4, True, 3 * 8)),
        ("shared", (False, True, False, True, 0, 1, True, 31 * 64)),
        ("shared, validated", (False, True, False, True, 0, 4, False, 31 * 64)),
        ("first layer", (False, True, False, True, 280, 1, True, 31 * 64)),
        ("first layer, validated", (False, True, False, True, 320, 4, False, 31 * 64)),
    ],
)
def test_facts_that_others_decide_by(name: str, facts: tuple[object, ...]) -> None:
    agreement = session(name)
    plan, one = agreement.plan, agreement.plan.training
    found = (
        *(one.sizes_tell, one.one_grid, one.sends_sums, one.opens),
        len(one.told_rows(agreement, plan.split(400))),
        *(one.validated_epochs(agreement, 4), one.resumes(agreement), one.kept_bytes(agreement, 3)),
    )
    assert found == facts


@pytest.mark.parametrize(
    ("name", "equations", "serving", "trials"),
    [
        ("hu", ToldEquations(1), "opened", ""),
        ("cut layer", ToldEquations(16, 16), "opened", "paillier"),
        ("shared", ToldEquations(1), "shared", "paillier"),
        ("first layer", ToldEquations(16, 16), "shared", "paillier"),
    ],
)
def test_what_becomes_of_records_and_weights(name: str, equations: ToldEquations, serving: str, trials: str) -> None:
    agreement = session(name)
    one = agreement.plan.training
    assert one.told_equations(agreement.plan, 2) == equations
    assert (agreement.serving.name, agreement.serving.tells_owners) == (serving, serving == "opened")
    assert one.cipher_of_trials(agreement.plan) == trials
    rows = [len(batch) for batch in one.batches(agreement)]
    assert sum(rows[: len(rows) // 5]) == 280, "an epoch is all rows that are trained on"


@pytest.mark.parametrize(
    ("name", "opens", "told"),
    [
        # To the label party, then to the passive one: equations, unknowns, whether it is possible, bits.
        ("hu", False, [(61, 40, True, 0), (61, 40, True, 0)]),
        ("cut layer", False, [(80, 15, True, 0), (240, 40, True, 0)]),
        ("shared", False, [(0, 15, False, 0), (0, 280, False, 0)]),
        ("shared", True, [(16, 15, True, 16 * 24), (15, 280, True, 15 * 24)]),
        ("shared, validated", False, [(0, 15, True, 80), (0, 280, False, 0)]),
        ("shared, validated", True, [(16, 15, True, 16 * 24 + 80), (15, 280, True, 15 * 24)]),
        ("first layer", True, [(80, 15, True, 0), (0, 40, False, 0)]),
    ],
)
def test_what_training_shows_each_party(name: str, opens: bool, told: list[tuple[object, ...]]) -> None:
    agreement = session(name, opens=opens)
    exposures = sorted(agreement.plan.training.exposures(agreement), key=lambda one: one.party)
    assert [(one.equations, one.unknowns, one.possible, one.bits) for one in exposures] == told
    # To the label party alone, with their bits.
    losses = [one.received.startswith("80 bits of validation losses") for one in exposures]
    assert losses == [name == "shared, validated", False]


def test_answers_are_about_labels_at_one_party_and_about_scores_at_the_other() -> None:
    agreement = session("hu")
    about = {one.party: one.about for one in agreement.plan.training.exposures(agreement)}
    assert about == {
        "passive": "active's residuals, and so the labels, of one batch",
        "active": "passive's part of the scores of one batch",
    }


_ZERO = {"initialisation": "zero"}


@pytest.mark.parametrize(
    ("changes", "features", "passive", "active"),
    [
        (
            {"batch_size": 8},
            (4, 3),
            "From the first step: there are no more unknowns than",
            "From the first step: there",
        ),
        ({"batch_size": 200, "learner_options": _ZERO}, (4, 3), "From the first step: with zero weights", "Not within"),
        ({"batch_size": 200}, (4, 3), "From the first step, by search", "Not within this session: 14 steps, where 28 "),
        ({"batch_size": 400}, (2, 20), "From the first steps: few sums move with so few weights", "Not within"),
        ({"batch_size": 400}, (4, 3), "From step 8, if weights hardly move until then: 8 steps were", "Not within"),
        ({"batch_size": 400, "epochs": 6}, (4, 3), "From step 8, if weights", "From step 24, if weights hardly move"),
        (
            {"batch_size": 400, "epochs": 5},
            (4, 3),
            "From step 8, if weights",
            "Not within this session: 20 steps, where",
        ),
        (
            {"batch_size": 400, "epochs": 39, "batches": "reshuffled"},
            (4, 3),
            "From epoch 39 on, by listening",
            "From step",
        ),
        ({"batch_size": 400, "epochs": 38, "batches": "reshuffled"}, (4, 3), "From step 8, if weights", "From step"),
    ],
)
def test_since_when_answers_tell(changes: dict[str, Any], features: tuple[int, ...], passive: str, active: str) -> None:
    agreement = agreed(TrainingPlan(epochs=2).changed(**changes), features=features, rows=2000)
    for one in agreement.plan.training.exposures(agreement):
        since = passive if one.party == "passive" else active
        assert one.since.startswith(since), one
        assert one.possible != one.since.startswith("Not within this session")


@pytest.mark.parametrize(
    ("cipher", "trees", "told"),
    [
        # Sums of 4 nodes of 3 levels, in 8 bins; routes; splits by one of 15 columns' bins or by none.
        ("paillier", 5, [(320, 280, True, 0), (5, 1, True, 0), (35, 280, False, 243)]),
        ("plain", 1, [(64, 280, False, 0), (1, 1, True, 0), (7, 280, False, 49), (560, 280, True, 0)]),
    ],
)
def test_what_trees_show_each_party(cipher: str, trees: int, told: list[tuple[object, ...]]) -> None:
    options = {"n_estimators": trees, "max_depth": 3, "max_bin": 8}
    plan = TrainingPlan(cipher=cipher, epochs=trees, batch_size=0, learner="boosted_trees", learner_options=options)
    agreement = agreed(plan.changed(protocol="trees"))
    protocol = agreement.plan.training
    exposures = protocol.exposures(agreement)
    assert [(one.equations, one.unknowns, one.possible, one.bits) for one in exposures] == told
    assert [one.party for one in exposures] == ["active", *["passive"] * (len(told) - 1)]
    assert "6.9 bits a split" in exposures[2].received
    assert protocol.deviation(agreement, {}) == ""
    both = protocol.deviation(agreement, {"active": "the bank", "passive": "the clinic"})
    assert "the clinic reads 6.9 bits in each split, 7 splits a tree at most, of labels that it chooses" in both
    assert both.count("the bank reads") == 1
    assert both.endswith("Nothing prevents it")


def test_one_sum_of_a_step_tells_labels_as_many_do() -> None:
    plan = TrainingPlan(batch_size=40, epochs=5).changed(learner="network", learner_options={"backward": "paillier"})
    agreement = agreed(plan.changed(hidden=1), features=(5, 1))
    _, signal = agreement.plan.training.exposures(agreement)
    assert (signal.party, signal.equations, signal.possible) == ("passive", 1, True)


@pytest.mark.parametrize(
    ("name", "conduct", "words"),
    [
        ("hu", "replaces_messages", ""),
        ("hu", "replaces_features", "gia reads what protocol=shared opens: protocol=hu opens nothing."),
        (
            "hu",
            "replaces_requests",
            "gia replaces a learner's own requests: under protocol=hu none has any.",
        ),
        ("cut layer", "replaces_shares", "gia adds to shares of weights: only backward=shared has them."),
        ("shared", "replaces_messages", "gia replaces messages of protocol=hu, and protocol=shared has none of them."),
        ("shared", "replaces_features", ""),
        ("shared", "replaces_shares", "gia adds to shares of weights: only backward=shared has them."),
        ("first layer", "replaces_shares", ""),
        *((name, "listens", "") for name in SESSIONS),
    ],
)
def test_an_attack_is_told_what_it_has_nothing_to_replace_of(name: str, conduct: str, words: str) -> None:
    assert session(name).plan.training.conduct_refusal("gia", conduct) == words
