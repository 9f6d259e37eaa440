"""How much of a server one caller may hold, and how long it may keep a call waiting: one table for every method."""

from dataclasses import dataclass, replace
from enum import Enum, auto

from protos.v1 import active_pb2, coordinator_pb2, messages_pb2, passive_pb2

# Calls of one caller in a pool. As many as a connection has streams: who calls over one connection, as every honest
# party does, waits at its own end for a free stream and is never refused.
CALLS_PER_CALLER = 64
# Calls of all those processes of a party together that aren't the one which acts here. So few that they leave a pool's
# threads to others, and enough for a restarted process, which waits in its first calls.
NEWCOMERS_AT_ONCE = 4
# A caller that is slower than this with one message is cut off even by a party of little patience.
_LEAST_PATIENCE = 5.0
# Two thousand ids are blinded between two messages, and millions shuffled before the first.
_ALIGNMENT_PATIENCE = 60.0
# What streaming the ids of the largest table may take in all.
_ALIGNMENT_SECONDS = 4_000.0
# A whole request of another kind, in waits for one message.
_WAITS_PER_REQUEST = 4


class CallPool(Enum):
    """Which calls share threads: whoever fills a pool leaves the others alone."""

    PEERS = auto()
    OPERATORS = auto()
    # Health and reflection.
    HEALTH = auto()


# Made when they are needed: so many callers can fill their share of a pool at once.
POOL_THREADS = {
    CallPool.PEERS: 4 * CALLS_PER_CALLER,
    CallPool.OPERATORS: 2 * CALLS_PER_CALLER,
    CallPool.HEALTH: CALLS_PER_CALLER,
}


@dataclass(frozen=True)
class CallLimits:
    """What a caller may take of one method.

    Attributes:
        pool: whose threads the method uses.
        at_once: calls of the method by one caller.
        patience: seconds that the server waits for the caller's next message, or for it to read an answer.
        reading: seconds for a whole request, from the call's begin to its last message; None where it has no end.
    """

    pool: CallPool
    at_once: int
    patience: float
    reading: float | None


# Calls at once of one caller, where honest ones are few: one, and what was sent again after a lost connection while the
# lost one still waits here. The channel itself sends a call of one message again up to three times.
_FEW = {
    coordinator_pb2.DESCRIPTOR.services_by_name["Coordinator"]: {
        # Waits until all parties have joined.
        "JoinSession": 8,
        "OpenSession": 8,
    },
    passive_pb2.DESCRIPTOR.services_by_name["Passive"]: {
        "SetUpAlignment": 4,
        "Align": 4,
        "Toss": 4,
        "FixOrder": 4,
        "Join": 8,
        "RunEpoch": 4,
    },
    # A vector each in memory. A step's messages may meet those of the step before.
    messages_pb2.DESCRIPTOR.services_by_name["Messages"]: {"ShowKey": 8, "Send": 16, "Ask": 4},
    active_pb2.DESCRIPTOR.services_by_name["Active"]: {
        # One job at a time; the others hear so.
        "Train": 4,
        # Leaves half the pool to single predictions and questions.
        "Predict": CALLS_PER_CALLER // 2,
    },
}
_AT_ONCE = {
    f"/{service.full_name}/{method}": most for service, methods in _FEW.items() for method, most in methods.items()
}
_OPERATORS = f"/{active_pb2.DESCRIPTOR.services_by_name['Active'].full_name}/"
_PASSIVE = f"/{passive_pb2.DESCRIPTOR.services_by_name['Passive'].full_name}/"
_ALIGNMENT = frozenset(f"{_PASSIVE}{method}" for method in ("SetUpAlignment", "Align", "FixOrder"))
# One request per reply, for as long as the caller has records to ask about.
_ENDLESS = frozenset({f"{_OPERATORS}Predict"})
_HOUSE_SERVICES = ("/grpc.health.", "/grpc.reflection.")
_HEALTH_AT_ONCE = 8


def limits_of(method: str, step_timeout: float) -> CallLimits:
    """Find the limits of ``method`` (/package.Service/Method) at a party that waits ``step_timeout`` for a message."""
    patience = max(step_timeout, _LEAST_PATIENCE)
    common = CallLimits(CallPool.PEERS, CALLS_PER_CALLER, patience, _WAITS_PER_REQUEST * patience)
    if method.startswith(_HOUSE_SERVICES):
        return replace(common, pool=CallPool.HEALTH, at_once=_HEALTH_AT_ONCE)
    limits = replace(common, at_once=_AT_ONCE.get(method, common.at_once))
    if method in _ALIGNMENT:
        return replace(limits, patience=patience + _ALIGNMENT_PATIENCE, reading=patience + _ALIGNMENT_SECONDS)
    if method.startswith(_OPERATORS):
        return replace(limits, pool=CallPool.OPERATORS, reading=None if method in _ENDLESS else limits.reading)
    return limits
