"""Validations on shares: the loss of float64 to a word's last bit, and nothing else for anybody."""

import gc
import secrets
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.active.interfaces import EpochOutcome
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder, PeerVanished
from services.common.state_folder import StateInMemory, StateNotKept
from services.exchange.opening_ledger import LEDGER, OpeningLedger, opened_in
from services.exchange.peer import Peer
from services.protocols.shared.share_exchange import ShareExchange
from services.protocols.shared.share_messages import Kind
from services.protocols.shared.shared_steps import SharedSteps
from services.protocols.shared.shared_terms import SharedTerms
from tests.harness.parties import Watcher, active_data, house, party_data, small_settings
from tests.harness.shared_sessions import SHARED_PLAN, SharedProblem, WatchedEngine
from tests.harness.shared_wiring import as_session, direct, run_all, wired_shares
from tests.harness.sides import do_step
from vfl.arrays import FloatArray
from vfl.crypto.sharing.shared_squares import WORD_BITS

PLAN = SHARED_PLAN.changed(protocol="shared", epochs=3, patience=3, validation_fraction=0.4)
PASSIVE = "passive-1"


def train(parties: Mapping[str, SharedSteps], terms: SharedTerms, epochs: int = 3) -> list[float]:
    """Run every party's epochs with a thread for each; the label party's losses."""
    for one in parties.values():
        one.show_public_key()
    with ThreadPoolExecutor(len(parties)) as threads:
        running = {name: threads.submit(_run, one, terms, epochs) for name, one in parties.items()}
        found = {name: done.result() for name, done in running.items()}
    assert all(loss is None for loss in found[PASSIVE])
    return found["active"]


def _run(party: SharedSteps, terms: SharedTerms, epochs: int) -> list[Any]:
    party.begin_epoch()
    losses, steps = [], terms.schedule.steps_per_epoch
    for epoch in range(epochs):
        for index, batch in enumerate(terms.schedule.epoch(epoch)):
            do_step(party, epoch * steps + index, batch)
        losses.append(party.validate((epoch + 1) * steps))
    return losses


def loss_of(z: FloatArray, labels: Any, classes: int) -> float:
    """Written a second way: log loss to second order at 0, record by record."""
    if classes == 2:
        return float(np.mean(np.log(2) + z[:, 0] ** 2 / 8 - (labels - 0.5) * z[:, 0]))
    centred = z - z.mean(axis=1, keepdims=True)
    right = centred[np.arange(len(z)), labels]
    return float(np.mean(np.log(classes) + (centred**2).sum(axis=1) / (2 * classes) - right))


def last_bit(terms: SharedTerms, classes: int) -> float:
    squares = terms.squares
    unit = 2.0 ** (squares.ring - WORD_BITS - 2 * squares.fraction_bits) / squares.records
    return unit / 8 if classes == 2 else unit / (2 * classes)


@pytest.mark.parametrize(("classes", "rows"), [(2, 37), (3, 37), (2, 41), (4, 60)])
def test_the_loss_is_that_of_float64(classes: int, rows: int) -> None:
    problem = SharedProblem.random(classes=classes, rows=rows, columns=(3, 2))
    terms = problem.terms(PLAN)
    validated = np.concatenate([terms.blocks[number] for number in terms.validation])
    trained = np.concatenate(terms.schedule.blocks)
    assert sorted([*validated, *trained]) == list(range(rows))
    with wired_shares(problem, PLAN) as parties:
        losses = train(parties, terms)
        weights = as_session(problem, PLAN, parties).joined()
    X = np.hstack([block[validated] for block in problem.blocks.values()])
    expected = loss_of(X @ np.vstack(list(weights.values())), problem.labels[validated], classes)
    assert abs(losses[-1] - expected) <= 1.01 * last_bit(terms, classes)
    assert last_bit(terms, classes) < (1.3e-4 if classes == 2 else 1.3e-3)
    assert len(set(losses)) > 1


