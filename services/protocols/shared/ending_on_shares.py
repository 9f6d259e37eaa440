"""How a training on shared weights ends: after its last epoch, or after one that is chosen by losses on shares."""

import math
from abc import ABC, abstractmethod
from typing import Any

from services.common.agreement import Agreement
from services.common.learner_calls import LearnerCalls
from services.protocols.shared.opening import validates_on_shares
from services.protocols.shared.shared_serving import SharedPart
from vfl.crypto.sharing.shares import Shares
from vfl.learning import BatchSchedule, BlockSchedule, Half, Part


class EndingOnShares(ABC):
    """The end of a side on shared weights, which its steps are added to.

    Attributes:
        half: the party's half of the learner.
        has_ended: whether weights are opened, or frozen as they are shared. Then nothing is left of shares before.
        validated_loss: of the epoch that was validated last, at the label party; None where scores tell it.
    """

    half: Half
    goes_back_anew = True
    sent_step: float | None = None

    def __init__(self, agreement: Agreement, calls: LearnerCalls) -> None:
        self._agreement, self._calls = agreement, calls
        self.has_ended, self.validated_loss = False, None if not validates_on_shares(agreement) else math.nan
        self._frozen: SharedPart | None = None
        # What to go back to after every epoch that may be kept, until one is.
        self._states: dict[int, Any] = {}

    @property
    @abstractmethod
    def schedule(self) -> BatchSchedule | BlockSchedule:
        """The public order of batches."""

    @property
    @abstractmethod
    def state(self) -> Any:
        """What to go back to after an epoch that was validated."""

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Go back to what ``state`` was."""

    @abstractmethod
    def validate(self, step: int) -> float | None:
        """After so many steps, the loss of validation rows at the label party; None elsewhere."""

    @abstractmethod
    def finish(self) -> SharedPart | None:
        """End training: the half has its weights from here on, or the part is served as it is shared."""

    def must_end(self, step: int) -> bool:
        """Tell whether all steps are taken: weights are about to be opened, and nobody goes back from there."""
        return step >= self.schedule.steps_per_epoch * self._agreement.plan.epochs

    def end_epoch(self, epoch: int) -> None:
        """Validate it, or end training after the last one; where epochs are validated, one is chosen first."""
        if self.validated_loss is None:
            if epoch == self._agreement.plan.epochs - 1:
                self._end()
        elif self._agreement.validates(epoch):
            loss = self.validate((epoch + 1) * self.schedule.steps_per_epoch)
            self.validated_loss = math.nan if loss is None else loss
            self._states[epoch] = self.state

    def keep(self, epoch: int) -> None:
        """Go back to the shares after an epoch, and end training by them; those of others are forgotten."""
        if not self.has_ended:
            self.restore(self._states[epoch])
            self._end()
            self._states.clear()

    def _end(self) -> None:
        self._frozen = self.finish()
        self.has_ended = True

    @property
    def part(self) -> Part | None:
        """The part as it stands. Of shares no learner makes one: there is one when they are opened, or frozen."""
        if self._frozen is not None:
            return self._frozen
        return None if isinstance(self.half.weights, Shares) else self._calls.part(self.half.part)
