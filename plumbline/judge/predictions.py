"""Where truth and estimates meet: reads every party's folder, as only an auditor may, and scores each attack."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from plumbline.judge.measures import (
    Interval,
    attack_accuracy,
    bootstrap_mean,
    conditional_entropy,
    correlation_with_active,
    entropy,
    is_discrete,
    mse_per_feature,
)
from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class ColumnLeakage:
    """One passive column under one attack.

    ``gain``: the part of the error of guessing one half that the attack removes; 0 is no better, 1 is exact.
    ``entropy`` and ``remaining_entropy``: bits of a discrete column before and after seeing the reconstruction.
    ``correlation``: mean absolute correlation with the active party's columns (Jiang eq. 25).
    """

    party: str
    column: str
    mse: Interval
    half: float
    zero: float
    correlation: float
    entropy: float | None
    remaining_entropy: float | None

    @property
    def gain(self) -> float:
        return 1.0 - self.mse.mean / self.half if self.half > 0 else 0.0


@dataclass(frozen=True)
class AttackFinding:
    """One attack on the first batch of predictions (the test records), or why it couldn't be mounted.

    ``notes``: what the attack says of how its estimates came about, such as the solver used.
    """

    attack: str
    reason: str
    records: int
    seconds: float
    mse: Interval | None = None
    half: float = float("nan")
    zero: float = float("nan")
    accuracy: float = float("nan")
    error_correlation: float = float("nan")
    columns: tuple[ColumnLeakage, ...] = ()
    notes: tuple[str, ...] = ()


def read_leakage(folder: Path, passive_parties: list[str]) -> list[AttackFinding]:
    """Score all attacks that ran in a run's party ``folder``; empty when none was switched on."""
    outcomes_file = folder / "attacks" / "outcomes.json"
    if not outcomes_file.exists():
        return []
    outcomes = [outcome for outcome in json.loads(outcomes_file.read_text()) if outcome["batch"] == 0]
    with np.load(folder / "attacks" / "estimates-0.npz", allow_pickle=False) as estimates:
        rows = estimates["rows"]
        truth = _Truth(folder, passive_parties, rows)
        return [
            replace(
                truth.judge(outcome["attack"], estimates[outcome["attack"]], outcome["seconds"]),
                notes=tuple(outcome.get("notes", ())),
            )
            if outcome["status"] == "done"
            else AttackFinding(outcome["attack"], outcome["reason"], outcome["records"], outcome["seconds"])
            for outcome in outcomes
        ]


class _Truth:
    """The passive features behind the attacked rows, and what else an auditor needs to judge reconstructions."""

    def __init__(self, folder: Path, passive_parties: list[str], rows: IntArray) -> None:
        blocks, self._owners, self._names = [], list[str](), list[str]()
        for party in passive_parties:
            with np.load(folder / f"{party}-features.npz", allow_pickle=False) as content:
                blocks.append(content["features"])
                self._names += [str(name) for name in content["names"]]
                self._owners += [party] * content["features"].shape[1]
        passive = np.hstack(blocks)
        with np.load(folder / "active-features.npz", allow_pickle=False) as content:
            active, labels = content["features"], content["labels"]
        active = active[:, np.ptp(active, axis=0) > 0]
        held_out = np.setdiff1d(np.arange(len(passive)), rows)
        self._features = passive[rows]
        self._held_out, self._held_out_labels = passive[held_out], labels[held_out]
        self._correlation = correlation_with_active(passive, active)

    def judge(self, attack: str, estimate: FloatArray, seconds: float) -> AttackFinding:
        generator = np.random.default_rng(0)
        truth = self._features
        errors = (truth - estimate) ** 2
        columns = tuple(self._judge_column(index, estimate[:, index], generator) for index in range(truth.shape[1]))
        return AttackFinding(
            attack=attack,
            reason="",
            records=len(truth),
            seconds=seconds,
            mse=bootstrap_mean(errors.mean(axis=1), generator=generator),
            half=mse_per_feature(truth, np.full_like(truth, 0.5)),
            zero=mse_per_feature(truth, np.zeros_like(truth)),
            accuracy=attack_accuracy(truth, estimate, held_out=self._held_out, held_out_labels=self._held_out_labels),
            error_correlation=_correlation(self._correlation, errors.mean(axis=0)),
            columns=columns,
        )

    def _judge_column(self, index: int, estimate: FloatArray, generator: np.random.Generator) -> ColumnLeakage:
        truth = self._features[:, index]
        discrete = is_discrete(truth)
        return ColumnLeakage(
            party=self._owners[index],
            column=self._names[index],
            mse=bootstrap_mean((truth - estimate) ** 2, generator=generator),
            half=mse_per_feature(truth, np.full_like(truth, 0.5)),
            zero=mse_per_feature(truth, np.zeros_like(truth)),
            correlation=float(self._correlation[index]),
            entropy=entropy(truth) if discrete else None,
            remaining_entropy=conditional_entropy(truth, estimate) if discrete else None,
        )


def _correlation(left: FloatArray, right: FloatArray) -> float:
    if len(left) < 2 or left.std() == 0 or right.std() == 0:
        return float("nan")
    return float(np.corrcoef(left, right)[0, 1])
