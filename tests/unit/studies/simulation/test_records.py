"""Preparations of a data set, and which rows are trained on."""

import numpy as np

from studies.simulation.records import scaled_features
from tests.harness.hu_run import made_up_records as synthetic


def test_scalings() -> None:
    records = synthetic()
    train = np.arange(90)
    norms = {kind: np.linalg.norm(scaled_features(records, kind, train), axis=1) for kind in ("bounded", "none")}
    assert norms["bounded"].max() < 1.001
    np.testing.assert_allclose(norms["none"], np.linalg.norm(records.features, axis=1), atol=1e-4)
    whole = scaled_features(records, "whole_row_unit_norm", train)
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1.0, atol=1e-3)
    halves = scaled_features(records, "unit_norm", train)
    np.testing.assert_allclose(np.linalg.norm(halves[:, :6], axis=1), 1.0, atol=1e-3)
    np.testing.assert_allclose(np.linalg.norm(halves[:, 6:], axis=1), 1.0, atol=1e-3)
    standard = scaled_features(records, "standardise", train)
    np.testing.assert_allclose(standard[train].std(axis=0), 1.0, atol=1e-3)
    np.testing.assert_array_equal(standard * 2**16, np.rint(standard * 2**16))


def test_rows_are_the_published_ones_or_nine_to_one() -> None:
    train, test = synthetic(train_rows=100).rows_of(3)
    np.testing.assert_array_equal(np.concatenate([train, test]), np.arange(120))
    assert len(train) == 100
    train, test = synthetic().rows_of(3)
    assert len(test) == 12
    assert not np.array_equal(test, synthetic().rows_of(4)[1])
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(120))
