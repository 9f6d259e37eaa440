"""What a job's training comes to: each epoch's loss on validation records, which one is kept, and the test."""

import json
import logging
import math
from collections.abc import Callable

from services.active.interfaces import EpochOutcome
from services.active.scoring import Scoring
from services.common.agreement import TrainingPlan
from services.common.run_records import DeliveredScores, EpochRecord
from services.common.state_folder import reading
from services.party.calibrating import calibrates, calibration_record
from services.party.context import PartyContext
from services.party.party_training import PartyTraining, remarks_of
from services.party.training_log import OUTCOMES
from vfl.arrays import FloatArray, IntArray
from vfl.learning import log_loss
from vfl.learning.calibration import Calibration, fitted
from vfl.learning.score_quality import ScoreQuality

_log = logging.getLogger(__name__)


class JobOutcomes:
    """The epochs of a job so far, and its test.

    Attributes:
        epochs: what each came to.
        calibrations: of epochs that may be kept; None where none could be fitted.
        test_answers: what this party was told of the test rows, (test rows, outputs), once it has tested.
        quality: what they are worth; None without test rows.
    """

    def __init__(self, context: PartyContext, scoring: Scoring) -> None:
        self.epochs: list[EpochOutcome] = []
        self.calibrations: dict[int, Calibration | None] = {}
        self.test_answers: FloatArray | None = None
        self.quality: ScoreQuality | None = None
        self._state, self._record, self._scoring = context.state, context.record, scoring

    def take_up(self, session_id: str) -> None:
        """Read what the epochs of a session came to so far, and their fits; raises StateError for a broken file."""
        if (content := self._state.read(OUTCOMES)) is None:
            return
        with reading(f"{OUTCOMES} of this party's state", ValueError, KeyError, TypeError):
            facts = json.loads(content)
            if facts["session"] == session_id:
                self.calibrations = {
                    int(epoch): Calibration(fit["step"], tuple(fit["intercepts"]), fit["loss"])
                    for epoch, fit in facts.get("calibrations", {}).items()  # absent from files of before
                }
                self.epochs = [EpochOutcome(**one) for one in facts["epochs"]]

    def add(self, training: PartyTraining, outcome: EpochOutcome) -> None:
        """Add the next epoch's, on disk where another process may go on with the training."""
        self.epochs.append(outcome)
        if training.can_wait:
            content = {
                "session": training.agreement.session_id,
                "epochs": [vars(outcome) for outcome in self.epochs],
                "calibrations": {epoch: vars(fit) for epoch, fit in self.calibrations.items() if fit},
            }
            self._state.write(OUTCOMES, json.dumps(content).encode())

    def are_enough(self, plan: TrainingPlan) -> bool:
        """Tell whether no epoch more is trained: all are, or losses no longer fall."""
        validated, best = [one.epoch for one in self.epochs if not math.isnan(one.validation_loss)], self._best
        if plan.patience and best is not None and validated[-1] - best >= plan.patience:
            _log.info("No better validation loss for %d epochs: stopping.", plan.patience)
            return True
        return len(self.epochs) == plan.epochs

    def kept_epoch(self, plan: TrainingPlan) -> int:
        """Choose the epoch whose weights are kept: the best by its loss where the plan has patience, or the last."""
        best = self._best
        return best if plan.patience and best is not None else len(self.epochs) - 1

    @property
    def _best(self) -> int | None:
        validated = [one for one in self.epochs if not math.isnan(one.validation_loss)]
        return min(validated, key=lambda one: one.validation_loss).epoch if validated else None

    def note(self, training: PartyTraining, kept_epoch: int) -> None:
        """Write what came of the training, of which the epoch ``kept_epoch`` is kept, to this party's own folder."""
        log = training.back.log
        self._record.note(
            epochs=tuple(EpochRecord(**vars(outcome)) for outcome in self.epochs),
            kept_epoch=kept_epoch,
            remarks=remarks_of(training),
            skipped_steps=log.skipped or None,
            interruptions=dict(log.interruptions) or None,
            validation_rows=len(training.rows.validation),
            calibration=calibration_record(training.agreement, self.calibrations.get(kept_epoch)),
        )

    def validation_loss(self, training: PartyTraining, epoch: int) -> float:
        """Score the validation rows after an epoch; NaN where it isn't validated."""
        if not training.agreement.validates(epoch):
            return math.nan
        if (loss := training.side.validated_loss) is not None:
            return loss
        rows = training.rows.validation
        if not len(rows):
            return math.nan
        scores, labels = self._asked(training, rows)[1], training.model.labels_of(rows)
        plan = training.agreement.plan
        may_be_kept = plan.patience or epoch == plan.epochs - 1
        # Now: these scores are told once, and not kept.
        if may_be_kept and calibrates(training.agreement):
            self.calibrations[epoch] = fitted(scores, labels)
        return log_loss(scores, labels)

    def test(self, training: PartyTraining, check_open: Callable[[], None]) -> None:
        """Score the test rows over the session and write them, with the labels, to this party's own folder.

        Args:
            training: the session's, at its end.
            check_open: raises why the job has ended, if it has; nothing is written then.
        """
        rows = training.model.judged_rows
        self.test_answers, scores = self._asked(training, rows)
        labels = training.model.labels_of(rows)
        check_open()
        self.quality = ScoreQuality.of(scores, labels)
        self._record.finish(training.model.own_part, DeliveredScores(rows, scores, labels))

    def _asked(self, training: PartyTraining, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Ask what this party is told of some rows, and their confidence scores."""
        places = rows.tolist()
        model = training.model_for(places) if places else training.model
        answers = self._scoring.answers(model, places)
        return answers, model.scores_of(answers, len(places))
