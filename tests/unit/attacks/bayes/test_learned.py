"""regression: what scores tell where no Gaussian sees it, nothing where they tell nothing, and awkward input."""

from dataclasses import replace

import numpy as np
import pytest

import attacks
from attacks.bayes.learned import LearnedRegression
from attacks.views import ViewError
from vfl.arrays import FloatArray
from vfl.learning import confidence_scores

FEW = LearnedRegression()
pytestmark = pytest.mark.slow("a model of every column is fitted several times, and fewer records would tell nothing")


def case(t: int = 300, n: int = 200, seed: int = 0) -> tuple[attacks.PredictionView, FloatArray]:
    """Five passive columns: three in the logit, one that bends with one of these, and one that nothing tells of."""
    rng = np.random.default_rng(seed)
    own, passive = rng.random((t + n, 3)), rng.random((t + n, 5))
    passive[:, 1] = own[:, 0]
    passive[:, 2] = (np.abs(passive[:, 0] - 0.5) > 0.25) * 1.0
    passive[:, 3] = 0.4 + 0.2 * passive[:, 1]
    weights = np.array([0.5, -1.0, 0.5]), np.array([4.0, 0.5, 0.0, 0.0, 0.0])
    logits = own @ weights[0] + passive @ weights[1] - 2
    scores = confidence_scores(np.stack([-logits / 2, logits / 2], axis=1))
    labels = (rng.random(t + n) < scores[:, 1]).astype(np.int64)
    view = attacks.PredictionView(
        features_active=own[t:],
        scores=scores[t:],
        weights_active=np.stack([-weights[0] / 2, weights[0] / 2]),
        passive_features=5,
        auxiliary=attacks.AuxiliaryRows(own[:t], passive[:t], scores[:t], labels[:t]),
        record_labels=labels[t:],
    )
    return view, passive[t:]


def errors(estimate: FloatArray, truth: FloatArray) -> FloatArray:
    """Of what is unknown of each column, the share that is left."""
    left: FloatArray = ((estimate - truth) ** 2).mean(axis=0) / truth.var(axis=0)
    return left


@pytest.mark.parametrize("model", ["trees", "boosting", "network"])
def test_each_model_reads_what_scores_tell_and_no_more(model: str) -> None:
    view, truth = case()
    attack = attacks.load("regression", model=model)
    seen, unseen = (errors(one(view), truth) for one in (attack.reconstruct, attack.without_scores))
    # The first column is all but the logit; the third is no linear function of it.
    assert seen[0] < 0.05 < 0.7 < unseen[0]
    assert seen[2] < 0.25 < 0.7 < unseen[2]
    # Own columns tell these by themselves, and the last nothing tells of: there is no part of either.
    assert (seen[[1, 3]] < 0.01).all()
    assert (unseen[[1, 3]] < 0.01).all()
    assert 0.95 < seen[4] < 1.05


def test_scores_of_other_records_tell_nothing() -> None:
    view, truth = case(t=1000)
    order = np.random.default_rng(1).permutation(view.n)
    shuffled = replace(view, scores=np.asarray(view.scores)[order])
    known = view.auxiliary
    assert known is not None
    mixed = np.random.default_rng(2).permutation(len(known.scores))
    untaught = replace(shuffled, auxiliary=replace(known, scores=known.scores[mixed]))
    unknown = [0, 2, 4]
    seen, unseen = (errors(one(untaught), truth)[unknown] for one in (FEW.reconstruct, FEW.without_scores))
    assert (seen > 0.97 * unseen).all()


