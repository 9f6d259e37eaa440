"""Schemes 1 to 3: the paper's formulas, decisions kept through ties and saturation, composition, refusals."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import attacks
import defences
from defences import DefenceError, NoiseSource, ScoreContext, ScoreDefence
from defences.score_distortion import ClassLabel
from defences.score_schemes import ScoreScheme1, ScoreScheme2, ScoreScheme3, Sign
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores
from vfl.theory.prediction import moments
from vfl.theory.score_noise import largest_noisy_error

NOISE = NoiseSource(0)


def context(seed: int, k: int, d: int) -> ScoreContext:
    weights = np.random.default_rng(seed).standard_normal((k, d))
    return ScoreContext(NOISE, weights @ weights.T)


def v_1(weights: FloatArray) -> FloatArray:
    """By the definition: the first right singular vector of A^+ J, the first of its largest entries positive."""
    J = np.diff(np.eye(len(weights)), axis=0)
    v: FloatArray = np.linalg.svd(np.linalg.pinv(J @ weights) @ J)[2][0]
    largest = np.flatnonzero(np.abs(v) > np.abs(v).max() - 1e-9)[0]
    signed: FloatArray = v * np.sign(v[largest])
    return signed


@st.composite
def score_rows(draw: st.DrawFn) -> FloatArray:
    """Rows of 2 to 12 classes: softmax outputs, exact ties, neighbouring floats, saturated and one-hot rows."""
    k = draw(st.integers(2, 12))
    spread = draw(st.sampled_from([1e-12, 1.0, 30.0, 3000.0]))
    logits = draw(hnp.arrays(np.float64, (6, k), elements=st.integers(-3, 3).map(float)))
    rows = confidence_scores(spread * logits)
    jitter = draw(hnp.arrays(np.float64, (6, k), elements=st.sampled_from([-1.0, 0.0, 1.0])))
    rows = np.where(jitter == 0, rows, np.clip(np.nextafter(rows, rows + jitter), 0, 1))
    return np.vstack([rows, np.eye(k)[draw(st.integers(0, k - 1))], np.full(k, 1 / k)])


@st.composite
def score_defences(draw: st.DrawFn) -> ScoreDefence:
    alpha = draw(st.sampled_from([1e-300, 1e-9, 0.3, 4.0, 1e4, 1e300]))
    sign: Sign = draw(st.sampled_from([1, -1]))
    candidates: list[ScoreDefence] = [
        ScoreScheme1(alpha=alpha, sign=sign),
        ScoreScheme2(alpha=alpha, sign=sign, delta=draw(st.sampled_from([1e-300, 0.01, 50.0]))),
        ScoreScheme3(alpha=draw(st.sampled_from([0.0, 0.5, float(np.nextafter(1, 0))]))),
        ClassLabel(remainder=draw(st.sampled_from([0.0, 1e-9, 0.08]))),
    ]
    return draw(st.sampled_from(candidates))


@given(scores=score_rows(), chain=st.lists(score_defences(), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_decisions_survive_any_chain(scores: FloatArray, chain: list[ScoreDefence], seed: int) -> None:
    k = scores.shape[1]
    own = context(seed, k, 1 + seed % (2 * k))
    delivered = scores
    for defence in chain:
        assert defence.spec.keeps == "decision"
        delivered = defence.protect_scores(delivered, own)
    np.testing.assert_array_equal(delivered.argmax(axis=1), scores.argmax(axis=1))
    assert delivered.min() >= 0
    np.testing.assert_allclose(delivered.sum(axis=1), 1, atol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("k", "d"), [(2, 3), (4, 2), (4, 9), (6, 5)])
def test_scheme_1_is_equations_91_to_93(k: int, d: int, sign: Sign) -> None:
    generator = np.random.default_rng(k + d)
    weights, logits = generator.standard_normal((k, d)), 2 * generator.standard_normal((30, k))
    v = sign * v_1(weights)
    expected = np.empty_like(logits)
    for row, z in enumerate(logits):
        noise = v.copy()
        noise[z.argmax()] = v.max()
        expected[row] = z + np.sqrt(3.0) * noise / np.linalg.norm(noise)
    found = ScoreScheme1(alpha=3.0, sign=sign).protect_scores(
        confidence_scores(logits), ScoreContext(NOISE, weights @ weights.T)
    )
    np.testing.assert_allclose(found, confidence_scores(expected), atol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("k", "d"), [(2, 3), (4, 2), (4, 9), (6, 5)])
def test_scheme_2_is_equation_94_with_a_lead(k: int, d: int, sign: Sign) -> None:
    generator = np.random.default_rng(k + d)
    weights, logits = generator.standard_normal((k, d)), 2 * generator.standard_normal((30, k))
    expected = logits + sign * np.sqrt(3.0) * v_1(weights)
    overtaken = 0
    for row, z in enumerate(logits):
        others = np.delete(expected[row], z.argmax()).max() + 0.2
        overtaken += expected[row, z.argmax()] < others
        expected[row, z.argmax()] = max(expected[row, z.argmax()], others)
    assert 0 < overtaken < len(logits)
    found = ScoreScheme2(alpha=3.0, delta=0.2, sign=sign).protect_scores(
        confidence_scores(logits), ScoreContext(NOISE, weights @ weights.T)
    )
    np.testing.assert_allclose(found, confidence_scores(expected), atol=1e-9)


def test_the_signs_differ() -> None:
    scores, own = confidence_scores(np.random.default_rng(0).standard_normal((20, 5))), context(1, 5, 8)
    for name in ("score_scheme1", "score_scheme2"):
        plus, minus = (defences.load(name, sign=sign).protect_scores(scores, own) for sign in (1, -1))
        assert np.abs(plus - minus).max() > 0.01


def test_two_classes_are_protected_on_one_side_by_scheme_1_and_on_both_by_scheme_2() -> None:
    scores, own = np.array([[0.7, 0.3], [0.3, 0.7]]), context(0, 2, 4)
    for sign, still in ((1, 1), (-1, 0)):
        first = defences.load("score_scheme1", sign=sign).protect_scores(scores, own)
        moved = np.abs(first - scores).max(axis=1)
        assert moved[still] < 1e-12
        assert moved[1 - still] > 0.1
        second = defences.load("score_scheme2", sign=sign).protect_scores(scores, own)
        assert np.abs(second - scores).max(axis=1).min() > 0.1


def test_scheme_2_keeps_a_lead_where_the_paper_ties() -> None:
    scores, own = confidence_scores(np.random.default_rng(2).standard_normal((200, 4))), context(3, 4, 6)
    delivered = np.log(ScoreScheme2(alpha=16.0, delta=0.05).protect_scores(scores, own))
    ranked = np.sort(delivered, axis=1)
    leads = ranked[:, -1] - ranked[:, -2]
    assert leads.min() >= 0.05 - 1e-9
    # Most were overtaken, and got exactly delta.
    assert np.isclose(leads, 0.05, atol=1e-9).mean() > 0.3


def test_tied_maximisers_move_together() -> None:
    """Footnote 19: i* is the set of maximisers."""
    scores, own = confidence_scores(np.array([[1.0, 3.0, 0.0, 3.0]])), context(4, 4, 6)
    schemes: list[ScoreDefence] = [ScoreScheme1(alpha=9.0), ScoreScheme2(alpha=9.0), ScoreScheme3()]
    for scheme in schemes:
        delivered = scheme.protect_scores(scores, own)[0]
        assert delivered[1] == delivered[3] == delivered.max()


def test_scheme_3_takes_powers() -> None:
    scores = confidence_scores(np.random.default_rng(0).standard_normal((9, 4)))
    own = ScoreContext(NOISE)
    np.testing.assert_allclose(ScoreScheme3(alpha=0.0).protect_scores(scores, own), scores, atol=1e-15)
    roots = np.sqrt(scores)
    expected = roots / roots.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(ScoreScheme3(alpha=0.5).protect_scores(scores, own), expected, atol=1e-14)


def test_saturated_scores_stay_finite() -> None:
    scores, own = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), context(0, 3, 5)
    schemes: list[ScoreDefence] = [ScoreScheme1(), ScoreScheme2(), ScoreScheme3()]
    for chain in permutations(schemes):
        delivered = scores
        for scheme in chain:
            delivered = scheme.protect_scores(delivered, own)
        np.testing.assert_allclose(delivered, scores, atol=1e-100)


def test_who_knows_the_scheme_takes_the_noise_off() -> None:
    """What the module says of scheme 1: alpha, the sign and the parameters give the exact scores back."""
    generator = np.random.default_rng(6)
    active, passive = generator.random((40, 2)), generator.random((40, 8))
    own, weights = generator.standard_normal((4, 2)), generator.standard_normal((4, 8))
    scores = confidence_scores(active @ own.T + passive @ weights.T)
    delivered = ScoreScheme1(alpha=9.0).protect_scores(scores, ScoreContext(NOISE, weights @ weights.T))
    v = v_1(weights)
    noise = np.where(np.arange(4) == delivered.argmax(axis=1)[:, None], v.max(), v)
    undone = confidence_scores(np.log(delivered) - 3.0 * noise / np.linalg.norm(noise, axis=1, keepdims=True))
    np.testing.assert_allclose(undone, scores, atol=1e-9)


def test_half_star_is_hurt_and_no_more_than_theorem_4_allows() -> None:
    generator = np.random.default_rng(7)
    active, passive = generator.random((300, 2)), generator.random((300, 8))
    own, weights = generator.standard_normal((4, 2)), generator.standard_normal((4, 8))
    scores = confidence_scores(active @ own.T + passive @ weights.T)

    def error(delivered: FloatArray) -> float:
        view = attacks.PredictionView(
            features_active=active, scores=delivered, weights_active=own, weights_passive=weights, bias=np.zeros(4)
        )
        return float(((attacks.load("half_star").reconstruct(view) - passive) ** 2).mean())

    limit = largest_noisy_error(weights, moments(passive).about_half, 4.0)
    gram = ScoreContext(NOISE, weights @ weights.T)
    for sign in (1, -1):
        noisy = error(defences.load("score_scheme1", alpha=4.0, sign=sign).protect_scores(scores, gram))
        assert error(scores) * 1.2 < noisy <= limit * (1 + 1e-9)


def test_a_gram_matrix_is_asked_for_with_the_remedy() -> None:
    scores = np.full((2, 3), 1 / 3)
    for name in ("score_scheme1", "score_scheme2"):
        defence = defences.load(name)
        assert defence.spec.needs == ("parameter_gram",)
        with pytest.raises(DefenceError, match=f"{name} needs the Gram matrix.*use score_scheme3 or class_label"):
            defence.protect_scores(scores, ScoreContext(NOISE))
        for gram in (np.eye(2), np.full((3, 3), np.inf)):
            with pytest.raises(DefenceError, match=r"must be \(3, 3\) finite numbers"):
                defence.protect_scores(scores, ScoreContext(NOISE, gram))
    assert defences.load("score_scheme3").spec.needs == ()


def test_options_out_of_range_are_refused() -> None:
    for alpha in (0.0, -1.0, float("nan"), float("inf")):
        for name in ("score_scheme1", "score_scheme2"):
            with pytest.raises(ValueError, match="Expected alpha to be a positive number"):
                defences.load(name, alpha=alpha)
    for alpha in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match="Expected alpha to be at least 0 and below 1"):
            defences.load("score_scheme3", alpha=alpha)
    for delta in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="Expected delta to be a positive number"):
            defences.load("score_scheme2", delta=delta)
    for sign in (0, 2, "up"):
        with pytest.raises(ValueError, match="expected sign to be one of 1, -1"):
            defences.load("score_scheme1", sign=sign)
