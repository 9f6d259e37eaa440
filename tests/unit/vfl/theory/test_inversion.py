"""Jiang's tau: the paper's own numbers, by hand and by rank."""

import numpy as np
import pytest

from vfl.theory.inversion import auxiliary_threshold


def test_linear_needs_as_many_records_as_features() -> None:
    assert auxiliary_threshold(20, 2) == 20
    assert auxiliary_threshold(36, 6) == 36


def test_linear_threshold_is_the_rank_of_the_equations() -> None:
    """With tau generic records the log ratios determine J W_pas, with one fewer they don't."""
    d, k = 5, 4
    features = np.random.default_rng(0).random((d, d))
    # Unknowns: the d (k-1) entries of J W_pas; each record gives k - 1 equations.
    assert np.linalg.matrix_rank(np.kron(np.eye(k - 1), features)) == d * (k - 1)
    assert np.linalg.matrix_rank(np.kron(np.eye(k - 1), features[:-1])) < d * (k - 1)
    assert auxiliary_threshold(d, k) == d


def test_networks_as_in_jiang_5_3() -> None:
    # Satellite: 36 * 8 + 8 + 8 * 8 + 8 + 8 * 6 + 6 = 422 unknowns over 6; a quarter is "less than 25 records".
    assert auxiliary_threshold(36, 6, (8, 8)) == 71
    # Drive: 48 * 8 + 8 + 72 + 8 * 11 + 11 = 563 over 11.
    assert auxiliary_threshold(48, 11, (8, 8)) == 52


def test_out_of_range() -> None:
    for arguments in ((0, 2), (3, 1), (3, 2, (0,))):
        with pytest.raises(ValueError, match="Expected"):
            auxiliary_threshold(*arguments)
