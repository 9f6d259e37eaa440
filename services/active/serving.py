"""Which model answers at the active party, and how another takes its place at every party. Opens no connection.

    1  each passive party     FinishTraining   keeps the new model on disk; both answer, each for its own session
    2  the active party       (test)           keeps its own part on disk: from here on the switch goes forward only
    3  the coordinator        ServeModel       serves the new one and forgets the one before
    4  each passive party     ServeModel       the same
    5  the active party                        the same, by one rename, and answers with the new one

Who dies before 2 leaves the old model with all. Who dies between 2 and 5 finds its new part on disk, and the switch
goes on as soon as all are there: before the next prediction, which would need all of them in any case. So nobody is
ever asked for a model that another has forgotten, and there is never none.
"""

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from typing import Protocol

from services.active.interfaces import PassiveParty
from services.active.model import TrainedModel
from services.active.waiting import first_failure
from services.common.errors import FederationError, OutOfOrder, PeerVanished
from services.common.identity import Role
from services.party.context import Coordinator
from services.party.served_models import ServedModels

_log = logging.getLogger(__name__)


class _Server(Protocol):
    """Another party as far as it serves a model."""

    def serve_model(self, session_id: str) -> None: ...

    def holds_model(self, session_id: str) -> bool: ...


class Serving:
    """Holds the model that answers, and completes a switch that has begun. Thread-safe."""

    def __init__(
        self,
        models: ServedModels,
        ids: tuple[str, ...],
        coordinator: Coordinator,
        passive_parties: Mapping[str, PassiveParty],
        executor: Executor,
    ) -> None:
        """Take up the models that this party keeps, ``ids`` being those of its own table."""
        self._models = models
        self._others: dict[str, _Server] = {str(Role.COORDINATOR): coordinator, **passive_parties}
        self._executor = executor
        self._lock = threading.Lock()
        served, pending = models.served, models.candidate
        self._served = None if served is None else TrainedModel.of(served, ids)
        # Not yet with all.
        self._pending = None if pending is None else TrainedModel.of(pending, ids)

    @property
    def newest(self) -> TrainedModel | None:
        """The model that answers, or is about to; asks nobody."""
        return self._pending or self._served

    def current(self) -> TrainedModel | None:
        """The model that answers now. A switch that has begun is completed first.

        Raises:
            FederationError: when that can't be done, which names who is missing.
        """
        with self._lock:
            if self._pending is not None:
                self._complete(self._pending)
            return self._served

    def switch_to(self, model: TrainedModel) -> None:
        """Have every party answer with this model from now on. Where one is missing, as soon as it is back.

        Raises:
            StateNotKept: when this party can't keep it. Nobody has switched.
        """
        with self._lock:
            self._models.keep_candidate(model.kept)
            self._pending = model
            try:
                self._complete(model)
            except FederationError as error:
                _log.error("The new model is kept, and is served as soon as every party can: %s", error)

    def settle(self) -> None:
        """Complete a switch that has begun, before another model is trained.

        A party that has lost the model in mid-switch will never serve it: only another training helps then.

        Raises:
            FederationError: when a party is missing that may have it.
        """
        try:
            self.current()
        except FederationError:
            if not any(self._lacks(name) for name in self._others):
                raise
            _log.error("A party has lost the model that was to be served: another one takes its place.")

    def refusal(self, stage: str) -> FederationError:
        """Why there is no model to ask, in a party that is at ``stage``."""
        changed = next(iter(self._models.refusals.values()), None)
        return changed or OutOfOrder(f"There is no trained model to ask (stage: {stage}). Train first.")

    def know(self, model: TrainedModel) -> None:
        """Keep what attacks on this model know, as long as it is the one that answers."""
        with self._lock:
            if self._served is not None and self._served.session_id == model.session_id:
                self._served = model

    def _complete(self, model: TrainedModel) -> None:
        """Steps 3 to 5, from wherever they stood."""
        serving = [self._executor.submit(other.serve_model, model.session_id) for other in self._others.values()]
        first_failure(serving)
        self._models.serve(model.session_id, model.model.name)
        self._served, self._pending = model, None

    def _lacks(self, name: str) -> bool:
        """Whether a party says that it lacks the model that is to be served; one that says nothing may have it."""
        try:
            return self._pending is not None and not self._others[name].holds_model(self._pending.session_id)
        except FederationError:
            return False

    def obstacle(self, stage: str) -> str:
        """Why a prediction would be refused now, and what to do. Asks every party; empty when it would be answered."""
        model = self.newest
        if model is None:
            return str(self.refusal(stage))
        asked = {
            name: self._executor.submit(other.holds_model, model.session_id) for name, other in self._others.items()
        }
        return " ".join(sentence for name, answer in asked.items() if (sentence := _obstacle_at(name, answer)))


def _obstacle_at(name: str, answer: Future[bool]) -> str:
    """What stands against a prediction at one party; empty where nothing does."""
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
