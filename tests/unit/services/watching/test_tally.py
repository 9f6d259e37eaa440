"""The tally: what is counted by whom, and that strangers can't make it grow."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from services.common.errors import InvalidMessage, OutOfOrder, PeerRefused
from services.common.identity import Identity, Role
from services.exchange import servicer
from services.watching.audit_log import AuditLog
from services.watching.exposition import Metrics
from services.watching.measures import Measure
from services.watching.tally import Tally, Told, reason_of
from vfl.crypto import decrypt_integers, encrypt_vector, keygen

ACTIVE = Identity(Role.ACTIVE, "active")


def values(tally: Tally) -> dict[str, dict[tuple[str, ...], float]]:
    return {one.name: dict(one.values) for one in tally.measures()}


def test_answers_and_what_they_tell() -> None:
    tally = Tally()
    tally.begin({"active": Told(19, 300, 0.5)})
    for _ in range(3):
        tally.answered("active", "decryption", 15)
    tally.answered("active", "scores", 7)
    # Of a channel that nobody has counted.
    tally.answered("passive", "decryption", 2)
    found = values(tally)
    assert found["answers"] == {("active", "decryption"): 3, ("active", "scores"): 1, ("passive", "decryption"): 1}
    assert found["answered_items"][("active", "decryption")] == 45
    assert found["equations_answered"] == {("active",): 57}
    assert found["capacity_bits"] == {("active",): 900}
    assert found["guard_ratio"] == {("active",): 0.5}
    # Another session's answers are added, its ratio takes the place.
    tally.begin({"active": Told(1, 10, 2.0)})
    tally.answered("active", "decryption", 15)
    assert values(tally)["equations_answered"] == {("active",): 58}
    assert values(tally)["guard_ratio"] == {("active",): 2.0}


def test_nothing_that_happened_is_nothing_told() -> None:
    assert not any(values(Tally()).values())


def test_messages_by_kind_of_which_a_hundred_are_told_apart() -> None:
    tally = Tally()
    for kind, size in (("sums 0 1", 10), ("sums 12 1", 5), ("weight pads", 7), ("12", 1), ("sums", 2)):
        tally.took(kind, size)
    assert values(tally)["messages"] == {("sums",): 3, ("weight pads",): 1, ("12",): 1}
    assert values(tally)["message_bytes"] == {("sums",): 17, ("weight pads",): 7, ("12",): 1}
    for letters in range(200):
        tally.took(f"{letters}x", 1)
    tally.took("sums", 1)
    messages = values(tally)["messages"]
    assert (len(messages), messages["others",], messages["sums",]) == (101, 103, 4)


def test_refusals_by_reason() -> None:
    tally = Tally()
    tally.refused(ACTIVE, OutOfOrder("r000001 is not for you"))
    tally.refused(ACTIVE, InvalidMessage("x"))
    tally.refused(None, ValueError("a label"))
    tally.refused(None, PeerRefused("a", "b"))
    assert values(tally)["refusals"] == {
        ("active", "out_of_order"): 1,
        ("active", "invalid_message"): 1,
        ("unknown", "unexpected"): 1,
        ("unknown", "peer_refused"): 1,
    }
    assert reason_of(SystemExit()) == "unexpected"


def test_callers_who_name_themselves_make_no_endless_list() -> None:
    tally = Tally()
    for number in range(500):
        tally.refused(Identity(Role.PASSIVE, f"me\n{number}"), OutOfOrder(""))
    refusals = values(tally)["refusals"]
    assert len(refusals) == 101
    assert refusals["others", "out_of_order"] == 400
    assert not [peer for peer, _ in refusals if "\n" in peer]


def test_sources_are_told_as_they_stand() -> None:
    tally, steps = Tally(), [0]
    tally.add(lambda: [Measure("steps", "", {(): steps[0]})])
    steps[0] = 5
    assert values(tally)["steps"] == {(): 5}


def test_a_line_and_a_count_cost_nothing_beside_a_step(tmp_path: Path) -> None:
    """CPU of the two answers and four calls of a step against one of its cheaper parts: 12 values, decrypted."""
    public, private = keygen(2048)
    encrypted = encrypt_vector(public, np.arange(12.0))
    decrypting = seconds_of(lambda: decrypt_integers(private, encrypted), 5)
    tally, log = Tally(), AuditLog(tmp_path / "log")
    tally.write_to(log)
    metrics = Metrics(tally)

    def watched() -> None:
        for _ in range(2):
            tally.answered("passive", "decryption", 12, "0" * 32)
        for _ in range(4):
            metrics.ended(f"/{servicer.SERVICE_NAME}/Decrypt", "OK", 0.01)

    assert seconds_of(watched, 1_000) < 0.01 * decrypting


def seconds_of(work: Callable[[], object], times: int) -> float:
    """CPU of this process, each time."""
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times
