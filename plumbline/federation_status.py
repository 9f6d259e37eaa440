"""What a running federation tells its operator of itself, and the same in words."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from google.protobuf.message import Message

from plumbline.judge.summary import narrow_words
from plumbline.telling.numbers import seconds
from plumbline.terminal import shown
from protos.v1 import active_pb2
from services.common.agreement import TrainingPlan
from services.common.opening_options import SHARED
from vfl.data.faults import counted
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
        waiting_for: who is away, where the training was interrupted.
        waiting_since: when that was, in seconds since 1970; None while it goes on.
        interruptions: after which its training has gone on.
    """

    steps_done: int = 0
    steps_planned: int = 0
    epochs_done: int = 0
    epochs_planned: int = 0
    validation_loss: float | None = None
    seconds_left: float | None = None
    at_work: str = ""
    waiting_for: tuple[str, ...] = ()
    waiting_since: float | None = None
    interruptions: int = 0


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
        protocol: of the session at work, or else of the model's; empty without either.
        serving: what becomes of its weights after training, ``opened`` or ``shared``; likewise.
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
    protocol: str = ""
    serving: str = ""

    @classmethod
    def from_message(cls, message: active_pb2.StatusReply) -> FederationStatus:
        """Read the active party's answer; raises InvalidMessage for a plan that can't be one."""
        job, test = message.job, message.test
        return cls(
            stage=message.stage,
            failure=message.failure,
            obstacle=message.obstacle,
            session_id=message.session_id,
            parties=tuple(PartyStatus(**_given(one)) for one in message.parties),
            aligned_rows=message.aligned_rows or None,
            job=JobStatus(**_given(job) | {"waiting_for": tuple(job.waiting_for)}) if message.HasField("job") else None,
            test=ScoreQuality(**_given(test) | {"by_class": tuple(test.by_class)})
            if message.HasField("test")
            else None,
            class_names=tuple(message.class_names),
            warnings=tuple(message.warnings),
            own_plan=TrainingPlan.from_message(message.own_plan),
            protocol=message.protocol,
            serving=message.serving,
        )

    def content(self) -> dict[str, Any]:
        """Write all of it as JSON stores it."""
        return {**asdict(self), "own_plan": self.own_plan.terms}


def _given(message: Message) -> dict[str, Any]:
    """Take the fields that a message has, by name; absent ones keep the default of who is made of them."""
    return {field.name: value for field, value in message.ListFields()}


# Where only steps move on, a line of them is enough from time to time.
_SECONDS_BETWEEN_STEPS = 10.0
_MINUTE, _HOUR = 60, 3600
_TRAINING = "training"
# What a stage counts, where it isn't steps.
_UNITS = {"aligning": "id", "attacking": "attack"}


def status_lines(status: FederationStatus) -> list[str]:
    """Say what the federation is at and what it holds, a fact a line, fit for a terminal."""
    lines = [_stage_line(status)]
    if status.aligned_rows:
        lines.append(f"{status.aligned_rows:,} records are aligned.")
    if status.protocol:
        lines.append(_protocol_line(status))
    # The first is the one that says so.
    lines += [_party_line(party, "was not asked" if at else "is there") for at, party in enumerate(status.parties)]
    if (test := status.test) is not None:
        lines.append(
            f"The model that answers: accuracy {test.accuracy:.4f} on {test.test_rows:,} test records, "
            f"AUC {test.area_words}."
        )
    return lines


def trouble_lines(status: FederationStatus) -> list[str]:
    """Say what failed, what stands against a prediction, and what is unprotected, fit for a terminal."""
    failure = f"The last job: {status.failure}" if status.failure else ""
    # A model from before answers all the same.
    has_former_model = status.stage == "failed" and not status.obstacle
    # Of a first job everybody expects that no model answers yet.
    is_first = status.job is not None and status.test is None
    model = (
        "Predictions are answered by the model from before."
        if has_former_model
        else ""
        if is_first
        else status.obstacle
    )
    return [shown(line) for line in (failure, model, *status.warnings) if line]


def _stage_line(status: FederationStatus) -> str:
    facts = _job_facts(status.stage, status.job) if status.job is not None else []
    return shown(status.stage + (f": {', '.join(facts)}" if facts else ""))


def _protocol_line(status: FederationStatus) -> str:
    becomes = "are opened to their owners after training"
    if status.serving == SHARED:
        becomes = "stay shared, and scores are computed on shares"
    weights = f"; weights {becomes}" if status.protocol == SHARED else ""
    return shown(f"Protocol: {status.protocol}{weights}.")


def _job_facts(stage: str, job: JobStatus) -> list[str]:
    facts = []
    if job.waiting_since is not None:
        since = time.strftime("%H:%M", time.localtime(job.waiting_since))
        facts.append(f"waiting for {' and '.join(map(shown, job.waiting_for)) or 'the others'} since {since}")
    if job.interruptions:
        facts.append(f"interrupted {counted(job.interruptions, 'time')}")
    if job.steps_planned:
        unit = _UNITS.get(stage, "step")
        facts.append(f"{unit} {job.steps_done:,} of {job.steps_planned:,}")
    if job.at_work:
        facts.append(f"{job.at_work} is at work")
    if job.epochs_planned and job.steps_planned and stage == _TRAINING:
        facts.append(f"epoch {min(job.epochs_done + 1, job.epochs_planned)} of {job.epochs_planned}")
    if job.validation_loss is not None:
        facts.append(f"validation loss {job.validation_loss:.4f}")
    if job.seconds_left is not None:
        facts.append(f"about {seconds(job.seconds_left)} left")
    return facts


def _party_line(party: PartyStatus, otherwise: str) -> str:
    narrow = narrow_words(party.binary_features, party.byte_features)
    brings = f"brings {counted(party.feature_count or 0, 'feature')}" + (f" ({narrow})" if narrow else "")
    answers = {None: "", True: "answers", False: "does not answer"}[party.answers]
    facts = (answers, "" if party.feature_count is None else brings)
    return f"{shown(party.name)} {' and '.join(filter(None, facts)) or otherwise}."


class StatusNews:
    """Tells which lines of a status are new since it was last asked: for logs and pipes, where nothing is redrawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: frozenset[str] = frozenset()
        self._last: FederationStatus | None = None
        self._still: FederationStatus | None = None
        self._told_at = -float("inf")

    def is_due(self, status: FederationStatus) -> bool:
        """Tell whether there is news: a change or, where only steps and their time move on, ten seconds."""
        job = status.job and replace(status.job, steps_done=0, seconds_left=None)
        still = replace(status, job=job)
        has_waited = self._clock() - self._told_at >= _SECONDS_BETWEEN_STEPS
        is_due = still != self._still or (has_waited and status != self._last)
        if is_due:
            self._last, self._still, self._told_at = status, still, self._clock()
        return is_due

    def of(self, status: FederationStatus) -> list[str]:
        """Give the lines of a status that weren't there when it was last due; none when it isn't."""
        if not self.is_due(status):
            return []
        lines = [*status_lines(status), *trouble_lines(status)]
        news = [line for line in lines if line not in self._told]
        self._told = frozenset(lines)
        return news
