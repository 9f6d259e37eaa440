"""What complete records tell: numbers, categories, labels, and records that are few, constant or of other tables."""

from dataclasses import replace

import numpy as np
import pytest

import attacks
from attacks.bayes.prior import UNIFORM_VARIANCE
from attacks.bayes.records import from_records


def view_of(seed: int = 0, n: int = 40, t: int = 80) -> tuple[attacks.PredictionView, np.ndarray]:
    """Two own columns; a number, a one-hot group that follows the first, and a constant; labels as the group."""
    rng = np.random.default_rng(seed)
    own = rng.random((t + n, 2))
    classes = np.minimum((3 * own[:, 0]).astype(int), 2)
    passive = np.column_stack([own @ [0.3, 0.5], np.eye(3)[classes], np.full(t + n, 0.25)])
    auxiliary = attacks.AuxiliaryRows(own[:t], passive[:t], np.zeros((t, 0)), classes[:t])
    moments = attacks.PassiveMoments(passive.mean(axis=0), passive.var(axis=0), groups=(np.array([1, 2, 3]),))
    view = attacks.PredictionView(
        features_active=own[t:],
        passive_features=5,
        auxiliary=auxiliary,
        moments=moments,
        record_labels=classes[t:],
    )
    return view, passive[t:]


def test_numbers_groups_and_constants_are_predicted_and_a_group_sums_to_one() -> None:
    view, truth = view_of()
    belief = from_records(view)
    (group,) = belief.categories
    assert group.columns.tolist() == [1, 2, 3]
    np.testing.assert_allclose(belief.gaussian.mean[:, 1:4].sum(axis=1), 1)
    np.testing.assert_allclose(belief.gaussian.mean[:, 0], truth[:, 0], atol=0.02)
    np.testing.assert_allclose(belief.gaussian.mean[:, 4], 0.25)
    assert (belief.gaussian.mean[:, 1:4].argmax(axis=1) == truth[:, 1:4].argmax(axis=1)).mean() > 0.9


def test_labels_tell_more_where_both_sides_have_them() -> None:
    view, truth = view_of()

    def error(given: attacks.PredictionView) -> float:
        return float(((from_records(given, 20).gaussian.mean - truth) ** 2).mean())

    assert error(view) < error(replace(view, record_labels=None))


def test_a_label_that_no_record_has_is_no_reason_to_fail() -> None:
    view, _ = view_of()
    unseen = replace(view, record_labels=np.full(view.n, 7))
    assert np.isfinite(from_records(unseen).gaussian.mean).all()


@pytest.mark.parametrize("t", [1, 2, 3, 5, 11])
def test_few_records_give_a_belief_that_is_never_sure(t: int) -> None:
    view, _ = view_of()
    belief = from_records(view, t)
    assert np.isfinite(belief.gaussian.mean).all()
    assert belief.gaussian.mean.min() >= 0
    assert belief.gaussian.mean.max() <= 1
    assert np.linalg.eigvalsh(belief.gaussian.covariance).min() >= UNIFORM_VARIANCE / t**2 * 0.99


def test_a_single_record_is_believed_of_all_and_no_surer_than_ranges() -> None:
    view, _ = view_of()
    assert view.auxiliary is not None
    belief = from_records(replace(view, moments=None), 1)
    np.testing.assert_allclose(belief.gaussian.mean, np.tile(view.auxiliary.features_passive[0], (view.n, 1)))
    np.testing.assert_allclose(belief.gaussian.covariance, np.eye(5) / 12)


def test_the_covariance_is_of_what_prediction_misses() -> None:
    """Two columns of common noise that own columns don't tell: variance .01, correlation .9."""
    rng = np.random.default_rng(3)
    own, noise = rng.random((400, 2)), rng.standard_normal((400, 2)) @ np.linalg.cholesky([[1, 0.9], [0.9, 1]]).T / 10
    passive = 0.5 + noise
    auxiliary = attacks.AuxiliaryRows(own, passive, np.zeros((400, 0)))
    view = attacks.PredictionView(features_active=own[:5], passive_features=2, auxiliary=auxiliary)
    covariance = from_records(view).gaussian.covariance
    np.testing.assert_allclose(np.diag(covariance), 0.01, rtol=0.2)
    assert covariance[0, 1] / covariance[0, 0] == pytest.approx(0.9, abs=0.05)


def test_records_that_are_missing_or_of_other_tables_are_refused_in_a_sentence() -> None:
    view, _ = view_of()
    with pytest.raises(attacks.ViewError, match="needs auxiliary records"):
        from_records(replace(view, auxiliary=None))
    with pytest.raises(attacks.ViewError, match="2 active and 5 passive columns; the attacked records have 2 and 4"):
        from_records(replace(view, passive_features=4, moments=None))
    assert view.auxiliary is not None
    with pytest.raises(attacks.ViewError, match="as many labels as records"):
        from_records(replace(view, auxiliary=replace(view.auxiliary, labels=np.zeros(3, dtype=np.int64))))
    with pytest.raises(attacks.ViewError, match="moments don't fit the 5 passive columns"):
        from_records(replace(view, moments=attacks.PassiveMoments(np.zeros(3), np.zeros(3))))
