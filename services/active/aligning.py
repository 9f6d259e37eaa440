"""How the active party aligns records with the passive ones, and says in which batch each is. Opens no connection."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import numpy as np

from services.active.interfaces import PassiveParty, ToldBatches
from services.active.progress import AlignmentProgress
from services.common.agreement import ProposedTerms
from services.common.alignment import alignment_context, alignment_refusals
from services.party.coin_toss import CoinToss
from services.party.context import PartyContext
from services.party.ending import Ending
from services.party.lasting_batches import BatchMemory, SessionBatches, drawing
from services.party.party_model import with_unlabelled_tested
from vfl.arrays import IntArray
from vfl.data import BlindedIds, PsiClient, rows_in_common_order
from vfl.data.id_array import IdArray
from vfl.data.id_overlap import forms_of_unmet
from vfl.data.labels import NO_LABEL

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Aligning:
    """The alignment of one session.

    Attributes:
        context: what this party works with.
        passive_parties: the ways to them, by name.
        terms: what the session was opened with.
        ending: the job's, which ends it.
        tell: is told how many ids are done, of how many.
    """

    context: PartyContext
    passive_parties: Mapping[str, PassiveParty]
    terms: ProposedTerms
    ending: Ending
    tell: Callable[[int, int], None]

    def align(self, labels: IntArray) -> tuple[IntArray, SessionBatches | None]:
        """Intersect ids with each passive party in turn, each time with what is left, and order the common rows.

        Args:
            labels: class indices of all rows of this party's table.

        Returns:
            This party's rows in the common order, and their batches; None for these where nothing is trained.

        Raises:
            FederationError: where a party refuses or is gone, and where too few rows have a label.
        """
        own_ids = IdArray.of(self.context.data.ids)
        rows = np.arange(len(own_ids))
        progress = AlignmentProgress(self.tell, len(own_ids), len(self.passive_parties))
        with alignment_refusals():
            for name in self.passive_parties:
                rows = rows_in_common_order(own_ids, rows[self._common_with(name, own_ids.take(rows), progress)])
        if differing := forms_of_unmet(own_ids, rows):
            _log.warning("%s", differing)
        plan = self.terms.plan
        if not plan.family.spec.trains:
            return with_unlabelled_tested(rows, labels[rows], plan), None
        memory = BatchMemory(self.context, (self.context.name, *self.passive_parties))
        remembered = memory.read()
        as_drawn = with_unlabelled_tested(rows, labels[rows], plan)
        drawing_digest = drawing(own_ids.take(as_drawn), plan)
        if remembered is not None and drawing_digest != remembered.drawn:
            order, roster = remembered.order(own_ids.take(rows), labels[rows] == NO_LABEL, plan)
            return rows[order], SessionBatches.of(memory, remembered, own_ids.take(rows[order]), roster, [])
        # A session that nothing has changed for since the first one is the same to the last bit.
        keys = [self._toss()] if remembered is None else []
        return as_drawn, SessionBatches.of(memory, remembered, own_ids.take(as_drawn), None, keys, drawing_digest)

    def told(self, batches: SessionBatches | None) -> ToldBatches:
        """Say what the passive parties are told with the order of rows."""
        if batches is None or batches.remembered is None:
            return ToldBatches()
        return ToldBatches(batches.key, batches.roster)

    def _toss(self) -> bytes:
        """Toss for the key of records' names with all passive parties."""
        session_id, name = self.terms.session_id, self.context.name
        parties = [self.passive_parties[passive] for passive in sorted(self.passive_parties)]
        toss = CoinToss(session_id, name, self.passive_parties, name)
        commitments = [toss.commitment, *(party.toss(session_id) for party in parties)]
        contributions = [toss.reveal(commitments), *(party.toss(session_id, commitments) for party in parties)]
        toss.finish(contributions)
        for party in parties:
            party.toss(session_id, (), contributions)
        return toss.result

    def _common_with(self, name: str, ids: IdArray, progress: AlignmentProgress) -> IntArray:
        """Find which of these ids a passive party has too: their places."""
        party = self.passive_parties[name]
        client = PsiClient(ids, alignment_context(self.terms.session_id, name), self.context.cores)
        with closing(client):
            with self._open(party.set_up_alignment(self.terms.session_id, len(ids))) as setup:
                client.receive_setup(progress.setup_of(setup, len(ids)))
            request = progress.counted(client.request())
            with self._open(party.align(self.terms.session_id, request, len(ids))) as response:
                return client.common_rows(progress.counted(response.chunks))

    @contextmanager
    def _open(self, stream: BlindedIds) -> Iterator[BlindedIds]:
        """Open a stream of blinded ids that ends with the job, whether the other side goes on with it or not."""
        with stream, self.ending.cancelling(stream.close):
            yield replace(stream, chunks=self.ending.guarded(stream.chunks))
