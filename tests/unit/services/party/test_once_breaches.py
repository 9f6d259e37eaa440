"""Promises of "once" that a peer once broke on the wire, each as it did: its messages, and what they bought it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from defences import load
from tests.harness.once import ActivePeer, Claim, Peer
from tests.harness.once_sharing import sharing
from tests.harness.siege import besieged
from tests.unit.services.party.test_once import NETWORK, SHARED_NETWORK, promises_of

INTERRUPTIONS = 80
# One step behind, and that step is passed over: its mask was lost.
BACK_AND_SKIPPED = Claim(back=1, skipped=frozenset({0}), still_asks=False)
BACK = Claim(back=1)
# Of every protocol that sends something under a key: who is attacked, under which terms.
ENCRYPTED = [("active", {}), ("passive", {}), ("active", NETWORK)]
IDS = ["labels of a linear model", "columns of a linear model", "labels of a network"]


def extra_answers(peer: Peer) -> int:
    """Answers beyond one for each step of which anything real was sent."""
    return len(peer.told) - len({one.step for one in peer.shown if one.is_real})


def ask_as_any(peer: Peer, features: Any = None) -> None:
    """Ask about what the victim sends in this try, as the step itself and as those around it."""
    if peer.ready() and (shown := peer.latest()) is not None:
        for step in (shown.step - 1, shown.step - 2, shown.step + 1, shown.step):
            peer.ask(shown, step, features)


def needs_torch(terms: Any) -> None:
    if terms:
        pytest.importorskip("torch")


def redo(peer: Peer, claim: Claim, features: Any = None) -> bool:
    """Interrupt, ask about what is sent again, and do the step; whether the victim took the claim."""
    peer.holds_back = False
    if not peer.interrupt(claim):
        return False
    peer.holds_back = peer.agreement.plan.family.spec.forwards
    ask_as_any(peer, features)
    peer.acknowledge()
    peer.advance()
    return True


@pytest.mark.slow("eighty interruptions of a training")
@pytest.mark.parametrize(("victim", "terms"), ENCRYPTED, ids=IDS)
def test_a_step_that_is_skipped_over_and_over_is_answered_no_more(
    tmp_path: Path, victim: str, terms: dict[str, Any]
) -> None:
    needs_torch(terms)
    with besieged(tmp_path, victim, batch_size=8, **terms) as peer:
        for _ in range(3):
            peer.advance()
        ask_as_any(peer)
        peer.interrupt(Claim(skipped=frozenset({0}), still_asks=False))
        peer.advance()
        for _ in range(INTERRUPTIONS):
            redo(peer, BACK_AND_SKIPPED)
        assert extra_answers(peer) <= 0
        assert promises_of(peer) == []


@pytest.mark.slow("eighty interruptions of a training")
@pytest.mark.parametrize(("victim", "terms"), ENCRYPTED, ids=IDS)
def test_an_interruption_of_any_step_buys_no_answer(tmp_path: Path, victim: str, terms: dict[str, Any]) -> None:
    needs_torch(terms)
    # One long epoch: a step a round.
    with besieged(tmp_path, victim, rows=range(200), batch_size=4, epochs=1, **terms) as peer:
        for _ in range(2):
            peer.advance()
        for _ in range(INTERRUPTIONS // 2):
            ask_as_any(peer)
            peer.advance()
            redo(peer, BACK)
        assert extra_answers(peer) <= 0
        assert promises_of(peer) == []


@pytest.mark.slow("eighty interruptions of a training")
@pytest.mark.parametrize("victim", ["active", "passive"])
def test_noise_is_not_averaged_by_interruptions(tmp_path: Path, victim: str) -> None:
    with besieged(tmp_path, victim, batch_size=8, defending=[load("dp_noise", sigma=0.5)]) as peer:
        for _ in range(3):
            peer.advance()
        peer.ready()
        step = peer.completed
        features = np.eye(peer.rows_of(step))[:, : peer.agreement.party(peer.name).feature_count]
        ask_as_any(peer, features)
        peer.interrupt(Claim(skipped=frozenset({0}), still_asks=False))
        peer.advance()
        for _ in range(INTERRUPTIONS):
            redo(peer, BACK_AND_SKIPPED, features)
        true = features.T @ peer.shares[step]
        sums = [one.sums for one in peer.told.values() if np.abs(one.sums - true).max() < 10 * 0.5]
        assert sums
        first, mean = (float(np.sqrt(np.mean((one - true) ** 2))) for one in (sums[0], np.mean(sums, axis=0)))
        assert mean > 0.9 * first, f"{len(sums)} answers leave {mean / first:.2f} of the noise of one"
        # What is under the key was drawn once as well.
        assert promises_of(peer) == []


def history(peer: ActivePeer, draw: Callable[[int], int], most: int) -> None:
    """Epochs, each of which is validated, gone back to, and validated again, in an order that ``draw`` says."""
    for _ in range(most):
        choice = draw(4)
        if choice < 2 or peer.completed == 0:
            for _ in range(draw(peer.steps_per_epoch) + 1):
                peer.advance()
        elif choice == 2:
            claim = Claim(back=draw(2), skipped=frozenset({0} if draw(2) else ()), still_asks=bool(draw(2)))
            (peer.interrupt if draw(3) else peer.restart)(claim)
        peer.validate()


def test_a_model_that_is_another_one_is_another_form_whatever_the_epoch(tmp_path: Path) -> None:
    with besieged(tmp_path, "passive", batch_size=4, columns=20, rows=range(100), epochs=8) as peer:
        for _ in range(7):
            while peer.advance() and peer.completed % peer.steps_per_epoch:
                continue
            peer.validate()
            peer.interrupt(BACK_AND_SKIPPED)
            peer.advance()
            peer.validate()
        assert peer.forms_told > 1
        assert peer.forms_counted >= peer.forms_told


def test_an_interrupted_epoch_is_not_scored_in_its_midst(tmp_path: Path) -> None:
    """Scores are agreed on between epochs: whoever stops after any step would choose of which weights they are."""
    with besieged(tmp_path, "passive", batch_size=8, columns=12) as peer:
        for _ in range(peer.steps_per_epoch):
            peer.advance()
        for _ in range(4):
            peer.advance()
            peer.stop()
            assert not peer.validate()
            peer.resume_honestly()
            assert not peer.validate()


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(3, 100))]
)
def test_forms_are_counted_in_random_histories(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    with besieged(tmp_path, "passive", batch_size=4, columns=20, rows=range(100), epochs=8) as peer:
        history(peer, lambda most: int(generator.integers(most)), 40)
        assert peer.forms_counted >= peer.forms_told
        assert promises_of(peer) == []


@pytest.mark.parametrize("terms", [{}, SHARED_NETWORK], ids=["linear", "network"])
@pytest.mark.parametrize("backs", [(1, 1), (1, 2), (2, 1), (0, 1, 1, 0)])
def test_whoever_goes_back_again_and_again_leaves_a_folder_that_can_be_read(
    tmp_path: Path, terms: dict[str, Any], backs: tuple[int, ...]
) -> None:
    needs_torch(terms)
    with sharing(tmp_path, **terms) as town:
        town.run(25)
        reached = [place.completed] if (place := town.stop()) else []
        for back in backs:
            place = town.stop()
            assert place is not None
            town.resume(place.completed - back)
            town.check_folder()
            reached.append(place.completed - back)
        # Its next process is there, and says where it is.
        town.restart("passive")
        place = town.stop()
        assert place is not None
        assert min(reached) <= place.completed <= max(reached)
