"""Steps by own moments: the optimum of least squares, whatever the columns, and no step that grows the loss."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score

from vfl.arrays import FloatArray, IntArray
from vfl.learning import (
    BatchSchedule,
    GradientDescent,
    LearnerError,
    OwnData,
    ResidualScheme,
    VerticalData,
    initial_weights,
    registry,
    train_by_epoch,
    train_by_sums,
    train_centrally,
)
from vfl.learning.linear.own_moments import DAMPING, OwnMoments

SEEDS = (0, 1, 2)


def residual_of(data: VerticalData, weights: Sequence[FloatArray]) -> FloatArray:
    """What all parties send, added up: each has taken its mean off."""
    residual = ResidualScheme(data.classes).active_share(np.hstack(data.blocks) @ np.vstack(weights), data.labels)
    return np.asarray(residual - residual.mean(axis=0))


def loss_of(data: VerticalData, weights: Sequence[FloatArray], l2: float = 0.0) -> float:
    """The loss with the best intercept."""
    scheme, joined, residual = ResidualScheme(data.classes), np.vstack(weights), residual_of(data, weights)
    return scheme.quadratic_loss(float((residual**2).sum(axis=1).mean())) + l2 / 2 * float((joined**2).sum())


def optimum_of(data: VerticalData) -> float:
    """The least loss, by least squares: what labels ask of products, as close as columns come to it."""
    features = centred(np.hstack(data.blocks))
    wanted = -residual_of(data, [np.zeros_like(one) for one in drawn(data)])
    return loss_of(data, [np.linalg.lstsq(features, wanted, rcond=None)[0].astype(np.float64)])


def centred(columns: FloatArray) -> FloatArray:
    return np.asarray(columns - columns.mean(axis=0))


def with_bias(blocks: Sequence[FloatArray]) -> list[FloatArray]:
    """The first party's columns have the constant of its bias behind them."""
    return [np.hstack([blocks[0], np.ones((len(blocks[0]), 1))]), *blocks[1:]]


def drawn(data: VerticalData, seed: int = 0) -> list[FloatArray]:
    generator, total = np.random.default_rng(seed), sum(block.shape[1] for block in data.blocks)
    columns = ResidualScheme(data.classes).columns
    return [
        initial_weights("xavier", block.shape[1], columns, total_features=total, generator=generator)
        for block in data.blocks
    ]


def full_batches(rows: int, epochs: int, rate: float) -> GradientDescent:
    return GradientDescent(BatchSchedule(np.arange(rows), rows, seed=0), epochs, rate, own_moments=True)


def without_momentum(data: VerticalData, rate: float, steps: int, l2: float = 0.0) -> list[float]:
    """The loss before each step and after the last."""
    scheme, rows = ResidualScheme(data.classes), np.arange(len(data.labels))
    moments = [
        OwnMoments(block, rows, scheme.gradient_scale(1), np.full((block.shape[1], 1), l2)) for block in data.blocks
    ]
    weights, losses = drawn(data), []
    for _ in range(steps):
        losses.append(loss_of(data, weights, l2))
        residual = residual_of(data, weights)
        weights = [
            own - rate * inverse.times(scheme.gradient_scale(len(rows)) * block.T @ residual + l2 * own, rows)
            for own, inverse, block in zip(weights, moments, data.blocks, strict=True)
        ]
    return [*losses, loss_of(data, weights, l2)]


@st.composite
def tables(draw: st.DrawFn) -> VerticalData:
    """Tables of 1 to 40 rows and 1 to 10 columns a party: columns twice, constants, zeros, of any scale."""
    rows, parties = draw(st.integers(1, 40)), draw(st.integers(2, 4))
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    common = generator.normal(size=(rows, 3))
    kinds: dict[str, Callable[[], FloatArray]] = {
        "own": lambda: generator.normal(size=rows),
        "twice": lambda: common[:, 0],
        "sum": lambda: common.sum(axis=1),
        "constant": lambda: np.ones(rows),
        "zero": lambda: np.zeros(rows),
        "rare": lambda: np.eye(rows)[0],
        "large": lambda: 1e6 * common[:, 1],
        "small": lambda: 1e-6 * common[:, 2],
    }
    columns = st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=10)
    blocks = [np.stack([kinds[kind]() for kind in draw(columns)], axis=1) for _ in range(parties)]
    classes = draw(st.integers(2, 4))
    return VerticalData(with_bias(blocks), generator.integers(0, classes, size=rows), classes)


