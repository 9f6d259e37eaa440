"""Single records by the dozen while the passive party is held: few requests, the same bits, every refusal its own."""

import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from plumbline.audit.request import AuditRequest
from plumbline.federation import Federation
from plumbline.processes import LocalProcesses
from protos.v1 import active_pb2, active_pb2_grpc, common_pb2, coordinator_pb2_grpc, passive_pb2, passive_pb2_grpc
from tests.harness.hostile import SEEDED, assert_sound, code_of, log_of
from tests.harness.processes import dial
from tests.harness.strikes import eventually, send
from vfl.data import common_order, load_dataset, party_share

SECONDS = 60
# With the probes, fewer than a connection has streams.
COUNT = 30
STRANGER = "nobody"


class Operator:
    """Asks for single records, as many at once as it likes."""

    def __init__(self, federation: Federation, channel: grpc.Channel, probe: str, held: str) -> None:
        self._stub: Any = active_pb2_grpc.ActiveStub(channel)
        self._processes = federation.processes
        # What is held is none of those asked about: which of several calls comes first, the service's threads decide.
        self._probe, self._held = probe, held
        self._probes: list[Any] = []

    def asks(self, record: str) -> Any:
        """A call under way."""
        return self._stub.PredictOne.future(active_pb2.PredictOneRequest(id=record), timeout=SECONDS)

    def scores(self, record: str) -> list[float]:
        return list(self.asks(record).result().scores)

    def refusal(self, record: str) -> tuple[grpc.StatusCode, str]:
        return refusal_of(self.asks(record))

    def await_waiting(self, count: int) -> None:
        """Wait until exactly so many wait: whoever comes later than a second is told so."""

        def say_busy() -> bool:
            self._probes.append(self.asks(self._probe))
            if not isinstance(self._probes[-1].exception(0.3), grpc.RpcError):
                return False
            code, words = refusal_of(self._probes.pop())
            found = re.match(r"The active party is busy: (\d+) records wait for .* Ask again in a few seconds\.", words)
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert found, words
            return int(found[1]) == count + len(self._probes)

        eventually(lambda: _in_time(say_busy), SECONDS, f"{count} records wait at the active party")

    def requests(self) -> list[int]:
        """Of how many records each request was that the passive party has had."""
        found = re.findall(r"Contributing to the scores of (\d+) records", log_of(self._processes, "passive"))
        return [int(one) for one in found]

    @contextmanager
    def held(self) -> Iterator[None]:
        """The passive party stands still, with one request under way."""
        self._probes.clear()
        send(self._processes, "passive", signal.SIGSTOP)
        first = self.asks(self._held)
        try:
            yield
        finally:
            send(self._processes, "passive", signal.SIGCONT)
            first.result()


def _in_time(says: Any) -> bool:
    try:
        return bool(says())
    except grpc.FutureTimeoutError:
        return False


def refusal_of(call: Any) -> tuple[grpc.StatusCode, str]:
    error = call.exception(SECONDS)
    assert isinstance(error, grpc.RpcError), call
    return code_of(error), call.details()


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    folder: Path = tmp_path_factory.mktemp("federation")
    request = AuditRequest.of(
        data="breast_cancer", parties=2, defences=("score_rounding",), settings={**SEEDED, "step_timeout": 20}
    )
    settings = request.recipe(request.tables.party_settings).checked().settings(folder / "parties")
    with Federation.start(LocalProcesses(folder, settings)) as running:
        running.train()
        yield running
        assert_sound(running.processes)


@pytest.fixture(scope="module")
def order(federation: Federation) -> list[str]:
    """The aligned records."""
    missing = federation.processes.settings["active"].missing_fraction
    data = load_dataset("breast_cancer", Path("data"))
    ids = [set(party_share(data, number, 2, seed=0, missing_fraction=missing).ids) for number in range(2)]
    return list(common_order(ids[0] & ids[1]))


@pytest.fixture(scope="module")
def records(order: list[str]) -> list[str]:
    """Those that are asked about."""
    return order[:COUNT]


