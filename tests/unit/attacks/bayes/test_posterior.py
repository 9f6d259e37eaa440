"""The attack posterior: its special cases, what it says, what it refuses, input that is awkward, and real data."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import attacks
from vfl.arrays import FloatArray
from vfl.channels import Rounding, Undeclared
from vfl.data import encode_labels, fit_encoder, load_dataset
from vfl.data.datasets import DatasetNotFound
from vfl.learning import confidence_scores

DATA_DIR = os.environ.get("PLUMBLINE_DATA_DIR")
PRIORS = ("half", "mean", "covariance", "imputation")


def view_of(
    rows: FloatArray, weights: FloatArray, bias: FloatArray, d: int, t: int
) -> tuple[attacks.PredictionView, FloatArray]:
    """The first t rows are the adversary's records, the others attacked; the last d columns are passive."""
    scores, passive = confidence_scores(rows @ weights.T + bias), rows[:, -d:]
    moments = attacks.PassiveMoments(
        passive.mean(axis=0), passive.var(axis=0), np.cov(passive.T, bias=True).reshape(d, d)
    )
    view = attacks.PredictionView(
        features_active=rows[t:, :-d],
        scores=scores[t:],
        weights_active=weights[:, :-d],
        weights_passive=weights[:, -d:],
        bias=bias,
        auxiliary=attacks.AuxiliaryRows(rows[:t, :-d], passive[:t], scores[:t]),
        moments=moments,
    )
    return view, passive[t:]


def drawn(seed: int = 0, n: int = 30, k: int = 4, d: int = 6) -> tuple[attacks.PredictionView, FloatArray]:
    """Correlated features and a random model of k classes."""
    rng = np.random.default_rng(seed)
    mixed = rng.random((60 + n, 3)) @ rng.dirichlet(np.ones(3), d + 3).T
    rows = np.clip(mixed + rng.normal(0, 0.03, mixed.shape), 0, 1)
    return view_of(rows, rng.standard_normal((k, d + 3)), rng.standard_normal(k), d, 60)


def real(name: str, d: int, seed: int = 0, n: int = 200) -> tuple[attacks.PredictionView, FloatArray]:
    """A regression trained on rows that are neither known nor attacked, with 100 known records."""
    try:
        data = load_dataset(name, None if DATA_DIR is None else Path(DATA_DIR))
    except DatasetNotFound as missing:
        pytest.skip(str(missing))
    rows, labels = fit_encoder("minmax", data.features).transform(data.features), encode_labels(data.labels)[0]
    order = np.random.default_rng(seed).permutation(len(rows))
    training = order[100 + n : 100 + n + 3000]
    model = LogisticRegression(C=10.0, max_iter=2000).fit(rows[training], labels[training])
    weights, bias = model.coef_, model.intercept_
    if len(weights) == 1:
        weights, bias = np.vstack([-weights / 2, weights / 2]), np.append(-bias / 2, bias / 2)
    return view_of(rows[order[: 100 + n]], weights, bias, d, 100)


def error(estimate: FloatArray, truth: FloatArray) -> float:
    return float(((estimate - truth) ** 2).mean())


# --- special cases ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "d"), [(2, 1), (2, 6), (4, 6), (9, 5), (6, 3)])
def test_without_the_box_a_uniform_prior_is_half_star(k: int, d: int) -> None:
    for seed in range(5):
        view, _ = drawn(seed, k=k, d=d)
        estimate = attacks.load("posterior", prior="half", box=False).reconstruct(view)
        np.testing.assert_allclose(estimate, attacks.load("half_star").reconstruct(view), rtol=1e-9, atol=1e-9)