@given(data=tables(), l2=st.sampled_from([0.0, 0.1]))
def test_no_full_batch_step_without_momentum_grows_the_loss(data: VerticalData, l2: float) -> None:
    losses = without_momentum(data, 1 / len(data.blocks), steps=6, l2=l2)
    assert np.isfinite(losses).all()
    assert (np.diff(losses) <= 1e-9 * np.abs(losses[:-1]) + 1e-12).all()


@given(data=tables())
def test_with_momentum_the_loss_falls_as_fast_as_promised(data: VerticalData) -> None:
    """2 |w_0 - w|_D^2 / (r (t + 1)^2), from the weights of least squares that are nearest in that norm."""
    parties, rows = len(data.blocks), np.arange(len(data.labels))
    scheme, start = ResidualScheme(data.classes), drawn(data)
    damped = [
        np.diag(np.where(np.diag(block) > 0, DAMPING * np.diag(block), 1.0)) + block
        for block in (scheme.gradient_scale(len(rows)) * own.T @ own for own in map(centred, data.blocks))
    ]
    size = sum(len(block) for block in damped)
    metric, end = np.zeros((size, size)), 0
    for block in damped:
        metric[end : end + len(block), end : end + len(block)] = block
        end += len(block)
    root = np.linalg.cholesky(metric)
    # In coordinates where the norm is the ordinary one.
    turned = np.linalg.solve(root, centred(np.hstack(data.blocks)).T).T
    wanted = -residual_of(data, start)
    distance = float((np.linalg.lstsq(turned, wanted, rcond=1e-12)[0] ** 2).sum())
    least = optimum_of(data)
    for step, weights in enumerate(train_by_epoch(data, start, full_batches(len(rows), 12, 1 / parties)), start=1):
        assert loss_of(data, weights) - least <= 2 * parties * distance / (step + 1) ** 2 + 1e-6


@pytest.mark.parametrize("parties", [2, 3, 4])
def test_parties_that_hold_the_same_columns_converge_below_2_by_their_number_and_diverge_above(parties: int) -> None:
    generator = np.random.default_rng(0)
    block = generator.normal(size=(40, 3))
    data = VerticalData(with_bias([block] * parties), generator.integers(0, 2, size=40))
    least = optimum_of(data)
    # Damping moves the bound up by as much as it is.
    below, above = 1.99 / parties, 2.0 * (1 + 4 * DAMPING) / parties
    assert without_momentum(data, below, 2000)[-1] == pytest.approx(least, abs=1e-9)
    assert without_momentum(data, above, 2000)[-1] > 1e3
    (*_, weights) = train_by_epoch(data, drawn(data), full_batches(40, 60, 1 / parties))
    assert loss_of(data, weights) == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("parties", [2, 3, 4])
def test_steps_end_at_the_weights_of_least_squares(classes: int, parties: int) -> None:
    generator = np.random.default_rng(1)
    # Columns of scales that plain steps of any one rate don't get through.
    scales = np.resize([1.0, 1e3, 1e-3], 3 * parties)
    # Their means are many times what they vary by, and labels aren't as frequent as one another.
    blocks = with_bias(np.split((generator.normal(size=(60, 3 * parties)) + 50) * scales, parties, axis=1))
    data, features = VerticalData(blocks, np.arange(60) ** 2 % classes, classes), np.hstack(blocks)
    weights = train_centrally(data, drawn(data), full_batches(60, 400, 1 / parties))
    scheme = ResidualScheme(classes)
    wanted = -scheme.active_share(np.zeros((60, scheme.columns)), data.labels)
    expected = np.linalg.lstsq(features, wanted, rcond=None)[0]
    # Of several classes, what all have in common is nobody's.
    np.testing.assert_allclose(
        scheme.passive_share(features @ np.vstack(weights)), features @ expected, rtol=0, atol=1e-6
    )


