"""The secret transform: orthonormal, drawn as it says, lossless for scores, and as hard on ls as Theorem 3 says."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, ortho_group
from sklearn.linear_model import LogisticRegression

import attacks
import defences
from defences.feature_transform import FeatureTransform, Kind
from studies.simulation.error_theory import greatest_ls_error
from tests.harness.distortions import ls_error_transformed, mean_squared_error
from vfl.arrays import FloatArray
from vfl.learning import (
    BatchSchedule,
    GradientDescent,
    ResidualScheme,
    VerticalData,
    confidence_scores,
    train_centrally,
)
from vfl.theory.prediction import equations, moments, row_space

SEEDS = st.integers(0, 2**32 - 1)
AT_TRAINING: tuple[Kind, ...] = ("random", "negate", "permutation")
KINDS = get_args(Kind)


def transform_of(kind: Kind, d: int, seed: int) -> FloatArray:
    """The H that a seed draws, (d, d): what becomes of the identity, disclosed as class rows H^T."""
    features = np.full((1, d), 0.5)
    return FeatureTransform(kind).disclose(np.eye(d), features, defences.NoiseSource(seed)).T


def attacked(
    weights: FloatArray, disclosed: FloatArray, features: FloatArray, attack: str = "ls", bias: FloatArray | None = None
) -> float:
    """The error of an attack on the scores of ``weights`` without a bias, given other parameters."""
    k, n = len(weights), len(features)
    view = attacks.PredictionView(
        features_active=np.ones((n, 1)),
        scores=confidence_scores(features @ weights.T),
        weights_active=np.zeros((k, 1)),
        weights_passive=disclosed,
        bias=np.zeros(k) if bias is None else bias,
    )
    return mean_squared_error(features, attacks.load(attack).reconstruct(view))


# --- what H is ----------------------------------------------------------------------------------------------------


@given(seed=SEEDS, d=st.integers(1, 12), k=st.integers(2, 5), kind=st.sampled_from(KINDS))
def test_disclosed_parameters_are_an_orthonormal_transform_of_the_true_ones(
    seed: int, d: int, k: int, kind: Kind
) -> None:
    """W H^T keeps every inner product between class rows."""
    rng = np.random.default_rng(seed)
    weights, features = rng.standard_normal((k, d)), rng.random((9, d))
    disclosed = FeatureTransform(kind).disclose(weights, features, defences.NoiseSource(seed))
    assert disclosed.shape == (k, d)
    np.testing.assert_allclose(disclosed @ disclosed.T, weights @ weights.T, atol=1e-9)


@pytest.mark.parametrize("kind", ["random", "permutation"])
def test_a_seed_repeats_and_the_system_does_not(kind: Kind) -> None:
    np.testing.assert_array_equal(transform_of(kind, 9, 4), transform_of(kind, 9, 4))
    system = [FeatureTransform(kind).disclose(np.eye(9), np.ones((1, 9)), defences.NoiseSource()) for _ in range(3)]
    assert not np.array_equal(system[0], system[1]) or not np.array_equal(system[1], system[2])


def test_training_and_disclosure_draw_the_same_h_from_the_same_seed() -> None:
    features = np.random.default_rng(0).standard_normal((5, 4))
    moved = FeatureTransform("random", "training").transform_features(features, defences.NoiseSource(3))
    np.testing.assert_allclose(moved, features @ transform_of("random", 4, 3).T, atol=1e-12)


def test_random_is_uniform() -> None:
    """Entries and traces of 2,000 draws are distributed as those of scipy's Haar sampler."""
    d = 4
    ours = np.array([transform_of("random", d, seed) for seed in range(2000)])
    theirs = ortho_group.rvs(d, size=2000, random_state=0)
    for row, column in ((0, 0), (2, 3)):
        assert kstest(ours[:, row, column], theirs[:, row, column]).pvalue > 1e-3
    traces = [np.trace(drawn, axis1=1, axis2=2) for drawn in (ours, theirs)]
    assert kstest(*traces).pvalue > 1e-3
    assert abs(np.linalg.det(ours).mean()) < 0.1


def test_permutation_is_uniform() -> None:
    draws = [tuple(transform_of("permutation", 3, seed).argmax(axis=1)) for seed in range(3000)]
    counts = np.unique(draws, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - 500) ** 2 / 500).sum() < 25  # chi squared, 5 degrees of freedom: p < 2e-4


def test_one_feature_leaves_two_choices() -> None:
    drawn = {float(transform_of("random", 1, seed)[0, 0]) for seed in range(40)}
    assert drawn == {-1.0, 1.0}


# --- at training --------------------------------------------------------------------------------------------------


def test_negated_features_are_one_minus_the_features() -> None:
    """The paper's experiments negate and scale to [0, 1] again."""
    features = np.random.default_rng(0).random((6, 3))
    moved = FeatureTransform("negate", "training").transform_features(features, defences.NoiseSource(0))
    np.testing.assert_array_equal(moved, 1 - features)
    outside = 4 * features - 2
    moved = FeatureTransform("negate", "training").transform_features(outside, defences.NoiseSource(0))
    np.testing.assert_array_equal(moved, -outside)


