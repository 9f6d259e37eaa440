"""A federation's status as its operator reads it: lines of text, and which of them are news."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from plumbline.federation_status import FederationStatus, JobStatus, PartyStatus
from plumbline.terminal import shown
from plumbline.width_words import narrow_words

# Where only steps move on, a line of them is enough from time to time.
_SECONDS_BETWEEN_STEPS = 10.0
_MINUTE, _HOUR = 60, 3600
_TRAINING = "training"
# What a stage counts, where it isn't steps.
_UNITS = {"aligning": "id", "attacking": "attack"}


def status_lines(status: FederationStatus) -> list[str]:
    """What the federation is at and what it holds, a fact a line, fit for a terminal."""
    lines = [_stage_line(status)]
    if status.aligned_rows:
        lines.append(f"{status.aligned_rows:,} records are aligned.")
    width = max((len(shown(party.name)) for party in status.parties), default=0)
    lines += [_party_line(party, width) for party in status.parties]
    if (test := status.test) is not None:
        auc = "" if test.auc is None else f", AUC {test.auc:.4f}"
        lines.append(f"The model that answers: accuracy {test.accuracy:.4f}{auc} on {test.test_rows:,} test records.")
    return lines


def trouble_lines(status: FederationStatus) -> list[str]:
    """What failed, what stands against a prediction, and what is unprotected, fit for a terminal."""
    failure = f"The last job: {status.failure}" if status.failure else ""
    # A model from before answers all the same.
    answered = status.stage == "failed" and not status.obstacle
    # Of a first job everybody expects that no model answers yet.
    is_first = status.job is not None and status.test is None
    model = "Predictions are answered by the model from before." if answered else "" if is_first else status.obstacle
    return [shown(line) for line in (failure, model, *status.warnings) if line]


def _stage_line(status: FederationStatus) -> str:
    facts = _job_facts(status.stage, status.job) if status.job is not None else []
    return shown(status.stage + (f": {', '.join(facts)}" if facts else ""))


def _job_facts(stage: str, job: JobStatus) -> list[str]:
    facts = []
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
        facts.append(f"about {_duration(job.seconds_left)} left")
    return facts


def _party_line(party: PartyStatus, width: int) -> str:
    features = "" if party.feature_count is None else f"{party.feature_count:>4} features"
    answers = {None: "", True: "answers", False: "does not answer"}[party.answers]
    narrow = narrow_words(party.binary_features, party.byte_features)
    return f"{shown(party.name):{width}}  {features:14}  {answers:{len('does not answer')}}  {narrow}".rstrip()


def _duration(seconds: float) -> str:
    """A duration in one unit: what is left is an estimate."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


class StatusNews:
    """Tells which lines of a status are new since it was last asked: for logs and pipes, where nothing is redrawn."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: frozenset[str] = frozenset()
        self._last: FederationStatus | None = None
        self._still: FederationStatus | None = None
        self._told_at = -float("inf")

    def is_due(self, status: FederationStatus) -> bool:
        """Whether there is something to tell: a change or, where only steps and their time move on, ten seconds."""
        still = _without_steps(status)
        has_waited = self._clock() - self._told_at >= _SECONDS_BETWEEN_STEPS
        is_due = still != self._still or (has_waited and status != self._last)
        if is_due:
            self._last, self._still, self._told_at = status, still, self._clock()
        return is_due

    def of(self, status: FederationStatus) -> list[str]:
        """The lines of a status that weren't there when it was last due; none when it isn't."""
        if not self.is_due(status):
            return []
        lines = [*status_lines(status), *trouble_lines(status)]
        news = [line for line in lines if line not in self._told]
        self._told = frozenset(lines)
        return news


def _without_steps(status: FederationStatus) -> FederationStatus:
    job = status.job
    return status if job is None else replace(status, job=replace(job, steps_done=0, seconds_left=None))
