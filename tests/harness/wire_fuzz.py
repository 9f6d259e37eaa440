"""Hostile messages for every call of every service, made from the descriptors: a new call is covered at once."""

import importlib
import math
import pkgutil
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

import protos.v1

# Who serves what. A new service has to be named here; its calls need no line anywhere.
SERVED_BY = {
    "plumbline.v1.Coordinator": ("coordinator",),
    "plumbline.v1.Active": ("active",),
    "plumbline.v1.Passive": ("passive",),
    "plumbline.v1.Messages": ("active", "passive"),
}
# What a peer would like to see in another's log.
FORGERY = "bye\n12:00:00 passive INFO Aligned 9999 of 9999 records."
_STRINGS = (
    "",
    "x",
    FORGERY,
    "\x1b[2J\x1b]0;title\x07\r\u2028\u202e",
    "\0",
    "../../etc/passwd",
    "[bold red]%s%n{0}",
    "9" * 10_000,
    "\U0001f600" * 100,
    "coordinator",
    "active",
    "passive",
    "zero",
    # Kinds of messages, and what their numbers are.
    "residuals",
    "products",
    "sums",
    "rows",
    "forward",
    "frozen",
    "integers",
    "float64",
)
_DOUBLES = (0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan)
_INTEGERS = (0, 1, 2, 3, 64, 512, 1000, 4096, 15_000, 2**16, 10**6, 10**8, 2**31 - 1, 2**31, 2**32 - 1)
_WIDE = (*_INTEGERS, 2**32, 2**63 - 1, 2**64 - 1)
_MOST_DEPTH = 4
_INTEGER_TYPES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (0, 2**31 - 1),
}


@dataclass(frozen=True)
class Call:
    """One call of one service."""

    path: str
    request: type[Message]
    streams_in: bool
    streams_out: bool

    @property
    def service(self) -> str:
        return self.path.split("/")[1]

    @property
    def name(self) -> str:
        return self.path.split("/")[2]


def calls() -> list[Call]:
    """Every call that a .proto of this federation defines."""
    found = []
    for module in pkgutil.iter_modules(protos.v1.__path__, "protos.v1."):
        if not module.name.endswith("_pb2"):
            continue
        for service in importlib.import_module(module.name).DESCRIPTOR.services_by_name.values():
            found += [
                Call(
                    f"/{service.full_name}/{method.name}",
                    GetMessageClass(method.input_type),
                    method.client_streaming,
                    method.server_streaming,
                )
                for method in service.methods
            ]
    return found


def calls_at(callee: str) -> list[Call]:
    """The calls that one role serves."""
    return [call for call in calls() if callee in SERVED_BY[call.service]]


