"""One epoch in a real federation beside the same epoch in float64: the same rows, batches and initial weights.

Every process, key and message of the federation is real: services over mTLS, Paillier, Protocol 1. The passive party
mounts ``auxiliary_ciphertext`` where it attacks, since no other has enough equations for a batch of 256 (Hu 5.2).
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from attacks.training.auxiliary_ciphertext import AuxiliaryPlan
from plumbline.audit.request import AuditRequest
from plumbline.judge.summary import read_summary
from plumbline.judge.training import read_training_findings
from plumbline.recipe import party_names
from services.common.run_folder import RunFolder
from studies.hu.equations import auxiliary_plan
from studies.simulation.affine_expansions import TAYLOR_SLOPE, AffineExpansion
from studies.simulation.live import finished_run
from studies.simulation.records import LoadedTable, Records, Scaling, records_of, scaled_features
from studies.simulation.side_by_side import Starts, Watch, train_side_by_side
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.fixed_point import RESIDUAL
from vfl.data import column_blocks
from vfl.learning import BatchSchedule, GradientDescent, initial_weights, split_rows
from vfl.learning.schedule import RowSplit

ATTACK = "auxiliary_ciphertext"
_ACTIVE, _PASSIVE = party_names(2)
# Random features beyond what a batch needs: nearly square systems are ill-conditioned.
_SPARE = 1.1


@dataclass(frozen=True)
class WireTerms:
    """What one federation trains, and how.

    Attributes:
        scaling: of the features, as in the simulation.
        initialisation: of the weights.
        seed: of the schedule and of the parties' secrets.
        steps: how many batches of rows take part; None for all training rows.
        attacked: whether the passive party mounts Algorithm 2, which its peer lets it (INSECURE, no packing).
        slope: of the affine expansion of the sigmoid; 1/4 is Taylor's.
        learning_rate: of theta.
        batch_size: rows, at most.
        key_bits: of Paillier.
    """

    scaling: Scaling
    initialisation: str = "zero"
    seed: int = 0
    steps: int | None = None
    attacked: bool = True
    slope: float = TAYLOR_SLOPE
    learning_rate: float = 0.01
    batch_size: int = 256
    key_bits: int = 2048

    @property
    def expansion(self) -> AffineExpansion:
        """What is trained, in units in which it is first order."""
        return AffineExpansion(self.slope)


@dataclass(frozen=True, eq=False)
class _Epoch:
    """The rows of one epoch in the order that the federation agrees on.

    Attributes:
        terms: of the federation.
        features: (n, d + 1): the active party's columns, its bias, the passive party's columns; those that vary.
        labels: (n,), 0 or 1.
        active: how many of the columns are the active party's, its bias included.
        test: how many rows are held out.
    """

    terms: WireTerms
    features: FloatArray
    labels: IntArray
    active: int
    test: int

    @cached_property
    def schedule(self) -> BatchSchedule:
        return BatchSchedule(self._split.train, self.terms.batch_size, self.terms.seed)

    @property
    def test_rows(self) -> IntArray:
        return self._split.test

    @property
    def test_fraction(self) -> float:
        return self.test / len(self.labels)

    @cached_property
    def _split(self) -> RowSplit:
        return split_rows(
            len(self.labels), validation_fraction=0.0, test_fraction=self.test_fraction, seed=self.terms.seed
        )

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The active party's table with labels, and the passive party's. Ids sort as rows do."""
        ids = pd.Series([f"{row:07d}" for row in range(len(self.labels))], name="id")
        blocks = self.features[:, : self.active - 1], self.features[:, self.active :]
        active, passive = (
            pd.concat(
                [ids, pd.DataFrame(block, columns=[f"{name}{number}" for number in range(block.shape[1])])], axis=1
            )
            for name, block in zip("ab", blocks, strict=True)
        )
        return active.assign(label=self.labels), passive


