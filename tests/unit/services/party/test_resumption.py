"""Where an interrupted training goes on: a function of what the parties tell, and what a party refuses of it."""

import itertools

import pytest

from services.common.errors import OutOfOrder
from services.party.resumption import Place, Resumption, check_interruptions, check_resumption, resumptions

A, B = "active", "passive"


def only(*names: str) -> frozenset[str]:
    return frozenset(names)


def only_steps(*steps: int) -> frozenset[int]:
    return frozenset(steps)


def test_all_go_on_from_the_lowest_step() -> None:
    agreed = resumptions({A: Place(8), B: Place(7)})
    assert {name: one.step for name, one in agreed.items()} == {A: 7, B: 7}
    assert not agreed[A].skipped


def test_who_still_has_its_question_asks_it_again() -> None:
    agreed = resumptions({A: Place(7, asked=only(B)), B: Place(7, {7: only(A)})})
    assert agreed[A] == Resumption(7, answered_by=only(B), attempt=1)
    assert agreed[B] == Resumption(7)


def test_a_question_that_was_not_answered_is_asked_anew() -> None:
    assert resumptions({A: Place(7, asked=only(B)), B: Place(7, {6: only(A)})})[A].answered_by == only()


def test_a_step_whose_answer_nobody_can_read_is_skipped_by_all() -> None:
    agreed = resumptions({A: Place(7), B: Place(7, {7: only(A)})})
    assert agreed[A].skipped == agreed[B].skipped == {7}


def test_who_is_ahead_and_has_lost_a_mask_skips_its_own_step() -> None:
    agreed = resumptions({A: Place(8), B: Place(7), "third": Place(8, {7: only(A, B), 8: only(A)}, only(A))})
    # B was answered in step 7 and has nothing to read it with: so step 7 falls, and step 8, which was answered.
    assert agreed[A].skipped == {7, 8}
    agreed = resumptions({A: Place(8), B: Place(7), "third": Place(8, {7: only(A), 8: only(A)}, only(A))})
    assert agreed[A].skipped == {8}


def test_what_one_party_has_skipped_already_the_others_skip_as_well() -> None:
    assert resumptions({A: Place(8, skipped=only_steps(7)), B: Place(7)})[B].skipped == {7}
    assert not resumptions({A: Place(8, skipped=only_steps(7)), B: Place(8)})[B].skipped


def test_a_step_is_sent_of_one_partys_weights_only() -> None:
    third = Place(8)
    agreed = resumptions({A: Place(8, {7: only(B, "third")}), B: Place(7), "third": third})["third"]
    # Both that are ahead may have sent step 8, of weights that they give up.
    assert agreed.skipped == {7, 8}
    check_resumption(agreed, third, kept=(7, 8), steps_per_epoch=5, skipped=0)
    with pytest.raises(OutOfOrder, match="A step that was to be passed over can't be done"):
        check_resumption(Resumption(7, frozenset({7})), third, kept=(7, 8), steps_per_epoch=5, skipped=0)
    # What was agreed on stays, whatever happens before it is done.
    with pytest.raises(OutOfOrder, match="A step that was to be passed over can't be done"):
        check_resumption(Resumption(8), Place(8, skipped=only_steps(7, 8)), kept=(8,), steps_per_epoch=5, skipped=2)
    # It has passed over step 7 already, and goes on with the same weights.
    assert resumptions({A: Place(7), B: Place(8, skipped=only_steps(7))})[B].skipped == {7}


def test_each_try_has_a_larger_number_than_any_before() -> None:
    agreed = resumptions({A: Place(7, attempt=2), B: Place(7, attempt=3)})
    assert agreed[A].attempt == agreed[B].attempt == 4
    with pytest.raises(OutOfOrder, match="is in try 3 of this training, and is told to begin try 3"):
        check_resumption(Resumption(7, attempt=3), Place(7, attempt=3), kept=(7,), steps_per_epoch=5, skipped=0)


def test_nobody_goes_back_to_a_step_whose_weights_are_gone() -> None:
    with pytest.raises(OutOfOrder, match="can go on from step 7: it can't go on from step 6"):
        check_resumption(Resumption(6), Place(7), kept=(7,), steps_per_epoch=5, skipped=0)


def test_who_has_a_training_interrupted_too_often_is_refused_by_name() -> None:
    check_interruptions({B: 4, A: 3}, B, 8)
    words = "was interrupted 8 times, 5 of them by passive, and goes on after no more than 8"
    with pytest.raises(OutOfOrder, match=words):
        check_interruptions({B: 5, A: 3}, B, 8)


def test_an_older_state_is_refused_by_name() -> None:
    with pytest.raises(OutOfOrder, match="passive has completed 5 steps of this training and active more than 6"):
        resumptions({A: Place(7), B: Place(5)})


def test_no_step_is_asked_about_twice_whatever_the_places() -> None:
    """In every situation of two parties: a step that goes on was answered to nobody, or to who can read the answer."""
    places = [
        Place(done, {at: only("x") for at in answered}, only("x") if asks else only())
        for done in (7, 8)
        for answered in ((), (7,), (8,), (7, 8))
        for asks in (False, True)
    ]
    for one, other in itertools.product(places, repeat=2):
        named = {}
        for name, peer, place in ((A, B, one), (B, A, other)):
            answered = {at: only(peer) for at in place.answered}
            named[name] = Place(place.completed, answered, only(peer) if place.asked else only())
        agreed = resumptions(named)
        for name, peer in ((A, B), (B, A)):
            at = named[name].completed
            if at not in agreed[name].skipped and name in named[peer].answered.get(at, ()):
                assert peer in named[name].asked
                assert peer in agreed[name].answered_by
            # Weights behind a step that is passed over are given up, and what was sent of them isn't sent again.
            if agreed[name].step in agreed[name].skipped and named[peer].completed > agreed[name].step:
                assert len(agreed[name].skipped) == 2


@pytest.mark.parametrize(
    ("resumption", "words"),
    [
        (Resumption(5), "has completed 7 steps and can go on from step 6 or 7: it can't go on from step 5"),
        (Resumption(8), "it can't go on from step 8"),
        (Resumption(7, frozenset({3})), "Only the step at which a training goes on"),
        (Resumption(7, frozenset({7, 8})), "5 steps of this training would be passed over, as many as an epoch has"),
    ],
)
def test_a_party_refuses_what_its_own_state_contradicts(resumption: Resumption, words: str) -> None:
    with pytest.raises(OutOfOrder, match=words):
        check_resumption(resumption, Place(7), kept=(6, 7), steps_per_epoch=5, skipped=3)


def test_a_party_goes_back_by_one_step_and_skips_fewer_than_an_epoch_has() -> None:
    check_resumption(Resumption(6), Place(7), kept=(6, 7), steps_per_epoch=1, skipped=0)
    check_resumption(Resumption(7, frozenset({7})), Place(7), kept=(6, 7), steps_per_epoch=5, skipped=3)
