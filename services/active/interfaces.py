"""What the active party's job needs of the others, and what it tells its watcher."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from vfl.arrays import FloatArray
from vfl.data import BlindedIds
from vfl.learning.networks import DenseNetwork


class Coordinator(Protocol):
    """What the active party needs of the coordinator."""

    def open_session(self, plan: TrainingPlan, classes: int, passive_parties: tuple[str, ...]) -> str: ...

    def join_session(self, session_id: str, party: PartyDescription) -> Agreement: ...

    def score(self, session_id: str, request_id: int, products: FloatArray) -> FloatArray: ...

    def end_session(self, session_id: str, reason: str) -> None: ...


class PassiveParty(Protocol):
    """What the active party asks of a passive one."""

    def set_up_alignment(self, session_id: str, client_count: int) -> BlindedIds: ...
    def align(self, session_id: str, request: Iterable[bytes], client_count: int) -> BlindedIds: ...
    def fix_order(self, session_id: str, common_ids: Sequence[str]) -> None: ...
    def join(self, session_id: str) -> None: ...
    def show_public_key(self, session_id: str) -> None: ...
    def run_epoch(self, session_id: str, epoch: int) -> None: ...
    def finish_training(self, session_id: str, kept_epoch: int) -> None: ...
    def contribute_scores(self, session_id: str, request_id: int, rows: Sequence[int]) -> None: ...
    def disclose_parameters(self, session_id: str) -> DenseNetwork | None: ...
    def end_session(self, session_id: str, reason: str) -> None: ...


@dataclass(frozen=True)
class EpochOutcome:
    """One trained epoch; ``validation_loss`` in nats, NaN without validation rows."""

    epoch: int
    validation_loss: float
    seconds: float


@dataclass(frozen=True)
class JobOutcome:
    """A finished job; ``kept_epoch`` is the one whose weights every party kept."""

    session_id: str
    aligned_rows: int
    epochs_run: int
    kept_epoch: int


class JobObserver(Protocol):
    """Who watches a job: stages as they begin, steps and epochs as they end."""

    def stage(self, name: str) -> None: ...
    def step(self, done: int, planned: int) -> None: ...
    def epoch(self, outcome: EpochOutcome) -> None: ...
