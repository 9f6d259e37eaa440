"""Training under encryption is training: the same weights as plain float64 on the same batches (issue: 1e-6)."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.metrics import roc_auc_score

from services.ciphers.default_plan import with_open_terms
from services.ciphers.formats import CipherFormats
from services.common.errors import OutOfOrder
from services.common.settings import settings_of
from tests.harness.exchanges import (
    SMALL_PLAN,
    Problem,
    largest_difference,
    problem_of,
    random_problem,
    run_together,
    train_encrypted,
    train_plainly,
    wired,
)
from vfl.data import GriddedFeatures
from vfl.learning import split_rows

PLAN = SMALL_PLAN.changed(l2=0.01, initialisation="xavier")


def wine(parties: int) -> Problem:
    data = load_wine()
    return problem_of(data.data[::3], data.target[::3].astype(np.int64), parties)


def breast_cancer(parties: int) -> Problem:
    data = load_breast_cancer()
    return problem_of(data.data[::2], data.target[::2].astype(np.int64), parties)


def long_table(parties: int) -> Problem:
    """Few columns and many rows: there are silent layouts of several rows per ciphertext."""
    return random_problem(rows=700, columns=5, parties=parties)


@pytest.mark.parametrize("initialisation", ["zero", "xavier"])
@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("parties", [2, 3])
def test_binary_encrypted_training_equals_plain_training(parties: int, packing: bool, initialisation: str) -> None:
    problem = random_problem(parties=parties)
    plan = PLAN.changed(packing=packing, initialisation=initialisation)
    assert largest_difference(train_encrypted(problem, plan), train_plainly(problem, plan)) <= 1e-6


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("parties", [2, 3])
def test_multiclass_encrypted_training_equals_plain_training(parties: int, packing: bool) -> None:
    problem = wine(parties)
    plan = replace(PLAN, packing=packing)
    assert largest_difference(train_encrypted(problem, plan), train_plainly(problem, plan)) <= 1e-6


@pytest.mark.parametrize("truncating", [True, False], ids=["truncated", "whole"])
@pytest.mark.parametrize("parties", [2, 3])
@pytest.mark.parametrize("name", ["breast_cancer", "wine", "random"])
def test_training_with_the_default_batch_and_the_layout_that_goes_with_it_equals_plain_training(
    name: str, parties: int, truncating: bool
) -> None:
    """Whatever the layout: one row per ciphertext, several, or as many columns as tell nothing."""
    problem = {"breast_cancer": breast_cancer, "wine": wine, "random": long_table}[name](parties)
    agreement = problem.agreement(replace(PLAN, batch_size=0, key_bits=1024, epochs=2), truncating)
    plan = agreement.plan
    assert plan.batch_size > 0
    encrypted = train_encrypted(problem, plan, truncating=truncating)
    assert largest_difference(encrypted, train_plainly(problem, plan)) <= 1e-6


def test_the_layouts_of_these_are_of_every_kind() -> None:
    layouts = []
    for problem, truncating in ((breast_cancer(2), True), (long_table(2), True), (long_table(2), False)):
        layout = CipherFormats(problem.agreement(replace(PLAN, batch_size=0, key_bits=1024), truncating)).layout
        assert layout is not None
        layouts.append((layout.rows_per_ciphertext, layout.columns_per_answer))
    assert layouts == [(1, 8), (3, 4), (3, 4)]


@pytest.mark.parametrize("batch_size", [1000, 9], ids=["full", "batches"])
@pytest.mark.parametrize(("classes", "parties"), [(2, 2), (3, 2), (2, 3), (2, 4)])
def test_encrypted_steps_by_own_moments_equal_plain_ones(classes: int, parties: int, batch_size: int) -> None:
    """On columns that are constant, there twice, and more than one of each party's."""
    problem = random_problem(rows=40, columns=8, parties=parties, classes=classes)
    blocks = {
        name: np.hstack([np.ones((40, 1)), block[:, :1], block[:, :1] * 0, block])
        for name, block in problem.blocks.items()
    }
    problem = replace(problem, blocks=blocks)
    trained = problem.agreement(PLAN.changed(steps="own_moments")).training_rows
    plan = PLAN.changed(steps="own_moments", epochs=4, batch_size=min(batch_size, trained))
    (active, *passive), (whole, *others) = train_encrypted(problem, plan), train_plainly(problem, plan)
    # Where training stands the label party's bias is what it began with; the model's is the intercept.
    assert largest_difference([active[:-1], *passive], [whole[:-1], *others]) <= 1e-6


@pytest.mark.parametrize("kind", ["five rows", "more columns than rows", "all constant", "one class", "ends of ranges"])
def test_the_default_plan_of_an_awkward_table_is_the_plain_result(kind: str) -> None:
    """As a session fixes it: no message leaves the agreed range, and weights are those of float64."""
    rows = {"five rows": 5, "more columns than rows": 9}.get(kind, 40)
    problem = random_problem(rows=rows, columns=24)
    if kind == "all constant":
        problem = replace(problem, blocks={name: np.ones_like(one) for name, one in problem.blocks.items()})
    elif kind == "one class":
        problem = replace(problem, labels=np.zeros(rows, dtype=np.int64))
    elif kind == "ends of ranges":
        problem = replace(problem, blocks={name: np.sign(one - 0.5) for name, one in problem.blocks.items()})
    plan = with_open_terms(problem.agreement(settings_of({"cipher": "plain"}).plan())).plan
    (active, *passive), (whole, *others) = train_encrypted(problem, plan), train_plainly(problem, plan)
    assert all(np.isfinite(block).all() for block in [active, *passive])
    assert largest_difference([active[:-1], *passive], [whole[:-1], *others]) <= 1e-6


