"""What lights say of leaks whose size is known, over many runs: red where it is red, and no alarm where nothing is.

PLANTED_RUNS makes more of them; ``make planted`` does.
"""

import os
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from plumbline.judge.evidence import Predictor
from tests.harness.planted import PlantedColumn, audit, estimate_of, useless
from vfl.arrays import FloatArray

RUNS = int(os.environ.get("PLANTED_RUNS", "200"))
COLUMNS, JUDGING = 8, 200
PARTS = (0.63, 0.28)
SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, int]], FloatArray]] = {
    "even": lambda generator, shape: generator.random(shape),
    "bell": lambda generator, shape: np.clip(generator.normal(0.5, 0.15, shape), 0, 1),
}


def planted(seed: int, shape: str, records: int) -> list[PlantedColumn]:
    """Two columns of which a part leaks, and others of which none does."""
    generator = np.random.default_rng(seed)
    truth = SHAPES[shape](generator, (records, COLUMNS))
    parts = (*PARTS, *(0.0 for _ in range(COLUMNS - len(PARTS))))
    estimate = [estimate_of(column, part, generator) for column, part in zip(truth.T, parts, strict=True)]
    return audit(truth, [Predictor("ls", "marginals", np.column_stack(estimate))])


@pytest.mark.slow("chance shows over many runs only")
@pytest.mark.parametrize("shape", ["bell", pytest.param("even", marks=pytest.mark.thorough)])
def test_planted_parts_are_found_and_measured(shape: str) -> None:
    runs = [planted(seed, shape, JUDGING) for seed in range(RUNS)]
    lights = [Counter(run[number].light for run in runs) for number in range(COLUMNS)]
    assert lights[0]["red"] >= 0.8 * RUNS
    assert lights[1]["amber"] + lights[1]["red"] >= 0.8 * RUNS
    assert lights[0]["green"] + lights[1]["green"] == 0
    assert all(one["amber"] + one["red"] == 0 for one in lights[2:])
    for number, part in enumerate(PARTS):
        found = [one.part for run in runs if (one := run[number].verdict).part is not None]
        assert np.mean([one.mean for one in found]) == pytest.approx(part, abs=0.02)
        assert np.mean([one.low <= part <= one.high for one in found]) >= 0.93


@pytest.mark.parametrize("shape", ["even", pytest.param("bell", marks=pytest.mark.thorough)])
def test_fewer_records_leave_a_leak_grey_and_never_make_it_green(shape: str) -> None:
    runs = [planted(seed, shape, JUDGING // 2) for seed in range(RUNS)]
    assert Counter(run[0].light for run in runs)["red"] >= 0.8 * RUNS
    assert not any(column.light == "green" for run in runs for column in run[:2])


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_planted_raises_an_alarm_in_few_audits_whatever_they_have_of_columns_and_attacks(shape: str) -> None:
    alarms = 0
    for seed in range(RUNS):
        generator = np.random.default_rng(seed)
        truth = SHAPES[shape](generator, (JUDGING, COLUMNS))
        attacks = [
            Predictor("a", "marginals", np.column_stack([useless(one, generator) for one in truth.T])),
            Predictor("b", "covariance", generator.permutation(truth)),
            Predictor("c", "records", np.column_stack([useless(one, generator) for one in truth.T])),
        ]
        alarms += any(one.light in ("red", "amber") for one in audit(truth, attacks))
    assert alarms <= 0.05 * RUNS


def test_a_part_has_no_bias_from_the_luckiest_of_many_attacks_or_guesses() -> None:
    """Twenty guesses as good as each other, and twenty attacks: which is best on the judged records is luck."""
    parts = []
    for seed in range(RUNS // 2):
        generator = np.random.default_rng(seed)
        truth = generator.random((JUDGING, 1))
        guesses = [Predictor(f"g{one}", "marginals", useful(truth, 0.2, generator)) for one in range(20)]
        attacks = [Predictor(f"a{one}", "marginals", useful(truth, 0.424, generator)) for one in range(20)]
        (column,) = audit(truth, attacks, guesses)
        assert column.verdict.part is not None
        parts.append(column.verdict.part.mean)
    assert np.mean(parts) == pytest.approx(0.28, abs=0.02)


def useful(truth: FloatArray, part: float, generator: np.random.Generator) -> FloatArray:
    return np.column_stack([estimate_of(column, part, generator) for column in truth.T])


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