def wire_epoch(table: LoadedTable, **terms: Any) -> dict[str, Any]:
    """Train one epoch in a federation and in float64, and compare them.

    Args:
        table: the data set, as loaded.
        terms: of ``WireTerms``.

    Returns:
        steps, rows, tested, features, u (of Algorithm 2), equations (per step); difference (the largest of any
        weight), bound (of it, ``rounding_bound``), theta_norm; accuracy and accuracy_simulated on test rows;
        by_step and by_step_simulated (lists: the share of each batch's labels that was told right), by_step empty
        without an attack; answered (share of rows); reason; bytes, training_bytes, seconds (of the epoch).

    Raises:
        RuntimeError: when the federation trained on other numbers than the simulation.
    """
    chosen = WireTerms(**terms)
    epoch = _epoch(records_of(table), chosen)
    plan = _plan(epoch) if chosen.attacked else None
    with tempfile.TemporaryDirectory(prefix="plumbline-wire-") as folder:
        request = _request(epoch, plan, Path(folder))
        with finished_run(request) as parties:
            _check_same(parties, epoch)
            wired = _of_wire(parties, epoch, attacked=chosen.attacked)
            weights = np.vstack([parties.weights(name).weights for name in (_ACTIVE, _PASSIVE)])
    simulated, weights_simulated = _simulated(epoch, request)
    unit = chosen.expansion.unit
    return {
        "steps": epoch.schedule.steps_per_epoch,
        "rows": len(epoch.schedule.train_rows),
        "tested": epoch.test,
        "features": epoch.features.shape[1],
        "u": plan.copies if plan else 1,
        "equations": plan.equations if plan else epoch.features.shape[1] - epoch.active,
        "difference": float(np.abs(weights - weights_simulated).max() / unit),
        "bound": rounding_bound(epoch.features, epoch.schedule.steps_per_epoch, chosen.learning_rate),
        "theta_norm": float(np.linalg.norm(weights) / unit),
        **wired,
        **simulated,
    }


def rounding_bound(features: FloatArray, steps: int, learning_rate: float) -> float:
    """Bound how far fixed point may take weights from float64 (ours).

    A peer's share is rounded by at most half a unit r of its last bit, which moves a gradient's sum of s terms by at
    most s r max ||x||, from either side. A step of gradient descent on a quadratic brings two trainings no further
    apart as long as its rate is below 2 over the curvature; the rest adds up: steps * eta / 4 * 2 r max ||x||.
    """
    half_unit = 2.0 ** -(RESIDUAL.fraction_bits + 1)
    return steps * learning_rate / 4 * 2 * half_unit * float(np.linalg.norm(features, axis=1).max())


