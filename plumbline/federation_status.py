"""What a running federation tells its operator of itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from google.protobuf.message import Message

from protos.v1 import active_pb2
from services.common.agreement import TrainingPlan
from vfl.learning.score_quality import ScoreQuality


@dataclass(frozen=True)
class PartyStatus:
    """One party of a federation.

    Attributes:
        name: the party's.
        feature_count: as the parties agreed, the active party's bias included; None for the coordinator, and before a
            session.
        answers: whether it answers the active party now; None for the active party itself, and where nobody asked.
        binary_features: how many of its features travel as 0 or 1.
        byte_features: how many as 0 to 255.
    """

    name: str = ""
    feature_count: int | None = None
    answers: bool | None = None
    binary_features: int = 0
    byte_features: int = 0


@dataclass(frozen=True)
class JobStatus:
    """How far a job is.

    Attributes:
        steps_done: of the stage at work: ids while aligning, attacks while attacking.
        steps_planned: of the stage at work; 0 where it has none.
        epochs_done: trained epochs.
        epochs_planned: at most so many; 0 before the parties have agreed.
        validation_loss: of the last epoch that was validated, in nats; None before its end.
        seconds_left: until the stage's end, at the pace of its steps so far; None before the first one.
        at_work: which attack is; empty elsewhere.
    """

    steps_done: int = 0
    steps_planned: int = 0
    epochs_done: int = 0
    epochs_planned: int = 0
    validation_loss: float | None = None
    seconds_left: float | None = None
    at_work: str = ""


@dataclass(frozen=True)
class FederationStatus:
    """What the active party tells its operator.

    Attributes:
        stage: idle, aligning, agreeing, training, testing, attacking, serving or failed.
        failure: why the last job failed or was cancelled; empty otherwise.
        obstacle: why a prediction would be refused now, and what to do; empty when it would be answered.
        session_id: of the session at work, or else of the model; empty without any.
        parties: the active party first, the coordinator last.
        aligned_rows: records that all parties hold; None before they are counted.
        job: how far the job at work is; None without one.
        test: how the model that answers did; None without one.
        class_names: in the order of scores.
        warnings: what is left unprotected or could not be written.
        own_plan: what the active party's own settings propose.
    """

    stage: str
    failure: str
    obstacle: str
    session_id: str
    parties: tuple[PartyStatus, ...]
    aligned_rows: int | None
    job: JobStatus | None
    test: ScoreQuality | None
    class_names: tuple[str, ...]
    warnings: tuple[str, ...]
    own_plan: TrainingPlan

    @classmethod
    def from_message(cls, message: active_pb2.StatusReply) -> FederationStatus:
        """Read the active party's answer; raises InvalidMessage for a plan that can't be one."""
        return cls(
            stage=message.stage,
            failure=message.failure,
            obstacle=message.obstacle,
            session_id=message.session_id,
            parties=tuple(PartyStatus(**_given(one)) for one in message.parties),
            aligned_rows=message.aligned_rows or None,
            job=JobStatus(**_given(message.job)) if message.HasField("job") else None,
            test=ScoreQuality(**_given(message.test)) if message.HasField("test") else None,
            class_names=tuple(message.class_names),
            warnings=tuple(message.warnings),
            own_plan=TrainingPlan.from_message(message.own_plan),
        )

    def content(self) -> dict[str, Any]:
        """All of it as JSON stores it."""
        return {**asdict(self), "own_plan": self.own_plan.terms}


def _given(message: Message) -> dict[str, Any]:
    """The fields that a message has, by name; absent ones keep the default of who is made of them."""
    return {field.name: value for field, value in message.ListFields()}
