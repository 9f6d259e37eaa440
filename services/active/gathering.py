"""How the parties of an interrupted training find each other again, and agree where all can go on."""

import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass

from services.active.interfaces import PassiveParty
from services.active.scoring import first_failure
from services.common.errors import FederationError, OutOfOrder, PeerRefused, PeerVanished, is_interruption, told
from services.common.identity import Role
from services.party.context import PartyContext
from services.party.ending import Ending
from services.party.party_training import PartyTraining
from services.party.resumption import Place, Resumption, resumptions

# Between two looks whether all parties of an interrupted training are back.
_LOOKS_SECONDS = 0.5
# Who hasn't answered a look by then is named as one that is waited for.
_ANSWERS_SECONDS = 2.0


@dataclass(frozen=True)
class Waiting:
    """Whom an interrupted training waits for.

    Attributes:
        names: of the parties that are away.
        since: when it was interrupted, in seconds of the wall's clock.
    """

    names: tuple[str, ...]
    since: float


class Gathering:
    """Gathers a job's parties after each interruption.

    Attributes:
        waiting: whom the training waits for; None while it doesn't wait.
    """

    def __init__(self, context: PartyContext, passive_parties: Mapping[str, PassiveParty], ending: Ending) -> None:
        """Wait for nobody yet; ``ending`` is the job's."""
        self.waiting: Waiting | None = None
        self._context, self._passive_parties, self._ending = context, passive_parties, ending
        # Who was away in the interruption at work, the first of them.
        self._was_absent: list[str] = []

    def await_all(self, training: PartyTraining, since: float) -> Resumption:
        """Wait until every party is there, and agree with all where to go on; this party stands there by then.

        Args:
            training: this party's.
            since: when it was interrupted, in seconds of the wall's clock.

        Raises:
            PeerVanished: where one is away for longer than the owner allows, in all interruptions.
            OutOfOrder: where one can't go on.
        """
        within = self._context.settings.resume_within
        while True:
            self._ending.check()
            try:
                resumption = self._agree_on_place(training, since)
            except FederationError as error:
                if not is_interruption(error):
                    raise
                if training.back.log.waited + time.time() - since > within:
                    raise PeerVanished(f"{told(error)} Waited for {within:g} s (PLUMBLINE_RESUME_WITHIN).") from error
                time.sleep(_LOOKS_SECONDS)
            else:
                return resumption

    def _agree_on_place(self, training: PartyTraining, since: float) -> Resumption:
        session_id, executor = training.agreement.session_id, self._context.executor
        calls: dict[str, Future[object]] = {
            name: executor.submit(party.stop_training, session_id) for name, party in self._passive_parties.items()
        }
        calls[str(Role.COORDINATOR)] = executor.submit(self._context.coordinator.session_terms, session_id)
        done_calls, _ = wait(calls.values(), _ANSWERS_SECONDS)
        absent = [name for name, call in calls.items() if call not in done_calls or call.exception()]
        self.waiting = Waiting(tuple(absent), since)
        self._was_absent = (absent or self._was_absent)[:1]
        places: dict[str, Place] = {self._context.name: training.place()}
        away: dict[str, FederationError] = {}
        for name, call in calls.items():
            try:
                place = self._ending.for_future(call)
                if isinstance(place, Place):
                    places[name] = place
            except FederationError as error:
                self._ending.check()
                if not is_interruption(error):
                    # It has forgotten the session, or ended it.
                    reason = error.words if isinstance(error, PeerRefused) else told(error)
                    raise OutOfOrder(f"{name} can't go on with this training: {reason}") from error
                away[name] = error
        if away:
            raise next(iter(away.values()))
        agreed = resumptions(places)
        own_resumption = agreed[self._context.name]
        behind = [name for name, place in places.items() if place.completed < places[self._context.name].completed]
        (by,) = (behind or self._was_absent or [self._context.name])[:1]
        # First: where this party has had enough of it, nobody else goes back.
        training.back.check_often(by)
        first_failure(
            [
                executor.submit(party.resume_training, session_id, agreed[name])
                for name, party in self._passive_parties.items()
            ]
        )
        training.resume(own_resumption, by, waited=time.time() - since)
        self._was_absent = []
        return own_resumption
