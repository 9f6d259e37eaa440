"""What measurements share: data sets and trained models."""

import numpy as np
import pytest

from studies.measurements import Choice, DataChoice, ModelChoice
from studies.measurements.descriptions import frozen_options
from studies.simulation.linear_models import TrainedModel, train
from studies.simulation.network_models import TrainedNetwork
from studies.simulation.scaled_tables import ScaledTable
from tests.harness.prepared import prepare


def test_a_data_choice_is_a_table_and_a_model_choice_a_model() -> None:
    table = prepare(DataChoice("wine", rows=50), None)
    assert isinstance(table, ScaledTable)
    assert len(table.features) == 50
    model = prepare(ModelChoice(DataChoice("wine"), seed=2, held_out=0.3), None)
    assert isinstance(model, TrainedModel)
    np.testing.assert_array_equal(model.weights, train("wine", None, "lbfgs", 2, held_out=0.3).weights)


def test_a_network_choice_is_a_network() -> None:
    pytest.importorskip("torch")
    options = frozen_options({"hidden": (3, 3), "epochs": 2})
    model = prepare(ModelChoice(DataChoice("wine"), "network", "adam", passive=(1, 5), options=options), None)
    assert isinstance(model, TrainedNetwork)
    assert [weight.shape for weight in model.network.passive.weights] == [(2, 3), (3, 3), (3, 3)]


def test_a_defence_of_training_trains() -> None:
    pytest.importorskip("opacus")
    private = Choice.of("dp_sgd", epsilon=1.0, epochs=1)
    found = [prepare(ModelChoice(DataChoice("wine"), defence=one), None).weights for one in (None, private, private)]
    assert not np.allclose(found[0], found[1])
    np.testing.assert_array_equal(found[1], found[2])
    with pytest.raises(ValueError, match="score_rounding doesn't train models"):
        prepare(ModelChoice(DataChoice("wine"), defence=Choice.of("score_rounding")), None)


def test_a_network_needs_a_split_and_adam() -> None:
    with pytest.raises(ValueError, match="a part per party"):
        ModelChoice(DataChoice("wine"), "network", "adam")
    with pytest.raises(ValueError, match="a part per party"):
        ModelChoice(DataChoice("wine"), "network", passive=(1,))
    with pytest.raises(ValueError, match="held_out"):
        ModelChoice(DataChoice("wine"), held_out=1.0)
