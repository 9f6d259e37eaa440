"""Canaries: simulated trials are the wire's, and what they prove stays below what theory attains."""

import numpy as np
import pytest

from studies.defences.canaries import (
    CANARY,
    SIGMAS,
    CanarySession,
    canaries_section,
    default_delta,
    measured,
    on_the_wire,
    sensitivity,
    simulated,
)
from studies.measurements import SweepOptions
from studies.page.section import Section
from studies.study import StudyRun
from vfl.theory.gaussian_mechanism import gaussian_epsilon


@pytest.fixture(scope="module")
def section() -> Section:
    return canaries_section(StudyRun(SweepOptions(workers=1), quick=True))


@pytest.mark.parametrize("world", [0, 1])
def test_a_simulated_trial_has_the_shares_that_the_passive_party_reads_off_the_wire(world: int) -> None:
    session = CanarySession(sigma=3.0)
    seeds = [5, 11]
    found = simulated(session, world, seeds)
    assert found.shape == (2, session.epochs)
    for seed, shares in zip(seeds, found, strict=True):
        np.testing.assert_array_equal(on_the_wire(session, world, seed, 512), shares)


def test_without_noise_the_worlds_differ_by_the_label_alone() -> None:
    session = CanarySession(sigma=1e-9)
    one, other = (simulated(session, world, [0])[0] for world in (0, 1))
    assert one[0] - other[0] == pytest.approx(4.0, abs=1e-6)
    # Later shares move with theta, which the label moved.
    np.testing.assert_allclose(one - other, 4.0, atol=0.2)
    assert (one - other)[-1] != pytest.approx(4.0, abs=1e-6)


def test_rows_are_as_long_as_theory_assumes_and_the_canary_comes_once_per_epoch() -> None:
    session = CanarySession(sigma=1.0)
    assert np.linalg.norm(np.hstack([block.values for block in session.blocks]), axis=1) == pytest.approx(1.0, abs=1e-4)
    assert sum(CANARY in rows for rows in session.batches) == session.epochs
    # Delta is that of the formula, 8 in each epoch and what theta's moves add; the label moves half as much.
    assert 8 * np.sqrt(3) < sensitivity(session) < 1.1 * 8 * np.sqrt(3)


def test_little_noise_is_found_out_and_much_noise_is_not() -> None:
    loud, quiet = (measured(CanarySession(sigma), 2000, 1, 512) for sigma in (0.5, 64.0))
    assert loud["epsilon_proved"] > 4.5
    assert quiet["epsilon_proved"] < 0.1
    assert loud["agreeing"] == quiet["agreeing"] == 2


def test_no_bound_is_above_the_exact_epsilon(section: Section) -> None:
    data = section.data
    assert tuple(data["sigma"]) == SIGMAS
    assert (data["epsilon_proved"] <= data["epsilon_of_label"]).all()
    assert (data["epsilon_of_label"] < data["epsilon_of_theory"]).all()
    # Where a thousand trials can tell, they come to a third of what there is.
    some = data[data["sigma"] == 4.0].iloc[0]
    assert some["epsilon_proved"] > some["epsilon_of_label"] / 3
    for sigma, attained in zip(SIGMAS, data["epsilon_of_theory"], strict=True):
        session = CanarySession(sigma)
        assert attained == gaussian_epsilon(sensitivity(session), sigma, default_delta(session))


def test_the_page_says_what_was_simulated_and_with_what_confidence(section: Section) -> None:
    words = " ".join(section.notes)
    assert "12 of 12 trials that ran as Protocol 1 under Paillier with 512 bits" in words
    assert "with 95% confidence at delta = 0.00625, from 500 trials per world" in words
    (plot,) = section.plots
    assert "proved by canaries" in {curve.label for curve in plot.panels[0].curves}
    # The same seed, the same numbers.
    again = measured(CanarySession(SIGMAS[0]), 1000, 0, 512)
    assert again == section.data.iloc[0].to_dict()
