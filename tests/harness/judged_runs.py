"""Run folders for the judge: what parties would have written, made up of a few columns and estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attacks import Conduct, Level
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.run_folder import RunFolder
from services.common.run_records import (
    DONE,
    NOT_APPLICABLE,
    AttackStatus,
    Estimates,
    FoundLabels,
    PartyFeatures,
    PartyRecord,
    PredictionAttackOutcome,
    TrainingAttackOutcome,
)
from vfl.arrays import FloatArray, IntArray

NAMES = {"active": "bank", "passive": "fintech"}


@dataclass(frozen=True)
class Feature:
    """One passive feature, as a party writes it: cells on the encoded scale, and what they are of."""

    cells: NDArray[Any]
    source: str
    kind: str = "number"
    offset: float = 0.0
    scale: float = 1.0
    name: str = ""


def typed(features: Sequence[Feature]) -> PartyFeatures:
    """A party's features with what its record says of them."""
    return PartyFeatures(
        np.column_stack([one.cells for one in features]),
        np.array([one.name or one.source for one in features]),
        sources=np.array([one.source for one in features]),
        kinds=np.array([one.kind for one in features]),
        offsets=np.array([one.offset for one in features]),
        scales=np.array([one.scale for one in features]),
    )


def write_run(
    path: Path,
    passive: Mapping[str, PartyFeatures],
    outcomes: Sequence[PredictionAttackOutcome] = (),
    *,
    judged: IntArray | None = None,
    estimates: Mapping[str, FloatArray] | None = None,
    cipher: str = "paillier",
    active: FloatArray | None = None,
    known: IntArray | None = None,
) -> RunFolder:
    """Write a run of these passive parties; every record is judged unless some are named.

    The active party's features are a column at random and a bias by default.
    """
    run, count = RunFolder(path), len(next(iter(passive.values())).features)
    labels = np.arange(count) % 2
    parties = tuple(PartyDescription(name, 2, 0, False, count) for name in ("active", *passive))
    record = PartyRecord(
        agreement=Agreement("5e55104e" * 4, TrainingPlan(cipher=cipher, batch_size=8), 2, parties),
        class_names=("no", "yes"),
        transport="mtls",
        bytes_by_message={},
        peak_memory_bytes=1,
    )
    run.write_record("active", record)
    drawn = np.column_stack([np.random.default_rng(3).random(count), np.ones(count)])
    own = drawn if active is None else active
    run.write_features("active", PartyFeatures(own, np.array(["y", "bias"]), labels))
    for name, features in passive.items():
        run.write_features(name, features)
    rows = np.arange(count) if judged is None else judged
    run.write_estimates(0, Estimates(rows, dict(estimates or {}), auxiliary_rows=known))
    if outcomes:
        run.write_prediction_outcomes(outcomes)
    return run


def outcome(
    attack: str,
    status: AttackStatus = DONE,
    *,
    reason: str | None = None,
    level: Level = "nothing",
    sees_scores: bool = True,
) -> PredictionAttackOutcome:
    """How one attack on the first batch went."""
    return PredictionAttackOutcome(
        attack=attack,
        batch=0,
        records=1,
        status=status,
        reason=reason,
        level=level,
        sees_scores=sees_scores,
        seconds=0.1,
    )


def add_label_attack(run: RunFolder, wrong: int, *, party: str = "passive") -> RunFolder:
    """Add an attack that answers for every label, so many of them wrongly."""
    truth = run.labels()
    found = truth.copy()
    found[:wrong] = 1 - found[:wrong]
    rows = np.arange(len(truth))
    arrays = vars(FoundLabels(found, np.zeros(len(rows), dtype=np.int64), rows, found))
    run.write_training_arrays(
        party, "label_recovery", {name: array for name, array in arrays.items() if array is not None}
    )
    return add_outcome(run, party, "label_recovery", kind="labels")


def add_attempts_on_ciphertexts(run: RunFolder) -> RunFolder:
    """Add an attempt of every party to replace its messages, which came to nothing."""
    agreement = run.record("active").agreement
    for party in () if agreement is None else agreement.parties:
        add_outcome(run, party.name, "auxiliary_ciphertext", NOT_APPLICABLE, reason="it can't work with these numbers")
    return run


def add_outcome(
    run: RunFolder,
    party: str,
    attack: str,
    status: AttackStatus = DONE,
    *,
    reason: str | None = None,
    kind: str | None = None,
    conduct: Conduct | None = None,
) -> RunFolder:
    """Add how one attack on training went to what else a party tried."""
    one = TrainingAttackOutcome(
        attack=attack, party=party, kind=kind, status=status, reason=reason, conduct=conduct, seconds=0.1
    )
    run.write_training_outcomes(party, [*(other for other in run.training_outcomes() if other.party == party), one])
    return run