def _epoch(records: Records, terms: WireTerms) -> _Epoch:
    """The rows of the simulation, put where the federation's own split has its training and its test rows."""
    train, test = records.rows_of(terms.seed)
    scaled = scaled_features(records, terms.scaling, train)
    if terms.steps is not None:
        train, test = train[: terms.steps * terms.batch_size], test[: max(1, terms.steps * terms.batch_size // 10)]
    order = np.empty(len(train) + len(test), dtype=np.int64)
    split = split_rows(len(order), validation_fraction=0.0, test_fraction=len(test) / len(order), seed=terms.seed)
    order[split.train], order[split.test] = train, test
    width = column_blocks(scaled.shape[1], 2)[0].stop
    # Parties keep the columns of their tables that vary: one value in every row, such as a pixel of the margin, goes.
    halves = np.split(scaled[order], [width], axis=1)
    own, others = (block[:, block.max(axis=0) > block.min(axis=0)] for block in halves)
    features = np.hstack([own, np.ones((len(order), 1)), others])
    return _Epoch(terms, features, records.labels[order], own.shape[1] + 1, len(test))


def _plan(epoch: _Epoch) -> AuxiliaryPlan:
    """As many random features as a batch needs, and a tenth more where the key holds them: each costs a product."""
    own, size = epoch.features[:, epoch.active :], epoch.terms.batch_size
    wanted = int(np.ceil(_SPARE * size / own.shape[1])) + (own.shape[1] >= size)
    return auxiliary_plan(own, size, wanted, key_bits=epoch.terms.key_bits)


def _request(epoch: _Epoch, plan: AuxiliaryPlan | None, folder: Path) -> AuditRequest:
    terms, files = epoch.terms, [folder / "active.parquet", folder / "passive.parquet"]
    for frame, file in zip(epoch.tables(), files, strict=True):
        frame.to_parquet(file, index=False)
    attack: Mapping[str, Any] = {}
    if plan is not None:
        options = {ATTACK: {"iota": plan.iota, "most_copies": plan.copies}}
        attack = {"truncate_answers": False, "packing": False, "attack_options": options}
    settings = {
        "epochs": 1,
        "batch_size": terms.batch_size,
        "learning_rate": terms.expansion.unit * terms.learning_rate,
        "l2": 0.0,
        "steps": "plain",
        "calibrated": False,
        "initialisation": terms.initialisation,
        "seed": terms.seed,
        "test_fraction": epoch.test_fraction,
        "validation_fraction": 0.0,
        "encoder": "none",
        "key_bits": terms.key_bits,
        "allow_insecure_keys": terms.key_bits < 2048,
        "record_features": True,
        **attack,
    }
    return AuditRequest.of(
        active=str(files[0]),
        passive=(str(files[1]),),
        label="label",
        name="wire",
        attacks=(ATTACK,) if plan else (),
        adversary="passive",
        cipher="paillier",
        assume_yes=True,
        settings=settings,
    )


def _check_same(parties: RunFolder, epoch: _Epoch) -> None:
    """Raises RuntimeError unless both trainings see the same numbers in the same order."""
    found = [parties.features(name).features for name in (_ACTIVE, _PASSIVE)]
    if not (np.array_equal(np.hstack(found), epoch.features) and np.array_equal(parties.labels(), epoch.labels)):
        raise RuntimeError("The federation trained on other numbers than the simulation: its tables were encoded.")


def _of_wire(parties: RunFolder, epoch: _Epoch, *, attacked: bool) -> dict[str, Any]:
    """What the federation says of its own epoch, and what the attack told of each batch."""
    summary = read_summary(parties, "wire")
    sent = summary.bytes_by_message.items()
    wired: dict[str, Any] = {
        "accuracy": summary.accuracy,
        "seconds": summary.epoch_seconds,
        "bytes": summary.total_bytes,
        "training_bytes": sum(size for name, size in sent if name.startswith(("Send", "Ask"))),
        "by_step": [],
        "answered": float("nan"),
        "reason": "",
    }
    if not attacked:
        return wired
    finding = next(one for one in read_training_findings(parties) if one.attack == ATTACK)
    if not finding.is_scored:
        return wired | {"reason": finding.reason}
    found = parties.malicious.found_labels(_PASSIVE, ATTACK)
    ends = np.cumsum([len(rows) for rows in epoch.schedule.epoch(0)])[:-1]
    right = np.split(found.step_labels == epoch.labels[found.step_rows], ends)
    return wired | {"by_step": [float(one.mean()) for one in right], "answered": finding.resolved}


def _simulated(epoch: _Epoch, request: AuditRequest) -> tuple[dict[str, Any], FloatArray]:
    """The same epoch in float64, and its weights: (d + 1, 1), in units in which they are first order."""
    settings, width = request.recipe(request.tables.party_settings).checked().parties, epoch.features.shape[1]
    start = []
    for name, features in ((_ACTIVE, epoch.active), (_PASSIVE, width - epoch.active)):
        own = np.random.default_rng(settings[name].private_seed)
        start.append(initial_weights(epoch.terms.initialisation, features, 1, total_features=width, generator=own))
    rate, by_step = cast("float", request.federation.settings["learning_rate"]), list[float]()

    def observe(rows: IntArray, _: FloatArray, seen: FloatArray, __: FloatArray) -> None:
        by_step.append(float(((seen[:, 0] < 0) == (epoch.labels[rows] == 1)).mean()))

    trained = train_side_by_side(
        epoch.features,
        epoch.labels,
        Starts(np.vstack(start), np.zeros(1, dtype=np.int64)),
        GradientDescent(epoch.schedule, epochs=1, learning_rate=rate),
        test=epoch.test_rows,
        watch=Watch(step=observe),
    )
    measured = {"accuracy_simulated": float(trained.accuracy_test[-1, 0]), "by_step_simulated": by_step}
    return measured, trained.weights
