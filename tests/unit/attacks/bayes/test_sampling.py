"""The sampler: rejection sampling in two dimensions, limits that are exact, calibration, and what has no solution."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import truncnorm
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import attacks
from attacks import PredictionView
from attacks.bayes.exact import condition
from attacks.bayes.observation import nothing_observed, observe
from attacks.bayes.prior import GaussianPrior
from attacks.bayes.sampling import SampledPosterior, densest_places, effective_samples, sampled_posterior
from vfl.arrays import FloatArray
from vfl.channels import Decision, Noise, Purifier, Rounding, ScoreChannel, StrongestDirection, Temperature
from vfl.learning import confidence_scores
from vfl.learning.networks import DenseNetwork, VerticalNetwork
from vfl.theory.logit_schemes import logits_of, maximisers, scheme1_noise
from vfl.theory.score_noise import strongest_noise

Channel = tuple[ScoreChannel, ...]
SIGMA = 0.1
CHANNELS: dict[str, Channel] = {
    "one decimal": (Rounding(1),),
    "two decimals": (Rounding(2),),
    "decision": (Decision(),),
    "noise": (Noise(SIGMA),),
    "noise, then the decision": (Noise(SIGMA), Decision()),
    "a temperature, then one decimal": (Temperature(0.5), Rounding(1)),
    "one decimal, then a temperature": (Rounding(1), Temperature(0.5)),
    "two decimals, then noise": (Rounding(2), Noise(SIGMA)),
    "scheme 1, then one decimal": (StrongestDirection(1, 1.0), Rounding(1)),
}


def model(k: int, d: int, seed: int = 1) -> tuple[FloatArray, FloatArray]:
    generator = np.random.default_rng(seed)
    return 2 * generator.standard_normal((k, 2)), 2 * generator.standard_normal((k, d))


def passed(scores: FloatArray, channel: Channel, weights: FloatArray, generator: np.random.Generator) -> FloatArray:
    """What a channel makes of scores, written out again from its description."""
    for stage in channel:
        match stage:
            case Rounding(decimals):
                scores = np.round(scores, decimals)
            case Decision():
                scores = np.eye(scores.shape[1])[scores.argmax(axis=1)]
            case Temperature(factor):
                scores = confidence_scores(factor * logits_of(scores))
            case Noise(sigma):
                clipped = np.clip(scores + sigma * generator.standard_normal(scores.shape), 0, 1)
                scores = clipped / clipped.sum(axis=1, keepdims=True)
            case StrongestDirection():
                logits, direction = logits_of(scores), strongest_noise(weights @ weights.T).direction
                scores = confidence_scores(logits + scheme1_noise(maximisers(logits), direction, stage.alpha))
            case Purifier():
                scores = stage.purify(scores)
    return scores


def view_of(
    own: FloatArray, scores: FloatArray, rows: tuple[FloatArray, FloatArray], channel: Channel
) -> PredictionView:
    return PredictionView(
        features_active=own,
        scores=scores,
        weights_active=rows[0],
        weights_passive=rows[1],
        bias=np.zeros(len(rows[0])),
        channel=channel,
    )


@pytest.mark.parametrize("name", CHANNELS)
def test_rejection_sampling_in_two_dimensions_agrees(name: str) -> None:
    """Of records drawn from the prior, those whose delivered row is (nearly) the same have the posterior's mean."""
    channel, rows, generator = CHANNELS[name], model(4, 2), np.random.default_rng(0)
    mean, covariance, own = np.array([0.45, 0.6]), np.array([[0.04, 0.015], [0.015, 0.03]]), np.array([[0.4, 0.5]])
    drawn = mean + generator.standard_normal((500_000, 2)) @ np.linalg.cholesky(covariance).T
    drawn = drawn[((drawn > 0) & (drawn < 1)).all(axis=1)]
    known = own @ rows[0].T
    answered = passed(confidence_scores(known + np.array([[0.3, 0.8]]) @ rows[1].T), channel, rows[1], generator)
    others = passed(confidence_scores(known + drawn @ rows[1].T), channel, rows[1], generator)
    blurred = any(isinstance(stage, Noise) for stage in channel) and not isinstance(channel[-1], Decision)
    same = (np.abs(others - answered) < (0.05 if blurred else 1e-6)).all(axis=1) & ((others > 0) == (answered > 0)).all(
        1
    )
    accepted, copies = drawn[same], 50
    assert len(accepted) > 300
    view = view_of(np.repeat(own, copies, axis=0), np.repeat(answered, copies, axis=0), rows, channel)
    prior = GaussianPrior(np.tile(mean, (copies, 1)), covariance)
    found = sampled_posterior(prior, observe(view), box=True, seed=0, draws=120)
    assert found.effective_samples is not None
    spread = accepted.std(axis=0)
    error = spread / np.sqrt(len(accepted)) + spread / np.sqrt(found.effective_samples.sum())
    np.testing.assert_allclose(found.mean.mean(axis=0), accepted.mean(axis=0), atol=float(4 * error.max() + 0.004))
    pooled = np.sqrt((found.spread**2).mean(axis=0) + found.mean.var(axis=0))
    np.testing.assert_allclose(pooled, spread, rtol=0.12)


