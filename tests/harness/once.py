"""A real party that is held to "once", and a peer that speaks to it by messages alone: anything, at any time.

What the product's classes and messages are called today stands in this file; tests speak of steps, keys and answers.
"""

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from services.active.scoring import first_failure
from services.ciphers.cipher import PaillierCipher
from services.ciphers.formats import CipherFormats
from services.ciphers.hidden_layer import hidden_vector
from services.common.agreement import Agreement, ProposedTerms
from services.common.alignment import alignment_context
from services.common.errors import FederationError
from services.common.meters import StageTimer
from services.exchange.outgoing import OutgoingVector
from services.exchange.vectors import DecryptedVector, PublicKeyShown, WireVector
from services.party.equation_count import EQUATIONS, spent_in
from services.party.resumption import Place, Resumption
from services.party.session import join
from services.passive.party import PassiveParty
from services.protocols.hu.gradient_exchange import RESIDUALS, GradientExchange
from tests.harness.ciphers import honest_messages
from tests.harness.parties import ACTIVE
from vfl.arrays import FloatArray, IntArray
from vfl.cores import OneCore
from vfl.crypto import CipherVector, PrivateKey, decrypt_vector, from_bytes
from vfl.data import PsiClient, rows_in_common_order
from vfl.data.id_array import IdArray

# Nobody waits so long: whoever waits is woken, or told why not.
SECONDS = 60.0
# So many interruptions as no test makes, where the product bounds them.
UNBOUNDED = {"most_interruptions": 1_000}


@dataclass(frozen=True)
class Shown:
    """Residuals, or a backward signal, that the victim has sent to the peer, as its own key reads them.

    Attributes:
        step: that the message named.
        attempt: which try of the training it was in, from 0.
        process: which of the victim's processes has sent it, from 0.
        vector: as it travelled.
        values: what is under the key, (rows, columns).
    """

    step: int
    attempt: int
    process: int
    vector: WireVector = field(compare=False, repr=False)
    values: FloatArray = field(compare=False, repr=False)

    @property
    def is_real(self) -> bool:
        """Whether it holds anything but zeros."""
        return bool(self.values.any())


@dataclass(frozen=True)
class Told:
    """A question that the victim has decrypted.

    Attributes:
        step: that the question named.
        attempt: in which try it was asked.
        key_id: of the key that it was under.
        digest: of the question.
        sums: what the answer comes to without the mask, (features, columns), where the question was an honest one.
        behind: how many vectors the victim had sent by then, in all tries.
    """

    step: int
    attempt: int
    key_id: str
    digest: str
    sums: FloatArray = field(compare=False, repr=False)
    behind: int


