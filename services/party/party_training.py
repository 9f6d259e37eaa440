"""One party's training in one session: its weights and its epochs of Protocol 1. Knows no network."""

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from defences import DefenceError
from services.common.agreement import Agreement, check_steps
from services.common.errors import InvalidMessage, OutOfOrder, is_interruption, told
from services.common.learner_calls import LearnerCalls
from services.common.logs import log_context
from services.common.meters import StageTimer
from services.common.run_records import DefencePrediction
from services.common.state_folder import StateNotKept
from services.party.calibrating import calibrates
from services.party.party_model import PartyModel, check_linear, checked_rows, rows_of_plan
from services.party.resumption import Place, Resumption, check_interruptions, check_resumption
from services.party.side import SideSetting, run_step
from services.party.sides import begin_side, resumed_side
from services.party.training_means import TrainingMeans, check_kept_weights
from services.party.training_terms import training_terms
from services.protocol1.exchange import GradientExchange
from services.shared_weights.share_mailbox import ShareMailbox
from services.shared_weights.shared_serving import SharedPart
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Shares
from vfl.data import GriddedFeatures
from vfl.learning import BatchSchedule, BlockSchedule, Half, LinearPart, OwnData, Part, TrainingColumns
from vfl.learning.calibration import SLOPE_BITS, UNCALIBRATED, Calibration
from vfl.learning.networks import DenseNetwork

_log = logging.getLogger(__name__)

E = TypeVar("E", GradientExchange, ShareMailbox)

# That any training may have, unless its owner says how many.
_FEWEST_INTERRUPTIONS = 8