def drawn(
    channel: Channel, n: int, d: int, k: int = 4, seed: int = 0
) -> tuple[GaussianPrior, PredictionView, FloatArray]:
    """Records that the prior itself describes, in the box, and what a channel delivers of them."""
    generator, rows = np.random.default_rng(seed), model(k, d, seed)
    factors = generator.standard_normal((d, d)) * 0.12 / np.sqrt(d)
    covariance = factors @ factors.T + 0.06**2 * np.eye(d)
    means = 0.1 + 0.8 * generator.random((n, d))
    truth = np.full((n, d), -1.0)
    while (wrong := ((truth < 0) | (truth > 1)).any(axis=1)).any():
        truth[wrong] = means[wrong] + generator.standard_normal((wrong.sum(), d)) @ np.linalg.cholesky(covariance).T
    own = generator.random((n, 2))
    scores = passed(confidence_scores(own @ rows[0].T + truth @ rows[1].T), channel, rows[1], generator)
    return GaussianPrior(means, covariance), view_of(own, scores, rows, channel), truth


def sampled(prior: GaussianPrior, view: PredictionView, *, box: bool = True, draws: int = 100) -> SampledPosterior:
    return sampled_posterior(prior, observe(view), box=box, seed=3, draws=draws)


@pytest.mark.parametrize(
    "channel",
    [(), (Rounding(2),), (Rounding(1),), (Decision(),), (Noise(0.05),), (StrongestDirection(1, 4.0),)],
    ids=["exact", "two decimals", "one decimal", "decision", "noise", "scheme 1"],
)
def test_intervals_cover_as_often_as_they_say(channel: Channel) -> None:
    prior, view, truth = drawn(channel, n=500, d=6)
    found = sampled(prior, view, draws=150)
    covered = ((found.low <= truth) & (truth <= found.high)).mean()
    assert 0.88 <= covered <= 0.92
    assert ((found.mean - truth) ** 2).mean() < ((prior.mean - truth) ** 2).mean()
    assert found.contradicted is not None
    assert found.contradicted.mean() < 0.01


@pytest.mark.parametrize("channel", [(Rounding(12),), (Rounding(15),), (Noise(1e-9),)], ids=["12", "15", "noise"])
def test_narrow_channels_are_exact_in_the_limit(channel: Channel) -> None:
    prior, view, _ = drawn(channel, n=10, d=6)
    exact = observe(PredictionView(**{**vars(view), "channel": ()}))
    expected = condition(prior, *exact.linear_equations())
    found = sampled(prior, view, box=False, draws=40)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(found.spread, expected.spread, atol=1e-5)


def test_exact_scores_without_the_box_are_the_closed_form() -> None:
    prior, view, _ = drawn((), n=10, d=6)
    found, expected = sampled(prior, view, box=False, draws=2000), condition(prior, *observe(view).linear_equations())
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(found.spread, expected.spread, atol=1e-9)
    np.testing.assert_allclose(found.low, expected.low, atol=0.15 * expected.spread.max())


def test_a_box_far_away_changes_nothing() -> None:
    prior, view, _ = drawn((), n=20, d=6)
    narrow = GaussianPrior(0.4 + 0.2 * prior.mean, 0.05 * prior.covariance)
    within = np.full((20, 6), 0.5)
    rows = np.asarray(view.weights_active), np.asarray(view.weights_passive)
    scores = confidence_scores(view.features_active @ rows[0].T + within @ rows[1].T)
    changed = view_of(view.features_active, scores, rows, ())
    found, expected = sampled(narrow, changed, draws=600), condition(narrow, *observe(changed).linear_equations())
    np.testing.assert_allclose(found.mean, expected.mean, atol=0.25 * expected.spread.max())
    np.testing.assert_allclose(found.spread, expected.spread, rtol=0.25)


