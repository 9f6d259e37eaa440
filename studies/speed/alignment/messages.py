"""The four messages of an alignment, each on its own side's account: ours, and openmined-psi's."""

import time
from collections.abc import Callable
from typing import TypeVar

from studies.speed.repetition import WrongResult, timed
from vfl.cores import Cores
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import PsiClient, PsiServer

T = TypeVar("T")
# Seconds of process CPU, by message.
Seconds = dict[str, float]

STAGES = ("set-up", "receives", "request", "response", "compares")


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
