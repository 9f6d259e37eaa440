"""One party's half of Protocol 1 with each of its peers, in both directions at once (Hu eq. 34-35). Knows no network.

A step of a session of two parties, seen from one of them:

    own loop                                peer's messages (any thread)
    outgoing_residuals(step) ── send ──>    receive(residuals, step)   in parts, while later ones are encrypted
    for peer in arrivals(step):                whoever comes first
      masked_sums(step, peer) ── ask ──>    answer(sums, step)         the key holder decrypts what it can't read
    gradient_share(peer, answer)               of every peer, when its answer is there
    complete_step(step)

A message that comes again gets the same answer and changes nothing. A different one in its place is refused, so the
decryption of a step is answered once. A peer is at most one step ahead or behind. Hence two steps are kept. What was
answered in other tries of the training, under keys that are gone, its rights say (``answers.py``).
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from services.ciphers.cipher import Cipher, PlainCipher, Unmask
from services.ciphers.hidden_layer import hidden_header
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.meters import StageTimer
from services.common.plugin_calls import waiting_for_others
from services.exchange.answers import Rights, RightsOfOneTry
from services.exchange.declared_messages import ASKS, DeclaredMessage, Tells, answers, declared
from services.exchange.message_table import KeyRow, MessageRow, MessageTable, QuestionRow, each_step
from services.exchange.outgoing import OutgoingVector
from services.exchange.step_order import StepOrder
from services.exchange.tape import Tape
from services.exchange.vectors import DecryptedVector, PublicKeyShown, VectorHeader, WireVector
from services.protocols.hu.peer_questions import PeerQuestions
from vfl.arrays import FloatArray
from vfl.crypto.pairwise_masks import MASK_KEY_BYTES

T = TypeVar("T")
# What travels in a step: two kinds of messages, one of questions, and what they are answered with.
RESIDUALS, HIDDEN, SUMS, DECRYPTED = "residuals", "products", "sums", "decrypted sums"
DECRYPTION = Tells("equations", word="decryption")
_HIDDEN = DeclaredMessage(HIDDEN, tells=Tells("equations", of="others"))
MESSAGES = declared(
    (
        DeclaredMessage(RESIDUALS),
        _HIDDEN,
        DeclaredMessage(SUMS, right=ASKS),
        DeclaredMessage(DECRYPTED, right=answers(SUMS), tells=DECRYPTION),
    )
)
# Where residuals are read as they come: nobody asks.
READ_DIRECTLY = declared((DeclaredMessage(RESIDUALS, tells=Tells("equations")), _HIDDEN))


@dataclass(frozen=True)
class StepRoles:
    """Who sends what in a step.

    Attributes:
        senders: who sends residuals; None for all.
        forwarders: who forwards its products to this party, where it is the label party of a learner that forwards.
        units: how many columns these products have.
        masked_with: who forwards as this party does, so that their masks cancel.
        reads_directly: whether residuals are read as they come, as in plain split learning: nobody asks for sums.
        sends: whether this party sends residuals: of another nobody asks sums.
    """

    senders: Container[str] | None = None
    forwarders: tuple[str, ...] = ()
    units: int = 0
    masked_with: tuple[str, ...] = ()
    reads_directly: bool = False
    sends: bool = True


@dataclass(frozen=True)
class OpenQuestion:
    """Masked sums that this party asks a peer about, and what reads the answer. It holds the mask.

    Attributes:
        step: it is of.
        masked: what is sent.
        unmask: reads the answer.
        matrix: (rows, D), what the peer's residuals were multiplied by.
        features: the party's own, which are the first columns.
    """

    step: int
    masked: WireVector
    unmask: Unmask
    matrix: FloatArray
    features: int


@dataclass(frozen=True)
class Beginning:
    """Where an exchange begins, at the first step or where the one before was cut off, and who notes its answers.

    Attributes:
        step: the first that is done. Nothing before it is sent, taken or answered.
        rights: what was answered before, and is from now on.
        asked: this party's own questions of its next step, by peer, which were answered and have to be read yet.
        asked_at: that step; later than the first where this party is ahead.
        answering: is told of each answer before a peer has it: the peer, and how many numbers were decrypted.
        anchoring: has what was answered known elsewhere, before it is given. May raise, and then it isn't.
    """

    step: int = 0
    rights: Rights = field(default_factory=RightsOfOneTry)
    asked: Mapping[str, OpenQuestion] = field(default_factory=dict)
    asked_at: int = 0
    answering: Callable[[str, int], object] = lambda *_: None
    anchoring: Callable[[], object] = lambda: None


@dataclass
class _OwnQuestions:
    """What this party asks a peer, by step, and the question whose answer is to be read next."""

    by_step: dict[int, OpenQuestion] = field(default_factory=dict)
    pending: OpenQuestion | None = None


class GradientExchange(MessageTable):
    """Keeps one party's state of Protocol 1, for its own loop and for its peers' threads at once.

    Arguments:
        cipher: makes and reads the messages.
        peers: names of the other parties.
        steps: how many the session has.
        rows_of_step: how many records a step has; public.
        timeout: seconds to wait for a peer's message.
        roles: who sends what in a step.
        beginning: where it begins.
    """

    def __init__(
        self,
        cipher: Cipher,
        peers: Iterable[str],
        *,
        steps: int,
        rows_of_step: Callable[[int], int],
        timeout: float,
        roles: StepRoles = StepRoles(),
        beginning: Beginning = Beginning(),
    ) -> None:
        self._cipher, self.public_key = cipher, cipher.public_key
        self.roles = roles
        self._rows_of_step = rows_of_step
        names = list(peers)
        self._sending = [peer for peer in names if roles.senders is None or peer in roles.senders]
        self._messages = READ_DIRECTLY if roles.reads_directly else MESSAGES
        super().__init__(
            names,
            [*map(self._residuals_of, self._sending), *map(self._hidden_of, roles.forwarders)],
            [KeyRow("", peer, partial(self._accepted, peer)) for peer in names],
            StepOrder(steps, timeout, beginning.step),
            [self._sums_of(peer) for peer in names if roles.sends and SUMS in self._messages],
        )
        self._own_questions = {peer: _OwnQuestions() for peer in names}
        self._questions = PeerQuestions(
            cipher, self._order, beginning.rights, answering=beginning.answering, anchoring=beginning.anchoring
        )
        for peer, question in beginning.asked.items():
            self._own_questions[peer].by_step[beginning.asked_at] = question

    # -- the table -------------------------------------------------------------------------------------------------

    def _residuals_of(self, peer: str) -> MessageRow:
        def read(step: int, vector: WireVector) -> WireVector:
            self._cipher.check_residuals(step, peer, self._rows_of_step(step), vector)
            return vector

        def header(step: int) -> VectorHeader:
            return self._cipher.residuals_header(peer, self._rows_of_step(step))

        return MessageRow(self._messages[RESIDUALS], peer, each_step, header, read, after=("",))

    def _hidden_of(self, peer: str) -> MessageRow:
        def header(step: int) -> VectorHeader:
            return hidden_header(self._rows_of_step(step), self.roles.units)

        def read(step: int, vector: WireVector) -> WireVector:
            vector.check(header(step), HIDDEN)
            return vector

        return MessageRow(self._messages[HIDDEN], peer, each_step, header, read)

    def _sums_of(self, peer: str) -> QuestionRow:
        return QuestionRow(
            self._messages[SUMS],
            peer,
            lambda step: self._questions.header(peer, step),
            lambda step, vector: self._questions.answer(peer, step, vector),
        )

    def _accepted(self, peer: str, key: PublicKeyShown) -> PublicKeyShown:
        if peer in self.roles.masked_with and len(key.mask_key) != MASK_KEY_BYTES:
            raise InvalidMessage(
                f"{peer} has shown no key of {MASK_KEY_BYTES} bytes for masks, without which products of several "
                "parties aren't forwarded: run one version of Plumbline everywhere."
            )
        self._cipher.accept_key(peer, key)
        return key

    # -- what this party's own training loop does ------------------------------------------------------------------

    def outgoing_residuals(self, step: int, residual: FloatArray) -> OutgoingVector:
        """Give this party's share of the residual, (rows, columns), to be put under its own key and sent to every peer.

        ``make`` encrypts it. Senders may take it before: they send each part when it is there.
        """
        with self._order:
            self._order.check(step, latest=self._order.step)

        def is_whole() -> None:
            # Before any peer has all of them, and may ask.
            with self._order:
                self._questions.encrypted_step = step

        return OutgoingVector(*self._cipher.encrypt(step, residual), is_whole)

    def arrivals(self, step: int) -> Iterator[str]:
        """Give the peers that send, each as soon as its residuals of ``step`` are here.

        Raises:
            PeerVanished: after the timeout without another one, with the names of all that are missing.
        """
        missing = list(self._sending)
        while missing:

            def arrived() -> str | None:
                return next((peer for peer in missing if self.has_come(RESIDUALS, peer, step)), None)

            sender = self._await(arrived, f"{', '.join(missing)}'s residuals of step {step}")
            missing.remove(sender)
            yield sender

    def hidden(self, step: int) -> list[WireVector]:
        """Give the forwarded products of ``step``, of all who forward.

        Raises:
            PeerVanished: after the timeout without one.
        """
        return [self._awaited(peer, HIDDEN, step) for peer in self.roles.forwarders]

    def residuals_in_the_clear(self, step: int, peer: str) -> FloatArray:
        """Read a peer's residuals of ``step``, (rows, columns), where nothing is encrypted and they are read directly.

        Raises:
            PeerVanished: after the timeout.
        """
        return PlainCipher.read(self._awaited(peer, RESIDUALS, step), self._rows_of_step(step))

    def masked_sums(self, step: int, peer: str, features: FloatArray, timer: StageTimer) -> WireVector:
        """features^T (peer's residuals) of ``step``, encrypted and masked, to be sent to the peer for decryption.

        Features are whole numbers in wire order, as the cipher takes them. Waits for the peer's residuals. Where the
        peer has answered these sums before, they are the same ones.

        Raises:
            PeerVanished: after the timeout.
        """
        asked = self._own_questions[peer]
        if (former_question := asked.by_step.get(step)) is not None:
            asked.pending = former_question
            return former_question.masked
        with timer.stage("wait"):
            vector = self._awaited(peer, RESIDUALS, step)
        with timer.stage("product"):
            combination = self._cipher.combine(step, peer, features, vector)
        with timer.stage("mask"):
            masked, unmask = self._cipher.mask(step, peer, combination)
        with self._order:
            question = OpenQuestion(step, masked, unmask, combination.matrix, features.shape[1])
            asked.pending = asked.by_step[step] = question
        return masked

    def gradient_share(self, peer: str, answer: DecryptedVector, tape: Tape | None = None) -> FloatArray:
        """Unmask the peer's answer to the last ``masked_sums``: (features, columns). Raises InvalidMessage."""
        asked = self._own_questions[peer]
        if (question := asked.pending) is None:
            raise OutOfOrder(f"No masked sums are open with {peer}.")
        sums = question.unmask(answer)
        if tape is not None:
            tape.sums(question.step, peer, question.matrix, sums)
        asked.pending = None
        return sums[: question.features]

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the cipher work ahead: while this context lasts this party's loop waits for its peers."""
        with waiting_for_others(), self._cipher.waiting():
            yield

    def await_questions(self, step: int) -> None:
        """Wait until the peers that send nothing have their answers of ``step``: nothing else keeps them in step.

        Raises:
            PeerVanished: after the timeout.
        """
        if self._questions.encrypted_step >= step and SUMS in self._messages:
            for peer in [one for one in self._peers if one not in self._sending]:
                self._await(partial(self._questions.answered, peer, step), f"{peer}'s sums of step {step}")

    def complete_step(self, step: int) -> None:
        """Go on to the next step and forget what no peer can ask for again."""
        with self._order:
            self._order.step = step + 1
            self._questions.forget(step)
            self.forget(lambda _, other: other < step)
            for asked in self._own_questions.values():
                asked.by_step.pop(step, None)

    def open_questions(self, step: int) -> dict[str, OpenQuestion]:
        """List this party's own questions of ``step``, by peer. Whether they were answered, the peers know."""
        with self._order:
            return {peer: asked.by_step[step] for peer, asked in self._own_questions.items() if step in asked.by_step}

    def await_keys(self) -> None:
        """Wait until every peer has shown its public key.

        Raises:
            PeerVanished: after the timeout.
        """
        for peer in self._peers:
            self._await(lambda peer=peer: self._shown.get(("", peer)), f"{peer}'s public key")  # type: ignore[misc]

    @property
    def mask_keys(self) -> Mapping[str, bytes]:
        """What every peer has shown for masks, by name; empty before ``await_keys``."""
        return {peer: self.key("", peer).mask_key for peer in self._peers if ("", peer) in self._shown}

    def end(self, reason: str) -> None:
        """End the exchange: whoever waits, or asks from now on, is told ``reason``."""
        super().end(reason)
        self._cipher.close()

    def suspend(self, reason: str) -> None:
        """End the exchange, and tell whoever waits or asks that another one will go on with the training.

        From now on nothing is answered that was not answered before.
        """
        super().suspend(reason)
        self._cipher.close()

    # -- inner checks ----------------------------------------------------------------------------------------------

    def _await(self, value: Callable[[], T | None], what: str) -> T:
        with self._cipher.waiting(), self._order:
            return self._order.await_value(value, what)

    def _awaited(self, peer: str, kind: str, step: int) -> WireVector:
        with self.waiting():
            vector: WireVector = self.await_message(kind, peer, step)
            return vector
