"""Entering a session: what is refused leaves nothing behind."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.adversary.training import TrainingAdversary
from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.errors import OutOfOrder
from services.common.meters import TrafficMeter
from services.common.settings import Settings
from services.party.context import PartyContext
from services.party.party_defences import PartyDefences
from services.party.record import RunRecord
from services.party.session import PartySession, join
from tests.harness.parties import house, party_data, small_settings
from vfl.crypto import PrivateKey
from vfl.data.columns import EncodedColumn
from vfl.data.typed_tables import TypedTable

ROWS = np.arange(40)


class Alone:
    """A coordinator whose other party is there already."""

    def __init__(self, plan: TrainingPlan) -> None:
        self._plan = plan

    def join_session(self, session_id: str, party: PartyDescription) -> Agreement:
        other = PartyDescription("active", 3, 0, False, party.aligned_rows)
        return Agreement(session_id, self._plan, 2, (other, party))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"entering a session doesn't ask for {name}")


class Noting(RunRecord):
    """Remembers which sessions it was begun for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "passive", TrafficMeter())
        self.begun: list[str] = []

    def begin(self, agreement: Agreement, columns: tuple[EncodedColumn, ...], table: TypedTable | None = None) -> None:
        self.begun.append(agreement.session_id)
        super().begin(agreement, columns, table)


def context(folder: Path, settings: Settings, plan: TrainingPlan | None = None) -> PartyContext:
    return PartyContext(
        name="passive",
        data=party_data(),
        settings=settings,
        coordinator=Alone(plan or settings.plan()),
        peers={"active": Any},  # type: ignore[dict-item]
        record=Noting(folder),
        executor=None,  # type: ignore[arg-type]
        adversary=TrainingAdversary({}, "passive", None),
        defences=PartyDefences(),
    )


def terms_of(made: PartyContext) -> ProposedTerms:
    return ProposedTerms("one", "active", ("passive",), made.settings.plan(), 2)


def test_a_session_has_the_terms_the_weights_and_both_kinds_of_warnings(tmp_path: Path) -> None:
    made = context(tmp_path, small_settings(batch_size=6))
    session = PartySession.open(made, join(made, terms_of(made), ROWS))
    assert session.agreement.session_id == "one"
    assert session.training.half.weights.shape == (3, 1)
    assert any("512-bit" in warning for warning in session.terms_warnings)
    assert any("could learn passive's part of each record's score" in warning for warning in session.guard_warnings)
    assert isinstance(made.record, Noting)
    assert made.record.begun == ["one"]


@pytest.mark.parametrize("refuses", ["settings", "guard"])
def test_terms_that_are_refused_leave_no_record(tmp_path: Path, refuses: str) -> None:
    settings = small_settings(batch_size=6, guard="refuse" if refuses == "guard" else "warn")
    plan = small_settings(cipher="plain").plan() if refuses == "settings" else settings.plan()
    made = context(tmp_path, settings, plan)
    joined = join(made, terms_of(made), ROWS)
    with pytest.raises(OutOfOrder):
        PartySession.open(made, joined)
    assert isinstance(made.record, Noting)
    assert made.record.begun == []
    assert list(tmp_path.iterdir()) == []


def keys_held() -> int:
    """Private keys in this process's memory."""
    return sum(isinstance(one, PrivateKey) for one in gc.get_objects())


@pytest.mark.parametrize("protocol", ["hu", "shared"])
def test_keys_of_sessions_before_do_not_stay_in_memory(tmp_path: Path, protocol: str) -> None:
    """Once a party that nobody restarted held those of dozens of sessions: Python's collector looks rarely."""
    settings = small_settings(protocol=protocol, epochs=1, patience=0, batch_size=19)
    held = []
    gc.disable()
    try:
        with house(tmp_path, settings=settings) as home:
            for _ in range(5):
                home.train()
                held.append(keys_held())
    finally:
        gc.enable()
    assert held[0] > 0
    # Of the session that ended last, and the one before it: no more for each.
    assert held[4] <= held[2]
