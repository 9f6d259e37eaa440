"""What an active party sees of a trained model under a defence."""

import numpy as np
import pytest

from studies.defences.against_predictions import HELD_OUT, Lab
from studies.defences.cases import UNDEFENDED, Trial
from studies.simulation.linear_models import train
from vfl.arrays import FloatArray
from vfl.channels import Distorted, Rounding
from vfl.learning import confidence_scores


def lab_of(seed: int) -> Lab:
    model = train("breast_cancer", None, "lbfgs", seed, held_out=HELD_OUT)
    return Lab(model, passive=15, records=30, auxiliary=50, seed=seed)


@pytest.fixture(scope="module")
def lab() -> Lab:
    return lab_of(1)


def rows_in(rows: FloatArray, others: FloatArray) -> int:
    known = {row.tobytes() for row in np.ascontiguousarray(others)}
    return sum(row.tobytes() in known for row in np.ascontiguousarray(rows))


def test_auxiliary_records_are_neither_attacked_nor_trained_on(lab: Lab) -> None:
    view = lab.plain.view
    assert view.auxiliary is not None
    assert view.moments is not None
    model = train("breast_cancer", None, "lbfgs", 1, held_out=HELD_OUT)
    known = np.hstack([view.auxiliary.features_active, view.auxiliary.features_passive])
    assert len(known) == 50
    assert rows_in(known, model.features) == 50
    assert rows_in(known, model.features_train) == 0
    assert rows_in(known, np.hstack([view.features_active, lab.truth])) == 0
    np.testing.assert_array_equal(view.auxiliary.labels, model.labels[30:80])
    # Moments: of all rows but those that are judged.
    others = np.vstack([model.features_train, model.features[30:]])[:, 15:]
    np.testing.assert_allclose(view.moments.mean, others.mean(axis=0))
    assert view.moments.covariance is not None
    np.testing.assert_allclose(np.diagonal(view.moments.covariance), others.var(axis=0))


def test_a_view_carries_the_channel_but_no_secret() -> None:
    rounded, turned = Trial("score_rounding", {"decimals": 1}), Trial("feature_transform")
    labs = [lab_of(seed) for seed in (1, 2)]
    views = [[lab.defended(trial).view for trial in (rounded, turned)] for lab in labs]
    assert [view.channel for view, _ in views] == [(Rounding(1),)] * 2
    disclosures = [view.disclosure for _, view in views]
    assert disclosures[0] == disclosures[1] == Distorted("orthonormal", 0.0)


def test_scores_pass_the_defence_and_parameters_are_disclosed_as_it_says(lab: Lab) -> None:
    plain, rounded = lab.plain, lab.defended(Trial("score_rounding"))
    np.testing.assert_array_equal(rounded.scores, np.round(plain.scores, 2))
    np.testing.assert_array_equal(rounded.view.auxiliary.scores, rounded.scores[30:80])  # type: ignore[union-attr]
    negated = lab.defended(Trial("feature_transform", {"kind": "negate"}))
    np.testing.assert_array_equal(negated.view.weights_passive, -np.asarray(plain.view.weights_passive))
    np.testing.assert_array_equal(negated.scores, plain.scores)
    assert lab.quality(negated)["kl"] == 0
    assert lab.quality(negated)["interpretability"] > 0
    assert lab.defended(UNDEFENDED) is plain


def test_features_that_are_trained_in_the_negative_belong_to_what_is_disclosed(lab: Lab) -> None:
    """The view's equations hold for 1 - x, and the truth stays x."""
    view = lab.defended(Trial("feature_transform", {"kind": "negate", "at": "training"})).view
    logits = view.features_active @ np.asarray(view.weights_active).T + np.asarray(view.bias)
    logits += (1 - lab.truth) @ np.asarray(view.weights_passive).T
    np.testing.assert_allclose(confidence_scores(logits), np.asarray(view.scores), atol=1e-9)


def test_the_coordinator_answers_another_share(lab: Lab) -> None:
    plain = lab.plain
    still = np.zeros_like(np.asarray(plain.view.scores))
    np.testing.assert_array_equal(plain.ask(still), plain.view.scores)
    shift = np.tile([0.0, 3.0], (len(still), 1))
    raised = np.exp(shift) * np.asarray(plain.view.scores)
    np.testing.assert_allclose(plain.ask(shift), raised / raised.sum(axis=1, keepdims=True), atol=1e-9)
