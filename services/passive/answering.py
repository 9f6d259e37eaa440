"""What a passive party answers about its records, each answer counted before it is given. Knows no network."""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from services.common.errors import OutOfOrder
from services.common.identity import Identity
from services.party.asked_once import AskedOnce
from services.party.context import PartyContext
from services.party.equation_count import EquationCount
from services.party.features import AlignedFeatures
from services.party.model_file import KeptModel
from services.party.party_model import PartyModel
from services.party.served_models import ServedModels
from services.party.session import PartySession
from services.passive.submissions import SeenSubmissions
from vfl.arrays import IntArray
from vfl.crypto.sharing.frozen_weights import Residues
from vfl.learning import Part

_log = logging.getLogger(__name__)

# Stands for the digest of a model whose training has ended.
_FINISHED = "finished"


class Answering:
    """Answers with models that are finished, and between epochs with those that are at work."""

    def __init__(self, context: PartyContext, models: ServedModels, equations: EquationCount) -> None:
        """Answer with ``models``, and count by ``equations``."""
        self._context, self._models, self._equations = context, models, equations
        self._submissions = SeenSubmissions(context.state)
        self._asked = AskedOnce()
        # Models that were counted, by session and digest: one epoch may have several.
        self._counted: set[tuple[str, str]] = set()

    def begin(self, opened: PartySession, rows: IntArray) -> None:
        """Count what a session that begins will tell of its records, this party's ``rows``, and forget others."""
        agreement = opened.agreement
        session_id, training_rows = agreement.session_id, rows[agreement.plan.split(len(rows)).train]
        self._equations.count_forwarded(agreement, opened.aligned)
        self._equations.count_shares(session_id, training_rows, opened.shares)
        self._counted = {at for at in self._counted if at[0] in self._models.sessions}
        self._submissions.forget_all_but({*self._models.sessions, session_id})
        if not agreement.plan.family.spec.trains:
            self._models.keep_candidate(KeptModel.of(opened.training.model, rows))

    def keep(self, opened: PartySession, rows: IntArray) -> None:
        """Keep a model whose training is over. Any of its records may be asked about from now on."""
        kept_model = KeptModel.of(opened.training.model, rows)
        # An answer that can't be counted isn't given.
        self._count(kept_model, opened.aligned)
        self._models.keep_candidate(kept_model)

    def finished(self, caller: Identity, session_id: str) -> PartyModel | None:
        """Find a session's finished model, counted; None where there is none."""
        kept_model = self._models.of_session(session_id, caller.name)
        if kept_model is None:
            return None
        self._count(kept_model)
        return kept_model.model

    def between_epochs(self, party_session: PartySession, rows: Sequence[int]) -> PartyModel:
        """Find the model that answers for validation rows while training goes on, counted."""
        model = party_session.training.model_for(rows)
        if party_session.training.is_over:
            # It answers about all records, which are counted when it is kept: not before, nor where that has failed.
            raise OutOfOrder("Training has ended and its model isn't kept yet: finish the training first.")
        if (key := (model.agreement.session_id, model.digest)) not in self._counted:
            self._equations.count(model, party_session.aligned, model.rows.validation)
            self._counted.add(key)
        return model

    def contribute(
        self, caller: Identity, model: PartyModel, request_id: int, rows: Sequence[int], masked: bytes
    ) -> bytes:
        """Send this party's shares of a request's scores to the coordinator; gives its masked products, if any."""
        session_id, serving = model.agreement.session_id, model.agreement.serving
        _log.info("Contributing to the scores of %d records.", len(rows))

        def once(draw: Callable[[], tuple[bytes, Residues]]) -> tuple[bytes, Residues]:
            content = [hashlib.sha256(one).digest() for one in (np.array(rows, dtype=np.int64).tobytes(), masked)]
            return self._asked((session_id, request_id), content, draw)

        answer, products = serving.answer(model, rows, masked, self._context.defences, self._context.engine, once)
        share = model.share_of(rows, products)
        self._context.tally.answered(caller.name, "scores", len(rows), session_id)
        share = replace(share, submissions_seen=self._submissions.of_session(session_id))
        submissions = self._context.coordinator.submit_partial_scores(session_id, request_id, share)
        self._submissions.note(session_id, submissions)
        return answer

    def disclose(self, caller: Identity, session_id: str) -> Part:
        """White box: this party's share of a model; raises OutOfOrder when it discloses nothing."""
        kept_model, name = self._models.of_session(session_id, caller.name), self._context.name
        if kept_model is not None and not kept_model.model.agreement.serving.discloses:
            raise OutOfOrder(f"{name} discloses no parameters: weights stay shared, so it doesn't know them.")
        if not self._context.settings.disclose:
            raise OutOfOrder(f"{name} discloses no parameters (black box); its owner sets PLUMBLINE_DISCLOSE.")
        disclosed = self._models.disclosed(session_id, self._context.defences)
        if kept_model is None or disclosed is None:
            raise OutOfOrder("Training goes on: parameters are disclosed when it has ended.")
        self._count(kept_model)
        values = sum(array.size for array in disclosed.arrays().values())
        self._context.tally.answered(caller.name, "parameters", values, session_id)
        return disclosed

    def _count(self, kept_model: KeptModel, aligned: AlignedFeatures | None = None) -> None:
        """Count a finished model's equations of all of its records, once in a process; raises StateNotKept."""
        if (occasion := (kept_model.session_id, _FINISHED)) not in self._counted:
            aligned = aligned or self._context.data.aligned(kept_model.order, kept_model.model.agreement.plan)
            self._equations.count(kept_model.model, aligned, np.arange(len(kept_model.order)))
            self._counted.add(occasion)