def test_what_a_passive_party_decrypts_is_its_masks_whatever_the_labels_are() -> None:
    """Of labels swapped, what it sends but for the word is drawn alike: bits of all it reads stay even."""
    for flip in (False, True):
        problem = SharedProblem.random(columns=(3, 2), rows=60)
        if flip:
            problem = replace(problem, labels=1 - problem.labels)
        with wired_shares(problem, PLAN) as parties:
            train(parties, problem.terms(PLAN), epochs=1)
            exchange = parties[PASSIVE].exchange
            ones = [bit for n in _decrypted(exchange) for bit in map(int, f"{n % 2**400:0400b}")]
        # 1e-6 of a fair coin.
        assert abs(np.mean(ones) - 0.5) < 4.9 * 0.5 / len(ones) ** 0.5


def _decrypted(exchange: ShareExchange) -> list[int]:
    key = exchange._validation.key
    assert key is not None
    (crossed,) = [one.values for (kind, *_), one in exchange._received.items() if kind is Kind.CROSSED]
    (forward,) = [one.values for (kind, *_), one in exchange._received.items() if kind is Kind.VALIDATION]
    return [
        *WatchedEngine().decrypt(key, crossed),
        *WatchedEngine().decrypt(exchange._holder._key, forward),
    ]


def test_pads_are_drawn_anew_and_differences_are_uniform() -> None:
    problem = SharedProblem.random(columns=(3, 2), rows=80)
    seen = []
    for _ in range(2):
        with wired_shares(problem, PLAN) as parties:
            train(parties, problem.terms(PLAN), epochs=1)
            received = parties["active"].exchange._received
            seen.append(next(one.values for (kind, *_), one in received.items() if kind is Kind.DIFFERENCES))
    assert not set(seen[0]) & set(seen[1])
    ring = problem.terms(PLAN).squares.ring
    ones = [int(bit) for values in seen for value in values for bit in f"{value:0{ring}b}"]
    assert abs(np.mean(ones) - 0.5) < 4.9 * 0.5 / len(ones) ** 0.5


def test_who_sends_training_ciphertexts_in_place_of_the_product_reads_nothing_of_them() -> None:
    """Each feature is put at the word's top, on the product as it stands or on none; and the same under one key."""
    problem = SharedProblem.random(columns=(3, 2), rows=30, signed=False)
    terms = problem.terms(PLAN)
    with wired_shares(problem, PLAN) as parties:
        train(parties, terms, epochs=1)
        active, passive = parties["active"].exchange, parties[PASSIVE].exchange
        step, validation = terms.schedule.steps_per_epoch, passive._validation
        rows = active._holder._rows[PASSIVE][0]
        order = np.concatenate(terms.schedule.blocks)
        # Twice a feature, cut to 16 bits.
        truth = [int(problem.blocks[PASSIVE][row, 0] * 2**16) >> 1 for row in order]
        lift = 1 << terms.squares.ring - WORD_BITS - 2
        honest = validation_answer(active)

        def hits() -> int:
            assert validation.key is not None
            modulus, found = validation.key.public_key.n_squared, 0
            for times in range(20):
                base = pow(honest, times, modulus)
                before = validation.show(step, base)
                for ciphertext, feature in zip(rows, truth, strict=True):
                    word = validation.show(step, base * pow(ciphertext, lift, modulus) % modulus)
                    found += (word - before - feature + 1) % 2**WORD_BITS <= 2
            return found

        # Three of 2^16 words count as a hit.
        assert hits() <= 3
        validation.key = passive._holder._key
        assert hits() == 20 * len(truth)


def validation_answer(active: ShareExchange) -> int:
    """The label party's masked product of the last validation."""
    (crossed,) = active._validation._crossed.values()
    return crossed.ciphertext


