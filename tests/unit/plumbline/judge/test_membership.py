"""Membership is found of a model that learned its records by heart, and of no other; a control stays at chance."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, norm
from sklearn.metrics import roc_auc_score, roc_curve

from plumbline.judge.measures import exact_share
from plumbline.judge.membership import (
    FALSE_POSITIVES,
    MembershipFinding,
    influences,
    likelihood_ratios,
    membership_of,
    own_log_odds,
    read_membership,
)
from plumbline.judge.summary import read_summary
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.run_folder import RunFolder
from services.common.run_records import CalibrationRecord, DeliveredScores, EpochRecord, PartyFeatures, PartyRecord
from vfl.arrays import FloatArray, IntArray
from vfl.learning import GradientDescent, LinearPart, VerticalData, confidence_scores, train_centrally
from vfl.learning.calibration import Calibration
from vfl.learning.linear.regression import LinearRegression

RECORDS, EPOCHS = 600, 60


def one_hot(generator: np.random.Generator, columns: int, values: int) -> FloatArray:
    return np.hstack([np.eye(values)[generator.integers(0, values, RECORDS)] for _ in range(columns)])


def written(path: Path, features: FloatArray, labels: IntArray, plan: TrainingPlan, epochs: int) -> RunFolder:
    """A run as parties write it, whose model was trained in the clear on the training rows of its plan."""
    folder, middle = RunFolder(path), features.shape[1] // 2
    blocks = {"active": np.column_stack([features[:, :middle], np.ones(RECORDS)]), "passive": features[:, middle:]}
    classes = int(labels.max()) + 1
    parties = tuple(PartyDescription(name, one.shape[1], 0, False, RECORDS) for name, one in blocks.items())
    agreement = Agreement("5e55104e" * 4, plan, classes, parties)
    split = plan.split(RECORDS)
    starts = [np.zeros((one.shape[1], agreement.residual_columns)) for one in blocks.values()]
    spared = [np.zeros(one.shape[1], dtype=bool) for one in blocks.values()]
    spared[0][-1] = True
    learner = plan.family
    assert isinstance(learner, LinearRegression)
    parts = train_centrally(
        VerticalData(list(blocks.values()), labels, classes),
        starts,
        GradientDescent(
            plan.schedule(split.train),
            epochs,
            learner.rate(len(parties)),
            own_moments=learner.steps == "own_moments",
        ),
        l2=learner.l2,
        unpenalised=spared,
    )
    for (name, own), weights in zip(blocks.items(), parts, strict=True):
        names = np.array([f"{name} {number}" for number in range(own.shape[1])])
        folder.write_features(name, PartyFeatures(own, names, labels if name == "active" else None))
        folder.write_part(name, {"weights": weights}, names)
    products = np.hstack(list(blocks.values())) @ np.vstack(parts)
    scores = confidence_scores(products[split.test])
    folder.write_delivered_scores("active", DeliveredScores(split.test, scores, labels[split.test]))
    trained = tuple(EpochRecord(number, 0.5, 1.0) for number in range(epochs))
    folder.write_record(
        "active",
        PartyRecord(
            agreement=agreement, epochs=trained, kept_epoch=epochs - 1, bytes_by_message={}, peak_memory_bytes=1
        ),
    )
    return folder


def plan_of(epochs: int, **options: Any) -> TrainingPlan:
    learner = {"initialisation": "zero", **options}
    return TrainingPlan(
        batch_size=32, epochs=epochs, validation_fraction=0.1, test_fraction=0.4, learner_options=learner
    )


def measured(folder: RunFolder) -> MembershipFinding:
    return read_membership(folder, read_summary(folder, "run"))


@pytest.fixture(scope="module")
def overfitted(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    generator = np.random.default_rng(1)
    features, labels = one_hot(generator, 20, 15), generator.integers(0, 2, RECORDS)
    return written(tmp_path_factory.mktemp("run"), features, labels, plan_of(EPOCHS, learning_rate=1.0), EPOCHS)


def test_a_model_that_learned_its_records_by_heart_is_found(overfitted: RunFolder) -> None:
    found = measured(overfitted)
    assert found.is_found
    # Of a hundred strangers one is taken for a trained record: that is what finding nothing looks like.
    assert found.attacks[0].found.mean > 5 * FALSE_POSITIVES
    assert found.attacks[0].auc > 0.8
    # Its control is at chance, by an exact interval.
    assert found.control is not None
    hits = round(found.control.found.mean * found.trained)
    assert binomtest(hits, found.trained).proportion_ci().low <= 2 * FALSE_POSITIVES
    assert found.control.p_found > 0.01


def test_the_plain_threshold_is_that_of_scikit_learn_and_the_ratio_does_no_worse(overfitted: RunFolder) -> None:
    found, agreement = measured(overfitted), overfitted.record("active").agreement
    assert agreement is not None
    split = agreement.plan.split(RECORDS)
    features = np.hstack([overfitted.features(name).features for name in ("active", "passive")])
    weights = np.vstack([overfitted.weights(name).weights for name in ("active", "passive")])
    chances, labels = confidence_scores(features @ weights), overfitted.labels()
    rows = np.concatenate([split.train, split.test])
    is_trained, sure = np.arange(len(rows)) < len(split.train), chances[rows, labels[rows]]
    allowed = int(FALSE_POSITIVES * (len(split.test) + 1)) - 1
    taken, right, _ = roc_curve(is_trained, sure, drop_intermediate=False)
    attacks = {one.name: one for one in found.attacks}
    best, plain = attacks["likelihood ratio"], attacks["threshold"]
    assert plain.auc == pytest.approx(roc_auc_score(is_trained, sure))
    assert plain.found.mean == pytest.approx(right[taken <= allowed / len(split.test)].max())
    assert best.auc >= plain.auc
    assert best.found.mean >= plain.found.mean


def test_weights_of_more_features_than_records_tell_every_one_however_regularised(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    features, labels = one_hot(generator, 40, 25), generator.integers(0, 2, RECORDS)
    plan = plan_of(5, learning_rate=0.3, l2=0.3)
    folder = written(tmp_path, features, labels, plan, 5)
    best = measured(folder).attacks[0]
    assert best.name == "influence on weights"
    assert (best.found.mean, best.auc) == (1, 1)
    # As anybody reads it: weights are a sum over the records that were trained on.
    split = plan.split(RECORDS)
    rows = np.concatenate([split.train, split.test])
    own = np.hstack([folder.features(name).features for name in ("active", "passive")])[rows]
    weights = np.vstack([folder.weights(name).weights for name in ("active", "passive")])
    summed = np.linalg.lstsq(own.T, weights[:, 0], rcond=None)[0] * (2 * labels[rows] - 1)
    assert roc_auc_score(np.arange(len(rows)) < len(split.train), summed) > 0.99


def test_influences_are_the_equations_of_who_was_trained_on() -> None:
    generator = np.random.default_rng(4)
    features, labels = generator.normal(size=(12, 20)), generator.integers(0, 2, 12)
    data, trained = VerticalData([features], labels, 2), np.arange(0, 12, 2)
    schedule = plan_of(1).changed(batch_size=6).schedule(trained)
    (weights,) = train_centrally(data, [np.zeros((20, 1))], GradientDescent(schedule, 1, 0.1))
    told = influences(data, weights, np.zeros((20, 1)), GradientDescent(schedule, 1, 0.1), np.zeros((20, 1)))
    assert set(np.argsort(told)[-6:]) == set(trained)


def by_own_moments(epochs: int, batch_size: int, **options: Any) -> TrainingPlan:
    """A plan as settings make it: few steps, here on all 300 training records or on batches of them."""
    learner = {"initialisation": "xavier", "steps": "own_moments", "learning_rate": 0.5, **options}
    return plan_of(epochs, **learner).changed(batch_size=batch_size)


@pytest.mark.parametrize(("classes", "epochs", "batch_size"), [(2, 8, 300), (3, 8, 300), (3, 3, 150)])
def test_steps_by_own_moments_that_learned_records_by_heart_are_found(
    tmp_path: Path, classes: int, epochs: int, batch_size: int
) -> None:
    generator = np.random.default_rng(1)
    features, labels = one_hot(generator, 12, 12), generator.integers(0, classes, RECORDS)
    found = measured(written(tmp_path, features, labels, by_own_moments(epochs, batch_size), epochs))
    assert found.is_found
    attacks = {one.name: one for one in found.attacks}
    assert attacks["likelihood ratio"].auc > attacks["threshold"].auc > 0.6
    assert attacks["influence on weights"].auc > 0.6
    assert found.control is not None
    assert found.control.p_found > 0.01
    assert found.control.p_area > 0.01


@pytest.mark.parametrize("seed", range(3))
def test_a_regularised_model_of_steps_by_own_moments_is_at_the_control(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    features = generator.random((RECORDS, 6))
    labels = (features[:, 0] + 0.3 * generator.normal(size=RECORDS) > 0.5).astype(np.int64)
    found = measured(written(tmp_path, features, labels, by_own_moments(8, 300, l2=0.3).changed(seed=seed), 8))
    assert not found.reason
    assert not found.is_found
    assert not found.is_on_average
    assert abs(found.attacks[0].auc - 0.5) < 0.1


def test_influences_follow_own_moments_whatever_columns_scales_and_means(tmp_path: Path) -> None:
    """Plain steps on such columns would have learned the large ones alone."""
    generator = np.random.default_rng(5)
    features, labels = generator.normal(size=(RECORDS, 80)), generator.integers(0, 2, RECORDS)
    plan, scales = by_own_moments(8, 300, initialisation="zero"), 10.0 ** generator.integers(-2, 3, 80)
    told = [
        {one.name: one.auc for one in measured(written(tmp_path / name, table, labels, plan, 8)).attacks}
        for name, table in {"as they are": features, "scaled": 3 + scales * features}.items()
    ]
    assert told[0]["influence on weights"] > 0.65
    assert told[0]["likelihood ratio"] > 0.65
    assert told[1] == pytest.approx(told[0], abs=1e-3)


@pytest.mark.parametrize(("trained", "others"), [(600, 120), (900, 900)])
def test_the_interval_holds_the_share_at_a_true_hundredth(trained: int, others: int) -> None:
    generator, expected = np.random.default_rng(others), norm.sf(norm.isf(FALSE_POSITIVES) - 1.5)
    is_trained = np.arange(trained + others) < trained
    held = 0
    for _ in range(100):
        scores = generator.normal(size=trained + others) + 1.5 * is_trained
        found = membership_of({"one": scores}, is_trained, generator).attacks[0].found
        assert found.low <= found.mean <= found.high
        held += found.low <= expected <= found.high
    assert held >= 95


@pytest.mark.parametrize("seed", range(3))
def test_a_regularised_model_is_at_the_control(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    features = generator.random((RECORDS, 6))
    labels = (features[:, 0] + 0.3 * generator.normal(size=RECORDS) > 0.5).astype(np.int64)
    plan = plan_of(5, learning_rate=0.3, l2=0.3).changed(seed=seed)
    found = measured(written(tmp_path, features, labels, plan, 5))
    assert not found.reason
    assert not found.is_found
    assert not found.is_on_average
    assert abs(found.attacks[0].auc - 0.5) < 0.1


def test_three_classes_are_told_likewise(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    features, labels = one_hot(generator, 20, 15), generator.integers(0, 3, RECORDS)
    assert measured(written(tmp_path, features, labels, plan_of(40, learning_rate=1.0), 40)).is_found


@pytest.mark.parametrize("classes", [2, 3])
def test_a_slope_hides_no_membership(tmp_path: Path, classes: int) -> None:
    """Who attacks was told it, and takes it off before comparing with reference models, which have none."""
    generator = np.random.default_rng(1)
    features, labels = one_hot(generator, 20, 15), generator.integers(0, classes, RECORDS)
    folder = written(tmp_path, features, labels, plan_of(EPOCHS, learning_rate=1.0), EPOCHS)
    before, record = measured(folder), folder.record("active")
    intercepts = (-0.4, 0.4) if classes == 2 else (0.3, -0.1, -0.2)
    products: Any = 0
    for name, fit in (("active", Calibration(64, intercepts)), ("passive", Calibration(64))):
        part = fit.part_of(LinearPart(folder.weights(name).weights))
        folder.write_part(name, part.arrays(), folder.weights(name).features)
        products = products + part.shares(folder.features(name).features)
    rows = folder.delivered_scores(agreement_of(record)).rows
    folder.write_delivered_scores("active", DeliveredScores(rows, confidence_scores(products[rows]), labels[rows]))
    folder.write_record("active", replace(record, calibration=CalibrationRecord(4.0, intercepts, 0.5)))
    after = measured(folder)
    assert [one.auc for one in after.attacks] == pytest.approx([one.auc for one in before.attacks], abs=1e-6)
    # Reference models have other weights altogether: as they stand, these would be told apart less.
    folder.write_record("active", record)
    assert max(one.auc for one in measured(folder).attacks) < max(one.auc for one in before.attacks) - 0.02


def agreement_of(record: PartyRecord) -> Agreement:
    assert record.agreement is not None
    return record.agreement


def test_chance_calls_one_in_twenty_at_most() -> None:
    generator = np.random.default_rng(0)
    is_trained = np.arange(400) < 250
    called = sum(
        found.is_found or found.is_on_average
        for _ in range(200)
        for found in [
            membership_of({"one": generator.normal(size=400), "two": generator.random(400)}, is_trained, generator)
        ]
    )
    assert binomtest(called, 200, 0.05, alternative="greater").pvalue > 0.01


def test_likelihood_ratios_are_those_of_two_normal_laws() -> None:
    references = np.array([[1.0, 2.0], [3.0, 6.0], [-1.0, 0.0], [1.0, 2.0]])
    is_member = np.array([[True, True], [True, True], [False, False], [False, False]])
    own = np.array([0.5, 3.0])
    # Means 2, 4 of members, 0, 1 of others; pooled spreads of two degrees of freedom.
    inside, outside = np.sqrt((2 + 8) / 2), np.sqrt((2 + 2) / 2)
    expected = norm.logpdf(own, [2, 4], inside) - norm.logpdf(own, [0, 1], outside)
    np.testing.assert_allclose(likelihood_ratios(own, references, is_member), expected)


def test_log_odds_are_those_of_the_own_class() -> None:
    logits = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, -1.0]])
    labels = np.array([2, 1])
    chances = confidence_scores(logits)[[0, 1], labels]
    np.testing.assert_allclose(own_log_odds(logits, labels), np.log(chances / (1 - chances)))


@pytest.mark.parametrize(("hits", "of"), [(0, 40), (3, 40), (40, 40)])
def test_a_share_has_its_exact_interval(hits: int, of: int) -> None:
    expected = binomtest(hits, of).proportion_ci(method="exact")
    share = exact_share(hits, of)
    np.testing.assert_allclose((share.low, share.high), (expected.low, expected.high), atol=1e-12)


def test_what_cannot_be_measured_says_why(overfitted: RunFolder, tmp_path: Path) -> None:
    summary = read_summary(overfitted, "run")
    agreement = summary.agreement

    def reason(**changes: Any) -> str:
        changed = replace(agreement, plan=agreement.plan.changed(**changes))
        return read_membership(overfitted, replace(summary, agreement=changed)).reason

    assert "learner is network" in reason(learner="network")
    assert "stay shared" in reason(protocol="shared", serving="shared")
    assert "100 of each" in reason(test_fraction=0.05)
    assert "too long" in reason(epochs=1_000_000, batches="reshuffled")
    assert "too long" in reason(epochs=1_000, steps="own_moments", learning_rate=0.5)
    gone = read_membership(RunFolder(tmp_path), summary).reason
    assert "lacks weights" in gone
    assert str(tmp_path) not in gone
    # Weights that other scores came from.
    other = RunFolder(tmp_path / "other")
    for name in ("active", "passive"):
        other.write_features(name, overfitted.features(name))
        part = overfitted.weights(name)
        other.write_part(name, {"weights": part.weights + 0.5}, part.features)
    other.write_record("active", overfitted.record("active"))
    other.write_delivered_scores("active", overfitted.delivered_scores(agreement))
    assert "aren't those" in read_membership(other, summary).reason


def test_a_defence_that_reference_models_lack_is_said(overfitted: RunFolder) -> None:
    summary = replace(read_summary(overfitted, "run"), defences={"coordinator": ("a",), "passive": ("dp_noise",)})
    assert read_membership(overfitted, summary).without == ("dp_noise",)
