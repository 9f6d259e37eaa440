"""A party's side of a session of trees: its half of the learner, its keys, and its messages in a mailbox."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from services.ciphers.shown_keys import checked_key, shown_key
from services.common.errors import InvalidMessage
from services.common.meters import StageTimer
from services.exchange.mailbox import Mailbox
from services.exchange.vectors import PublicKeyShown
from services.party.known_side import KnownSide
from services.party.side import SideSetting
from services.party.step_notes import ALL_STEPS
from services.protocols.trees.label_side import LabelSide
from services.protocols.trees.leaf_serving import SECRET_BYTES
from services.protocols.trees.passive_side import PassiveSide
from services.protocols.trees.said_once import SaidOnce
from services.protocols.trees.served_leaves import ServedTrees
from services.protocols.trees.tree_kinds import KEY, MASK_KEY, ORDER, TreeKinds, filled, joined
from services.protocols.trees.tree_messages import NodeDivided, SplitChosen, TreeTerms
from vfl.arrays import IntArray
from vfl.crypto import PackingImpossible, PrivateKey, PublicKey, from_bytes, keygen, to_bytes
from vfl.crypto.pairwise_masks import PairwiseMasks
from vfl.learning.learner import Request
from vfl.learning.trees import BeginTree, Divide, Histograms
from vfl.learning.trees.boosted_trees import LabelHalf, PassiveHalf
from vfl.learning.trees.tree_requests import AskPlan, ChoosesSums, FollowedTree, FollowTree

# What is noted for all trees: secrets that a model answers by, the label party's own key, the digest of what it shows.
_SECRETS, _PRIVATE, _DIGEST = "secrets", "private key", "digest of the key"
# Where the time of each of the label party's requests goes.
_STAGES = {BeginTree: "encrypt", Histograms: "decrypt", Divide: "wait"}


class TreeSide(KnownSide):
    """One party's side of a session.

    Attributes:
        terms: that all parties know alike.
        kinds: its messages.
        label: the label party's part; None at others.
        passive: a passive party's part, once it has the label party's key; None at the label party.
    """

    half: LabelHalf | PassiveHalf

    # A tree is grown by all in the same try.
    goes_back_anew = True

    def __init__(self, setting: SideSetting, half: Any = None, first_tree: int = 0) -> None:
        """Make keys and the mailbox; raises InvalidMessage for terms that trees can't be grown by.

        Args:
            setting: the session.
            half: that goes on; None to begin one.
            first_tree: that is grown: those before it are the half's.
        """
        super().__init__(setting, half)
        agreement = setting.agreement
        self.leads = setting.name == agreement.active.name
        self._table = self.features[:, :-1] if self.leads else self.features
        self.terms = TreeTerms.of(agreement)
        self.kinds = TreeKinds(self.terms)
        try:
            kinds = list(self.kinds.kinds())
        except (PackingImpossible, ValueError) as error:
            raise InvalidMessage(str(error)) from error
        self.exchange = Mailbox(
            agreement,
            setting.name,
            setting.means.peers,
            kinds,
            steps=self.steps,
            timeout=setting.means.timeout,
            tell=self.tell,
        )
        if first_tree:
            self.exchange.complete_step(first_tree - 1)
        self.log = setting.means.log
        self.said = SaidOnce(self.exchange, self.log, setting.anchor)
        self._masks = PairwiseMasks(setting.name, agreement.session_id)
        self._order, self._secret = secrets.token_bytes(SECRET_BYTES), secrets.token_bytes(SECRET_BYTES)
        self._seeds: list[bytes] = []
        if first_tree or (half is None and self.log.completed):
            self._take_up_secrets()
        self._key = self._own_key() if self.leads and self.terms.key_bits else None
        self.label: LabelSide | None = None
        self.passive: PassiveSide | None = None

    def _own_key(self) -> PrivateKey:
        """Make the key, or take up that of before: what is under it is answered once."""
        bits = self.setting.agreement.plan.key_bits
        if (noted := self.log.notes.of(ALL_STEPS, _PRIVATE)) is not None:
            p, q = from_bytes(noted, 2, bits // 16)
            return PrivateKey(p, q)
        key = keygen(bits, insecure=bits < 2048)[1]
        self.log.notes.note(ALL_STEPS, _PRIVATE, to_bytes((key.p, key.q), bits // 16))
        return key

    def _take_up_secrets(self) -> None:
        """Take up what all have agreed on before the first tree."""
        noted = self.log.notes.of(ALL_STEPS, _SECRETS)
        assert noted is not None  # noqa: S101 - it was kept with the first tree
        self._order, self._secret, *self._seeds = _cut(noted)

    def _label_side(self) -> LabelSide:
        peers = {name: MailboxPeer(self, place) for place, name in enumerate(self.terms.names) if place}
        side = LabelSide(self.terms, self._table, self._key, peers, self.setting.means.engine, self.half.owned)
        if self._key is not None and self.log.is_kept:
            side.once = self._derivatives
        return side

    def _derivatives(self, tree: int, make: Callable[[], bytes]) -> bytes:
        """Find a tree's ciphertexts as they were sent before an interruption, or make them and keep them."""
        kept = self.log.kept_message(tree) if self.log.attempt else None
        if kept is None:
            kept = make()
            self.log.keep_message(tree, kept)
        return kept

    def _passive_side(self) -> PassiveSide:
        return PassiveSide(
            self.terms,
            self.setting.name,
            self._table,
            self._label_key(),
            self.setting.means.engine,
            self.half.owned,
            [tree.splits for tree in self.half.trees],
        )

    @property
    def part(self) -> Any:
        """The part as it stands, with the secrets that it answers by; None before these are agreed on."""
        return ServedTrees.made(self.half.part(), self._order, self._secret, self._seeds) if self._seeds else None

    @property
    def validated_loss(self) -> float:  # type: ignore[override]
        """Of the validation rows, whose routes the label party sees as they grow: no score is asked for."""
        return self.half.loss if isinstance(self.half, LabelHalf) else np.nan

    def show_public_key(self) -> None:
        """Send this party's key of masks; and the label party's own key with its proof, and the secret of orders.

        Behind a first tree all have them.
        """
        if self._seeds:
            return
        self.exchange.send(MASK_KEY, np.frombuffer(self._masks.public_key, dtype=np.uint8))
        if not self.leads:
            return
        self.exchange.send(ORDER, np.frombuffer(self._order, dtype=np.uint8))
        if self._key is not None:
            shown = shown_key(self.setting.agreement, self.setting.name, self._key)
            self.exchange.send(KEY, np.frombuffer(shown.content, dtype=np.uint8))

    def begin_epoch(self) -> None:
        """Wait for the others' keys, and check them."""
        if not self._seeds:
            self._agree()
        if self.leads and self.label is None:
            self.label = self._label_side()
        elif not self.leads and self.passive is None:
            self.passive = self._passive_side()

    def _agree(self) -> None:
        """Agree on what a model answers by, and keep the label party's key."""
        try:
            self._masks.agree({peer: key.tobytes() for peer, key in self.exchange.take(MASK_KEY).items()})
        except ValueError as error:
            raise InvalidMessage(str(error)) from error
        if not self.leads:
            (order,) = self.exchange.take(ORDER).values()
            self._order = order.tobytes()
            if self.terms.key_bits:
                ((label, key),) = self.exchange.take(KEY).items()
                self.said.check(ALL_STEPS, _DIGEST, key.tobytes(), f"{label} shows another key than before")
                self.log.notes.note(ALL_STEPS, KEY, key.tobytes())
        peers = self.setting.agreement.peers_of(self.setting.name)
        self._seeds = [self._masks.agreed.seeds[peer.name] for peer in peers]
        self.log.notes.note(ALL_STEPS, _SECRETS, b"".join((self._order, self._secret, *self._seeds)))

    def _label_key(self) -> PublicKey | None:
        if not self.terms.key_bits:
            return None
        content, width = self.log.notes.of(ALL_STEPS, KEY) or b"", self.terms.key_bits // 8
        label = self.terms.names[0]
        (modulus,) = from_bytes(content[:width], 1, width)
        try:
            named = PublicKey(modulus).key_id
        except ValueError as error:
            raise InvalidMessage(f"{label}'s key is refused: {error}") from error
        return checked_key(self.setting.agreement, label, PublicKeyShown(named, content))

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator["TreeStep"]:
        """Begin a tree."""
        yield TreeStep(self, step, batch)