def test_without_the_box_a_uniform_prior_is_half_star_on_real_data() -> None:
    view, _ = real("breast_cancer", 15)
    estimate = attacks.load("posterior", prior="half", box=False).reconstruct(view)
    np.testing.assert_allclose(estimate, attacks.load("half_star").reconstruct(view), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("box", [False, True])
def test_without_its_scores_it_is_imputation(box: bool) -> None:
    view, _ = drawn()
    attack = attacks.load("posterior", prior="imputation", box=box, records=20)
    expected = attacks.load("imputation", records=20).reconstruct(view)
    # A model that looks at no passive column tells nothing of them; the box is part of what was known beforehand.
    deaf = replace(view, weights_passive=np.zeros_like(view.weights_passive))
    np.testing.assert_array_equal(attack.without_scores(view), attack.reconstruct(deaf))
    np.testing.assert_allclose(attack.without_scores(view), expected, atol=0.15 if box else 1e-9)


def test_what_it_would_estimate_without_scores_reads_no_score_or_parameter() -> None:
    view, _ = drawn()
    blind = replace(view, scores=None, weights_active=None, weights_passive=None, bias=None, passive_features=view.d)
    for prior in PRIORS:
        attack = attacks.load("posterior", prior=prior)
        np.testing.assert_array_equal(attack.without_scores(blind), attack.without_scores(view))


def test_every_level_of_knowledge_tells_more_and_scores_add_to_each() -> None:
    view, truth = drawn(n=200)
    found = [attacks.load("posterior", prior=prior) for prior in PRIORS]
    assert [attacks.level_of(attack) for attack in found] == list(attacks.LEVELS)
    errors = [error(attack.reconstruct(view), truth) for attack in found]
    assert errors == sorted(errors, reverse=True)
    assert all(error(one.without_scores(view), truth) > own for one, own in zip(found, errors, strict=True))


def test_what_an_adversary_added_to_its_own_share_is_taken_off() -> None:
    view, _ = drawn()
    shift = np.random.default_rng(1).standard_normal((view.n, view.classes))
    shifted = replace(view, scores=confidence_scores(np.log(np.asarray(view.scores)) + shift), own_shift=shift)
    attack = attacks.load("posterior", prior="covariance", box=False)
    np.testing.assert_allclose(attack.reconstruct(shifted), attack.reconstruct(view), atol=1e-7)


# --- columns of few values -------------------------------------------------------------------------------------------


def test_columns_of_few_values_are_read_off_where_the_prior_knows_of_them() -> None:
    """Two classes, one equation: three columns of two values each, which no Gaussian could tell apart."""
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.random((80, 2)), rng.integers(0, 2, (80, 3)).astype(np.float64)])
    view, truth = view_of(rows, rng.standard_normal((2, 5)), rng.standard_normal(2), 3, 40)
    assert view.moments is not None
    pairs = (np.array([0.0, 1.0]),) * 3
    told = replace(view.moments, supports=pairs, frequencies=(np.array([0.5, 0.5]),) * 3)
    for prior, moments in (("mean", told), ("covariance", told), ("imputation", None)):
        found = attacks.reconstruct(attacks.load("posterior", prior=prior), replace(view, moments=moments))
        np.testing.assert_allclose(found.estimate, truth, atol=1e-6)
        assert any("3 columns take few values; all their combinations were weighed." in note for note in found.notes)
    untold = attacks.load("posterior", prior="mean").reconstruct(view)
    assert error(untold, truth) > 0.05


# --- what it says ----------------------------------------------------------------------------------------------------


def test_notes_say_what_was_known_and_how_many_records_contradict_it() -> None:
    view, _ = drawn()
    for prior, words in (
        ("half", "nothing but the public ranges"),
        ("mean", "the mean and variance of each passive column"),
        ("covariance", "the means and the covariance of the passive columns"),
        ("imputation", "60 complete records before"),
    ):
        notes = attacks.reconstruct(attacks.load("posterior", prior=prior), view).notes
        assert words in notes[0]
        assert not [note for note in notes if "contradict" in note]
    assert view.moments is not None
    sure = replace(view, moments=replace(view.moments, variance=np.full(view.d, 1e-9)))
    notes = attacks.reconstruct(attacks.load("posterior", prior="mean"), sure).notes
    assert f"The answers of {view.n} of {view.n} records contradict what the adversary knew; they won." in notes


def test_pieces_that_are_missing_and_channels_it_cannot_read_are_told_in_a_sentence() -> None:
    view, _ = drawn(n=3)
    attack = attacks.load("posterior", prior="mean")
    for changed, words in (
        (replace(view, scores=None), "posterior needs scores"),
        (replace(view, weights_passive=None, passive_features=view.d), "posterior needs the model's parameters"),
        (replace(view, moments=None), "the prior mean needs"),
        (replace(view, channel=(Rounding(2), Undeclared("mine"))), "mine doesn't declare what it lets pass"),
    ):
        with pytest.raises(attacks.ViewError, match=f"(?i){words}"):
            attack.reconstruct(changed)


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="posterior: expected prior to be one of half, mean, cov"):
        attacks.load("posterior", prior="flat")
    with pytest.raises(ValueError, match="posterior can't learn from records=0"):
        attacks.load("posterior", prior="imputation", records=0)


