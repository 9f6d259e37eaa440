"""What is undone of a channel, what is left to condition on, and what is refused in a sentence."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attacks import PredictionView, ViewError
from attacks.bayes.observation import ExactLogits, observe
from defences import load
from defences.base import ScoreContext
from defences.noise import NoiseSource
from vfl.channels import Decision, Noise, Purifier, Rounding, ScoreChannel, StrongestDirection, Temperature, Undeclared
from vfl.channels.likelihoods import ArgMax, DifferenceIntervals, Intervals, Likelihood, NearEquality
from vfl.channels.noise_likelihoods import NoisyArgMax, NoisyIntervals, NoisyRow
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork, VerticalNetwork

ROWS = np.arange(12)


def federation(k: int = 4, d: int = 3, n: int = 12) -> tuple[PredictionView, np.ndarray]:
    """Records under a random model, and their true logits."""
    generator = np.random.default_rng(0)
    own, passive = generator.random((n, 2)), generator.random((n, d))
    rows = generator.standard_normal((k, 2)), 2 * generator.standard_normal((k, d))
    logits = own @ rows[0].T + passive @ rows[1].T
    view = PredictionView(
        features_active=own,
        scores=confidence_scores(logits),
        weights_active=rows[0],
        weights_passive=rows[1],
        bias=np.zeros(k),
    )
    return view, logits


def defended(view: PredictionView, *names: tuple[str, dict[str, object]]) -> PredictionView:
    """What the real defences deliver, with the channels that they declare."""
    assert view.scores is not None
    assert view.weights_passive is not None
    context = ScoreContext(NoiseSource(0), parameter_gram=view.weights_passive @ view.weights_passive.T)
    scores, channel = view.scores, []
    for name, options in names:
        defence: Any = load(name, **options)
        scores = defence.protect_scores(scores, context)
        channel.append(defence.channel(view.classes))
    return replace(view, scores=scores, channel=tuple(channel))


def possible(view: PredictionView, logits: np.ndarray) -> bool:
    """Whether the true logits are where the observation says that they are."""
    found = observe(view)
    assert not isinstance(found.likelihood, ExactLogits)
    return bool((found.likelihood.distance(found.forward.log_scores(logits), ROWS) == 0).all())


@pytest.mark.parametrize(
    "defences",
    [
        [("score_scheme3", {})],
        [("score_scheme1", {})],
        [("score_scheme3", {}), ("score_scheme1", {"alpha": 1.0})],
        [("score_scheme1", {"sign": -1}), ("score_scheme3", {"alpha": 0.2})],
    ],
)
def test_schemes_are_undone_exactly_in_any_order(defences: list[tuple[str, dict[str, object]]]) -> None:
    view, logits = federation()
    likelihood = observe(defended(view, *defences)).likelihood
    assert isinstance(likelihood, ExactLogits)
    np.testing.assert_allclose(np.diff(likelihood.logits, axis=1), np.diff(logits, axis=1), atol=1e-9)


def test_what_the_adversary_added_is_part_of_what_it_knows() -> None:
    view, logits = federation()
    shift = np.random.default_rng(1).standard_normal(logits.shape)
    found = observe(replace(view, scores=confidence_scores(logits + shift), own_shift=shift))
    matrix, sides = found.linear_equations()
    expected = observe(view).linear_equations()
    np.testing.assert_array_equal(matrix, expected[0])
    np.testing.assert_allclose(sides, expected[1], atol=1e-9)


@pytest.mark.parametrize(
    ("defences", "kind"),
    [
        ([("score_rounding", {"decimals": 2})], Intervals),
        ([("score_rounding", {"decimals": 0})], Intervals),
        ([("score_scheme1", {}), ("score_rounding", {"decimals": 1})], Intervals),
        ([("score_rounding", {"decimals": 2}), ("score_scheme3", {})], Intervals),
        ([("score_rounding", {"decimals": 2}), ("score_rounding", {"decimals": 1})], Intervals),
        ([("class_label", {})], ArgMax),
        ([("class_label", {"remainder": 0.1}), ("score_scheme3", {})], ArgMax),
        ([("score_rounding", {"decimals": 1}), ("class_label", {})], ArgMax),
        ([("score_noise", {"sigma": 0.1})], NoisyRow),
        ([("score_noise", {"sigma": 0.1}), ("score_scheme1", {})], NoisyRow),
        ([("score_noise", {"sigma": 0.1}), ("score_rounding", {"decimals": 2})], NoisyIntervals),
        ([("score_noise", {"sigma": 0.1}), ("class_label", {})], NoisyArgMax),
        ([("score_scheme2", {"alpha": 9.0})], DifferenceIntervals),
    ],
)
def test_the_true_scores_are_always_possible(
    defences: list[tuple[str, dict[str, object]]], kind: type[Likelihood]
) -> None:
    view, logits = federation()
    changed = defended(view, *defences)
    assert isinstance(observe(changed).likelihood, kind)
    assert possible(changed, logits)


def test_others_are_not_possible() -> None:
    """Half a unit more than rounding moves a score, a lead of another class, another difference."""
    view, logits = federation()
    assert not possible(defended(view, ("score_rounding", {"decimals": 2})), logits * 1.1)
    assert not possible(defended(view, ("class_label", {})), -logits)
    assert not possible(defended(view, ("score_scheme2", {"alpha": 9.0})), logits * 1.001)


def test_a_purifier_is_gone_through() -> None:
    view, logits = federation()
    generator = np.random.default_rng(0)
    layers = (generator.standard_normal((4, 2)), generator.standard_normal((2, 4))), (np.zeros(2), np.zeros(4))
    purifier = Purifier(DenseNetwork(*layers, "tanh"))
    assert view.scores is not None
    changed = replace(view, scores=purifier.purify(view.scores), channel=(purifier,))
    assert isinstance(observe(changed).likelihood, NearEquality)
    assert possible(changed, logits)
    assert not possible(changed, logits * 1.5)


def test_a_score_of_zero_is_smaller_than_any_number_and_the_others_are_exact() -> None:
    view, logits = federation()
    scores = confidence_scores(logits + np.array([0, 0, 0, -5000.0]))
    shift = np.tile([0, 0, 0, -5000.0], (len(logits), 1))
    changed = replace(view, scores=scores, own_shift=shift)
    assert isinstance(observe(changed).likelihood, DifferenceIntervals)
    assert possible(changed, logits + shift)
    assert not possible(changed, logits)


@pytest.mark.parametrize(
    ("channel", "words"),
    [
        ((Undeclared("mine"),), "mine doesn't declare"),
        ((Noise(0.1), Noise(0.1)), "no likelihood of both"),
        ((Noise(0.1), Temperature(0.5), Rounding(2)), "no likelihood of both"),
        ((Decision(), Noise(0.1)), "put the decision last"),
        ((Rounding(2), Temperature(0.5)), "don't look rounded"),
    ],
)
def test_what_has_no_likelihood_is_told_in_a_sentence(channel: tuple[ScoreChannel, ...], words: str) -> None:
    view, _ = federation()
    with pytest.raises(ViewError, match=words):
        observe(replace(view, channel=channel))


def test_without_scores_or_parameters_there_is_nothing_to_observe() -> None:
    view, _ = federation()
    for changed in (replace(view, scores=None), replace(view, bias=None)):
        with pytest.raises(ViewError, match="posterior needs"):
            observe(changed)


def test_the_density_of_a_noisy_row_is_that_of_simulated_rows() -> None:
    """Rows of two classes, (q, 1 - q): a histogram of many against the density, and both atoms at 0 and 1."""
    generator, sigma, score = np.random.default_rng(0), 0.25, 0.7
    before = np.array([score, 1 - score])
    clipped = np.clip(before + sigma * generator.standard_normal((400_000, 2)), 0, 1)
    rows = clipped / clipped.sum(axis=1, keepdims=True)
    edges = np.linspace(0, 1, 21)
    middle = (edges[:-1] + edges[1:]) / 2
    inner = rows[(rows[:, 0] > 0) & (rows[:, 0] < 1), 0]
    frequencies = np.histogram(inner, edges)[0] / len(rows)
    points = np.vstack([np.column_stack([middle, 1 - middle]), [[1.0, 0.0]], [[0.0, 1.0]]])
    likelihood = NoisyRow(points, sigma)
    every = np.arange(len(points))
    density = np.exp(likelihood.log_density(np.tile(np.log(before), (len(points), 1)), every, np.zeros(len(points))))
    np.testing.assert_allclose(density[:-2] * 0.05, frequencies, atol=0.003)
    np.testing.assert_allclose(density[-2], (rows[:, 1] == 0).mean(), atol=0.003)
    np.testing.assert_allclose(density[-1], (rows[:, 0] == 0).mean(), atol=0.003)


def test_the_probabilities_of_a_noisy_decision_are_those_of_simulated_rows() -> None:
    generator, sigma, before = np.random.default_rng(0), 0.3, np.array([0.5, 0.3, 0.2])
    clipped = np.clip(before + sigma * generator.standard_normal((400_000, 3)), 0, 1)
    clipped[clipped.sum(axis=1) == 0] = 1
    frequencies = np.bincount(clipped.argmax(axis=1), minlength=3) / len(clipped)
    likelihood = NoisyArgMax(np.arange(3), sigma)
    found = np.exp(likelihood.log_density(np.tile(np.log(before), (3, 1)), np.arange(3), np.zeros(3)))
    np.testing.assert_allclose(found, frequencies, atol=0.004)


def test_channels_that_tell_of_a_linear_model_need_one() -> None:
    view, logits = federation()
    hidden = DenseNetwork((np.ones((3, 2)), np.ones((2, 4))), (np.zeros(2), np.zeros(4)))
    own = DenseNetwork((np.zeros((2, 4)),), (np.zeros(4),))
    network = PredictionView(
        features_active=view.features_active,
        scores=confidence_scores(logits),
        network=VerticalNetwork(own, hidden),
        channel=(StrongestDirection(1, 4.0),),
    )
    with pytest.raises(ViewError, match="this model is a network"):
        observe(network)


@pytest.mark.parametrize("sigma", [1e-300, 1e-20, 1e4, 1e300])
@pytest.mark.parametrize("after", [(), (Rounding(2),), (Decision(),)])
def test_noise_of_any_width_is_read_as_far_as_float64_tells_it(sigma: float, after: tuple[ScoreChannel, ...]) -> None:
    """A coordinator may announce any: squares of such widths are 0 or infinite."""
    view, logits = federation()
    found = observe(replace(view, channel=(Noise(sigma), *after)))
    assert not isinstance(found.likelihood, ExactLogits)
    density = found.likelihood.log_density(found.forward.log_scores(logits), ROWS, np.zeros(len(ROWS)))
    assert not np.isnan(density).any()
    assert isinstance(found.likelihood, NoisyRow | NoisyIntervals | NoisyArgMax)
    assert 1e-9 <= found.likelihood.sigma <= 1e3