@pytest.mark.thorough
def test_the_default_plan_of_a_wide_table_of_independent_numbers_is_at_the_optimum() -> None:
    """100,000 rows of 30 and 300 columns: of plain steps at the default rate, the first epoch left the agreed range."""
    generator = np.random.default_rng(0)
    table = generator.normal(size=(100_000, 330))
    logits = table @ generator.normal(size=330) / 8
    labels = (generator.uniform(size=len(table)) < 1 / (1 + np.exp(-logits))).astype(np.int64)
    table = (table - table.min(axis=0)) / np.ptp(table, axis=0)
    blocks = {"active": np.column_stack([table[:, :30], np.ones(len(table))]), "passive": table[:, 30:]}
    blocks = {name: GriddedFeatures.of(block).values for name, block in blocks.items()}
    problem = Problem(blocks, labels, 2)
    plan = with_open_terms(problem.agreement(settings_of({"cipher": "plain"}).plan())).plan
    with wired(problem, plan, timeout=600) as trainings:
        (active, passive) = run_together(trainings, plan.epochs)
    whole = train_plainly(problem, plan)
    # The intercept isn't among a step's weights.
    assert largest_difference([active[:-1], passive], [whole[0][:-1], whole[1]]) <= 1e-6
    split = split_rows(
        len(table), validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction, seed=plan.seed
    )
    features = np.hstack(list(blocks.values()))
    least = np.linalg.lstsq(features[split.train], 4.0 * labels[split.train] - 2, rcond=None)[0]
    areas = [
        roc_auc_score(labels[split.test], features[split.test] @ one)
        for one in (np.concatenate([active, passive])[:, 0], least)
    ]
    assert areas[0] > areas[1] - 0.002


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("parties", [2, 3])
def test_unencrypted_training_differs_from_central_training_by_rounding_only(parties: int, classes: int) -> None:
    problem = random_problem(parties=parties, classes=classes)
    plan = replace(PLAN, cipher="plain")
    assert largest_difference(train_encrypted(problem, plan), train_plainly(problem, plan)) <= 1e-9


def test_signed_features_train_alike() -> None:
    problem = random_problem()
    problem = replace(problem, blocks={name: block * 2 - 0.5 for name, block in problem.blocks.items()})
    assert min(block.min() for block in problem.blocks.values()) < 0
    assert largest_difference(train_encrypted(problem, PLAN), train_plainly(problem, PLAN)) <= 1e-6


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
def test_a_short_last_batch_changes_nothing(packing: bool) -> None:
    problem = random_problem(rows=37)
    plan = replace(PLAN, packing=packing, batch_size=10)
    with wired(problem, plan) as trainings:
        schedule = trainings["active"].schedule
        assert len(schedule.train_rows) % 10, "this test needs a remainder"
        assert largest_difference(run_together(trainings, plan.epochs), train_plainly(problem, plan)) <= 1e-6


@pytest.mark.parametrize("packing", [True, False], ids=["packed", "unpacked"])
def test_a_repeated_run_gives_the_same_bits_although_keys_and_masks_are_new(packing: bool) -> None:
    problem, plan = random_problem(parties=3), replace(PLAN, packing=packing)
    first, second = train_encrypted(problem, plan), train_encrypted(problem, plan)
    for one, other in zip(first, second, strict=True):
        assert one.tobytes() == other.tobytes()


def test_another_public_seed_gives_other_weights() -> None:
    problem = random_problem()
    plan = replace(PLAN, cipher="plain")
    assert largest_difference(train_encrypted(problem, plan), train_encrypted(problem, replace(plan, seed=2))) > 1e-3


@pytest.mark.parametrize("cipher", ["paillier", "plain"])
def test_l2_spares_the_bias_of_the_active_party_and_nothing_else(cipher: str) -> None:
    """With features of zero, nothing but the penalty moves weights: (1 - rate * l2) per step."""
    problem = random_problem(rows=30)
    problem = replace(problem, blocks={name: np.zeros_like(block) for name, block in problem.blocks.items()})
    plan = PLAN.changed(cipher=cipher, epochs=1, batch_size=5, l2=0.1)
    with wired(problem, plan) as trainings:
        before = [training.half.weights for training in trainings.values()]
        after = run_together(trainings, 1)
        shrunk = (1 - plan.learner_options["learning_rate"] * plan.learner_options["l2"]) ** trainings[
            "active"
        ].schedule.steps_per_epoch
    np.testing.assert_allclose(after[0][:-1], before[0][:-1] * shrunk, atol=1e-9)
    np.testing.assert_allclose(after[0][-1], before[0][-1], atol=1e-9)
    np.testing.assert_allclose(after[1], before[1] * shrunk, atol=1e-9)


def test_keeping_an_earlier_epoch_gives_the_weights_that_it_ended_with() -> None:
    problem, plan = random_problem(), replace(PLAN, cipher="plain")
    with wired(problem, plan) as trainings:
        run_together(trainings, plan.epochs)
        for training in trainings.values():
            training.keep_epoch(1)
        kept = [training.model.part.arrays()["weights"] for training in trainings.values()]
    assert largest_difference(kept, train_plainly(problem, replace(plan, epochs=2))) <= 1e-9


def test_training_ends_once_and_its_remarks_are_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where weights are opened at the end, a job asks for it twice."""
    monkeypatch.setattr("services.party.party_training.remarks_of", lambda _: ["a promise that wasn't kept"])
    with wired(random_problem(), replace(PLAN, cipher="plain")) as trainings:
        run_together(trainings, 2)
        for _ in range(2):
            trainings["active"].keep_epoch(0)
        with pytest.raises(OutOfOrder, match="Training has ended with epoch 0"):
            trainings["active"].keep_epoch(1)
    assert caplog.text.count("a promise that wasn't kept") == 1