@given(data=tables(), batches=st.integers(2, 8))
def test_no_step_on_a_batch_grows_the_loss_of_the_batch(data: VerticalData, batches: int) -> None:
    """A rare column is all in one of them, and the whole's moments would overshoot by the number of batches."""
    rows = len(data.labels)
    schedule = BatchSchedule(np.arange(rows), max(1, -(-rows // batches)), seed=0)
    scheme, weights = ResidualScheme(data.classes), drawn(data)
    moments = [
        OwnMoments(block, schedule.train_rows, scheme.gradient_scale(1), np.zeros((block.shape[1], 1)))
        for block in data.blocks
    ]
    for epoch in range(3):
        for batch in schedule.epoch(epoch):
            cut = VerticalData([block[batch] for block in data.blocks], data.labels[batch], data.classes)
            before = loss_of(cut, weights)
            residual = residual_of(cut, weights)
            weights = [
                own - inverse.times(scheme.gradient_scale(len(batch)) * block.T @ residual, batch) / len(data.blocks)
                for own, inverse, block in zip(weights, moments, cut.blocks, strict=True)
            ]
            assert loss_of(cut, weights) <= before + 1e-7 * max(1.0, before)


def test_noise_moves_scores_no_further_where_columns_are_nearly_the_same() -> None:
    """r s sqrt(d / n): an inverse without this would blow the noise of sums up by small eigenvalues."""
    generator = np.random.default_rng(2)
    rows, sigma, rate = np.arange(400), 3.0, 0.5
    independent = generator.normal(size=(400, 6))
    alike = independent[:, :1] + 1e-4 * independent
    for block in (independent, alike):
        moments = OwnMoments(block, rows, 0.25, np.zeros((6, 1)))
        moved = [
            block @ (rate * moments.times(0.25 / 400 * block.T @ generator.normal(0, sigma, (400, 1)), rows))
            for _ in range(200)
        ]
        spread = float(np.sqrt(np.mean(np.square(moved))))
        assert spread <= 1.1 * rate * sigma * np.sqrt(6 / 400)
        assert spread >= 0.5 * rate * sigma * np.sqrt(1 / 400)


def shared_out(features: FloatArray, labels: IntArray, parties: int) -> VerticalData:
    spread = np.ptp(features, axis=0)
    blocks = np.array_split((features - features.min(axis=0)) / np.where(spread > 0, spread, 1), parties, axis=1)
    return VerticalData(with_bias(blocks), labels, int(labels.max()) + 1)


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_eight_full_batch_steps_learn_what_sixty_epochs_of_plain_ones_do(load: Callable[[], object]) -> None:
    """AUC of breast_cancer, the share right of wine, of records that weren't trained on."""
    bundle = load()
    features, labels = bundle.data, bundle.target.astype(np.int64)  # type: ignore[attr-defined]
    quality: dict[bool, list[float]] = {True: [], False: []}
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(labels))
        train, test = np.split(order, [int(0.7 * len(order))])
        data = shared_out(features, labels, 2)
        plain = GradientDescent(BatchSchedule(train, 64, seed, reshuffled=False), 60, 0.5)
        own = GradientDescent(BatchSchedule(train, len(train), seed), 8, 0.5, own_moments=True)
        for descent in (plain, own):
            weights = train_centrally(data, drawn(data, seed), descent)
            scores = (np.hstack(data.blocks) @ np.vstack(weights))[test]
            quality[descent.own_moments].append(
                roc_auc_score(labels[test], scores[:, 0])
                if data.classes == 2
                else float((scores.argmax(axis=1) == labels[test]).mean())
            )
    assert np.mean(quality[True]) >= np.mean(quality[False]) - 0.005


def test_the_label_partys_bias_is_where_the_intercept_goes() -> None:
    data = VerticalData([np.arange(4.0)[:, None]] * 2, np.array([0, 1, 0, 1]))
    with pytest.raises(ValueError, match="make its last column 1 throughout"):
        train_centrally(data, drawn(data), full_batches(4, 1, 0.5))


def test_sums_are_of_plain_steps() -> None:
    data = VerticalData([np.ones((4, 1))], np.array([0, 1, 0, 1]))
    with pytest.raises(ValueError, match="train by own moments with train_centrally"):
        train_by_sums(data, np.zeros((1, 1)), full_batches(4, 1, 0.5), np.zeros((1, 1)))


def test_own_moments_without_own_columns_say_what_to_do() -> None:
    learner = registry.load("linear", steps="own_moments")
    with pytest.raises(LearnerError, match="needs the party's own training columns"):
        learner.begin(OwnData(2, None, 2, 4, np.random.default_rng()))


@pytest.mark.parametrize(("parties", "rate"), [(2, 0.5), (3, 1 / 3), (4, 0.25)])
def test_the_default_rate_is_1_by_the_number_of_parties(parties: int, rate: float) -> None:
    assert registry.load("linear", steps="own_moments").rate(parties) == pytest.approx(rate)  # type: ignore[attr-defined]
    assert registry.load("linear", learning_rate=0.7).rate(parties) == 0.7  # type: ignore[attr-defined]


def test_a_rate_at_which_momentum_may_diverge_is_refused() -> None:
    with pytest.raises(ValueError, match=r"steps=own_moments takes a learning_rate up to 0.5.*choose 0.5"):
        registry.load("linear", steps="own_moments", learning_rate=0.51)


def _awkward(kind: str) -> VerticalData:
    """A table of two parties that something is wrong with."""
    generator = np.random.default_rng(3)
    rows = {"more columns than rows": 20, "five rows": 5}.get(kind, 600)
    blocks = [generator.normal(size=(rows, 4)), generator.normal(size=(rows, 30))]
    labels = generator.integers(0, 2, size=rows)
    if kind == "330 independent columns":
        blocks = [generator.normal(size=(rows, 30)), generator.normal(size=(rows, 300))]
    elif kind == "a column twice":
        blocks[1][:, 1] = blocks[1][:, 0] = blocks[0][:, 0]
    elif kind == "all constant":
        # The mean of these is off by what float64 rounds.
        blocks = [np.full_like(block, 0.7) for block in blocks]
    elif kind == "1,000 one-hot columns":
        blocks[1] = np.eye(1000)[generator.integers(0, 1000, size=rows)]
    elif kind == "one class":
        labels = np.zeros(rows, dtype=np.int64)
    elif kind == "the fixed point's edge":
        step = 2.0**-16
        blocks[1] = np.hstack([np.sign(blocks[1][:, :15]) * (2.0**15 - step), step * np.sign(blocks[1][:, 15:])])
    return VerticalData(with_bias(blocks), labels)


@pytest.mark.parametrize(
    "kind",
    [
        "330 independent columns",
        "more columns than rows",
        "a column twice",
        "all constant",
        "five rows",
        "1,000 one-hot columns",
        "one class",
        "the fixed point's edge",
    ],
)
def test_awkward_tables_are_trained_and_no_step_grows_the_loss(kind: str) -> None:
    data = _awkward(kind)
    losses = without_momentum(data, 1 / len(data.blocks), steps=16)
    assert np.isfinite(losses).all()
    assert (np.diff(losses) <= 1e-9 * np.abs(losses[:-1]) + 1e-12).all()
    (*_, weights) = train_by_epoch(data, drawn(data), full_batches(len(data.labels), 16, 1 / len(data.blocks)))
    assert all(np.isfinite(block).all() for block in weights)
    assert optimum_of(data) - 1e-9 <= loss_of(data, weights) <= losses[0] + 1e-12
