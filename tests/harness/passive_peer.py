"""A peer that speaks as the passive party to a real active one, and may say anything."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from services.common.agreement import Agreement
from services.common.errors import FederationError, PeerVanished
from services.party.resumption import Place, Resumption
from services.passive.party import PassiveParty
from tests.harness.once import HONEST, SECONDS, Claim, Peer
from tests.harness.parties import PASSIVE


class PassivePeer(Peer):
    """Speaks as the passive party to an active one, whose job runs on a thread of its own."""

    def __init__(self) -> None:
        super().__init__(PASSIVE.name)
        self.job: Future[Any] | None = None
        self.claim = HONEST
        # Of the victim's calls: a body aligns, and is nothing more.
        self._body: PassiveParty

    # -- what the victim calls, as at any passive party -------------------------------------------------------------

    def set_up_alignment(self, caller: Any, session_id: str, client_count: int) -> Any:
        self._body = PassiveParty(self.town.context_of_peer())
        self.session_id = session_id
        return self._body.set_up_alignment(caller, session_id, client_count)

    def align(self, caller: Any, session_id: str, request: Any) -> Any:
        return self._body.align(caller, session_id, request)

    def toss(self, caller: Any, session_id: str, commitments: Any, contributions: Any) -> bytes:
        return self._body.toss(caller, session_id, commitments, contributions)

    def fix_order(self, caller: Any, session_id: str, parts: Any, roster: Any, name_key: bytes) -> None:
        self._body.fix_order(caller, session_id, parts, roster, name_key)

    def join(self, caller: Any, session_id: str) -> Agreement:
        self.agreement = self._body.join(caller, session_id)
        self.new_key()
        return self.agreement

    def show_public_key(self, caller: Any, session_id: str) -> None:
        self.show_key()

    def run_epoch(self, caller: Any, session_id: str, epoch: int, on_step: Any, attempt: int) -> None:
        end = (epoch + 1) * self.steps_per_epoch
        with self.changed:
            self._runs = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: self._is_cut or self.completed >= end or self.has_ended, SECONDS)
            self._runs = False
            if self._is_cut:
                raise PeerVanished(f"{self.name} does not answer: its process has ended.")

    _runs = False

    def stop_training(self, caller: Any, session_id: str) -> Place:
        claim, others = self.claim, frozenset({self.victim})
        step = self.completed - claim.back
        answered = {self.completed + one: others for one in claim.has_answered}
        skipped = frozenset(step + one for one in claim.skipped)
        return Place(max(step, 0), answered, others if claim.still_asks else frozenset(), skipped, self.attempt)

    def resume_training(self, caller: Any, session_id: str, resumption: Resumption) -> None:
        with self.changed:
            self._is_cut = False
            self.attempt += 1
            self.completed = resumption.step
        self.new_key()

    def finish_training(self, caller: Any, session_id: str, kept_epoch: int) -> None: ...

    def contribute_scores(self, *arguments: Any) -> bytes:
        raise PeerVanished(f"{self.name} does not answer.")

    def end_session(self, caller: Any, session_id: str, reason: str) -> None:
        with self.changed:
            self.changed.notify_all()

    # -- what a test has it do -------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Have the victim's job begin: it trains when this returns."""
        self._work(lambda: self.town.active.train(self.town.settings.plan(), Silent()))
        assert self.wait(lambda: self._runs), self.job and self.job.exception()

    def _work(self, work: Callable[[], Any]) -> None:
        self.job = job = self.town.executor.submit(work)
        job.add_done_callback(self._note_end)

    def _note_end(self, done: Future[Any]) -> None:
        with self.changed:
            if done is self.job:
                self.failure = done.exception()
            self.changed.notify_all()

    @property
    def has_ended(self) -> bool:
        return self.job is None or self.job.done()

    def ready(self) -> bool:
        """Have the victim begin its next step, and send what it sends in it; False at the end."""
        step = self.completed
        if step >= self.steps or not self.wait(lambda: self._runs or self.latest(step) is not None):
            return False
        if self.agreement.plan.family.spec.forwards:
            with suppress(FederationError):
                self.send_products(step)
        return self.wait(lambda: self.latest(step) is not None or self.completed > step)

    def advance(self) -> bool:
        """Do the victim's next step with it; False where there is none, or it can't be done."""
        step = self.completed
        if step >= self.steps - 1 or not self.ready():
            return False
        shown = self.latest(step)
        with suppress(FederationError):
            if not self.agreement.plan.family.spec.forwards:
                self.send_residuals(step)
            elif shown is not None:
                self.ask(shown, step)
        return self.wait(lambda: self.completed > step) and self._settles()

    def _settles(self) -> bool:
        """Wait for what the victim sends next by itself."""
        forwards = self.agreement.plan.family.spec.forwards
        return forwards or self.wait(lambda: self.latest(self.completed) is not None)

    def interrupt(self, claim: Claim = HONEST) -> bool:
        """Cut the line, and say something about one's place; whether the victim goes on."""
        if self.has_ended:
            return False
        before = self.attempt
        with self.changed:
            self.claim, self._is_cut = claim, True
            self.changed.notify_all()
        return self.wait(lambda: self.attempt > before and self._runs) and self._settles()

    def leave(self) -> None:
        """Let go of the victim's job, whose process is no more."""
        with self.changed:
            self._is_cut = True
            self.changed.notify_all()
        if self.job is not None:
            self.job.exception(SECONDS)

    def restart(self, claim: Claim = HONEST, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Kill the victim's process and start it again, from its folder; whether it goes on."""
        self.town.kill(self.victim)
        self.claim = claim
        self.leave()
        meanwhile()
        self.process += 1
        self.town.start(self.victim)
        if not self.town.active.is_interrupted:
            return False
        before = self.attempt
        self._work(self.town.active.go_on)
        return self.wait(lambda: self.attempt > before and self._runs) and self._settles()


class Silent:
    def stage(self, name: str) -> None: ...

    def step(self, done: int, planned: int, what: str = "") -> None: ...

    def epoch(self, outcome: Any) -> None: ...
