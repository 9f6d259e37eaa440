"""The models of one party: the one that is served, and the next one until it takes its place. Knows no network.

    a training ends       keep_candidate    both are on disk, and both answer, each for its own session
    the active party
    has all the others    serve             one rename: the candidate is the served one, the one before is forgotten

A process that dies at any point finds one of these two states. What a party has told another of a model is on disk
before it is told.
"""

import logging
import threading

from services.common.errors import NotAllowed, OutOfOrder
from services.common.learner_calls import LearnerFailed
from services.common.state_folder import State
from services.party.features import PartyData
from services.party.model_file import KeptModel, TableChanged, packed, summary_of, unpacked
from services.party.party_defences import PartyDefences
from vfl.arrays import IntArray
from vfl.learning import Part

_log = logging.getLogger(__name__)

SERVED, CANDIDATE = "served.npz", "candidate.npz"


class ServedModels:
    """Holds a party's models and keeps its state's files in step with them. Thread-safe.

    Attributes:
        refusals: by session, why a model that is on disk can't answer.
    """

    def __init__(self, name: str, data: PartyData, state: State, labels: IntArray | None = None) -> None:
        """Take up the models that ``state`` holds.

        Args:
            name: the party's.
            data: its table. Models of another one stay on disk and answer nothing.
            state: where models are kept.
            labels: class indices, one per record of the table; the active party's only.

        Raises:
            StateError: for a broken file.
        """
        self._name = name
        self._data = data
        self._state = state
        self._lock = threading.Lock()
        self._kept: dict[str, KeptModel] = {}
        self.refusals: dict[str, OutOfOrder] = {}
        for file in (SERVED, CANDIDATE):
            if (content := state.read(file)) is not None:
                self._take_up(file, content, labels)

    def _take_up(self, file: str, content: bytes, labels: IntArray | None) -> None:
        try:
            kept_model = unpacked(content, self._data, labels)
        except (TableChanged, LearnerFailed) as error:
            _log.error("%s", error)
            self.refusals[summary_of(content).session_id] = error
            return
        self._kept[file] = kept_model
        _log.info("The model of session %s is here from before (%s).", kept_model.session_id, file.removesuffix(".npz"))

    @property
    def served(self) -> KeptModel | None:
        """The model that is served."""
        return self._kept.get(SERVED)

    @property
    def candidate(self) -> KeptModel | None:
        """The model that is to be served next."""
        return self._kept.get(CANDIDATE)

    @property
    def sessions(self) -> set[str]:
        """The sessions whose models are here, those that can't answer included."""
        return {kept.session_id for kept in list(self._kept.values())} | set(self.refusals)

    def knows(self, session_id: str) -> bool:
        """Tell whether a model of this session is here, even one that can't answer."""
        return session_id in self.sessions

    def of_session(self, session_id: str, active: str | None = None) -> KeptModel | None:
        """Find the model of a session, served or next; None where this party has none.

        Args:
            session_id: whose model.
            active: who asks for it. None asks on the party's own behalf.

        Raises:
            NotAllowed: for another active party than the session's.
            OutOfOrder: where the model is on disk and can't answer.
        """
        if session_id in self.refusals:
            raise self.refusals[session_id]
        kept_model = next((one for one in list(self._kept.values()) if one.session_id == session_id), None)
        if kept_model is not None and active is not None and kept_model.model.agreement.active.name != active:
            raise NotAllowed(f"{active} is not this session's active party.")
        return kept_model

    def keep_candidate(self, kept_model: KeptModel) -> None:
        """Keep a model whose training has ended. The same again changes nothing.

        Raises:
            StateNotKept: when it can't be written. The models are as before.
        """
        with self._lock:
            if self.of_session(kept_model.session_id) is None:
                self._write(CANDIDATE, kept_model)

    def serve(self, session_id: str, active: str) -> None:
        """Serve a session's model, and forget the one before. The same again changes nothing.

        Raises:
            OutOfOrder: when there is no such model.
            NotAllowed: for another active party than the session's.
            StateNotKept: when that can't be written. The models are as before.
        """
        with self._lock:
            kept_model = self.of_session(session_id, active)
            if kept_model is None:
                raise OutOfOrder(f"{self._name} has no finished model of session {session_id[:40]}: train again.")
            if kept_model is not self.served:
                self._state.replace(SERVED, by=CANDIDATE)
                self._kept = {SERVED: kept_model}
                self.refusals.clear()
                _log.info("The model of session %s is served from now on.", session_id)

    def drop_candidate(self, session_id: str) -> None:
        """Forget the next model if it is this session's. The served one stays, whatever session it is of."""
        with self._lock:
            if self.candidate is not None and self.candidate.session_id == session_id:
                del self._kept[CANDIDATE]
                self._state.remove(CANDIDATE)

    def disclosed(self, session_id: str, defences: PartyDefences) -> Part | None:
        """Give what the party discloses of a session's model, always the same; None where it has no such model.

        It is on disk before it is disclosed: distorted anew, parameters would tell more.

        Raises:
            InvalidMessage: where a defence can't distort them.
            StateNotKept: when they can't be written.
        """
        with self._lock:
            for file, kept_model in self._kept.items():
                if kept_model.session_id == session_id:
                    if kept_model.disclosed is None:
                        kept_model = kept_model.with_disclosed(kept_model.model.disclosed_by(defences))
                        self._write(file, kept_model)
                    return kept_model.disclosed
        return None

    def _write(self, file: str, kept_model: KeptModel) -> None:
        self._state.write(file, packed(kept_model, self._data))
        self._kept[file] = kept_model
