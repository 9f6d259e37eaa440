"""What a party keeps of a training at work, so that it can go on after an interruption. Knows no network.

    training.npz    once    the terms, the order of records, the key of pseudonyms
    steps.sqlite3   often   weights of the last two steps, or this party's shares of them, and what a learner carries
                            beside them; answers, steps passed over, how often the training was interrupted; what else a
                            protocol has noted of these steps
    message_*.bytes         a message of each of them that is too large for that
    epochs.npz      with early stopping, each epoch's part of the model
    losses.json     the active party's: what each epoch came to

No mask is kept, and no key but one that must serve again (trees). An answer is here before it is given, and a step's
weights before the next step begins. Answers are kept for the steps that may be done again. Those before are closed for
good: closed steps only become more, whatever a peer says of how far it is.
"""

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from services.common.agreement import Agreement
from services.common.errors import OutOfOrder
from services.common.ledger_marks import LedgerMark
from services.common.run_records import content_of
from services.common.state_folder import State, StateError, StateInMemory, broken, reading
from services.exchange.answers import Answered
from services.exchange.vectors import DecryptedVector, VectorHeader
from services.party.resumption import Place, Resumption
from services.party.step_notes import StepNotes
from vfl.arrays import BROKEN_ARRAYS, FloatArray, IntArray, pack_arrays, unpack_arrays
from vfl.crypto.sharing.shares import Shares, as_bytes, of_bytes

TRAINING, STEPS, EPOCHS, OUTCOMES = "training.npz", "steps.sqlite3", "epochs.npz", "losses.json"
# The last is what an earlier version wrote of steps.
OF_A_TRAINING = (TRAINING, STEPS, EPOCHS, OUTCOMES, "message_even.bytes", "message_odd.bytes", "steps.npz")
_WHAT = "{} of this party's state"
REMEDY = "give this training up with `plumbline state clear`, and train again"
# Grows when one of these files changes its meaning.
_VERSION = 4

T = TypeVar("T")

Arrays = Mapping[str, NDArray[Any]]
# Where weights are shared, a party's shares of them.
Weights: TypeAlias = FloatArray | Shares


@dataclass(frozen=True, eq=False)
class KeptTerms:
    """What doesn't change while a training lasts.

    Attributes:
        agreement: the session's terms.
        party: whose training it is.
        order: (aligned rows,) the party's own row numbers in the common order.
        table: hash of the party's table.
        features: hash of what it trains on.
    """

    agreement: Agreement
    party: str
    order: IntArray
    table: str
    features: str


