"""What sides have in common whose party knows its weights at any time: a protocol's own derives from it."""

from typing import Any

from services.party.side import SideSetting
from services.party.turned_columns import Turn
from vfl.arrays import FloatArray
from vfl.learning import BatchSchedule, Half, Part


class KnownSide:
    """A party's side with its half of the learner, its batches, and nothing to do between steps.

    Attributes:
        setting: the session.
        half: the party's half of the learner.
        features: (aligned rows, d) on the grids of their columns.
        exchange: the party's messages; made by the side that derives from this.
    """

    goes_back_anew = counts_redone = left_range = has_ended = False
    validated_loss: float | None = None
    sent_step: float | None = None
    turn = Turn()
    exchange: Any

    def __init__(self, setting: SideSetting, half: Half | None = None) -> None:
        """Begin a half, or go on with one; raises LearnerFailed when the learner can't work with this data."""
        self.setting = setting
        self.features = setting.gridded.values
        self.half = setting.calls.begin(setting.own) if half is None else half
        self._schedule = setting.agreement.plan.schedule(setting.train_rows)

    @property
    def schedule(self) -> BatchSchedule:
        """The public batches."""
        return self._schedule

    @property
    def steps(self) -> int:
        """How many steps the session has."""
        return self._schedule.steps_per_epoch * self.setting.agreement.plan.epochs

    @property
    def weights(self) -> FloatArray:
        """(d, columns), as they stand."""
        return self.setting.calls.weights(self.half, self.features.shape[1]).copy()

    @property
    def part(self) -> Part:
        """The part as it stands."""
        return self.setting.calls.part(self.half.part)

    def tell(self, peer: str, kind: str, count: int) -> None:
        """Count what a peer is told."""
        self.setting.means.tally.answered(peer, kind, count, self.setting.agreement.session_id)

    def show_public_key(self) -> None:
        """Show none."""

    def begin_epoch(self) -> None:
        """Wait for nothing."""

    def complete_step(self, step: int) -> None:
        """Let peers go on behind a step."""
        self.exchange.complete_step(step)

    def end_epoch(self, epoch: int) -> None:
        """Validate nothing: scores of validation rows are asked for as any others."""

    def must_end(self, step: int) -> bool:
        """Never: a party's weights are its own at any time."""
        return False

    def keep(self, epoch: int) -> None:
        """End nothing: the half has its weights."""

    def asked(self) -> frozenset[str]:
        """Name no peer: nothing is asked twice."""
        return frozenset()