class Peer:
    """Speaks as one of a session's two parties, to the real other one. Its messages are the wire's.

    Attributes:
        name: as whom it speaks.
        shown: what the victim has sent under its keys.
        forwarded: (step, products) that the victim has forwarded in the clear, in the order of their coming.
        told: what the victim has decrypted for this peer.
        products: of this party's columns that the coordinator was sent, request by request, (rows, columns).
        shares: what the victim computed for a step, before its own defences: known to the test alone.
        completed: steps that the victim has completed.
        attempt: how often the training was gone on with.
        process: how often the victim was started again.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.shown: list[Shown] = []
        self.forwarded: list[tuple[int, FloatArray]] = []
        self.told: dict[str, Told] = {}
        self.products: list[FloatArray] = []
        self.shares: dict[int, FloatArray] = {}
        self.completed = 0
        self.attempt = 0
        self.process = 0
        self.keys: dict[str, PrivateKey] = {}
        self.session_id = ""
        self.changed = threading.Condition()
        self.generator = np.random.default_rng(7)
        # What both sides live in: the siege.
        self.town: Any = None
        self.agreement: Agreement
        self.failure: BaseException | None = None
        # Whether it keeps the victim waiting for the acknowledgement of what it has sent.
        self.holds_back = False
        self._is_cut = False
        self._ciphers: dict[str, PaillierCipher] = {}
        self._sent: dict[tuple[int, int], WireVector] = {}
        self._own: PaillierCipher

    # -- what the victim sends, on its own threads -----------------------------------------------------------------

    def exchange_of(self, session_id: str) -> "Peer":
        """The peer's end of Protocol 1."""
        return self

    def receive_key(self, sender: str, key: PublicKeyShown) -> None:
        self._own.accept_key(sender, key)
        with self.changed:
            self._ciphers[key.key_id] = self._own
            self.changed.notify_all()

    def receive(self, sender: str, kind: str, step: int, vector: WireVector) -> None:
        (self._take_residuals if kind == RESIDUALS else self._take_products)(step, vector)

    def _take_residuals(self, step: int, vector: WireVector) -> None:
        formats, rows = CipherFormats(self.agreement), self.rows_of(step)
        key = self.keys[vector.key_id]
        ciphertexts = CipherVector(
            key.public_key,
            from_bytes(vector.data, vector.count, vector.width),
            vector.exponent,
            (rows, self.agreement.residual_columns),
            formats.layout,
        )
        with self.changed:
            values = decrypt_vector(key, ciphertexts)
            attempt = self.attempt
            self.shown.append(Shown(step, attempt, self.process, vector, values))
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.holds_back or self._is_cut or attempt < self.attempt, SECONDS)

    def _take_products(self, step: int, vector: WireVector) -> None:
        residues = np.frombuffer(vector.data, dtype=">u8").astype(np.uint64).view(np.int64)
        with self.changed:
            self.forwarded.append((step, residues.reshape(self.rows_of(step), -1) / 2.0**32))
            self.changed.notify_all()

    def answer(self, sender: str, kind: str, step: int, vector: WireVector) -> DecryptedVector:
        return self._own.decrypt(step, sender, vector)

    # -- what the peer sends ---------------------------------------------------------------------------------------

    @property
    def victim(self) -> str:
        """The real party."""
        return str(self.town.victim)

    @cached_property
    def batches(self) -> list[IntArray]:
        """Rows of the common order that each step is about."""
        plan, aligned = self.agreement.plan, self.agreement.parties[0].aligned_rows
        schedule = plan.schedule(plan.split(aligned).train)
        return [batch for epoch in range(plan.epochs) for batch in schedule.epoch(epoch)]

    def rows_of(self, step: int) -> int:
        """How many records a step has."""
        return len(self.batches[step])

    @property
    def steps_per_epoch(self) -> int:
        return self.steps // self.agreement.plan.epochs

    @property
    def steps(self) -> int:
        """Of the whole training."""
        return len(self.batches)

    def new_key(self) -> None:
        """Make a key of this peer's own, which it has not shown yet."""
        self._own = PaillierCipher(self.agreement, self.name, honest_messages(self.agreement, self.name))

    def show_key(self) -> None:
        """Show the peer's key to the victim."""
        self._exchange.receive_key(self.name, self._own.public_key)

    @property
    def _exchange(self) -> GradientExchange:
        return cast(GradientExchange, self.town.find(self.victim).exchange_of(self.session_id))

    def send_residuals(self, step: int) -> None:
        """Send residuals of some value: the first time any, then in the same try the same."""
        if (self.attempt, step) not in self._sent:
            residuals = self.generator.uniform(0.1, 0.4, (self.rows_of(step), self.agreement.residual_columns))
            vector = OutgoingVector(*self._own.encrypt(step, residuals), is_whole=lambda: None).make()
            self._sent[self.attempt, step] = vector
        vector = self._sent[self.attempt, step]
        self._exchange.expects(self.name, "residuals", step, vector.header)
        self._exchange.receive(self.name, "residuals", step, vector)

    def send_products(self, step: int) -> None:
        """Forward products of some value."""
        units = self.agreement.outputs
        if (self.attempt, step) not in self._sent:
            products = self.generator.uniform(-0.5, 0.5, (self.rows_of(step), units))
            self._sent[self.attempt, step] = hidden_vector(self.name, products, np.zeros(products.shape, np.uint64))
        vector = self._sent[self.attempt, step]
        self._exchange.expects(self.name, "products", step, vector.header)
        self._exchange.receive(self.name, "products", step, vector)

    def question(self, about: Sequence[Shown], features: FloatArray | None = None) -> tuple[WireVector, Any]:
        """Make masked sums of what the victim has sent, under one key; and what reads the answer."""
        cipher = self._ciphers[about[0].vector.key_id]
        columns = self.agreement.party(self.name).feature_count
        asked = []
        for one in about:
            entries = self.generator.integers(0, 2, (len(one.values), columns)) if features is None else features
            asked.append(cipher.combine(one.step, self.victim, entries.astype(np.float64), one.vector))
        first, *others = asked
        for other in others:
            modulus = first.encrypted.public_key.n_squared
            pairs = zip(first.encrypted.ciphertexts, other.encrypted.ciphertexts, strict=True)
            added = tuple(one * another % modulus for one, another in pairs)
            first = replace(first, encrypted=replace(first.encrypted, ciphertexts=added))
        return cipher.mask(about[0].step, self.victim, first)

    def ask(self, about: Shown | Sequence[Shown], step: int, features: FloatArray | None = None) -> Told | None:
        """Ask about what was sent, under the name of a step; None where the victim refuses."""
        about = [about] if isinstance(about, Shown) else list(about)
        vector, read = self.question(about, features)
        return self.put(vector, step, read)

    def put(self, vector: WireVector, step: int, read: Callable[[DecryptedVector], FloatArray]) -> Told | None:
        """Put a question, which may have been put before; None where the victim refuses."""
        digest = hashlib.sha256(vector.data).hexdigest()
        try:
            self._exchange.expects_question(self.name, "sums", step, vector.header)
            answer = self._exchange.answer(self.name, "sums", step, vector)
        except FederationError:
            return None
        with self.changed:
            told = Told(step, self.attempt, vector.key_id, digest, read(answer), len(self.shown))
            return self.told.setdefault(digest, told)

    def acknowledge(self) -> None:
        """Keep the victim waiting no longer."""
        with self.changed:
            self.holds_back = False
            self.changed.notify_all()

    # -- both kinds ------------------------------------------------------------------------------------------------

    def wait(self, happened: Callable[[], bool]) -> bool:
        """Wait until something has happened; False where the training has ended before it."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.has_ended or happened(), SECONDS), "nothing happens"
            return happened()

    @property
    def has_ended(self) -> bool:
        """Whether the victim is in no training any more, or waits in one."""
        raise NotImplementedError

    def begin(self) -> None:
        """Align, join, show keys: training may begin."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Have the victim begin its next step: then what it sends in it is here. False at the end."""
        raise NotImplementedError

    def advance(self) -> bool:
        """Do the victim's next step with it; False where there is none, or it can't be done."""
        raise NotImplementedError

    def interrupt(self, claim: "Claim") -> bool:
        """Stop the training, and say something about one's place; whether the victim goes on."""
        raise NotImplementedError

    def leave(self) -> None:
        """Let go of the victim's threads, whose process is no more."""
        raise NotImplementedError

    def note_step(self, step: int) -> None:
        """Take a step that the victim has completed."""
        with self.changed:
            self.completed = step + 1
            self.changed.notify_all()

    def latest(self, step: int | None = None) -> Shown | None:
        """What was sent last in this try, of a step or of any."""
        of_try = [one for one in self.shown if one.attempt == self.attempt and step in (None, one.step)]
        return of_try[-1] if of_try else None