def test_the_value_of_a_column_of_few_is_named_more_often_than_the_mean_is_near_it() -> None:
    view, truth = case(t=300)
    known = view.auxiliary
    assert known is not None
    values, rng = np.array([0.0, 0.25, 1.0]), np.random.default_rng(0)

    def coarse(cells: FloatArray) -> FloatArray:
        # In three parts of the scores' order, so that the mean of two is near the third; and values of nothing.
        told = values[[1, 2, 0]][np.digitize(cells[:, 0], [0.3, 0.6])]
        return np.column_stack([cells[:, 1:4], told, rng.choice(values, len(cells))])

    few = replace(view, auxiliary=replace(known, features_passive=coarse(known.features_passive)))
    true, told, untold = coarse(truth), FEW.reconstruct_with_notes(few), FEW.guess(few)
    assert told.densest is not None
    assert untold.densest is not None
    by_mean = values[np.abs(told.estimate[:, :, None] - values).argmin(axis=2)]
    hits, means, guesses = ((one == true)[:, 3:].mean(axis=0) for one in (told.densest, by_mean, untold.densest))
    assert hits[0] > max(0.95, means[0])
    assert guesses[0] < 0.6
    assert abs(hits[1] - guesses[1]) < 0.1
    # Elsewhere the densest place is the mean.
    np.testing.assert_array_equal(told.densest[:, 0], told.estimate[:, 0])


@pytest.mark.thorough
@pytest.mark.parametrize("labels", [True, False])
def test_who_owns_no_column_learns_without_one(*, labels: bool) -> None:
    view, _ = case(t=40, n=10)
    known = view.auxiliary
    assert known is not None
    rows = replace(known, features_active=np.empty((40, 0)), labels=known.labels if labels else None)
    bare = replace(view, features_active=np.empty((10, 0)), weights_active=None, passive_features=5, auxiliary=rows)
    assert np.isfinite(FEW.reconstruct(bare)).all()
    assert np.isfinite(FEW.without_scores(bare)).all()


def test_without_scores_it_reads_none() -> None:
    view, _ = case(t=50, n=20)
    known = view.auxiliary
    assert known is not None
    blind = replace(
        view, scores=None, weights_active=None, auxiliary=replace(known, scores=np.empty((50, 0))), passive_features=5
    )
    np.testing.assert_array_equal(FEW.without_scores(view), FEW.without_scores(blind))


@pytest.mark.thorough
def test_a_view_and_a_seed_give_the_same_numbers() -> None:
    view, _ = case(t=40, n=10)
    np.testing.assert_array_equal(FEW.reconstruct(view), FEW.reconstruct(view))
    assert (FEW.reconstruct(view) != LearnedRegression(seed=1).reconstruct(view)).any()


@pytest.mark.parametrize("t", [1, 2, 11, 12])
def test_few_records_give_numbers_in_the_box(t: int) -> None:
    view, _ = case(t=t, n=5)
    estimate = FEW.reconstruct(view)
    assert estimate.shape == (5, 5)
    assert ((estimate >= 0) & (estimate <= 1)).all()


def test_constant_columns_one_class_and_scores_of_0_and_1_are_no_trouble() -> None:
    view, _ = case(t=60, n=20)
    known = view.auxiliary
    assert known is not None
    passive = known.features_passive.copy()
    passive[:, 1] = 0.3
    one_class = np.zeros(60, dtype=np.int64)
    sure = replace(known, features_passive=passive, labels=one_class, scores=np.eye(2)[one_class])
    estimate = FEW.reconstruct(replace(view, auxiliary=sure, scores=np.round(np.asarray(view.scores))))
    np.testing.assert_allclose(estimate[:, 1], 0.3)
    assert np.isfinite(estimate).all()


@pytest.mark.thorough
def test_thousands_of_columns_are_told_by_their_principal_components() -> None:
    view, truth = case(t=80, n=10)
    known = view.auxiliary
    assert known is not None
    wide = replace(known, features_passive=np.tile(known.features_passive, 400))
    found = FEW.reconstruct(replace(view, auxiliary=wide, passive_features=2000))
    np.testing.assert_allclose(found[:, :5], found[:, -5:], atol=1e-9)
    assert errors(found[:, :5], truth)[0] < 0.2


def test_what_it_lacks_and_what_it_cannot_take_is_told() -> None:
    view, _ = case(t=20, n=5)
    with pytest.raises(ViewError, match="needs auxiliary"):
        FEW.reconstruct(replace(view, auxiliary=None))
    with pytest.raises(ViewError, match="needs scores"):
        FEW.reconstruct(replace(view, scores=None))
    for options in ({"model": "oracle"}, {"records": 0}, {"seed": -1}):
        with pytest.raises(ValueError, match="regression"):
            attacks.load("regression", **options)