class TrainingLog:
    """Where one training is, in memory and, where the party keeps state, on disk. Thread-safe.

    Attributes:
        token_key: the key of pseudonyms of records.
        completed: steps that are completed.
        skipped: all steps that were passed over, or are going to be.
        closed: so many steps, from the first, are never answered any more.
        attempt: the try that the training is in; 0 before any interruption.
        generation: how often what must not be undone was written: rights that were spent, and interruptions.
        interruptions: how often it has gone on after one, by the party that had it go back.
        waited: seconds that it has waited for others, in all.
        largest_norm: of the weights so far.
        redone: how often this party has begun a step again, where weights are shared.
        left_range: whether numbers on shares came near what the fixed point holds, as far as this party sees.
        notes: what the protocol notes of steps that may be done again.
    """

    def __init__(self, state: State | None = None) -> None:
        """Begin with no step; ``state`` is None where the training can't be interrupted."""
        self.token_key = secrets.token_bytes(32)
        self.completed = 0
        self.skipped: tuple[int, ...] = ()
        self.closed = 0
        self.attempt = 0
        self.generation = 1
        self.interruptions: Mapping[str, int] = {}
        self.waited = 0.0
        self.largest_norm = 0.0
        self.redone = 0
        self.left_range = False
        self.notes = StepNotes()
        self._state = state
        self._session_id = ""
        self._lock = threading.Lock()
        self._weights: dict[int, Weights] = {}
        self._carried: dict[int, Mapping[str, Any]] = {}
        self._answers: dict[tuple[str, int], Answered] = {}
        self.parts: dict[int, Arrays] = {}
        self.has_begun = False

    @property
    def is_kept(self) -> bool:
        """Whether the training may be interrupted and go on."""
        return self._state is not None

    def begin(self, terms: KeptTerms) -> None:
        """Keep a training that is about to begin, in place of any other. Raises StateNotKept."""
        self._session_id = terms.agreement.session_id
        if self._on_disk is None:
            return
        forget(self._on_disk)
        self._write_steps()
        facts = {
            "version": _VERSION,
            "party": terms.party,
            "agreement": content_of(terms.agreement),
            "table": terms.table,
            "features": terms.features,
        }
        token_key = np.frombuffer(self.token_key, dtype=np.uint8)
        # Last: with it there is a training to go on with.
        self._on_disk.write(TRAINING, pack_arrays(facts, {"order": terms.order, "token_key": token_key}))

    def start(self, weights: Weights, carried: Mapping[str, Any] | None = None) -> None:
        """Note the weights before the first step, and what the learner carries beside them."""
        self._weights[0], self._carried[0] = weights, carried or {}

    def weights(self, completed: int) -> Any:
        """Find the weights after so many steps, of the last two: an array, or shares."""
        return self._weights[completed]

    def carried(self, completed: int) -> Mapping[str, Any]:
        """Find what the learner carried beside these weights: arrays, or shares."""
        return self._carried[completed]

    @property
    def steps_kept(self) -> tuple[int, ...]:
        """After how many steps there are weights to go on from, in order."""
        return tuple(sorted(self._weights))

    def go_on(self, resumption: Resumption, *, by: str, waited: float, anew: bool) -> None:
        """Keep where all parties have agreed to go on, before any does. What is refused changes nothing.

        Args:
            resumption: that.
            by: the party that has this one go back.
            waited: seconds that this party has waited for it.
            anew: whether to forget the weights behind the step: shares of another try don't add up with them.

        Raises:
            StateNotKept: where it can't be written.
        """
        with self._lock:
            before = dict(vars(self))
            self.generation += 1
            self.attempt, self.waited = resumption.attempt, self.waited + waited
            self.interruptions = {**self.interruptions, by: self.interruptions.get(by, 0) + 1}
            self.skipped += tuple(step for step in sorted(resumption.skipped) if step not in self.skipped)
            self.closed = max(self.closed, resumption.step)
            if anew:
                self.redone, self.completed = self.redone_from(resumption.step), resumption.step
                self._weights = {at: weights for at, weights in self._weights.items() if at <= resumption.step}
                self._carried = {at: carried for at, carried in self._carried.items() if at <= resumption.step}
            try:
                self._write_steps()
            except BaseException:
                vars(self).update(before)
                raise

    def redone_from(self, step: int) -> int:
        """Count how often a step would have been begun again, in all, if shares went back to this one."""
        return self.redone + self.completed + 1 - step

    def complete(
        self, step: int, weights: Weights, carried: Mapping[str, Any] | None = None, *, is_skipped: bool = False
    ) -> None:
        """Keep what is to go on from after a step, before the next one begins. Raises StateNotKept."""
        with self._lock:
            if step + 1 == self.completed and not is_skipped:
                return  # it was completed before the training was interrupted
            self.completed = step + 1
            self._weights = {**_at(step, self._weights), step + 1: weights}
            self._carried = {**_at(step, self._carried), step + 1: carried or {}}
            self.closed = max(self.closed, step)
            self._answers = {at: answered for at, answered in self._answers.items() if at[1] >= self.closed}
            self.notes.forget_before(step)
            self._write_steps()

    def answered(self, peer: str, step: int) -> Answered | None:
        """Find what a peer was answered in a step; None for nothing."""
        with self._lock:
            return self._answers.get((peer, step))

    def owes(self, peer: str, step: int) -> bool:
        """Tell whether a peer has a right to an answer in a step, and so to what this party really sends in it."""
        with self._lock:
            return self._owes(peer, step)

    def _owes(self, peer: str, step: int) -> bool:
        return step >= self.closed and step not in self.skipped and (peer, step) not in self._answers

    def check_right(self, peer: str, step: int) -> None:
        """Raise OutOfOrder where a peer that wasn't answered in a step has no right to it any more."""
        with self._lock:
            self._check_right(peer, step)

    def _check_right(self, peer: str, step: int) -> None:
        if not self._owes(peer, step):
            raise OutOfOrder(
                f"{peer} has no right to an answer in step {step}: it was passed over, or done before an interruption, "
                "and a step is answered once."
            )

    def spend(self, peer: str, step: int, answered: Answered) -> None:
        """Keep an answer before it is given, and with it that the peer's right is spent.

        Raises:
            OutOfOrder: where it has none.
            StateNotKept: where it can't be written. In both cases it must not be given.
        """
        with self._lock:
            self._check_right(peer, step)
            self._answers[peer, step] = answered
            self.generation += 1
            try:
                self._write_steps()
            except BaseException:
                self.generation -= 1
                del self._answers[peer, step]
                raise

    def keep_notes(self) -> None:
        """Keep what was noted, before anything is said that follows from it. Raises StateNotKept."""
        with self._lock:
            self.generation += 1
            try:
                self._write_steps()
            except BaseException:
                self.generation -= 1
                raise

    def keep_message(self, step: int, content: bytes) -> None:
        """Keep a large message of a step, in place of that of two steps before. Raises StateNotKept."""
        if self._state is not None:
            self._state.write(_message_of(step), step.to_bytes(8) + self._session_id.encode() + content)

    def kept_message(self, step: int) -> bytes | None:
        """Find the message of a step that was kept; None for none."""
        start = step.to_bytes(8) + self._session_id.encode()
        content = None if self._state is None else self._state.read(_message_of(step))
        return content[len(start) :] if content is not None and content.startswith(start) else None

    @property
    def mark(self) -> LedgerMark | None:
        """How far it is, for who notices that an older copy was put back; None where nothing is on disk."""
        with self._lock:
            if self._on_disk is None:
                return None
            return LedgerMark(self._session_id, self.generation, self.attempt, self.completed)

    def keep_part(self, epoch: int, arrays: Arrays) -> None:
        """Keep the part of the model after an epoch that may be gone back to. Raises StateNotKept."""
        with self._lock:
            self.parts[epoch] = arrays
            if self._on_disk is not None:
                named = {f"{at}_{name}": array for at, part in self.parts.items() for name, array in part.items()}
                self._on_disk.write(EPOCHS, pack_arrays({"session": self._session_id}, named))

    def place(self, asked_peers: frozenset[str]) -> Place:
        """Tell how far this is, and whom the party has asked in the next step."""
        with self._lock:
            answered_peers: dict[int, frozenset[str]] = {}
            for peer, step in self._answers:
                answered_peers[step] = answered_peers.get(step, frozenset()) | {peer}
            recent = frozenset(step for step in self.skipped if step >= self.completed - 1)
            return Place(self.completed, answered_peers, asked_peers, recent, self.attempt)

    def forget(self) -> None:
        """Keep nothing from here on: the training is over, or can't go on. Raises StateNotKept."""
        with self._lock:
            self._weights.clear()
            self._carried.clear()
            self.notes.forget()
            state, self._state = self._state, None
            # Under the lock: a step that is still at work must not write its weights behind it.
            if state is not None:
                forget(state)

    @property
    def _on_disk(self) -> State | None:
        return None if isinstance(self._state, StateInMemory) else self._state

    def _write_steps(self) -> None:
        if self._on_disk is None:
            return
        answers = list(self._answers.items())
        facts = {
            "session": self._session_id,
            "completed": self.completed,
            "skipped": self.skipped,
            "closed": self.closed,
            "attempt": self.attempt,
            "generation": self.generation,
            "interruptions": self.interruptions,
            "waited": self.waited,
            "largest_norm": self.largest_norm,
            "redone": self.redone,
            "left_range": self.left_range,
            "answers": [
                {
                    "peer": peer,
                    "step": step,
                    "header": vars(one.header),
                    "digest": one.digest,
                    "count": one.answer.count,
                    "width": one.answer.width,
                }
                for (peer, step), one in answers
            ],
        }
        values: dict[str, Any] = {f"weights_{at}": weights for at, weights in self._weights.items()}
        values |= {f"carried_{at}_{name}": one for at, named in self._carried.items() for name, one in named.items()}
        facts["fraction_bits"] = {name: one.fraction_bits for name, one in values.items() if isinstance(one, Shares)}
        facts["notes"], notes = self.notes.written()
        arrays = {name: as_bytes(one.integers) if isinstance(one, Shares) else one for name, one in values.items()}
        arrays |= notes
        for index, (_, answer) in enumerate(answers):
            arrays[f"answer_{index}"] = np.frombuffer(answer.answer.data, dtype=np.uint8)
        self._on_disk.write(STEPS, pack_arrays(facts, arrays))

    def _read(self, session_id: str, token_key: bytes, steps: bytes, epochs: bytes | None) -> None:
        """Take up what ``begin`` and the rest wrote of a session."""
        self._session_id, self.token_key, self.has_begun = session_id, token_key, True
        facts, arrays = _unpacked(STEPS, steps)
        self._check_session(STEPS, facts)
        with reading(_WHAT.format(STEPS), KeyError, ValueError, TypeError):
            self.completed, self.skipped = int(facts["completed"]), tuple(map(int, facts["skipped"]))
            self.closed, self.attempt = int(facts["closed"]), int(facts["attempt"])
            self.generation = int(facts["generation"])
            self.interruptions, self.waited = dict(facts["interruptions"]), float(facts["waited"])
            self.largest_norm, self.left_range = float(facts["largest_norm"]), bool(facts["left_range"])
            self.redone = int(facts["redone"])
            values: dict[str, Any] = dict(arrays)
            for name, bits in facts["fraction_bits"].items():
                values[name] = Shares(of_bytes(arrays[name]), int(bits))
            self._weights = _by_number("weights", values)
            self._carried = {at: _named(f"carried_{at}_", values) for at in self._weights}
            for index, entry in enumerate(facts["answers"]):
                answer = DecryptedVector(entry["count"], entry["width"], arrays[f"answer_{index}"].tobytes())
                kept_answer = Answered(VectorHeader(**entry["header"]), entry["digest"], answer)
                self._answers[entry["peer"], int(entry["step"])] = kept_answer
            self.notes.read(facts.get("notes", ()), arrays)
            self._weights[self.completed]
        if epochs is not None:
            facts, arrays = _unpacked(EPOCHS, epochs)
            self._check_session(EPOCHS, facts)
            parts: dict[int, dict[str, NDArray[Any]]] = {}
            for key, array in arrays.items():
                epoch, _, name = key.partition("_")
                parts.setdefault(int(epoch), {})[name] = array
            self.parts = dict(parts)

    def _check_session(self, file: str, facts: Mapping[str, Any]) -> None:
        if facts.get("session") != self._session_id:
            raise broken(_WHAT.format(f"{file}, which is of another session than {TRAINING},"))


