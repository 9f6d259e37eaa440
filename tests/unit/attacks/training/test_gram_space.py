"""Passive columns from a network's hidden sums, with no record known."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import attacks
from attacks.prediction.known_moments import known_moments
from attacks.training.binary_columns import BinaryValues
from attacks.training.gram_space import GramSpace
from attacks.training.recovered_values import EstimatedFeatures
from attacks.training_views import TrainingView
from attacks.views import ViewError
from tests.harness.network_views import NetworkRun, breast_cancer, network_run
from vfl.arrays import FloatArray, IntArray

# The label party trains with it.
pytest.importorskip("torch")

TRAINED = 400


def tables(columns: int = 4) -> tuple[list[FloatArray], IntArray]:
    """Both parties' columns in an order that has nothing to do with them, so that others' statistics are alike."""
    blocks, labels = breast_cancer(columns=columns)
    order = np.random.default_rng(0).permutation(len(labels))
    return [block[order] for block in blocks], labels[order]


def run_of(columns: int = 4, **options: Any) -> NetworkRun:
    """A training on the first records; statistics are over the others."""
    return network_run(*tables(columns), trained_on=TRAINED, **{"epochs": 10, **options})


def informed(run: NetworkRun, **pieces: Any) -> TrainingView:
    """The label party's view, with statistics of records that weren't trained on."""
    passive = np.hstack(run.data.blocks[1:])
    return run.active(**{"moments": known_moments(passive[TRAINED:]), **pieces})


def part(run: NetworkRun, found: object) -> float:
    """Which part of the guess's squared error is gone."""
    assert isinstance(found, EstimatedFeatures)
    truth = np.hstack(run.data.blocks[1:])[found.rows]
    values, guesses = (np.hstack(list(one.values())) for one in (found.values, found.guesses))
    return float(1 - ((values - truth) ** 2).mean() / ((guesses - truth) ** 2).mean())


@pytest.mark.parametrize("options", [{}, {"optimiser": "sgd"}, {"backward": "shared", "hidden": 2}])
def test_sums_and_a_covariance_of_other_records_tell_most_of_the_columns(options: dict[str, Any]) -> None:
    run = run_of(**options)
    assert part(run, GramSpace().attack(informed(run))) >= 0.6


def test_thirty_known_records_make_it_exact_and_two_help() -> None:
    run = run_of()
    found = GramSpace("records").attack(run.active(known=range(30)))
    assert part(run, found) >= 1 - 1e-6
    assert isinstance(found, EstimatedFeatures)
    assert len(found.rows) == TRAINED - 30
    assert part(run, GramSpace("records").attack(informed(run, known=range(2)))) >= 0.6


def test_columns_of_several_parties_are_told_by_party() -> None:
    (own, other), labels = tables(6)
    run = network_run([own, other[:, :2], other[:, 2:]], labels, trained_on=TRAINED, epochs=10)
    found = GramSpace("records").attack(run.active(known=range(30)))
    assert isinstance(found, EstimatedFeatures)
    assert {peer: values.shape[1] for peer, values in found.values.items()} == {"party-1": 2, "party-2": 4}
    assert part(run, found) >= 1 - 1e-6


def test_a_column_of_two_values_comes_out_with_nothing_known() -> None:
    (own, other), labels = tables(6)
    flag = (other[:, 0] > np.median(other[:, 0])).astype(np.float64)
    run = network_run([own, np.column_stack([other, flag])], labels, trained_on=TRAINED, epochs=10, hidden=4)
    found = GramSpace("nothing").attack(run.active())
    assert isinstance(found, BinaryValues)
    told = {tuple(column) for column in found.values.T}
    assert tuple(flag[found.rows]) in told or tuple(1 - flag[found.rows]) in told


def test_sums_of_other_records_tell_nothing() -> None:
    run = run_of()
    view, generator = informed(run), np.random.default_rng(0)
    fresh = tuple(replace(one, products=generator.standard_normal(one.products.shape)) for one in view.forwarded)
    found = GramSpace().attack(replace(view, forwarded=fresh))
    assert isinstance(found, EstimatedFeatures)
    assert found.reason or part(run, found) < 0.1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"hidden": 1, "epochs": 5}, "1 units in 5 epochs are 5 sums of a record, fewer than 6 columns"),
        ({"optimiser": "adam", "learning_rate": 0.01, "epochs": 2}, "adam"),
    ],
)
def test_it_says_why_nothing_follows(options: dict[str, Any], reason: str) -> None:
    run = run_of(6, **options)
    for prior in ("nothing", "marginals", "covariance"):
        found = attacks.load("gram_space", prior=prior).attack(informed(run))
        assert reason in found.reason
        assert not len(found.rows) or isinstance(found, BinaryValues)


def test_it_says_what_is_missing() -> None:
    run = run_of(epochs=1)
    with pytest.raises(ViewError, match="needs moments"):
        GramSpace("marginals").attack(run.active())
    with pytest.raises(ViewError, match="has none"):
        GramSpace().attack(informed(run, moments=replace(informed(run).moments, covariance=None)))  # type: ignore[type-var]
    with pytest.raises(ViewError, match="needs known_records"):
        GramSpace("records").attack(run.active())
    with pytest.raises(ViewError, match="None of known_records"):
        GramSpace("records").attack(run.active(known=range(500, 510)))
    with pytest.raises(ViewError, match="needs forwarded"):
        GramSpace().attack(run.passive())
    with pytest.raises(ViewError, match="moments tell of 2 columns"):
        run.active(moments=known_moments(np.zeros((3, 2))))
    with pytest.raises(ValueError, match="expected prior"):
        attacks.load("gram_space", prior="everything")


@pytest.mark.parametrize("columns", ["alike", "copied", "constant"])
def test_tables_that_tell_little_end_in_estimates_or_a_sentence(columns: str) -> None:
    (own, other), labels = tables()
    made = {
        "alike": np.full_like(other, 0.4),
        "copied": np.column_stack([other, other[:, :2]]),
        "constant": np.column_stack([other, np.zeros(len(other)), np.ones(len(other))]),
    }[columns]
    run = network_run([own, made], labels, trained_on=TRAINED, epochs=4)
    for prior in ("nothing", "marginals", "covariance", "records"):
        found = attacks.load("gram_space", prior=prior).attack(informed(run, known=range(30)))
        values = [*getattr(found, "values", {}).values()] if isinstance(found, EstimatedFeatures) else [found.values]
        assert all(np.isfinite(one).all() for one in values)
        assert found.reason or values[0].size
    if columns != "alike":
        assert part(run, GramSpace("records").attack(informed(run, known=range(30)))) >= 1 - 1e-6
