"""What a vector of Protocol 1 may look like, and what happens when none comes."""

import threading
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from services.common.agreement import TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder, PeerVanished
from services.common.meters import StageTimer
from services.exchange.vectors import DecryptedVector, WireVector
from tests.harness.ciphers import CIPHERS, PLAIN, TINY, in_thread
from tests.harness.exchanges import (
    exchange_pair,
    modulus_of,
    random_problem,
    run_together,
    wired,
)

# -- what a vector may look like --------------------------------------------------------------------------------------


def _tampered(vector: WireVector, n: int, p: int) -> dict[str, tuple[WireVector, str]]:
    """Every way in which a vector can be wrong, with the words of its refusal."""

    def first(value: int) -> WireVector:
        return replace(vector, data=value.to_bytes(vector.width, "big") + vector.data[vector.width :])

    return {
        "key id": (replace(vector, key_id="f" * 16), "Wrong key id"),
        "fewer": (replace(vector, count=vector.count - 1), "Wrong count"),
        "more": (replace(vector, count=vector.count + 1), "Wrong count"),
        "narrow": (replace(vector, width=vector.width - 1), "Wrong width"),
        "wide": (replace(vector, width=vector.width + 1), "Wrong width"),
        "exponent": (replace(vector, exponent=vector.exponent - 1), "Wrong exponent"),
        "short": (replace(vector, data=vector.data[:-1]), "bytes of values"),
        "long": (replace(vector, data=vector.data + b"\0"), "bytes of values"),
        "empty": (replace(vector, data=b""), "bytes of values"),
        "zero": (first(0), "not between 0 and n"),
        "n squared": (first(n * n), "not between 0 and n"),
        "largest": (first(2 ** (8 * vector.width) - 1), "not between 0 and n"),
        "n": (first(n), "shares a factor"),
        "multiple of p": (first(5 * p), "shares a factor"),
    }


TAMPERINGS = sorted(_tampered(WireVector("", 1, 64, 0, b""), 35, 5))


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_wrong_residuals_are_refused_and_the_right_ones_are_still_taken(tampering: str, packing: bool) -> None:
    pair = exchange_pair(replace(TINY, packing=packing), rows=6)
    key = pair.peer._cipher._messages.private_key  # type: ignore[attr-defined]
    good = pair.peer_residuals(0)
    bad, words = _tampered(good, key.public_key.n, key.p)[tampering]
    with pytest.raises(InvalidMessage, match=words):
        pair.exchange.receive("passive", "residuals", 0, bad)
    pair.exchange.receive("passive", "residuals", 0, good)


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_wrong_sums_are_refused_and_do_not_use_up_the_one_answer(tampering: str, packing: bool) -> None:
    pair = exchange_pair(replace(TINY, packing=packing), rows=6)
    key = pair.exchange._cipher._messages.private_key  # type: ignore[attr-defined]
    good = pair.peer_sums(pair.exchange.outgoing_residuals(0, np.zeros((6, 1))).make())
    bad, words = _tampered(good, key.public_key.n, key.p)[tampering]
    with pytest.raises(InvalidMessage, match=words):
        pair.exchange.answer("passive", "sums", 0, bad)
    assert pair.exchange.answer("passive", "sums", 0, good).count == good.count


def test_plain_vectors_are_checked_as_well() -> None:
    pair = exchange_pair(PLAIN)
    good = pair.peer_residuals(0)
    for bad, words in (
        (replace(good, key_id="INSECURE-plain-active"), "Wrong key id"),
        (replace(good, count=3), "Wrong count"),
        (replace(good, data=good.data[8:]), "bytes of values"),
        (replace(good, data=np.array([np.nan, 0, 0, 0]).astype(">f8").tobytes()), "finite"),
        (replace(good, data=np.array([0, np.inf, 0, 0]).astype(">f8").tobytes()), "finite"),
    ):
        with pytest.raises(InvalidMessage, match=words):
            pair.exchange.receive("passive", "residuals", 0, bad)
    pair.exchange.receive("passive", "residuals", 0, good)


@CIPHERS
def test_a_wrong_answer_is_refused_and_the_right_one_is_still_taken(plan: TrainingPlan) -> None:
    pair = exchange_pair(plan)
    pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0))
    pair.peer.outgoing_residuals(0, np.zeros((4, 1))).make()
    sums = pair.exchange.masked_sums(0, "passive", np.ones((4, 3)), StageTimer())
    good = pair.peer.answer("active", "sums", 0, sums)
    for bad in (
        replace(good, count=good.count + 1),
        replace(good, width=good.width * 2),
        replace(good, data=good.data[:-1]),
        replace(good, data=good.data + good.data),
    ):
        with pytest.raises(InvalidMessage, match="Expected"):
            pair.exchange.gradient_share("passive", bad)
    np.testing.assert_allclose(pair.exchange.gradient_share("passive", good), 2.0, atol=1e-8)


