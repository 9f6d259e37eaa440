"""Whether a passive party's equations determine f: their rank, their condition, and a planted share to recover."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from attacks.training.auxiliary_ciphertext import AuxiliaryCiphertext, AuxiliaryPlan, extend
from attacks.training_views import Equations, solve_shares
from studies.page.elements import number_words
from studies.simulation.records import FRACTION_BITS
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.fixed_point import RESIDUAL, FixedPoint
from vfl.data import is_signed, magnitude_bits
from vfl.learning import BatchSchedule
from vfl.theory.training import copies, sum_bits

KEY_BITS = 2048
IOTA = 64
_SHARE_STEP = 2.0**-RESIDUAL.fraction_bits
_FACT_BATCHES = 3
# Keeps planted shares apart from the public streams of the same seed.
_SHARE_STREAM = 0x4653


@dataclass(frozen=True)
class EquationFacts:
    """Whether a passive party's equations determine f, on some batches of one scaling.

    Attributes:
        rows: of a batch.
        features: of the passive party.
        copies: u of Algorithm 2; 1 without it.
        equations: per batch.
        sum_bits: what one sum takes at fixed point.
        fits: whether u of them fit a 2048-bit key.
        batches: how many were looked at.
        rank_low: the least rank over batches.
        rank_high: the greatest.
        condition: the largest condition number.
        recovered: on how many of them a planted share was recovered.
        error: its largest absolute error; None without any.
    """

    rows: int
    features: int
    copies: int
    equations: int
    sum_bits: int
    fits: bool
    batches: int
    rank_low: int
    rank_high: int
    condition: float | None
    recovered: int
    error: float | None


def _feature_format(features: FloatArray) -> FixedPoint:
    return FixedPoint(FRACTION_BITS, magnitude_bits(features), signed=is_signed(features))


def auxiliary_plan(
    features: FloatArray, batch_size: int, most_copies: int | None, *, key_bits: int = KEY_BITS
) -> AuxiliaryPlan:
    """Plan Algorithm 2 for a passive party's (n, d) features, iota no less than what a sum takes.

    Raises:
        NotPossible: a ValueError, when a batch has more rows than u d.
    """
    fixed = _feature_format(features)
    iota = max(IOTA, sum_bits(batch_size, RESIDUAL.bound, fixed.bound))
    return AuxiliaryCiphertext(iota=iota, most_copies=most_copies).plan(
        key_bits=key_bits, features=features.shape[1], rows=batch_size, residual_format=RESIDUAL, feature_format=fixed
    )


def equation_facts(features: FloatArray, schedule: BatchSchedule, *, used_copies: int) -> EquationFacts:
    """Measure some batches of a passive party's (n, d) features, extended to ``used_copies`` d columns."""
    fixed, size, width = _feature_format(features), schedule.batch_size, features.shape[1]
    bits = sum_bits(size, RESIDUAL.bound, fixed.bound)
    plan = AuxiliaryPlan(width, used_copies, IOTA)
    generator = np.random.default_rng((_SHARE_STREAM, schedule.seed))
    attack = AuxiliaryCiphertext()
    ranks, conditions, errors = [], [], []
    for step, rows in zip(range(_FACT_BATCHES), schedule.epoch(0), strict=False):
        matrix = extend(features[rows], plan, fixed, attack.generator(step))
        planted = np.rint(generator.normal(0.0, 2.0, (len(rows), 1)) / _SHARE_STEP) * _SHARE_STEP
        solved = solve_shares(Equations(step, "active", rows, matrix, matrix.T @ planted))
        ranks.append(solved.rank)
        conditions.append(solved.condition_number)
        if solved.values is not None:
            errors.append(float(np.abs(solved.values - planted).max()))
    condition = max(conditions)
    return EquationFacts(
        rows=size,
        features=width,
        copies=used_copies,
        equations=plan.equations,
        sum_bits=bits,
        fits=used_copies == 1 or used_copies <= copies(KEY_BITS, max(bits, IOTA)),
        batches=len(ranks),
        rank_low=min(ranks),
        rank_high=max(ranks),
        condition=condition if np.isfinite(condition) else None,
        recovered=len(errors),
        error=max(errors, default=None),
    )


def rank_and_condition(features: FloatArray, rows: IntArray, plan: AuxiliaryPlan, step: int) -> tuple[int, float]:
    """Compute rank and condition number of one batch's equations with Algorithm 2, as ``solve_shares`` counts them."""
    matrix = extend(features[rows], plan, _feature_format(features), AuxiliaryCiphertext().generator(step))
    singular = np.linalg.svd(matrix, compute_uv=False)
    counted = singular[singular > max(matrix.shape) * 2.0**-52 * singular[0]]
    return len(counted), float(counted[0] / counted[-1])


def fact_words(fact: Any) -> str:
    """Say what some batches' equations determined."""
    condition = "" if pd.isna(fact.condition) else f", condition number up to {number_words(fact.condition)}"
    with_copies = f"u = {fact.copies}, " if fact.copies > 1 else ""
    too_many = "" if fact.fits else f", but a sum takes {fact.sum_bits} bits and so many don't fit the key"
    ranks = str(fact.rank_low) if fact.rank_low == fact.rank_high else f"{fact.rank_low} to {fact.rank_high}"
    return (
        f"Batch {fact.rows}: {with_copies}{fact.equations} equations of rank {ranks}{condition}, "
        f"f recovered on {fact.recovered} of {fact.batches} batches{too_many}."
    )