def _cut(content: bytes) -> list[bytes]:
    return [content[start : start + SECRET_BYTES] for start in range(0, len(content), SECRET_BYTES)]


class TreeStep:
    """The answers of one tree.

    Attributes:
        number: of the tree.
        rows: all training rows.
        timer: where its time goes.
    """

    is_passed_over = False

    def __init__(self, side: TreeSide, number: int, rows: IntArray) -> None:
        self.number, self.rows, self.timer = number, rows, StageTimer()
        self._side = side

    def answer(self, request: Request) -> Any:
        """Answer a request of the learner's."""
        label = self._side.label
        match request:
            case AskPlan():
                return self._side.terms.plan
            case FollowTree(chooses):
                return self._follow(chooses)
            case BeginTree() | Histograms() | Divide() if label is not None:
                with self.timer.stage(_STAGES[type(request)]):
                    return label.answer(request)
            case _:
                raise self._side.setting.calls.refused("asks for what protocol=trees has no answer to")

    def pass_over(self) -> None:
        """Nothing is passed over."""

    def finish(self) -> None:
        """Nothing is on its way: each message was taken when it was sent."""

    def _follow(self, chooses: ChoosesSums | None) -> FollowedTree:
        """Take part in a tree: level by level, until no node can be divided."""
        side, tree, said, kinds = self._side, self.number, self._side.said, self._side.kinds
        passive = side.passive
        assert passive is not None  # noqa: S101 - keys come before the first step
        passive.chooses = chooses
        label, place = side.terms.names[0], side.terms.names.index(side.setting.name)

        def take(kind: str) -> Any:
            with self.timer.stage("wait"):
                return said.take(f"{kind} {place}", tree, label)

        passive.begin(tree, joined([take(chunk) for chunk, _ in kinds.chunks()]))
        level = 0
        while passive.asked:
            if (sums := said.answer(f"sums {level} {place}", tree)) is None:
                with self.timer.stage("product"):
                    sums = filled(passive.sums(), kinds.sums_bytes(level, place))
            said.send_answer(f"sums {level} {place}", sums, tree)
            divided = passive.divide(kinds.read_splits(take(f"splits {level}")))
            said.send(f"divided {level} {place}", kinds.routes_of(divided, level), tree)
            passive.follow(kinds.read_routes(take(f"routes {level}"), level))
            level += 1
        return FollowedTree(place, passive.trees[-1], passive.reached)