def test_whatever_arrives_the_validation_goes_on_with_as_many_bytes() -> None:
    problem = SharedProblem.random(columns=(3, 2))
    with wired_shares(problem, PLAN) as parties:
        train(parties, problem.terms(PLAN), epochs=1)
        passive, active = parties[PASSIVE].exchange, parties["active"].exchange
        step, key = problem.terms(PLAN).schedule.steps_per_epoch, passive._validation.key
        assert key is not None
        for _ in range(20):
            assert 0 <= passive._validation.show(step, secrets.randbelow(key.public_key.n_squared)) < 2**WORD_BITS
        assert all(np.isfinite(active._validation.mean_square(step, word)) for word in range(0, 2**16, 97))


def test_a_word_is_counted_before_it_is_told() -> None:
    problem, state = SharedProblem.random(columns=(3, 2)), StateInMemory()
    terms = problem.terms(PLAN)

    class Full(StateInMemory):
        def write(self, name: str, content: bytes) -> None:
            raise StateNotKept("no room")

    with wired_shares(problem, PLAN) as parties:
        passive = parties[PASSIVE].exchange
        records = np.arange(37, dtype=np.uint64)
        passive._ledger = OpeningLedger(state, records)
        train(parties, terms)
        step = 3 * terms.schedule.steps_per_epoch
        assert opened_in(state.read(LEDGER) or b"") == {"active": 3 * WORD_BITS}
        # Again it is the same word, and isn't counted again.
        words = {passive.show(step)[0].vector.data for _ in range(3)}
        assert len(words) == 1
        assert len(words.pop()) == 2
        assert opened_in(state.read(LEDGER) or b"") == {"active": 3 * WORD_BITS}
        passive._ledger = OpeningLedger(Full(), records)
        with pytest.raises(StateNotKept):
            passive.show(step)


def test_words_of_a_session_that_is_named_like_another_are_counted_as_well() -> None:
    """Who names sessions doesn't choose what is counted: a word is of a key that was made for it."""
    problem, state, own = SharedProblem.random(columns=(3, 2)), StateInMemory(), StateInMemory()
    records = np.arange(37, dtype=np.uint64)
    for trained in (1, 2):
        with wired_shares(problem, PLAN) as parties:
            parties[PASSIVE].exchange._ledger = OpeningLedger(state, records)
            parties["active"].exchange._ledger = OpeningLedger(own, records)
            train(parties, problem.terms(PLAN), epochs=1)
        assert opened_in(state.read(LEDGER) or b"") == {"active": trained * WORD_BITS}
        # Which of three epochs is kept takes two bits, however many of them are validated.
        assert opened_in(own.read(LEDGER) or b"") == {PASSIVE: trained * 2}


def test_which_epoch_is_kept_is_counted_once_and_before_it_is_chosen() -> None:
    problem, state = SharedProblem.random(columns=(3, 2)), StateInMemory()
    records = np.arange(37, dtype=np.uint64)

    class Full(StateInMemory):
        def write(self, name: str, content: bytes) -> None:
            raise StateNotKept("no room")

    with wired_shares(problem, PLAN) as parties:
        active = parties["active"].exchange
        active._ledger = OpeningLedger(state, records)
        train(parties, problem.terms(PLAN))
        assert opened_in(state.read(LEDGER) or b"") == {PASSIVE: 2}
        active._ledger = OpeningLedger(Full(), records)
        with pytest.raises(StateNotKept):
            active.mean_square(3 * problem.terms(PLAN).schedule.steps_per_epoch)


