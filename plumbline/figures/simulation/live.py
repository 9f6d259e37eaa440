"""Real federations for an experiment: local processes, mTLS and Paillier, and what each party recorded."""

import io
import json
import statistics
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from defences import DefenceError, TrainingTerms
from defences.dp_noise import DpNoise
from plumbline.audit.request import AuditRequest
from plumbline.audit.run import run_audit
from plumbline.judge.summary import STAGES

_MOST_INTEGER_BITS = 14


@dataclass(frozen=True, eq=False)
class LiveRun:
    """What a federation wrote.

    Attributes:
        results: of ``results.json``.
        records: each party's own record, by name.
    """

    results: dict[str, Any]
    records: dict[str, dict[str, Any]]

    def finding(self, attack: str, party: str = "") -> dict[str, Any]:
        """Find what a training attack found, of one party where several mounted it.

        Raises:
            LookupError: when no such attack was mounted.
        """
        for found in self.results["training_attacks"]:
            if found["attack"] == attack and party in ("", found["party"]):
                finding: dict[str, Any] = found
                return finding
        raise LookupError(f"{attack} was not mounted in this run.")

    def stage_medians(self, party: str) -> dict[str, float]:
        """Take medians over steps of an iteration's seconds, by stage."""
        steps = self.records[party]["steps"]
        return {stage: statistics.median(step.get(stage, 0.0) for step in steps) for stage in STAGES}

    def iterations(self, party: str) -> list[float]:
        """List the seconds of each iteration."""
        return [sum(step.get(stage, 0.0) for stage in STAGES) for step in self.records[party]["steps"]]

    @property
    def total_bytes(self) -> int:
        """Bytes of all messages together."""
        return sum(self.results["bytes_by_message"].values())


def run_live(request: AuditRequest) -> LiveRun:
    """Run a federation and read what it wrote; nothing of it stays. Raises as ``run_audit`` does."""
    with tempfile.TemporaryDirectory(prefix="plumbline-figures-") as folder:
        run = run_audit(replace(request, runs=Path(folder)), Console(file=io.StringIO(), width=200))
        results = json.loads((run / "results.json").read_text())
        parties = {path.stem: json.loads(path.read_text()) for path in (run / "parties").glob("*.json")}
        return LiveRun(results, {name: record for name, record in parties.items() if record.get("steps")})


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
            for one in terms:
                defence.check(one)
        except DefenceError as error:
            refused = error
            continue
        return bits
    raise refused
