"""An alignment message by message, ours and openmined-psi's, and a whole one of two processes over a pipe."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TypeVar

from studies.speed.repetition import WrongResult, peak_bytes, timed
from vfl.cores import Cores
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import PsiClient, PsiServer
from vfl.data.psi import BlindedIds

T = TypeVar("T")
# Seconds of process CPU, by message.
Seconds = dict[str, float]

# Messages, and whose work each is.
STAGES = {"set-up": "server", "receives": "client", "request": "client", "response": "server", "compares": "client"}


def ids_of(role: str, count: int) -> list[str]:
    """The server's or the client's ids, half of them common."""
    first = 0 if role == "server" else count // 2
    return [f"r{row:07}" for row in range(first, first + count)]


def check_common(variant: str, common: list[str], count: int) -> None:
    """Raises WrongResult unless these are the common ids, in the client's order."""
    if common != ids_of("client", count)[: count - count // 2]:
        raise WrongResult(f"{variant} found another intersection than the tables have: its time means nothing.")


def ours(count: int) -> Seconds:
    """Align two tables of so many ids, on one core."""
    server_ids, client_ids = ids_of("server", count), ids_of("client", count)
    seconds: Seconds = {}
    server, client = PsiServer(server_ids), PsiClient(client_ids)
    setup = server.setup(count)
    # Listed, so that each side's work is on its own account.
    sent = _on_account(seconds, "set-up", lambda: list(setup.chunks))
    _on_account(seconds, "receives", lambda: client.receive_setup(type(setup)(setup.count, sent)))
    request = _on_account(seconds, "request", lambda: list(client.request()))
    response = _on_account(seconds, "response", lambda: list(server.respond(request)))
    common = _on_account(seconds, "compares", lambda: client.intersect(response))
    check_common("plumbline", list(common), count)
    return seconds


def set_up(count: int, cores: Cores) -> float:
    """Send a server's whole set-up: seconds by the clock. Raises WrongResult for another number of points."""
    server = PsiServer(ids_of("server", count), cores=cores)
    seconds, chunks = timed(lambda: list(server.setup(count).chunks), time.perf_counter)
    if sum(map(len, chunks)) != count * COORDINATE_BYTES:
        raise WrongResult("A set-up has another number of points than ids: its time means nothing.")
    return seconds


def openmined(count: int) -> Seconds:
    """The same with openmined's package: ECDH on P-256, raw elements. Raises ImportError where it isn't installed."""
    import private_set_intersection.python as psi

    server_ids, client_ids = ids_of("server", count), ids_of("client", count)
    seconds: Seconds = {"receives": 0.0}
    server, client = psi.server.CreateWithNewKey(True), psi.client.CreateWithNewKey(True)
    kind = psi.DataStructure.RAW
    setup = _on_account(
        seconds, "set-up", lambda: server.CreateSetupMessage(1e-9, count, server_ids, kind).SerializeToString()
    )
    request = _on_account(seconds, "request", lambda: client.CreateRequest(client_ids).SerializeToString())
    response = _on_account(
        seconds, "response", lambda: server.ProcessRequest(psi.Request.FromString(request)).SerializeToString()
    )
    found = _on_account(
        seconds,
        "compares",
        lambda: client.GetIntersection(psi.ServerSetup.FromString(setup), psi.Response.FromString(response)),
    )
    check_common("openmined-psi", [client_ids[index] for index in sorted(found)], count)
    return seconds


def _on_account(seconds: Seconds, stage: str, work: Callable[[], T]) -> T:
    seconds[stage], result = timed(work)
    return result


# Ends a message of many chunks.
_END = b""
_ROLES = ("server", "client")


@dataclass(frozen=True)
class Side:
    """What one side's process took.

    Attributes:
        role: ``server`` or ``client``.
        cpu_seconds: of the process and its workers.
        wall_seconds: from its first message to its last.
        peak_bytes: the most memory of the process and its workers, summed as if all came at once.
    """

    role: str
    cpu_seconds: float
    wall_seconds: float
    peak_bytes: int


def align_in_processes(count: int) -> tuple[Side, Side]:
    """Align two tables of so many ids, the server's and the client's process beside each other.

    Raises WrongResult for another intersection than the tables have, RuntimeError for a process that died.
    """
    context = multiprocessing.get_context("spawn")
    ends = context.Pipe()
    told = [context.Pipe(duplex=False) for _ in _ROLES]
    processes = [
        context.Process(target=_play, args=(role, end, reports[1], count), daemon=True)
        for role, end, reports in zip(_ROLES, ends, told, strict=True)
    ]
    for process in processes:
        process.start()
    # Else a side that dies leaves the other one waiting.
    for one in (*ends, *(reports[1] for reports in told)):
        one.close()
    try:
        server, client = (_answer(reports[0]) for reports in told)
    finally:
        for process in processes:
            process.kill()
            process.join()
    return server, client


def _answer(reports: Connection) -> Side:
    try:
        found: Side | Exception = reports.recv()
    except EOFError:
        raise RuntimeError("A side of the alignment died: is there enough memory for so many ids?") from None
    if isinstance(found, Exception):
        raise found
    return found


def _play(role: str, peer: Connection, reports: Connection, count: int) -> None:
    try:
        reports.send(_server(peer, count) if role == "server" else _client(peer, count))
    except Exception as error:
        reports.send(error)


def _server(peer: Connection, count: int) -> Side:
    server = PsiServer(ids_of("server", count))
    start = _now()
    with server.setup(count) as setup:
        _send(peer, setup.chunks)
    _send(peer, server.respond(_received(peer)))
    return _side("server", start)


def _client(peer: Connection, count: int) -> Side:
    client = PsiClient(ids_of("client", count))
    start = _now()
    client.receive_setup(BlindedIds(count, _received(peer)))
    _send(peer, client.request())
    common = client.intersect(_received(peer))
    found = _side("client", start)
    check_common("plumbline", list(common), count)
    return found


def _send(peer: Connection, chunks: object) -> None:
    for chunk in chunks:  # type: ignore[attr-defined]
        peer.send_bytes(chunk)
    peer.send_bytes(_END)


def _received(peer: Connection) -> Iterator[bytes]:
    while chunk := peer.recv_bytes():
        yield chunk


def _now() -> tuple[float, float]:
    import resource  # Windows has none

    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + workers.ru_utime + workers.ru_stime, time.perf_counter()


def _side(role: str, start: tuple[float, float]) -> Side:
    cpu, wall = _now()
    return Side(role, cpu - start[0], wall - start[1], peak_bytes())
