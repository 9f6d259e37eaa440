"""Hostile messages of every kind of a protocol's table: refused by name, and nothing is changed.

A mailbox refuses what its table hasn't. What the table has, of any content, the protocol's sides refuse, or go on with.
"""

import copy
import pickle
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage, NotAllowed, OutOfOrder, PeerVanished
from services.exchange.declared_messages import Tells
from services.exchange.mailbox import Mailbox
from services.exchange.message_kinds import MessageKind
from services.exchange.vectors import WireVector
from services.protocols.trees.label_side import LabelSide
from services.protocols.trees.passive_side import PassiveSide
from services.protocols.trees.tree_kinds import TreeKinds
from services.protocols.trees.tree_messages import NodeDivided, Peer, SplitChosen, TreeTerms
from tests.harness.agreements import agreed
from tests.harness.tree_tables import made_table
from tests.harness.wire_fuzz import FORGERY
from vfl.crypto import keygen
from vfl.learning.trees import BeginTree, Divide, Histograms, OwnedColumns, TreeOptions, boost, train_in_plain
from vfl.learning.trees.boosting import answered

QUICK_MESSAGES, LONG_MESSAGES = 20, 2_000
AMOUNTS = pytest.mark.parametrize(
    "amount",
    [
        pytest.param(QUICK_MESSAGES, id="quick"),
        pytest.param(LONG_MESSAGES, marks=[pytest.mark.hostile_long, pytest.mark.timeout(3000)], id="long"),
    ],
)
OPTIONS = TreeOptions(n_estimators=2, max_depth=3, max_bin=4, min_rows_of_a_node=5, gradient_bits=12)
AGREEMENT = agreed(TrainingPlan(epochs=2, batch_size=8), features=(3, 2, 3))
# Which counts what trees tell, as every mailbox checks.
OF_TREES = agreed(TrainingPlan(learner="boosted_trees", protocol="trees", epochs=2, batch_size=0), features=(3, 2, 3))
NAMES = tuple(party.name for party in AGREEMENT.parties)
STEPS = OPTIONS.n_estimators
WORDS = ("", "x", FORGERY, "\x1b[2J\u202e", "\0", "9" * 10_000, "coordinator", "float32", "object", "sums 0 9")
INTEGERS = (-(2**63), -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1)


def trees(key_bits: int) -> list[MessageKind]:
    table = made_table(60, (2, 2, 3))
    return list(TreeKinds(TreeTerms(NAMES, table.plan(OPTIONS), key_bits)).kinds())


def numbers() -> list[MessageKind]:
    """As another package's protocol would add up: all to all, and more in each step than before."""
    everybody = frozenset(NAMES)
    return [
        MessageKind("seed", everybody, everybody, lambda _: (32,), "uint8", once=True),
        MessageKind("sums", everybody, everybody, lambda step: (4 + step, 2), tells=Tells("equations", word="sums")),
    ]


class Listener:
    """Whoever is sent what this party asks."""

    def send(self, *_: object) -> None:
        """Hear it."""


LINKS: dict[str, Any] = dict.fromkeys(NAMES, Listener())
TABLES = {"trees": lambda: trees(512), "trees in the clear": lambda: trees(0), "sums": numbers}


@dataclass(frozen=True)
class Sent:
    """A message as a mailbox is given it: by whom, of what kind, of which step, and what it says of its numbers."""

    peer: str
    kind: str
    step: int
    numbers: str
    count: int
    width: int
    data: bytes
    key_id: str = ""
    exponent: int = 0

    def reach(self, box: Mailbox) -> None:
        vector = WireVector(self.key_id, self.count, self.width, self.exponent, self.data, self.numbers)
        box.receive(self.peer, self.kind, self.step, vector)


def honest(kind: MessageKind, peer: str, step: int, values: NDArray[Any]) -> Sent:
    data = values.astype(f"<{values.dtype.str[1:]}").tobytes()
    return Sent(peer, kind.name, step, kind.numbers, values.size, values.dtype.itemsize, data)


def drawn_values(kind: MessageKind, step: int, source: random.Random) -> NDArray[Any]:
    shape, dtype = kind.shape(step), np.dtype(kind.numbers)
    if kind.numbers == "float64":
        return np.array([source.gauss() for _ in range(prod(shape))]).reshape(shape)
    return np.frombuffer(source.randbytes(prod(shape) * dtype.itemsize), dtype=dtype).reshape(shape)


