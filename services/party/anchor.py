"""What notices that a party's state was put back from an older copy: the coordinator knows how far its ledgers were.

    1  the party writes     a count that must not be undone, on its own disk
    2  the coordinator      keeps how far that ledger is now
    3  the party answers    what it has counted

So a crash in between leaves the coordinator behind, and never the party. No local memory could notice it: an older copy
is a whole one.
"""

from dataclasses import dataclass
from typing import Protocol

from services.common.errors import OutOfOrder
from services.common.ledger_marks import LedgerMark
from services.common.state_folder import State, StateInMemory


class NotesLedgers(Protocol):
    """The coordinator, as an anchor needs it."""

    def note_ledger(self, session_id: str, mark: LedgerMark) -> LedgerMark:
        """Note how far a ledger of this party is, and return how far it is known to be."""


@dataclass(frozen=True)
class Anchor:
    """Anchors one ledger of a party at the coordinator.

    Attributes:
        coordinator: keeps how far it is.
        state: of the party; one that ends with its process can't be put back, and nothing is noted.
        party: the party's name.
        file: the ledger's, in its state folder.
        remedy: what its owner may do where the newest copy is lost, and what that forgets: the end of a sentence.
    """

    coordinator: NotesLedgers
    state: State
    party: str
    file: str
    remedy: str

    def note(self, session_id: str, mark: LedgerMark) -> None:
        """Note how far the ledger is, before it is written on and before what it counts is told.

        Marks are noted in the order of their writes: who writes in several threads holds its lock meanwhile.

        Raises:
            OutOfOrder: where this is an older copy of it, and where the coordinator is of an older release.
            PeerVanished: where the coordinator doesn't answer. What is counted isn't told then.
        """
        if isinstance(self.state, StateInMemory):
            return
        latest_mark = self.coordinator.note_ledger(session_id, mark)
        if mark.is_behind(latest_mark):
            raise OutOfOrder(
                f"{self.file} of {self.party}'s state is of an older copy: it has {mark}, and the coordinator knows of "
                f"{latest_mark}. What {self.party} has answered since isn't in it, so nothing more is answered. Put "
                "the newest copy of its state folder back (PLUMBLINE_STATE_DIR). Where that is lost, its owner may "
                f"{self.remedy}."
            )
