"""What a call of Python's gRPC costs its server: on threads, on threads with the request as a stream, with asyncio.

Each server answers what it gets, so that all that is measured is the call itself: the least that a prediction costs.
Calls come at a rate, as single records do. Where ``docs/decisions/0002-threads-not-asyncio.md`` has its numbers from.

    python -m scripts.echoes --rate 500
"""

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import grpc

from studies.speed.repetition import cpu_seconds, in_turns

_THREADS = 64
_WARM_UP = 50
_METHOD, _SERVICE = "Echo", "echo.Echo"
# A record's id, as long as many are.
_MESSAGE = b"r0000001"


def _told(server: Any, handler: Any) -> int:
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),))
    return int(server.add_insecure_port("127.0.0.1:0"))


def _on_threads(handler: Any, told: Connection) -> None:
    # As the services do.
    sys.setswitchinterval(0.0002)
    server = grpc.server(ThreadPoolExecutor(_THREADS))
    port = _told(server, handler)
    server.start()
    told.send(port)
    server.wait_for_termination()


def _threads(told: Connection) -> None:
    def echo(request: bytes, _: grpc.ServicerContext) -> bytes:
        return request

    _on_threads(grpc.unary_unary_rpc_method_handler(echo), told)


def _threads_streamed(told: Connection) -> None:
    def echo(requests: Iterator[bytes], _: grpc.ServicerContext) -> bytes:
        return next(requests)

    _on_threads(grpc.stream_unary_rpc_method_handler(echo), told)


def _asyncio(told: Connection) -> None:
    async def echo(request: bytes, _: Any) -> bytes:
        return request

    async def serve() -> None:
        server = grpc.aio.server()
        port = _told(server, grpc.unary_unary_rpc_method_handler(echo))
        await server.start()
        told.send(port)
        await server.wait_for_termination()

    asyncio.run(serve())


_SERVERS: dict[str, Callable[[Connection], None]] = {
    "threads": _threads,
    "threads, request as a stream": _threads_streamed,
    "asyncio": _asyncio,
}


def measured(serve: Callable[[Connection], None], calls: int, rate: int) -> float:
    """Milliseconds of the server's processor a call, while ``calls`` come at ``rate`` a second."""
    heard, told = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(told,), daemon=True)
    process.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{heard.recv()}") as channel, ThreadPoolExecutor(_THREADS) as pool:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{_SERVICE}/{_METHOD}")
            for _ in range(_WARM_UP):
                call(_MESSAGE)
            before, begin = cpu_seconds(process.pid or 0), time.perf_counter()
            waiting = []
            for number in range(calls):
                time.sleep(max(0.0, begin + number / rate - time.perf_counter()))
                waiting.append(pool.submit(call, _MESSAGE))
            for one in waiting:
                one.result()
            return (cpu_seconds(process.pid or 0) - before) / calls * 1e3
    finally:
        process.terminate()
        process.join()


def main() -> None:
    """Print a line for each kind of server: the smallest of some turns, and all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2_000, help="of each turn (default: 2000)")
    parser.add_argument("--rate", type=int, default=500, help="calls a second (default: 500)")
    parser.add_argument("--turns", type=int, default=3, help="of each kind (default: 3)")
    asked = parser.parse_args()
    servers = {name: partial(measured, serve, asked.calls, asked.rate) for name, serve in _SERVERS.items()}
    found = in_turns(servers, asked.turns)
    for name, turns in found.items():
        print(f"{name:30}{min(turns):.2f} ms of CPU a call, of {', '.join(f'{one:.2f}' for one in turns)}")


if __name__ == "__main__":
    main()
