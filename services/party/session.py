"""How a party enters a session: it joins, consents, gets ready to train, counts what its answers tell, and records."""

import gc
import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from services.ciphers.cipher import make_cipher
from services.common.agreement import Agreement, PartyDescription, ProposedTerms
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.exposure import GuardedParty
from services.common.state_folder import State, check_room, secret_of
from services.exchange import opening_ledger
from services.exchange.opening_ledger import LEDGER, OpeningLedger, begin_ledger
from services.party.anchor import Anchor
from services.party.consent import check_consent, warnings_of
from services.party.context import PartyContext
from services.party.equation_count import EquationCount
from services.party.features import AlignedFeatures
from services.party.lasting_batches import SessionBatches, begin_batches
from services.party.party_training import PartyTraining, predictions_of
from services.party.share_guard import SingleShares
from services.party.table_hash import hash_of_features, keys_of_records
from services.party.training_log import REMEDY, STEPS, KeptTerms, KeptTraining, TrainingLog
from services.party.training_means import TrainingMeans
from vfl.arrays import IntArray
from vfl.data.id_array import IdArray
from vfl.learning.networks import load_network

_log = logging.getLogger(__name__)


def _nothing() -> None:
    """Remember no batches: nothing is trained, or it was done before."""


@dataclass(frozen=True, eq=False)
class Joined:
    """A session that a party has joined. Nothing is agreed to yet.

    Attributes:
        agreement: the session's terms, as the coordinator stated them.
        aligned: the party's aligned records, encoded for this session.
        described: how the party described itself.
        batches: the session's records by name; None where nothing is trained, or it was settled before.
    """

    agreement: Agreement
    aligned: AlignedFeatures
    described: PartyDescription
    batches: SessionBatches | None = None


@dataclass(frozen=True)
class PartySession:
    """One party's part of a session whose terms it has agreed to.

    Attributes:
        training: the party's weights and its half of Protocol 1.
        aligned: the records that it trains on.
        terms_warnings: what the session's terms leave unprotected.
        guard_warnings: what the party's own answers, or the opening of weights, could tell its peers.
        shares: what a passive party's answers may tell of single records, by peer.
        remember: remembers the session's batches, on disk when it returns; called before the first answer.
    """

    training: PartyTraining
    aligned: AlignedFeatures
    terms_warnings: tuple[str, ...]
    guard_warnings: tuple[str, ...]
    shares: Mapping[str, SingleShares] = field(default_factory=dict)
    remember: Callable[[], None] = _nothing

    @property
    def agreement(self) -> Agreement:
        """The session's public terms."""
        return self.training.agreement

    @classmethod
    def open(
        cls,
        context: PartyContext,
        joined_session: Joined,
        labels: IntArray | None = None,
        trained_labels: IntArray | None = None,
        kept: TrainingLog | None = None,
        earlier: Mapping[str, SingleShares] | None = None,
        count: EquationCount | None = None,
    ) -> "PartySession":
        """Consent to the terms of a session that the party has joined, and get ready to train.

        Args:
            context: what the party works with.
            joined_session: the session.
            labels: class indices of the aligned records, (aligned rows,). The active party's only.
            trained_labels: those that its defences have trained on in their place, (aligned rows,).
            kept: where the process before this one was in it; None for a session that begins.
            earlier: what a passive party's answers of earlier sessions may have told of these records, by peer.
            count: of the sums of labels, in all sessions; None where a session goes on or there are no labels.

        Raises:
            FederationError: when the party's settings, its guard or its defences refuse the terms.
        """
        agreement, aligned = joined_session.agreement, joined_session.aligned
        settings, defences = context.settings, context.defences
        check_consent(agreement, settings, joined_session.described)
        ledger = _ledger_of(context, joined_session) if agreement.plan.training.opens else OpeningLedger.in_memory()
        log = kept or TrainingLog(context.state if _can_wait(context, agreement) else None)
        training = _training_of(context, joined_session, labels, trained_labels, ledger=ledger, log=log)
        if kept is not None and not training.can_wait:
            raise OutOfOrder(
                f"{context.name} can't go on with the training of before: its steps are all taken, and weights were "
                "about to be opened. Train again."
            )
        remember = _nothing
        if (batches := joined_session.batches) is not None:
            after = batches.after(agreement, training.schedule, training.rows)
            remember = partial(batches.memory.keep, agreement.session_id, after)
        noisy = defences.changes_residuals
        sums = partial(count.count_sums, is_noisy=noisy) if count is not None else lambda *_: ()
        guarded = agreement.plan.training.guard(
            agreement,
            GuardedParty(
                context.name,
                aligned.features,
                labels,
                settings.guard,
                noisy=noisy,
                opened=ledger,
                earlier=earlier or {},
            ),
        )
        context.tally.begin(guarded.told)
        # Counted last: what any guard refuses isn't.
        warnings = (*guarded.warnings, *sums(agreement, aligned.rows))
        terms_warnings = warnings_of(agreement, insecure_transport=settings.transport == "insecure")
        session = cls(training, aligned, tuple(terms_warnings), warnings, guarded.shares, remember)
        for warning in (*session.terms_warnings, *session.guard_warnings):
            _log.warning("%s", warning)
        context.record.begin(agreement, aligned.columns, context.data.table)
        context.record.note(
            defences=list(defences.names),
            predictions=predictions_of(training),
            channels=list(guarded.channels),
            guard=list(session.guard_warnings),
        )
        if settings.record_features:
            context.record.keep_features(aligned.truth, aligned.gridded, labels)
        if kept is None:
            features = hash_of_features(aligned.features)
            log.begin(KeptTerms(agreement, context.name, aligned.rows, context.data.table_hash, features))
        return session


