"""The public schedule and row split, initial weights, and the central training that the federation is held against."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfl.learning import (
    BatchSchedule,
    BlockSchedule,
    GradientDescent,
    VerticalData,
    initial_weights,
    smallest_batch,
    split_rows,
    train_by_sums,
    train_centrally,
)
from vfl.learning.linear.initialisation import INITIALISATIONS


@given(
    rows=st.integers(1, 300),
    validation=st.floats(0, 0.45),
    test=st.floats(0, 0.45),
    seed=st.integers(0, 2**64 - 1),
)
def test_a_row_split_uses_every_row_once(rows: int, validation: float, test: float, seed: int) -> None:
    split = split_rows(rows, validation_fraction=validation, test_fraction=test, seed=seed)
    together = np.concatenate([split.train, split.validation, split.test])
    np.testing.assert_array_equal(np.sort(together), np.arange(rows))
    assert len(split.test) == round(rows * test)
    assert len(split.validation) == round(rows * validation)


def test_the_split_and_the_first_batch_never_change_with_a_library() -> None:
    """Known answers: parties with different versions of numpy must agree on every batch."""
    split = split_rows(10, validation_fraction=0.2, test_fraction=0.3, seed=1)
    assert split.test.tolist() == [2, 3, 5]
    assert next(BatchSchedule(np.arange(8), 4, 1).epoch(0)).tolist() == [0, 3, 4, 1]


@given(rows=st.integers(1, 100), batch=st.integers(1, 100), epoch=st.integers(0, 5), seed=st.integers(0, 2**64 - 1))
def test_an_epoch_uses_every_training_row_once_in_batches_of_nearly_equal_size(
    rows: int, batch: int, epoch: int, seed: int
) -> None:
    training_rows = np.arange(3, 3 + 2 * rows, 2)
    batch = min(batch, rows)
    schedule = BatchSchedule(training_rows, batch, seed)
    batches = list(schedule.epoch(epoch))
    assert len(batches) == schedule.steps_per_epoch
    sizes = [len(rows_of_batch) for rows_of_batch in batches]
    assert max(sizes) <= batch
    assert max(sizes) - min(sizes) <= 1
    assert sizes == [schedule.rows_of_step(step) for step in range(len(batches))]
    assert min(sizes) == smallest_batch(rows, batch)
    np.testing.assert_array_equal(np.sort(np.concatenate(batches)), training_rows)


@given(
    rows=st.integers(1, 100),
    block=st.integers(1, 20),
    batch=st.integers(1, 100),
    seed=st.integers(0, 2**64 - 1),
)
def test_batches_of_blocks_use_every_training_row_once(rows: int, block: int, batch: int, seed: int) -> None:
    training_rows = np.arange(3, 3 + 2 * rows, 2)
    schedule = BlockSchedule(training_rows, block, batch, seed)
    sizes = [len(one) for one in schedule.blocks]
    assert 1 <= min(sizes) <= max(sizes) <= min(block, batch)
    assert max(sizes) - min(sizes) <= 1
    for epoch in (0, 1):
        batches = list(schedule.epoch(epoch))
        assert [len(numbers) for numbers in batches] == [schedule.blocks_of_step(step) for step in range(len(batches))]
        assert len(batches) == schedule.steps_per_epoch >= -(-rows // batch)
        assert len(batches) == 1 or batch < rows
        assert max(sum(sizes[number] for number in numbers) for numbers in batches) <= batch
        used = np.concatenate([schedule.blocks[number] for numbers in batches for number in numbers])
        np.testing.assert_array_equal(np.sort(used), training_rows)


def test_blocks_never_change_with_a_library() -> None:
    schedule = BlockSchedule(np.arange(7), 3, 6, 1)
    assert [block.tolist() for block in schedule.blocks] == [[2, 0, 4], [3, 1], [5, 6]]
    assert [numbers.tolist() for numbers in schedule.epoch(0)] == [[0, 1], [2]]


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return [int(row) for batch in BatchSchedule(np.arange(50), 7, seed).epoch(epoch) for row in batch]

    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_fixed_batches_are_those_of_the_first_epoch() -> None:
    fixed, fresh = (BatchSchedule(np.arange(50), 7, 3, reshuffled=reshuffled) for reshuffled in (False, True))
    for epoch in (0, 1, 9):
        for own, first in zip(fixed.epoch(epoch), fresh.epoch(0), strict=True):
            np.testing.assert_array_equal(own, first)


@pytest.mark.parametrize("batch", [0, -1, 11])
def test_a_batch_that_does_not_fit_the_training_rows_is_refused(batch: int) -> None:
    with pytest.raises(ValueError, match="batch size between 1 and the 10 training rows"):
        BatchSchedule(np.arange(10), batch, 1)


@pytest.mark.parametrize("kind", INITIALISATIONS)
def test_initial_weights_have_the_scale_of_their_kind(kind: str) -> None:
    weights = initial_weights(kind, 500, 4, total_features=2000, generator=np.random.default_rng(0))
    assert weights.shape == (500, 4)
    deviation = {"zero": 0.0, "normal": 0.01, "xavier": math.sqrt(2 / 2004), "kaiming": math.sqrt(2 / 2000)}[kind]
    assert weights.std() == pytest.approx(deviation, rel=0.05)
    again = initial_weights(kind, 500, 4, total_features=2000, generator=np.random.default_rng(0))
    np.testing.assert_array_equal(weights, again)
    other = initial_weights(kind, 500, 4, total_features=2000, generator=np.random.default_rng(1))
    assert np.array_equal(weights, other) == (kind == "zero")


def test_an_unknown_initialisation_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown initialisation 'he'"):
        initial_weights("he", 2, 1, total_features=2, generator=np.random.default_rng(0))


def test_central_training_takes_hus_step_by_hand() -> None:
    """One batch, one step, from theta = 0: f = -2 y, theta = rate / (4 s) * 2 sum y x (Hu eq. 3-5)."""
    left, right = np.array([[1.0], [3.0]]), np.array([[0.5], [-1.0]])
    weights = train_centrally(
        VerticalData([left, right], np.array([1, 0])),
        [np.zeros((1, 1)), np.zeros((1, 1))],
        GradientDescent(BatchSchedule(np.arange(2), 2, 1), epochs=1, learning_rate=0.5),
    )
    assert weights[0].item() == pytest.approx(0.5 / 8 * 2 * (1.0 - 3.0))
    assert weights[1].item() == pytest.approx(0.5 / 8 * 2 * (0.5 + 1.0))


def test_l2_shrinks_weights_and_spares_the_masked_feature() -> None:
    features = [np.zeros((4, 1)), np.zeros((4, 1))]  # without data, only the penalty moves anything
    weights = train_centrally(
        VerticalData(features, np.array([0, 1, 0, 1])),
        [np.ones((1, 1)), np.ones((1, 1))],
        GradientDescent(BatchSchedule(np.arange(4), 4, 1), epochs=1, learning_rate=0.5),
        l2=0.2,
        unpenalised=[np.array([False]), np.array([True])],
    )
    assert [block.item() for block in weights] == pytest.approx([0.9, 1.0])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("reshuffled", "batch_size"), [(False, 8), (True, 8), (False, 4)])
def test_sums_of_batches_train_the_same_model(classes: int, reshuffled: bool, batch_size: int) -> None:
    generator, columns = np.random.default_rng(classes), 1 if classes == 2 else classes
    data = VerticalData(
        [generator.random((40, 3)), generator.random((40, 2))], generator.integers(0, classes, 40), classes
    )
    start, penalty = generator.normal(size=(5, columns)), np.array([[0.1], [0.1], [0.0], [0.1], [0.1]])
    schedule = BatchSchedule(generator.permutation(40)[:25], batch_size, seed=3, reshuffled=reshuffled)
    descent = GradientDescent(schedule, epochs=3, learning_rate=0.4)
    spared = np.split(penalty[:, 0] == 0, [3])
    expected = np.vstack(train_centrally(data, np.split(start, [3]), descent, l2=0.1, unpenalised=spared))
    np.testing.assert_allclose(train_by_sums(data, start, descent, penalty), expected, rtol=1e-12, atol=1e-12)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=12).map(tuple),
    st.integers(1, 60),
    st.integers(1, 20),
)
def test_lasting_batches_are_whole_in_every_epoch(lasting: tuple[int, ...], batch_size: int, block_size: int) -> None:
    rows = np.arange(sum(lasting))
    batch_size = min(batch_size, len(rows))
    ends = {0, *np.cumsum(lasting).tolist()}
    batches = BatchSchedule(rows, batch_size, 3, False, lasting)
    blocks = BlockSchedule(rows, block_size, batch_size, 3, False, lasting)
    drawn = list(batches.epoch(5))
    assert np.concatenate(drawn).tolist() == rows.tolist()
    assert {int(batch[0]) for batch in drawn} <= ends
    assert [blocks.rows_of(batch).tolist() for batch in blocks.epoch(5)] == [batch.tolist() for batch in drawn]
    assert [batches.rows_of_step(step) for step in range(2 * len(drawn))] == 2 * [len(batch) for batch in drawn]
    assert [blocks.blocks_of_step(step) for step in range(len(drawn))] == [len(batch) for batch in blocks.epoch(0)]
    assert all(1 <= len(block) <= min(block_size, batch_size) for block in blocks.blocks)
    assert smallest_batch(len(rows), batch_size, lasting) == min(map(len, drawn))
    assert batches.steps_per_epoch == blocks.steps_per_epoch == len(drawn)
