"""The default plan: silent on five public tables at every party, the same wherever it is worked out, and as given."""

import os
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ciphers.channels import Exposure, exposure
from services.ciphers.default_plan import with_open_terms
from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.settings import settings_of
from services.party.consent import warnings_of
from services.party.features import load_party_data
from services.protocols.hu.guard import channels_of, guard
from tests.harness.agreements import agreed
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import ColumnWidths
from vfl.data import DATASETS, common_order, encode_labels, rows_of
from vfl.learning import (
    FewSteps,
    GradientDescent,
    VerticalData,
    confidence_scores,
    initial_weights,
    smallest_batch,
    split_rows,
    train_centrally,
)
from vfl.learning.linear.regression import LinearRegression

# Read here, since tests run without the settings of the shell.
RAW_DATA = os.environ.get("PLUMBLINE_DATA_DIR")


class Split(NamedTuple):
    """Counts of a data set's default split, and the batches that follow from them.

    Attributes:
        aligned: records that both parties have, 2 % missing at each.
        features: of the active party with its bias, and of the passive one, by their widths.
        classes: of the labels.
        epochs: by default.
        batch_size: by default.
        layout: rows per ciphertext and columns per answer.
    """

    aligned: int
    features: tuple[ColumnWidths, ColumnWidths]
    classes: int
    epochs: int
    batch_size: int
    layout: tuple[int, int]


# Issue 11 names these: a change that makes the guard warn of any of them by default is a defect, and so is one that
# makes the guard count less.
SPLITS = {
    "breast_cancer": Split(547, (ColumnWidths(1, 0, 15), ColumnWidths(0, 0, 15)), 2, 7, 383, (1, 16)),
    "credit": Split(28_806, (ColumnWidths(2, 9, 2), ColumnWidths(0, 0, 11)), 2, 8, 20_164, (14, 1)),
    "bank": Split(39_556, (ColumnWidths(2, 1, 8), ColumnWidths(0, 4, 5)), 2, 8, 27_689, (14, 1)),
    "adult": Split(46_912, (ColumnWidths(1, 6, 1), ColumnWidths(1, 4, 2)), 2, 8, 32_839, (14, 1)),
    "satellite": Split(6_179, (ColumnWidths(1, 18, 0), ColumnWidths(0, 18, 0)), 6, 8, 4325, (1, 5)),
}


def described(split: Split) -> tuple[PartyDescription, ...]:
    names = ("active", "passive")
    truncates = settings_of({}).truncate_answers
    return tuple(
        PartyDescription(name, one.total, 0, False, split.aligned, truncates, (), one.binary, one.byte)
        for name, one in zip(names, split.features, strict=True)
    )


@pytest.mark.parametrize("name", SPLITS)
def test_the_default_plan_is_silent_on_the_table_at_both_parties(name: str) -> None:
    split = SPLITS[name]
    agreement = with_open_terms(Agreement("5e55104e" * 4, settings_of({}).plan(), split.classes, described(split)))
    assert (agreement.plan.epochs, agreement.plan.batch_size) == (split.epochs, split.batch_size)
    assert warnings_of(agreement, insecure_transport=False) == []
    for party in ("active", "passive"):
        channels = channels_of(agreement, party)
        assert len(channels) == 1
        assert guard(agreement, channels, "refuse") == []
    layout = CipherFormats(agreement).layout
    assert layout is not None
    assert (layout.rows_per_ciphertext, layout.columns_per_answer) == split.layout


@pytest.mark.parametrize("name", SPLITS)
def test_the_counts_are_those_of_the_data_set(name: str) -> None:
    split = SPLITS[name]
    if DATASETS[name].files and RAW_DATA is None:
        pytest.skip("set PLUMBLINE_DATA_DIR to the directory of the raw data sets")
    settings: dict[str, Any] = {"data": name, "data_dir": RAW_DATA or "data"}
    parties = [
        load_party_data(settings_of({**settings, "share": f"{number}/2"}), with_bias=number == 1) for number in (1, 2)
    ]
    common = common_order(set(parties[0].ids) & set(parties[1].ids))
    found = tuple(
        party.aligned(rows_of(party.ids, common), TrainingPlan()).describe(role, truncates_answers=True)
        for role, party in zip(("active", "passive"), parties, strict=True)
    )
    assert found == described(split)
    assert DATASETS[name].classes == split.classes


class Session(NamedTuple):
    """Two parties' tables in the common order, and the terms of a session about them."""

    blocks: tuple[FloatArray, FloatArray]
    labels: IntArray
    agreement: Agreement


