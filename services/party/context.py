"""What one party's service has at hand: its own data and settings, its ways to the others, its records."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from services.ciphers.arithmetic import Arithmetic, EngineArithmetic
from services.common.agreement import Agreement, PartyDescription, ProposedTerms, TrainingPlan
from services.common.heartbeat import Heartbeat
from services.common.ledger_marks import LedgerMark
from services.common.scores import PartialScores, Products
from services.common.settings import Settings
from services.common.state_folder import State, StateInMemory
from services.exchange.peer import Peer
from services.party.anchor import Anchor
from services.party.equation_count import EQUATIONS, REMEDY, EquationCount
from services.party.features import PartyData
from services.party.party_defences import PartyDefences
from services.party.party_training import PartyTraining
from services.party.record import RunRecord
from services.party.side import Side, SideSetting
from services.watching.tally import Tally
from vfl.arrays import FloatArray, IntArray
from vfl.cores import Cores, OneCore
from vfl.crypto import Engine
from vfl.data.id_array import IdArray

# Is told how many attacks are over, of how many, and which is at work; empty behind the last.
TellsAttack: TypeAlias = Callable[[int, int, str], object]


def nobody_watches(done: int, planned: int, attack: str) -> None:
    """Tell nobody how far attacks have come."""


class Coordinator(Protocol):
    """What parties ask of the coordinator. Only the active party opens sessions and asks for scores."""

    def open_session(self, plan: TrainingPlan, classes: int, passive_parties: tuple[str, ...]) -> str:
        """Open a session, and return its id."""

    def session_terms(self, session_id: str) -> ProposedTerms:
        """Ask what a session of this party was opened with; raises OutOfOrder for one that there isn't."""

    def join_session(self, session_id: str, party: PartyDescription) -> Agreement:
        """Join a session, and return its terms when every party has joined."""

    def note_ledger(self, session_id: str, mark: LedgerMark) -> LedgerMark:
        """Note how far one of this party's ledgers is, and return how far it is known to be."""

    def submit_partial_scores(self, session_id: str, request_id: int, share: PartialScores) -> int:
        """Send a passive party's share of the scores of a request.

        Returns:
            How many shares of the session have come; 0 where scores aren't defended.
        """

    def score(self, session_id: str, request_id: int, products: Products) -> FloatArray:
        """Send the active party's share of a request, and return confidence scores, (rows, classes)."""

    def end_session(self, session_id: str, reason: str) -> None:
        """End a session. Who waits for it is told why."""

    def serve_model(self, session_id: str) -> None:
        """Have a session's model served from now on, in place of the one before."""

    def holds_model(self, session_id: str) -> bool:
        """Tell whether the coordinator would answer for a model; raises PeerVanished when it doesn't say so soon."""


class Adversary(Protocol):
    """What a party's own attacks on training do beside it; an honest party has one that is idle."""

    @property
    def is_idle(self) -> bool:
        """Whether no attack is switched on."""

    def seat(self, setting: SideSetting, make: Callable[[SideSetting], Side], ids: IdArray | None = None) -> Side:
        """Make the side that this party trains with, in one session or in what is left of it.

        Args:
            setting: what an honest one is made of.
            make: makes it.
            ids: of the aligned rows in order; None where no record is known beforehand.
        """

    def attack(
        self,
        training: PartyTraining,
        tell: TellsAttack = nobody_watches,
        *,
        records: IntArray | None = None,
        ids: IdArray | None = None,
    ) -> None:
        """Run every attack once training is over, and write what it found.

        Args:
            training: this party's part of it.
            tell: is told how far this has come.
            records: (aligned rows,), which row of the own table each is; None where no other session is looked at.
            ids: of the aligned rows in order; None where no record is known beforehand.
        """


@dataclass(frozen=True)
class PartyContext:
    """What a party works with in every session. It is made once, when its service starts.

    Attributes:
        name: the party's, as its certificate and the agreement state it.
        data: its own table, and what its columns become in a session.
        settings: its own, which have the last word on a session's security.
        coordinator: the way to the coordinator.
        peers: the ways to the other parties' messages, by name.
        record: what this party writes of a run.
        executor: threads for jobs, epochs and sends.
        adversary: the training attacks that this party mounts.
        defences: the defences that this party applies.
        heartbeats: the ways to ask the others whether they are there, by name. Who has none isn't watched.
        state: what it keeps across restarts.
        cores: processes of this party's own, for what holds the interpreter's lock. Its arithmetic has cores as well:
            these, or as many threads.
        engine: computes what is shared.
        arithmetic: computes Protocol 1's messages.
        tally: counts what this party answers.
    """

    name: str
    data: PartyData
    settings: Settings
    coordinator: Coordinator
    peers: Mapping[str, Peer]
    record: RunRecord
    executor: Executor
    adversary: Adversary
    defences: PartyDefences
    heartbeats: Mapping[str, Heartbeat] = field(default_factory=dict)
    state: State = field(default_factory=StateInMemory)
    cores: Cores = field(default_factory=OneCore)
    engine: Engine = field(default_factory=Engine)
    arithmetic: Arithmetic = field(default_factory=EngineArithmetic)
    tally: Tally = field(default_factory=Tally)

    def anchor(self, file: str, remedy: str) -> Anchor:
        """Make what anchors one of this party's ledgers; see ``Anchor`` for both."""
        return Anchor(self.coordinator, self.state, self.name, file, remedy)

    def equation_count(self, share: float) -> EquationCount:
        """Take up the count of what this party's records were answered, of which it allows so large a share."""
        refuses_first, note = self.settings.guard == "refuse", self.anchor(EQUATIONS, REMEDY).note
        return EquationCount(self.name, self.data, self.state, share, refuses_first=refuses_first, note=note)