def rejoined(context: PartyContext, interrupted_training: KeptTraining) -> Joined:
    """Rejoin a session that a process before this one had joined; raises OutOfOrder where it can't be gone on with."""
    terms = interrupted_training.terms
    again = f"{context.name} can't go on with the training of before: "
    if not _can_wait(context, terms.agreement):
        raise OutOfOrder(f"{again}its settings don't let it wait any more (PLUMBLINE_RESUME_WITHIN).")
    aligned = None
    try:
        if terms.table == context.data.table_hash:
            aligned = context.data.aligned(terms.order, terms.agreement.plan)
    except InvalidMessage as error:
        _log.error("%s", error)
    if aligned is None or hash_of_features(aligned.features) != terms.features:
        raise OutOfOrder(f"{again}its table, or how it is encoded, has changed. Put it back, or train again.")
    if strangers := {party.name for party in terms.agreement.peers_of(context.name)} - set(context.peers):
        raise OutOfOrder(f"{again}PLUMBLINE_PEERS lacks {', '.join(sorted(strangers))}.")
    return Joined(terms.agreement, aligned, terms.agreement.party(context.name))


def _can_wait(context: PartyContext, agreement: Agreement) -> bool:
    """Tell whether a training under these terms goes on after an interruption.

    Not where this party listens for attacks: what it heard ends with its process.
    """
    may = context.settings.resume_within > 0 and context.adversary.is_idle
    return may and agreement.plan.training.resumes(agreement)


