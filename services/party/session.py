"""How a party enters a session: it joins, consents, gets ready to train, counts what its answers tell, and records."""

import logging
from dataclasses import dataclass, replace

import numpy as np

from services.common.agreement import Agreement, PartyDescription
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.state_folder import check_room
from services.party.consent import check_consent, warnings_of
from services.party.context import PartyContext
from services.party.guard import channels_of, guard
from services.party.party_training import PartyTraining, TrainingMeans
from vfl.arrays import IntArray
from vfl.learning.networks import load_network

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PartySession:
    """One party's part of a session whose terms it has agreed to.

    Attributes:
        training: the party's weights and its half of Protocol 1.
        terms_warnings: what the session's terms leave unprotected.
        guard_warnings: what the party's own answers could tell its peers.
    """

    training: PartyTraining
    terms_warnings: tuple[str, ...]
    guard_warnings: tuple[str, ...]

    @property
    def agreement(self) -> Agreement:
        """The session's public terms."""
        return self.training.agreement

    @classmethod
    def open(
        cls,
        context: PartyContext,
        agreement: Agreement,
        rows: IntArray,
        labels: IntArray | None = None,
    ) -> "PartySession":
        """Consent to the terms of a session that the party has joined, and get ready to train.

        Args:
            context: what the party works with.
            agreement: the session's terms, as the coordinator stated them.
            rows: the party's own rows in the common order, (aligned rows,).
            labels: class indices of those rows, (aligned rows,). The active party's only.

        Raises:
            FederationError: when the party's settings, its guard or its defences refuse the terms.
        """
        data, settings, defences = context.data, context.settings, context.defences
        if len(np.unique(rows)) != len(rows):
            # The guard counts rows, and a record that stands in many has one residual.
            raise InvalidMessage("The order of records names a record twice: each may stand in it once.")
        check_consent(agreement, settings, _description(context, rows))
        training = _training_of(context, agreement, rows, labels)
        channels = channels_of(agreement, context.name)
        session = cls(
            training,
            tuple(warnings_of(agreement, insecure_transport=settings.transport == "insecure")),
            tuple(guard(agreement, channels, settings.guard, noisy=defences.changes_residuals)),
        )
        for warning in (*session.terms_warnings, *session.guard_warnings):
            _log.warning("%s", warning)
        context.record.begin(agreement)
        context.record.note(
            defences=list(defences.names),
            predictions=training.predictions,
            channels=[channel.facts() for channel in channels],
            guard=list(session.guard_warnings),
        )
        if settings.record_features:
            truth = data.truth(rows, agreement.plan.feature_fraction_bits)
            context.record.keep_features(truth, data.feature_names, labels)
        return session


def join(context: PartyContext, session_id: str, rows: IntArray) -> Agreement:
    """Join a session at the coordinator, with a description of this party's part.

    Args:
        context: what the party works with.
        session_id: of a session that the active party has opened.
        rows: the party's own rows in the common order, (aligned rows,).

    Returns:
        The session's terms. Nothing is agreed to yet.

    Raises:
        FederationError: when the coordinator refuses, or when this party couldn't keep its model or its records.
    """
    context.record.check()
    # A full disk is told before the work, not when a model is ready.
    check_room(context.state)
    agreement = context.coordinator.join_session(session_id, _description(context, rows))
    if strangers := {party.name for party in agreement.parties} - {context.name, *context.peers}:
        raise OutOfOrder(
            f"The agreement names {', '.join(sorted(strangers))}, whose address this party doesn't know: add it to "
            "PLUMBLINE_PEERS."
        )
    return agreement


def _description(context: PartyContext, rows: IntArray) -> PartyDescription:
    described = context.data.describe(context.name, len(rows), truncates_answers=context.settings.truncate_answers)
    return replace(described, disclosure_defences=context.defences.announced)


def _training_of(context: PartyContext, agreement: Agreement, rows: IntArray, labels: IntArray | None) -> PartyTraining:
    settings = context.settings
    means = TrainingMeans(
        peers={peer.name: context.peers[peer.name] for peer in agreement.peers_of(context.name)},
        generator=np.random.default_rng(settings.private_seed),
        timeout=settings.step_timeout,
        executor=context.executor,
        cipher=context.adversary.cipher,
        observer=context.adversary,
        defences=context.defences,
    )
    features = context.data.encoded(rows, agreement.plan.feature_fraction_bits)
    installed = load_network(settings.model) if settings.model else None
    return PartyTraining(agreement, context.name, features, labels, means, installed)
