"""A single feature from planted trainings: to 1e-4 and far better, or reported as undetermined."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attacks.training.feature_order import NO_SET, FeatureOrder, OrderedFeature
from attacks.training_views import TrainingView, simulated_view
from studies.simulation.error_theory import exact_epochs
from vfl.learning import BatchSchedule, GradientDescent, VerticalData, initial_weights
from vfl.theory.training import Approximation, OracleRun, simulate_oracle

SHARE_STEP = 2.0**-32


class FixedBatches(BatchSchedule):
    """The schedule that never makes batches intertwine: the same batches in every epoch."""

    def epoch(self, index: int):  # type: ignore[no-untyped-def]
        return super().epoch(0)


def planted(
    *,
    rows: int = 64,
    batch: int = 8,
    parties: tuple[int, ...] = (20, 1),
    epochs: int | None = None,
    initialisation: str = "zero",
    classes: int = 2,
    approximation: Approximation = "first_order",
    l2: float = 0.0,
    seed: int = 0,
    schedule: type[BatchSchedule] = BatchSchedule,
    bias: bool = True,
    zero_fraction: float = 0.0,
    label_party: int = 0,
    first_value: float | None = None,
) -> OracleRun:
    """A training on the fixed-point grids of a real one, with features in [0, 1], as min-max scaling makes them."""
    generator = np.random.default_rng(seed)
    blocks = [generator.uniform(0, 1, (rows, width)) for width in parties]
    for block in blocks:
        if block.shape[1] == 1:
            block[generator.random(rows) < zero_fraction] = 0.0
            block[0] = block[0] if first_value is None else first_value
    blocks = [np.rint(block * 2**16) / 2**16 for block in blocks]
    spared = [np.zeros(width, dtype=np.bool_) for width in parties]
    if bias:
        blocks[label_party] = np.hstack([blocks[label_party], np.ones((rows, 1))])
        spared[label_party] = np.append(spared[label_party], True)
    columns = 1 if classes == 2 else classes
    total = sum(block.shape[1] for block in blocks)
    return simulate_oracle(
        VerticalData(blocks, generator.integers(0, classes, rows), classes=classes, label_party=label_party),
        [
            initial_weights(initialisation, block.shape[1], columns, total_features=total, generator=generator)
            for block in blocks
        ],
        GradientDescent(
            schedule(np.arange(rows), batch, seed), epochs=epochs or exact_epochs(rows // batch), learning_rate=0.05
        ),
        approximation=approximation,
        l2=l2,
        unpenalised=spared,
        share_step=SHARE_STEP,
    )


def view_of(run: OracleRun, party: int, initialisation: str = "zero", *, bias: bool = True) -> TrainingView:
    return simulated_view(run, party, initialisation=initialisation, label_party_bias=bias, share_step=SHARE_STEP)


def error_up_to_sign(found: OrderedFeature, truth: np.ndarray) -> float:
    return float(min(np.abs(found.values - truth).max(), np.abs(found.values + truth).max()))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("initialisation", ["zero", "xavier"])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_the_feature_up_to_sign(classes: int, initialisation: str, l2: float) -> None:
    run = planted(classes=classes, initialisation=initialisation, l2=l2)
    found = FeatureOrder().attack(view_of(run, 0, initialisation))
    feature = found.features["party-1"]
    truth = run.blocks[1][:, 0]
    assert found.reason == ""
    assert feature.sortable
    assert feature.exact
    assert error_up_to_sign(feature, truth) < 1e-4
    np.testing.assert_array_equal(np.argsort(np.abs(feature.ratios)), np.argsort(truth))
    for solution, step in zip(found.solutions, run.steps, strict=True):
        np.testing.assert_array_equal(solution.shares["party-1"].values, step.shares[1])
        assert solution.residual is not None
        np.testing.assert_allclose(solution.residual, step.residual, atol=1e-12)


@given(
    rows=st.integers(12, 60),
    batch=st.integers(3, 14),
    signed=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_never_wrong(rows: int, batch: int, signed: bool, seed: int) -> None:
    """Whatever the schedule: values are right to 1e-4, or NaN with a reason."""
    run = planted(rows=rows, batch=min(batch, rows), parties=(16, 1), epochs=4, seed=seed, initialisation="xavier")
    view = view_of(run, 0, "xavier")
    feature = FeatureOrder().attack(view).features["party-1"]
    truth = run.blocks[1][:, 0]
    for number in range(int(feature.sets.max()) + 1):
        inside = (feature.sets == number) & np.isfinite(feature.values)
        gaps = [np.abs(feature.values[inside] - sign * truth[inside]).max(initial=0.0) for sign in (-1, 1)]
        assert min(gaps) < 1e-4
        scaled = truth[feature.sets == number] / np.abs(truth[feature.sets == number]).max()
        assert np.abs(np.abs(feature.ratios[feature.sets == number]) - scaled).max() < 1e-4
    assert feature.exact == (feature.reason == "")


def test_features_of_zero() -> None:
    run = planted(zero_fraction=0.3)
    feature = FeatureOrder().attack(view_of(run, 0)).features["party-1"]
    assert feature.exact
    assert error_up_to_sign(feature, run.blocks[1][:, 0]) < 1e-4
    run = planted(zero_fraction=1.0)
    feature = FeatureOrder().attack(view_of(run, 0)).features["party-1"]
    assert "zero to rounding" in feature.reason
    assert np.isnan(feature.values).all()


def test_batches_that_never_intertwine_are_reported() -> None:
    run = planted(schedule=FixedBatches, epochs=6)
    feature = FeatureOrder().attack(view_of(run, 0)).features["party-1"]
    assert not feature.sortable
    assert not feature.exact
    assert "64 rows stay in 8 sortable set(s)" in feature.reason
    assert np.isnan(feature.values).all()
    truth = run.blocks[1][:, 0]
    for batch in FixedBatches(np.arange(64), 8, 0).epoch(0):
        assert len(np.unique(feature.sets[batch])) == 1
        np.testing.assert_allclose(np.abs(feature.ratios[batch]), truth[batch] / truth[batch].max(), atol=1e-5)


class Overlapping(BatchSchedule):
    """Two fixed batches that share row 0."""

    def epoch(self, index: int):  # type: ignore[no-untyped-def]
        return iter([np.arange(8), np.array([0, *range(8, 15)])])


@pytest.mark.parametrize(("shared", "joined"), [(0.5, True), (2.0**-16, False), (0.0, False)])
def test_a_row_joins_batches_only_where_it_stands_out(shared: float, joined: bool) -> None:
    """A shared row whose products drown in rounding tells no ratio: the batches stay apart, and that is said."""
    run = planted(rows=15, batch=8, epochs=4, schedule=Overlapping, first_value=shared)
    feature = FeatureOrder().attack(view_of(run, 0)).features["party-1"]
    assert feature.sortable == joined
    assert feature.exact == joined
    assert ("don't intertwine" in feature.reason) != joined
    truth = run.blocks[1][:, 0]
    for inside in (np.arange(1, 8), np.arange(8, 15)):
        ratios = np.abs(feature.ratios[inside])
        np.testing.assert_allclose(ratios / ratios.max(), truth[inside] / truth[inside].max(), atol=1e-5)


def test_batches_of_one_row_say_nothing_about_ratios() -> None:
    run = planted(rows=10, batch=1, epochs=3, initialisation="xavier")
    feature = FeatureOrder().attack(view_of(run, 0, "xavier")).features["party-1"]
    assert not feature.sortable
    assert int(feature.sets.max()) == 9


def test_one_epoch_gives_no_scale() -> None:
    run = planted(rows=8, batch=8, epochs=1, initialisation="xavier")
    feature = FeatureOrder().attack(view_of(run, 0, "xavier")).features["party-1"]
    assert feature.sortable
    assert not feature.exact
    assert "two epochs" in feature.reason


def test_missing_steps_cost_the_moves_across_them_only() -> None:
    run = planted(epochs=6)
    view = view_of(run, 0)
    kept = tuple(e for e in view.equations if e.step % 5 != 3)
    feature = FeatureOrder().attack(replace(view, equations=kept)).features["party-1"]
    assert feature.exact
    assert error_up_to_sign(feature, run.blocks[1][:, 0]) < 1e-4


def test_too_few_equations() -> None:
    run = planted(parties=(6, 1))
    found = FeatureOrder().attack(view_of(run, 0))
    assert found.reason.endswith("8 records in a step and 7 sums about them, fewer than there are records.")
    assert found.features["party-1"].reason == found.reason
    assert (found.features["party-1"].sets == NO_SET).all()


def test_more_features_are_hidden_by_rotations() -> None:
    """Theorem 3.6, by the two runs that it says look alike."""
    run = planted(parties=(20, 2), initialisation="xavier")
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = simulate_oracle(
        VerticalData([run.blocks[0], run.blocks[1] @ turn.T], run.labels),
        [run.steps[0].weights[0], turn @ run.steps[0].weights[1]],
        GradientDescent(BatchSchedule(np.arange(64), 8, 0), epochs=2, learning_rate=0.05),
    )
    for ours, theirs in zip(run.steps, turned.steps, strict=False):
        np.testing.assert_allclose(ours.shares[1], theirs.shares[1], atol=1e-9)
    found = FeatureOrder().attack(view_of(run, 0, "xavier"))
    assert "Theorem 3.6" in found.features["party-1"].reason
    assert found.solutions[0].shares["party-1"].values is not None


def test_several_passive_parties_one_of_them_with_one_feature() -> None:
    run = planted(parties=(20, 3, 1))
    found = FeatureOrder().attack(view_of(run, 0))
    assert "Theorem 3.6" in found.features["party-1"].reason
    assert error_up_to_sign(found.features["party-2"], run.blocks[2][:, 0]) < 1e-4


def test_a_passive_party_attacks_another() -> None:
    run = planted(parties=(4, 20, 1))
    found = FeatureOrder().attack(view_of(run, 1))
    assert error_up_to_sign(found.features["party-2"], run.blocks[2][:, 0]) < 1e-4


@pytest.mark.parametrize("bias", [False, True])
def test_the_label_partys_single_feature(bias: bool) -> None:
    """Remark 4.9, with the labels that the passive party recovers itself."""
    run = planted(parties=(1, 20), bias=bias)
    feature = FeatureOrder().attack(view_of(run, 1, bias=bias)).features["party-0"]
    assert feature.exact
    assert error_up_to_sign(feature, run.blocks[0][:, 0]) < 1e-4


def test_an_unknown_bias_hides_the_label_partys_feature() -> None:
    run = planted(parties=(1, 20), initialisation="normal")
    feature = FeatureOrder().attack(view_of(run, 1, "normal")).features["party-0"]
    assert "bias is unknown" in feature.reason


@pytest.mark.parametrize("approximation", ["minimax", "piecewise"])
def test_non_linear_approximations(approximation: Approximation) -> None:
    run = planted(approximation=approximation, epochs=8)
    feature = FeatureOrder().attack(view_of(run, 0)).features["party-1"]
    assert feature.exact
    assert error_up_to_sign(feature, run.blocks[1][:, 0]) < 1e-4
    passive = FeatureOrder().attack(view_of(planted(parties=(1, 20), approximation=approximation), 1))
    assert "without labels" in passive.features["party-0"].reason
    several = FeatureOrder().attack(view_of(planted(parties=(20, 1, 1), approximation=approximation), 0))
    assert "doesn't tell 2 peers apart" in several.features["party-1"].reason


def test_piecewise_leaves_saturated_records_out() -> None:
    run = planted(approximation="piecewise", initialisation="kaiming", epochs=3, seed=2)
    found = FeatureOrder().attack(view_of(run, 0, "kaiming"))
    feature = found.features["party-1"]
    truth = run.blocks[1][:, 0]
    for number in range(int(feature.sets.max()) + 1):
        inside = feature.sets == number
        scaled = truth[inside] / truth[inside].max()
        np.testing.assert_allclose(np.abs(feature.ratios[inside]), scaled, atol=1e-4)
