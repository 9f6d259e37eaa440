"""The halves of a network, trained in one place, against the same network written in plain torch."""

from typing import Any

import numpy as np
import pytest

from scripts.network_accuracies import in_plain_torch
from vfl.arrays import FloatArray
from vfl.learning import BatchSchedule, OwnData, VerticalData, registry
from vfl.learning.network import Network, NetworkHalf, NetworkPart, ReferenceTraining, train_network

# The label party trains with it.
pytest.importorskip("torch")

SCHEDULE = BatchSchedule(np.arange(60), 16, seed=3)
EPOCHS = 3


def a_table(*widths: int, classes: int = 3) -> VerticalData:
    draw = np.random.default_rng(0)
    blocks = [draw.uniform(size=(60, width)) for width in widths]
    labels = (np.hstack(blocks).sum(axis=1) * 7).astype(np.int64) % classes
    blocks[0][:, -1] = 1.0
    return VerticalData(blocks, labels, classes)


def trained(learner: Network, data: VerticalData) -> ReferenceTraining:
    generators = [np.random.default_rng([7, party]) for party in range(len(data.blocks))]
    return train_network(learner, data, SCHEDULE, epochs=EPOCHS, generators=generators)


def first_parts(learner: Network, data: VerticalData) -> list[NetworkPart]:
    generators = [np.random.default_rng([7, party]) for party in range(len(data.blocks))]
    return train_network(learner, data, SCHEDULE, epochs=0, generators=generators).parts  # type: ignore[return-value]


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize(
    ("widths", "options"),
    [((4, 5), {}), ((3, 4, 2), {"upper": 6, "activation": "relu"}), ((4, 5), {"hidden": 1})],
)
def test_halves_of_two_and_three_parties_train_what_torch_trains(
    widths: tuple[int, ...], options: dict[str, Any], optimiser: Any
) -> None:
    learner, data = Network(optimiser=optimiser, **options), a_table(*widths)
    found = trained(learner, data)
    first = first_parts(learner, data)
    batches = (batch for epoch in range(EPOCHS) for batch in SCHEDULE.epoch(epoch))
    weights, scores = in_plain_torch(learner, first, data, batches)
    assert np.abs(np.vstack([part.weights for part in found.parts]) - weights).max() <= 1e-10
    assert np.abs(found.scores(data.blocks) - scores).max() <= 1e-10
    moved = np.vstack([part.weights for part in first]) - weights
    assert np.abs(moved).max() > 0.01


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_a_half_that_takes_up_what_another_carried_goes_on_to_the_bit(optimiser: Any) -> None:
    learner, data, rows = Network(hidden=4, upper=3, optimiser=optimiser), a_table(3, 4), np.arange(16)

    def half(seed: int) -> NetworkHalf:
        return learner.begin(OwnData(3, data.labels, data.classes, 7, np.random.default_rng(seed)))

    def step(one: NetworkHalf) -> FloatArray:
        program = one.step(rows)
        forward = next(program)
        sent = program.send(data.blocks[0][rows] @ forward.weights)  # type: ignore[union-attr]
        next(program)
        with pytest.raises(StopIteration):
            program.send(data.blocks[0][rows].T @ sent.values)  # type: ignore[union-attr]
        return sent.values  # type: ignore[union-attr]

    before, after = half(0), half(1)
    for _ in range(3):
        # From the first weights on, before there is any momentum.
        after.weights, after.carried = before.weights, before.carried
        step(after)  # what it has moved meanwhile is given up
        after.weights, after.carried = before.weights, before.carried
        np.testing.assert_array_equal(step(after), step(before))
    for name, array in before.part().arrays().items():
        np.testing.assert_array_equal(after.part().arrays()[name], array)


def test_what_each_party_sees_of_a_step_is_kept() -> None:
    learner, data = Network(hidden=4), a_table(3, 4, 2)
    steps = trained(learner, data).seen
    assert [seen.step for seen in steps] == list(range(EPOCHS * SCHEDULE.steps_per_epoch))
    first = first_parts(learner, data)
    for block, part, products, sums in zip(data.blocks, first, steps[0].products, steps[0].sums, strict=True):
        np.testing.assert_array_equal(products, block[steps[0].rows] @ part.weights)
        np.testing.assert_array_equal(sums, block[steps[0].rows].T @ steps[0].backward)
    np.testing.assert_array_equal(steps[0].forwarded, steps[0].products[1] + steps[0].products[2])
    # Each record's own: a finite difference of its loss by one unit.
    top, z = first[0], np.asarray(sum(steps[0].products))
    labels = data.labels[steps[0].rows]

    def losses(hidden: FloatArray) -> FloatArray:
        loss: FloatArray = -np.log(top.scores(hidden)[np.arange(len(labels)), labels])
        return loss

    shift = np.zeros_like(z)
    shift[:, 2] = 1e-6
    np.testing.assert_allclose((losses(z + shift) - losses(z - shift)) / 2e-6, steps[0].backward[:, 2], atol=1e-8)


def test_a_part_comes_back_from_its_arrays_and_answers_the_same() -> None:
    learner, data = Network(hidden=4, upper=3), a_table(3, 4)
    for part, block in zip(trained(learner, data).parts, data.blocks, strict=True):
        again = NetworkPart.of(dict(part.arrays()))
        np.testing.assert_array_equal(again.shares(block), part.shares(block))
        # Whatever stands beside it.
        np.testing.assert_array_equal(again.shares(block)[3:4], again.shares(block[3:4]))
        if part.top is not None:
            shares = part.shares(block)
            np.testing.assert_array_equal(again.scores(shares), part.scores(shares))
            np.testing.assert_array_equal(part.scores(shares)[3:4], part.scores(shares[3:4]))


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"weights": np.zeros(3)},
        {"weights": np.array([["a"]])},
        {"weights": np.zeros((3, 4)), "top_activation": np.array("tanh")},
        {
            "weights": np.zeros((3, 4)),
            "top_activation": np.array("tanh"),
            "top_weights_0": np.zeros((5, 2)),
            "top_biases_0": np.zeros(2),
        },
    ],
)
def test_what_no_part_of_a_network_wrote_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"network|one of"):
        NetworkPart.of(broken)


def test_only_the_label_party_can_score() -> None:
    with pytest.raises(ValueError, match="only the label party"):
        NetworkPart(np.zeros((2, 3))).scores(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hidden": 0}, "Expected hidden to be from 1 to 1024 units, got 0"),
        ({"hidden": 10_000}, "Expected hidden to be from 1 to 1024 units, got 10000"),
        ({"upper": -1}, "Expected upper"),
        ({"activation": "swish"}, "expected activation to be one of tanh, relu, got 'swish'"),
        ({"optimiser": "lion"}, "expected optimiser to be one of sgd, momentum, adam"),
        ({"backward": "none"}, "expected backward to be one of plain, paillier, shared"),
        ({"learning_rate": 0.0}, "Expected learning_rate to be a positive number"),
    ],
)
def test_options_that_cannot_work_are_refused_in_words(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        registry.load("network", **options)


def test_a_passive_half_needs_no_torch_and_a_label_party_without_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "vfl.learning.network.top", None)
    draw = np.random.default_rng(0)
    assert Network().begin(OwnData(3, None, 2, 6, draw)).part().top is None
    with pytest.raises(ValueError, match=r"with torch: pip install 'plumbline\[lab\]'"):
        Network().begin(OwnData(3, np.array([0, 1]), 2, 6, draw))
