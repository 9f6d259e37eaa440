"""A passive party's part of the score from all epochs' sums, with an honest word on how much of it that is."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.training.trajectory_products import TrajectoryProducts
from attacks.views import ViewError
from tests.harness.listening import planted, seen, trained, view_of
from vfl.theory.training import OracleRun

ATTACK = TrajectoryProducts()


def part_told(run: OracleRun) -> tuple[float, float]:
    """Which part of the products' variance is told, and which the attack says."""
    found = ATTACK.attack(seen(run, 0))
    truth = run.blocks[1] @ run.weights[1]
    left = ((found.products["party-1"] - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum()
    return 1 - float(left), found.told["party-1"]


@pytest.mark.parametrize("seed", range(3))
def test_batches_much_larger_than_the_own_columns_tell_the_products(seed: int) -> None:
    right, said = part_told(trained(seed, shuffled=False))
    assert right >= 0.97
    assert said == pytest.approx(right, abs=0.05)


def test_fewer_epochs_tell_less_and_it_claims_no_more_than_it_tells() -> None:
    few, many = part_told(trained(shuffled=False, epochs=8)), part_told(trained(shuffled=False, epochs=30))
    assert few[0] < many[0]
    assert few[1] <= few[0]
    assert many[1] <= many[0] + 0.01


def test_sums_of_noise_tell_no_product() -> None:
    view, generator = seen(trained(), 0), np.random.default_rng(0)
    noisy = tuple(
        replace(one, sums=one.matrix.T @ generator.normal(0, 1, (len(one.rows), 1))) for one in view.equations
    )
    found = ATTACK.attack(replace(view, equations=noisy))
    assert not found.products
    assert "Not possible" in found.reason


def test_it_is_the_active_partys() -> None:
    with pytest.raises(ViewError, match="labels"):
        ATTACK.attack(view_of(planted(), 1))