def loaded(name: str) -> Session:
    """A registered data set that two parties share, under the default plan."""
    parties = [
        load_party_data(settings_of({"data": name, "share": f"{number}/2"}), with_bias=number == 1) for number in (1, 2)
    ]
    common = common_order(set(parties[0].ids) & set(parties[1].ids))
    active, passive = aligned = [party.aligned(rows_of(party.ids, common), TrainingPlan()) for party in parties]
    assert parties[0].labels is not None
    labels, classes = encode_labels(parties[0].labels)
    parts = tuple(
        one.describe(role, truncates_answers=True) for one, role in zip(aligned, ("active", "passive"), strict=True)
    )
    agreement = with_open_terms(Agreement(name, TrainingPlan(), len(classes), parts))
    return Session((active.features, passive.features), labels[active.rows], agreement)


def accuracy(session: Session, seed: int) -> float:
    """The share of test records that the model gets right, trained in float64 with one public seed."""
    plan, columns = replace(session.agreement.plan, seed=seed), session.agreement.residual_columns
    generator = np.random.default_rng(100 + seed)
    split = split_rows(
        len(session.labels), validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction, seed=seed
    )
    total, start = session.agreement.total_features, plan.learner_options["initialisation"]
    weights = train_centrally(
        VerticalData(list(session.blocks), session.labels, classes=session.agreement.classes),
        [
            initial_weights(start, block.shape[1], columns, total_features=total, generator=generator)
            for block in session.blocks
        ],
        GradientDescent(
            plan.schedule(split.train),
            epochs=plan.epochs,
            learning_rate=plan.learner_options["learning_rate"],
        ),
    )
    logits = sum(block[split.test] @ own for block, own in zip(session.blocks, weights, strict=True))
    return float((confidence_scores(np.asarray(logits)).argmax(axis=1) == session.labels[split.test]).mean())


def test_the_model_of_the_demo_learns_as_well_as_in_batches_of_64() -> None:
    """Decision 0009 has all five tables."""
    now = loaded("breast_cancer")
    before = now._replace(agreement=replace(now.agreement, plan=TrainingPlan(batch_size=64, epochs=40)))
    right = {
        one.agreement.plan.batch_size: np.mean([accuracy(one, seed) for seed in range(1, 21)]) for one in (before, now)
    }
    assert set(right) == {64, 128}
    assert right[128] > right[64] - 0.01
    assert right[128] > 0.93


# -- the rule for a learner that says how few steps train it ----------------------------------------------------------


def of_few_steps(rows: int, features: tuple[int, ...] = (16, 15), **terms: Any) -> Agreement:
    """A session of the settings' own plan, with so many training records."""
    plan = settings_of(terms).plan().changed(validation_fraction=0.0, test_fraction=0.0)
    names = ("active", *(f"passive-{number}" for number in range(1, len(features))))
    return with_open_terms(agreed(plan, rows=rows, features=features, truncating=names))


@pytest.mark.parametrize(("parties", "whole", "parted"), [(2, 8, 2), (3, 12, 4), (4, 16, 6)])
def test_small_tables_train_in_whole_batches_and_large_ones_in_four(parties: int, whole: int, parted: int) -> None:
    features = (16, *[15] * (parties - 1))
    small, large = of_few_steps(65_535, features), of_few_steps(65_536, features)
    assert (small.plan.epochs, small.plan.batch_size) == (whole, 65_535)
    assert (large.plan.epochs, large.plan.batch_size) == (parted, 16_384)


@given(st.integers(2, 30_000), st.lists(st.integers(1, 40), min_size=2, max_size=4))
def test_of_whole_batches_there_are_no_more_than_the_guard_is_silent_about_and_five_at_least(
    rows: int, features: list[int]
) -> None:
    found = of_few_steps(rows, tuple(features))
    exposed = exposure(found, CipherFormats(found).layout)
    assert found.plan.batch_size == rows
    assert 5 <= found.plan.epochs <= 4 * len(features)
    assert not exposed.settled or found.plan.epochs == 5 or exposed.telling
    if found.plan.epochs < 4 * len(features):
        longer = replace(found, plan=replace(found.plan, epochs=found.plan.epochs + 1))
        assert exposure(longer, CipherFormats(longer).layout).settled


def test_what_is_given_stays_and_the_rest_follows() -> None:
    assert of_few_steps(400, epochs=3).plan.batch_size == 400
    assert of_few_steps(400, epochs=3).plan.epochs == 3
    assert [of_few_steps(400, batch_size=size).plan.epochs for size in (400, 200, 100, 20)] == [7, 4, 2, 2]


def test_on_shared_weights_all_training_records_are_in_every_step_however_many() -> None:
    for rows in (400, 200_000):
        plan = of_few_steps(rows, protocol="shared").plan
        assert (plan.epochs, plan.batch_size) == (16, rows)


