"""What to use against what: of the defences that hold, the cheapest."""

from typing import Any

import pandas as pd

from attacks import LEVELS
from studies.defences.matrix import advice

NO_FEDERATIONS = pd.DataFrame()


def parts_of(trial: str, part: float, low: float, high: float, *, optimiser: str = "adam") -> list[dict[str, Any]]:
    """The same at all levels."""
    shared = {"case": "c", "optimiser": optimiser, "trial": trial, "part": part, "low": low, "high": high}
    return [{**shared, "level": level} for level in LEVELS]


def cost_of(trial: str, change: float, kl: float) -> dict[str, Any]:
    return {"case": "c", "optimiser": "adam", "trial": trial, "defence": trial, "accuracy_change": change, "kl": kl}


PLAIN = parts_of("none", 0.8, 0.7, 0.9)
COSTS = pd.DataFrame(
    [
        cost_of("none", 0.0, 0.0),
        cost_of("dear", -0.4, 0.0),
        cost_of("moves scores", 0.0, float("inf")),
        cost_of("little", 0.0, 0.2),
        cost_of("too weak", 0.0, 0.0),
        cost_of("too unsure", 0.0, 0.0),
    ]
)


def test_of_defences_that_hold_the_cheapest_is_advised() -> None:
    rows = [*PLAIN, *parts_of("dear", 0.1, 0.0, 0.2), *parts_of("moves scores", 0.0, 0.0, 0.1)]
    rows += [*parts_of("little", 0.3, 0.2, 0.4), *parts_of("too weak", 0.5, 0.4, 0.6)]
    rows += parts_of("too unsure", 0.1, 0.0, 0.41)
    found = advice(pd.DataFrame(rows), COSTS, NO_FEDERATIONS).rows
    assert len(found) == len(LEVELS)
    assert found[0] == (
        "reconstruction by who knows nothing beforehand",
        "c",
        "0.80 (0.70–0.90) (adam)",
        "little",
        "0.30 (0.20–0.40)",
        "scores move by a KL of 0.2",
        "moves scores, dear",
    )


def test_where_none_holds_the_closest_is_named() -> None:
    rows = [*PLAIN, *parts_of("too weak", 0.5, 0.4, 0.6), *parts_of("too unsure", 0.39, 0.0, 0.8)]
    found = advice(pd.DataFrame(rows), COSTS, NO_FEDERATIONS).rows
    assert found[0][3:] == ("none holds; too unsure comes closest", "0.39", "", "")


def test_what_holds_for_one_optimiser_only_is_not_advised() -> None:
    rows = [*PLAIN, *parts_of("none", 0.8, 0.7, 0.9, optimiser="lbfgs"), *parts_of("little", 0.1, 0.0, 0.2)]
    rows += parts_of("little", 0.7, 0.6, 0.8, optimiser="lbfgs")
    found = advice(pd.DataFrame(rows), COSTS, NO_FEDERATIONS).rows
    assert found[0][3:5] == ("none holds; little comes closest", "0.70")


def test_where_the_federation_adds_nothing_there_is_nothing_to_hold() -> None:
    rows = [*parts_of("none", 0.1, 0.0, 0.3), *parts_of("little", 0.0, 0.0, 0.01)]
    found = advice(pd.DataFrame(rows), COSTS, NO_FEDERATIONS).rows
    assert found[0][3] == "nothing: the federation adds nothing for certain"


def test_training_attacks_are_held_half_way_to_guessing() -> None:
    shared = {"case": "breast_cancer, live: x", "model_accuracy": 0.5, "model_accuracy_undefended": 0.9}
    shared |= {"right_undefended": 1.0, "answered": 1.0}
    trained = pd.DataFrame(
        [
            {**shared, "defence": "none", "attack": "label_recovery", "right": 1.0},
            {**shared, "defence": "dp_noise", "attack": "label_recovery", "right": 0.5},
            {**shared, "defence": "response_truncation", "attack": "label_recovery", "right": 1.0},
            # Few at a time, and each of them right: further epochs tell the rest.
            {**shared, "defence": "slower", "attack": "label_recovery", "right": 0.2, "answered": 0.2},
            {**shared, "defence": "none", "attack": "feature_order", "right": 0.8},
        ]
    )
    labels, order = advice(pd.DataFrame(PLAIN), COSTS, trained).rows[-2:]
    assert labels[:5] == (
        "label_recovery in training",
        "breast_cancer, real federations: x",
        "100% right",
        "dp_noise",
        "50% right",
    )
    assert labels[5:] == ("accuracy -0.400", "")
    assert order[3] == "none holds"
