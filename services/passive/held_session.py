"""One session as the passive party sees it, from alignment to its end. Knows no network."""

import logging
import threading
import time
from collections.abc import Iterable, Iterator

from services.common.agreement import ProposedTerms
from services.common.alignment import alignment_refusals
from services.common.errors import FederationError, InvalidMessage, OutOfOrder, Suspended, told
from services.party.coin_toss import CoinToss
from services.party.ending import Ending
from services.party.lasting_batches import SessionBatches
from services.party.peer_watch import PeerWatch
from services.party.session import PartySession
from services.party.training_log import KeptTraining
from services.passive.common_order import CommonOrder
from vfl.arrays import IntArray
from vfl.crypto.curve25519 import COORDINATE_BYTES
from vfl.data import PsiServer

_log = logging.getLogger(__name__)

_STARTED_AGAIN = "This party has started again, and its training waits for the others."


class HeldSession:
    """One session as this party sees it. Each field is None until its stage is reached."""

    def __init__(self, terms: ProposedTerms, own: str, psi: PsiServer, watch: PeerWatch) -> None:
        self.terms = terms
        self.toss = CoinToss(terms.session_id, terms.active, terms.passive_parties, own)
        self.batches: SessionBatches | None = None
        self.session_id = terms.session_id
        self.active = terms.active
        self.psi = psi
        self.watch = watch
        self.ending = Ending()
        self.order: CommonOrder | None = None
        self.joining = threading.Lock()
        self.joined: PartySession | None = None
        # Since when its training waits for a party that is away, on the wall's clock; None while it doesn't.
        self.waits_since: float | None = None

    @classmethod
    def interrupted(cls, kept: KeptTraining, joined: PartySession, psi: PsiServer, watch: PeerWatch) -> "HeldSession":
        """Take up a session that a process before this one was at work in."""
        agreement = kept.terms.agreement
        active, *passive = (party.name for party in agreement.parties)
        terms = ProposedTerms(agreement.session_id, active, tuple(passive), agreement.plan, agreement.classes)
        session = cls(terms, kept.terms.party, psi, watch)
        session.order = CommonOrder((), 0)
        session.order.rows = kept.terms.order
        session.joined = joined
        session.wait(Suspended(_STARTED_AGAIN))
        return session

    @property
    def ended(self) -> str | None:
        """Why it has ended; None while it is open, and while it waits."""
        error = self.ending.error
        return None if error is None or isinstance(error, Suspended) else told(error)

    def wait(self, error: Suspended) -> None:
        """Free who waits for the training at work, which goes on with another ending."""
        self.ending.end(error)
        self.waits_since = self.waits_since or time.time()

    def end(self, error: FederationError) -> None:
        """End it for good, whether it waits or not."""
        if self.waits_since is not None:
            self.ending = Ending()
        self.ending.end(error)

    @property
    def rows(self) -> IntArray:
        """This party's rows in the common order; raises OutOfOrder until there is one."""
        if self.order is None or self.order.rows is None:
            raise OutOfOrder("Align before you join.")
        return self.order.rows

    def _check_open(self) -> None:
        if self.ended is not None:
            raise OutOfOrder(f"The session has ended: {self.ended}")

    def while_open(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Pass an alignment's chunks on until this session ends; raises what the set intersection refuses."""
        sent = 0
        try:
            with alignment_refusals():
                for chunk in chunks:
                    self._check_open()
                    sent += len(chunk) // COORDINATE_BYTES
                    yield chunk
        except InvalidMessage:
            # The alignment ends with its session, whose words say why.
            self._check_open()
            raise
        finally:
            _log.info("Sent %d blinded ids.", sent)