def test_a_learner_that_needs_more_than_it_wants_has_what_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    few = FewSteps(batches=1, whole=3, least=5, parted=1)
    monkeypatch.setattr(LinearRegression, "few_steps", lambda *_: few)
    assert of_few_steps(400).plan.epochs == 3


def test_plain_steps_and_networks_have_sixty_epochs_and_no_plan_is_left_open() -> None:
    assert of_few_steps(400, steps="plain").plan.epochs == 60
    assert of_few_steps(400, learner="network").plan.epochs == 60
    assert of_few_steps(400, defences=("dp_noise",)).plan.epochs == 60
    assert of_few_steps(400, defences=("dp_noise",)).plan.learner_options["steps"] == "plain"


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, "own_moments"),
        ({"l2": 0.1, "batch_size": 64}, "own_moments"),
        ({"defences": ("dp_noise",)}, "plain"),
        ({"protocol": "shared"}, "own_moments"),
        ({"protocol": "shared", "batch_size": 64}, "plain"),
        ({"protocol": "shared", "l2": 0.1}, "plain"),
    ],
)
def test_steps_are_by_own_moments_where_nothing_stands_against_it(settings: dict[str, Any], steps: str) -> None:
    assert settings_of(settings).plan().terms["steps"] == steps


# -- the rule for all others -------------------------------------------------------------------------------------------


def sized(rows: int, **agreement: Any) -> Agreement:
    """A session with so many aligned records, all of them for training, whose plan leaves the batch size open."""
    plan = TrainingPlan(validation_fraction=0.0, test_fraction=0.0)
    return with_open_terms(agreed(plan, rows=rows, **{"truncating": ("active", "passive"), **agreement}))


def steps_of(agreement: Agreement) -> int:
    return -(-agreement.training_rows // agreement.plan.batch_size)


def test_a_batch_size_that_was_given_stays_as_it_was_given() -> None:
    agreement = agreed(TrainingPlan(batch_size=7))
    assert with_open_terms(agreement) is agreement


def test_an_epoch_has_at_most_64_steps_of_about_64_records_or_more_or_one() -> None:
    narrow = {"features": (2, 1)}
    assert [(one.plan.batch_size, steps_of(one)) for one in (sized(rows, **narrow) for rows in (3, 64, 65, 640))] == [
        (3, 1),
        (64, 1),
        (33, 2),
        (64, 10),
    ]
    assert [steps_of(sized(rows, **narrow)) for rows in (4096, 4097, 10**6)] == [64, 64, 64]


@given(st.integers(1, 30_000), st.integers(1, 40), st.integers(1, 40), st.integers(2, 6), st.booleans())
def test_no_other_number_of_steps_exposes_less_and_no_larger_one_as_little(
    rows: int, active: int, passive: int, classes: int, truncates: bool
) -> None:
    truncating = ("active", "passive") if truncates else ()
    found = sized(rows, features=(active, passive), classes=classes, truncating=truncating)

    def exposed(steps: int) -> Exposure:
        other = replace(found, plan=replace(found.plan, batch_size=-(-rows // steps)))
        return exposure(other, CipherFormats(other).layout)

    best, steps = exposure(found, CipherFormats(found).layout), steps_of(found)
    assert smallest_batch(rows, found.plan.batch_size) >= min(rows, 32)
    assert steps <= 64
    assert best <= exposed(1)
    for other in {steps + 1, 2 * steps, 64}:
        if steps < other <= min(64, -(-rows // 64)):
            assert exposed(other) > best


def test_the_cipher_changes_no_batch_since_both_train_the_same_model() -> None:
    plan = TrainingPlan()
    batches = {
        with_open_terms(agreed(replace(plan, cipher=cipher), truncating=("active", "passive"))).plan.batch_size
        for cipher in ("plain", "paillier")
    }
    assert batches == {140}


def test_neither_what_the_session_is_called_nor_the_order_of_passive_parties_changes_the_batch() -> None:
    agreement = agreed(TrainingPlan(), features=(16, 9, 30), truncating=("active", "passive-1", "passive-2"))
    active, first, second = agreement.parties
    others = replace(agreement, session_id="another", parties=(active, second, first))
    assert with_open_terms(others).plan == with_open_terms(agreement).plan


def test_where_packing_is_impossible_there_is_a_batch_all_the_same() -> None:
    """Forty classes don't fit a plaintext: the party that encrypts says so, and a session without a cipher trains."""
    assert sized(1000, classes=40).plan.batch_size == 63


def test_a_table_too_small_for_any_batch_trains_on_what_exposes_least() -> None:
    """Of wine 121 rows: labels are told whatever the batch, but nothing can be solved for in batches of 60 and 61."""
    small = sized(121, features=(8, 6), classes=3)
    assert exposure(small, CipherFormats(small).layout) == Exposure(0, 1, 0, 0)
    assert small.plan.batch_size == 61