def hostile(message: Sent, kinds: list[MessageKind], receiver: str, source: random.Random) -> Iterator[Sent]:
    """A message with one thing or several wrong, without an end."""
    declared = {kind.name: kind for kind in kinds}
    changes: dict[str, Callable[[], Any]] = {
        "peer": lambda: source.choice([*NAMES, "passive-9", *WORDS]),
        "kind": lambda: source.choice([*declared, *WORDS]),
        "step": lambda: source.choice([one for one in INTEGERS if one >= 0]),
        "numbers": lambda: source.choice(["float64", "uint64", "uint8", "integers", *WORDS]),
        "width": lambda: source.choice([0, 1, 2, 4, 8, 16, 2**32 - 1]),
        "key_id": lambda: source.choice(WORDS),
        "exponent": lambda: source.choice([-8, 0, 1, 2**31 - 1]),
        "count": lambda: source.choice([one for one in INTEGERS if one >= 0] + [message.count - 1, message.count + 1]),
        "data": lambda: source.randbytes(abs(len(message.data) + source.choice((-8, -1, 1, 8, 4_000)))),
    }
    while True:
        wrong = source.sample(list(changes), source.choice((1, 1, 1, 2, 3)))
        made = replace(message, **{name: changes[name]() for name in wrong})
        kind = declared.get(made.kind)
        is_declared = (
            kind is not None
            and made.peer in kind.senders - {receiver}
            and receiver in kind.receivers
            and made.step in ((0,) if kind.once else (0, 1))
            and made.numbers == kind.numbers
            and made.count == prod(kind.shape(made.step))
            and (made.width, made.key_id, made.exponent) == (np.dtype(kind.numbers).itemsize, "", 0)
            and len(made.data) == made.count * np.dtype(kind.numbers).itemsize
        )
        if not is_declared:
            yield made


