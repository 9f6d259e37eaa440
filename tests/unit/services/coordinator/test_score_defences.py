"""Score defences at the coordinator: on what is delivered, in order, with what they need, the same when asked again."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from defences import DefenceError, DefenceSpec, NoiseSource, ScoreContext, ScoreDefence, load
from protos.v1 import common_pb2
from services.common.agreement import Agreement, PartyDescription
from services.common.errors import FederationError, InvalidMessage, OutOfOrder
from services.common.identity import Identity
from services.common.scores import PartialScores
from services.coordinator.sessions import Sessions
from tests.harness.exchanges import SMALL_PLAN
from tests.harness.parties import ACTIVE, PASSIVE, House, Watcher, active_data, house, small_settings, submit
from tests.harness.shares import SECOND, begun, shares
from vfl.arrays import FloatArray
from vfl.learning import class_rows, confidence_scores


@dataclass(frozen=True)
class Mix:
    """Scores mixed with the uniform distribution."""

    part: float = 0.5
    name: ClassVar[str] = "mix"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("coordinator",), ("scores",), "decision", "a test")

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        mixed: FloatArray = (1 - self.part) * scores + self.part / scores.shape[1]
        return mixed


@dataclass(frozen=True)
class Square:
    """Scores squared, and scaled to sum to 1."""

    name: ClassVar[str] = "square"
    spec: ClassVar[DefenceSpec] = DefenceSpec(("coordinator",), ("scores",), "decision", "a test")

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        squared: FloatArray = scores**2 / (scores**2).sum(axis=1, keepdims=True)
        return squared


@dataclass(frozen=True, eq=False)
class Watch:
    """Leaves scores and keeps what it was told of the parameters."""

    seen: list[FloatArray | None]
    name: ClassVar[str] = "watch"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        ("coordinator",), ("scores",), "scores", "a test", needs=("parameter_gram",)
    )

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        self.seen.append(context.parameter_gram)
        if context.parameter_gram is None:
            raise DefenceError("watch needs the Gram matrix of a linear model: train one.")
        return scores


def gram_of(seed: int, classes: int = 3) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=(classes, 4))
    gram: FloatArray = rows @ rows.T
    return gram


def delivered(
    sessions: Sessions, agreement: Agreement, request: int = 1, *, gram: FloatArray | None = None, columns: int = 1
) -> FloatArray:
    session_id = agreement.session_id
    submit(sessions, PASSIVE, session_id, request, shares(columns=columns, seed=1), gram)
    return sessions.score(ACTIVE, session_id, request, shares(columns=columns, seed=2))


HONEST = confidence_scores(shares(seed=1) + shares(seed=2))


# -- what is applied, and where ---------------------------------------------------------------------------------------


def test_score_defences_are_applied_in_the_order_given() -> None:
    context = ScoreContext(NoiseSource(0))
    both: list[ScoreDefence] = [Mix(), Square()]
    answers = []
    for order in (both, both[::-1]):
        expected = HONEST
        for defence in order:
            expected = defence.protect_scores(expected, context)
        answers.append(delivered(*begun(order)))
        np.testing.assert_allclose(answers[-1], expected, atol=1e-15)
    assert np.abs(answers[0] - answers[1]).max() > 0.01, "the order shows"


def test_without_defences_scores_are_the_sigmoid_of_the_sum() -> None:
    np.testing.assert_allclose(delivered(*begun([])), HONEST, atol=1e-15)


def test_shares_are_kept_as_they_came_and_only_what_is_delivered_is_changed() -> None:
    """A share that comes again is compared with the one before, not with anything that a defence has made of it."""
    sessions, agreement = begun([Square()])
    first = delivered(sessions, agreement)
    submit(sessions, PASSIVE, agreement.session_id, 1, shares(seed=1))
    np.testing.assert_array_equal(sessions.score(ACTIVE, agreement.session_id, 1, shares(seed=2)), first)
    with pytest.raises(OutOfOrder, match="other scores for request 1"):
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(seed=3))


def test_the_agreement_names_the_defences_in_order_and_what_they_need() -> None:
    _, agreement = begun([Mix(), Square()])
    assert agreement.score_defences == ("mix", "square")
    assert not agreement.wants_parameter_gram
    _, needing = begun([Mix(), Watch([])])
    assert needing.wants_parameter_gram
    _, none = begun([])
    assert (none.score_defences, none.wants_parameter_gram) == ((), False)
    for one in (agreement, needing, none):
        assert Agreement.from_message(common_pb2.Agreement.FromString(one.to_message().SerializeToString())) == one


# -- the geometry that some need --------------------------------------------------------------------------------------


def test_a_defence_that_needs_it_gets_the_gram_matrix_of_all_passive_parties_together() -> None:
    seen: list[FloatArray | None] = []
    sessions, agreement = begun([Watch(seen)], classes=3, passive=[PASSIVE, SECOND])
    submit(sessions, SECOND, agreement.session_id, 1, shares(columns=3), gram_of(8))
    delivered(sessions, agreement, gram=gram_of(7), columns=3)
    rehearsed, given = seen
    assert rehearsed is not None
    assert given is not None
    np.testing.assert_allclose(given, gram_of(7) + gram_of(8))


def test_a_defence_that_cannot_work_with_so_many_classes_is_noticed_before_anything_is_trained() -> None:
    halves = load("class_label", remainder=0.4)
    begun([halves], classes=2)
    with pytest.raises(OutOfOrder, match="below 1/3"):
        begun([halves], classes=3)


@pytest.mark.parametrize("lacking", [PASSIVE, SECOND])
def test_where_one_partys_model_is_not_linear_there_is_no_gram_matrix_and_a_sentence(lacking: Identity) -> None:
    sessions, agreement = begun([Watch([])], classes=3, passive=[PASSIVE, SECOND])
    for party in (PASSIVE, SECOND):
        gram = None if party is lacking else gram_of(1)
        submit(sessions, party, agreement.session_id, 1, shares(columns=3), gram)
    with pytest.raises(OutOfOrder, match="needs the Gram matrix of a linear model"):
        sessions.score(ACTIVE, agreement.session_id, 1, shares(columns=3))


def test_a_defence_that_doesnt_need_it_works_without() -> None:
    assert delivered(*begun([Mix()])).shape == (5, 2)


@pytest.mark.parametrize("shape", [(2, 2), (4, 4), (3, 2), (9,)])
def test_a_gram_matrix_of_other_classes_is_refused_when_it_comes(shape: tuple[int, ...]) -> None:
    sessions, agreement = begun([Watch([])], classes=3)
    with pytest.raises(InvalidMessage, match="Expected a Gram matrix of 3 classes"):
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(columns=3), np.ones(shape))
    submit(sessions, PASSIVE, agreement.session_id, 1, shares(columns=3), gram_of(0))


@pytest.mark.parametrize("gram", [-np.eye(3), np.triu(np.ones((3, 3))), np.diag([1.0, 1.0, -1e-6])])
def test_what_is_no_gram_matrix_is_refused_when_it_comes(gram: FloatArray) -> None:
    sessions, agreement = begun([Watch([])], classes=3)
    with pytest.raises(InvalidMessage, match="Expected a Gram matrix: symmetric, without negative eigenvalues"):
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(columns=3), gram)


@pytest.mark.parametrize("scale", [0.0, 1e-320, 1e-160, 1e160, 1e307])
def test_a_gram_matrix_of_any_size_is_taken_and_gives_finite_scores(scale: float) -> None:
    sessions, agreement = begun([load("score_scheme1"), load("score_scheme2")], classes=3)
    assert np.isfinite(delivered(sessions, agreement, gram=np.diag([3.0, 2.0, 1.0]) * scale, columns=3)).all()


def test_another_gram_matrix_for_the_same_request_is_refused() -> None:
    sessions, agreement = begun([Watch([])], classes=3)
    for _ in range(2):
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(columns=3), gram_of(1))
    with pytest.raises(OutOfOrder, match="other scores for request 1"):
        submit(sessions, PASSIVE, agreement.session_id, 1, shares(columns=3), gram_of(2))


def test_scheme_1_refuses_to_deliver_without_it_and_names_what_works() -> None:
    sessions, agreement = begun([load("score_scheme1")], classes=3)
    with pytest.raises(OutOfOrder, match=r"score_scheme1 needs the Gram matrix.*score_scheme3 or class_label"):
        delivered(sessions, agreement, columns=3)


@pytest.mark.parametrize("name", ["score_scheme1", "score_scheme2"])
def test_with_it_scheme_1_and_2_change_scores_and_keep_the_decision(name: str) -> None:
    honest = delivered(*begun([], classes=3), columns=3)
    changed = delivered(*begun([load(name)], classes=3), gram=gram_of(3), columns=3)
    assert np.abs(changed - honest).max() > 0.01
    np.testing.assert_array_equal(changed.argmax(axis=1), honest.argmax(axis=1))


# -- asked again ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [None, NoiseSource(3)], ids=["system", "seeded"])
def test_a_repeated_request_gets_the_same_noise_and_so_does_the_record_in_another_request(
    noise: NoiseSource | None,
) -> None:
    sessions, agreement = begun([load("score_noise", sigma=0.2)], noise=noise)
    first = delivered(sessions, agreement)
    assert np.abs(first - HONEST).max() > 0.01
    np.testing.assert_array_equal(sessions.score(ACTIVE, agreement.session_id, 1, shares(seed=2)), first)
    # The same records in another order, as another request: averaging answers gains nothing.
    submit(sessions, PASSIVE, agreement.session_id, 2, shares(seed=1)[::-1])
    again = sessions.score(ACTIVE, agreement.session_id, 2, shares(seed=2)[::-1])
    np.testing.assert_allclose(again[::-1], first, atol=1e-12)


def test_two_coordinators_add_different_noise() -> None:
    first, second = (delivered(*begun([load("score_noise", sigma=0.2)])) for _ in range(2))
    assert np.abs(first - second).max() > 0.01


def test_a_repeated_request_gets_the_same_answer_although_training_has_gone_on() -> None:
    sessions, agreement = begun([load("score_scheme1")], classes=3)
    first = delivered(sessions, agreement, gram=gram_of(1), columns=3)
    submit(sessions, PASSIVE, agreement.session_id, 2, shares(columns=3, seed=5), gram_of(2))
    again = sessions.score(ACTIVE, agreement.session_id, 1, shares(columns=3, seed=2))
    np.testing.assert_array_equal(again, first)


# -- in a federation --------------------------------------------------------------------------------------------------

PLAIN = small_settings(cipher="plain")
IDS = [f"id-{row}" for row in range(5, 60)]


def scores_of(home: House) -> FloatArray:
    return np.array(list(home.active.predict(IDS).values()))


def test_the_federation_delivers_defended_scores_everywhere_and_trains_the_same_model(tmp_path: Path) -> None:
    weights, told, tested = [], [], []
    for number, defences in enumerate(([], [load("class_label")])):
        folder = tmp_path / str(number)
        with house(folder, settings=PLAIN, score_defences=defences) as home:
            home.train()
            told.append(scores_of(home))
            record, scores = home.record(), home.tested().scores
        assert record["agreement"]["score_defences"] == [defence.name for defence in defences]
        tested.append(scores)
        weights.append(np.load(folder / "passive-weights.npz")["weights"])
    np.testing.assert_array_equal(weights[1], weights[0])
    for honest, defended in (told, tested):
        np.testing.assert_array_equal(defended, np.eye(2)[honest.argmax(axis=1)])
        assert not np.isin(honest, [0.0, 1.0]).any()


@pytest.mark.parametrize("classes", [2, 3])
def test_parties_send_the_geometry_of_their_trained_model(tmp_path: Path, classes: int) -> None:
    seen: list[FloatArray | None] = []
    labels = [f"class-{row % classes}" for row in range(60)]
    with house(tmp_path, settings=PLAIN, active=active_data(labels=labels), score_defences=[Watch(seen)]) as home:
        home.train()
        rows = class_rows(np.load(tmp_path / "passive-weights.npz")["weights"])
        assert seen[-1] is not None
        np.testing.assert_allclose(seen[-1], rows @ rows.T, atol=1e-12)


def test_a_party_sends_no_geometry_that_nobody_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[FloatArray | None] = []
    original = Sessions.submit

    def watching(self: Sessions, caller: Identity, session_id: str, request_id: int, share: PartialScores) -> int:
        sent.append(share.parameter_gram)
        return original(self, caller, session_id, request_id, share)

    monkeypatch.setattr(Sessions, "submit", watching)
    with house(tmp_path, settings=PLAIN, score_defences=[Mix()]) as home:
        home.train()
    assert sent
    assert all(gram is None for gram in sent)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_defence_that_cant_work_with_so_many_classes_says_so_before_anything_is_aligned(
    tmp_path: Path, classes: int
) -> None:
    data = active_data(labels=[f"class-{row % classes}" for row in range(60)])
    watcher = Watcher()
    with house(tmp_path, settings=PLAIN, active=data, score_defences=[load("class_label", remainder=0.4)]) as home:
        if classes == 3:
            with pytest.raises(FederationError, match=r"below 1/3.*got 0\.4"):
                home.active.train(home.settings.plan(), watcher)
            assert "below 1/3" in home.active.failure
        else:
            home.active.train(home.settings.plan(), watcher)
        assert watcher.stages == ([] if classes == 3 else ["aligning", "agreeing", "training", "testing", "serving"])


def test_a_rehearsal_takes_nothing_from_a_seeded_source_that_scores_need() -> None:
    """Noise per record comes from the key alone: opening more sessions changes no answer."""
    answers = []
    for sessions_before in (0, 3):
        sessions = Sessions(5, [load("score_noise")], NoiseSource(9))
        for _ in range(sessions_before):
            sessions.open(ACTIVE, SMALL_PLAN, 2, ("passive",))
        session_id = sessions.open(ACTIVE, SMALL_PLAN, 2, ("passive",))
        with ThreadPoolExecutor() as threads:
            joining = [
                threads.submit(sessions.join, caller, session_id, PartyDescription(caller.name, 3, 0, False, 100))
                for caller in (ACTIVE, PASSIVE)
            ]
        answers.append(delivered(sessions, joining[0].result()))
    np.testing.assert_array_equal(answers[1], answers[0])
