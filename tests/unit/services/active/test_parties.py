"""Whole parties in one process: a job from alignment to scores, its refusals, and what it leaves behind."""

import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import chi2

from attacks import AttackSpec, TrainingResult, TrainingView, ViewError
from plumbline.processes import UNEXPECTED
from services.adversary.predictions import AttackHost
from services.common.agreement import Agreement, PartyDescription
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder, UnknownRecord
from services.common.identity import Identity, Role
from services.common.run_folder import RunFolder
from services.exchange.vectors import DecryptedVector, WireVector
from services.party.party_training import PartyTraining
from services.protocols.hu.gradient_exchange import GradientExchange
from tests.harness.direct_parties import DirectCoordinator, DirectPassive
from tests.harness.exchanges import modulus_of, names_of
from tests.harness.parties import (
    ACTIVE,
    Watcher,
    active_data,
    house,
    party_data,
    small_settings,
)
from tests.harness.processes import weights_of
from vfl.crypto import CipherVector, Engine, Mask
from vfl.data import PsiClient

PLAIN = small_settings(cipher="plain")


# -- a job that works -------------------------------------------------------------------------------------------------


def test_a_job_goes_from_alignment_to_scores_and_tells_how_far_it_is(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        watcher = home.train()
        assert watcher.stages == ["aligning", "agreeing", "training", "testing", "serving"]
        assert [outcome.epoch for outcome in watcher.epochs] == [0, 1]
        assert all(np.isfinite(outcome.validation_loss) for outcome in watcher.epochs)
        training_steps = watcher.of_stage("training")
        assert training_steps == [(done + 1, len(training_steps)) for done in range(len(training_steps))]
        # Each side's ids once, and this side's back again.
        ids = len(home.active._context.data.ids) * 2 + len(home.passive["passive"]._context.data.ids)
        assert watcher.of_stage("aligning")[-1] == (ids, ids)
        assert home.active.stage == "serving"
        assert home.active.class_names == ("no", "yes")
        scores = home.active.predict(["id-10", "id-59", "id-10"])
        assert list(scores) == ["id-10", "id-59"]
        for record in scores.values():
            assert record.sum() == pytest.approx(1.0)


def test_only_records_of_every_party_are_scored(tmp_path: Path) -> None:
    passive = [party_data(rows=range(5, 60)), party_data(rows=range(3, 50), seed=2)]
    with house(tmp_path, settings=PLAIN, passive=passive) as home:
        home.train()
        known = home.active.predict([f"id-{row}" for row in range(60)])
        assert set(known) == {f"id-{row}" for row in range(5, 50)}
        with pytest.raises(UnknownRecord, match="not among the aligned records"):
            home.active.predict_one("id-4")


@pytest.mark.parametrize("parties", [2, 3])
def test_encrypted_and_plain_jobs_end_with_the_same_weights_and_scores(tmp_path: Path, parties: int) -> None:
    outcomes = []
    for settings in (small_settings(initialisation="xavier"), small_settings(initialisation="xavier", cipher="plain")):
        passive = [party_data(rows=range(59, 4, -1), seed=seed) for seed in range(1, parties)]
        with house(tmp_path, settings=settings, passive=passive) as home:
            home.train()
            weights = weights_of(tmp_path, names_of(parties))
            outcomes.append([*weights, home.tested().scores])
    for encrypted, plain in zip(*outcomes, strict=True):
        np.testing.assert_allclose(encrypted, plain, atol=1e-6)


def test_early_stopping_keeps_the_epoch_with_the_best_validation_loss(tmp_path: Path) -> None:
    """Labels that features say nothing of: the loss gets worse sooner or later."""
    labels = np.random.default_rng(4).permutation([0, 1] * 30).tolist()
    settings = small_settings(
        cipher="plain", steps="plain", patience=2, epochs=40, learning_rate=2.0, validation_fraction=0.3
    )
    with house(tmp_path, settings=settings, active=active_data(labels=labels)) as home:
        watcher = home.train()
        record, tested = home.record(), home.tested()
        losses = [outcome.validation_loss for outcome in watcher.epochs]
        assert len(losses) < 40, "this test needs an early stop"
        assert record["kept_epoch"] == int(np.argmin(losses)) == len(losses) - 3
        replay = home.train(patience=0, epochs=record["kept_epoch"] + 1)
        assert len(replay.epochs) == record["kept_epoch"] + 1
        np.testing.assert_allclose(home.tested().scores, tested.scores, atol=1e-12)


@pytest.mark.parametrize("opening", ["always", "guarded"])
def test_early_stopping_on_shares_keeps_the_same_epoch_as_fixed_ones(tmp_path: Path, opening: str) -> None:
    """Labels that features say nothing of; the kept epoch's weights are opened, or frozen, and no later ones."""
    labels = np.random.default_rng(4).permutation([0, 1] * 30).tolist()
    terms: dict[str, Any] = {"protocol": "shared", "opening": opening, "most_equations": 1.0, "private_seed": 3}
    settings = small_settings(patience=2, epochs=30, learning_rate=2.0, validation_fraction=0.3, **terms)
    with house(tmp_path, settings=settings, active=active_data(labels=labels)) as home:
        watcher = home.train()
        record, tested = home.record(), home.tested()
        losses = [outcome.validation_loss for outcome in watcher.epochs]
        assert len(losses) < 30, "this test needs an early stop"
        assert record["kept_epoch"] == int(np.argmin(losses)) == len(losses) - 3
        replay = home.train(patience=0, epochs=record["kept_epoch"] + 1)
        assert len(replay.epochs) == record["kept_epoch"] + 1
        # Words of 24 bits, 16 of them of the fraction, rounded at both.
        np.testing.assert_allclose(home.tested().scores, tested.scores, atol=1e-3)


def test_training_twice_takes_the_place_of_the_first_session(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        home.train()
        first = home.active.session_id
        scores = home.active.predict_one("id-10")
        home.train()
        assert home.active.session_id != first
        np.testing.assert_array_equal(home.active.predict_one("id-10"), scores)
        with pytest.raises(OutOfOrder, match="another has taken its place"):
            home.active.exchange_of(first)
        with pytest.raises(OutOfOrder, match="another has taken its place"):
            home.passive["passive"].exchange_of(first)


def test_a_party_writes_its_own_weights_with_the_names_of_its_own_features_only(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        home.train()
    saved = np.load(tmp_path / "passive-weights.npz")
    assert saved["features"].tolist() == ["f0", "f1", "f2"]
    assert saved["weights"].shape == (3, 1)
    assert not list(tmp_path.glob("passive*scores*"))


# -- jobs that cannot work --------------------------------------------------------------------------------------------


def test_parties_without_a_common_record_are_told_so_before_any_training(tmp_path: Path) -> None:
    # Once: the failure is right, but EmptyIntersection is no FederationError, so that over the wire it becomes
    # "INTERNAL: Unexpected EmptyIntersection" and a traceback in the log.
    with house(tmp_path, settings=PLAIN, passive=[party_data(rows=range(100, 160))]) as home:
        with pytest.raises(FederationError, match="no id in common"):
            home.train()
        assert home.active.stage == "failed"
        assert "no id in common" in home.active.failure


def test_a_passive_party_that_refuses_to_join_ends_the_job_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(caller: Identity, session_id: str) -> Agreement:
        raise OutOfOrder("The owner is on holiday.")

    with house(tmp_path, settings=PLAIN) as home:
        monkeypatch.setattr(home.passive["passive"], "join", refuse)
        start = time.monotonic()
        with pytest.raises(FederationError, match="The owner is on holiday"):
            home.train()
        assert time.monotonic() - start < home.settings.step_timeout / 2


def test_common_records_of_a_single_class_are_refused_before_any_training(tmp_path: Path) -> None:
    labels = ["no"] * 40 + ["yes"] * 20
    with house(
        tmp_path, settings=PLAIN, active=active_data(labels=labels), passive=[party_data(rows=range(40))]
    ) as home:
        watcher = Watcher()
        with pytest.raises(FederationError, match="class"):
            home.active.train(home.settings.plan(), watcher)
        assert "training" not in watcher.stages


def test_a_batch_larger_than_the_common_records_is_refused_before_any_training(tmp_path: Path) -> None:
    watcher = Watcher()
    with house(tmp_path, settings=PLAIN) as home:
        with pytest.raises(FederationError, match="batch of 500 is larger than the data"):
            home.active.train(replace(home.settings.plan(), batch_size=500), watcher)
        assert "training" not in watcher.stages
        assert home.active.stage == "failed"
        home.train()
        assert home.active.stage == "serving"


@pytest.mark.parametrize(
    ("proposed", "words"),
    [
        ({"cipher": "plain"}, "session is cipher=plain, this party runs cipher=paillier"),
        ({"key_bits": 512}, "keys of 512 bits, this party asks for 2048 or more"),
        ({"packing": False}, "packing=False, this party packing=True"),
    ],
)
def test_a_passive_party_refuses_terms_weaker_than_its_own_settings(
    tmp_path: Path, proposed: dict[str, object], words: str
) -> None:
    """The active party's settings would allow them; the passive party's are the defaults."""
    weak = small_settings(**{"key_bits": 2048, **proposed})
    strict = small_settings(key_bits=2048, allow_insecure_keys=False)
    watcher = Watcher()
    with house(tmp_path, settings=weak, passive_settings=strict) as home:
        with pytest.raises(OutOfOrder, match=words):
            home.active.train(weak.plan(), watcher)
        assert watcher.stages == ["aligning"], "refused before minutes of alignment"
        with pytest.raises(OutOfOrder, match="No such session"):
            home.passive["passive"].exchange_of(home.active.session_id)


def test_a_learning_rate_that_diverges_ends_the_job_with_a_sentence_that_names_the_remedy(tmp_path: Path) -> None:
    # Once: FixedPointOverflow is no FederationError: over the wire it becomes "INTERNAL: Unexpected
    # FixedPointOverflow; the service's log has the rest" and a traceback in the log.
    with house(tmp_path, settings=small_settings(steps="plain", learning_rate=1e5)) as home:
        with pytest.raises(FederationError, match=r"learning_rate|residual_integer_bits"):
            home.train()
        assert home.active.stage == "failed"
        home.train(learning_rate=0.5)
        assert home.active.stage == "serving"


def test_more_classes_than_a_plaintext_holds_are_refused_with_a_sentence(tmp_path: Path) -> None:
    # Once: PackingImpossible is no FederationError, see above.
    labels = [f"class-{row % 12:02d}" for row in range(60)]
    with (
        house(tmp_path, active=active_data(labels=labels)) as home,
        pytest.raises(FederationError, match="larger key or packing=off"),
    ):
        home.train()


def test_a_second_job_is_refused_while_one_runs_and_does_not_disturb_it(tmp_path: Path) -> None:
    class Pausing(Watcher):
        def stage(self, name: str) -> None:
            super().stage(name)
            if name == "agreeing":
                reached.set()
                assert go_on.wait(5)

    reached, go_on = threading.Event(), threading.Event()
    with house(tmp_path, settings=PLAIN) as home:
        job = home.active.executor.submit(home.active.train, home.settings.plan(), Pausing())
        assert reached.wait(5)
        with pytest.raises(OutOfOrder, match="A job is running already"):
            home.train()
        with pytest.raises(OutOfOrder, match=r"no trained model to ask \(stage: agreeing\)"):
            home.active.predict(["id-10"])
        go_on.set()
        assert job.result(timeout=10).epochs_run == 2
        assert home.active.failure == ""


def test_there_are_no_scores_before_training(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home, pytest.raises(OutOfOrder, match="Train first"):
        home.active.predict_one("id-10")


# -- a passive party's own order of things ----------------------------------------------------------------------------


def test_a_passive_party_serves_one_session_of_one_active_party_in_order(tmp_path: Path) -> None:
    other = Identity(Role.ACTIVE, "other")
    with house(tmp_path, settings=PLAIN) as home:
        party = home.passive["passive"]
        with pytest.raises(InvalidMessage, match="session id is empty"):
            party.set_up_alignment(ACTIVE, "", 2)
        one = home.opened()
        with pytest.raises(OutOfOrder, match="No such session"):
            party.join(ACTIVE, one)
        party.set_up_alignment(ACTIVE, one, 2)
        with pytest.raises(OutOfOrder, match="begun its alignment already"):
            party.set_up_alignment(ACTIVE, one, 2)
        with pytest.raises(OutOfOrder, match="Align before you join"):
            party.join(ACTIVE, one)
        for call in (party.join, party.show_public_key):
            with pytest.raises(NotAllowed, match="other is not this session's active party"):
                call(other, one)
        with pytest.raises(NotAllowed, match="other is not this session's active party"):
            party.end_session(other, one, "malice")
        with pytest.raises(OutOfOrder, match="Align first"):
            party.fix_order(ACTIVE, one, [["id-10", "id-11"]])
        list(party.align(ACTIVE, one, PsiClient(["id-10", "id-11"]).request()))
        party.fix_order(ACTIVE, one, [["id-10", "id-11"]])
        with pytest.raises(OutOfOrder, match="was sent already"):
            party.fix_order(ACTIVE, one, [["id-10"]])
        with pytest.raises(OutOfOrder, match="aligned already"):
            party.align(ACTIVE, one, [])
        for early in (party.show_public_key, lambda c, s: party.finish_training(c, s, 0)):
            with pytest.raises(OutOfOrder, match="Join the session first"):
                early(ACTIVE, one)
        party.end_session(ACTIVE, one, "enough.")
        with pytest.raises(OutOfOrder, match=r"has ended: enough\."):
            party.join(ACTIVE, one)
        party.end_session(ACTIVE, "two", "an unknown session is no concern of this party")


def test_a_passive_party_refuses_terms_that_name_another_active_party_and_records_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DirectCoordinator.join_session

    def other_first(self: DirectCoordinator, session_id: str, party: PartyDescription) -> Agreement:
        agreement: Agreement = original(self, session_id, party)
        return replace(agreement, parties=agreement.parties[::-1])

    monkeypatch.setattr(DirectCoordinator, "join_session", other_first)
    with (
        house(tmp_path, settings=PLAIN) as home,
        pytest.raises(FederationError, match="active is not this session's active party"),
    ):
        home.train()
    assert list(tmp_path.iterdir()) == []


# -- attacks that nobody waits for ------------------------------------------------------------------------------------


class Idle:
    """An attack on training that finds nothing. Its outcome is written all the same."""

    name: ClassVar[str] = "idle"
    spec: ClassVar[AttackSpec] = AttackSpec("passive", "training", (), "a test")

    def attack(self, view: TrainingView) -> TrainingResult:
        raise ViewError("nothing to see")


@pytest.mark.parametrize("party", ["active", "passive"])
def test_outcomes_of_attacks_that_cant_be_written_are_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, party: str
) -> None:
    # Once: the future was dropped, and with it the full disk.
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(RunFolder, "write_training_outcomes", full)
    monkeypatch.setattr(AttackHost, "attack", full)
    adversary = {"idle": Idle()} if party == "passive" else None
    with house(tmp_path, settings=PLAIN, passive_adversary=adversary) as home:
        home.train()
        if party == "active":
            monkeypatch.setattr(AttackHost, "is_idle", False)
            home.active.predict_one("id-10")
            home.active._attacks._threads.shutdown()
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    if party == "active":
        assert [record.getMessage() for record in errors if record.exc_info] == [UNEXPECTED]
    else:
        # Expected of a disk: a sentence, no traceback.
        assert [record.exc_info for record in errors] == [None]
    assert "No space left on device" in caplog.text


def test_a_repeated_join_waits_for_the_first_and_gets_the_same_agreement_and_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC sends a call again whose first copy may still be at work."""
    made: list[PartyTraining] = []
    original = PartyTraining.__init__

    def counting(self: PartyTraining, *arguments: Any, **named: Any) -> None:
        made.append(self)
        original(self, *arguments, **named)

    def thrice(self: DirectPassive, session_id: str) -> None:
        with ThreadPoolExecutor(3) as threads:
            agreements = list(threads.map(lambda _: self.party.join(self.caller, session_id), range(3)))
        assert agreements[0] == agreements[1] == agreements[2]

    monkeypatch.setattr(DirectPassive, "join", thrice)
    monkeypatch.setattr(PartyTraining, "__init__", counting)
    with house(tmp_path, settings=PLAIN) as home:
        home.train()
    assert [training.name for training in made].count("passive") == 1


def test_each_party_reads_in_its_own_log_what_its_answers_give_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = small_settings(batch_size=6)
    with caplog.at_level(logging.WARNING), house(tmp_path, settings=settings) as home:
        home.train()
        warned = [record.getMessage() for record in caplog.records]
        assert len([text for text in warned if text.startswith("active could learn passive's part of each")]) == 1
        assert len([text for text in warned if text.startswith("passive could learn labels of active's records")]) == 1
        assert len([text for text in warned if "512-bit" in text]) == 2


# -- what must not be seen --------------------------------------------------------------------------------------------


def _spellings(prime: int) -> list[bytes]:
    """A prime as a log or file might hold it."""
    raw = prime.to_bytes((prime.bit_length() + 7) // 8, "big")
    return [str(prime).encode(), f"{prime:x}".encode(), f"{prime:X}".encode(), raw, raw[::-1]]


@pytest.mark.parametrize("level", [logging.DEBUG])
def test_no_log_and_no_file_of_a_run_holds_a_private_key_or_a_record_id(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level)
    with house(tmp_path) as home:
        home.train()
        with pytest.raises(UnknownRecord):
            home.active.predict_one("id-0")
        session = home.active.session_id
        exchanges = [
            home.active.exchange_of(session),
            *(party.exchange_of(session) for party in home.passive.values()),
        ]
    files = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert len(list(tmp_path.iterdir())) == 5
    everything = files + caplog.text.encode()
    assert b"Stage: serving." in everything
    for exchange in exchanges:
        key = exchange._cipher._messages.private_key  # type: ignore[attr-defined]
        for prime in (key.p, key.q):
            assert not any(spelling in everything for spelling in _spellings(prime))
    assert not re.search(rb"id-\d", everything)


def test_no_representation_shows_a_private_key_or_a_mask(tmp_path: Path) -> None:
    with house(tmp_path) as home:
        home.train()
        exchange = home.active.exchange_of(home.active.session_id)
        assert isinstance(exchange, GradientExchange)
        cipher = exchange._cipher
        key = cipher._messages.private_key  # type: ignore[attr-defined]
        shown = " ".join(
            repr(thing)
            for thing in (
                *(exchange, vars(exchange), cipher, vars(cipher), key, key._obfuscators, key.parts),
                *(home.active, home.passive),
            )
        )
    assert key.public_key.key_id in shown, "this test looks at the right objects"
    for prime in (key.p, key.q):
        assert not any(spelling.decode("latin1") in shown for spelling in _spellings(prime)[:3])


def _uniformity(residues: list[int], n: int, bins: int = 16) -> float:
    """Chi-square statistic of residues in [0, n) against the uniform law."""
    counts = np.bincount([residue * bins // n for residue in residues], minlength=bins)
    expected = len(residues) / bins
    return float(((counts - expected) ** 2 / expected).sum())


def _without_mask(product: CipherVector, *, rerandomise: bool, engine: Engine) -> tuple[CipherVector, Mask]:
    zeros = (0,) * len(product.ciphertexts)
    return product, Mask(product.public_key, zeros, product.exponent, product.shape, product.layout, product.columns)


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
def test_what_a_key_holder_decrypts_looks_uniform_and_would_not_without_the_mask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: bool
) -> None:
    seen: list[tuple[int, DecryptedVector]] = []
    answer_sums = GradientExchange.answer

    def spying(self: GradientExchange, peer: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        answer = answer_sums(self, peer, kind, step, vector)
        seen.append((modulus_of(self.public_key), answer))
        return answer

    monkeypatch.setattr(GradientExchange, "answer", spying)

    def statistic() -> float:
        total = 0.0
        for modulus in {n for n, _ in seen}:
            residues = [
                int.from_bytes(answer.data[start : start + answer.width], "big")
                for n, answer in seen
                if n == modulus
                for start in range(0, len(answer.data), answer.width)
            ]
            assert len(residues) >= 80
            total += _uniformity(residues, modulus)
        return total

    limit = float(chi2.isf(1e-6, df=2 * 15))
    # What is decrypted is the same; so it can be seen whole.
    settings = small_settings(epochs=20, packing=packing, truncate_answers=False)
    with house(tmp_path, settings=settings) as home:
        home.train()
    assert statistic() < limit

    seen.clear()
    monkeypatch.setattr("vfl.crypto.messages.mask_vector", _without_mask)
    with house(tmp_path, settings=settings) as home:
        home.train()
    assert statistic() > limit


# -- records without a label ------------------------------------------------------------------------------------------


def test_records_without_a_label_are_predicted_and_neither_trained_on_nor_judged(tmp_path: Path) -> None:
    """The weights are those of labels that nobody looks at, whatever they are."""
    given: list[object] = ["yes" if row % 3 else "no" for row in range(60)]
    lacking = [7, 20, 33]
    labels = [None if row in lacking else label for row, label in enumerate(given)]
    with house(tmp_path, settings=PLAIN, active=active_data(labels=labels)) as home:
        home.train()
        tested, model = home.tested(), home.active._serving.current()
        assert model is not None
        assert home.active.class_names == ("no", "yes")
        rows = [int(model.row_of_id[f"id-{row}"]) for row in lacking]
        assert set(rows) <= set(model.model.rows.test.tolist())
        assert not {*rows} & {*tested.rows.tolist()}
        assert len(tested.rows) == len(model.model.rows.test) - len(lacking)
        assert (tested.labels >= 0).all()
        assert set(home.active.predict([f"id-{row}" for row in lacking])) == {f"id-{row}" for row in lacking}


def test_more_records_without_a_label_than_are_tested_are_refused_in_words(tmp_path: Path) -> None:
    labels = [None if row % 2 else str(row % 4) for row in range(60)]
    with (
        house(tmp_path, settings=PLAIN, active=active_data(labels=labels)) as home,
        pytest.raises(InvalidMessage, match=r"have no label and can only be tested, as \d+ are: set test_fraction"),
    ):
        home.train()


def test_records_are_asked_for_in_any_form_that_their_table_takes_for_one(tmp_path: Path) -> None:
    with house(tmp_path, settings=small_settings(cipher="plain", ignore_in_ids=("case", "zeros"))) as home:
        home.train()
        assert set(home.active.predict(home.active.id_forms(["ID-010", "id-10"]))) == {"id-10"}
