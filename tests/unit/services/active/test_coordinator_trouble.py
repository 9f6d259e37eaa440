"""An active party whose coordinator dies while the parties agree, or states what it shouldn't."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common.agreement import Agreement, PartyDescription
from services.common.errors import FederationError, InvalidMessage, OutOfOrder, PeerVanished
from services.common.identity import Identity
from services.passive.party import PassiveParty
from tests.harness.direct_parties import DirectCoordinator
from tests.harness.parties import active_data, house, small_settings
from vfl.arrays import FloatArray

PLAIN = small_settings(cipher="plain")


def test_a_coordinator_that_dies_while_agreeing_leaves_one_line_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Once: the callback that ends the session there raised, and its future logged a page.
    def dead(*_: object) -> None:
        raise PeerVanished("coordinator does not answer.")

    def refused(self: PassiveParty, caller: Identity, session_id: str) -> Agreement:
        raise PeerVanished("coordinator does not answer.")

    monkeypatch.setattr(DirectCoordinator, "join_session", dead)
    monkeypatch.setattr(DirectCoordinator, "end_session", dead)
    monkeypatch.setattr(PassiveParty, "join", refused)
    with house(tmp_path, settings=PLAIN) as home, pytest.raises(PeerVanished):
        home.train()
    assert not [record for record in caplog.records if record.exc_info]
    assert "Could not end the session everywhere: coordinator does not answer." in caplog.messages


@pytest.mark.parametrize(
    "change",
    [
        lambda agreement: replace(agreement, plan=replace(agreement.plan, epochs=9999)),
        lambda agreement: replace(agreement, classes=3),
        lambda agreement: replace(
            agreement, parties=(*agreement.parties, replace(agreement.parties[1], name="stranger"))
        ),
        lambda agreement: replace(agreement, parties=agreement.parties[:1]),
        lambda agreement: replace(
            agreement, parties=(agreement.parties[0], replace(agreement.parties[1], aligned_rows=8_000_000))
        ),
    ],
    ids=["plan", "classes", "a stranger", "alone", "rows"],
)
def test_an_agreement_on_anything_but_what_was_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Agreement], Agreement]
) -> None:
    original = DirectCoordinator.join_session

    def other(self: DirectCoordinator, session_id: str, party: PartyDescription) -> Agreement:
        agreement = original(self, session_id, party)
        return change(agreement) if party.name == "active" else agreement

    monkeypatch.setattr(DirectCoordinator, "join_session", other)
    with house(tmp_path, settings=PLAIN) as home:
        with pytest.raises(OutOfOrder, match=r"agreement|states other parties or classes|was opened with comes to"):
            home.train()
        assert home.active.stage == "failed"


@pytest.mark.parametrize(
    "change",
    [lambda scores: scores[:1], lambda scores: scores * 2, lambda scores: np.hstack([scores, scores]), np.negative],
    ids=["rows", "range", "columns", "negative"],
)
def test_scores_that_are_none_fail_the_question_and_not_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], Any]
) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        home.train()
        ids = ["id-10", "id-20"]
        honest = home.active.predict(ids)
        original = DirectCoordinator.score

        def other(self: DirectCoordinator, session_id: str, request_id: int, products: FloatArray) -> FloatArray:
            return np.asarray(change(original(self, session_id, request_id, products)))

        with monkeypatch.context() as patch:
            patch.setattr(DirectCoordinator, "score", other)
            with pytest.raises(InvalidMessage, match="The coordinator answers with"):
                home.active.predict(ids)
        np.testing.assert_array_equal(list(home.active.predict(ids).values()), list(honest.values()))


def test_a_label_column_of_too_many_classes_is_said_so_at_once(tmp_path: Path) -> None:
    labels = [f"value-{row}" for row in range(120)]
    with (
        house(tmp_path, settings=PLAIN, active=active_data(rows=range(120), labels=labels)) as home,
        pytest.raises(FederationError, match=r"120 classes: at most 100 can be learned\. Check the label column"),
    ):
        home.train()