class PartyTraining:
    """Trains one party's weights under an agreement. Thread-safe.

    Attributes:
        agreement: the session's public terms.
        name: the party's name in it.
        rows: training, validation and test rows of the common order.
        gridded: (aligned rows, d) features on the grids of their columns; private to this party.
        side: its side of the plan's protocol.
        most_interruptions: after which it goes on.
        validated_loss: of the epoch that its side validated last, at the label party; NaN for none.
    """

    def __init__(
        self,
        agreement: Agreement,
        name: str,
        gridded: GriddedFeatures,
        labels: IntArray | None,
        means: TrainingMeans,
        installed: DenseNetwork | None = None,
        trained_labels: IntArray | None = None,
    ) -> None:
        """Make weights, keys and the exchange of party ``name``.

        Args:
            agreement: the session's public terms.
            name: the party's name in it.
            gridded: (aligned rows, d) features in the common order, on the grids of their columns; the active party's
                last column is the constant 1, its bias.
            labels: class indices, (aligned rows,); the active party's only.
            means: what the party trains with.
            installed: the party's part of a model that was trained elsewhere; then there is nothing to train.
            trained_labels: what is trained on in place of the labels, by which scores are judged; None for these.

        Raises:
            InvalidMessage: when a defence doesn't fit the terms.
            LearnerFailed: when the learner can't work with this data, such as an installed model of another table.
        """
        plan = agreement.plan
        self.agreement = agreement
        self.name = name
        features = gridded.values
        self._features = features
        self.gridded = gridded
        self._labels = labels
        self._learner = plan.family
        self._calls = calls = LearnerCalls(self._learner, means.timeout)
        self.rows = rows_of_plan(plan, len(features))
        check_steps(plan, len(self.rows.train))
        check_kept_weights(agreement, features.shape[1])
        own = OwnData(
            features.shape[1],
            labels if trained_labels is None else trained_labels,
            agreement.classes,
            agreement.total_features,
            means.generator,
            installed,
            parties=len(agreement.parties),
            trained=TrainingColumns(features, self.rows.train),
        )
        self._parts_after_epoch: list[Part | None] = []
        # Where weights stay shared, once training is over.
        self._frozen: SharedPart | None = None
        # What to go back to after every epoch that may be kept, until one is.
        self._states_after_epoch: dict[int, Any] = {}
        self.validated_loss = math.nan
        self._kept_epoch: int | None = None
        self._calibration = UNCALIBRATED
        self._others_constants: FloatArray | None = None
        self._epoch_runs = False
        self._ledger = means.ledger
        self._log, self._anchor, self._anchoring = means.log, means.anchor, threading.Lock()
        # The first that is still to be done, and those which nobody does.
        self._step = 0
        self._skipped: frozenset[int] = frozenset()
        self._lock = threading.Lock()
        self._tally = means.tally
        most = means.most_interruptions
        # By default as many as a short training may need on a bad line, and one an epoch of a long one.
        self.most_interruptions = max(_FEWEST_INTERRUPTIONS, plan.epochs) if most is None else most
        self._defences = means.defences
        self._terms = training_terms(agreement, name, features, len(self.rows.train))
        self._setting = SideSetting(
            agreement, name, gridded, self.rows.train, own, means, self._terms, calls, self._anchor_log
        )
        self.side = begin_side(self._setting)
        try:
            self._rehearse()
        except BaseException as error:
            self.exchange.end(told(error))
            raise
        if self._log.has_begun:
            self._take_up()
        elif self._learner.spec.trains:
            self._log.start(self.side.weights, self._carried)

    @property
    def half(self) -> Half:
        """The party's half of the learner."""
        return self.side.half

    @property
    def exchange(self) -> Any:
        """The party's messages, under the plan's protocol."""
        return self.side.exchange

    @property
    def schedule(self) -> BatchSchedule | BlockSchedule:
        """The public order of batches."""
        return self.side.schedule

    def exchange_as(self, kind: type[E]) -> E:
        """Give the exchange, for messages of its protocol; raises OutOfOrder for those of another."""
        if not isinstance(self.exchange, kind):
            raise OutOfOrder(f"This session is protocol={self.agreement.plan.protocol}, which has no such message.")
        return self.exchange

    def show_public_key(self) -> None:
        """Send this party's public key to those who need it."""
        self.side.show_public_key()

    @property
    def _trained(self) -> bool:
        return not self._learner.spec.trains or self._kept_epoch is not None

    def run_epoch(self, epoch: int, on_step: Callable[[int, StageTimer], None], attempt: int | None = None) -> None:
        """Train epoch ``epoch`` (from 0, in order), calling ``on_step(step, seconds by stage)`` after each step.

        Whatever goes wrong ends the session, because the parties' weights would drift apart. An epoch of another try
        than the one at work is refused; None stands for this one.
        """
        with self._lock:
            if attempt is not None and attempt != self._log.attempt:
                raise OutOfOrder(
                    f"{self.name} is in try {self._log.attempt} of this training, and is asked for an epoch of try "
                    f"{attempt}: stop the training, and go on from where all parties are."
                )
            if epoch != len(self._parts_after_epoch) or epoch >= self.agreement.plan.epochs:
                raise OutOfOrder(f"Epoch {epoch} is out of order: {len(self._parts_after_epoch)} are done.")
            self._epoch_runs = True
            try:
                self.side.begin_epoch()
                for index, batch in enumerate(self.schedule.epoch(epoch)):
                    step = epoch * self.schedule.steps_per_epoch + index
                    if step < self._step:
                        continue
                    with log_context(session=self.agreement.session_id, step=step):
                        on_step(step, self._run_step(step, batch))
                self._end_epoch(epoch)
            except BaseException as error:
                if self.can_wait and is_interruption(error):
                    self.suspend(told(error))
                else:
                    self.exchange.end(f"{self.name} stopped in epoch {epoch}: {told(error)}")
                raise
            finally:
                self._epoch_runs = False
            self._parts_after_epoch.append(self._part_now)
            self._keep_part(epoch)

    # -- interruptions ---------------------------------------------------------------------------------------------

    @property
    def can_wait(self) -> bool:
        """Whether this training goes on after an interruption. Not when shared weights are about to be opened."""
        steps = self.schedule.steps_per_epoch * self.agreement.plan.epochs
        return self._log.is_kept and not self.is_over and not (self.side.is_shared and self._step >= steps)

    @property
    def epochs_done(self) -> int:
        """Epochs whose steps are all completed."""
        return len(self._parts_after_epoch)

    @property
    def skipped_steps(self) -> tuple[int, ...]:
        """Steps that all parties have passed over, since one had lost the mask of what it was answered."""
        return self._log.skipped

    @property
    def attempt(self) -> int:
        """Which try of the training this is: 0 until it was interrupted."""
        return self._log.attempt

    @property
    def interruptions(self) -> Mapping[str, int]:
        """How often it has gone on after an interruption, by the party that had this one go back."""
        return self._log.interruptions

    @property
    def waited(self) -> float:
        """Seconds that it has waited for other parties, in all interruptions before this one."""
        return self._log.waited

    def suspend(self, reason: str) -> None:
        """Stop the step at work: whoever waits for this party, or asks it, is told ``reason``."""
        self.exchange.suspend(reason)

    def place(self) -> Place:
        """Tell how far this party is, once its loop has stopped and nothing that it has forwarded is on its way.

        Raises:
            OutOfOrder: where the training can't go on after an interruption, as when its last step is done by now and
                weights are about to be opened.
        """
        with self._lock:
            self._check_waits()
            return self._log.place(self.side.asked())

    def _anchor_log(self) -> None:
        """Have what was answered known outside this party; raises OutOfOrder where an older copy was put back."""
        # In the order of its writes: one that is noted behind a later one would look like an older copy.
        with self._anchoring:
            if (mark := self._log.mark) is not None:
                self._anchor(mark)

    def _check_waits(self) -> None:
        if not (self.can_wait or self.is_over):
            why = "its steps are all taken, and weights are about to be opened: train again"
            if not self._log.is_kept:
                why = "it waits for nobody (PLUMBLINE_RESUME_WITHIN)"
            raise OutOfOrder(f"{self.name}'s training can't go on after an interruption: {why}.")

    def resume(
        self,
        resumption: Resumption,
        by: str,
        *,
        waited: float = 0.0,
        count_again: Callable[[int], object] = lambda _: None,
    ) -> None:
        """Go back to where all parties can go on, with a new key. ``run_epoch`` goes on from there.

        What is refused changes nothing: neither in this process nor on disk.

        Args:
            resumption: where that is.
            by: the party that has this one go back.
            waited: seconds that this party has waited in this interruption.
            count_again: counts, before anything is forwarded again, how many steps' products the label party may then
                have seen once more, in all, of weights that it has a share in. May refuse.

        Raises:
            OutOfOrder: for a place from which this party can't go on, and after more interruptions than it allows.
        """
        with self._lock:
            self._check_waits()
            check_resumption(
                resumption,
                self._log.place(self.side.asked()),
                kept=self._log.steps_kept,
                steps_per_epoch=self.schedule.steps_per_epoch,
                skipped=len(self._log.skipped),
            )
            if self.is_over:
                return
            check_interruptions(self._log.interruptions, by, self.most_interruptions)
            self._anchor_log()
            side = resumed_side(self._setting, self.side, resumption)
            if side.counts_redone:
                count_again(self._log.redone_from(resumption.step))
            self._tally.interrupted(by, self.agreement.session_id)
            self._log.go_on(resumption, by=by, waited=waited, anew=side.is_shared)
            self._step, self._skipped = resumption.step, resumption.skipped
            self.side = side
            self._stand_at(resumption.step)

    def forget(self) -> None:
        """Keep nothing of it: it is over, or has ended."""
        with suppress(StateNotKept):  # it is in the log, and the next training tries again
            self._log.forget()

    def _take_up(self) -> None:
        """Stand where the process before this one was, and wait for ``resume``."""
        self._step = self._log.completed
        kept = {epoch: self._calls.read_part(arrays) for epoch, arrays in self._log.parts.items()}
        before = (self._step - 1) // self.schedule.steps_per_epoch
        self._parts_after_epoch = [kept.get(epoch) for epoch in range(before)]
        self._stand_at(self._step)
        self.suspend(f"{self.name} has started again.")

    def _stand_at(self, step: int) -> None:
        """Take up the weights after so many steps, with the parts of the epochs before."""
        self._calls.set_weights(self.half, self._log.weights(step), self._log.carried(step))
        done = step // self.schedule.steps_per_epoch
        del self._parts_after_epoch[done:]
        if len(self._parts_after_epoch) < done:
            # Its last step was completed, and nothing behind it.
            self._parts_after_epoch.append(self._part_now)
            self._keep_part(done - 1)

    def _keep_part(self, epoch: int) -> None:
        """Keep an epoch's part, where the epoch may be gone back to."""
        part = self._parts_after_epoch[epoch]
        if self.can_wait and part is not None and self.agreement.plan.patience and self.agreement.validates(epoch):
            self._log.keep_part(epoch, part.arrays())

    def _end_epoch(self, epoch: int) -> None:
        """Validate it, or end training after the last one; where epochs are validated, one is chosen first."""
        if not self.side.is_shared:
            return
        if not self.agreement.validates_on_shares:
            if epoch == self.agreement.plan.epochs - 1:
                self._end_sharing()
        elif self.agreement.validates(epoch):
            loss = self.side.validate((epoch + 1) * self.schedule.steps_per_epoch)
            self.validated_loss = math.nan if loss is None else loss
            self._states_after_epoch[epoch] = self.side.state

    def _end_sharing(self) -> None:
        """Open the weights, or freeze them as they are shared; then nothing is left of the shares of earlier epochs."""
        self._frozen = self.side.finish()
        self.forget()
        self._parts_after_epoch = [self._part for _ in self._parts_after_epoch]

    @property
    def _kept_part(self) -> Part:
        return (None if self._kept_epoch is None else self._parts_after_epoch[self._kept_epoch]) or self._part

    @property
    def _part(self) -> Part:
        return self._frozen or self._calls.part(self.half.part)

    @property
    def _part_now(self) -> Part | None:
        """The part as it stands. Of shares no learner makes one: there is one when they are opened, or frozen."""
        return None if isinstance(self.half.weights, Shares) else self._part

    def keep_epoch(self, epoch: int, calibration: Calibration = UNCALIBRATED) -> None:
        """Go back to the weights after ``epoch``, calibrate them and end training. The same again changes nothing.

        Raises:
            InvalidMessage: for an epoch that wasn't run, and for a slope in a session that isn't calibrated.
            OutOfOrder: while an epoch runs, for one that isn't validated, and for another one than the first time.
                Scores and disclosed parameters are of one model.
            PeerVanished: where weights are opened only now, and a peer's word of them doesn't come.
        """
        if self._epoch_runs:
            raise OutOfOrder("An epoch is being trained: training ends when it is over.")
        with self._lock:
            if not 0 <= epoch < len(self._parts_after_epoch):
                raise InvalidMessage(f"Epoch {epoch} was not run: {len(self._parts_after_epoch)} were.")
            if not self.agreement.validates(epoch):
                # Another one would be one more answer about the validation records than was agreed on.
                raise OutOfOrder(f"Epoch {epoch} is none of those whose model may be kept: they are validated.")
            if calibration != UNCALIBRATED and not calibrates(self.agreement):
                raise InvalidMessage("The scores of this session aren't calibrated: weights stay as they were trained.")
            if self._kept_epoch is not None:
                if self._kept_epoch != epoch:
                    raise OutOfOrder(f"Training has ended with epoch {self._kept_epoch}: open another session.")
                if self._calibration != calibration:
                    # Another one would be another model, and tell more of the validation records' labels.
                    raise OutOfOrder("Training has ended with another slope: open another session.")
                return
            if self.agreement.validates_on_shares:
                self._open_epoch(epoch)
            self._kept_epoch, self._calibration = epoch, calibration
            self.exchange.end("training is complete.")
        for remark in self.remarks:
            _log.warning("%s", remark)

    def _open_epoch(self, epoch: int) -> None:
        """Go back to the shares after an epoch, and open them; those of others are forgotten."""
        try:
            self.side.restore(self._states_after_epoch[epoch])
            self._end_sharing()
        except BaseException as error:
            self.exchange.end(f"{self.name} stopped at the opening: {told(error)}")
            raise
        self._states_after_epoch.clear()

    @property
    def constants(self) -> tuple[float, ...]:
        """What this party's products had added while its columns were centred, in the part that it keeps."""
        part = self._kept_part
        constant = part.constant if isinstance(part, LinearPart) else None
        return () if constant is None else tuple(constant.tolist())

    def take_constants(self, told: Sequence[tuple[float, ...]]) -> None:
        """Take what the other parties' products had added to them, at the label party, whose bias it goes to.

        Raises:
            InvalidMessage: for others than a finite number for each column of the weights, where columns were centred.
        """
        if not any(told):
            return
        expected = (len(told), self.agreement.residual_columns)
        if {len(one) for one in told} != {expected[1]} or not np.isfinite(told).all():
            raise InvalidMessage(f"Expected a number for each of {expected[1]} columns of weights from every party.")
        self._others_constants = np.sum(told, axis=0)

    def count_slope(self) -> None:
        """Count, at the label party of opened weights, what a slope tells of its labels, before the others are told.

        Raises:
            StateNotKept: where it couldn't be counted. Nothing may be told then.
        """
        if self.agreement.plan.shares_weights and calibrates(self.agreement):
            told = dict.fromkeys((peer.name for peer in self.agreement.peers_of(self.name)), SLOPE_BITS)
            self._ledger.count(f"{self.agreement.session_id} slope", told)

    @property
    def model(self) -> PartyModel:
        """This party's share of the model, as it stands; where weights are shared, once they are opened."""
        kept, part = self._kept_epoch, self._kept_part
        epochs = len(self._parts_after_epoch) if kept is None else kept + 1
        if kept is not None and isinstance(part, LinearPart):
            part = part.trained(self._others_constants)
        own = self.agreement, self.name, self._features
        if self._calibration == UNCALIBRATED:
            return PartyModel(*own, part, epochs, self._log.token_key, self._labels)
        calibrated = self._calibration.part_of(part)
        return PartyModel(*own, calibrated, epochs, self._log.token_key, self._labels, part)

    def model_for(self, rows: Sequence[int]) -> PartyModel:
        """Give the model, as it stands, that scores of these rows of the common order are of.

        Until training ends there are scores between epochs only, and of validation rows only. Scores of every step
        would tell of a record what asking for it again and again would.

        Raises:
            InvalidMessage: for no row, or one that isn't aligned.
            OutOfOrder: for other rows than validation ones before training has ended.
        """
        with self._lock:
            return self._model_for(rows)

    def _model_for(self, rows: Sequence[int]) -> PartyModel:
        indices = checked_rows(rows, len(self._features))
        if not self._trained:
            if not np.isin(indices, self.rows.validation).all():
                raise OutOfOrder("Training goes on: until it ends, only validation records are scored.")
            if self.agreement.validates_on_shares:
                raise OutOfOrder("Training goes on on shares: until it ends, no record is scored.")
            if self._step != len(self._parts_after_epoch) * self.schedule.steps_per_epoch:
                # As an interruption leaves it: who stops where it likes would choose whose weights answer.
                raise OutOfOrder("An epoch is interrupted in its midst: validation records are scored between epochs.")
            if not self.agreement.validates(len(self._parts_after_epoch) - 1):
                raise OutOfOrder(
                    f"Validation records are scored in {self.agreement.validated_epochs} of "
                    f"{self.agreement.plan.epochs} epochs, and not in this one."
                )
        return self.model

    @property
    def is_over(self) -> bool:
        """Whether the model of one epoch was kept, so that ``model_for`` gives it for any record."""
        return self._kept_epoch is not None

    @property
    def predictions(self) -> list[DefencePrediction]:
        """What theory expects of this party's defences in this session."""
        return self._defences.predictions(self._terms) if self._learner.spec.trains else []

    @property
    def remarks(self) -> list[str]:
        """What doesn't hold after this training, as far as this party sees: promises of defences, a range."""
        said = self._defences.remarks(self._log.largest_norm, self._terms) if self._learner.spec.trains else []
        if self.side.left_range or self._log.left_range:
            said.append(
                "Sums of the first layer, or the backward signal, came near what backward=shared holds of them or left "
                "it: the model may be wrong. Lower learning_rate, or raise residual_integer_bits."
            )
        return said

    def _run_step(self, step: int, batch: IntArray) -> StageTimer:
        timer = run_step(self.side, self._calls, step, batch)
        with timer.stage("update"):
            # First: nobody may see this party in the next step before it would find itself there.
            self._log.left_range |= self.side.left_range
            self._log.complete(step, self.side.weights, self._carried, is_skipped=step in self._skipped)
            self.side.complete_step(step)
            self._step = step + 1
        return timer

    @property
    def _carried(self) -> Mapping[str, Any] | None:
        return self._calls.carried(self.half) if self._log.is_kept else None

    def _rehearse(self) -> None:
        """Raise InvalidMessage now for defences that would fail under these terms, or with this data, later.

        And LearnerFailed for a learner that calibrates what can't be scaled.
        """
        try:
            if self._learner.spec.trains:
                self._defences.check(self._terms)
            if self._calls.calibrates() and not self.side.is_shared and self._part.class_rows is None:
                raise self._calls.refused("calibrates scores, and its part has no class rows")
            if self._defences.distorts_parameters:
                check_linear(self.model.part, self._defences)
                self._defences.disclose(np.zeros((self.agreement.classes, self._features.shape[1])), self._features)
        except DefenceError as error:
            raise InvalidMessage(f"{self.name}: {error}") from error