@given(seed=SEEDS, d=st.integers(1, 8), kind=st.sampled_from(AT_TRAINING), scale=st.sampled_from([1.0, 7.0]))
def test_features_turn_about_their_centre(seed: int, d: int, kind: Kind, scale: float) -> None:
    """Distances to the centre and between records stay; permuted and negated features stay in [0, 1]."""
    features = scale * np.random.default_rng(seed).random((12, d))
    centre = 0.5 if features.max() <= 1 else 0.0
    moved = FeatureTransform(kind, "training").transform_features(features, defences.NoiseSource(seed))
    np.testing.assert_allclose(
        (moved - centre) @ (moved - centre).T, (features - centre) @ (features - centre).T, atol=1e-9 * scale**2
    )
    if kind != "random" and scale == 1:
        assert moved.min() >= 0
        assert moved.max() <= 1


@given(seed=SEEDS, k=st.integers(2, 4), d=st.integers(1, 6), kind=st.sampled_from(AT_TRAINING))
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_gradient_descent_from_zero_is_equivariant(l2: float, seed: int, k: int, d: int, kind: Kind) -> None:
    """Without a bias, for features not in [0, 1] (so about 0): W H^T after every step, and the same scores to 1e-9."""
    rng = np.random.default_rng(seed)
    active, passive, labels = rng.standard_normal((40, 2)), 2 * rng.standard_normal((40, d)), rng.integers(0, k, 40)
    moved = FeatureTransform(kind, "training").transform_features(passive, defences.NoiseSource(seed))
    columns = ResidualScheme(k).columns
    start = [np.zeros((2, columns)), np.zeros((d, columns))]
    scores = []
    for block in (passive, moved):
        schedule = BatchSchedule(np.arange(40), 8, seed)
        trained = train_centrally(
            VerticalData([active, block], labels, classes=k),
            start,
            GradientDescent(schedule, epochs=3, learning_rate=0.05),
            l2=l2,
        )
        scores.append(confidence_scores(active @ trained[0] + block @ trained[1]))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-9)


def test_gradient_descent_about_one_half_keeps_scores_only_in_the_end() -> None:
    """Features in [0, 1] and a bias: another path, to the same optimum. The defence promises nothing for a session."""
    rng = np.random.default_rng(0)
    passive, labels = rng.random((60, 3)), rng.integers(0, 2, 60)
    moved = FeatureTransform("negate", "training").transform_features(passive, defences.NoiseSource(0))
    differences = []
    for epochs in (2, 3000):
        schedule = BatchSchedule(np.arange(60), 60, 0)
        start = [np.zeros((1, 1)), np.zeros((3, 1))]
        trained = [
            train_centrally(
                VerticalData([np.ones((60, 1)), block], labels),
                start,
                GradientDescent(schedule, epochs=epochs, learning_rate=1.0),
            )
            for block in (passive, moved)
        ]
        scores = [bias + block @ w for (bias, w), block in zip(trained, (passive, moved), strict=True)]
        differences.append(float(np.abs(scores[0] - scores[1]).max()))
    assert differences[0] > 1e-2
    assert differences[1] < 1e-6
    assert FeatureTransform("negate", "training").spec.keeps == "nothing"
    assert FeatureTransform().spec.keeps == "scores"


@pytest.mark.parametrize("kind", AT_TRAINING)
@pytest.mark.parametrize("k", [2, 4])
def test_the_penalised_optimum_has_the_same_scores(kind: Kind, k: int) -> None:
    """Prop. 4, the bias absorbing the shift about 1/2: scikit-learn's lbfgs with tol = 1e-10 agrees to 1e-6."""
    rng = np.random.default_rng(k)
    active, passive = rng.random((300, 3)), rng.random((300, 5))
    signal = np.hstack([active, passive]) @ rng.standard_normal((8, k))
    labels = (signal + 0.3 * rng.standard_normal((300, k))).argmax(axis=1)
    moved = FeatureTransform(kind, "training").transform_features(passive, defences.NoiseSource(1))
    scores = []
    for block in (passive, moved):
        both = np.hstack([active, block])
        model = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(both, labels)
        scores.append(model.predict_proba(both))
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)


@pytest.mark.parametrize("attack", ["ls", "half_star"])
@pytest.mark.parametrize(("k", "d"), [(2, 1), (2, 5), (4, 3), (3, 6)])
def test_negation_at_training_costs_the_adversary_what_the_paper_says(k: int, d: int, attack: str) -> None:
    """Rassouli VIII-D: trained on 1 - x, with -W and the bias W 1, both attacks err by 4 Tr(P K_1/2)/d more."""
    rng = np.random.default_rng(k + d)
    weights, features = rng.standard_normal((k, d)), rng.random((40, d)) ** 2
    bare = attacked(weights, weights, features, attack)
    negated = attacked(weights, -weights, features, attack, bias=weights.sum(axis=1))
    basis = row_space(equations(weights)).basis
    more = 4 * np.trace(basis.T @ moments(features).about_half @ basis) / d
    assert negated - bare == pytest.approx(more, rel=1e-6)


