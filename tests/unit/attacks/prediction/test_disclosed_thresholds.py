"""Thresholds that bound columns tell them, more to who knows what lies between them; other bounds tell nothing."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.prediction.disclosed_thresholds import DisclosedThresholds
from attacks.prediction.known_moments import known_moments
from attacks.views import PredictionView, ViewError
from vfl.arrays import FloatArray


def bounded(records: int = 300) -> tuple[PredictionView, FloatArray]:
    """A skewed column of which three thresholds are known, one of two values that nothing bounds, and both's truth."""
    generator = np.random.default_rng(2)
    table = np.column_stack([generator.beta(1, 8, 2 * records), generator.random(2 * records) < 0.2]).astype(float)
    truth, ends = table[:records], np.array([0.0, 0.05, 0.1, 0.2, 1.0])
    place = np.searchsorted(ends[1:-1], truth[:, 0])
    low = np.column_stack([ends[place], np.full(records, -1e-9)])
    high = np.column_stack([ends[place + 1], np.ones(records)])
    moments = known_moments(table[records:])
    own = np.zeros((records, 1))
    return PredictionView(features_active=own, passive_features=2, moments=moments, low=low, high=high), truth


def test_bounds_tell_columns_and_statistics_tell_more() -> None:
    view, truth = bounded()
    error = {
        prior: ((DisclosedThresholds(prior=prior).reconstruct(view) - truth) ** 2).mean(axis=0)
        for prior in ("nothing", "marginals")
    }
    assert error["marginals"][0] < error["nothing"][0] < ((0.5 - truth) ** 2).mean(axis=0)[0]
    assert error["marginals"][0] < 0.2 * truth[:, 0].var()
    # Nothing bounds the second: a mean is guessed.
    assert error["marginals"][1] == pytest.approx(truth[:, 1].var(), rel=0.05)
    order = np.random.default_rng(0).permutation(len(truth))
    other = replace(view, low=np.asarray(view.low)[order], high=np.asarray(view.high)[order])
    shuffled = ((DisclosedThresholds(prior="marginals").reconstruct(other) - truth) ** 2).mean(axis=0)
    assert shuffled[0] > truth[:, 0].var()


def test_what_it_reads_must_be_there() -> None:
    view, _ = bounded(4)
    with pytest.raises(ViewError, match="the passive party must disclose its parameters"):
        DisclosedThresholds().reconstruct(replace(view, low=None))
    with pytest.raises(ViewError, match="needs moments"):
        DisclosedThresholds(prior="marginals").reconstruct(replace(view, moments=None))
    with pytest.raises(ValueError, match="prior to be one of nothing, marginals"):
        DisclosedThresholds(prior="records")  # type: ignore[arg-type]
    with pytest.raises(ViewError, match="low has shape"):
        replace(view, low=np.zeros((4, 3)))