def test_a_session_that_ends_while_it_validates_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = SharedProblem.random(columns=(3, 2))
    terms = problem.terms(PLAN)
    step = terms.schedule.steps_per_epoch
    uses: dict[str, tuple[str, Callable[[ShareExchange, Any], Any]]] = {
        "products": (PASSIVE, lambda one, weights: one.products(step, terms.validation, weights, Kind.VALIDATION)),
        "cross": ("active", lambda one, weights: one.cross(step, weights)),
        "show": (PASSIVE, lambda one, weights: one.show(step)),
        "mean_square": ("active", lambda one, weights: one.mean_square(step)),
    }
    for name, use in uses.values():
        with wired_shares(problem, PLAN) as parties:
            train(parties, terms, epochs=1)
            exchange = parties[name].exchange
            awaited = exchange._await

            def ending(*message: Any, one: ShareExchange = exchange, wait: Any = awaited) -> Any:
                values = wait(*message)
                threading.Thread(target=one.end, args=("it was stopped.",)).start()
                while one._order.ended is None:
                    pass
                return values

            monkeypatch.setattr(exchange, "_await", ending)
            with pytest.raises(OutOfOrder, match="it was stopped"):
                use(exchange, parties[name].half.weights)


def test_a_word_that_does_not_arrive_fails_the_validation_of_who_sends_it() -> None:
    class Refusing:
        """Takes all but the word."""

        def __init__(self, peer: Peer) -> None:
            self.peer, self.show_key = peer, peer.show_key

        def send(self, session_id: str, kind: str, *message: Any) -> None:
            if kind == Kind.WORD:
                raise PeerVanished("The word was lost.")
            self.peer.send(session_id, kind, *message)

    problem = SharedProblem.random(columns=(3, 2))
    step = problem.terms(PLAN).schedule.steps_per_epoch

    def peer(*names: Any) -> Any:
        return Refusing(direct(*names))

    with wired_shares(problem, PLAN, timeout=1.0, peer=peer) as parties:
        run_all(parties, problem.terms(PLAN), steps=step)
        with ThreadPoolExecutor(2) as threads:
            validating = {name: threads.submit(one.validate, step) for name, one in parties.items()}
        with pytest.raises(PeerVanished, match="The word was lost"):
            validating[PASSIVE].result()
        with pytest.raises(PeerVanished, match=f"{PASSIVE}'s word"):
            validating["active"].result()


def test_the_end_forgets_what_was_drawn_for_a_validation() -> None:
    problem = SharedProblem.random(columns=(3, 2))
    with wired_shares(problem, PLAN) as parties:
        train(parties, problem.terms(PLAN), epochs=1)
        drawn = [parties[name].exchange._validation for name in ("active", PASSIVE)]
        assert drawn[0]._crossed
        assert drawn[1]._hidden
        for one in parties.values():
            one.exchange.end("training is complete.")
        assert not any(one._crossed or one._hidden for one in drawn)


def test_nothing_is_validated_once_weights_are_open_and_none_are_opened_within_an_epoch() -> None:
    problem = SharedProblem.random(columns=(3, 2))
    terms = problem.terms(PLAN)
    with wired_shares(problem, PLAN, timeout=1.0) as parties:
        run_all(parties, terms, steps=1)
        active, passive = parties["active"].exchange, parties[PASSIVE].exchange
        (message,) = active.open(parties["active"].half.weights)  # type: ignore[arg-type]
        assert terms.schedule.steps_per_epoch > 2
        with pytest.raises(OutOfOrder, match="Weights are opened when"):
            passive.receive("active", Kind.OPENED, message.step, message.vector)
        with pytest.raises(OutOfOrder, match="Training is over"):
            active.forward(1, terms.validation, parties["active"].half.weights, Kind.VALIDATION)  # type: ignore[arg-type]


@pytest.mark.parametrize("serving", ["opened", "shared"])
def test_nothing_is_opened_in_a_session_that_has_ended(serving: str) -> None:
    """Else whoever fails one opening asks for that of another epoch."""
    problem, plan, state = SharedProblem.random(columns=(3, 2)), PLAN.changed(serving=serving), StateInMemory()
    with wired_shares(problem, plan) as parties:
        train(parties, problem.terms(plan), epochs=1)
        passive = parties[PASSIVE]
        passive.exchange._ledger = OpeningLedger(state, np.arange(37, dtype=np.uint64))
        passive.exchange.end("its opening failed.")
        with pytest.raises(OutOfOrder, match="its opening failed"):
            passive.open() if serving == "opened" else passive.freeze()
        assert state.read(LEDGER) is None


