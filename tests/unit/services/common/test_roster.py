"""Rosters on the wire, and the plan that follows them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from protos.v1 import common_pb2
from services.ciphers.default_plan import with_open_terms
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from services.common.roster import Roster
from tests.harness.agreements import agreed

ROSTER = Roster((10, 12, 5), (4,), 6, 2, 1, 5)


def agreement(roster: Roster = ROSTER, **plan: Any) -> Agreement:
    """Of two parties that remember these batches."""
    terms = agreed()
    parties = tuple(replace(party, aligned_rows=roster.total, roster=roster) for party in terms.parties)
    return replace(terms, plan=terms.plan.changed(**plan), parties=parties)


def test_an_agreement_keeps_its_roster_on_the_wire() -> None:
    terms = agreement(batch_size=12)
    read = Agreement.from_message(terms.to_message())
    assert read == terms
    assert read.plan.roster == ROSTER
    assert read.row_counts == (27, 4, 6)
    assert read.plan.steps_per_epoch(27) == 3
    assert read.plan.smallest_batch(27) == 5


def test_rows_follow_each_other_by_role_and_batch() -> None:
    plan = agreement(batch_size=12).plan
    rows = plan.split(ROSTER.total)
    assert [part.tolist() for part in plan.schedule(rows.train).epoch(3)] == [
        list(range(10)),
        list(range(10, 22)),
        list(range(22, 27)),
    ]
    assert rows.validation.tolist() == list(range(27, 31))
    assert rows.test.tolist() == list(range(31, 37))


def test_batches_are_merged_where_they_fit_and_never_cut() -> None:
    assert [len(part) for part in agreement(batch_size=17).plan.schedule(np.arange(27)).epoch(0)] == [10, 17]
    assert [len(part) for part in agreement(batch_size=27).plan.schedule(np.arange(27)).epoch(0)] == [27]
    small = with_open_terms(agreement(batch_size=3))
    assert small.plan.batch_size == 12
    assert [len(part) for part in small.plan.schedule(np.arange(27)).epoch(0)] == [10, 12, 5]


def test_reshuffled_batches_are_drawn_of_all_training_rows() -> None:
    plan = agreement(batch_size=9, batches="reshuffled").plan
    assert [len(part) for part in plan.schedule(np.arange(27)).epoch(0)] == [9, 9, 9]
    assert plan.steps_per_epoch(27) == 3


@pytest.mark.parametrize(
    "changes",
    [{"batches": ()}, {"batches": (3, 0)}, {"validation": (0,)}, {"least": 0}, {"waiting": 2**32 - 1}],
)
def test_rosters_that_no_session_has_are_refused(changes: dict[str, Any]) -> None:
    message = common_pb2.Roster(**vars(replace(ROSTER, **changes)))
    with pytest.raises(InvalidMessage):
        Roster.from_message(message)


def test_a_roster_of_other_records_is_refused() -> None:
    terms = agreement()
    parties = tuple(replace(party, aligned_rows=ROSTER.total - 1) for party in terms.parties)
    with pytest.raises(InvalidMessage, match="Expected 39 to 39 records of active, got 40"):
        Agreement.from_message(replace(terms, parties=parties).to_message())


def test_it_says_who_is_in_no_role_and_why() -> None:
    waiting, held = ROSTER.sentences
    assert waiting.startswith("In no role yet: 2 records of 40.")
    assert waiting.endswith("once 5 have come that were in no batch before.")
    assert held == "In no role until they have a label: 1 record of 40."
    assert not replace(ROSTER, waiting=0, held=0).sentences
