"""What both sides on shared weights have in common: how a step sends, and how training ends by what it has kept."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from services.common.learner_calls import LearnerCalls
from services.common.meters import StageTimer
from services.exchange.vectors import PublicKeyShown
from services.party.training_means import TrainingMeans
from services.party.turned_columns import Turn
from services.protocols.shared.opening import validates_on_shares
from services.protocols.shared.share_mailbox import Outgoing
from services.protocols.shared.shared_serving import SharedPart
from services.protocols.shared.shared_terms import SharedTerms
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import PrivateKey, keygen
from vfl.crypto.keys import MINIMUM_SECURE_BITS
from vfl.crypto.sharing.shares import Shares
from vfl.learning import BatchSchedule, BlockSchedule, Half, Part
from vfl.learning.learner import Request


class SideOnShares(ABC):
    """A side whose weights are shares: training ends after its last epoch, or after one that is chosen by losses.

    Attributes:
        exchange: the party's messages, a ``ShareMailbox``.
        schedule: the public order of batches.
        half: the party's half of the learner; its weights are shares of its own and of others'.
        turn: how the party's columns are turned.
        has_ended: whether weights are opened, or frozen as they are shared. Then nothing is left of shares before.
        validated_loss: of the epoch that was validated last, at the label party; None where scores tell it.
    """

    exchange: Any
    schedule: BatchSchedule | BlockSchedule
    half: Half
    goes_back_anew = True
    sent_step: float | None = None

    def __init__(self, terms: SharedTerms, name: str, features: FloatArray, means: TrainingMeans, turn: Turn) -> None:
        agreement = terms.agreement
        self._agreement, self._calls = agreement, LearnerCalls(agreement.plan.family, means.timeout)
        self._terms, self._name, self._means, self.turn = terms, name, means, turn
        # What the party encrypts in place of its features; None for an honest one.
        self._others = means.others(features)
        self._is_label_party = name == agreement.active.name
        self.left_range = False
        self.has_ended, self.validated_loss = False, None if not validates_on_shares(agreement) else math.nan
        self._frozen: SharedPart | None = None
        # What to go back to after every epoch that may be kept, until one is.
        self._states: dict[int, Any] = {}

    @abstractmethod
    def begin_step(self, step: int, batch: IntArray) -> "StepOnShares":
        """Begin a step, from 0, on a batch of the schedule."""

    @abstractmethod
    def validate(self, step: int) -> float | None:
        """After so many steps, the loss of validation rows at the label party; None elsewhere."""

    @abstractmethod
    def finish(self) -> SharedPart | None:
        """End training: the half has its weights from here on, or the part is served as it is shared."""

    @contextmanager
    def step(self, step: int, batch: IntArray) -> Iterator["StepOnShares"]:
        """Begin a step, of which nothing is on its way when it fails: a peer could take it for the step's next try."""
        answers = self.begin_step(step, batch)
        try:
            yield answers
        except BaseException:
            for call in answers.sending:
                call.cancel()
            wait(answers.sending)
            raise

    def complete_step(self, step: int) -> None:
        """Let peers go on behind a step."""
        self.exchange.complete_step(step)

    def asked(self) -> frozenset[str]:
        """Name nobody: nothing is asked that is answered once."""
        return frozenset()

    @property
    def weights(self) -> Shares:
        """This party's shares as they stand: what to go on from."""
        return self.checked(self.half.weights)

    @property
    def state(self) -> Any:
        """What to go back to after an epoch that was validated: the shares."""
        return self.weights

    def restore(self, state: Any) -> None:
        """Go back to what ``state`` was."""
        self._calls.set_weights(self.half, state)

    def checked(self, values: Any) -> Shares:
        """Check a learner's weights or values: what it has made of shares."""
        if not isinstance(values, Shares):
            raise self._calls.refused("turns shares into something else")
        return values

    def sent(self, values: Any) -> Any:
        """Give what the learner has sent before it asks for sums; raises LearnerFailed for nothing."""
        if values is None:
            raise self._calls.refused("asks for sums before it has sent anything")
        return values

    def own(self, shares: Shares) -> Shares:
        """Find the shares of this party's own columns."""
        return shares[self._terms.places(self._name)[self._name]]

    def tell_tape(self, step: int, own_sums: Shares) -> None:
        """Tell who listens what a step leaves this party with of its own sums."""
        if self._means.tape is not None:
            self._means.tape.kept(step, self._terms.of_half_a_ring(own_sums))

    def sending(self, messages: Iterable[Outgoing]) -> list[Future[None]]:
        """Send messages, each to its receiver."""
        peers, session_id = self._means.peers, self._agreement.session_id
        return [
            self._means.executor.submit(peers[one.receiver].send, session_id, one.kind, one.step, one.vector)
            for one in messages
        ]

    def show_key(self, key: PublicKeyShown, receivers: Iterable[str]) -> None:
        """Show a key to these peers, to all at once."""
        peers, session_id = self._means.peers, self._agreement.session_id
        all_done([self._means.executor.submit(peers[one].show_key, session_id, key) for one in receivers])

    def serve(self, weights: Shares, owners: Iterable[str]) -> tuple[PrivateKey, list[Future[None]]]:
        """Send owners what this party holds of their weights, under a key that is made for it."""
        key = made_key(self._agreement.plan.key_bits)
        self.show_key(self.exchange.serving_key(key), owners)
        return key, self.sending(self.exchange.freeze(weights, key))

    # -- the end ---------------------------------------------------------------------------------------------------

    def must_end(self, step: int) -> bool:
        """Tell whether all steps are taken: weights are about to be opened, and nobody goes back from there."""
        return step >= self.schedule.steps_per_epoch * self._agreement.plan.epochs

    def end_epoch(self, epoch: int) -> None:
        """Validate it, or end training after the last one; where epochs are validated, one is chosen first."""
        if self.validated_loss is None:
            if epoch == self._agreement.plan.epochs - 1:
                self._end()
        elif self._agreement.validates(epoch):
            loss = self.validate((epoch + 1) * self.schedule.steps_per_epoch)
            self.validated_loss = math.nan if loss is None else loss
            self._states[epoch] = self.state

    def keep(self, epoch: int) -> None:
        """Go back to the shares after an epoch, and end training by them; those of others are forgotten."""
        if not self.has_ended:
            self.restore(self._states[epoch])
            self._end()
            self._states.clear()

    def _end(self) -> None:
        self._frozen = self.finish()
        self.has_ended = True

    @property
    def part(self) -> Part | None:
        """The part as it stands. Of shares no learner makes one: there is one when they are opened, or frozen."""
        if self._frozen is not None:
            return self._frozen
        return None if isinstance(self.half.weights, Shares) else self._calls.part(self.half.part)


class StepOnShares:
    """The answers of one step.

    Attributes:
        rows: of the common order.
        timer: where the step's time goes.
        sending: what is on its way.
    """

    is_passed_over = False

    def __init__(self, rows: IntArray) -> None:
        self.rows, self.timer, self.sending = rows, StageTimer(), list[Future[None]]()

    def answer(self, request: Request) -> Any:
        """Answer a request of the learner's."""
        raise NotImplementedError

    def pass_over(self) -> None:
        """Pass over no step: all that goes back to it does it again."""

    def finish(self) -> None:
        """Wait for what is on its way."""
        with self.timer.stage("wait"):
            all_done(self.sending)


def made_key(bits: int) -> PrivateKey:
    """Make a new key pair. That a plan has so short keys was consented to."""
    return keygen(bits, insecure=bits < MINIMUM_SECURE_BITS)[1]


def all_done(sending: Iterable[Future[None]]) -> None:
    """Wait for what is on its way, and raise what has gone wrong."""
    for sent in sending:
        sent.result()
