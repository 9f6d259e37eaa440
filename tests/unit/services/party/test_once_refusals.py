"""What a party refuses of whoever has it go back: a sentence, nothing answered, nothing lost."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from services.common.errors import FederationError, OutOfOrder
from services.in_process.wired_trainings import ignore_step
from services.party.resumption import Place, Resumption, resumptions
from services.party.training_log import STEPS
from tests.harness.interruptions import interrupted, train_through
from tests.harness.once import ActivePeer
from tests.harness.parties import ACTIVE
from tests.harness.siege import besieged


def resumed(peer: ActivePeer, step: int, **changes: Any) -> None:
    """Have the victim go on from a step, in its next try unless another is named."""
    attempt = peer.party.stop_training(ACTIVE, peer.session_id).attempt + 1
    resumption = replace(Resumption(step, attempt=attempt), **changes)
    peer.party.resume_training(ACTIVE, peer.session_id, resumption)


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (lambda peer: resumed(peer, peer.completed + 1), "it can't go on from step"),
        (lambda peer: resumed(peer, 10**9), "it can't go on from step"),
        (lambda peer: resumed(peer, peer.completed - 2), "it can't go on from step"),
        (lambda peer: resumed(peer, peer.completed, attempt=0), "is told to begin try 0"),
        (lambda peer: resumed(peer, peer.completed, skipped=frozenset({peer.completed + 2})), "Only the step at which"),
    ],
    ids=["the next step", "a far step", "two steps back", "an old try", "a far skip"],
)
def test_a_claim_that_cant_be_true_changes_nothing(
    tmp_path: Path, claim: Callable[[ActivePeer], None], words: str
) -> None:
    with besieged(tmp_path, "passive", batch_size=8) as peer:
        for _ in range(3):
            peer.advance()
        peer.stop()
        state = peer.town.states["passive"]
        before, place = state.read(STEPS), peer.party.stop_training(ACTIVE, peer.session_id)
        for _ in range(3):
            with pytest.raises(OutOfOrder, match=words):
                claim(peer)
        assert state.read(STEPS) == before
        assert peer.party.stop_training(ACTIVE, peer.session_id) == place
        assert not peer.told
        assert peer.advance()


def test_a_try_that_no_message_can_name_is_refused_in_words() -> None:
    """A peer says in which try it is: one that has no next one must not end the job with a traceback."""
    with pytest.raises(OutOfOrder):
        resumptions({"active": Place(7), "passive": Place(7, attempt=2**32 - 1)})


def test_who_has_not_stopped_a_training_does_not_resume_it(tmp_path: Path) -> None:
    with besieged(tmp_path, "passive", batch_size=8) as peer:
        peer.advance()
        with pytest.raises(OutOfOrder, match="The training isn't interrupted: stop it first"):
            peer.party.resume_training(ACTIVE, peer.session_id, Resumption(peer.completed, attempt=1))
        assert peer.advance()


def test_an_epoch_of_another_try_is_not_run(tmp_path: Path) -> None:
    with besieged(tmp_path, "passive", batch_size=8) as peer:
        peer.advance()
        peer.interrupt()
        for attempt in (0, 2):
            with pytest.raises(OutOfOrder, match=f"is asked for an epoch of try {attempt}: stop the training"):
                peer.party.run_epoch(ACTIVE, peer.session_id, peer.epoch, ignore_step, attempt)
        # Refused as what would end a training, the session waits or has ended: it says so, and nothing was answered.
        assert not peer.told


@pytest.mark.parametrize("victim", ["active", "passive"])
def test_a_try_has_one_key(tmp_path: Path, victim: str) -> None:
    with besieged(tmp_path, victim, batch_size=8) as peer:
        peer.advance()
        peer.interrupt()
        peer.ready()
        known = peer._own
        peer.new_key()
        with pytest.raises(FederationError, match="has shown a key for this session already"):
            peer.show_key()
        peer._own = known
        assert peer.advance()


def test_a_folder_of_an_earlier_session_takes_no_part_in_a_later_one(tmp_path: Path) -> None:
    with besieged(tmp_path, "passive", batch_size=8) as peer:
        peer.advance()
        first = peer.session_id
        peer.town.copy_state()
        peer.begin()
        later, peer.completed = peer.session_id, 0
        peer.town.restart("passive")
        peer.town.kill("passive")
        peer.town.put_copy_back()
        peer.town.start("passive")
        for call in (peer.party.stop_training, peer.party.show_public_key):
            with pytest.raises(OutOfOrder, match="No such session here"):
                call(ACTIVE, later)
        assert peer.party.holds_session(first)


def test_two_peers_that_resume_differently_are_told_so_and_the_training_goes_on(tmp_path: Path) -> None:
    with interrupted(tmp_path, parties=3, cipher="paillier") as made, ThreadPoolExecutor(2) as threads:

        def strike(town: Any) -> None:
            life = town.lives["active"]
            life.dies_at = 40
            assert life.is_dead.wait(60)
            town.kill("active")
            session_id = town.passive("passive-1")._session.session_id
            parties = [town.passive(name) for name in ("passive-1", "passive-2")]
            places = [party.stop_training(ACTIVE, session_id) for party in parties]
            step = min(place.completed for place in places)
            for number, party in enumerate(parties):
                # One may refuse what the other takes.
                with suppress(OutOfOrder):
                    resumption = Resumption(max(step - number, 0), attempt=places[number].attempt + 1)
                    party.resume_training(ACTIVE, session_id, resumption)
            running = [
                threads.submit(party.run_epoch, ACTIVE, session_id, 0, ignore_step, places[number].attempt + 1)
                for number, party in enumerate(parties)
            ]
            for party in parties:
                party.stop_training(ACTIVE, session_id)
            wait(running)
            for one in running:
                assert isinstance(one.exception(), FederationError)

        train_through(made, "active", strike)
        assert made.train()
