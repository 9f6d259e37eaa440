"""One answer per record: what is answered when a share is varied, records repeat, and parameters change."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from defences import load
from services.common.errors import InvalidMessage, NotAllowed, OutOfOrder
from services.common.scores import PartialScores
from services.common.state_folder import StateInMemory
from services.coordinator.kept_sessions import KeptSessions
from services.coordinator.session_state import AnsweredRecords
from services.coordinator.sessions import Sessions
from services.party.party_defences import PartyDefences
from services.party.party_model import PartyModel
from services.party.party_training import PartyTraining
from tests.harness.defended import INSTALLED, party_training
from tests.harness.parties import ACTIVE, PASSIVE, House, data_of, house, party_data, small_settings, submit
from tests.harness.shares import SECOND, begun, shares
from vfl.arrays import FloatArray
from vfl.learning import LinearPart
from vfl.learning.networks import DenseNetwork

PLAIN = small_settings(cipher="plain")
LABEL = load("class_label")


def remembering() -> AnsweredRecords:
    """Records of a session of which nothing was asked yet."""
    return AnsweredRecords(KeptSessions(StateInMemory()), "session")


# -- the records ------------------------------------------------------------------------------------------------------


@given(
    records=st.integers(1, 6),
    columns=st.integers(1, 4),
    questions=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=8), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_honest_questions_are_answered_by_what_was_said_first(
    records: int, columns: int, questions: list[list[int]], seed: int
) -> None:
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(records, columns)) * 10
    tokens = generator.integers(0, 2**63, size=(records, 2))
    answered = remembering()
    first: dict[int, FloatArray] = {}
    for question in questions:
        rows = [record % records for record in question]
        asked = logits[rows] * (1 + generator.uniform(-1e-14, 1e-14, size=(len(rows), columns)))
        answers = answered.first_logits(asked, {"a": tokens[rows, 0].tolist(), "b": tokens[rows, 1].tolist()})
        for row, answer in zip(rows, answers, strict=True):
            np.testing.assert_array_equal(answer, first.setdefault(row, answer))
            np.testing.assert_allclose(answer, logits[row], rtol=1e-12)


@given(shift=st.floats(1e-4, 1e3) | st.floats(-1e3, -1e-4), column=st.integers(0, 2), within=st.booleans())
def test_another_sum_for_a_record_is_refused_also_within_one_question(shift: float, column: int, within: bool) -> None:
    answered = remembering()
    honest = np.array([[0.5, -1.0, 2.0]])
    other = honest.copy()
    other[0, column] += shift
    if within:
        with pytest.raises(NotAllowed, match="once per record"):
            answered.first_logits(np.vstack([honest, other]), {"a": [7, 7]})
    else:
        answered.first_logits(honest, {"a": [7]})
        with pytest.raises(NotAllowed, match="once per record"):
            answered.first_logits(other, {"a": [7]})
    np.testing.assert_array_equal(answered.first_logits(honest, {"a": [7]}), honest)
    np.testing.assert_array_equal(answered.first_logits(other, {"a": [8]}), other)


def test_a_step_too_small_to_be_refused_moves_nothing() -> None:
    answered = remembering()
    first = answered.first_logits(np.array([[0.0]]), {"a": [1]})
    for step in range(1, 100):
        np.testing.assert_array_equal(answered.first_logits(np.array([[step * 9e-9]]), {"a": [1]}), first)


def test_one_honest_partys_pseudonyms_hold_whatever_another_calls_its_records() -> None:
    answered = remembering()
    answered.first_logits(np.zeros((1, 1)), {"colludes": [1], "honest": [1]})
    with pytest.raises(NotAllowed, match="once per record"):
        answered.first_logits(np.ones((1, 1)), {"colludes": [2], "honest": [1]})
    # The same number from another party is another record.
    answered.first_logits(np.full((1, 1), 3.0), {"colludes": [3], "honest": [2]})


# -- at the coordinator -----------------------------------------------------------------------------------------------


def turning_point(sessions: Sessions, session_id: str, *, fresh: bool) -> float:
    """Where the label of one record turns as the active party moves its share: minus the passive share, to 2^-20."""
    low, high = -8.0, 8.0
    for request in range(24):
        middle = (low + high) / 2
        submit(sessions, PASSIVE, session_id, request, np.array([[1.2345]]), tokens=[request if fresh else 0])
        label = sessions.score(ACTIVE, session_id, request, np.array([[middle]])).argmax()
        low, high = (low, middle) if label else (middle, high)
    return low


def test_steering_reads_a_share_through_a_bare_label_unless_a_record_is_answered_once() -> None:
    sessions, agreement = begun([LABEL])
    assert turning_point(sessions, agreement.session_id, fresh=True) == pytest.approx(-1.2345, abs=1e-5)
    sessions, agreement = begun([LABEL])
    with pytest.raises(NotAllowed, match="once per record"):
        turning_point(sessions, agreement.session_id, fresh=False)


def test_who_steers_another_passive_partys_share_is_refused_too() -> None:
    sessions, agreement = begun([LABEL], passive=[PASSIVE, SECOND])
    for request, steered in enumerate((0.0, 1.0)):
        submit(sessions, PASSIVE, agreement.session_id, request, shares(rows=1), tokens=[5])
        submit(sessions, SECOND, agreement.session_id, request, np.full((1, 1), steered), tokens=[request])
    sessions.score(ACTIVE, agreement.session_id, 0, shares(rows=1))
    with pytest.raises(NotAllowed, match="once per record"):
        sessions.score(ACTIVE, agreement.session_id, 1, shares(rows=1))


@pytest.mark.parametrize("count", [0, 4, 6])
def test_a_share_without_a_pseudonym_per_record_is_refused_where_scores_are_defended(count: int) -> None:
    sessions, agreement = begun([LABEL])
    with pytest.raises(InvalidMessage, match=f"pseudonym for each of 5 records, got {count}"):
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(), tokens=range(count))
    undefended, agreement = begun([])
    submit(undefended, PASSIVE, agreement.session_id, 1, shares(), tokens=())
    undefended.score(ACTIVE, agreement.session_id, 1, shares())


def test_pseudonyms_of_a_request_are_those_of_its_first_share() -> None:
    sessions, agreement = begun([LABEL])
    submit(sessions, PASSIVE, agreement.session_id, 1, shares(rows=1), tokens=[1])
    with pytest.raises(OutOfOrder, match="has sent other scores for request 1"):
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(rows=1), tokens=[2])


# -- in a federation --------------------------------------------------------------------------------------------------


def sent_shares(monkeypatch: pytest.MonkeyPatch) -> list[PartialScores]:
    sent: list[PartialScores] = []
    original = Sessions.submit

    def watching(self: Sessions, caller: Any, session_id: str, request_id: int, share: PartialScores) -> int:
        sent.append(share)
        return original(self, caller, session_id, request_id, share)

    monkeypatch.setattr(Sessions, "submit", watching)
    return sent


def test_a_record_keeps_its_pseudonym_as_long_as_parameters_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = sent_shares(monkeypatch)
    with house(tmp_path, settings=PLAIN, score_defences=[LABEL]) as home:
        for _ in range(2):
            home.train()
        first_epoch, second_epoch, test, *again = (set(share.record_tokens) for share in sent)
        assert len(first_epoch) == len(sent[0].products)
        # Validation rows again, with other weights; other rows, with the same ones; then another session altogether.
        assert not first_epoch & second_epoch
        assert not second_epoch & test
        assert not (first_epoch | second_epoch | test) & set().union(*again)
        ids = [f"id-{row}" for row in range(5, 60)]
        for asked in (ids, ids[::-1]):
            home.active.predict(asked)
        there, back = sent[-2:]
    assert there.record_tokens == back.record_tokens[::-1]
    assert len(set(there.record_tokens)) == len(ids)
    assert again[-1] <= set(there.record_tokens)


@pytest.mark.parametrize("parties", [1, 2])
def test_a_party_whose_weights_stand_still_refuses_no_honest_score(tmp_path: Path, parties: int) -> None:
    """Found: where all of a party's columns are 0 its pseudonyms stayed, and the others' shares went on."""
    still = data_of(np.zeros((60, 3)))
    with house(tmp_path, settings=PLAIN, passive=[still, party_data(seed=2)][:parties], score_defences=[LABEL]) as home:
        home.train(epochs=4)
        assert len(home.active.predict([f"id-{row}" for row in range(60)])) == 60


def test_pseudonyms_are_sent_only_where_scores_are_defended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = sent_shares(monkeypatch)
    with house(tmp_path, settings=PLAIN) as home:
        home.train()
    assert sent
    assert all(share.record_tokens == () for share in sent)


def steer(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the active party lies about its own share."""
    honest = PartyModel.partial_scores

    def lying(self: PartyModel, rows: Sequence[int]) -> FloatArray:
        return honest(self, rows) + (0.5 if self.name == "active" else 0.0)

    monkeypatch.setattr(PartyModel, "partial_scores", lying)


