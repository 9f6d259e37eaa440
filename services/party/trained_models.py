"""The models of a training at one party: one after each epoch, of which one is kept, and calibrated."""

from collections.abc import Callable, Sequence

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.learner_calls import LearnerCalls
from services.party.calibrating import calibrates
from services.party.party_model import PartyModel
from services.party.training_log import TrainingLog
from vfl.arrays import FloatArray, IntArray
from vfl.learning import LinearPart, Part
from vfl.learning.calibration import UNCALIBRATED, Calibration


class TrainedModels:
    """What a training's epochs have left at a party. Not thread-safe: the training holds its lock.

    Attributes:
        epochs: how many are done.
        kept_epoch: whose model is kept; None until training ends.
        calibration: of the kept model's scores.
    """

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        features: FloatArray,
        labels: IntArray | None,
        log: TrainingLog,
        now: Callable[[], Part],
    ) -> None:
        """Begin with no epoch.

        Args:
            agreement: the session's public terms.
            name: the party's.
            features: (aligned rows, d), its own.
            labels: class indices of the aligned rows; the active party's only.
            log: where parts are kept that may be gone back to.
            now: makes the part of the weights as they stand.
        """
        self.kept_epoch: int | None = None
        self.calibration = UNCALIBRATED
        self._agreement, self._log = agreement, log
        self._of_party = agreement, name, features
        self._labels, self._now = labels, now
        self._others_constants: FloatArray | None = None
        # After each epoch; None for one whose weights nobody has.
        self._parts: list[Part | None] = []

    @property
    def epochs(self) -> int:
        """How many are done."""
        return len(self._parts)

    def take_up(self, epochs: int, calls: LearnerCalls) -> None:
        """Take the parts of so many epochs from the log, where a process before this one has kept them."""
        read = self._agreement.serving.read_part
        parts = {epoch: read(arrays, calls.read_part) for epoch, arrays in self._log.parts.items()}
        self._parts = [parts.get(epoch) for epoch in range(epochs)]

    def go_back(self, epochs: int) -> None:
        """Forget the epochs behind so many."""
        del self._parts[epochs:]

    def add(self, part: Part | None, *, keeps: bool) -> None:
        """Add an epoch's part; it is kept for the process after this one where the epoch may be gone back to."""
        epoch = len(self._parts)
        self._parts.append(part)
        if keeps and part is not None and self._agreement.plan.patience and self._agreement.validates(epoch):
            self._log.keep_part(epoch, part.arrays())

    def have(self, part: Part | None) -> None:
        """Have all epochs end with one part: no other is left."""
        self._parts = [part for _ in self._parts]

    def check_may_keep(self, epoch: int) -> None:
        """Refuse to keep an epoch's model that no party may keep; raises InvalidMessage or OutOfOrder."""
        if not 0 <= epoch < len(self._parts):
            raise InvalidMessage(f"Epoch {epoch} was not run: {len(self._parts)} were.")
        if not self._agreement.validates(epoch):
            # Another one would be one more answer about the validation records than was agreed on.
            raise OutOfOrder(f"Epoch {epoch} is none of those whose model may be kept: they are validated.")

    def check_calibration(self, epoch: int, calibration: Calibration) -> None:
        """Refuse another model than the one that is kept, and a slope in a session without; raises as before."""
        if calibration != UNCALIBRATED and not calibrates(self._agreement):
            raise InvalidMessage("The scores of this session aren't calibrated: weights stay as they were trained.")
        if self.kept_epoch not in (None, epoch):
            raise OutOfOrder(f"Training has ended with epoch {self.kept_epoch}: open another session.")
        if self.kept_epoch is not None and self.calibration != calibration:
            # Another one would be another model, and tell more of the validation records' labels.
            raise OutOfOrder("Training has ended with another slope: open another session.")

    def check_validated(self, step: int, steps_per_epoch: int) -> None:
        """Refuse to score validation records but behind an epoch that is validated; raises OutOfOrder."""
        if step != len(self._parts) * steps_per_epoch:
            # As an interruption leaves it: who stops where it likes would choose whose weights answer.
            raise OutOfOrder("An epoch is interrupted in its midst: validation records are scored between epochs.")
        if not self._agreement.validates(len(self._parts) - 1):
            raise OutOfOrder(
                f"Validation records are scored in {self._agreement.validated_epochs} of {self._agreement.plan.epochs} "
                "epochs, and not in this one."
            )

    def keep(self, epoch: int, calibration: Calibration) -> None:
        """Keep the model after an epoch."""
        self.kept_epoch, self.calibration = epoch, calibration

    @property
    def part(self) -> Part:
        """The kept part, or the part as it is now."""
        return (None if self.kept_epoch is None else self._parts[self.kept_epoch]) or self._now()

    @property
    def constants(self) -> tuple[float, ...]:
        """What the party's products had added while its columns were centred, in the part that it keeps."""
        part = self.part
        constant = part.constant if isinstance(part, LinearPart) else None
        return () if constant is None else tuple(constant.tolist())

    def take_constants(self, constants: Sequence[tuple[float, ...]]) -> None:
        """Take what the other parties' products had added to them, at the label party, whose bias it goes to.

        Raises:
            InvalidMessage: for others than a finite number for each column of the weights, where columns were centred.
        """
        if not any(constants):
            return
        columns = self._agreement.residual_columns
        if {len(values) for values in constants} != {columns} or not np.isfinite(constants).all():
            raise InvalidMessage(f"Expected a number for each of {columns} columns of weights from every party.")
        self._others_constants = np.sum(constants, axis=0)

    @property
    def model(self) -> PartyModel:
        """This party's model, of the kept part or of the part as it is now."""
        kept_epoch, part = self.kept_epoch, self.part
        epochs = len(self._parts) if kept_epoch is None else kept_epoch + 1
        if kept_epoch is not None and isinstance(part, LinearPart):
            part = part.trained(self._others_constants)
        if self.calibration == UNCALIBRATED:
            return PartyModel(*self._of_party, part, epochs, self._log.token_key, self._labels)
        calibrated = self.calibration.part_of(part)
        return PartyModel(*self._of_party, calibrated, epochs, self._log.token_key, self._labels, part)
