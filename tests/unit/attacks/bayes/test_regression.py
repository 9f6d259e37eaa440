"""Ridge regressions mixed by their leave-one-out errors: the closed form, what they find, what tells nothing."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from attacks.bayes import records
from attacks.bayes.records import predict


def test_leave_one_out_errors_are_those_of_leaving_one_out() -> None:
    rng = np.random.default_rng(0)
    known, targets = rng.random((12, 3)), rng.random((12, 2))
    centred, mean = known - known.mean(axis=0), targets.mean(axis=0)
    eigenvalues, basis = np.linalg.eigh(centred.T @ centred / 12)
    seen = centred @ basis
    ridge = records._Ridge(seen, seen, eigenvalues, targets - mean, seen.T @ (targets - mean) / 12)
    penalty = 0.3
    strength = 12 * penalty * eigenvalues.mean()
    expected = np.empty_like(targets)
    for out in range(12):
        rest = np.arange(12) != out
        expected[out] = targets[out] - Ridge(alpha=strength).fit(known[rest], targets[rest]).predict(known[[out]])[0]
    np.testing.assert_allclose(ridge.residuals(penalty), expected, atol=1e-12)


def test_a_linear_relation_is_found() -> None:
    rng = np.random.default_rng(1)
    known, asked, slope = rng.random((40, 5)), rng.random((30, 5)), rng.standard_normal((5, 3))
    found = predict(known, known @ slope + 0.2, asked)
    np.testing.assert_allclose(found.values, asked @ slope + 0.2, atol=2e-3)
    np.testing.assert_allclose(found.residuals, 0, atol=1e-2)


def test_a_bend_is_found_by_a_kernel() -> None:
    """(x - 1/2)^2 has no linear part."""
    known, asked = np.linspace(0, 1, 60)[:, None], np.linspace(0.05, 0.95, 30)[:, None]
    found = predict(known, (known - 0.5) ** 2, asked)
    np.testing.assert_allclose(found.values, (asked - 0.5) ** 2, atol=5e-3)


def test_labels_that_tell_all_are_used_and_labels_that_tell_nothing_hurt_little() -> None:
    rng = np.random.default_rng(2)
    known, asked = rng.random((60, 2)), rng.random((200, 2))
    classes, others = rng.integers(0, 3, 60), rng.integers(0, 3, 200)
    levels = np.array([0.1, 0.5, 0.9])
    labels = (np.eye(3)[classes], np.eye(3)[others])
    told = predict(known, levels[classes][:, None], asked, labels)
    np.testing.assert_allclose(told.values[:, 0], levels[others], atol=0.02)
    target = known.sum(axis=1, keepdims=True)
    misled = predict(known, target, asked, labels).values - asked.sum(axis=1, keepdims=True)
    assert (misled**2).mean() < 1e-3 * target.var()


def test_noise_is_predicted_by_its_mean() -> None:
    """An infinite penalty is among the regressions: what cannot be predicted costs little more than the mean does."""
    rng = np.random.default_rng(3)
    known, targets, asked, truth = (
        rng.random((50, 20)),
        rng.random((50, 4)),
        rng.random((500, 20)),
        rng.random((500, 4)),
    )
    error = ((predict(known, targets, asked).values - truth) ** 2).mean()
    assert error < 1.05 * ((targets.mean(axis=0) - truth) ** 2).mean()


@pytest.mark.parametrize(("t", "p"), [(1, 3), (2, 3), (3, 40), (5, 1), (4, 0)])
@pytest.mark.parametrize("constant", [False, True])
def test_few_records_and_constant_columns_give_numbers(t: int, p: int, constant: bool) -> None:
    rng = np.random.default_rng(4)
    known, asked = rng.random((t, p)), rng.random((6, p))
    targets = rng.random((t, 2))
    targets[:, 0] = 0.25
    if constant:
        known[:] = 0.5
    labels = (np.eye(2)[np.zeros(t, dtype=int)], np.eye(2)[np.zeros(6, dtype=int)])
    for given in (None, labels):
        found = predict(known, targets, asked, given)
        assert found.values.shape == (6, 2)
        assert np.isfinite(found.values).all()
        assert np.isfinite(found.residuals).all()
        np.testing.assert_allclose(found.values[:, 0], 0.25, atol=1e-9)


def test_more_records_than_landmarks_keep_memory_and_accuracy(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    known, asked = rng.random((200, 2)), rng.random((100, 2))

    def truth(rows: np.ndarray) -> np.ndarray:
        bend: np.ndarray = np.sin(6 * rows.sum(axis=1, keepdims=True))
        return bend

    exact = predict(known, truth(known), asked)
    monkeypatch.setattr(records, "_LANDMARKS", 60)
    near = predict(known, truth(known), asked)
    np.testing.assert_allclose(near.values, truth(asked), atol=0.05)
    np.testing.assert_allclose(exact.values, truth(asked), atol=0.05)