def join(
    context: PartyContext,
    terms: ProposedTerms,
    rows: IntArray,
    *,
    validated_epochs: int = 0,
    batches: SessionBatches | None = None,
) -> Joined:
    """Encode this party's aligned records for a session, and join it with a description of them.

    Args:
        context: what the party works with.
        terms: what the active party has opened the session with.
        rows: the party's own rows in the common order, (aligned rows,).
        validated_epochs: in how many epochs the party scores validation records; 0 for all.
        batches: the session's records by name; None where nothing is trained.

    Raises:
        FederationError: when the coordinator refuses, or when this party couldn't keep its model or its records, has an
            older copy of its state, or can't encode these rows.
    """
    # Parts of a session refer to each other, and Python looks for such rarely: without this, keys and records of many
    # sessions before stay in memory.
    gc.collect()
    context.record.check()
    # A full disk is told before the work, not when a model is ready.
    check_room(context.state)
    if terms.plan.training.opens:
        _opening_anchor(context).note(terms.session_id, begin_ledger(context.state))
    roster = None if batches is None else batches.roster
    aligned = context.data.aligned(rows, terms.plan.placed(roster))
    described = replace(
        aligned.describe(context.name, truncates_answers=context.settings.truncate_answers),
        disclosure_defences=context.defences.announced,
        validated_epochs=validated_epochs,
        opens_always=context.settings.opening == "always",
        roster=roster,
    )
    agreement = context.coordinator.join_session(terms.session_id, described)
    if strangers := {party.name for party in agreement.parties} - {context.name, *context.peers}:
        raise OutOfOrder(
            f"The agreement names {', '.join(sorted(strangers))}, whose address this party doesn't know: add it to "
            "PLUMBLINE_PEERS."
        )
    return Joined(agreement, aligned, described, batches)


def begin_ledgers(state: State) -> None:
    """Make a party's ledgers where it has none yet. Of broken ones the next session tells."""
    with suppress(OutOfOrder):
        begin_ledger(state)
        begin_batches(state)


def _opening_anchor(context: PartyContext) -> Anchor:
    return context.anchor(LEDGER, opening_ledger.REMEDY)


def _ledger_of(context: PartyContext, joined_session: Joined) -> OpeningLedger:
    ids = (context.data.ids[row] for row in joined_session.aligned.rows)
    session_id = joined_session.agreement.session_id

    def tell(owner: str, bits: int) -> None:
        context.tally.answered(owner, "opened bits", bits, session_id)

    note = partial(_opening_anchor(context).note, session_id)
    return OpeningLedger(context.state, keys_of_records(ids, secret_of(context.state)), tell, note)


def _training_of(
    context: PartyContext,
    joined_session: Joined,
    labels: IntArray | None,
    trained_labels: IntArray | None,
    *,
    ledger: OpeningLedger,
    log: TrainingLog,
) -> PartyTraining:
    settings, agreement = context.settings, joined_session.agreement
    peers = agreement.peers_of(context.name)
    ids = None if context.adversary.is_idle else IdArray.of(context.data.ids).take(joined_session.aligned.rows)
    means = TrainingMeans(
        peers={peer.name: context.peers[peer.name] for peer in peers},
        generator=np.random.default_rng(
            _kept_seed(context, joined_session)
            if labels is None and settings.private_seed is None
            else settings.private_seed
        ),
        timeout=settings.step_timeout,
        executor=context.executor,
        cipher=partial(make_cipher, arithmetic=context.arithmetic),
        seat=context.adversary.seat if ids is None else partial(context.adversary.seat, ids=ids),
        defences=context.defences,
        engine=context.engine,
        ledger=ledger,
        log=log,
        tally=context.tally,
        anchor=partial(context.anchor(STEPS, REMEDY).note, agreement.session_id),
        most_interruptions=settings.most_interruptions,
    )
    installed = load_network(settings.model) if settings.model else None
    return PartyTraining(
        agreement, context.name, joined_session.aligned.gridded, labels, means, installed, trained_labels
    )


def _kept_seed(context: PartyContext, joined_session: Joined) -> int:
    """Draw the seed of a passive party's start weights, the same for these columns with this active party.

    Drawn anew, each session's would be one more form of every record, without a single step.
    """
    columns = [one.name for one in joined_session.aligned.columns]
    about = repr(("start weights", joined_session.agreement.active.name, columns)).encode()
    return int.from_bytes(hashlib.blake2b(about, key=secret_of(context.state)).digest(), "big")
