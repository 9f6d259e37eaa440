"""Many records at once: the same scores as one by one, whole blocks on the wire, and parts that overtake nothing."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from defences import load
from plumbline.federation import Federation, FederationFailed
from protos.v1 import active_pb2, active_pb2_grpc
from services.active import scoring
from services.active import servicer as active_servicer
from services.active.servicer import ActiveServicer
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from tests.harness.parties import House, house, small_settings

PLAIN = small_settings(cipher="plain")
PART = 4
# Those of the smallest of the house's tables; the active party has five more.
ALIGNED = [f"id-{row}" for row in range(5, 60)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("bulk"), settings=PLAIN) as made:
        made.train()
        yield made


@pytest.fixture(autouse=True)
def _called_by_an_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servicer is called without a gate here, which alone knows who calls."""
    monkeypatch.setattr(active_servicer, "require_caller", lambda _: Identity(Role.OPERATOR, "operator"))


@pytest.mark.parametrize("count", [0, 1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 1])
def test_many_records_get_the_very_scores_that_each_gets_alone(
    home: House, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(scoring, "PREDICTION_ROWS", PART)
    found = home.active.predict(ALIGNED[:count])
    assert list(found) == ALIGNED[:count]
    for record, scores in found.items():
        np.testing.assert_array_equal(scores, home.active.predict_one(record), strict=True)


def _asked(home: House, ids: list[str], *, as_block: bool) -> active_pb2.PredictReply:
    servicer = ActiveServicer(home.active, PLAIN.plan())
    [reply] = servicer.Predict(iter([active_pb2.PredictRequest(ids=ids, as_block=as_block)]), None)  # type: ignore[arg-type]
    return reply


@pytest.mark.parametrize(
    "ids",
    [
        [],
        ["stranger"],
        ALIGNED[:1],
        [ALIGNED[3], "stranger", ALIGNED[1], ALIGNED[3], "id-4", ALIGNED[0], "stranger"],
    ],
)
def test_a_block_says_what_single_records_say(home: House, ids: list[str]) -> None:
    records = _asked(home, ids, as_block=False).records
    reply = _asked(home, ids, as_block=True)
    assert not reply.records
    assert [record.id for record in records] == ids
    told = iter(np.array(reply.block.scores).reshape(-1, reply.block.columns).tolist())
    for place, record in enumerate(records):
        if place in reply.block.missing:
            assert record.error == reply.block.error != ""
            assert not record.scores
        else:
            assert list(record.scores) == next(told)
    assert next(told, None) is None


# -- one part ahead ----------------------------------------------------------------------------------------------------


def _order_of_calls(home: House, monkeypatch: pytest.MonkeyPatch, patience: float) -> list[str]:
    """Which part's shares and sums are asked for, in order: a sum waits so many seconds for the next part's share."""
    asked: list[str] = []
    sent = [threading.Event() for _ in range(3)]
    parts: dict[int, int] = {}
    model = home.active._serving.newest
    assert model is not None
    order = [model.row_of_id[record] for record in ALIGNED]
    [party] = home.active._prediction_scoring._passive_parties.values()
    contribute, score = party.contribute_scores, home.active._prediction_scoring._coordinator.score

    def contributing(session_id: str, request_id: int, rows: Any, masked: bytes) -> bytes:
        answer = contribute(session_id, request_id, rows, masked)
        parts[request_id] = order.index(rows[0]) // PART
        asked.append(f"share {parts[request_id]}")
        sent[parts[request_id]].set()
        return answer

    def scoring_part(session_id: str, request_id: int, products: Any) -> Any:
        if (after := parts[request_id] + 1) < len(sent):
            sent[after].wait(patience)
        asked.append(f"sum {parts[request_id]}")
        return score(session_id, request_id, products)

    monkeypatch.setattr(scoring, "PREDICTION_ROWS", PART)
    monkeypatch.setattr(type(party), "contribute_scores", lambda _, *arguments: contributing(*arguments))
    coordinator = home.active._prediction_scoring._coordinator
    monkeypatch.setattr(type(coordinator), "score", lambda _, *arguments: scoring_part(*arguments))
    home.active.predict(ALIGNED[: 3 * PART])
    return asked


def test_the_next_parts_shares_are_on_their_way_while_one_is_added_up(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _order_of_calls(home, monkeypatch, patience=60)
    assert sorted(asked) == [f"{what} {part}" for what in ("share", "sum") for part in range(3)]
    assert [one for one in asked if one.startswith("sum")] == ["sum 0", "sum 1", "sum 2"]
    assert asked.index("share 1") < asked.index("sum 0")
    assert asked.index("share 2") < asked.index("sum 1")


def test_defended_records_are_asked_about_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was asked for and has no answer when the coordinator is cut off can't be answered any more."""
    with house(tmp_path, settings=PLAIN, score_defences=[load("score_rounding", decimals=2)]) as defended:
        defended.train()
        asked = _order_of_calls(defended, monkeypatch, patience=0.2)
    assert asked == ["share 0", "sum 0", "share 1", "sum 1", "share 2", "sum 2"]


def test_a_part_that_fails_fails_the_request_and_the_next_one_is_answered(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoring, "PREDICTION_ROWS", PART)
    expected = home.active.predict(ALIGNED).scores
    coordinator = home.active._prediction_scoring._coordinator
    score, calls = coordinator.score, iter(range(100))

    def failing(*arguments: Any) -> Any:
        if next(calls) == 1:
            raise OutOfOrder("The coordinator is stopping.")
        return score(*arguments)

    with monkeypatch.context() as broken:
        broken.setattr(type(coordinator), "score", lambda _, *arguments: failing(*arguments))
        with pytest.raises(OutOfOrder, match="stopping"):
            home.active.predict(ALIGNED)
    np.testing.assert_array_equal(home.active.predict(ALIGNED).scores, expected)


# -- at the operator's end ---------------------------------------------------------------------------------------------


def _predicted(party: active_pb2_grpc.ActiveServicer, ids: list[str]) -> Any:
    server = grpc.server(ThreadPoolExecutor(2))
    active_pb2_grpc.add_ActiveServicer_to_server(party, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with Federation(grpc.insecure_channel(f"127.0.0.1:{port}")) as federation:
            return federation.predict(ids)
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize("count", [0, 1, PART, PART + 1, 2 * PART])
def test_the_operators_table_has_a_row_per_id_across_messages(
    home: House, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr("plumbline.federation.PREDICTION_ROWS", PART)
    ids = [*ALIGNED[:2], "stranger", *ALIGNED[2:], "nobody"][:count]
    table = _predicted(ActiveServicer(home.active, PLAIN.plan()), ids)
    assert list(table.index) == ids
    assert list(table.columns) == ["no", "yes", "error"]
    for record, row in table.iterrows():
        if record in ALIGNED:
            assert row["error"] == ""
            assert [row["no"], row["yes"]] == home.active.predict_one(str(record)).tolist()
        else:
            assert "not among the aligned" in row["error"]
            assert np.isnan([row["no"], row["yes"]]).all()


class _Wrong(active_pb2_grpc.ActiveServicer):
    """Answers every message with the same block."""

    def __init__(self, block: active_pb2.ScoreBlock | None) -> None:
        self._block = block

    def Status(self, request: Any, context: Any) -> active_pb2.StatusReply:
        return active_pb2.StatusReply(stage="serving", class_names=["no", "yes"], own_plan=PLAIN.plan().to_message())

    def Predict(self, request_iterator: Any, context: Any) -> Iterator[active_pb2.PredictReply]:
        for _ in request_iterator:
            if self._block is None:
                return
            yield active_pb2.PredictReply(block=self._block)


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (None, "for 0 of 2 records only"),
        (active_pb2.ScoreBlock(), "install the same release"),
        (active_pb2.ScoreBlock(columns=2, scores=[0.5, 0.5]), "install the same release"),
        (active_pb2.ScoreBlock(columns=2, scores=[0.5] * 6), "install the same release"),
        (active_pb2.ScoreBlock(columns=2, scores=[0.5, 0.5], missing=[7]), "install the same release"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(block: active_pb2.ScoreBlock | None, words: str) -> None:
    with pytest.raises(FederationFailed, match=words):
        _predicted(_Wrong(block), ["one", "two"])  # type: ignore[abstract]
