"""Hostile messages of every kind of every protocol's table, while real parties train: refused by name, nothing changed.

Each comes before the honest one, and again behind it, from the thread that sends that; the receiver's lock is held
meanwhile, so that its state is compared to the last message. The training then goes on to its end.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder
from services.exchange.message_table import MessageTable
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector
from services.in_process.direct_peers import DirectPeer
from services.in_process.wired_trainings import ignore_step
from services.party.party_training import PartyTraining
from tests.harness.documented_plugin import install
from tests.harness.every_protocol import session_of
from tests.harness.wire_fuzz import FORGERY

# Of each kind, over all its senders, receivers and both times.
MESSAGES = 2_000
KINDS = ("residuals", "sums", "products", "rows", "forward", "opened", "word", "weight pads", "routes 0 1", "masked")
WORDS = ("", "x", FORGERY, "\x1b[2J\u202e", "\0", "9" * 1_000, "coordinator", "float32", "object", "sums 0 9")
FAR = (2, 3, 7, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
NAMED = (
    " in this session.",
    "is not a party of this session.",
    "were received already",
    "out of order",
    "got ",
    "hasn't asked",
    "when all steps are taken",
    "No epoch is validated after",
    "iphertext",
    "must be finite",
    "Different sums of step",
    "were answered already",
)


def state_of(table: MessageTable) -> Any:
    """All that a message may change, by what it is."""
    asked = getattr(table, "_questions", None)
    return (
        (table._order.step, table._order.ended, frozenset(table._asked)),
        {key: id(shown) for key, shown in table._shown.items()},
        {key: id(message) for key, message in table._received.items()},
        {key: (id(one), id(one.answer)) for key, one in asked._asked.items()} if asked else None,
    )


@dataclass(frozen=True)
class Sent:
    """A message, or a question, as a table is given it."""

    peer: str
    kind: str
    step: int
    vector: WireVector
    is_question: bool

    def reach(self, table: MessageTable) -> None:
        if self.is_question:
            table.expects_question(self.peer, self.kind, self.step, self.vector.header)
            table.answer(self.peer, self.kind, self.step, self.vector)
        else:
            table.expects(self.peer, self.kind, self.step, self.vector.header)
            table.receive(self.peer, self.kind, self.step, self.vector)


class Besieged:
    """Fires at a party's table before and behind an honest message of each kind."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)  # noqa: S311 - repeats
        self.trainings: Mapping[str, PartyTraining] = {}
        self.begun = set[str]()
        self.refused = Counter[str]()
        self.errors = Counter[type[FederationError]]()

    def through(self, sender: str, direct: DirectPeer) -> "Way":
        return Way(sender, direct, self)

    def hostile(self, sent: Sent, table: MessageTable, is_known: bool) -> Sent:
        """The message with one thing or several wrong."""
        source, vector, rows = self.source, sent.vector, {*table._rows, *table._question_rows}
        senders = {peer for kind, peer in rows if kind == sent.kind}

        def of_header(**values: tuple[Any, ...]) -> Callable[[Sent], Sent]:
            ((name, others),) = values.items()
            value = source.choice([other for other in others if other != getattr(vector, name)])
            return lambda one: replace(one, vector=replace(one.vector, **{name: value}))

        def of_data(data: bytes) -> Callable[[Sent], Sent]:
            return lambda one: replace(one, vector=replace(one.vector, data=data))

        changes: dict[str, Callable[[], Callable[[Sent], Sent]]] = {
            "kind": lambda: partial(
                replace, kind=source.choice([kind for kind in (*KINDS, *WORDS) if (kind, sent.peer) not in rows])
            ),
            "peer": lambda: partial(
                replace,
                kind=sent.kind,
                peer=source.choice([name for name in (*self.trainings, "passive-9", *WORDS) if name not in senders]),
            ),
            "step": lambda: partial(replace, step=source.choice([-1, *(sent.step + far for far in FAR)])),
            "count": lambda: of_header(count=(0, 1, vector.count - 1, vector.count + 1, 2**32)),
            "width": lambda: of_header(width=(0, 1, 2, 8, 128, 2**32 - 1)),
            "exponent": lambda: of_header(exponent=(-8, 0, 1, 2**31 - 1)),
            "key": lambda: of_header(key_id=WORDS),
            "numbers": lambda: of_header(numbers=("float64", "uint8", "integers", *WORDS)),
            "size": lambda: of_data(source.choice([vector.data[:-1], vector.data + b"\0", b""])),
        }
        if is_known:
            changes["values"] = lambda: of_data(bytes([vector.data[0] ^ 1]) + vector.data[1:])
        elif vector.key_id:
            # No ciphertext, and no number.
            changes["values"] = lambda: of_data(b"\xff" * len(vector.data))
        for name in sorted(source.sample(list(changes), source.choice((1, 1, 1, 2, 3)))):
            sent = changes[name]()(sent)
        return sent

    def fire(self, sent: Sent, receiver: str, amount: int, *, is_known: bool) -> None:
        table: MessageTable = self.trainings[receiver].exchange
        with table._order:
            before = state_of(table)
            for _ in range(amount):
                made = self.hostile(sent, table, is_known)
                try:
                    made.reach(table)
                except (InvalidMessage, NotAllowed, OutOfOrder) as error:
                    said = str(error)
                    assert any(words in said for words in NAMED), (said, made)
                    assert said.isprintable() or made.peer not in self.trainings, "who sends is known by a certificate"
                    self.errors[type(error)] += 1
                else:
                    raise AssertionError(made)
                assert state_of(table) == before, made
        self.refused[sent.kind.split()[0] if sent.kind[-1].isdigit() else sent.kind] += amount


