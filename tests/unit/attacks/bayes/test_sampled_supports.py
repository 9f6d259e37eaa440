"""Columns of few values under channels that tell no equations: known answers, parity with equations, and the prior."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

import attacks
from attacks.bayes.prior import GaussianPrior
from attacks.bayes.sampling import box_agrees
from attacks.prediction.known_moments import known_moments
from defences import NoiseSource, ScoreContext, load
from defences.base import channel_of
from vfl.arrays import FloatArray
from vfl.channels import ScoreChannel
from vfl.learning import confidence_scores

# Every defence of scores, and rounding that takes next to nothing.
DEFENCES = {
    "rounding_3": ("score_rounding", {"decimals": 3}),
    "rounding_1": ("score_rounding", {"decimals": 1}),
    "class_label": ("class_label", {}),
    "noise": ("score_noise", {}),
    "scheme1": ("score_scheme1", {}),
    "scheme2": ("score_scheme2", {}),
    "scheme3": ("score_scheme3", {}),
    "purification": ("purification", {}),
}


def mixed(
    seed: int, n: int, *, numbers: bool = True, k: int = 2, spread: float = 0.05
) -> tuple[attacks.PredictionView, FloatArray]:
    """A one-hot group of three, a column of two values, one of four, and perhaps a skewed number beside them."""
    rng = np.random.default_rng(seed)
    count = 2000 + n
    group = np.eye(3)[rng.choice(3, count, p=[0.7, 0.2, 0.1])]
    flag, code = (rng.random((count, 1)) < 0.15) * 1.0, rng.choice([0, 0.1, 0.6, 1], (count, 1), p=[0.6, 0.2, 0.1, 0.1])
    passive = np.hstack([group, flag, code, *([np.minimum(rng.exponential(spread, (count, 1)), 1)] if numbers else [])])
    own = rng.random((count, 2))
    active, weights = rng.standard_normal((k, 2)), 2 * rng.standard_normal((k, passive.shape[1]))
    scores = confidence_scores(own @ active.T + passive @ weights.T)
    view = attacks.PredictionView(
        features_active=own[:n],
        scores=scores[:n],
        weights_active=active,
        weights_passive=weights,
        bias=np.zeros(k),
        moments=known_moments(passive[n:]),
    )
    return view, passive[:n]


def error(estimate: FloatArray, truth: FloatArray) -> float:
    return float(((estimate - truth) ** 2).mean())


def delivered(view: attacks.PredictionView, name: str) -> attacks.PredictionView:
    if name == "purification":
        pytest.importorskip("torch")
    defence = load(DEFENCES[name][0], **DEFENCES[name][1])
    rows = np.asarray(view.weights_passive)
    context = ScoreContext(NoiseSource(0), rows @ rows.T)
    channel: tuple[ScoreChannel, ...] = (channel_of(defence, view.classes),)
    return replace(view, scores=defence.protect_scores(np.asarray(view.scores), context), channel=channel)


@pytest.mark.parametrize("prior", ["mean", "covariance"])
def test_three_decimals_are_as_good_as_exact_scores_beside_numbers(prior: str) -> None:
    view, truth = mixed(1, 300, spread=2.0)
    posterior = attacks.load_prediction("posterior", prior=prior)
    exact, rounded = (error(posterior.reconstruct(one), truth) for one in (view, delivered(view, "rounding_3")))
    assert exact > 0.001
    assert rounded == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("name", ["rounding_3", "rounding_1", "class_label"])
@pytest.mark.parametrize("k", [2, 4])
def test_columns_of_few_values_alone_are_what_enumeration_gives(k: int, name: str) -> None:
    view, _ = mixed(1, 60, numbers=False, k=k)
    moments = view.moments
    assert moments is not None
    assert moments.supports
    cells, frequencies = [], []
    for job, flag, code in itertools.product(range(3), range(2), range(4)):
        of_flag, of_code = (np.asarray(moments.supports[column]) for column in (3, 4))
        shares = (np.asarray(moments.frequencies[column]) for column in (3, 4))
        cells.append([*np.eye(3)[job], of_flag[flag], of_code[code]])
        frequencies.append(moments.mean[job] * np.prod([one[at] for one, at in zip(shares, (flag, code), strict=True)]))
    told, defence = delivered(view, name), load(DEFENCES[name][0], **DEFENCES[name][1])
    found = attacks.load_prediction("posterior", prior="mean").reconstruct(told)
    logits = np.asarray(view.weights_passive) @ np.array(cells).T
    for own, answer, ours in zip(view.features_active, np.asarray(told.scores), found, strict=True):
        scores = confidence_scores((logits + (np.asarray(view.weights_active) @ own)[:, None]).T)
        same = np.abs(defence.protect_scores(scores, ScoreContext(NoiseSource(0), None)) - answer).max(axis=1) < 1e-9
        np.testing.assert_allclose(ours, (frequencies * same) @ np.array(cells) / (frequencies @ same), atol=1e-6)


@pytest.mark.slow("chains are drawn under each defence")
@pytest.mark.parametrize("name", DEFENCES)
@pytest.mark.parametrize("k", [pytest.param(2, marks=pytest.mark.thorough), 3])
def test_no_defence_makes_it_worse_than_what_it_knew(name: str, k: int) -> None:
    view, truth = mixed(2, 300, k=k)
    for prior in ("mean", "covariance"):
        posterior = attacks.load("posterior", prior=prior)
        assert error(posterior.reconstruct(delivered(view, name)), truth) <= 1.005 * error(
            posterior.without_scores(view), truth
        )


def test_a_class_tells_of_a_flag_what_bayes_says() -> None:
    """One flag with frequency p and weight a, one normal number: P(flag | class 1) by hand."""
    n, p, a, mean, sd = 400, 0.3, 3.0, 0.5, 0.1
    rng = np.random.default_rng(0)
    passive = np.column_stack([rng.random(n) < p, rng.normal(mean, sd, n)]).astype(np.float64)
    weights, bias = np.array([[0.0, 0.0], [a, 10.0]]), np.array([0.0, -6.0])
    scores = confidence_scores(passive @ weights.T + bias)
    moments = attacks.PassiveMoments(
        np.array([p, mean]),
        np.array([p * (1 - p), sd**2]),
        supports=(np.array([0.0, 1.0]), None),
        frequencies=(np.array([1 - p, p]), None),
    )
    view = attacks.PredictionView(
        features_active=np.zeros((n, 1)),
        scores=scores,
        weights_active=np.zeros((2, 1)),
        weights_passive=weights,
        bias=bias,
        moments=moments,
    )
    view = delivered(view, "class_label")
    found = attacks.load_prediction("posterior", prior="mean").reconstruct(view)[:, 0]
    wins = np.array([ndtr((10 * mean - 6 + a * flag) / (10 * sd)) for flag in (0, 1)])
    for chosen in (0, 1):
        likelihood = wins if chosen else 1 - wins
        by_hand = p * likelihood[1] / (p * likelihood[1] + (1 - p) * likelihood[0])
        of_class = np.asarray(view.scores).argmax(axis=1) == chosen
        assert found[of_class].mean() == pytest.approx(by_hand, abs=0.06)


def test_a_column_that_scores_do_not_tell_of_stays_as_believed() -> None:
    view, _ = mixed(3, 50)
    blind = np.asarray(view.weights_passive).copy()
    blind[:, 4] = 0
    logits = np.asarray(view.features_active) @ np.asarray(view.weights_active).T
    seen = delivered(replace(view, weights_passive=blind, scores=confidence_scores(logits + 0.3)), "class_label")
    posterior = attacks.load("posterior", prior="mean")
    np.testing.assert_allclose(posterior.reconstruct(seen)[:, 4], posterior.without_scores(seen)[:, 4], atol=1e-9)


def test_intervals_cover_nine_in_ten_and_more() -> None:
    view, truth = mixed(4, 300)
    found = attacks.reconstruct(attacks.load_prediction("posterior", prior="mean"), delivered(view, "rounding_1"))
    assert found.low is not None
    assert found.high is not None
    assert ((found.low - 1e-9 <= truth) & (truth <= found.high + 1e-9)).mean() >= 0.88


def test_a_skewed_prior_is_not_cut_to_the_box() -> None:
    even = GaussianPrior(np.full((3, 2), 0.5), np.eye(2) / 12)
    skewed = GaussianPrior(np.full((3, 2), 0.01), 0.05**2 * np.eye(2))
    assert (box_agrees(even), box_agrees(skewed)) == (True, False)
