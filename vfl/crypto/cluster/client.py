"""The process that speaks with a Dask cluster: ``python -m vfl.crypto.cluster.client ADDRESS``, frames on its pipes.

It is a process of its own because Dask's messages are code, those of a scheduler to its client too. Here that code
finds ciphertexts and features, which the cluster gets anyway. Keys, masks and obfuscators are in the process that
started it.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any

from vfl.crypto.cluster.frames import Frame, Kind, read_frame, write_frame
from vfl.crypto.cluster.job_work import WorkerDiffers, answers_of, installed_version
from vfl.crypto.cluster.scheduler_address import is_safe

_CONNECT_SECONDS = 10
_LOOK_SECONDS = 0.5
_VERSION = installed_version()


class _Outgoing:
    """The pipe to the party's process; several threads write to it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def tell(self, frame: Frame) -> None:
        with self._lock:
            write_frame(self._stream, frame)

    def give_up(self, sentence: str) -> None:
        """Tell why nothing more comes, and end at once, whatever the threads of Dask are at."""
        with self._lock:
            try:
                write_frame(self._stream, Frame(Kind.LOST, data=sentence.encode()))
            finally:
                os._exit(0)


def serve(address: str, incoming: IO[bytes], outgoing: _Outgoing) -> None:
    """Hand jobs to a cluster until the party's process closes the pipe."""
    over = threading.Event()
    try:
        with _connected(address) as client:
            outgoing.tell(Frame(Kind.READY, _checked_threads(client, address)))
            threading.Thread(target=_watch, args=(client, address, outgoing, over), daemon=True).start()
            while (frame := read_frame(incoming)) is not None:
                future = client.submit(answers_of, _VERSION, frame.data, pure=False)
                future.add_done_callback(partial(_tell_result, outgoing, frame.number, address))
            over.set()
    except _NotUsable as error:
        outgoing.give_up(str(error))


class _NotUsable(Exception):
    """A cluster that can't be used, in a sentence."""


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    import dask
    from distributed import Client, Security

    is_tls = address.startswith("tls://")
    chosen = {
        "distributed.comm.timeouts.connect": f"{_CONNECT_SECONDS}s",
        "distributed.comm.require-encryption": is_tls,
    }
    with dask.config.set(chosen):
        try:
            security = Security(require_encryption=True) if is_tls else None
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False, security=security)
        except (OSError, ValueError, TimeoutError) as error:
            raise _NotUsable(
                f"no Dask scheduler answers at {address}: start it, or check the address and both sides' certificates."
            ) from error
        try:
            yield client
        finally:
            client.close(timeout=1)


def _checked_threads(client: Any, address: str) -> int:
    """Threads of all workers; raises _NotUsable for a cluster without any, open to others, or of another version."""
    try:
        client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
    except TimeoutError as error:
        raise _NotUsable(f"the Dask cluster at {address} has no worker: start some with `dask worker`.") from error
    for other in (client.scheduler_info()["address"], *client.nthreads()):
        if not is_safe(other):
            raise _NotUsable(
                f"the Dask cluster at {address} also listens at {other}, without TLS, where others can reach it: start "
                "its scheduler and workers with --host 127.0.0.1, or with certificates."
            )
    try:
        versions = client.run(installed_version, on_error="return").values()
    except Exception:  # whatever a worker raises that doesn't find this module
        versions = [None]
    for found in versions:
        if found != _VERSION:
            raise _NotUsable(_differs(address, found if isinstance(found, str) else "none that can be imported"))
    return sum(client.nthreads().values())


def _differs(address: str, found: str) -> str:
    return (
        f"a worker of the Dask cluster at {address} has another version of Plumbline ({found}) than this party "
        f"({_VERSION}): install the same there."
    )


def _watch(client: Any, address: str, outgoing: _Outgoing, over: threading.Event) -> None:
    """Tell when there is nobody left to compute: work that is under way would wait for ever."""
    while not over.wait(_LOOK_SECONDS):
        try:
            if client.status != "running":
                outgoing.give_up(f"the Dask scheduler at {address} has gone.")
            if not client.nthreads():
                outgoing.give_up(f"the Dask cluster at {address} has no worker left.")
        except Exception:  # of a connection that ends while it is asked
            outgoing.give_up(f"the Dask scheduler at {address} has gone.")


def _tell_result(outgoing: _Outgoing, number: int, address: str, future: Any) -> None:
    try:
        outgoing.tell(Frame(Kind.ANSWERS, number, bytes(future.result())))
    except WorkerDiffers as error:
        outgoing.give_up(_differs(address, str(error)))
    except BrokenPipeError:
        os._exit(0)
    except BaseException as error:  # a worker that died, or what the kernel said: the party computes it itself
        outgoing.tell(Frame(Kind.FAILED, number, type(error).__name__.encode()))


def main() -> None:
    """Serve the process that started this one, on the pipes that it gave."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the party's process ends this one
    logging.disable(logging.CRITICAL)  # what is to be said is said in sentences, by the party's process
    with os.fdopen(os.dup(1), "wb") as pipe:
        os.dup2(2, 1)  # whatever prints must not print into the pipe
        serve(sys.argv[1], sys.stdin.buffer, _Outgoing(pipe))
        os._exit(0)  # whatever Dask's threads are at


if __name__ == "__main__":
    main()
