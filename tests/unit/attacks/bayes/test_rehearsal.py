"""Trust in what scores tell: known answers, columns with rare large values, and tables of columns of few values."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import truncnorm
from sklearn.linear_model import LogisticRegression

import attacks
from attacks.bayes.frame import frame_of
from attacks.bayes.observation import observe
from attacks.bayes.prior import GaussianPrior
from attacks.bayes.rehearsal import trust
from attacks.bayes.sampling import informed_draws
from attacks.prediction.known_moments import known_moments
from defences import NoiseSource, ScoreContext, load
from defences.base import channel_of
from vfl.arrays import FloatArray
from vfl.channels import Decision, ScoreChannel
from vfl.data import encode_labels, fit_encoder, load_dataset
from vfl.data.datasets import DatasetNotFound
from vfl.learning import confidence_scores

DATA_DIR = os.environ.get("PLUMBLINE_DATA_DIR")
KNOWN = 100


def seen(
    rows: FloatArray, weights: FloatArray, bias: FloatArray, d: int, n: int, defence: tuple[str, dict[str, int]] | None
) -> tuple[attacks.PredictionView, FloatArray]:
    """The view of n records behind those that it knows; what is left of the rows makes the moments."""
    scores = confidence_scores(rows[: KNOWN + n] @ weights.T + bias)
    channel: tuple[ScoreChannel, ...] = ()
    if defence is not None:
        loaded = load(defence[0], **defence[1])
        context = ScoreContext(NoiseSource(0), weights[:, -d:] @ weights[:, -d:].T)
        scores, channel = loaded.protect_scores(scores, context), (channel_of(loaded, len(weights)),)
    own, passive = rows[:, :-d], rows[:, -d:]
    view = attacks.PredictionView(
        features_active=own[KNOWN : KNOWN + n],
        scores=scores[KNOWN:],
        weights_active=weights[:, :-d],
        weights_passive=weights[:, -d:],
        bias=bias,
        auxiliary=attacks.AuxiliaryRows(own[:KNOWN], passive[:KNOWN], scores[:KNOWN]),
        moments=known_moments(passive[KNOWN + n :]),
        channel=channel,
    )
    return view, passive[KNOWN : KNOWN + n]


def ratio(prior: str, view: attacks.PredictionView, truth: FloatArray) -> float:
    """Its error in units of what it errs by without scores."""
    attack = attacks.load("posterior", prior=prior)
    before = ((attack.without_scores(view) - truth) ** 2).mean()
    return float(((attack.reconstruct(view) - truth) ** 2).mean() / before)


def test_trust_is_whole_where_estimates_are_right_and_a_half_where_they_say_nothing() -> None:
    rng = np.random.default_rng(0)
    missed = rng.standard_normal((4000, 4))
    moved = np.column_stack([missed[:, 0], rng.standard_normal(4000), 2 * missed[:, 2], np.zeros(4000)])
    np.testing.assert_allclose(trust(moved, missed), [1.0, 0.5, 0.75, 1.0], atol=0.03)
    np.testing.assert_allclose(trust(-missed, missed), 0.5)


def test_along_a_single_direction_draws_are_quantiles() -> None:
    """A decision cuts a standard normal number: its mean by hand, to a hundredth, where 200 draws err by .06."""
    shifts = np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    view = attacks.PredictionView(
        features_active=np.zeros((5, 1)),
        scores=np.tile([0.0, 1.0], (5, 1)),
        weights_active=np.zeros((2, 1)),
        weights_passive=np.array([[0.0], [1.0]]),
        bias=np.zeros(2),
        own_shift=np.column_stack([np.zeros(5), shifts - 0.5]),
        channel=(Decision(),),
    )
    observation = observe(view)
    frame = frame_of(GaussianPrior(np.full((5, 1), 0.5), np.eye(1)), observation)
    draws, contradicted = informed_draws(frame, observation, seed=0, draws=200)
    assert not contradicted.any()
    sign = np.sign(frame.informed[0, 0])
    np.testing.assert_allclose(sign * draws[:, :, 0].mean(axis=0), truncnorm.mean(-shifts, np.inf), atol=0.01)


@pytest.mark.parametrize("seed", range(3))
def test_rare_large_values_that_no_known_record_has_do_not_mislead(seed: int) -> None:
    """Two columns of the same width, one of them in one record of a hundred: the covariance of few doesn't show it."""
    rng = np.random.default_rng(seed)
    count = 3000
    own = rng.random((count, 2))
    usual = np.clip(0.1 + 0.02 * rng.standard_normal((count, 3)), 0, 1)
    rare = np.where(rng.random(count) < 0.004, 1.0, 0.01)[:, None] + 0.005 * rng.random((count, 1))
    rows = np.hstack([own, usual, np.clip(rare, 0, 1)])
    rows = rows[np.argsort(np.arange(count) < KNOWN, kind="stable")] if (rows[:KNOWN, -1] > 0.5).any() else rows
    weights = np.vstack([np.zeros(6), [1.0, 1.0, 2.0, 2.0, 2.0, 2.0]])
    view, truth = seen(rows, weights, np.zeros(2), 4, 1000, None)
    assert (truth[:, -1] > 0.5).any()
    assert ratio("imputation", view, truth) < 0.8


# --- real data -------------------------------------------------------------------------------------------------------

# The last columns are passive; so many records are attacked.
TABLES = {"credit": (11, 300), "bank": (9, 60), "adult": (7, 60)}
CHANNELS: dict[str, tuple[str, dict[str, int]] | None] = {
    "exact": None,
    "three decimals": ("score_rounding", {"decimals": 3}),
    "decision": ("class_label", {}),
}


def real(name: str, channel: str) -> tuple[attacks.PredictionView, FloatArray]:
    try:
        data = load_dataset(name, None if DATA_DIR is None else Path(DATA_DIR))
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    rows, labels = fit_encoder("minmax", data.features).transform(data.features), encode_labels(data.labels)[0]
    order = np.random.default_rng(0).permutation(len(rows))
    rows, labels = rows[order], labels[order]
    model = LogisticRegression(C=10.0, max_iter=300).fit(rows[-2000:], labels[-2000:])
    weights, bias = np.vstack([-model.coef_ / 2, model.coef_ / 2]), np.append(-model.intercept_, model.intercept_) / 2
    return seen(rows[:8000], weights, bias, *TABLES[name], CHANNELS[channel])


@pytest.mark.parametrize("name", ["credit", "adult"])
@pytest.mark.parametrize("prior", ["covariance", "imputation"])
def test_three_decimals_are_as_good_as_exact_scores(name: str, prior: str) -> None:
    exact, rounded = (ratio(prior, *real(name, channel)) for channel in ("exact", "three decimals"))
    assert rounded == pytest.approx(exact, rel=0.02)
    assert exact < 1


@pytest.mark.parametrize(
    ("name", "prior"),
    [
        ("credit", "covariance"),
        ("bank", "covariance"),
        *(pytest.param(name, "imputation", marks=pytest.mark.thorough) for name in ("credit", "bank")),
    ],
)
def test_a_decision_never_makes_it_worse_than_its_prior(name: str, prior: str) -> None:
    assert ratio(prior, *real(name, "decision")) < 1.002
