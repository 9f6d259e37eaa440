"""Which model answers at the active party, and how another takes its place at every party. Opens no connection.

    1  each passive party     FinishTraining   keeps the new model on disk; both answer, each for its own session
    2  the active party       (test)           keeps its own part on disk: from here on the switch goes forward only
    3  the coordinator        ServeModel       serves the new one and forgets the one before
    4  each passive party     ServeModel       the same
    5  the active party                        the same, by one rename, and answers with the new one

Who dies before 2 leaves the old model with all. Who dies between 2 and 5 finds its new part on disk, and the switch
goes on as soon as all are there: before the next prediction, which would need all of them in any case. So nobody is
ever asked for a model that another has forgotten, and there is never none.

The coordinator comes first: any party may have ended the session there until it is served. Where it refuses, nobody
has switched, so the new model is dropped by all, and the old one goes on answering.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TypeAlias

from services.active.coalescing import SharedCall
from services.active.interfaces import PassiveParty
from services.active.scoring import first_failure
from services.adversary.knowledge import Knowledge
from services.common.errors import FederationError, OutOfOrder, PeerVanished, log_failure, log_unexpected, told
from services.common.identity import Role
from services.party.context import Coordinator, PartyContext
from services.party.model_file import KeptModel
from services.party.party_model import PartyModel
from services.party.served_models import ServedModels
from vfl.data.id_array import IdArray, IdIndex


@dataclass(frozen=True)
class TrainedModel:
    """What the active party predicts with: its part of a session that has come to its end.

    Attributes:
        kept: its own part, as it is kept.
        row_of_id: finds the rows of aligned records in the common order by their ids.
        knowledge: what it knows besides, for attacks; None where none is mounted, or not yet asked for.
    """

    kept: KeptModel
    row_of_id: IdIndex
    knowledge: Knowledge | None = None

    @classmethod
    def of(cls, kept_model: KeptModel, ids: Sequence[str]) -> "TrainedModel":
        """Make a model with the records of this party's own table, whose ids these are."""
        return cls(kept_model, IdIndex(IdArray.of(ids).take(kept_model.order)))

    def knowing(self, knowledge: Knowledge) -> "TrainedModel":
        """Take the same, for attacks that know this besides."""
        return replace(self, knowledge=knowledge)

    @property
    def session_id(self) -> str:
        """The session that it is from."""
        return self.kept.session_id

    @property
    def model(self) -> PartyModel:
        """The weights of this party, and its features in the common order."""
        return self.kept.model


_log = logging.getLogger(__name__)

# Another party as far as it serves a model.
_Server: TypeAlias = Coordinator | PassiveParty
# A switch has two rounds of calls, each with the step's timeout, and short questions besides.
_ROUNDS, _MARGIN = 2, 10.0


@dataclass
class _Switch:
    """A model on its way to be served.

    Attributes:
        model: not yet with all.
        has_begun: whether another party may serve it already, and have forgotten the one before.
    """

    model: TrainedModel
    has_begun: bool

    @property
    def session_id(self) -> str:
        return self.model.session_id


