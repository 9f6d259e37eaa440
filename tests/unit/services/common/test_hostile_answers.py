"""Answers of a hostile passive party, peer or coordinator: as dangerous as requests, and refused like them."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest

from protos.v1 import (
    common_pb2,
    coordinator_pb2,
    coordinator_pb2_grpc,
    messages_pb2,
    messages_pb2_grpc,
    passive_pb2,
    passive_pb2_grpc,
)
from services.active.passive_link import PassiveLink
from services.adversary.knowledge import disclosed_parts
from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.identity import Identity, Role, role_of
from services.common.ledger_marks import LedgerMark
from services.common.meters import TrafficMeter
from services.coordinator import servicer as coordinator_servicer
from services.exchange import servicer as exchange_servicer
from services.exchange.message_link import MessageLink
from services.exchange.vectors import WireVector
from services.network.transport import Transport
from services.party.coordinator_link import CoordinatorLink
from services.passive import servicer as passive_servicer
from vfl.learning.trees import Split, Tree
from vfl.learning.trees.trees_part import TreesPart

SESSION_ID = "0123456789abcdef" * 2
OWN = PartyDescription("active", 3, 0, False, 99)
AGREEMENT = Agreement(SESSION_ID, TrainingPlan(), 2, (OWN, PartyDescription("passive", 2, 0, False, 99)))
TERMS = ProposedTerms(SESSION_ID, "active", ("passive",), TrainingPlan(), 2)
MARK = LedgerMark("abcdef0123456789" * 2, 3)
VECTOR = WireVector("key", 4, 64, 0, bytes(256))

Dial = Callable[[str, Any], grpc.Channel]


@pytest.fixture
def dial() -> Iterator[Dial]:
    """Serve a hostile party, and reach it as an honest one does."""
    registers: dict[type, tuple[Callable[..., None], Any]] = {
        passive_pb2_grpc.PassiveServicer: (passive_pb2_grpc.add_PassiveServicer_to_server, passive_servicer),
        coordinator_pb2_grpc.CoordinatorServicer: (
            coordinator_pb2_grpc.add_CoordinatorServicer_to_server,
            coordinator_servicer,
        ),
        messages_pb2_grpc.MessagesServicer: (
            messages_pb2_grpc.add_MessagesServicer_to_server,
            exchange_servicer,
        ),
    }
    with ExitStack() as stack:

        def reach(name: str, hostile: Any) -> grpc.Channel:
            add, service = next(found for kind, found in registers.items() if isinstance(hostile, kind))
            transport = Transport(Identity(role_of(name), name), None, TrafficMeter())
            server, port = transport.serve(
                "127.0.0.1:0", [lambda one: add(hostile, one)], service.PERMISSIONS, [service.SERVICE_NAME]
            )
            stack.callback(lambda: server.stop(None).wait())
            channel = Transport(Identity(Role.ACTIVE, "active"), None, TrafficMeter()).dial(f"127.0.0.1:{port}", name)
            stack.callback(channel.close)
            return channel

        yield reach


# -- a passive party --------------------------------------------------------------------------------------------------


class Reporting(passive_servicer.PassiveServicer):
    """Reports steps for ever, or those that it is given."""

    def __init__(self, *steps: int) -> None:
        self._steps = steps

    def RunEpoch(
        self, request: passive_pb2.RunEpochRequest, context: grpc.ServicerContext
    ) -> Iterator[passive_pb2.StepReport]:
        step = 0
        while not self._steps and context.is_active():
            yield passive_pb2.StepReport(step=step)
            step += 1
        for one in self._steps:
            yield passive_pb2.StepReport(step=one)


@pytest.mark.parametrize(
    "steps", [(), (0, 0), (1,), (0, 1, 2, 3), (0, 2**32 - 1)], ids=["for ever", "twice", "late", "beyond", "huge"]
)
def test_reports_of_other_steps_than_the_epochs_end_the_epoch(dial: Dial, steps: tuple[int, ...]) -> None:
    link = PassiveLink("passive", dial("passive", Reporting(*steps)), 10.0)
    with pytest.raises(InvalidMessage, match="passive reports another step than the next one of epoch 0"):
        link.run_epoch(SESSION_ID, 0, 3)


def test_reports_of_an_epochs_steps_are_taken(dial: Dial) -> None:
    PassiveLink("passive", dial("passive", Reporting(6, 7, 8)), 10.0).run_epoch(SESSION_ID, 2, 3)


class Disclosing(passive_servicer.PassiveServicer):
    """Discloses what it is given."""

    def __init__(self, *arrays: passive_pb2.PartArray) -> None:
        self._reply = passive_pb2.DisclosedParameters(arrays=arrays)

    def DiscloseParameters(
        self, request: common_pb2.SessionRequest, context: grpc.ServicerContext
    ) -> passive_pb2.DisclosedParameters:
        return self._reply


def array(*shape: int, value: float = 0.5, name: str = "weights") -> passive_pb2.PartArray:
    return passive_pb2.PartArray(name=name, shape=shape, values=[value] * min(math.prod(shape), 100))


@pytest.mark.parametrize(
    "hostile",
    [
        Disclosing(),
        Disclosing(*[array(2, 1)] * 66),
        Disclosing(array(2**16, 2**16)),
        Disclosing(array(2, 1, value=float("nan"))),
        Disclosing(array(2, 1, value=1.7e308)),
        Disclosing(array(2, 1, 1)),
        Disclosing(array(2, 1, name="x" * 1_000_000)),
        Disclosing(passive_pb2.PartArray(name="activation", word="x" * 1_000_000)),
    ],
    ids=["none", "many", "gigantic", "nan", "overflow", "axes", "name", "word"],
)
def test_a_disclosed_model_that_is_none_is_refused_in_a_sentence(dial: Dial, hostile: Disclosing) -> None:
    link = PassiveLink("passive", dial("passive", hostile), 10.0)
    with pytest.raises(InvalidMessage) as error:
        link.disclose_parameters(SESSION_ID)
    assert len(str(error.value)) < 800


@pytest.mark.parametrize(
    "arrays",
    [
        {"weights": np.zeros((2, 3))},
        {"activation": np.array("relu"), "weights_0": np.zeros((2, 3)), "biases_0": np.zeros(2)},
        {"activation": np.array("relu"), "weights_0": np.zeros(2), "biases_0": np.zeros(())},
        {"activation": np.array("x"), "weights_0": np.zeros((2, 3)), "biases_0": np.zeros(3)},
        {
            "activation": np.array("relu"),
            **{f"weights_{at}": np.zeros((2, 3)) for at in range(2)},
            **{f"biases_{at}": np.zeros(3) for at in range(2)},
        },
    ],
    ids=["another", "biases", "axes", "activation", "apart"],
)
def test_arrays_that_the_sessions_learner_cant_read_are_refused_in_a_sentence(arrays: dict[str, Any]) -> None:
    agreement = replace(AGREEMENT, plan=AGREEMENT.plan.changed(learner="installed"))
    with pytest.raises(InvalidMessage, match=r"^passive discloses no model: ") as error:
        disclosed_parts({"passive": arrays}, agreement, None)
    assert len(str(error.value)) < 800


@pytest.mark.parametrize(
    ("learner", "shape"),
    [("network", (3, 4)), ("network", (2, 5)), ("network", (2, 0)), ("linear", (3, 1)), ("linear", (2, 3))],
)
def test_a_disclosed_model_of_another_shape_than_the_sessions_is_refused_in_a_sentence(
    learner: str, shape: tuple[int, int]
) -> None:
    """Before an adversary puts it beside its own."""
    options = {"hidden": 4} if learner == "network" else {}
    agreement = replace(AGREEMENT, plan=AGREEMENT.plan.changed(learner=learner, **options))
    with pytest.raises(InvalidMessage, match=r"^passive discloses no model: it doesn't fit its 2 columns"):
        disclosed_parts({"passive": {"weights": np.zeros(shape)}}, agreement, None)
    fitting = (2, 4 if learner == "network" else 1)
    assert disclosed_parts({"passive": {"weights": np.zeros(fitting)}}, agreement, None) is not None


def test_a_disclosed_model_is_read_array_by_array(dial: Dial) -> None:
    sent = array(2, 3), array(3, name="biases"), passive_pb2.PartArray(name="activation", word="tanh")
    found = PassiveLink("passive", dial("passive", Disclosing(*sent)), 10.0).disclose_parameters(SESSION_ID)
    assert found is not None
    assert {name: held.shape for name, held in found.items()} == {"weights": (2, 3), "biases": (3,), "activation": ()}


TREES = AGREEMENT.plan.changed(
    learner="boosted_trees", protocol="trees", epochs=2, batch_size=0, learner_options={"n_estimators": 2}
)
# A tree that the passive party divides once, and one that is a leaf.
SHOWN = TreesPart(1, (Tree({1: (1, 0)}, {}), Tree({}, {})), (Split(1, 0.25, True),))


def shown(part: TreesPart, **others: np.ndarray) -> list[passive_pb2.PartArray]:
    arrays = {**part.arrays(), **others}
    return [
        passive_pb2.PartArray(name=name, shape=array.shape, values=array.ravel().tolist())
        for name, array in arrays.items()
    ]


def test_disclosed_trees_are_read_with_their_splits_and_without_any_leaf(dial: Dial) -> None:
    link = PassiveLink("passive", dial("passive", Disclosing(*shown(SHOWN))), 10.0)
    arrays = {"passive": link.disclose_parameters(SESSION_ID)}
    (part,) = disclosed_parts(arrays, replace(AGREEMENT, plan=TREES), SHOWN) or ()
    assert isinstance(part, TreesPart)
    assert (part.place, part.splits, part.first_margin) == (SHOWN.place, SHOWN.splits, None)
    assert part.trees == SHOWN.trees


@pytest.mark.parametrize(
    "others",
    [
        {"place": np.array([1, 2**50, 0])},
        {"place": np.array([1, -1, 0])},
        {"place": np.array([0, 2, 0])},
        {"place": np.array([1, 2.5, 0])},
        {"nodes": np.array([[2, 1, 1, 0]])},
        {"nodes": np.array([[-1, 1, 1, 0]])},
        {"nodes": np.array([[0, 6, 1, 0]])},
        {"nodes": np.array([[0, -1, 1, 0]])},
        {"nodes": np.array([[0, 1, 1, 7]])},
        {"splits": np.array([[2, 0.5, 1]])},
        {"splits": np.array([[-1, 0.5, 1]])},
        {"splits": np.zeros((1, 2))},
        {"splits": np.array([[0.5, 0.5, 1]])},
        {"splits": np.array([[1, 0.5, 2]])},
        {"leaves": np.array([[0, 2.5, 1]])},
        {"nodes": np.zeros((0, 4)), "splits": np.zeros((0, 3))},
        {"nodes": np.array([[0, 1, 0, 0]])},
        {"nodes": np.array([[1, 1, 1, 0]])},
    ],
    ids=[
        "more trees than there can be",
        "fewer than none",
        "another party's",
        "half a tree",
        "a tree that isn't there",
        "a tree before the first",
        "a node without a parent",
        "no node",
        "a split that isn't there",
        "another's column",
        "no column",
        "splits of two numbers",
        "half a column",
        "neither side",
        "half a leaf",
        "fewer splits than were made",
        "another party's split",
        "another tree's split",
    ],
)
def test_disclosed_trees_that_are_none_are_refused_in_a_sentence(dial: Dial, others: dict[str, np.ndarray]) -> None:
    link = PassiveLink("passive", dial("passive", Disclosing(*shown(SHOWN, **others))), 10.0)
    arrays = link.disclose_parameters(SESSION_ID)
    with pytest.raises(InvalidMessage, match=r"^passive discloses no model: ") as error:
        disclosed_parts({"passive": arrays}, replace(AGREEMENT, plan=TREES), SHOWN)
    assert len(str(error.value)) < 800


# -- a peer -----------------------------------------------------------------------------------------------------------


class Answering(exchange_servicer.MessagesServicer):
    """Answers a question with a header, if any, and with data of one size again and again."""

    def __init__(self, header: bool, data: int) -> None:
        self._header, self._data = header, data

    def Ask(
        self, request_iterator: Iterator[messages_pb2.MessagePart], context: grpc.ServicerContext
    ) -> Iterator[messages_pb2.AnswerPart]:
        if self._header:
            yield messages_pb2.AnswerPart(header=messages_pb2.AnswerHeader(count=2**32 - 1, width=9))
        while context.is_active():
            yield messages_pb2.AnswerPart(data=bytes(self._data))


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [(True, 1 << 20, "at most 256 bytes"), (True, 0, "holds no data"), (False, 1, "answered without a header")],
)
def test_an_endless_answer_is_left_where_it_is_larger_than_the_question(
    dial: Dial, header: bool, data: int, words: str
) -> None:
    link = MessageLink("passive", dial("passive", Answering(header, data)), 10.0)
    with pytest.raises(InvalidMessage, match=words):
        link.ask(SESSION_ID, "sums", 0, VECTOR)


# -- a coordinator ----------------------------------------------------------------------------------------------------


class Stating(coordinator_servicer.CoordinatorServicer):
    """States whatever it is given."""

    def __init__(self, **replies: Any) -> None:
        self._replies = replies

    def OpenSession(self, request: Any, context: grpc.ServicerContext) -> coordinator_pb2.OpenSessionReply:
        return coordinator_pb2.OpenSessionReply(session_id=self._replies["session_id"])

    def GetSession(self, request: Any, context: grpc.ServicerContext) -> common_pb2.SessionTerms:
        return self._replies["terms"].to_message()  # type: ignore[no-any-return]

    def JoinSession(self, request: Any, context: grpc.ServicerContext) -> common_pb2.Agreement:
        return self._replies["agreement"].to_message()  # type: ignore[no-any-return]

    def NoteLedger(self, request: Any, context: grpc.ServicerContext) -> coordinator_pb2.LedgerMark:
        return self._replies["ledger"]  # type: ignore[no-any-return]

    def Score(self, request: Any, context: grpc.ServicerContext) -> coordinator_pb2.ConfidenceScores:
        return coordinator_pb2.ConfidenceScores(**self._replies["scores"])


@pytest.mark.parametrize("session_id", ["", "x" * 1_000_000, "../../etc/passwd"])
def test_a_session_id_that_is_none_is_refused(dial: Dial, session_id: str) -> None:
    link = CoordinatorLink(dial("coordinator", Stating(session_id=session_id)), 10.0)
    with pytest.raises(InvalidMessage, match="session id"):
        link.open_session(TrainingPlan(), 2, ("passive",))


@pytest.mark.parametrize(
    "changes",
    [
        {"session_id": "f" * 32},
        {"parties": (OWN, PartyDescription("passive", 100_000_000, 0, False, 99))},
        {"parties": (OWN, *(PartyDescription(f"passive-{number}", 2, 0, False, 99) for number in range(1000)))},
        {"classes": 10**6},
    ],
    ids=["another session", "100 million features", "1000 parties", "a million classes"],
)
def test_an_agreement_that_no_honest_coordinator_states_is_refused(dial: Dial, changes: dict[str, Any]) -> None:
    link = CoordinatorLink(dial("coordinator", Stating(agreement=replace(AGREEMENT, **changes))), 10.0)
    with pytest.raises(InvalidMessage):
        link.join_session(SESSION_ID, OWN)


def test_terms_of_another_session_are_refused(dial: Dial) -> None:
    link = CoordinatorLink(dial("coordinator", Stating(terms=replace(TERMS, session_id="f" * 32))), 10.0)
    with pytest.raises(InvalidMessage, match="another session"):
        link.session_terms(SESSION_ID)
    link = CoordinatorLink(dial("coordinator", Stating(terms=TERMS)), 10.0)
    assert link.session_terms(SESSION_ID) == TERMS


@pytest.mark.parametrize(
    "scores",
    [
        {"rows": 2, "columns": 10**6, "values": [0.5]},
        {"rows": 2**31, "columns": 2, "values": [0.5]},
        {"rows": 1, "columns": 2, "values": [0.5, float("nan")]},
        {},
    ],
    ids=["columns", "rows", "nan", "nothing"],
)
def test_scores_of_another_size_than_they_say_are_refused(dial: Dial, scores: dict[str, Any]) -> None:
    link = CoordinatorLink(dial("coordinator", Stating(scores=scores)), 10.0)
    with pytest.raises(InvalidMessage):
        link.score(SESSION_ID, 1, np.zeros((1, 1)))


def test_a_coordinator_of_an_older_release_is_named_with_what_to_do(dial: Dial) -> None:
    # A server that doesn't know the call.
    link = CoordinatorLink(dial("coordinator", Answering(False, 1)), 10.0)
    with pytest.raises(OutOfOrder, match=r"older release, which can't tell whose.* install the same release"):
        link.session_terms(SESSION_ID)
    with pytest.raises(OutOfOrder, match=r"older release, which can't remember.* install the same release"):
        link.note_ledger(SESSION_ID, MARK)


@pytest.mark.parametrize(
    "reply",
    [
        replace(MARK, ledger="e" * 32).to_message(SESSION_ID),
        MARK.to_message("e" * 32),
        replace(MARK, generation=1 << 60).to_message(SESSION_ID),
        coordinator_pb2.LedgerMark(),
    ],
    ids=["another ledger", "another session", "more writes than there can be", "nothing"],
)
def test_an_answer_about_another_ledger_is_refused(dial: Dial, reply: coordinator_pb2.LedgerMark) -> None:
    link = CoordinatorLink(dial("coordinator", Stating(ledger=reply)), 10.0)
    with pytest.raises(InvalidMessage):
        link.note_ledger(SESSION_ID, MARK)
    link = CoordinatorLink(dial("coordinator", Stating(ledger=MARK.next().to_message(SESSION_ID))), 10.0)
    assert link.note_ledger(SESSION_ID, MARK) == MARK.next()
