"""What training gives away of labels is what a passive party can't guess anyway."""

from dataclasses import replace

import numpy as np
import pytest

from attacks import LEVELS
from attacks.training.label_completion import own_classifier
from plumbline.judge.labels import LabelGuesses, rarest_label
from vfl.arrays import IntArray

RNG = np.random.default_rng(4)
# Three of ten in class 1; one column that tells the class but for a little noise, and one that tells nothing.
TRUTH = (RNG.random(1000) < 0.3).astype(np.int64)
TELLING = (TRUTH + RNG.normal(0, 0.3, 1000))[:, None]
MUTE = RNG.normal(size=(1000, 1))
ROWS = np.arange(800)


def parts(found: IntArray, features: np.ndarray) -> list[float]:
    verdicts = LabelGuesses(TRUTH, ROWS, features).verdicts("label_recovery", found)
    assert [one.level for one in verdicts] == list(LEVELS)
    return [one.part.mean if one.part is not None else float("nan") for one in verdicts]


def test_all_labels_found_are_all_given_away() -> None:
    assert parts(TRUTH, MUTE) == [1.0] * 4


def test_no_answer_gives_nothing_away_at_any_level() -> None:
    # What is left open is guessed, and a guess is known anyway.
    verdicts = LabelGuesses(TRUTH, ROWS, MUTE).verdicts("label_recovery", np.full(1000, -1))
    assert not any(one.is_exposed for one in verdicts)
    assert verdicts[0].error == pytest.approx(verdicts[0].e0)


def test_naming_the_most_frequent_class_is_no_attack() -> None:
    nothing, *others = parts(np.zeros(1000, dtype=np.int64), MUTE)
    assert nothing > 0
    assert others == [0.0] * 3


def test_what_an_own_classifier_tells_is_not_the_federations() -> None:
    # Right but for every tenth label: much beside the base rate, nothing beside a classifier that is as good.
    found = np.where(RNG.random(1000) < 0.1, 1 - TRUTH, TRUTH)
    *_, covariance, records = LabelGuesses(TRUTH, ROWS, TELLING).verdicts("x", found)
    assert covariance.is_exposed
    assert not records.is_exposed
    assert records.baseline.startswith("own classifier from")
    # Learned from records that training didn't tell of: 200 are left, so 1,000 aren't there.
    assert "1,000" not in records.baseline


def test_who_knew_some_labels_is_measured_against_a_classifier_of_these_at_every_level() -> None:
    known = np.arange(40)
    rows = np.setdiff1d(ROWS, known)
    verdicts = LabelGuesses(TRUTH, rows, TELLING, known).verdicts("x", TRUTH)
    assert {one.baseline for one in verdicts[:-1]} == {"own classifier from the 40 known labels"}
    classifier = own_classifier().fit(TELLING[known], TRUTH[known])
    assert verdicts[0].e0 == pytest.approx((classifier.predict(TELLING[rows]) != TRUTH[rows]).mean())
    named = classifier.predict(TELLING)
    assert not any(one.is_exposed for one in LabelGuesses(TRUTH, rows, TELLING, known).verdicts("x", named))


def test_half_of_the_labels_is_half_of_what_was_unknown() -> None:
    found = np.where(np.arange(1000) % 2 == 0, TRUTH, -1)
    marginals = parts(found, MUTE)[1]
    assert marginals == pytest.approx(0.5, abs=0.1)


def test_the_rarest_class_shows_what_the_share_of_right_names_hides() -> None:
    # One of a hundred: naming nobody is right for 99 %, and the ten that are meant come first all the same.
    truth = (np.arange(1000) % 100 == 0).astype(np.int64)
    likely = np.where(truth == 1, 0.3, np.linspace(0.0, 0.2, 1000))
    found = rarest_label(np.column_stack([1 - likely, likely]), truth)
    assert found is not None
    assert (found.label, found.share, found.auc, found.top, found.precision) == (1, 0.01, 1.0, 10, 1.0)
    # Until messages about other records were drawn nothing is told; then beyond what they tell on average.
    assert not found.is_told
    assert replace(found, p_value=0.01).is_told
    assert not replace(found, p_value=0.02).is_told
    assert replace(found, precision=0.505, by_chance=0.25).part == pytest.approx((0.5 - 0.25) / 0.75)
    backwards = rarest_label(np.column_stack([likely, 1 - likely]), truth)
    assert backwards is not None
    assert (backwards.auc, backwards.precision) == (0.0, 0.0)
    assert not backwards.is_told


def test_who_holds_all_alike_finds_no_rarest_class_in_a_sorted_table() -> None:
    found = rarest_label(np.full((1000, 2), 0.5), (np.arange(1000) < 100).astype(np.int64))
    assert found is not None
    assert not found.is_told
    assert found.precision < 0.2


def test_one_class_has_no_rarest() -> None:
    assert rarest_label(np.full((5, 2), 0.5), np.zeros(5, dtype=np.int64)) is None


def test_known_labels_complete_what_is_believed_of_records_that_were_not_trained_on() -> None:
    # The attack orders records rightly but cuts them at the wrong place.
    likely = np.clip(0.05 + 0.3 * TRUTH + RNG.normal(0, 0.02, 1000), 0, 1)
    believed = np.column_stack([1 - likely, likely])
    found = believed.argmax(axis=1)
    *_, covariance, records = LabelGuesses(TRUTH, ROWS, MUTE).verdicts("x", found, believed)
    assert not covariance.is_exposed
    assert records.attack == "x completed from 100 labels"
    assert records.part is not None
    assert records.part.low > 0.9
    unknown = np.where(np.arange(1000)[:, None] < 800, believed, np.nan)
    assert LabelGuesses(TRUTH, ROWS, MUTE).verdicts("x", found, unknown)[-1].attack == "x"


@pytest.mark.parametrize("are_telling", [True, False])
def test_classes_that_are_told_apart_are_named_by_a_few_labels(are_telling: bool) -> None:
    """An attack that answers nothing, since it can't say which group is which class, is no safety."""
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 4, 1000)
    rows, groups = np.arange(400), np.full((1000, 4), np.nan)
    groups[rows] = 0.02
    members = (truth[rows] + 1) % 4 if are_telling else generator.integers(0, 4, len(rows))
    groups[rows, members] = 0.94
    *_, marginals, _, records = LabelGuesses(truth, rows, MUTE).verdicts("x", np.full(1000, -1), groups)
    assert not marginals.is_exposed
    assert records.is_exposed == are_telling
    if are_telling:
        assert records.attack == "x named by 30 labels"
        # Those that name the groups count as not found.
        assert records.error == pytest.approx(30 / 400)