def test_a_residue_beyond_the_modulus_and_a_nonsensical_one_are_refused() -> None:
    pair = exchange_pair(TINY, truncating=False)
    pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0))
    sums = pair.exchange.masked_sums(0, "passive", np.ones((4, 3)), StageTimer())
    width = TINY.key_bits // 8
    n = modulus_of(pair.peer.public_key)
    with pytest.raises(InvalidMessage, match=r"not in \[0, n\)"):
        pair.exchange.gradient_share("passive", DecryptedVector(sums.count, width, n.to_bytes(width, "big")))


# -- silence ----------------------------------------------------------------------------------------------------------


def test_a_peer_that_never_answers_has_vanished_after_the_timeout() -> None:
    pair = exchange_pair(PLAIN, timeout=0.05)
    with pytest.raises(PeerVanished, match=r"Waited 0\.05 s for passive's residuals of step 0"):
        pair.exchange.masked_sums(0, "passive", np.ones((4, 3)), StageTimer())
    with pytest.raises(PeerVanished, match="passive's public key"):
        exchange_pair(PLAIN, timeout=0.05, keys=False).exchange.await_keys()


def test_the_end_wakes_whoever_waits_and_stays_the_reason_of_every_later_refusal() -> None:
    pair = exchange_pair(PLAIN, timeout=60)
    reached = threading.Event()

    class Timer(StageTimer):
        def stage(self, name: str):  # type: ignore[no-untyped-def]
            reached.set()
            return super().stage(name)

    with in_thread() as threads:
        waiting: Future[WireVector] = threads.submit(pair.exchange.masked_sums, 0, "passive", np.ones((4, 3)), Timer())
        assert reached.wait(5)
        pair.exchange.end("the operator has gone.")
        with pytest.raises(OutOfOrder, match=r"The session has ended: the operator has gone\."):
            waiting.result(timeout=5)
    pair.exchange.end("another reason")
    for call in (
        lambda: pair.exchange.receive_key("passive", pair.peer.public_key),
        lambda: pair.exchange.receive("passive", "residuals", 0, pair.peer_residuals(0)),
        lambda: pair.exchange.answer("passive", "sums", 0, pair.peer_residuals(0)),
        lambda: pair.exchange.outgoing_residuals(0, np.zeros((4, 1))).make(),
        pair.exchange.await_keys,
    ):
        with pytest.raises(OutOfOrder, match="the operator has gone"):
            call()


def test_a_vanished_peer_ends_the_session_and_weights_stay_as_they_were() -> None:
    problem = random_problem()
    with wired(problem, PLAIN, timeout=0.05) as trainings:
        active, passive = trainings["active"], trainings["passive"]
        for training in trainings.values():
            training.side.show_public_key()
        before = active.half.weights.copy()
        with pytest.raises(PeerVanished, match="passive's residuals of step 0"):
            active.run_epoch(0, lambda step, timer: None)
        np.testing.assert_array_equal(active.half.weights, before)
        with pytest.raises(OutOfOrder, match="active stopped in epoch 0"):
            active.run_epoch(0, lambda step, timer: None)
        with pytest.raises(OutOfOrder, match="active stopped in epoch 0"):
            passive.run_epoch(0, lambda step, timer: None)


@pytest.mark.parametrize("epoch", [-1, 1, 3, 99])
def test_epochs_run_in_order_and_not_beyond_the_plan(epoch: int) -> None:
    with wired(random_problem(), PLAIN) as trainings, pytest.raises(OutOfOrder, match="0 are done"):
        trainings["active"].run_epoch(epoch, lambda step, timer: None)


def test_an_epoch_that_was_not_run_cannot_be_kept() -> None:
    with wired(random_problem(), PLAIN) as trainings:
        run_together(trainings, 1)
        for epoch in (-1, 1):
            with pytest.raises(InvalidMessage, match=f"Epoch {epoch} was not run: 1 were"):
                trainings["active"].keep_epoch(epoch)


def test_the_epoch_that_was_kept_stays_the_one() -> None:
    with wired(random_problem(), PLAIN) as trainings:
        run_together(trainings, 3)
        passive = trainings["passive"]
        passive.keep_epoch(1)
        kept = passive.half.weights.copy()
        passive.keep_epoch(1)
        for epoch in (0, 2):
            with pytest.raises(OutOfOrder, match="Training has ended with epoch 1"):
                passive.keep_epoch(epoch)
        np.testing.assert_array_equal(passive.half.weights, kept)


@pytest.mark.parametrize("rows", [[], [37], [0, 10**9]])
def test_scores_of_rows_that_do_not_exist_are_refused(rows: list[int]) -> None:
    with (
        wired(random_problem(rows=37), PLAIN) as trainings,
        pytest.raises(InvalidMessage, match="rows below 37, at least one"),
    ):
        trainings["active"].model_for(rows).partial_scores(rows)