# --- awkward input ---------------------------------------------------------------------------------------------------


def awkward() -> dict[str, attacks.PredictionView]:
    view, _ = drawn(n=5, k=4, d=6)
    assert view.auxiliary is not None
    assert view.moments is not None
    assert view.scores is not None
    few, passive = view.auxiliary, np.array(view.auxiliary.features_passive)
    passive[:, :2] = 0.5
    saturated, single = np.array(view.scores), np.zeros_like(view.scores)
    saturated[0], saturated[1, 2] = [1, 0, 0, 0], 0
    single[:, 1] = 1
    ones = np.ones((view.d, view.d)) / 12
    return {
        "constant columns": replace(
            view,
            auxiliary=attacks.AuxiliaryRows(few.features_active, passive, few.scores),
            moments=replace(view.moments, variance=np.where(np.arange(6) < 2, 0.0, view.moments.variance)),
        ),
        "one record": replace(
            view, auxiliary=attacks.AuxiliaryRows(few.features_active[:1], few.features_passive[:1], few.scores[:1])
        ),
        "scores of 0 and 1": replace(view, scores=saturated),
        "nothing but certainty": replace(view, scores=single),
        "singular covariance": replace(view, moments=replace(view.moments, covariance=ones)),
        "no covariance at all": replace(
            view, moments=replace(view.moments, covariance=0 * ones, variance=np.zeros(view.d))
        ),
        "a prior far outside": replace(view, moments=replace(view.moments, mean=np.full(view.d, 1.0))),
        "no records": replace(view, features_active=view.features_active[:0], scores=view.scores[:0]),
    }


@pytest.mark.parametrize("case", awkward())
@pytest.mark.parametrize("prior", PRIORS)
def test_awkward_input_gives_numbers_in_the_box_in_their_order(case: str, prior: str) -> None:
    view = awkward()[case]
    found = attacks.reconstruct(attacks.load("posterior", prior=prior), view)
    assert found.low is not None
    assert found.high is not None
    assert found.estimate.shape == (view.n, view.d)
    for part in (found.low, found.estimate, found.high):
        assert np.isfinite(part).all()
        assert part.min(initial=0) >= 0
        assert part.max(initial=1) <= 1
    assert (found.low <= found.high).all()


def test_a_score_of_zero_costs_its_equation_only() -> None:
    """The log ratios of the classes left over hold; the other record is untouched."""
    view, _ = drawn(n=2)
    scores = np.array(view.scores)
    scores[0, 1] = 0.0
    attack = attacks.load("posterior", prior="covariance", box=False)
    estimate, before = attack.reconstruct(replace(view, scores=scores)), attack.reconstruct(view)
    np.testing.assert_allclose(estimate[1], before[1], atol=1e-9)
    logits = view.features_active[0] @ np.asarray(view.weights_active).T + np.asarray(view.bias)
    logits += np.asarray(view.weights_passive) @ estimate[0]
    kept = [0, 2, 3]
    np.testing.assert_allclose(np.diff(logits[kept]), np.diff(np.log(scores[0, kept])), atol=1e-8)


# --- real data -------------------------------------------------------------------------------------------------------


def test_breast_cancer() -> None:
    """Records tell most, scores tell half of the rest, and 90 % intervals are about that."""
    view, truth = real("breast_cancer", 15)
    attack = attacks.load("posterior", prior="imputation")
    found = attacks.reconstruct(attack, view)
    assert found.low is not None
    assert found.high is not None
    assert error(found.estimate, truth) < 0.85 * error(attack.without_scores(view), truth)
    assert 0.85 < ((found.low <= truth) & (truth <= found.high)).mean() < 0.97


def test_satellite() -> None:
    """Half of the passive columns, 100 records: .005 without a score, .0023 with it, where half* has .021."""
    view, truth = real("satellite", 18)
    attack = attacks.load("posterior", prior="imputation")
    assert error(attack.without_scores(view), truth) < 0.0065
    assert error(attack.reconstruct(view), truth) < 0.0028
    assert error(attacks.load("half_star").reconstruct(view), truth) > 0.015