@dataclass
class Fuzzer:
    """Makes hostile requests: each a list of messages as bytes, the whole of what a caller sends.

    Attributes:
        seed: the same one makes the same requests.
        sessions: ids of sessions, so that messages get past the first check.
        kinds: names of a protocol's messages, so that they get past the next one.
        tame: changes a valid message before it is sent, such as one that would start a job.
    """

    seed: int
    sessions: Sequence[str] = ()
    kinds: Sequence[str] = ()
    tame: Callable[[Message], None] = lambda _: None

    def __post_init__(self) -> None:
        self._source = random.Random(self.seed)  # noqa: S311 - nothing secret: it has to be repeatable

    def requests(self, call: Call) -> Iterator[list[bytes]]:
        """Hostile requests without an end."""
        kinds = [self._noise, self._truncated, self._flipped, self._extreme, self._extreme, self._wrong_stream]
        while True:
            yield self._source.choice(kinds)(call)

    def _noise(self, call: Call) -> list[bytes]:
        return [self._source.randbytes(self._source.choice((1, 7, 40, 3000)))]

    def _truncated(self, call: Call) -> list[bytes]:
        message = self._message(call)
        return [message[: self._source.randrange(len(message) + 1)]]

    def _flipped(self, call: Call) -> list[bytes]:
        message = bytearray(self._message(call) or b"\0")
        for _ in range(self._source.randint(1, 3)):
            message[self._source.randrange(len(message))] ^= 1 << self._source.randrange(8)
        # What decodes all the same is tamed like any other.
        try:
            decoded = call.request.FromString(bytes(message))
        except Exception:
            return [bytes(message)]
        self.tame(decoded)
        return [decoded.SerializeToString()]

    def _extreme(self, call: Call) -> list[bytes]:
        return [self._message(call) for _ in range(self._source.randint(1, 4) if call.streams_in else 1)]

    def _wrong_stream(self, call: Call) -> list[bytes]:
        """Nothing at all; one message too many; a stream that begins in the middle; far more than was announced."""
        kind = self._source.randrange(4)
        if kind == 0:
            return []
        if kind == 1:
            return [self._message(call), self._message(call)]
        if kind == 2:
            return [b"", *(self._message(call) for _ in range(3))]
        return [self._message(call), *[self._message(call)] * 40]

    def _message(self, call: Call) -> bytes:
        message = call.request()
        self._fill(message, 0)
        self.tame(message)
        return message.SerializeToString()

    def _fill(self, message: Message, depth: int) -> None:
        descriptor: Any = message.DESCRIPTOR
        chosen = {one.full_name: self._source.choice(one.fields).name for one in descriptor.oneofs}
        for field_ in descriptor.fields:
            group = field_.containing_oneof
            if group is not None and chosen[group.full_name] != field_.name:
                continue
            if self._source.random() < 0.15:
                continue
            if field_.is_repeated:
                few = self._source.choice((0, 1, 2, 5, 5, 300))
                for _ in range(few):
                    if field_.message_type:
                        self._nested(getattr(message, field_.name).add(), depth)
                    else:
                        getattr(message, field_.name).append(self._value(field_))
            elif field_.message_type:
                self._nested(getattr(message, field_.name), depth)
            else:
                setattr(message, field_.name, self._value(field_))

    def _nested(self, message: Message, depth: int) -> None:
        message.SetInParent()
        if depth < _MOST_DEPTH:
            self._fill(message, depth + 1)

    def _value(self, field_: FieldDescriptor) -> Any:
        if field_.name == "session_id" and self.sessions and self._source.random() < 0.7:
            return self._source.choice(self.sessions)
        if field_.name == "kind" and self.kinds and self._source.random() < 0.7:
            return self._source.choice(self.kinds)
        if field_.cpp_type in _INTEGER_TYPES:
            low, high = _INTEGER_TYPES[field_.cpp_type]
            small = self._source.randrange(6) if self._source.random() < 0.4 else self._source.choice(_WIDE)
            return max(low, min(high, small * self._source.choice((1, 1, 1, -1))))
        if field_.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return self._source.choice(_DOUBLES)
        if field_.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
            return self._source.random() < 0.5
        if field_.type == FieldDescriptor.TYPE_BYTES:
            return self._source.randbytes(self._source.choice((0, 1, 31, 32, 33, 64, 4000, 100_000)))
        return self._source.choice(_STRINGS)


@dataclass
class Answers:
    """How hostile requests were answered.

    Attributes:
        statuses: how often each status came, by call.
        wrong: what may never be: INTERNAL, UNKNOWN, or an end at the deadline or after it.
    """

    statuses: dict[str, Counter[grpc.StatusCode]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def sent(self, call: Call) -> int:
        """How many requests of this call were answered."""
        return self.statuses.get(call.path, Counter()).total()

    def send(self, channel: grpc.Channel, call: Call, request: list[bytes], timeout: float) -> None:
        """Send one request, read the whole answer, and note how it ended."""
        start = time.monotonic()
        code, details = status_of(channel, call, request, timeout)
        seconds = time.monotonic() - start
        self.statuses.setdefault(call.path, Counter())[code] += 1
        never = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED)
        if code in never or seconds > timeout + 1:
            shown = [part[:60] for part in request[:3]]
            self.wrong.append(f"{call.path}: {code.name} after {seconds:.1f} s: {details!r:.200} for {shown!r:.300}")


def status_of(
    channel: grpc.Channel, call: Call, request: Iterable[bytes], timeout: float
) -> tuple[grpc.StatusCode, str]:
    """Send these bytes as a call's whole request; the status that it ends with."""
    sending = sent(channel, call.path, request, timeout)
    try:
        for _ in sending:
            pass
    except grpc.RpcError:
        pass
    return sending.code(), sending.details() or ""


def sent(channel: grpc.Channel, path: str, request: Iterable[bytes], timeout: float) -> Any:
    """Begin any call with these bytes as its messages: the call, which answers with bytes."""
    # On the wire a unary call is a stream of one message: so every number of them can be sent.
    return channel.stream_stream(path)(iter(request), timeout=timeout)  # type: ignore[arg-type]