@dataclass(frozen=True, eq=False)
class KeptTraining:
    """A training that a process before this one was at work in.

    Attributes:
        terms: what doesn't change.
        log: where it is.
    """

    terms: KeptTerms
    log: TrainingLog


def kept_training(state: State, party: str) -> KeptTraining | None:
    """Read the training that a party's state holds; None where there is none.

    Raises:
        StateError: for files that are broken, cut off, of another party or session, or of another version.
    """
    if (content := state.read(TRAINING)) is None:
        return None
    facts, arrays = _unpacked(TRAINING, content)
    if facts.get("version") != _VERSION:
        raise StateError(
            f"{TRAINING} of this party's state is of version {facts.get('version')!r}, and this version of Plumbline "
            f"reads {_VERSION}: start the version that wrote it, or forget it with `plumbline state clear`."
        )
    if facts.get("party") != party:
        raise StateError(
            f"{TRAINING} of this party's state is {facts.get('party')}'s, and this is {party}: put the folder back "
            "from a copy, or forget it with `plumbline state clear`."
        )
    with reading(_WHAT.format(TRAINING), KeyError, ValueError, ValidationError):
        agreement = TypeAdapter(Agreement).validate_python(facts["agreement"])
        order, token_key = arrays["order"].astype(np.int64), arrays["token_key"].tobytes()
        terms = KeptTerms(agreement, party, order, facts["table"], facts["features"])
    if (steps := state.read(STEPS)) is None:
        raise broken(_WHAT.format(f"{STEPS}, which isn't there beside {TRAINING},"))
    log = TrainingLog(state)
    log._read(agreement.session_id, token_key, steps, state.read(EPOCHS))
    return KeptTraining(terms, log)


def forget(state: State) -> None:
    """Forget a kept training, if any. Raises StateNotKept."""
    # In this order: without the first there is nothing to go on with.
    for name in OF_A_TRAINING:
        state.remove(name)


def _message_of(step: int) -> str:
    return "message_odd.bytes" if step % 2 else "message_even.bytes"


def _unpacked(name: str, content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    with reading(_WHAT.format(name), *BROKEN_ARRAYS):
        return unpack_arrays(content)


def _at(step: int, by_step: Mapping[int, T]) -> dict[int, T]:
    return {at: one for at, one in by_step.items() if at == step}


def _named(start: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(start): one for key, one in values.items() if key.startswith(start)}


def _by_number(what: str, values: Mapping[str, Any]) -> dict[int, Any]:
    return {int(at): one for at, one in _named(f"{what}_", values).items()}
