"""The active party's attacks on the scores that it is told: of the tests first, then of predictions as they come."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from services.active.interfaces import PassiveParty
from services.active.scoring import Scoring
from services.active.serving import Serving, TrainedModel
from services.adversary.knowledge import Knowledge, PriorKnowledge, disclosed_parts, own_class_rows
from services.adversary.predictions import AttackHost, spread
from services.common.errors import InvalidMessage, log_failure
from services.party.context import TellsAttack, nobody_watches
from vfl.arrays import FloatArray
from vfl.data import Table

_log = logging.getLogger(__name__)


class ScoreAttacks:
    """Mounts a party's attacks on what it is told of its models' records, on a thread of their own."""

    def __init__(
        self,
        host: AttackHost,
        passive_parties: Mapping[str, PassiveParty],
        scoring: Scoring,
        serving: Serving,
        beforehand: PriorKnowledge | None,
        id_forms: Callable[[Iterable[str]], list[str]],
    ) -> None:
        """Attack nothing yet.

        Args:
            host: runs the attacks.
            passive_parties: who is asked what it discloses.
            scoring: asks for scores of auxiliary records.
            serving: holds the model that answers.
            beforehand: what the adversary knows before any session; None for nothing.
            id_forms: writes ids as the party's table has them.
        """
        self._host, self._passive_parties, self._scoring, self._serving = host, passive_parties, scoring, serving
        self._beforehand, self._id_forms = beforehand or PriorKnowledge(), id_forms
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="attacks")
        # Whose scores the attacks are on; empty after a restart.
        self._session = ""

    @property
    def is_idle(self) -> bool:
        """Whether no attack is switched on."""
        return self._host.is_idle

    def on_tests(self, model: TrainedModel, answers: FloatArray | None, most: int, tell: TellsAttack) -> TrainedModel:
        """Attack what was told of a new model's test records.

        Args:
            model: the new one.
            answers: of its test records, in order.
            most: of them are attacked; 0 for all.
            tell: is told how far this has come.

        Returns:
            The model with what attacks on it know.
        """
        model = model.knowing(self._knowledge_of(model))
        # On the thread of all attacks, so that none on the model before comes in between.
        self._threads.submit(self._attack_tests, model, answers, most, tell).result()
        return model

    def _attack_tests(self, model: TrainedModel, answers: FloatArray | None, most: int, tell: TellsAttack) -> None:
        self._host.begin()
        self._session = model.session_id
        tests = model.model.judged_rows
        places = spread(len(tests), most or len(tests))
        self._attack(model, tests[places].tolist(), None if answers is None else answers[places], tell)

    def on_prediction(self, session_id: str, rows: Sequence[int], answers: FloatArray) -> None:
        """Attack an answer on the transcript as it grows, but never in its way."""
        self._threads.submit(self._attack_prediction, session_id, rows, answers).add_done_callback(log_failure)

    def _attack_prediction(self, session_id: str, rows: Sequence[int], answers: FloatArray) -> None:
        """Mount the attacks on an answer. After a restart they ask again what passive parties disclose of the model."""
        model = self._serving.newest
        if self.is_idle or not len(rows) or model is None or model.session_id != session_id:
            return
        if not self._session:
            model = model.knowing(self._knowledge_of(model))
            self._serving.know(model)
            self._host.go_on()
            self._session = session_id
        if self._session == session_id:
            self._attack(model, rows, answers)

    def close(self) -> None:
        """Mount no attack any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _knowledge_of(self, model: TrainedModel) -> Knowledge:
        """Collect what the passive parties disclose. One that discloses nothing makes it a black box."""
        parts = {name: party.disclose_parameters(model.session_id) for name, party in self._passive_parties.items()}
        knowledge = Knowledge(
            model.model,
            disclosed_parts(parts, model.model.agreement, model.model.known_part),
            moments=self._beforehand.moments,
            order=model.kept.order,
            own_rows=own_class_rows(model.model, self._scoring.scores),
        )
        _log.info("White box." if knowledge.disclosed is not None else "Black box: nothing is disclosed.")
        if self._beforehand.records is None:
            return knowledge
        return self._with_auxiliary(model, knowledge, self._beforehand.records)

    def _with_auxiliary(self, model: TrainedModel, knowledge: Knowledge, records: Table) -> Knowledge:
        """Ask for the scores of the auxiliary records, as an active party may for any aligned one."""
        rows = model.row_of_id.rows(self._id_forms(records.ids))
        aligned = rows >= 0
        indices = rows[aligned]
        if not len(indices):
            raise InvalidMessage("None of the auxiliary records is aligned: PLUMBLINE_AUXILIARY needs common ids.")
        return knowledge.holding(
            indices, records.features[aligned], self._scoring.answers(model.model, indices.tolist())
        )

    def _attack(
        self,
        model: TrainedModel,
        rows: Sequence[int],
        answers: FloatArray | None,
        tell: TellsAttack = nobody_watches,
    ) -> None:
        """Mount the attacks on what this party was told of some rows: not on what it makes of it."""
        if model.knowledge is None or answers is None:
            return
        rows, answers = model.knowledge.unknown_of(rows, answers)
        if rows:
            self._host.attack(model.knowledge, rows, answers, tell)
