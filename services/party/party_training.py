"""One party's training in one session: its weights and its epochs of Protocol 1. Knows no network."""

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from defences import DefenceError, TrainingTerms
from services.common.agreement import Agreement, check_steps
from services.common.errors import Diverged, InvalidMessage, OutOfOrder, is_interruption, told
from services.common.learner_calls import LearnerCalls
from services.common.logs import log_context
from services.common.meters import StageTimer
from services.common.run_records import DefencePrediction
from services.common.state_folder import StateNotKept
from services.network.deadlines import carrying_the_deadline
from services.party.calibrating import calibrates
from services.party.forwarding import Forwarding, step_roles
from services.party.party_defences import Message
from services.party.party_model import PartyModel, check_linear, checked_rows, rows_of_plan
from services.party.resumption import Place, Resumption, check_interruptions, check_resumption
from services.party.training_means import TrainingMeans, check_kept_weights
from services.protocol1.exchange import Beginning, GradientExchange, OpenQuestion
from services.protocol1.formats import check_vector_sizes
from services.protocol1.peer import Peer
from services.protocol1.vectors import DecryptedVector
from services.shared_layer.layer_steps import LayerSteps
from services.shared_weights.opening import stays_shared
from services.shared_weights.share_mailbox import ShareMailbox
from services.shared_weights.shared_serving import SharedPart, check_is_served_shared
from services.shared_weights.shared_steps import SharedMeans, SharedSteps
from services.shared_weights.shared_terms import SharedTerms
from services.shared_weights.turned_columns import Turn
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Shares
from vfl.data import GriddedFeatures
from vfl.learning import (
    Ask,
    BatchSchedule,
    BlockSchedule,
    Forward,
    LinearPart,
    OwnData,
    Part,
    Send,
    TrainingColumns,
    smallest_batch,
)
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
        schedule: the public order of batches.
        gridded: (aligned rows, d) features on the grids of their columns; private to this party.
        half: the party's half of the learner that the plan names.
        exchange: the party's messages, under the plan's protocol.
        most_interruptions: after which it goes on.
        turn: how its columns are turned before they are shared.
        shared_loss: of the epoch that was validated last, at the label party, where weights are shared; NaN for none.
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
        self._peers = means.peers
        self._executor = means.executor
        self._learner = plan.family
        self._calls = LearnerCalls(self._learner, means.timeout)
        self.rows = rows_of_plan(plan, len(features))
        check_steps(plan, len(self.rows.train))
        if not plan.shares_weights:
            check_vector_sizes(agreement)
        check_kept_weights(agreement, features.shape[1])
        self._trained_labels = labels if trained_labels is None else trained_labels
        own = OwnData(
            features.shape[1],
            self._trained_labels,
            agreement.classes,
            agreement.total_features,
            means.generator,
            installed,
            parties=len(agreement.parties),
            trained=TrainingColumns(features, self.rows.train),
        )
        self.turn = Turn()
        self._sharing_from = partial(self._sharing, own, means)
        self._shared = self._sharing_from(0) if plan.shares_weights else None
        batches = plan.schedule(self.rows.train)
        self.schedule: BatchSchedule | BlockSchedule = self._shared.schedule if self._shared else batches
        self.half = self._shared.half if self._shared else self._calls.begin(own)
        self._parts_after_epoch: list[Part | None] = []
        # Where weights stay shared, once training is over.
        self._frozen: SharedPart | None = None
        # Shares after every epoch that may be kept, until one is.
        self._shares_after_epoch: dict[int, Any] = {}
        self.shared_loss = math.nan
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
        self._steps = steps = self.schedule.steps_per_epoch * plan.epochs
        self._observer = means.observer
        self._tally = means.tally
        most = means.most_interruptions
        # By default as many as a short training may need on a bad line, and one an epoch of a long one.
        self.most_interruptions = max(_FEWEST_INTERRUPTIONS, plan.epochs) if most is None else most
        forwards = self._learner.spec.forwards and self._shared is None
        # Its masks are of one try of a step: another has other keys.
        self._forwarding_from = partial(Forwarding, agreement, name, means.peers, means.executor)
        self._forwarding = self._forwarding_from() if forwards else None
        self._defences = means.defences
        self._terms = TrainingTerms(
            role="passive" if labels is None else "active",
            epochs=plan.epochs,
            steps=steps,
            rows=smallest_batch(len(self.rows.train), plan.batch_size),
            learning_rate=(plan.leakage.is_gradient_step and plan.leakage.step_size) or math.nan,
            residual_limit=plan.encryption.residual_limit,
            columns=agreement.residual_columns,
            row_norm=float(np.linalg.norm(features, axis=1).max()),
            records=len(self.rows.train),
            features=features.shape[1],
            all_features=agreement.total_features,
            parties=len(agreement.parties),
            classes=agreement.classes,
            hidden=agreement.outputs if self._learner.spec.forwards else 0,
            # In the clear as in the encrypted session that it stands for.
            residual_step=plan.encryption.residual_step or 2.0**-plan.residual_fraction_bits,
        )
        if self._shared is not None and not self._log.has_begun:
            self._log.start(self.half.weights, self._carried)
        elif self._learner.spec.trains and not self._log.has_begun:
            self._project()
            self._log.start(self._weights, self._carried)
        self._rehearse()
        self.exchange: GradientExchange | ShareMailbox
        if self._shared is not None:
            self.exchange = self._shared.exchange
            if self._log.has_begun:
                self._take_up()
        else:

            def exchange_from(beginning: Beginning) -> GradientExchange:
                return GradientExchange(
                    means.cipher(agreement, name),
                    means.peers,
                    steps=steps,
                    rows_of_step=batches.rows_of_step,
                    timeout=means.timeout,
                    roles=step_roles(agreement, name),
                    beginning=replace(
                        beginning,
                        answering=lambda peer, count: self._tell(peer, "decryption", count),
                        anchoring=self._anchor_log,
                    ),
                )

            self._exchange_from = exchange_from
            self.exchange = self._gradients = exchange_from(Beginning(rights=self._log))
            if self._log.has_begun:
                self._take_up()

    def _sharing(self, own: OwnData, means: TrainingMeans, first_step: int) -> SharedSteps | LayerSteps:
        """Make what trains on shared weights; raises InvalidMessage for terms, or defences, that it can't work with."""
        if means.defences.changes_residuals:
            names = ", ".join(means.defences.names)
            raise InvalidMessage(f"{self.name}: protocol=shared sends no residuals for {names} to protect.")
        if means.defences.changes_hidden:
            raise InvalidMessage(
                f"{self.name}: under protocol=shared no party knows what it forwards of a network, so that "
                f"{', '.join(means.defences.names)} can't protect it: drop it, or train with backward=paillier."
            )
        if stays_shared(self.agreement):
            check_is_served_shared(self._learner)
        self.turn = Turn.made(SharedTerms(self.agreement), own, self._calls)
        cells = self.turn.cells(self._features)
        shared = SharedMeans(
            means.share_peers,
            means.engine,
            means.timeout,
            means.executor,
            means.ledger,
            means.others(self.agreement, self.name, cells),
            means.observer,
            turn=self.turn,
            complete=self._complete_shared,
        )
        if self._learner.spec.forwards:
            shared = replace(shared, chosen=means.chosen(self.agreement, self._features))
            return LayerSteps.begin(self.agreement, self.name, self._features, own, shared, means.observer, first_step)
        return SharedSteps.begin(self.agreement, self.name, cells, own, shared, first_step)

    def _tell(self, peer: str, kind: str, count: int) -> None:
        self._tally.answered(peer, kind, count, self.agreement.session_id)

    def exchange_as(self, kind: type[E]) -> E:
        """Give the exchange, for messages of its protocol; raises OutOfOrder for those of another."""
        if not isinstance(self.exchange, kind):
            raise OutOfOrder(f"This session is protocol={self.agreement.plan.protocol}, which has no such message.")
        return self.exchange

    def show_public_key(self) -> None:
        """Send this party's public key to every peer."""
        if self._shared is not None:
            self._shared.show_public_key()
            return
        key = self._gradients.public_key
        if self._forwarding is not None:
            key = replace(key, mask_key=self._forwarding.mask_key)
        self._to_all_peers(lambda peer: peer.send_public_key(self.agreement.session_id, key))

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
                run_step = self._run_step if self._shared is None else self._shared.run_step
                if self._shared is None:
                    self._gradients.await_keys()
                else:
                    self._shared.show_features()
                for index, batch in enumerate(self.schedule.epoch(epoch)):
                    step = epoch * self.schedule.steps_per_epoch + index
                    if step < self._step:
                        continue
                    with log_context(session=self.agreement.session_id, step=step):
                        on_step(step, run_step(step, batch))
                if self._shared is not None:
                    self._end_epoch(self._shared, epoch)
            except BaseException as error:
                if self.can_wait and is_interruption(error):
                    self.suspend(told(error))
                else:
                    self.exchange.end(f"{self.name} stopped in epoch {epoch}: {told(error)}")
                raise
            finally:
                self._epoch_runs = False
            # Of shares no learner makes a part: there is one when they are opened, or frozen.
            is_shared = isinstance(self.half.weights, Shares)
            self._parts_after_epoch.append(None if is_shared else self._part)
            self._keep_part(epoch)

    # -- interruptions ---------------------------------------------------------------------------------------------

    @property
    def can_wait(self) -> bool:
        """Whether this training goes on after an interruption. Not when shared weights are about to be opened."""
        return self._log.is_kept and not self.is_over and (self._shared is None or self._step < self._steps)

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
            if self._forwarding is not None:
                self._forwarding.settle()
            return self._log.place(frozenset(self._open_questions()))

    def _open_questions(self) -> Mapping[str, OpenQuestion]:
        """List what this party has asked in the next step. On shared weights nothing is asked that is answered once."""
        return self._gradients.open_questions(self._log.completed) if self._shared is None else {}

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
            asked = self._open_questions()
            check_resumption(
                resumption,
                self._log.place(frozenset(asked)),
                kept=self._log.steps_kept,
                steps_per_epoch=self.schedule.steps_per_epoch,
                skipped=len(self._log.skipped),
            )
            if self.is_over:
                return
            check_interruptions(self._log.interruptions, by, self.most_interruptions)
            self._anchor_log()
            shared = self._sharing_from(resumption.step) if self._shared is not None else None
            if isinstance(shared, LayerSteps):
                count_again(self._log.redone_from(resumption.step))
            self._tally.interrupted(by, self.agreement.session_id)
            self._log.go_on(resumption, by=by, waited=waited, anew=shared is not None)
            self._step, self._skipped = resumption.step, resumption.skipped
            if shared is not None:
                self._shared = shared
                self.half, self.exchange = shared.half, shared.exchange
                self._stand_at(resumption.step)
                return
            self._stand_at(resumption.step)
            self._forwarding = self._forwarding and self._forwarding_from()
            answered = {peer: question for peer, question in asked.items() if peer in resumption.answered_by}
            self.exchange = self._gradients = self._exchange_from(
                Beginning(resumption.step, self._log, answered, self._log.completed)
            )

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
            self._parts_after_epoch.append(None if self._shared else self._part)
            self._keep_part(done - 1)

    def _keep_part(self, epoch: int) -> None:
        """Keep an epoch's part, where the epoch may be gone back to."""
        part = self._parts_after_epoch[epoch]
        if self.can_wait and part is not None and self.agreement.plan.patience and self.agreement.validates(epoch):
            self._log.keep_part(epoch, part.arrays())

    def _end_epoch(self, shared: SharedSteps | LayerSteps, epoch: int) -> None:
        """Validate it, or open the weights after the last one; where epochs are validated, one is chosen first."""
        if not self.agreement.validates_on_shares:
            if epoch == self.agreement.plan.epochs - 1:
                self._end_sharing(shared)
        elif self.agreement.validates(epoch):
            loss = shared.validate((epoch + 1) * self.schedule.steps_per_epoch)
            self.shared_loss = math.nan if loss is None else loss
            self._shares_after_epoch[epoch] = shared.state

    def _end_sharing(self, shared: SharedSteps | LayerSteps) -> None:
        """Open the weights, or freeze them as they are shared; then nothing is left of the shares of earlier epochs."""
        if stays_shared(self.agreement):
            self._frozen = shared.freeze()
        else:
            self._calls.set_weights(self.half, shared.open())
        self.forget()
        self._parts_after_epoch = [self._part for _ in self._parts_after_epoch]

    @property
    def _kept_part(self) -> Part:
        return (None if self._kept_epoch is None else self._parts_after_epoch[self._kept_epoch]) or self._part

    @property
    def _part(self) -> Part:
        return self._frozen or self._calls.part(self.half.part)

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
            if self._shared is not None and self.agreement.validates_on_shares:
                self._open_epoch(self._shared, epoch)
            self._kept_epoch, self._calibration = epoch, calibration
            self.exchange.end("training is complete.")
        for remark in self.remarks:
            _log.warning("%s", remark)

    def _open_epoch(self, shared: SharedSteps | LayerSteps, epoch: int) -> None:
        """Go back to the shares after an epoch, and open them; those of others are forgotten."""
        try:
            shared.restore(self._shares_after_epoch[epoch])
            self._end_sharing(shared)
        except BaseException as error:
            self.exchange.end(f"{self.name} stopped at the opening: {told(error)}")
            raise
        self._shares_after_epoch.clear()

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
        if isinstance(self._shared, LayerSteps) and (self._shared.left_range or self._log.left_range):
            said.append(
                "Sums of the first layer, or the backward signal, came near what backward=shared holds of them or left "
                "it: the model may be wrong. Lower learning_rate, or raise residual_integer_bits."
            )
        return said

    def _project(self) -> None:
        """Keep the weights where the party's defences want them."""
        weights = self._calls.weights(self.half, self._features.shape[1])
        projected = self._defences.project_parameters(weights, self._terms)
        self._calls.set_weights(self.half, projected)
        self._log.largest_norm = max(self._log.largest_norm, float(np.linalg.norm(projected)))

    def _run_step(self, step: int, batch: IntArray) -> StageTimer:
        """Run the learner's program of a step, answering what it asks for, in its order."""
        timer, features = StageTimer(), self._features[batch]
        own: FloatArray | None = None
        sending: list[Future[None]] = []
        has_forwarded = False
        program = self._calls(lambda: self.half.step(batch))
        request = self._calls.next_request(program)
        while request is not None:
            answer: FloatArray | None = None
            match request:
                case Forward(weights):
                    answer = features @ self._calls.checked(weights, (features.shape[1], None), "weights")
                    if self._forwarding is not None:
                        if has_forwarded:
                            # Two vectors under the mask of one step would show their difference.
                            raise self._calls.refused("forwards more than once in a step")
                        has_forwarded = True
                        answer, forwarding = self._forward(step, batch, answer, timer)
                        sending += forwarding
                case Send(values):
                    sending += self._send(step, batch, self._sendable(values, batch, own), timer)
                    own = features.T @ values
                case Ask() if step in self._skipped or step < self._log.completed:
                    # Nobody asks, or only the others: this party is ahead. All are waited for, so that none runs away.
                    program.close()
                    for _ in timer.waiting("wait", self._gradients.arrivals(step)):
                        continue
                    with timer.stage("wait"):
                        for sent in sending:
                            sent.result()
                    is_skipped = step in self._skipped
                    at = step if is_skipped else step + 1
                    self._calls.set_weights(self.half, self._log.weights(at), self._log.carried(at))
                    self._complete(step, is_skipped=is_skipped)
                    return timer
                case Ask():
                    answer = self._sums(step, features, own, timer)
                    with timer.stage("wait"), self._gradients.waiting():
                        for sent in sending:
                            sent.result()
            with timer.stage("update") if isinstance(request, Ask) else nullcontext():
                request = self._calls.next_request(program, answer)
        with timer.stage("wait"):
            self._gradients.await_questions(step)
        with timer.stage("update"):
            self._project()
            self._complete(step)
        return timer

    @property
    def _weights(self) -> FloatArray:
        return self._calls.weights(self.half, self._features.shape[1]).copy()

    @property
    def _carried(self) -> Mapping[str, Any] | None:
        return self._calls.carried(self.half) if self._log.is_kept else None

    def _complete(self, step: int, *, is_skipped: bool = False) -> None:
        # First: nobody may see this party in the next step before it would find itself there.
        self._log.complete(step, self._weights, self._carried, is_skipped=is_skipped)
        self._gradients.complete_step(step)
        self._step = step + 1

    def _complete_shared(self, step: int, shares: Shares) -> None:
        if isinstance(self._shared, LayerSteps):
            self._log.left_range |= self._shared.left_range
        self._log.complete(step, shares, self._carried)
        self._step = step + 1

    def _forward(
        self, step: int, batch: IntArray, own: FloatArray, timer: StageTimer
    ) -> tuple[FloatArray, list[Future[None]]]:
        """Forward this party's products of a step, (s, h), or add those of the others to them at the label party."""
        assert self._forwarding is not None  # noqa: S101 - who calls has asked
        own = self._calls.checked(own, (len(own), self._forwarding.units), "products to forward")
        if self._labels is None and step in self._skipped:
            # Nobody uses them, and those of other weights may have been forwarded before.
            own = np.zeros_like(own)
        if self._observer is not None and self._labels is None:
            self._observer.own_share(step, own)
        own = self._defences.protect_hidden(own, Message("hidden", self.agreement.session_id, step, batch))
        if self._labels is None:
            # A copy that was put back would forward products of this step once more, of other weights.
            self._anchor_log()
            self._tell(self.agreement.active.name, "hidden layer", len(own))
        return self._forwarding.products(step, own, self._gradients, timer, self._observer)

    def _sendable(self, values: FloatArray, batch: IntArray, sent: FloatArray | None) -> FloatArray:
        """Give what the learner has sent, once it may be; raises LearnerFailed."""
        if sent is not None or self.name not in self.agreement.senders:
            raise self._calls.refused(f"has {self.name} send more often than its spec says")
        return self._calls.checked(values, (len(batch), self.agreement.residual_columns), "values to send")

    def _send(self, step: int, batch: IntArray, values: FloatArray, timer: StageTimer) -> list[Future[None]]:
        """Encrypt values, as this party's defences leave them, while they are sent to every peer."""
        if self._observer is not None:
            self._observer.own_share(step, values)
        with timer.stage("encrypt"):
            owed = {peer for peer in self._peers if self._log.owes(peer, step)}
            vectors: list[tuple[set[str], FloatArray]] = []
            if owed:
                vectors.append((owed, self._protect(step, batch, values)))
                if not self.agreement.plan.is_encrypted:
                    for peer in owed:
                        self._tell(peer, "residuals in the clear", len(batch))
            if others := self._peers.keys() - owed:
                # Their right to an answer is spent, or nobody has one: what they have of it, they have.
                vectors.append((others, np.zeros_like(values)))
            outgoing = [(peers, self._gradients.outgoing_residuals(step, vector)) for peers, vector in vectors]
            sending = [
                self._executor.submit(self._peers[peer].send_residuals, self.agreement.session_id, step, vector)
                for peers, vector in outgoing
                for peer in sorted(peers)
            ]
            for _, vector in outgoing:
                vector.make()
        return sending

    def _sums(self, step: int, features: FloatArray, own: FloatArray | None, timer: StageTimer) -> FloatArray:
        """X^T of what all have sent, (d, columns): this party's own, and then every peer's in turn."""
        if own is None and self.name in self.agreement.senders:
            raise self._calls.refused(f"asks for sums before {self.name} has sent anything")
        total = np.zeros((features.shape[1], self.agreement.residual_columns)) if own is None else own
        if self._forwarding is not None and self._gradients.reads_directly:
            return total + self._direct_sums(step, features, timer)
        # Peers are asked about integers: the scales of the columns, and their order, stay here.
        integers = self.gridded.integers_of(features)
        asked: dict[str, Future[DecryptedVector]] = {}
        for name in timer.waiting("wait", self._gradients.arrivals(step)):
            masked = self._gradients.masked_sums(step, name, integers, timer)
            asked[name] = self._executor.submit(self._peers[name].decrypt, self.agreement.session_id, step, masked)
        # In their own order, so that the sum is the same to the last bit whoever answers first.
        for name in filter(asked.__contains__, self._peers):
            with timer.stage("decrypt"), self._gradients.waiting():
                answer = asked[name].result()
            total = total + self.gridded.restore(self._gradients.gradient_share(name, answer))
        return total

    def _direct_sums(self, step: int, features: FloatArray, timer: StageTimer) -> FloatArray:
        """X^T of what the others have sent in the clear, (d, columns)."""
        total = np.zeros((features.shape[1], self.agreement.residual_columns))
        for name in timer.waiting("wait", self._gradients.arrivals(step)):
            values = self._gradients.residuals_in_the_clear(step, name)
            if self._observer is not None:
                self._observer.read(step, name, values)
            total += features.T @ values
        return total

    def _rehearse(self) -> None:
        """Raise InvalidMessage now for defences that would fail under these terms, or with this data, later.

        And LearnerFailed for a learner that calibrates what can't be scaled.
        """
        try:
            if self._learner.spec.trains:
                self._defences.check(self._terms)
            if self._calls.calibrates() and not self._shared and self._part.class_rows is None:
                raise self._calls.refused("calibrates scores, and its part has no class rows")
            if self._defences.distorts_parameters:
                check_linear(self.model.part, self._defences)
                self._defences.disclose(np.zeros((self.agreement.classes, self._features.shape[1])), self._features)
        except DefenceError as error:
            raise InvalidMessage(f"{self.name}: {error}") from error

    def _protect(self, step: int, batch: IntArray, residual: FloatArray) -> FloatArray:
        labels = None if self._trained_labels is None else self._trained_labels[batch]
        message = Message("residuals", self.agreement.session_id, step, batch)
        try:
            return self._defences.protect_residuals(residual, self._terms, message, labels)
        except DefenceError as error:
            raise Diverged(f"{self.name}: {error}") from error

    def _to_all_peers(self, send: Callable[[Peer], None]) -> None:
        for sent in [self._executor.submit(carrying_the_deadline(send, peer)) for peer in self._peers.values()]:
            sent.result()