class Serving:
    """Holds the model that answers, and completes a switch that has begun. Thread-safe.

    However many ask, one of them talks to the others, and nobody waits for another's lock while it does.
    """

    def __init__(
        self, models: ServedModels, context: PartyContext, passive_parties: Mapping[str, PassiveParty]
    ) -> None:
        """Take up the models that this party keeps."""
        self._models = models
        self._coordinator: _Server = context.coordinator
        self._passive: dict[str, _Server] = dict(passive_parties)
        self._others: dict[str, _Server] = {str(Role.COORDINATOR): self._coordinator, **self._passive}
        self._executor = context.executor
        # Who asks for the status takes no thread of a job.
        self._asking = ThreadPoolExecutor(len(self._others), thread_name_prefix="status")
        # For the two below, which change together with what is on disk. Never held while another party is asked.
        self._lock = threading.Lock()
        served, pending = models.served, models.candidate
        self._served = None if served is None else TrainedModel.of(served, context.data.ids)
        self._pending = None if pending is None else _Switch(TrainedModel.of(pending, context.data.ids), True)
        self._patience = _ROUNDS * context.settings.step_timeout + _MARGIN
        self._completing = SharedCall(self._complete_pending, patience=self._patience)
        self._probe = SharedCall(self._found_obstacle, patience=self._patience)

    @property
    def newest(self) -> TrainedModel | None:
        """The model that answers, or is about to; asks nobody."""
        pending = self._pending
        return pending.model if pending else self._served

    def current(self) -> TrainedModel | None:
        """Find the model that answers now. A switch that has begun is completed first.

        Raises:
            FederationError: when that can't be done, which names who is missing.
        """
        if (switch := self._pending) is not None:
            try:
                self._completing()
            except FederationError:
                # Given up: the one before goes on answering.
                if self._pending is switch or self._served is None:
                    raise
        return self._served

    def switch_to(self, model: TrainedModel) -> None:
        """Have every party answer with this model from now on. Where one is missing, as soon as it is back.

        Raises:
            StateNotKept: when this party can't keep it. Nobody has switched.
            FederationError: when the coordinator refuses it. The model before goes on answering.
        """
        switch = _Switch(model, has_begun=False)
        with self._lock:
            self._models.keep_candidate(model.kept)
            self._pending = switch
        # What is under way is another model's.
        self._completing.forget()
        try:
            self._completing()
        except Exception as error:
            if self._pending is None and self._serves(switch):
                # A prediction has completed it meanwhile.
                return
            if self._pending is not switch:
                raise
            if not isinstance(error, FederationError):
                log_unexpected(error)
            _log.error("The new model is kept, and is served as soon as every party can: %s", told(error))

    def settle(self) -> None:
        """Complete a switch that has begun, before another model is trained.

        A party that has lost the model in mid-switch will never serve it: only another training helps then.

        Raises:
            FederationError: when a party is missing that may have it.
        """
        try:
            self.current()
        except FederationError:
            if self._pending is not None and not any(self._lacks(name) for name in self._others):
                raise
            _log.error("A party has lost the model that was to be served: another one takes its place.")
        if self._pending is None and self._served is not None:
            self._remind_of(self._served.session_id)

    def refusal(self, stage: str) -> FederationError:
        """Say why there is no model to ask, in a party that is at ``stage``."""
        changed = next(iter(self._models.refusals.values()), None)
        return changed or OutOfOrder(f"There is no trained model to ask (stage: {stage}). Train first.")

    def know(self, model: TrainedModel) -> None:
        """Keep what attacks on this model know, as long as it is the one that answers."""
        with self._lock:
            if self._served is not None and self._served.session_id == model.session_id:
                self._served = model

    def close(self) -> None:
        """Ask nobody any more."""
        self._asking.shutdown(wait=False, cancel_futures=True)

    def _serves(self, switch: _Switch) -> bool:
        return self._served is not None and self._served.session_id == switch.session_id

    # -- the switch ------------------------------------------------------------------------------------------------

    def _complete_pending(self) -> None:
        if (switch := self._pending) is not None:
            self._complete(switch)

    def _complete(self, switch: _Switch) -> None:
        """Do steps 3 to 5, from wherever they stood."""
        try:
            self._coordinator.serve_model(switch.session_id)
        except FederationError as error:
            if self._is_refused(switch, error):
                self._give_up(switch, error)
            switch.has_begun = True
            raise
        switch.has_begun = True
        first_failure([self._executor.submit(party.serve_model, switch.session_id) for party in self._passive.values()])
        with self._lock:
            # Another one has taken its place where a party has lost this one.
            if self._pending is switch:
                self._models.serve(switch.session_id, switch.model.model.name)
                self._served, self._pending = switch.model, None
        self._probe.forget()

    def _is_refused(self, switch: _Switch, error: FederationError) -> bool:
        """Tell whether the coordinator will never serve this model, and everybody still has the one before."""
        if isinstance(error, PeerVanished):
            return False
        try:
            if self._coordinator.holds_model(switch.session_id):
                return False
            if not switch.has_begun:
                return True
            # It forgets this one when it serves another, and it does so before anybody else.
            return self._served is not None and self._coordinator.holds_model(self._served.session_id)
        except FederationError:
            return False

    def _give_up(self, switch: _Switch, error: FederationError) -> None:
        """Drop a model that can't be served any more, everywhere; the one before stays."""
        _log.error("The new model is dropped, and the one before stays: %s", error)
        with self._lock:
            if self._pending is switch:
                self._pending = None
            try:
                self._models.drop_candidate(switch.session_id)
            except FederationError as not_kept:
                _log.error("The next start drops it again: %s", not_kept)
        self._probe.forget()
        reason = f"its model can't be served: {told(error)}"
        for party in self._passive.values():
            self._executor.submit(party.end_session, switch.session_id, reason).add_done_callback(log_failure)

    def _remind_of(self, session_id: str) -> None:
        """Tell all that have the served model that it is served: one put back from a copy may not know.

        Until it does, the next session that begins would end this one there. Who is absent, or refuses, is as before.
        """
        wait([self._executor.submit(self._remind, other, session_id) for other in self._others.values()])

    @staticmethod
    def _remind(other: _Server, session_id: str) -> None:
        try:
            # Asked first: one that hangs doesn't hold up a job for longer than this takes.
            if other.holds_model(session_id):
                other.serve_model(session_id)
        except FederationError as error:
            _log.info("Not everybody could be told which model is served: %s", error)

    def _lacks(self, name: str) -> bool:
        """Tell whether a party says that it lacks the model that is to be served; one that says nothing may have it."""
        switch = self._pending
        try:
            return switch is not None and not self._others[name].holds_model(switch.session_id)
        except FederationError:
            return False

    # -- what stands against a prediction --------------------------------------------------------------------------

    def obstacle(self, stage: str) -> str:
        """Say why a prediction would be refused now, and what to do. Asks every party; empty when it would be answered.

        Who asks while another does gets the same answer.
        """
        sentence = self._probe() if self.newest is not None else ""
        # The last one may have been given up meanwhile.
        return sentence if self.newest is not None else str(self.refusal(stage))

    def _found_obstacle(self) -> str:
        while (model := self.newest) is not None:
            obstacle = self._obstacle_of(model.session_id)
            newest = self.newest
            if not obstacle or (newest is not None and newest.session_id == model.session_id):
                return obstacle
            # Another model has taken its place meanwhile, and the others have forgotten this one.
        return ""

    def _obstacle_of(self, session_id: str) -> str:
        answers = {name: self._asking.submit(other.holds_model, session_id) for name, other in self._others.items()}
        return " ".join(sentence for name, answer in answers.items() if (sentence := _obstacle_at(name, answer)))


def _obstacle_at(name: str, answer: Future[bool]) -> str:
    """Say what stands against a prediction at one party; empty where nothing does."""
    try:
        if answer.result():
            return ""
    except PeerVanished as vanished:
        return str(vanished)
    except FederationError as error:
        return f"{name} can't say whether it has this model: {error}"
    return (
        f"{name} can't answer for this model: it has lost it, or its table or its defences have changed (its log says "
        "which). Start it with the state folder and the settings that it had, or train again."
    )