@pytest.mark.parametrize("box", [True, False])
def test_nothing_observed_leaves_the_prior(box: bool) -> None:
    """A Gaussian cut to [0, 1], column by column."""
    mean, spread = np.array([0.05, 0.9, 0.5]), np.array([0.2, 0.3, 0.1])
    prior = GaussianPrior(np.tile(mean, (40, 1)), np.diag(spread**2))
    found = sampled_posterior(prior, nothing_observed(40, 3), box=box, seed=0, draws=200)
    expected = truncnorm.mean(-mean / spread, (1 - mean) / spread, mean, spread) if box else mean
    np.testing.assert_allclose(found.mean.mean(axis=0), expected, atol=0.006)


def test_the_same_seed_gives_the_same_posterior_and_another_seed_another() -> None:
    prior, view, _ = drawn((Rounding(1),), n=5, d=4)
    first, again = sampled(prior, view), sampled(prior, view)
    other = sampled_posterior(prior, observe(view), box=True, seed=4, draws=100)
    np.testing.assert_array_equal(first.mean, again.mean)
    assert (first.mean != other.mean).any()


@pytest.mark.parametrize("channel", [(), (Rounding(2),), (Decision(),), (Noise(0.01),)])
def test_answers_that_nothing_explains_are_counted_and_give_numbers_in_the_box(channel: Channel) -> None:
    """Parameters that are thirty times too small can't explain such differences between scores."""
    prior, view, _ = drawn(channel, n=8, d=4)
    assert view.weights_passive is not None
    assert view.scores is not None
    weaker = PredictionView(**{**vars(view), "weights_passive": view.weights_passive / 30})
    found = sampled(prior, weaker, draws=30)
    assert found.contradicted is not None
    if not channel:
        assert found.contradicted.all()
    for part in (found.mean, found.low, found.high, found.spread):
        assert np.isfinite(part).all()
        assert part.min() >= -1e-9
        assert part.max() <= 1 + 1e-9


def test_a_network_is_searched_through_and_so_is_a_purifier() -> None:
    """With as many scores as features, both tell the record; the network's posterior is around the truth."""
    generator = np.random.default_rng(0)
    prior, view, truth = drawn((), n=15, d=2, k=5)
    rows = np.asarray(view.weights_passive)
    hidden = DenseNetwork(
        (generator.standard_normal((2, 4)), generator.standard_normal((4, 5)) * 2), (np.zeros(4), np.zeros(5))
    )
    own = DenseNetwork((np.asarray(view.weights_active).T,), (np.zeros(5),))
    logits = own.partial_scores(view.features_active) + hidden.partial_scores(truth)
    network = PredictionView(
        features_active=view.features_active, scores=confidence_scores(logits), network=VerticalNetwork(own, hidden)
    )
    purifier = Purifier(
        DenseNetwork(
            (generator.standard_normal((5, 3)), generator.standard_normal((3, 5))), (np.zeros(3), np.zeros(5)), "tanh"
        )
    )
    scores = purifier.purify(
        confidence_scores(view.features_active @ np.asarray(view.weights_active).T + truth @ rows.T)
    )
    purified = PredictionView(**{**vars(view), "scores": scores, "channel": (purifier,)})
    before = ((prior.mean - truth) ** 2).mean()
    for changed in (network, purified):
        found = sampled(prior, changed, draws=60)
        assert ((found.mean - truth) ** 2).mean() < 0.3 * before


@pytest.mark.slow("chains are drawn for many real records")
@pytest.mark.parametrize(
    "channel",
    [pytest.param((Rounding(2),), marks=pytest.mark.thorough), (Decision(),)],
    ids=["two decimals", "decision"],
)
@pytest.mark.parametrize("d", [4, pytest.param(15, marks=pytest.mark.thorough)])
def test_on_real_records_it_is_never_worse_than_its_prior(channel: Channel, d: int) -> None:
    """By more than the interval of the mean difference: breast cancer, 100 complete records.

    With many draws: with few their own error, 1 / effective samples of the posterior's variance, shows (decision 10).
    """
    columns, labels = load_breast_cancer(return_X_y=True)
    columns = (columns - columns.min(axis=0)) / np.ptp(columns, axis=0)
    order = np.random.default_rng(0).permutation(len(columns))
    train, known, judged = order[:284], order[284:384], order[384:534]
    fitted = LogisticRegression(C=10.0, max_iter=2000).fit(columns[train], labels[train])
    rows = np.vstack([-fitted.coef_ / 2, fitted.coef_ / 2])
    own, passive = columns[:, :-d], columns[:, -d:]
    scores = passed(confidence_scores(columns @ rows.T), channel, rows[:, -d:], np.random.default_rng(0))
    view = view_of(own[judged], scores[judged], (rows[:, :-d], rows[:, -d:]), channel)
    view = replace(view, auxiliary=attacks.AuxiliaryRows(own[known], passive[known], scores[known]))
    attack = attacks.load("posterior", prior="imputation", draws=1600)
    errors = [
        ((x - passive[judged]) ** 2).mean(axis=1) for x in (attack.reconstruct(view), attack.without_scores(view))
    ]
    worse = errors[0] - errors[1]
    assert worse.mean() < 3 * worse.std() / np.sqrt(len(worse))


