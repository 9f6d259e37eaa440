"""What the active party's job asks of a passive party, and what it tells its watcher."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from services.common.roster import Roster
from services.party.resumption import Place, Resumption
from vfl.data import BlindedIds
from vfl.data.id_array import IdArray


@dataclass(frozen=True)
class ToldBatches:
    """What passive parties are told of batches with the order of rows; nothing in a first session.

    Attributes:
        key: of records' names, for who has forgotten it.
        roster: how many records are in each batch; None where they are as the public seed drew them.
    """

    key: bytes = b""
    roster: Roster | None = None


class PassiveParty(Protocol):
    """What the active party asks of a passive one."""

    def set_up_alignment(self, session_id: str, client_count: int) -> BlindedIds:
        """Begin a session by private set intersection; returns the party's blinded ids."""

    def align(self, session_id: str, request: Iterable[bytes], client_count: int) -> BlindedIds:
        """Send this party's blinded ids; returns them under the party's key as well."""

    def toss(self, session_id: str, commitments: Sequence[bytes] = (), contributions: Sequence[bytes] = ()) -> bytes:
        """Toss for the key of records' names: returns a commitment, for those of all the contribution, then nothing."""

    def fix_order(self, session_id: str, common_ids: IdArray, told: ToldBatches) -> None:
        """Send the common ids in the order of rows that every party takes, and in which batch each is."""

    def join(self, session_id: str) -> None:
        """Have the party join the session; returns when it has its terms and its key."""

    def show_public_key(self, session_id: str) -> None:
        """Have the party send its public key to every peer."""

    def run_epoch(self, session_id: str, epoch: int, steps: int, first: int = 0, attempt: int = 0) -> None:
        """Have the party train one epoch of so many steps, from step ``first`` of all on; returns when it is done.

        ``attempt`` is the try of the training that it belongs to.
        """

    def stop_training(self, session_id: str) -> Place:
        """Have the party stop after an interruption; returns how far it is."""

    def resume_training(self, session_id: str, resumption: Resumption) -> None:
        """Have the party go on from a step that all have, with a new key."""

    def finish_training(self, session_id: str, kept_epoch: int, slope_step: int = 0) -> tuple[float, ...]:
        """Have the party keep the weights of one epoch, scaled where scores are calibrated, and end its training.

        Returns what its products had added while columns were centred; empty where they weren't.
        """

    def contribute_scores(self, session_id: str, request_id: int, rows: Sequence[int], masked: bytes = b"") -> bytes:
        """Have the party send its partial scores of some rows to the coordinator.

        Where weights stay shared, it takes this party's masked products if it holds its V, and returns its own.
        """

    def disclose_parameters(self, session_id: str) -> Mapping[str, NDArray[Any]] | None:
        """Ask for the arrays of the party's part of the model; None when it discloses nothing (black box)."""

    def end_session(self, session_id: str, reason: str) -> None:
        """Tell the party that the session has ended, and why."""

    def serve_model(self, session_id: str) -> None:
        """Have the party answer with a session's model from now on, in place of the one before."""

    def holds_model(self, session_id: str) -> bool:
        """Tell whether the party would answer for a session's model; raises PeerVanished when it says nothing soon."""


@dataclass(frozen=True)
class EpochOutcome:
    """One trained epoch.

    Attributes:
        epoch: from 0.
        validation_loss: in nats; NaN where the epoch wasn't validated.
        seconds: of the training steps, by the wall clock.
    """

    epoch: int
    validation_loss: float
    seconds: float


@dataclass(frozen=True)
class JobOutcome:
    """A finished job.

    Attributes:
        session_id: the session that it trained in.
        aligned_rows: records that every party holds.
        epochs_run: all of the plan's, or fewer by early stopping.
        kept_epoch: whose weights every party kept, from 0.
    """

    session_id: str
    aligned_rows: int
    epochs_run: int
    kept_epoch: int


class JobObserver(Protocol):
    """Watches a job: stages as they begin, steps and epochs as they end."""

    def stage(self, name: str) -> None:
        """Begin a stage."""

    def step(self, done: int, planned: int, what: str = "") -> None:
        """``done`` of ``planned`` ids, steps or attacks of the stage are over; ``what``: the attack at work."""

    def epoch(self, outcome: EpochOutcome) -> None:
        """Note that an epoch is over."""