@AMOUNTS
@pytest.mark.parametrize("receiver", NAMES)
@pytest.mark.parametrize("table", TABLES)
def test_a_mailbox_refuses_what_its_table_has_not_and_takes_what_it_has(amount: int, receiver: str, table: str) -> None:
    kinds, source = TABLES[table](), random.Random(amount)  # noqa: S311 - repeats
    box = Mailbox(OF_TREES if table != "sums" else AGREEMENT, receiver, LINKS, kinds, steps=STEPS, timeout=0.0)
    taken = [kind for kind in kinds if receiver in kind.receivers]
    words = Counter[type[FederationError]]()

    def fire(message: Sent, count: int) -> None:
        sending = hostile(message, kinds, receiver, source)
        for _ in range(count):
            one = next(sending)
            with pytest.raises((InvalidMessage, NotAllowed, OutOfOrder)) as refused:
                one.reach(box)
            said = str(refused.value)
            words[refused.type] += 1
            assert said.isprintable() or one.peer not in NAMES, "who sends is known by a certificate"
            assert len(said) < 1_000 or one.peer not in NAMES
            named = (
                " to send in this session.",
                "is not a party of this session.",
                f" of {one.kind}",
                f"Different {one.kind} of step",
                f"Step {one.step} ",
                f"got {one.step}.",
                f" of step {one.step} to answer: this party hasn't asked.",
            )
            assert any(part in said for part in named), said

    expected, asked = dict[tuple[str, int], dict[str, NDArray[Any]]](), set[tuple[str, int]]()
    for kind in taken:
        step = 0 if kind.once else source.randrange(STEPS)
        for peer in sorted(kind.senders - {receiver}):
            values, other = (drawn_values(kind, step, source) for _ in range(2))
            message = honest(kind, peer, step, values)
            fire(message, amount // 2)
            if (question := kind.right.question) and (question, step) not in asked:
                with pytest.raises(OutOfOrder, match=f"{peer} has no {question} of step {step} to answer"):
                    message.reach(box)
                asked.add((question, step))
                (asks,) = [one for one in kinds if one.name == question]
                box.send(question, drawn_values(asks, step, random.Random(step)), step)  # noqa: S311 - repeats
            with pytest.raises(PeerVanished, match=f"for {peer}'s {kind.name} of step {step} "):
                box.take(kind.name, step)
            message.reach(box)
            message.reach(box)
            fire(message, amount - amount // 2)
            with pytest.raises(OutOfOrder, match=f"Different {kind.name} of step {step} were received already"):
                honest(kind, peer, step, other).reach(box)
            expected.setdefault((kind.name, step), {})[peer] = values
    for (name, step), of_peers in expected.items():
        for peer, values in box.take(name, step).items():
            np.testing.assert_array_equal(values, of_peers[peer])
    assert words.keys() >= {InvalidMessage, NotAllowed}


# -- of the table, and of no honest party ------------------------------------------------------------------------------


Side = PassiveSide | LabelSide
# What computes, ways to others, and a key that no copy is made of.
SHARED_BY_COPIES = ("_engine", "_peers", "_private_key", "once")


def state_of(side: Side) -> bytes:
    return pickle.dumps({name: value for name, value in vars(side).items() if name not in SHARED_BY_COPIES})


CALLS = ("begin", "sums", "divide", "follow")


class TreesOfTwo:
    """A label party and a passive one, whose messages may be changed on their way."""

    def __init__(self, key_bits: int) -> None:
        self.table = table = made_table(90, (1, 3), missing=0.1)
        public_key, private_key = keygen(key_bits, insecure=True) if key_bits else (None, None)
        plan = table.plan(OPTIONS)
        self.terms = TreeTerms(("bank", "fintech"), plan, key_bits)
        self.passive = PassiveSide(self.terms, "fintech", table.tables[1], public_key)
        self.before: Callable[[str, tuple[Any, ...]], object] = lambda call, said: None
        self.lie: Callable[[str, Any], Any] = lambda call, answer: answer
        self.label = LabelSide(self.terms, table.tables[0], private_key, {"fintech": cast(Peer, self)})
        self.model: Any = None

    def __getattr__(self, call: str) -> Any:
        """The passive party as the label party reaches it."""
        if call not in CALLS:
            raise AttributeError(call)

        def reach(*said: Any) -> Any:
            self.before(call, said)
            return self.lie(call, getattr(self.passive, call)(*said))

        return reach

    def train(self, asked: Callable[[Any], Any] | None = None) -> None:
        program = boost(self.table.labels, self.terms.plan, self.label.owned)
        self.model = answered(program, asked or self.label.answer)


class Lies:
    """Makes what no honest party says, or not now: of any call, and near to what it does say."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)  # noqa: S311 - repeats

    def of(self, call: str, near: tuple[Any, ...] = ()) -> tuple[Any, ...]:
        """Arguments of a call; near to honest ones of it, where there are some."""
        match call:
            case "begin":
                tree, content = near or (0, b"")
                drawn = self.source.choice([self.bytes_near(content), content])
                return self.source.choice([tree, *INTEGERS]) if drawn == content else tree, drawn
            case "divide" | "follow":
                kind = SplitChosen if call == "divide" else NodeDivided
                return (self.rows(kind, near[0] if near else ()),)
            case _:
                return ()

    def rows(self, kind: Any, near: Sequence[Any]) -> list[Any]:
        """Splits or divisions: some that are changed, one too many or too few, or drawn."""
        if not near or self.source.random() < 0.2:
            return [kind(*map(self._value, kind._fields)) for _ in range(1 + self.source.randrange(3))]
        rows = list(near)
        changed = rows[-1]._replace(
            **{name: self._near(rows[-1], name) for name in self.source.sample(kind._fields, 1)}
        )
        return self.source.choice([[*rows, changed], [*rows[:-1], changed], rows[:-1], rows + rows])

    def bytes_near(self, was: bytes) -> bytes:
        """Bytes with a bit that is another, or drawn."""
        if was and self.source.random() < 0.6:
            changed = bytearray(was)
            changed[self.source.randrange(len(was))] ^= 1 << self.source.randrange(8)
            return bytes(changed)
        return self.source.randbytes(self.source.choice((0, 1, 16, 90 * 16, 90 * 128, 90 * 128 - 1)))

    def _near(self, row: Any, name: str) -> Any:
        return self.bytes_near(row.left) if name == "left" else self._value(name)

    def _value(self, name: str) -> Any:
        match name:
            case "left":
                return self.source.randbytes(self.source.choice((0, 1, 7, 8, 12, 13)))
            case "missing_left":
                return self.source.random() < 0.5
            case _:
                return self.source.choice(INTEGERS)


def twin_of(side: Any) -> Any:
    twin = copy.copy(side)
    vars(twin).update(pickle.loads(state_of(side)))  # noqa: S301 - written in this line
    return twin


def refusal(side: Side, call: Callable[[Any], object]) -> tuple[str, bool]:
    """What a copy of a side refuses something with, and whether it is as it was; no words for what it takes."""
    twin = twin_of(side)
    before = state_of(twin)
    try:
        call(twin)
    except (InvalidMessage, OutOfOrder) as error:
        return str(error) or "no words", state_of(twin) == before
    return "", True


def called(call: str, said: tuple[Any, ...]) -> Callable[[Any], object]:
    return lambda side: getattr(side, call)(*said)


def assert_as_in_plain(trees: TreesOfTwo) -> None:
    sides: tuple[Side, ...] = (trees.label, trees.passive)
    owned = [
        OwnedColumns.of(table, trees.terms.plan.trained, OPTIONS, np.array(side.owned.order))
        for table, side in zip(trees.table.tables, sides, strict=True)
    ]
    assert trees.model == train_in_plain(trees.table.labels, owned, trees.terms.plan)
    assert trees.model.trees[0].splits
    assert [side.owned.splits for side in sides] == [one.splits for one in owned]


@AMOUNTS
@pytest.mark.parametrize("key_bits", [0, 512], ids=["plain", "paillier"])
def test_a_passive_party_refuses_what_no_label_party_says_and_is_as_it_was(amount: int, key_bits: int) -> None:
    undisturbed, trees = TreesOfTwo(key_bits), TreesOfTwo(key_bits)
    lies, taken, refused = Lies(amount), Counter[str](), Counter[str]()
    stages = list[str]()
    undisturbed.before = lambda call, said: stages.append(call)
    undisturbed.train()

    def lie_about(call: str, said: tuple[Any, ...]) -> None:
        for other in CALLS:
            for _ in range(1 + amount // len(stages)):
                lie = lies.of(other, said if other == call else ())
                words, is_as_before = refusal(trees.passive, called(other, lie))
                assert is_as_before, (other, lie)
                (refused if words else taken)[other] += 1

    trees.before = lie_about
    trees.train()
    # Sums that are asked for twice are the same ones, and nobody draws what it asks for there.
    assert all(refused[call] > 0.5 * amount for call in ("begin", "divide", "follow")), (taken, refused)
    assert_as_in_plain(trees)


@AMOUNTS
@pytest.mark.parametrize("key_bits", [0, 512], ids=["plain", "paillier"])
def test_a_label_party_refuses_what_no_passive_party_answers_and_is_as_it_was(amount: int, key_bits: int) -> None:
    trees, lies = TreesOfTwo(key_bits), Lies(amount)
    taken, refused = Counter[type](), Counter[type]()
    stages = 2 * OPTIONS.n_estimators * OPTIONS.max_depth

    def lied(call: str, answer: Any) -> Any:
        if call == "sums":
            # In the clear any number may be a sum: its length says whether it is one.
            return lies.source.choice([lies.bytes_near(answer), answer[: -1 - lies.source.randrange(len(answer))]])
        return lies.rows(NodeDivided, answer) if call == "divide" else answer

    def asked(request: Any) -> Any:
        passive = trees.passive
        for _ in range(0 if isinstance(request, BeginTree) else 1 + amount // stages):
            # Each lie is of a passive party that is as it was.
            trees.passive, trees.lie = twin_of(passive), lied
            words, is_as_before = refusal(trees.label, lambda twin: twin.answer(request))
            assert not words or "fintech" in words
            # A level is divided by all its owners, and a session ends with what one of them says wrongly.
            assert is_as_before or isinstance(request, Divide)
            (refused if words else taken)[type(request)] += 1
        trees.passive, trees.lie = passive, lambda call, answer: answer
        return trees.label.answer(request)

    trees.train(asked)
    assert all(refused[kind] > 0.2 * amount for kind in (Histograms, Divide)), (taken, refused)
    assert_as_in_plain(trees)