@pytest.mark.parametrize("name", ["class_label", "score_rounding", "score_noise", "score_scheme3"])
def test_an_active_party_that_varies_its_share_gets_no_second_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with house(tmp_path, settings=PLAIN, score_defences=[load(name)]) as home:
        home.train()
        before = home.active.predict_one("id-7")
        steer(home, monkeypatch)
        with pytest.raises(NotAllowed, match="once per record"):
            home.active.predict_one("id-7")
        monkeypatch.undo()
        np.testing.assert_array_equal(home.active.predict_one("id-7"), before)


def test_undefended_scores_tell_all_at_once_and_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        home.train()
        before = home.active.predict_one("id-7")
        steer(home, monkeypatch)
        assert not np.array_equal(home.active.predict_one("id-7"), before)


# -- until training ends ----------------------------------------------------------------------------------------------


def test_during_training_only_validation_records_are_scored_and_nothing_is_disclosed(tmp_path: Path) -> None:
    refused: list[str] = []

    def ask(training: PartyTraining) -> None:
        validation = training.rows.validation.tolist()
        if training.model.epochs:
            training.model_for(validation)
        else:
            # Start weights are nobody's model, and would be one more answer in each session.
            with pytest.raises(OutOfOrder, match="and not in this one"):
                training.model_for(validation)
        for row in (training.rows.train[0], training.rows.test[0]):
            with pytest.raises(OutOfOrder, match="only validation records are scored"):
                training.model_for([*validation, int(row)])
        with pytest.raises(OutOfOrder, match="disclosed when it has ended"):
            home.passive["passive"].disclose_parameters(ACTIVE, training.agreement.session_id)
        refused.append(training.name)

    with house(tmp_path, settings=small_settings(cipher="plain", disclose=True)) as home:
        run_epoch = PartyTraining.run_epoch

        def asking(self: PartyTraining, epoch: int, on_step: Any, *attempt: Any) -> None:
            ask(self)
            run_epoch(self, epoch, on_step, *attempt)
            ask(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PartyTraining, "run_epoch", asking)
            home.train()
        assert sorted(refused) == ["active"] * 4 + ["passive"] * 4
        training = home.active_training
        rows = list(range(training.agreement.active.aligned_rows))
        assert training.model_for(rows).partial_scores(rows).shape == (len(rows), 1)
        session_id = training.agreement.session_id
        assert isinstance(home.passive["passive"].disclose_parameters(ACTIVE, session_id), LinearPart)


def test_an_installed_model_is_asked_at_once_and_disclosed_as_it_is() -> None:
    network = DenseNetwork((np.ones((2, 2)),), (np.zeros(2),))
    training = party_training(INSTALLED, network, PartyDefences())
    assert training.model_for([0, 1]).partial_scores([0, 1]).shape == (2, 2)
    assert training.model.disclosed_by(PartyDefences()) is network
