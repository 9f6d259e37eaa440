"""Figures 7 to 10 and Table 1 on data that scikit-learn brings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from studies.jiang.accuracies import datasets
from studies.jiang.inversion.contenders import GIA, GRN, MOMENTS, RANDOM
from studies.jiang.inversion.correlated_columns import correlation, correlations_of
from studies.jiang.inversion.generator_records import CountPlan, generative, in_batches
from studies.jiang.inversion.inversion_setting import Grid, InversionPlan, linear_model, network_targets
from studies.jiang.inversion.network_inversion import networks
from studies.jiang.inversion.network_shapes import activations, sizes
from studies.measurements import SweepOptions
from studies.study import StudyRun
from tests.harness.prepared import prepare

pytest.importorskip("torch")
RUN = StudyRun(SweepOptions(workers=1))
PLAN = InversionPlan(Grid(("breast_cancer",), ratios=(0.1,), windows=2), records=10, steps=40, draws=3)
ONE = replace(PLAN, grid=replace(PLAN.grid, windows=1))


def test_figure_7() -> None:
    section = networks(RUN, PLAN)
    assert set(section.data["status"]) == {"done"}
    assert {RANDOM, GRN, GIA, MOMENTS} <= set(section.data["curve"])
    assert len(section.plots) == 2
    assert section.data["model"].dropna().unique().tolist() == ["network"]


def test_figures_9_and_10_compare_the_same_windows() -> None:
    by_size, by_activation = sizes(RUN, ONE), activations(RUN, ONE)
    for section, first in ((by_size, "GIA, 2 layers"), (by_activation, "GIA, sigmoid")):
        places = section.data.groupby("curve")[["seed", "start"]].apply(lambda own: sorted(map(tuple, own.to_numpy())))
        assert len(set(map(tuple, places))) == 1
        assert first in set(section.data["curve"])
    # The one shape that both have is the same measurement.
    same = [
        section.data[section.data["curve"] == curve]["mse"].tolist()
        for section, curve in ((by_size, "GIA, 2 layers"), (by_activation, "GIA, sigmoid"))
    ]
    assert same[0] == same[1]


def test_figure_8_attacks_batches_by_themselves() -> None:
    (target, _) = network_targets(PLAN.grid, 0)
    network = prepare(target.model, None)
    gia: dict[str, Any] = {"passive": target.passive, "attack": "gia", "options": (("steps", 30),)}
    apart = in_batches(network, **gia, together=2, batches=6)
    at_once = in_batches(network, **gia, together=12, batches=1)
    assert apart["mse"] == pytest.approx(at_once["mse"], abs=1e-12)
    grn = gia | {"attack": "grn", "options": (("epochs", 2),)}
    assert in_batches(network, **grn, together=2, batches=6) != in_batches(network, **grn, together=12, batches=1)


def test_figure_8() -> None:
    plan = CountPlan(ONE.grid, counts=(1, 10), least=3, steps=20, draws=5, epochs=3)
    section = generative(RUN, plan)
    assert sorted(section.data["predictions"].unique()) == [1, 10]
    assert section.data["attack_accuracy"].between(0, 1).all()
    assert {one.subject for one in section.statements} == {"breast_cancer", "bank_all, satellite"}


def test_figure_6_has_a_row_for_each_feature() -> None:
    section = correlation(RUN, InversionPlan(PLAN.grid, records=10, steps=20, draws=5))
    assert section.data["curve"].nunique() == 4
    assert set(section.data.groupby(["curve", "start"]).size()) == {3}
    (drawn,) = section.maps
    assert all(max(one or 0.0 for one in row) == pytest.approx(1) for row in drawn.shares)


def test_correlations_are_those_of_training_records() -> None:
    model = prepare(linear_model("wine", 0), None)
    (found,) = correlations_of(model, passive=[3]).values()
    table = np.corrcoef(model.features_train.T)[3]
    assert found == pytest.approx([np.abs(np.delete(table, 3)).mean()])


def test_table_1() -> None:
    section = datasets(RUN, Grid(("wine",), ratios=(0.5,), seeds=1))
    assert section.summary["records here"].tolist() == ["178"]
    assert section.summary["features"].tolist() == [13]
    accuracies = section.data["accuracy"].dropna()
    assert len(accuracies) == 3
    assert accuracies.between(0.8, 1).all()
    (missing,) = section.statements
    assert missing.verdict == "not measured"
