"""Real federations for an experiment: local processes, mTLS and Paillier, and what each party recorded."""

import io
import statistics
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from defences import DefenceError, TrainingTerms
from defences.dp_noise import DpNoise
from plumbline.audit.folder import AuditFolder
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from plumbline.judge.summary import read_summary
from plumbline.judge.training import TrainingFinding, read_training_findings
from services.common.run_folder import RunFolder
from services.common.run_records import STAGES, StepRecord
from vfl.crypto.ciphers import ENCRYPTED

_MOST_INTEGER_BITS = 14
_OF_STEPS = ("Send", "Ask")


@dataclass(frozen=True, eq=False)
class LiveRun:
    """What an experiment measures of one federation.

    Attributes:
        accuracy: of the model, on the test records.
        bytes_by_message: bytes by call and message over all parties.
        training_attacks: what every attack on training found.
        steps: every training step, by party.
    """

    accuracy: float
    bytes_by_message: dict[str, int]
    training_attacks: tuple[TrainingFinding, ...]
    steps: dict[str, tuple[StepRecord, ...]]

    def finding(self, attack: str, party: str = "") -> TrainingFinding:
        """Find what a training attack found, of one party where several mounted it.

        Raises:
            LookupError: when no such attack was mounted.
        """
        for candidate in self.training_attacks:
            if candidate.attack == attack and party in ("", candidate.party):
                return candidate
        raise LookupError(f"{attack} was not mounted in this run.")

    def stage_medians(self, party: str) -> dict[str, float]:
        """Take medians over steps of an iteration's seconds, by stage."""
        steps = self.steps[party]
        return {stage: statistics.median(step.seconds.get(stage, 0.0) for step in steps) for stage in STAGES}

    def iterations(self, party: str) -> list[float]:
        """List the seconds of each iteration."""
        return [sum(step.seconds.get(stage, 0.0) for stage in STAGES) for step in self.steps[party]]

    @property
    def total_bytes(self) -> int:
        """Bytes of all messages together."""
        return sum(self.bytes_by_message.values())

    @property
    def training_bytes(self) -> int:
        """Bytes of the messages of training steps."""
        return sum(size for name, size in self.bytes_by_message.items() if name.startswith(_OF_STEPS))


@contextmanager
def finished_run(request: AuditRequest) -> Iterator[RunFolder]:
    """Run a federation and lend what its parties wrote of it; nothing stays. Raises as ``run_audit`` does."""
    with tempfile.TemporaryDirectory(prefix="plumbline-figures-") as folder:
        # What a study measures, a slow machine must not change: it encrypts unless it says otherwise.
        federation = request.federation
        cipher = federation.cipher if federation.cipher != "auto" else federation.settings.get("cipher", ENCRYPTED)
        live_request = request.changed(runs=Path(folder), cipher=cipher)
        yield AuditFolder(run_audit(live_request, Console(file=io.StringIO(), width=200))).parties


def run_live(request: AuditRequest) -> LiveRun:
    """Run a federation and read what it wrote; nothing of it stays. Raises as ``run_audit`` does."""
    with finished_run(request) as parties:
        summary = read_summary(parties, request.output.name)
        steps = {name: record.steps for name, record in parties.records().items() if record.steps}
        return LiveRun(summary.accuracy, summary.bytes_by_message, tuple(read_training_findings(parties)), steps)


def residual_integer_bits(
    options: Mapping[str, Any], *, epochs: int, steps: int, rows: int, learning_rate: float, least: int = 7
) -> int:
    """Count the integer bits of fixed point that dp_noise with these options needs.

    Raises:
        DefenceError: above 14.
    """
    defence = DpNoise(**options)
    for bits in range(least, _MOST_INTEGER_BITS + 1):
        terms = [TrainingTerms(role, epochs, steps, rows, learning_rate, 2.0**bits) for role in ("active", "passive")]
        try:
            for role_terms in terms:
                defence.check(role_terms)
        except DefenceError as error:
            refused = error
            continue
        return bits
    raise refused
