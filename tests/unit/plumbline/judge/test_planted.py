"""What lights say of leaks whose size is known, over many audits: red where it is red, no alarm where nothing is.

``make planted`` draws more of them, of every kind, and writes what it found into docs/measure.md.
"""

from typing import get_args

import numpy as np
import pytest
from scipy.stats import binom

from plumbline.judge.evidence import Predictor
from tests.harness.planted import (
    PARTS,
    Cell,
    Estimate,
    Shape,
    alarms,
    audit,
    estimate_of,
    independent,
    powers,
    useless,
)
from vfl.arrays import FloatArray

DRAWS, JUDGING = 120, 200
# How often a test fails here of what is as it should be.
ONCE_IN_10_000 = 1e-4


@pytest.mark.slow("chance shows over many audits only")
@pytest.mark.parametrize(
    ("cell", "estimate"),
    [
        (Cell("normal", 60, 1, 9), useless),
        (Cell("normal", 200, 4, 9), useless),
        (Cell("normal", 200, 1, 20), independent),
        (Cell("lognormal", 60, 1, 3), independent),
        (Cell("lognormal", 200, 2, 3), useless),
        (Cell("five values", 60, 1, 9), useless),
        (Cell("five values", 100, 2, 9), independent),
        (Cell("five values", 200, 1, 9), useless),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_nothing_planted_raises_an_alarm_in_few_audits(cell: Cell, estimate: Estimate) -> None:
    assert alarms(cell, DRAWS, estimate) <= binom.isf(ONCE_IN_10_000, DRAWS, 0.05)


@pytest.mark.slow("chance shows over many audits only")
@pytest.mark.parametrize(
    "cell",
    [*(Cell(shape, 200, 1, 3) for shape in get_args(Shape)), Cell("normal", 200, 2, 3)],
    ids=str,
)
def test_planted_parts_are_found_and_measured(cell: Cell) -> None:
    much, some = powers(cell, DRAWS)
    found = binom.ppf(ONCE_IN_10_000, DRAWS, 0.8) / DRAWS
    assert much.red >= found
    assert some.shown >= found or cell.copies > 1
    for part, one in zip(PARTS, (much, some), strict=True):
        assert one.green == 0
        assert one.part == pytest.approx(part, abs=0.02)
        assert one.covered >= binom.ppf(ONCE_IN_10_000, DRAWS, 0.93) / DRAWS


def test_a_part_has_no_bias_from_the_luckiest_of_many_attacks_or_guesses() -> None:
    """Twenty guesses as good as each other, and twenty attacks: which is best on the judged records is luck."""
    parts = []
    for seed in range(100):
        generator = np.random.default_rng(seed)
        truth = generator.random((JUDGING, 1))
        guesses = [Predictor(f"g{one}", "marginals", useful(truth, 0.2, generator)) for one in range(20)]
        attacks = [Predictor(f"a{one}", "marginals", useful(truth, 0.424, generator)) for one in range(20)]
        (column,) = audit(truth, attacks, guesses)
        assert column.verdict.part is not None
        parts.append(column.verdict.part.mean)
    assert np.mean(parts) == pytest.approx(0.28, abs=0.02)


def useful(truth: FloatArray, part: float, generator: np.random.Generator) -> FloatArray:
    return np.column_stack([estimate_of(part, column, generator) for column in truth.T])


def test_persons_count_beside_means() -> None:
    """30 % of records are read exactly and the rest badly, so that nothing shows on average."""
    generator = np.random.default_rng(0)
    truth = generator.random((2 * JUDGING, 2))
    estimate = generator.permutation(truth)
    estimate[: 2 * JUDGING * 3 // 10, 0] = truth[: 2 * JUDGING * 3 // 10, 0]
    order = generator.permutation(2 * JUDGING)
    read, unread = audit(truth[order], [Predictor("ls", "marginals", estimate[order])])
    assert read.verdict.part is not None
    assert read.verdict.part.mean < 0.1
    assert (read.light, unread.light) == ("amber", "green")