@dataclass(frozen=True)
class Claim:
    """What a peer says when the training is gone on with. Steps count from the victim's own place.

    Attributes:
        back: so many steps behind the victim, or ahead of it where negative.
        skipped: places from there of steps that are to be passed over.
        has_answered: places from the victim's of steps whose questions it says it has answered.
        still_asks: whether it says that it has its own question still.
    """

    back: int = 0
    skipped: frozenset[int] = frozenset()
    has_answered: frozenset[int] = frozenset()
    still_asks: bool = True


# What an honest party says.
HONEST = Claim()


class ActivePeer(Peer):
    """Speaks as the active party to a passive one. It runs every call itself."""

    def __init__(self) -> None:
        super().__init__(ACTIVE.name)
        self.running: Future[None] | None = None
        self.epoch = 0
        self.waits = False
        self._requests = 0

    @property
    def party(self) -> PassiveParty:
        """The victim, as it runs now."""
        return cast(PassiveParty, self.town.passive(self.victim))

    def begin(self) -> None:
        """Align, join, show keys: training may begin."""
        town, plan = self.town, self.town.settings.plan()
        self.session_id = town.sessions.open(ACTIVE, plan, 2, (self.victim,))
        data = town.data[self.name]
        ids = IdArray.of(data.ids)
        client = PsiClient(ids, alignment_context(self.session_id, self.victim), OneCore())
        client.receive_setup(self.party.set_up_alignment(ACTIVE, self.session_id, len(ids)))
        answered = self.party.align(ACTIVE, self.session_id, client.request())
        rows = rows_in_common_order(ids, client.common_rows(answered))
        client.close()
        self.party.fix_order(ACTIVE, self.session_id, [ids.take(rows)])
        terms = ProposedTerms(self.session_id, self.name, (self.victim,), plan, 2)
        joining = town.executor.submit(self.party.join, ACTIVE, self.session_id)
        self.agreement = join(town.context_of_peer(), terms, rows).agreement
        first_failure([joining])
        self._show_keys()

    def _show_keys(self) -> None:
        self.new_key()
        self.party.show_public_key(ACTIVE, self.session_id)
        self.show_key()

    def run_epoch(self) -> None:
        """Have the victim run the next epoch, on a thread of its own."""
        running = self.town.executor.submit(
            self.party.run_epoch, ACTIVE, self.session_id, self.epoch, self._on_step, self.victims_attempt
        )
        self.running = running
        running.add_done_callback(self._note_end)

    def _on_step(self, step: int, timer: StageTimer) -> None:
        self.note_step(step)

    def _note_end(self, done: Future[None]) -> None:
        with self.changed:
            if done is self.running:
                self.failure, self.running = done.exception(), None
                self.epoch += self.failure is None
            self.changed.notify_all()

    @property
    def has_ended(self) -> bool:
        return self.running is None

    def ready(self) -> bool:
        """Have the victim begin its next step: then its residuals, or its products, are here. False at the end."""
        if self.waits and not self.resume_honestly():
            return False
        if self.completed >= self.steps:
            return False
        if self.running is None:
            self.run_epoch()
        step = self.completed
        if self.agreement.plan.family.spec.forwards:
            return self.wait(lambda: step in self._forwarded_steps)
        return self.wait(lambda: self.latest(step) is not None)

    @property
    def _forwarded_steps(self) -> set[int]:
        return {step for step, _ in self.forwarded[self._forwarded_before :]}

    _forwarded_before = 0
    # Of the training, as the victim counts it.
    victims_attempt = 0

    def advance(self) -> bool:
        """Do the victim's next step with it; False where there is none, or it can't be done."""
        if self.waits and not self.resume_honestly():
            return False
        step = self.completed
        if not self.ready():
            return False
        with suppress(FederationError):
            self.send_residuals(step)
        if not self.wait(lambda: self.completed > step and (step + 1) % self.steps_per_epoch > 0):
            return self.completed > step
        # What it sends next comes by itself.
        return self.ready()

    def stop(self) -> Place:
        """Stop the training; the victim says how far it is."""
        self.acknowledge()
        place = self.party.stop_training(ACTIVE, self.session_id)
        running = self.running
        if running is not None:
            with suppress(FederationError):
                running.result(SECONDS)
        self.waits, self.running = True, None
        self.completed, self.victims_attempt = place.completed, place.attempt
        return place

    def resume(self, resumption: Resumption) -> None:
        """Have the victim go on, with new keys; raises as it refuses."""
        resumption = replace(resumption, attempt=self.victims_attempt + 1)
        self.party.resume_training(ACTIVE, self.session_id, resumption)
        self.victims_attempt = resumption.attempt
        with self.changed:
            self.attempt += 1
            self._forwarded_before = len(self.forwarded)
        self.waits, self.completed = False, resumption.step
        self.epoch = resumption.step // self.steps_per_epoch
        self._show_keys()

    def interrupt(self, claim: Claim = HONEST) -> bool:
        """Stop, and go on as claimed; whether the victim takes it."""
        answered_by = frozenset({self.name} if claim.still_asks else ())
        try:
            place = self.stop()
            step = max(place.completed - claim.back, 0)
            self.resume(Resumption(step, frozenset(step + one for one in claim.skipped), answered_by))
        except FederationError:
            return False
        return True

    def resume_honestly(self) -> bool:
        """Go on from where the victim is, with what it is bound to pass over; whether it takes that."""
        try:
            place = self.stop()
            due = frozenset(one for one in place.skipped if one >= place.completed)
            self.resume(Resumption(place.completed, due))
        except FederationError:
            return False
        return True

    def restart(self, claim: Claim = HONEST, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Kill the victim's process and start it again, from its folder, and go on as claimed; whether it does."""
        self.town.kill(self.victim)
        self.leave()
        self.running, self.waits = None, True
        meanwhile()
        self.process += 1
        self.town.start(self.victim)
        return self.interrupt(claim)

    def leave(self) -> None:
        """Wait for the victim's thread, whose process is no more."""
        if self.running is not None:
            self.running.exception(SECONDS)

    def validate(self) -> bool:
        """Have the victim score the validation records between two epochs, as it stands; whether it does."""
        if self.running is not None:
            return False  # it would answer when the epoch is over
        rows = self.agreement.plan.split(self.agreement.parties[0].aligned_rows).validation
        self._requests += 1
        try:
            self.party.contribute_scores(ACTIVE, self.session_id, self._requests, rows.tolist())
        except FederationError:
            return False
        return True

    @property
    def forms_told(self) -> int:
        """Independent forms of one record that the coordinator was sent."""
        if not self.products:
            return 0
        return int(np.linalg.matrix_rank(np.hstack(self.products), tol=1e-9))

    @property
    def forms_counted(self) -> int:
        """As many as the victim has on its disk."""
        content = self.town.states[self.victim].read(EQUATIONS)
        return 0 if content is None else max((one.most for one in spent_in(content)), default=0)