@pytest.fixture(scope="module")
def poisoned(federation: Federation, order: list[str]) -> str:
    """A record about which an active party has lied: its true score would be a second answer, and is refused."""
    session_id = federation.status().session_id
    # One that was trained on: nobody has asked for its score.
    row = int(max(federation.processes.settings["active"].plan().split(len(order)).train))
    assert row > COUNT
    with dial(federation.processes, "active", "passive") as passive:
        asked = passive_pb2.PartialScoresRequest(session_id=session_id, request_id=1, rows=[row])
        passive_pb2_grpc.PassiveStub(passive).ContributeScores(asked, timeout=SECONDS)
    with dial(federation.processes, "active", "coordinator") as coordinator:
        lie = common_pb2.PartialScores(session_id=session_id, request_id=1, rows=1, columns=1, values=[9.0])
        coordinator_pb2_grpc.CoordinatorStub(coordinator).Score(lie, timeout=SECONDS)
    return order[row]


@pytest.fixture
def operator(federation: Federation, order: list[str], records: list[str]) -> Iterator[Operator]:
    with dial(federation.processes, "operator", "active") as channel:
        yield Operator(federation, channel, probe=records[0], held=order[COUNT])


def together(operator: Operator, asked: Sequence[str], waiting: int) -> dict[str, Any]:
    """The calls of all of them, over, of which so many waited together."""
    with operator.held():
        calls = {record: operator.asks(record) for record in asked}
        operator.await_waiting(waiting)
    for call in calls.values():
        call.exception(SECONDS)
    return calls


def assert_shared(requests: list[int], alone: int, records: int) -> None:
    """So many were asked about alone, and all others in one request.

    Which of the calls comes first, and is alone, the service's threads decide. Where it isn't the one that was held,
    this one waits with the others, and the probes ask about the first of them anyway.
    """
    *first, together = sorted(requests)
    assert first == [1] * alone
    assert together in (records, records + 1)


def test_records_that_wait_share_a_request_and_a_bad_one_is_refused_alone(
    operator: Operator, records: list[str], poisoned: str
) -> None:
    alone = {record: operator.scores(record) for record in records}
    before = len(operator.requests())
    calls = together(operator, [*records, STRANGER], len(records) + 1)
    assert {record: list(calls[record].result().scores) for record in records} == alone
    assert refusal_of(calls[STRANGER]) == operator.refusal(STRANGER)
    # The one that was held, and one for all who waited.
    assert_shared(operator.requests()[before:], 1, len(records))

    # The first time all are asked about alone, and from then on only the bad one is.
    for waiting in (len(records) + 1, len(records)):
        before = len(operator.requests())
        calls = together(operator, [*records, poisoned], waiting)
        code, words = refusal_of(calls[poisoned])
        assert code is grpc.StatusCode.PERMISSION_DENIED
        assert "defended scores are answered once per record" in words
        assert {record: list(calls[record].result().scores) for record in records} == alone
    assert_shared(operator.requests()[before:], 2, len(records))
    assert (code, words) == operator.refusal(poisoned)


def test_callers_who_leave_are_not_asked_about(operator: Operator, records: list[str]) -> None:
    alone = {record: operator.scores(record) for record in records}
    before = len(operator.requests())
    with operator.held():
        calls = {record: operator.asks(record) for record in records}
        operator.await_waiting(len(records))
        for record in records[3:]:
            calls[record].cancel()
        operator.await_waiting(3)
    assert [list(calls[record].result().scores) for record in records[:3]] == [alone[record] for record in records[:3]]
    operator.scores(records[0])
    # Those who stayed, among them the probes, which ask about the first record.
    assert max(operator.requests()[before:]) == 3


def test_those_who_wait_for_a_party_that_is_killed_are_answered_by_its_successor_or_told_its_name(
    operator: Operator, federation: Federation, records: list[str]
) -> None:
    processes = federation.processes
    alone = {record: operator.scores(record) for record in records}
    send(processes, "passive", signal.SIGSTOP)
    calls = [operator.asks(records[0])]
    calls += [operator.asks(record) for record in records]
    operator.await_waiting(len(records))
    send(processes, "passive", signal.SIGKILL)
    processes.start_party("passive")
    for record, call in zip((records[0], *records), calls, strict=True):
        if (error := call.exception(SECONDS)) is None:
            assert list(call.result().scores) == alone[record]
        else:
            # On a busy machine it may need longer than a prediction waits.
            assert isinstance(error, grpc.RpcError)
            assert "passive" in call.details()
    eventually(lambda: operator.asks(records[0]).exception(SECONDS) is None, SECONDS, "passive is back")
    assert {record: operator.scores(record) for record in records} == alone