@dataclass(frozen=True)
class Way:
    """The way from one party to another."""

    sender: str
    direct: DirectPeer
    siege: Besieged

    def show_key(self, session_id: str, key: PublicKeyShown) -> None:
        self.direct.show_key(session_id, key)

    def send(self, session_id: str, kind: str, step: int, vector: WireVector | OutgoingVector) -> None:
        self._around(session_id, Sent(self.sender, str(kind), step, vector.whole(), is_question=False))

    def ask(self, session_id: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        answer: DecryptedVector = self._around(session_id, Sent(self.sender, kind, step, vector, is_question=True))
        return answer

    def _around(self, session_id: str, sent: Sent) -> Any:
        inbox = self.direct._inbox_of(session_id)
        (receiver,) = [name for name, one in self.siege.trainings.items() if one.exchange is inbox]
        # Trees name kinds by level and party.
        kind = sent.kind.split()[0] if sent.kind[-1].isdigit() else sent.kind
        amount = 0 if kind in self.siege.begun else MESSAGES // 2
        self.siege.begun.add(kind)
        self.siege.fire(sent, receiver, amount, is_known=False)
        answer = (self.direct.ask if sent.is_question else self.direct.send)(
            session_id, sent.kind, sent.step, sent.vector
        )
        self.siege.fire(sent, receiver, amount, is_known=True)
        return answer


def train(training: PartyTraining) -> None:
    training.side.show_public_key()
    epochs = training.agreement.plan.epochs
    for epoch in range(epochs):
        training.run_epoch(epoch, ignore_step)
    # Opened or frozen; no table is closed while others are fired at.
    training.end_with(epochs - 1)


ON_SHARES = ["rows", "blocks", "forward", "backward"]
LAYER = ["weight pads", "weight differences", "signal pads", "signal differences", "forward", "handed", "backward"]
TREES = ["mask_key", "order", "derivatives", "sums", "splits", "divided", "routes"]


@pytest.mark.parametrize(
    ("name", "parties", "kinds"),
    [
        ("hu", 3, ["residuals", "sums"]),
        ("cut layer", 3, ["residuals", "sums", "products"]),
        ("cut layer in the clear", 2, ["residuals", "products"]),
        ("shared", 3, [*ON_SHARES, "handed", "opened"]),
        (
            "shared, validated",
            2,
            [*ON_SHARES, "validation", "pads", "differences", "crossed", "word", "opened"],
        ),
        ("shared, unopened", 2, [*ON_SHARES, "frozen"]),
        ("first layer", 3, [*LAYER, "frozen"]),
        ("trees", 3, [*TREES, "key"]),
        ("trees in the clear", 2, TREES),
        ("pairwise_sums", 3, ["key", "masked", "total"]),
    ],
)
def test_what_no_table_has_is_refused_by_name_and_training_goes_on(
    name: str, parties: int, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "pairwise_sums":
        install("adding-a-protocol.md", name, tmp_path, monkeypatch)
    siege = Besieged(MESSAGES)
    with session_of(name, parties, siege.through) as (_, trainings), ThreadPoolExecutor(parties) as threads:
        siege.trainings = trainings
        for done in [threads.submit(train, training) for training in trainings.values()]:
            done.result()
    assert siege.refused == dict.fromkeys(kinds, MESSAGES)
    assert siege.errors.keys() >= {InvalidMessage, NotAllowed, OutOfOrder}