def test_effective_samples_of_an_autoregression_are_known() -> None:
    """Of x_t = r x_(t-1) + noise, t draws are worth t (1 - r) / (1 + r)."""
    generator, r = np.random.default_rng(0), 0.6
    draws = np.zeros((4000, 20, 1))
    for step in range(1, len(draws)):
        draws[step] = r * draws[step - 1] + generator.standard_normal((20, 1))
    np.testing.assert_allclose(effective_samples(draws).mean(), 4000 * (1 - r) / (1 + r), rtol=0.1)
    assert effective_samples(np.zeros((100, 3, 2))).tolist() == [[100.0] * 2] * 3


@pytest.mark.parametrize("box", [True, False])
def test_a_prior_of_fewer_dimensions_than_scores_tell_of_is_sampled_on_its_line(box: bool) -> None:
    """Walks begin where a rounded row is possible, hundreds of standard deviations off the line: they come home."""
    rows, direction, copies = model(3, 2), np.array([0.2, 0.15]), 20
    mean, own, channel = np.array([0.45, 0.6]), np.array([[0.4, 0.5]]), (Rounding(2),)
    places = np.linspace(-6, 6, 200_001)
    points = mean + places[:, None] * direction
    known = own @ rows[0].T
    answered = confidence_scores(known + points[[110_000]] @ rows[1].T).round(2)
    same = (np.abs(confidence_scores(known + points @ rows[1].T).round(2) - answered) < 1e-6).all(axis=1)
    weights = np.exp(-0.5 * places**2) * same * (not box or ((points > 0) & (points < 1)).all(axis=1))
    expected = weights @ points / weights.sum()
    spread = np.sqrt(weights @ (points - expected) ** 2 / weights.sum())
    view = view_of(np.repeat(own, copies, axis=0), np.repeat(answered, copies, axis=0), rows, channel)
    prior = GaussianPrior(np.tile(mean, (copies, 1)), np.outer(direction, direction))
    found = sampled_posterior(prior, observe(view), box=box, seed=0, draws=120)
    assert found.contradicted is not None
    assert not found.contradicted.any()
    np.testing.assert_allclose(found.mean.mean(axis=0), expected, atol=float(0.2 * spread.max()))
    np.testing.assert_allclose(found.spread.mean(axis=0), spread, rtol=0.25)


def test_equations_met_to_rounding_contradict_nothing() -> None:
    """Scheme 2 leaves equations for most records: more of them than features, and all of them true."""
    prior, view, _ = drawn((), 60, 1, k=3)
    rows = np.asarray(view.weights_passive)
    stage = StrongestDirection(2, 4.0, 1, 0.01)
    logits = logits_of(np.asarray(view.scores))
    winners = maximisers(logits)
    moved = logits + 2.0 * strongest_noise(rows @ rows.T).direction
    lead = np.where(winners, moved, moved + stage.delta).max(axis=1, keepdims=True)
    scores = confidence_scores(np.where(winners, lead, moved))
    found = sampled_posterior(
        prior, observe(replace(view, scores=scores, channel=(stage,))), box=True, seed=0, draws=60
    )
    assert found.contradicted is not None
    assert not found.contradicted.any()


def test_the_densest_place_is_that_of_a_naive_search_and_beside_the_mean_where_there_are_two_peaks() -> None:
    generator = np.random.default_rng(0)
    draws = np.where(generator.random((200, 3, 2)) < 0.6, 0.2, 0.9) + 0.01 * generator.standard_normal((200, 3, 2))
    found = densest_places(draws)
    for record, column in np.ndindex(3, 2):
        ordered = np.sort(draws[:, record, column])
        start = int(np.argmin([ordered[at + 49] - ordered[at] for at in range(151)]))
        assert found[record, column] == pytest.approx(ordered[start : start + 50].mean())
    assert found == pytest.approx(0.2, abs=0.02)
    assert densest_places(draws[:1]) == pytest.approx(draws[0])
