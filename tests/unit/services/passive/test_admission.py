"""Which alignments a passive party begins, and when training may end."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from services.common.agreement import ProposedTerms
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder, PeerVanished
from services.common.identity import Identity, Role
from services.common.meters import StageTimer
from services.common.settings import load_settings
from services.passive.common_order import REFUSED
from services.passive.party import PassiveParty
from tests.harness.direct_parties import DirectCoordinator, DirectPassive
from tests.harness.parties import ACTIVE, House, house, party_data, small_settings
from vfl.data import PsiClient

PLAIN = small_settings(cipher="plain")
OTHER = Identity(Role.ACTIVE, "other")


def aligned(home: House, ids: list[str]) -> tuple[PassiveParty, str]:
    """A passive party whose alignment about these ids was answered to its end."""
    party, session_id = home.passive["passive"], home.opened()
    party.set_up_alignment(ACTIVE, session_id, len(ids))
    list(party.align(ACTIVE, session_id, PsiClient(ids).request()))
    return party, session_id


# -- the set-up -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session_id", ["deadbeef", "x" * 32, "0" * 33, "A" * 32, "0" * 31 + "\n", "é" * 32])
def test_what_no_coordinator_has_made_is_no_session_id(tmp_path: Path, session_id: str) -> None:
    with house(tmp_path, settings=PLAIN) as home, pytest.raises(InvalidMessage, match="no session id"):
        home.passive["passive"].set_up_alignment(ACTIVE, session_id, 2)


def test_a_session_that_the_coordinator_doesnt_know_is_not_aligned(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        party = home.passive["passive"]
        with pytest.raises(OutOfOrder, match="Unknown session"):
            party.set_up_alignment(ACTIVE, "deadbeef" * 4, 2)
        ended = home.opened()
        home.sessions.end(ACTIVE, ended, "enough.")
        with pytest.raises(OutOfOrder, match="has ended: enough"):
            party.set_up_alignment(ACTIVE, ended, 2)


def test_only_the_sessions_own_parties_align(tmp_path: Path) -> None:
    two = [party_data(), party_data(seed=2)]
    with house(tmp_path, settings=PLAIN, passive=two) as home:
        session_id = home.sessions.open(ACTIVE, PLAIN.plan(), 2, ("passive-1",))
        with pytest.raises(NotAllowed, match="other is not this session's active party"):
            home.passive["passive-1"].set_up_alignment(OTHER, session_id, 2)
        with pytest.raises(NotAllowed, match="passive-2 is not a party"):
            home.passive["passive-2"].set_up_alignment(ACTIVE, session_id, 2)
        home.passive["passive-1"].set_up_alignment(ACTIVE, session_id, 2)


def test_what_is_refused_ends_no_session_and_uses_up_no_alignment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain", alignments_per_day=2)) as home:
        party, session_id = aligned(home, ["id-10", "id-11"])

        def silent(self: DirectCoordinator, asked: str) -> ProposedTerms:
            raise PeerVanished("coordinator does not answer.")

        with monkeypatch.context() as patch:
            patch.setattr(DirectCoordinator, "session_terms", silent)
            with pytest.raises(PeerVanished):
                party.set_up_alignment(ACTIVE, "0" * 32, 2)
        refused: list[Callable[[], object]] = [
            lambda: party.set_up_alignment(ACTIVE, "0" * 32, 2),
            lambda: party.set_up_alignment(ACTIVE, session_id, 2),
        ]
        for call in refused:
            with pytest.raises(OutOfOrder):
                call()
        party.fix_order(ACTIVE, session_id, [["id-10"]])
        party.set_up_alignment(ACTIVE, home.opened(), 2)
        with pytest.raises(OutOfOrder, match="active has had 2 alignments within 24 hours"):
            party.set_up_alignment(ACTIVE, home.opened(), 2)


def test_an_alignment_about_fewer_ids_than_the_owner_says_is_refused_and_not_counted(tmp_path: Path) -> None:
    settings = small_settings(cipher="plain", least_ids=20, alignments_per_day=1)
    with house(tmp_path, settings=settings) as home:
        party, session_id = home.passive["passive"], home.opened()
        for count in (1, 19):
            with pytest.raises(OutOfOrder, match=rf"active asks about {count} ids.*PLUMBLINE_LEAST_IDS"):
                party.set_up_alignment(ACTIVE, session_id, count)
        party.set_up_alignment(ACTIVE, session_id, 20)


def test_what_parties_before_have_left_over_counts_as_few(tmp_path: Path) -> None:
    passive = [party_data(rows=range(45, 70)), party_data(seed=2)]
    with (
        house(tmp_path, settings=small_settings(cipher="plain", least_ids=20), passive=passive) as home,
        pytest.raises(OutOfOrder, match=r"active asks about 15 ids.*20 or more at once.*PLUMBLINE_LEAST_IDS"),
    ):
        home.train()


def test_by_default_twenty_ids_are_the_least() -> None:
    assert load_settings().least_ids == 20


# -- the order --------------------------------------------------------------------------------------------------------


def test_an_order_comes_after_an_alignment_that_was_answered_to_its_end(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        party, session_id = home.passive["passive"], home.opened()
        party.set_up_alignment(ACTIVE, session_id, 2)
        for _ in range(2):
            with pytest.raises(OutOfOrder, match="Align first"):
                party.fix_order(ACTIVE, session_id, [["id-10"]])
        answers = party.align(ACTIVE, session_id, PsiClient(["id-10", "id-11"]).request())
        with pytest.raises(OutOfOrder, match="Align first"):
            party.fix_order(ACTIVE, session_id, [["id-10"]])
        list(answers)
        party.fix_order(ACTIVE, session_id, [["id-10"]])


def test_a_refused_order_ends_the_sessions_alignment(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        party, session_id = aligned(home, ["id-10", "\0x"])
        with pytest.raises(InvalidMessage, match=REFUSED):
            party.fix_order(ACTIVE, session_id, [["id-10", "\0x"]])
        with pytest.raises(OutOfOrder, match="was sent already"):
            party.fix_order(ACTIVE, session_id, [["id-10"]])
        with pytest.raises(OutOfOrder, match="Align before you join"):
            party.join(ACTIVE, session_id)
        with pytest.raises(OutOfOrder, match="aligned already"):
            party.align(ACTIVE, session_id, PsiClient(["id-10", "id-11"]).request())
        home.train()


def test_terms_other_than_those_at_the_set_up_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator that tells one plan before the alignment, and another one after it."""
    original = DirectCoordinator.session_terms

    def told(self: DirectCoordinator, session_id: str) -> ProposedTerms:
        terms: ProposedTerms = original(self, session_id)
        return replace(terms, plan=terms.plan.changed(learning_rate=0.25))

    monkeypatch.setattr(DirectCoordinator, "session_terms", told)
    with (
        house(tmp_path, settings=PLAIN) as home,
        pytest.raises(
            OutOfOrder, match=r"states learning_rate=0.5, and the plan that the session was opened with comes to 0.25"
        ),
    ):
        home.train()