def test_a_key_serves_for_one_thing() -> None:
    problem, plan = SharedProblem.random(columns=(3, 2)), PLAN.changed(serving="shared")
    with wired_shares(problem, plan) as parties:
        active, passive = parties["active"].exchange, parties[PASSIVE].exchange
        pads, key = passive.validation_key, passive._validation.key
        assert pads is not None
        assert key is not None
        with pytest.raises(OutOfOrder, match="its public key before its validation key"):
            active.receive_key(PASSIVE, pads)
        for one in parties.values():
            one.show_public_key()
        with pytest.raises(InvalidMessage, match="has shown for something else: make another"):
            active.receive_key(PASSIVE, passive.serving_key(key))


def test_nothing_is_left_of_the_shares_of_any_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of earlier epochs above all: once a party has its weights, its old shares tell those of the other."""
    seen: list[weakref.ref[Any]] = []
    validate = SharedSteps.validate

    def watched(self: SharedSteps, step: int) -> float | None:
        seen.append(weakref.ref(self.half.weights))
        return validate(self, step)

    monkeypatch.setattr(SharedSteps, "validate", watched)
    terms: dict[str, Any] = {"protocol": "shared", "opening": "always", "patience": 2}
    with house(tmp_path, settings=small_settings(**terms), passive_settings=small_settings(**terms)) as one:
        one.train()
        gc.collect()
        assert len(seen) == 4
        assert not any(ref() for ref in seen)


def test_without_a_validation_record_epochs_are_fixed(tmp_path: Path) -> None:
    terms: dict[str, Any] = {"protocol": "shared", "patience": 2, "validation_fraction": 0.02}
    with house(
        tmp_path,
        active=active_data(rows=range(12)),
        passive=[party_data(rows=range(12))],
        settings=small_settings(**terms),
        passive_settings=small_settings(**terms, guard="refuse"),
    ) as one:
        one.train()
        record = one.record("active")
        assert all(np.isnan(epoch["validation_loss"]) for epoch in record["epochs"])
        assert record["kept_epoch"] == len(record["epochs"]) - 1
        (warning,) = [line for line in record["warnings"] if "patience" in line]
        assert warning.startswith("patience stops nothing: 0.02 of 12 records is less than one to validate with.")


def test_a_key_without_room_for_a_sum_of_squares_is_refused_in_words(tmp_path: Path) -> None:
    numbers: dict[str, Any] = {"key_bits": 256, "residual_fraction_bits": 48, "residual_integer_bits": 4}
    terms: dict[str, Any] = {"protocol": "shared", "patience": 2, **numbers}
    with (
        house(tmp_path, settings=small_settings(**terms), passive_settings=small_settings(**terms)) as one,
        pytest.raises(FederationError, match="choose a longer key"),
    ):
        one.train()


def test_validations_are_refused_out_of_order_and_from_who_has_none_to_send() -> None:
    problem = SharedProblem.random(columns=(3, 2))
    terms = problem.terms(PLAN)
    with wired_shares(problem, PLAN, timeout=1.0) as parties:
        train(parties, terms, epochs=1)
        active, passive, steps = parties["active"].exchange, parties[PASSIVE].exchange, terms.schedule.steps_per_epoch
        step_of = parties["active"].half.weights
        (message,) = active.forward(steps, terms.validation, step_of, Kind.VALIDATION)  # type: ignore[arg-type]
        passive.receive("active", Kind.VALIDATION, steps, message.vector)
        with pytest.raises(InvalidMessage, match="No epoch is validated"):
            passive.receive("active", Kind.VALIDATION, steps + 1, message.vector)
        with pytest.raises(OutOfOrder, match="out of order"):
            passive.receive("active", Kind.VALIDATION, 2 * steps, message.vector)
        for kind in (Kind.PADS, Kind.DIFFERENCES, Kind.WORD):
            with pytest.raises(NotAllowed):
                passive.receive("active", kind, steps, message.vector)
        with pytest.raises(NotAllowed):
            active.receive(PASSIVE, Kind.CROSSED, steps, message.vector)
        with pytest.raises(NotAllowed, match="no validation key"):
            passive.receive_key("active", replace(active.public_key, purpose="validation"))
        trained_under = passive.public_key
        with pytest.raises(OutOfOrder, match="one key a party"):
            active.receive_key(PASSIVE, replace(trained_under, purpose="validation"))


def test_three_parties_are_refused_in_words(tmp_path: Path) -> None:
    words = "between two parties, and these are 3: set patience to 0"
    with pytest.raises(InvalidMessage, match=words):
        SharedProblem.random(columns=(3, 2, 1)).agreement(PLAN).check()
    settings, passive = small_settings(protocol="shared", patience=2), [party_data(), party_data(seed=2)]
    with house(tmp_path, settings=settings, passive=passive) as one:
        with pytest.raises(FederationError, match=words):
            one.train()
        assert one.active.session_id == ""


def test_fixed_epochs_have_no_validation() -> None:
    problem, plan = SharedProblem.random(columns=(3, 2)), PLAN.changed(patience=0)
    terms = problem.terms(plan)
    assert not len(terms.validation)
    with wired_shares(problem, plan) as parties:
        assert parties[PASSIVE].exchange.validation_key is None
        key = replace(parties[PASSIVE].exchange.public_key, purpose="validation")
        with pytest.raises(NotAllowed):
            parties["active"].exchange.receive_key(PASSIVE, key)


@pytest.mark.parametrize(
    ("serving", "words"), [("shared", "from the validation losses"), ("opened", "and validation losses")]
)
def test_the_guard_counts_words_and_refuses_where_it_is_told_to(tmp_path: Path, serving: str, words: str) -> None:
    terms: dict[str, Any] = {"protocol": "shared", "serving": serving, "opening": "always", "patience": 2}
    with house(tmp_path, settings=small_settings(**terms), passive_settings=small_settings(**terms)) as one:
        one.train()
        (warning,) = one.record("passive")["guard"]
        assert words in warning
        assert "patience to 0" in warning
        shown, opened = 2 * WORD_BITS, (0 if serving == "shared" else 3 * 24)
        assert f"up to {shown + opened} bits" in warning
        # The other party is told which of two epochs is kept.
        labels = [line for line in one.record("active")["guard"] if "labels of active" in line]
        assert [
            f"and the epoch that is kept, if it encrypts other columns than its own: up to {opened + 1} bits" in line
            for line in labels
        ] == ([True] if opened else [])
    with (
        house(
            tmp_path / "strict",
            settings=small_settings(**terms),
            passive_settings=small_settings(**terms, guard="refuse"),
        ) as one,
        pytest.raises(FederationError, match=words),
    ):
        one.train()


def test_no_record_is_scored_before_weights_are_opened(tmp_path: Path) -> None:
    """Not even a validation one after a validated epoch: its scores would be of shares."""
    asked = list[str]()

    class Asking(Watcher):
        def epoch(self, outcome: EpochOutcome) -> None:
            super().epoch(outcome)
            session = home.passive["passive"]._session
            assert session is not None
            assert session.joined is not None
            training = session.joined.training
            with pytest.raises(OutOfOrder, match="until it ends, no record is scored") as refused:
                training.model_for(training.rows.validation.tolist())
            asked.append(str(refused.value))

    settings = small_settings(protocol="shared", opening="always", patience=2)
    with house(tmp_path, settings=settings) as home:
        home.active.train(settings.plan(), Asking())
    assert len(asked) == 2
