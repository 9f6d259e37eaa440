"""Scores attacks on predictions: an auditor, who may read every party's files, compares estimates with the truth."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
from services.common.identity import Role
from services.common.run_folder import RunFolder, RunFolderError
from services.common.run_records import DONE
from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class ColumnLeakage:
    """What one attack tells of one passive column.

    Attributes:
        party: name of the column's owner.
        column: name of the column.
        mse: mean squared error of the reconstruction, on the column's encoded scale.
        half: mean squared error of guessing one half.
        zero: mean squared error of guessing zero.
        correlation: mean absolute correlation with the active party's columns (Jiang eq. 25).
        entropy: bits of a discrete column; None for others.
        remaining_entropy: bits that are left once its reconstruction is known; None for others.
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
        """The part of the error of guessing one half that the attack removes: 0 is no better, 1 is exact."""
        return 1.0 - self.mse.mean / self.half if self.half > 0 else 0.0


@dataclass(frozen=True)
class AttackFinding:
    """What one attack reconstructs of the first batch of predictions, the test records.

    Attributes:
        attack: name of the attack.
        status: ``done``, ``not applicable`` or ``failed``.
        reason: why it was not done; empty when it was.
        records: number of attacked records.
        seconds: duration of the attack.
        mse: mean squared error per feature; None when the attack was not done.
        half: mean squared error per feature of guessing one half.
        zero: mean squared error per feature of guessing zero.
        accuracy: share of records that a classifier labels alike before and after reconstruction (Jiang eq. 24).
        error_correlation: correlation over columns of the error with ``ColumnLeakage.correlation``.
        columns: each passive column by itself.
        notes: what the attack says of how its estimates came about, such as the solver used.
    """

    attack: str
    status: str
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


def read_prediction_findings(folder: RunFolder, passive_parties: Sequence[str]) -> list[AttackFinding]:
    """Score all attacks on predictions that ran; empty when none was switched on. Raises RunFolderError."""
    outcomes = [outcome for outcome in folder.prediction_outcomes() if outcome.batch == 0]
    if not outcomes:
        return []
    estimates = folder.estimates(0)
    if absent := [one.attack for one in outcomes if one.is_done and one.attack not in estimates.by_attack]:
        raise RunFolderError(f"{folder.path} has no estimates of {', '.join(absent)}: run it again, into a new folder.")
    truth = _Truth(folder, passive_parties, estimates.rows)
    return [
        replace(
            truth.judge(outcome.attack, estimates.by_attack[outcome.attack], outcome.seconds),
            notes=outcome.notes or (),
        )
        if outcome.is_done
        else AttackFinding(outcome.attack, outcome.status, outcome.reason or "", outcome.records, outcome.seconds)
        for outcome in outcomes
    ]


class _Truth:
    """The passive features behind the attacked rows, and what else an auditor needs to judge reconstructions."""

    def __init__(self, folder: RunFolder, passive_parties: Sequence[str], rows: IntArray) -> None:
        blocks, self._owners, self._names = [], list[str](), list[str]()
        for party in passive_parties:
            own = folder.features(party)
            blocks.append(own.features)
            self._names += [str(name) for name in own.names]
            self._owners += [party] * own.features.shape[1]
        passive = np.hstack(blocks)
        active, labels = folder.features(Role.ACTIVE).features, folder.labels()
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
            status=DONE,
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