def test_what_was_trained_is_disclosed_as_it_is() -> None:
    weights = np.random.default_rng(0).standard_normal((3, 2))
    disclosed = FeatureTransform("random", "training").disclose(weights, np.ones((1, 2)), defences.NoiseSource(0))
    np.testing.assert_array_equal(disclosed, weights)


# --- at disclosure ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_disclosure_leaves_features_alone(kind: Kind) -> None:
    features = np.random.default_rng(0).random((4, 3))
    np.testing.assert_array_equal(
        FeatureTransform(kind).transform_features(features, defences.NoiseSource(0)), features
    )


@given(seed=SEEDS, k=st.integers(2, 5), d=st.integers(1, 8), kind=st.sampled_from(AT_TRAINING))
def test_disclosed_parameters_give_the_same_scores_to_transformed_features(
    seed: int, k: int, d: int, kind: Kind
) -> None:
    """W H^T applied to H x; the model's own scores aren't touched at all."""
    rng = np.random.default_rng(seed)
    weights, features = rng.standard_normal((k, d)), rng.random((20, d))
    disclosed = FeatureTransform(kind).disclose(weights, features, defences.NoiseSource(seed))
    moved = features @ transform_of(kind, d, seed).T
    np.testing.assert_allclose(
        confidence_scores(moved @ disclosed.T), confidence_scores(features @ weights.T), atol=1e-9
    )


@pytest.mark.parametrize(("k", "d"), [(2, 1), (2, 6), (4, 3), (5, 5), (3, 20)])
def test_the_optimal_transform_attains_theorem_3_and_beats_1000_others(k: int, d: int) -> None:
    rng = np.random.default_rng(10 * k + d)
    weights, features = rng.standard_normal((k, d)), rng.random((50, d)) ** 2
    disclosed = FeatureTransform("optimal").disclose(weights, features, defences.NoiseSource())
    matrix, moment = equations(weights), moments(features).about_zero
    reached = attacked(weights, disclosed, features)
    assert reached == pytest.approx(greatest_ls_error(matrix, moment), rel=1e-8)
    others = (transform_of("random", d, seed) for seed in range(1000))
    assert max(ls_error_transformed(matrix, moment, H) for H in others) <= reached + 1e-9


@pytest.mark.parametrize("kind", AT_TRAINING)
def test_ls_errs_by_rassouli_eq_82(kind: Kind) -> None:
    rng = np.random.default_rng(1)
    weights, features = rng.standard_normal((3, 6)), rng.random((50, 6))
    disclosed = FeatureTransform(kind).disclose(weights, features, defences.NoiseSource(8))
    expected = ls_error_transformed(equations(weights), moments(features).about_zero, transform_of(kind, 6, 8))
    assert attacked(weights, disclosed, features) == pytest.approx(expected, rel=1e-8)


# --- options ------------------------------------------------------------------------------------------------------


def test_it_replaces_disclosed_parameters_only_at_disclosure() -> None:
    assert defences.load("feature_transform").spec.replaces == "disclosed parameters"
    assert defences.load("feature_transform", at="training").spec.replaces == ""
    both = {"feature_transform": {"at": "training"}}
    assert len(defences.load_all(["feature_transform", "parameter_rotation"], both)) == 2
    with pytest.raises(ValueError, match="choose one of them"):
        defences.load_all(["feature_transform", "parameter_rotation"], {})


@pytest.mark.parametrize("kind", AT_TRAINING)
def test_it_says_whether_features_stay_in_the_unit_cube(kind: Kind) -> None:
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    moved = [
        FeatureTransform(kind, "training").transform_features(corners, defences.NoiseSource(seed)) for seed in range(20)
    ]
    leaves = bool(np.min(moved) < 0 or np.max(moved) > 1)
    assert FeatureTransform(kind, "training").spec.leaves_unit_range == leaves == (kind == "random")
    assert not FeatureTransform(kind, "disclosure").spec.leaves_unit_range


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "shuffle"}, "expected kind to be one of random, negate, permutation, optimal, got 'shuffle'"),
        ({"at": "prediction"}, "expected at to be one of training, disclosure, got 'prediction'"),
        ({"kind": "optimal", "at": "training"}, 'Choose at="disclosure"'),
    ],
)
def test_bad_options_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        defences.load("feature_transform", **options)


@pytest.mark.parametrize("features", [np.ones((3, 4)), np.ones((0, 2)), np.ones(2)])
def test_features_of_others_are_refused(features: FloatArray) -> None:
    with pytest.raises(defences.DefenceError, match="don't fit features of shape"):
        FeatureTransform().disclose(np.ones((3, 2)), features, defences.NoiseSource(0))