# -- the end of training ----------------------------------------------------------------------------------------------


def test_training_does_not_end_while_an_epoch_runs_or_before_the_one_that_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: it waited for the epoch's end, and then ended the training of everybody.
    told: list[str] = []

    def finish_too_early(party: PassiveParty, session_id: str) -> None:
        for epoch in (0, 1, 7):
            with pytest.raises(OutOfOrder) as error:
                party.finish_training(ACTIVE, session_id, epoch)
            told.append(str(error.value))

    def run_epoch(self: DirectPassive, session_id: str, epoch: int, *_: int) -> None:
        def on_step(step: int, timer: StageTimer) -> None:
            if step == 1:
                # From another thread, as over the wire.
                early = threading.Thread(target=finish_too_early, args=(self.party, session_id))
                early.start()
                early.join(5)
                assert not early.is_alive(), "a refusal that waits for the epoch's end"

        self.party.run_epoch(self.caller, session_id, epoch, on_step)
        if epoch == 0:
            with pytest.raises(InvalidMessage, match="Epoch 1 was not run"):
                self.party.finish_training(ACTIVE, session_id, 1)

    monkeypatch.setattr(DirectPassive, "run_epoch", run_epoch)
    with house(tmp_path, settings=PLAIN) as home:
        outcome = home.train()
        assert len(outcome.epochs) == 2
        assert home.active.stage == "serving"
    assert told == ["An epoch is being trained: training ends when it is over."] * 3


def test_the_end_of_training_said_twice_mounts_its_attacks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once: each repetition wrote the record again, and started the attacks again on a thread of its own.
    attacked: list[str] = []
    original = PassiveParty.finish_training

    def twice(party: PassiveParty, caller: Identity, session_id: str, epoch: int, step: int) -> None:
        for _ in range(2):
            original(party, caller, session_id, epoch, step)

    monkeypatch.setattr(PassiveParty, "finish_training", twice)
    with house(tmp_path, settings=PLAIN) as home:
        context = home.passive["passive"]._context
        monkeypatch.setattr(context.adversary, "attack", lambda training, **_: attacked.append(training.name))
        home.train()
    assert attacked == ["passive"]
