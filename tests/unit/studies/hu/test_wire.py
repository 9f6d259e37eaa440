"""The section on the wire without a federation: what it would run, what it says of runs; statements each way."""

from typing import Any

import pandas as pd
import pytest

from studies.claims.claim import judged
from studies.hu.experiments import HuChoices
from studies.hu.wire import HONEST, LINE, LISTENING, WIRE_CLAIMS, labelled, measurements_of, wire
from studies.hu.wire_epoch import rounding_bound
from studies.measurements import SweepOptions
from studies.simulation.affine_expansions import minimax_line
from tests.harness.hu_run import MadeUpHu


def epochs(**changes: Any) -> pd.DataFrame:
    """One federation of each kind, as it should be."""
    common = {"u": 2, "equations": 300, "difference": 1e-13, "bound": 1e-12, "accuracy": 0.8, "accuracy_simulated": 0.8}
    rows = [
        {"dataset": "mnist01", "initialisation": "zero", "attacked": True, "by_step": [1.0, 1.0]},
        {"dataset": "credit", "initialisation": "xavier", "attacked": True, "by_step": [1.0, 0.5]},
        {"dataset": "credit", "initialisation": "zero", "attacked": False, "by_step": []},
        {"dataset": "credit", "initialisation": "zero", "attacked": True, "by_step": [1.0], "slope": 0.125},
    ]
    for row in rows:
        row.update(common | {"answered": 1.0, "by_step_simulated": row["by_step"] or [1.0]} | changes)
    return labelled(pd.DataFrame(rows))


def verdicts(frame: pd.DataFrame) -> list[str]:
    return [one.verdict for one in judged(WIRE_CLAIMS, frame)]


def test_without_the_flag_no_federation_is_started_and_the_page_says_how() -> None:
    made = wire(MadeUpHu(SweepOptions(workers=1), quick=True))
    assert "--section wire --wire" in made.notes[0]
    assert {one.verdict for one in made.statements} == {"not measured"}


def test_every_data_set_is_attacked_and_honest_and_credit_has_a_line() -> None:
    quick, full = (
        HuChoices.of(MadeUpHu(SweepOptions(workers=1), quick=short, options={"wire": True})) for short in (True, False)
    )
    measurements = [dict(one.options) for one in measurements_of(full)]
    assert len(measurements) == 6
    assert all(one["steps"] is None for one in measurements)
    assert [one.get("slope") for one in measurements].count(minimax_line().slope) == 1
    assert all(dict(one.options)["steps"] for one in measurements_of(quick))


def test_kinds_of_federations() -> None:
    found = epochs()
    assert found["federation"].tolist() == [LISTENING, LISTENING, HONEST, LINE]
    assert found["success"].tolist()[:2] == [1.0, 0.75]


def test_statements_hold_where_the_wire_is_the_simulation() -> None:
    assert verdicts(epochs()) == ["reproduced"] * 4


@pytest.mark.parametrize(
    ("changes", "number"),
    [({"difference": 1e-11}, 0), ({"accuracy": 0.7}, 1), ({"answered": 0.9}, 2), ({"by_step_simulated": [0.0]}, 2)],
)
def test_statements_differ_where_it_is_not(changes: dict[str, Any], number: int) -> None:
    assert verdicts(epochs(**changes))[number] == "differs"


def test_success_in_the_first_epoch_each_way() -> None:
    assert verdicts(epochs().assign(success=[0.5, 1.0, 1.0, 1.0]))[3] == "differs"
    assert verdicts(epochs().assign(success=1.0))[3] == "in part"


@pytest.mark.parametrize("bits", [-3, 0])
def test_the_bound_follows_the_longest_row(bits: int) -> None:
    features = pd.DataFrame([[3.0, 4.0], [0.0, 1.0]]).to_numpy() * 2.0**bits
    assert rounding_bound(features, 10, 0.4) == pytest.approx(10 * 0.1 * 2 * 2.0**-33 * 5 * 2.0**bits)
