"""One epoch of Hu's experiment in a real federation equals the simulation, labels and weights. Keys of 512 bits."""

import numpy as np

from studies.hu.wire_epoch import wire_epoch
from studies.simulation.affine_expansions import minimax_line
from studies.simulation.records import Records


def made_up() -> Records:
    generator = np.random.default_rng(4)
    features = generator.normal(size=(110, 9))
    return Records(features, (features[:, 0] + generator.normal(size=110) > 0).astype(np.int64), None)


def test_an_attacked_epoch_has_the_weights_and_the_labels_of_the_simulation() -> None:
    """From secret random weights: the simulation draws the same ones."""
    found = wire_epoch(
        made_up(), scaling="bounded", initialisation="xavier", batch_size=14, key_bits=512, learning_rate=0.1
    )
    assert (found["steps"], found["rows"], found["tested"], found["features"]) == (8, 99, 11, 10)
    assert (found["u"], found["reason"], found["answered"]) == (4, "", 1.0)
    assert found["by_step"] == found["by_step_simulated"]
    assert 0 < found["difference"] < found["bound"] < 1e-9
    assert found["accuracy"] == found["accuracy_simulated"]
    assert found["training_bytes"] < found["bytes"]


def test_an_honest_epoch_of_a_minimax_line_is_first_order_in_other_units() -> None:
    found = wire_epoch(
        made_up(),
        scaling="standardise",
        slope=minimax_line().slope,
        steps=2,
        attacked=False,
        batch_size=20,
        key_bits=512,
    )
    assert (found["steps"], found["u"], found["by_step"]) == (2, 1, [])
    assert len(found["by_step_simulated"]) == 2
    assert 0 < found["difference"] < found["bound"]
