"""One party's training in one session: its weights and its epochs of Protocol 1. Knows no network."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from defences import DefenceError
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage, OutOfOrder, is_interruption, told
from services.common.learner_calls import LearnerCalls
from services.common.logs import log_context
from services.common.meters import StageTimer
from services.common.run_records import DefencePrediction
from services.party.going_back import GoingBack
from services.party.party_model import PartyModel, check_linear, checked_rows
from services.party.resumption import Place, Resumption
from services.party.side import Side, SideSetting, run_step
from services.party.trained_models import TrainedModels
from services.party.training_means import TrainingMeans, check_kept_weights
from services.party.training_terms import training_terms
from services.party.watched_side import watched
from vfl.arrays import IntArray
from vfl.data import GriddedFeatures
from vfl.learning import BatchSchedule, BlockSchedule, Half, OwnData, Part, TrainingColumns
from vfl.learning.calibration import UNCALIBRATED, Calibration
from vfl.learning.networks import DenseNetwork

_log = logging.getLogger(__name__)


class PartyTraining:
    """Trains one party's weights under an agreement. Thread-safe.

    Attributes:
        agreement: the session's public terms.
        name: the party's name in it.
        rows: training, validation and test rows of the common order.
        gridded: (aligned rows, d) features on the grids of their columns; private to this party.
        side: its side of the plan's protocol.
        setting: what its side is made of.
        back: its log, and how often it goes back by it.
        models: of its epochs, and the one that is kept.
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
        self.agreement, self.name, self.gridded = agreement, name, gridded
        features = gridded.values
        self._calls = calls = LearnerCalls(plan.family, means.timeout)
        self.rows = plan.split(len(features))
        plan.check_steps(len(self.rows.train))
        check_kept_weights(agreement, features.shape[1])
        own_data = OwnData(
            features.shape[1],
            labels if trained_labels is None else trained_labels,
            agreement.classes,
            agreement.total_features,
            means.generator,
            installed,
            parties=len(agreement.parties),
            trained=TrainingColumns(features, self.rows.train),
        )
        self.models = TrainedModels(agreement, name, features, labels, means.log, lambda: self._part)
        self._epoch_runs = False
        self.back = GoingBack(name, means, plan.epochs)
        self._log = means.log
        # The first that is still to be done, and those which nobody does.
        self._step = 0
        self._skipped: frozenset[int] = frozenset()
        self._lock = threading.Lock()
        terms = training_terms(agreement, name, features, len(self.rows.train))
        self.setting = SideSetting(
            agreement, name, gridded, self.rows.train, own_data, means, terms, calls, self.back.anchor
        )
        self.side = self._seated(plan.training.side)
        try:
            _rehearse(self, self.setting)
        except BaseException as error:
            self.exchange.end(told(error))
            raise
        if self._log.has_begun:
            self._take_up()
        elif plan.family.spec.trains:
            self._log.start(self.side.weights, self._carried)

    def _seated(self, make: Callable[[SideSetting], Side]) -> Side:
        """Take a side as the protocol makes it; whoever deviates or listens takes its seat here."""

        def made(setting: SideSetting) -> Side:
            # What the side after an interruption goes on from.
            self._bare = make(setting)
            return watched(setting, self._bare)

        seated: Side = self.setting.means.seat(self.setting, made)
        return seated

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
            if epoch != self.epochs_done or epoch >= self.agreement.plan.epochs:
                raise OutOfOrder(f"Epoch {epoch} is out of order: {self.epochs_done} are done.")
            self._epoch_runs = True
            try:
                self.side.begin_epoch()
                for index, batch in enumerate(self.schedule.epoch(epoch)):
                    step = epoch * self.schedule.steps_per_epoch + index
                    if step < self._step:
                        continue
                    with log_context(session=self.agreement.session_id, step=step):
                        on_step(step, self._run_step(step, batch))
                self.side.end_epoch(epoch)
                self._forget_what_ended()
            except BaseException as error:
                if self.can_wait and is_interruption(error):
                    self.suspend(told(error))
                else:
                    self.exchange.end(f"{self.name} stopped in epoch {epoch}: {told(error)}")
                raise
            finally:
                self._epoch_runs = False
            self.models.add(self.side.part, keeps=self.can_wait)

    # -- interruptions ---------------------------------------------------------------------------------------------

    @property
    def can_wait(self) -> bool:
        """Whether this training goes on after an interruption. Not when only its end is left."""
        return self._log.is_kept and not self.is_over and not self.side.must_end(self._step)

    @property
    def epochs_done(self) -> int:
        """Epochs whose steps are all completed."""
        return self.models.epochs

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
            self.back.check_waits(can_wait=self.can_wait or self.is_over)
            return self._log.place(self.side.asked())

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
            self.back.check_waits(can_wait=self.can_wait or self.is_over)
            self.back.check(resumption, self.side.asked(), self.schedule.steps_per_epoch)
            if self.is_over:
                return
            self.back.check_often(by)
            self.back.anchor()
            before, protocol = self._bare, self.agreement.plan.training
            side = self._seated(lambda setting: protocol.resumed(setting, before, resumption))
            if side.counts_redone:
                count_again(self._log.redone_from(resumption.step))
            self.setting.means.tally.interrupted(by, self.agreement.session_id)
            self._log.go_on(resumption, by=by, waited=waited, anew=side.goes_back_anew)
            self._step, self._skipped = resumption.step, resumption.skipped
            self.side = side
            self._stand_at(resumption.step)

    def _take_up(self) -> None:
        """Stand where the process before this one was, and wait for ``resume``."""
        self._step = self._log.completed
        self.models.take_up((self._step - 1) // self.schedule.steps_per_epoch, self._calls)
        self._stand_at(self._step)
        self.suspend(f"{self.name} has started again.")

    def _stand_at(self, step: int) -> None:
        """Take up the weights after so many steps, with the parts of the epochs before."""
        self._calls.set_weights(self.half, self._log.weights(step), self._log.carried(step))
        done = step // self.schedule.steps_per_epoch
        self.models.go_back(done)
        if self.epochs_done < done:
            # Its last step was completed, and nothing behind it.
            self.models.add(self.side.part, keeps=self.can_wait)

    def _forget_what_ended(self) -> None:
        """Keep nothing of earlier steps, once the side has ended training."""
        if self.side.has_ended:
            self.back.forget()
            self.models.have(self.side.part)

    # -- the model -------------------------------------------------------------------------------------------------

    @property
    def _part(self) -> Part:
        part = self.side.part
        return self._calls.part(self.half.part) if part is None else part

    def end_with(self, epoch: int) -> None:
        """End training by the weights after an epoch, where that takes the other parties; raises as ``keep_epoch``."""
        if self._epoch_runs:
            raise OutOfOrder("An epoch is being trained: training ends when it is over.")
        with self._lock:
            self._end_with(epoch)

    def _end_with(self, epoch: int) -> None:
        self.models.check_may_keep(epoch)
        try:
            self.side.keep(epoch)
            self._forget_what_ended()
        except BaseException as error:
            self.exchange.end(f"{self.name} stopped at the opening: {told(error)}")
            raise

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
            self.models.check_may_keep(epoch)
            self.models.check_calibration(epoch, calibration)
            if self.is_over:
                return
            self._end_with(epoch)
            self.models.keep(epoch, calibration)
            self.exchange.end("training is complete.")
        for remark in remarks_of(self):
            _log.warning("%s", remark)

    @property
    def model(self) -> PartyModel:
        """This party's share of the model, as it stands; where weights are shared, once they are opened."""
        return self.models.model

    def model_for(self, rows: Sequence[int]) -> PartyModel:
        """Give the model, as it stands, that scores of these rows of the common order are of.

        Until training ends there are scores between epochs only, and of validation rows only. Scores of every step
        would tell of a record what asking for it again and again would.

        Raises:
            InvalidMessage: for no row, or one that isn't aligned.
            OutOfOrder: for other rows than validation ones before training has ended.
        """
        with self._lock:
            indices = checked_rows(rows, len(self.gridded.values))
            if self.agreement.plan.family.spec.trains and not self.is_over:
                self._check_scored(indices)
            return self.model

    def _check_scored(self, rows: IntArray) -> None:
        if not np.isin(rows, self.rows.validation).all():
            raise OutOfOrder("Training goes on: until it ends, only validation records are scored.")
        if self.side.validated_loss is not None:
            raise OutOfOrder("Training goes on: until it ends, no record is scored.")
        self.models.check_validated(self._step, self.schedule.steps_per_epoch)

    @property
    def is_over(self) -> bool:
        """Whether the model of one epoch was kept, so that ``model_for`` gives it for any record."""
        return self.models.kept_epoch is not None

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


def predictions_of(training: PartyTraining) -> list[DefencePrediction]:
    """Say what theory expects of a party's defences in a session."""
    setting = training.setting
    return setting.means.defences.predictions(setting.terms) if setting.agreement.plan.family.spec.trains else []


def remarks_of(training: PartyTraining) -> list[str]:
    """Say what doesn't hold after a training, as far as its party sees: promises of defences, a range."""
    setting, log, remarks = training.setting, training.back.log, list[str]()
    if setting.agreement.plan.family.spec.trains:
        remarks += setting.means.defences.remarks(log.largest_norm, setting.terms)
    if training.side.left_range or log.left_range:
        remarks.append(
            "Sums of the first layer, or the backward signal, came near what backward=shared holds of them or left "
            "it: the model may be wrong. Lower learning_rate, or raise residual_integer_bits."
        )
    return remarks


def _rehearse(training: PartyTraining, setting: SideSetting) -> None:
    """Raise InvalidMessage now for defences that would fail under these terms, or with this data, later.

    And LearnerFailed for a learner that calibrates what can't be scaled.
    """
    agreement, defences, part = setting.agreement, setting.means.defences, training.side.part
    try:
        if agreement.plan.family.spec.trains:
            defences.check(setting.terms)
        if setting.calls.calibrates() and part is not None and part.class_rows is None:
            raise setting.calls.refused("calibrates scores, and its part has no class rows")
        if defences.distorts_parameters:
            check_linear(training.model.part, defences)
            features = setting.gridded.values
            defences.disclose(np.zeros((agreement.classes, features.shape[1])), features)
    except DefenceError as error:
        raise InvalidMessage(f"{setting.name}: {error}") from error
