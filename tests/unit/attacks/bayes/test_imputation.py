"""The attack imputation: what it declares, that no score enters, and columns of few values on the papers' data."""

from dataclasses import replace

import numpy as np
import pytest

import attacks
from vfl.arrays import FloatArray
from vfl.data import encode_labels, fit_encoder, load_dataset


def breast_cancer(t: int = 100, d: int = 15, n: int = 150) -> tuple[attacks.PredictionView, FloatArray]:
    data = load_dataset("breast_cancer", None)
    rows, labels = fit_encoder("minmax", data.features).transform(data.features), encode_labels(data.labels)[0]
    order = np.random.default_rng(0).permutation(len(rows))
    known, asked = order[:t], order[t : t + n]
    auxiliary = attacks.AuxiliaryRows(rows[known, :-d], rows[known, -d:], np.zeros((t, 2)), labels[known])
    view = attacks.PredictionView(
        features_active=rows[asked, :-d], passive_features=d, auxiliary=auxiliary, record_labels=labels[asked]
    )
    return view, rows[asked, -d:]


def error(estimate: FloatArray, truth: FloatArray) -> float:
    return float(((estimate - truth) ** 2).mean())


def test_it_is_a_baseline_of_the_level_records() -> None:
    imputation = attacks.load("imputation")
    assert attacks.level_of(imputation) == "records"
    assert not imputation.spec.sees_scores
    assert imputation.spec.knowledge == "agnostic"


def test_records_tell_most_of_breast_cancer_without_a_score() -> None:
    """A fifth of the mean's error is left, and more records leave less."""
    view, truth = breast_cancer()
    assert view.auxiliary is not None
    mean = np.tile(view.auxiliary.features_passive.mean(axis=0), (view.n, 1))
    many, few = (error(attacks.load("imputation", records=t).reconstruct(view), truth) for t in (None, 20))
    assert many < 0.25 * error(mean, truth)
    assert many < few


def test_scores_and_parameters_change_nothing() -> None:
    view, _ = breast_cancer(t=20, n=10)
    rng = np.random.default_rng(0)
    seen = replace(
        view,
        scores=rng.dirichlet(np.ones(2), view.n),
        weights_active=rng.random((2, 15)),
        weights_passive=rng.random((2, 15)),
        bias=rng.random(2),
    )
    plain = attacks.load("imputation").reconstruct(view)
    np.testing.assert_array_equal(attacks.load("imputation").reconstruct(seen), plain)
    np.testing.assert_array_equal(attacks.load("imputation").reconstruct(view), plain)


def test_only_the_first_records_are_looked_at() -> None:
    view, _ = breast_cancer(t=40, n=10)
    fewer, _ = breast_cancer(t=40, n=10)
    assert fewer.auxiliary is not None
    cut = attacks.AuxiliaryRows(
        fewer.auxiliary.features_active[:15],
        fewer.auxiliary.features_passive[:15],
        fewer.auxiliary.scores[:15],
        None if fewer.auxiliary.labels is None else fewer.auxiliary.labels[:15],
    )
    np.testing.assert_array_equal(
        attacks.load("imputation", records=15).reconstruct(view),
        attacks.load("imputation").reconstruct(replace(fewer, auxiliary=cut)),
    )


def test_without_records_it_says_so() -> None:
    view, _ = breast_cancer(t=5, n=3)
    with pytest.raises(attacks.ViewError, match=r"imputation needs auxiliary.*give complete auxiliary records"):
        attacks.load("imputation").reconstruct(replace(view, auxiliary=None))
    with pytest.raises(ValueError, match="imputation can't learn from records=0"):
        attacks.load("imputation", records=0)
