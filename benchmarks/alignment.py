"""What alignment costs each party per id, and its peak memory, beside the package openmined-psi where it is installed.

python -m benchmarks.alignment [IDS] [--memory-of server|client]

Both sides have as many ids and share half of them. Process-CPU seconds on one pinned core, the smallest of several
interleaved repetitions; memory is that of one fresh process per party.
"""

import argparse
import importlib.util
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import TypeVar

from benchmarks.stopwatch import timed
from vfl.data import PsiClient, PsiServer

T = TypeVar("T")
Seconds = dict[str, float]

_REPETITIONS = 3


def tables(count: int) -> tuple[list[str], list[str]]:
    """The server's and the client's ids, half of them common."""
    return [f"r{row:07}" for row in range(count)], [f"r{row:07}" for row in range(count // 2, count // 2 + count)]


def ours(count: int) -> Seconds:
    """CPU seconds of each of the four messages."""
    server_ids, client_ids = tables(count)
    seconds: Seconds = {}
    server, client = PsiServer(server_ids), PsiClient(client_ids)
    setup = server.setup(count)
    # Listed, so that each side's work is on its own account.
    sent = _timed(seconds, "server: set-up", lambda: list(setup.chunks))
    _timed(seconds, "client: receives it", lambda: client.receive_setup(type(setup)(setup.count, sent)))
    request = _timed(seconds, "client: request", lambda: list(client.request()))
    response = _timed(seconds, "server: response", lambda: list(server.respond(request)))
    common = _timed(seconds, "client: compares", lambda: client.intersect(response))
    _check(common, count)
    return seconds


def openmined(count: int) -> Seconds:
    """The same with openmined's package: ECDH on P-256, raw elements."""
    import private_set_intersection.python as psi

    server_ids, client_ids = tables(count)
    seconds: Seconds = {}
    server, client = psi.server.CreateWithNewKey(True), psi.client.CreateWithNewKey(True)
    kind = psi.DataStructure.RAW
    setup = _timed(
        seconds, "server: set-up", lambda: server.CreateSetupMessage(1e-9, count, server_ids, kind).SerializeToString()
    )
    request = _timed(seconds, "client: request", lambda: client.CreateRequest(client_ids).SerializeToString())
    response = _timed(
        seconds,
        "server: response",
        lambda: server.ProcessRequest(psi.Request.FromString(request)).SerializeToString(),
    )
    found = _timed(
        seconds,
        "client: compares",
        lambda: client.GetIntersection(psi.ServerSetup.FromString(setup), psi.Response.FromString(response)),
    )
    _check([client_ids[index] for index in sorted(found)], count)
    return seconds


def peak_megabytes(role: str, count: int) -> float:
    """The largest resident size of a fresh process that plays one role, the other's messages being points made here."""
    command = [sys.executable, "-m", "benchmarks.alignment", str(count), "--memory-of", role]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603


def _play(role: str, count: int) -> float:
    """One role's work, with chunks dropped as soon as they are sent, as a stream drops them."""
    server_ids, client_ids = tables(count)
    if role == "server":
        server = PsiServer(server_ids)
        _drain(server.setup(count).chunks)
        _drain(server.respond(PsiClient(client_ids).request()))
    else:
        client, server = PsiClient(client_ids), PsiServer(server_ids)
        client.receive_setup(server.setup(count))
        client.intersect(server.respond(client.request()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _drain(chunks: object) -> None:
    for _ in chunks:  # type: ignore[attr-defined]
        pass


def _timed(seconds: Seconds, name: str, work: Callable[[], T]) -> T:
    seconds[name], result = timed(work)
    return result


def _check(common: list[str], count: int) -> None:
    if common != tables(count)[1][: count - count // 2]:
        raise SystemExit("The intersection is wrong: this benchmark measured nothing.")


def _print(name: str, runs: list[Seconds], count: int) -> float:
    best = {stage: min(run[stage] for run in runs) for stage in runs[0]}
    total = sum(best.values())
    print(f"{name}: {total:.2f} s, {1e6 * total / count:.0f} us an id (both parties)")  # noqa: T201
    for stage, value in best.items():
        print(f"  {stage:22}{1e6 * value / count:8.1f} us an id")  # noqa: T201
    return total


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", type=int, nargs="?", default=100_000, help="ids on each side")
    parser.add_argument("--memory-of", choices=["server", "client"], help="only print its peak megabytes")
    arguments = parser.parse_args()
    if arguments.memory_of:
        print(_play(arguments.memory_of, arguments.ids))  # noqa: T201
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    compared = importlib.util.find_spec("private_set_intersection") is not None
    runs: dict[str, list[Seconds]] = {"plumbline": [], "openmined-psi": []}
    for _ in range(_REPETITIONS):
        runs["plumbline"].append(ours(arguments.ids))
        if compared:
            runs["openmined-psi"].append(openmined(arguments.ids))
    total = _print("plumbline", runs["plumbline"], arguments.ids)
    if compared:
        other = _print("openmined-psi", runs["openmined-psi"], arguments.ids)
        print(f"openmined-psi takes {other / total:.2f} times as long")  # noqa: T201
    else:
        print("openmined-psi is not installed: nothing to compare with")  # noqa: T201
    for role in ("server", "client"):
        print(f"{role}: {peak_megabytes(role, arguments.ids):.0f} MB at most, the other role's work included")  # noqa: T201


if __name__ == "__main__":
    main()
