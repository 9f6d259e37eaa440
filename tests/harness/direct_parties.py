"""The coordinator and the parties as another party in the same process reaches them: by their state machines.

A servicer tells a state machine who calls, from the connection's certificate; here whoever holds the link does.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from services.active.interfaces import ToldBatches
from services.common.errors import OutOfOrder
from services.common.identity import Identity, Role
from services.coordinator.sessions import Sessions
from services.in_process.direct_peers import DirectPeer
from services.in_process.wired_trainings import ignore_step
from services.passive.party import PassiveParty
from vfl.data import BlindedIds
from vfl.data.id_array import IdArray


def _called(machine: str, name: str) -> Callable[..., Any]:
    """Make the method that calls the one of this name of a state machine, with the caller first."""

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(getattr(self, machine), name)(self.caller, *arguments, **named)

    return call


@dataclass(frozen=True)
class DirectCoordinator:
    """The coordinator as one party sees it (`services.party.context.Coordinator`)."""

    sessions: Sessions
    caller: Identity

    open_session = _called("sessions", "open")
    session_terms = _called("sessions", "terms")
    join_session = _called("sessions", "join")
    note_ledger = _called("sessions", "note_ledger")
    submit_partial_scores = _called("sessions", "submit")
    score = _called("sessions", "score")
    end_session = _called("sessions", "end")
    serve_model = _called("sessions", "serve")

    def holds_model(self, session_id: str) -> bool:
        """Ask whether it would answer for a model."""
        return self.sessions.holds_model(session_id)


@dataclass(frozen=True)
class DirectPassive:
    """A passive party as the active party sees it (`services.active.interfaces.PassiveParty`)."""

    party: PassiveParty
    caller: Identity = Identity(Role.ACTIVE, str(Role.ACTIVE))  # noqa: RUF009 - immutable

    set_up_alignment = _called("party", "set_up_alignment")
    join = _called("party", "join")
    show_public_key = _called("party", "show_public_key")
    stop_training = _called("party", "stop_training")
    resume_training = _called("party", "resume_training")
    finish_training = _called("party", "finish_training")
    contribute_scores = _called("party", "contribute_scores")
    end_session = _called("party", "end_session")
    serve_model = _called("party", "serve_model")

    def align(self, session_id: str, request: Iterable[bytes], client_count: int) -> BlindedIds:
        """Send blinded ids; they come back under the party's key as well."""
        return BlindedIds(client_count, self.party.align(self.caller, session_id, request))

    def toss(self, session_id: str, commitments: Sequence[bytes] = (), contributions: Sequence[bytes] = ()) -> bytes:
        """Toss for the key of records' names."""
        return self.party.toss(self.caller, session_id, commitments, contributions)

    def fix_order(self, session_id: str, common_ids: IdArray, told: ToldBatches) -> None:
        """Send the common ids, in one part."""
        self.party.fix_order(self.caller, session_id, [common_ids], told.roster, told.key)

    def run_epoch(self, session_id: str, epoch: int, steps: int, first: int = 0, attempt: int = 0) -> None:
        """Have the party train an epoch."""
        self.party.run_epoch(self.caller, session_id, epoch, ignore_step, attempt)

    def disclose_parameters(self, session_id: str) -> Mapping[str, NDArray[Any]] | None:
        """Ask for its part's arrays; None from a party that keeps its parameters to itself."""
        with suppress(OutOfOrder):
            return self.party.disclose_parameters(self.caller, session_id).arrays()
        return None

    def holds_model(self, session_id: str) -> bool:
        """Ask whether it would answer for a model."""
        return self.party.holds_model(session_id)


def ways_of(name: str, others: Sequence[str], sessions: Sessions, find: Callable[[str], Any]) -> dict[str, Any]:
    """Give a party's ways to the coordinator and to its peers, as `PartyContext` takes them.

    Args:
        name: the party's.
        others: the other parties'.
        sessions: the coordinator's.
        find: gives a party that runs by its name, or raises PeerVanished.
    """

    def peer(other: str) -> DirectPeer:
        return DirectPeer(name, lambda session_id: find(other).exchange_of(session_id))

    role = Role.ACTIVE if name == Role.ACTIVE else Role.PASSIVE
    peers = {other: peer(other) for other in others}
    coordinator = DirectCoordinator(sessions, Identity(role, name))
    return {"coordinator": coordinator, "peers": peers}
