"""Both sides of an alignment as processes of their own, which speak over a pipe: each one's time and memory."""

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

from studies.speed.alignment.messages import check_common, ids_of
from studies.speed.processes_here import peak_bytes
from vfl.data import PsiClient, PsiServer
from vfl.data.psi import BlindedIds

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