class MailboxPeer:
    """A passive party as the label party reaches it: what it is told is sent, what it answers is taken."""

    def __init__(self, side: TreeSide, place: int) -> None:
        self._side, self._place = side, place
        self._tree = self._level = 0

    def begin(self, tree: int, derivatives: bytes) -> None:
        """Send derivatives, in as many messages as they take."""
        self._tree, self._level, start = tree, 0, 0
        for chunk, rows in self._side.kinds.chunks():
            end = start + rows * self._side.terms.ciphertext_bytes
            part = np.frombuffer(derivatives[start:end], dtype=np.uint8)
            self._side.exchange.send(f"{chunk} {self._place}", part, tree)
            start = end

    def sums(self) -> bytes:
        """Take the level's sums, filled up with zeros."""
        content: bytes = self._take("sums").tobytes()
        return content

    def divide(self, splits: Sequence[SplitChosen]) -> list[NodeDivided]:
        """Send this party's splits, and take which rows go left."""
        self._side.said.send(self._kind("splits"), self._side.kinds.splits_of(splits, self._level), self._tree)
        return self._side.kinds.read_routes(self._take("divided"), self._level)

    def follow(self, divided: Sequence[NodeDivided]) -> None:
        """Send all divisions of the level."""
        self._side.said.pass_on(self._kind("routes"), self._side.kinds.routes_of(divided, self._level), self._tree)
        self._level += 1

    def _kind(self, name: str) -> str:
        return f"{name} {self._level} {self._place}"

    def _take(self, name: str) -> Any:
        return self._side.said.take(self._kind(name), self._tree, self._side.terms.names[self._place])
