"""Columns of the parties' own tables: what they are judged as, and what counts as knowing one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judge.columns import round_number, sources_of, usual_range
from services.common.run_records import PartyFeatures
from tests.harness.judged_runs import Feature, typed
from vfl.arrays import FloatArray

RNG = np.random.default_rng(1)
UNIT = RNG.random(200)


def only(*features: Feature) -> tuple[str, str, float]:
    (one,) = sources_of("passive", (own := typed(features)), own.features, 0)
    return one.kind, one.known_as, one.tolerance


def spread(low: float, high: float) -> FloatArray:
    """Cells in [0, 1] that take both ends; as a number in [low, high] its offset is low and its scale high - low."""
    return np.concatenate([[0.0, 1.0], UNIT]) * (high - low) / (high - low)


@pytest.mark.parametrize(
    ("low", "high", "words", "width"),
    [
        (17, 98, "within 5", 5 / 81),
        (0, 1000, "within 50", 0.05),
        (0, 0.3, "within 0.02", 0.02 / 0.3),
        (-2, 2, "within 0.2", 0.05),
    ],
)
def test_a_number_is_known_to_a_round_width_in_its_own_units(low: float, high: float, words: str, width: float) -> None:
    feature = Feature(spread(low, high), "age", offset=low, scale=high - low)
    kind, known_as, tolerance = only(feature)
    assert (kind, known_as) == ("number", words)
    assert tolerance == pytest.approx(width)


@pytest.mark.parametrize("fraction_bits", [16, 52])
def test_few_whole_numbers_are_known_when_they_are_exactly_right(fraction_bits: int) -> None:
    cells = np.round(RNG.integers(0, 8, 200) / 7 * 2**fraction_bits) / 2**fraction_bits
    kind, known_as, tolerance = only(Feature(cells, "campaigns", scale=7))
    assert (kind, known_as) == ("number", "exactly right")
    assert 0.49 / 7 < tolerance < 0.5 / 7
    # No guess between two of them is right about both.
    assert 2 * tolerance < np.diff(np.unique(cells)).min()


@pytest.mark.parametrize(
    ("days", "words"), [(8, "within 6 hours"), (365, "within 2 weeks"), (20_000, "within 2 years")]
)
def test_a_date_is_known_to_a_span_that_people_use(days: float, words: str) -> None:
    kind, known_as, _ = only(Feature(spread(0, 1), "born", "date", offset=1.0, scale=days))
    assert (kind, known_as) == ("date", words)


def test_features_of_several_columns_scaled_together_have_no_unit() -> None:
    _, known_as, tolerance = only(Feature(spread(0, 1), "x", scale=float("nan")))
    assert known_as == "within 5 % of its usual range"
    assert tolerance == pytest.approx(0.05, rel=1e-3)


def test_categories_codes_and_booleans_are_named() -> None:
    chosen = RNG.integers(0, 3, 200)
    one_hot = [Feature((chosen == value) * 1.0, "marital", "category", name=f"marital={value}") for value in range(3)]
    assert only(*one_hot)[:2] == ("category", "guessed right")
    assert only(Feature(RNG.integers(0, 50, 200) / 49, "town", "code"))[:2] == ("code", "guessed right")
    assert only(Feature(RNG.integers(0, 2, 200) * 1.0, "loan"))[:2] == ("category", "guessed right")


@pytest.mark.parametrize(("lowest", "values"), [(0, 50), (-1, 49)])
def test_codes_of_what_no_training_record_had_are_no_value_that_can_be_named(lowest: int, values: int) -> None:
    codes = np.concatenate([np.arange(lowest, lowest + 50), RNG.integers(lowest, lowest + 50, 150)])
    own = typed([Feature(codes / 60, "town", "code", scale=60)])
    (source,) = sources_of("passive", own, own.features, 0)
    assert source.category is not None
    assert (source.category.count, source.category.has_nameless) == (values, lowest < 0)


def test_a_missing_category_is_one_more_and_a_missing_number_stands_beside_it() -> None:
    chosen = RNG.integers(0, 3, 200)
    job = [
        Feature((chosen == 0) * 1.0, "job", "category"),
        Feature((chosen == 1) * 1.0, "job", "category"),
        Feature((chosen == 2) * 1.0, "job", "missing"),
    ]
    pay = [Feature(UNIT, "pay"), Feature((UNIT > 0.9) * 1.0, "pay", "missing")]
    own = typed([*job, *pay])
    first, second = sources_of("passive", own, own.features, 0)
    assert first.category is not None
    assert first.category.count == 3
    assert (first.category.symbols(own.features) == chosen).all()
    assert second.category is None
    assert second.missing is not None
    assert (second.missing.symbols(own.features) == (UNIT > 0.9)).all()
    assert second.value == 3


def test_a_category_unseen_in_training_is_one_more_value() -> None:
    chosen = RNG.integers(0, 3, 200)
    own = typed([Feature((chosen == value) * 1.0, "job", "category") for value in range(2)])
    (one,) = sources_of("passive", own, own.features, 0)
    assert one.category is not None
    assert one.category.count == 3
    assert (one.category.symbols(own.features) == chosen).all()
    # Who holds neither to be likely names the third.
    assert one.category.symbols(np.array([[0.2, 0.1]])) == 2


def test_features_of_older_runs_are_columns_each() -> None:
    own = PartyFeatures(np.column_stack([UNIT, UNIT > 0.5]).astype(float), np.array(["a", "b"]))
    number, flag = sources_of("passive", own, own.features, 0)
    assert (number.name, number.kind, number.known_as) == ("a", "number", "within 5 % of its usual range")
    assert (flag.name, flag.kind) == ("b", "category")


@given(st.floats(1e-9, 1e12))
def test_round_numbers_are_1_2_or_5_and_near(near: float) -> None:
    found = round_number(near)
    assert f"{found:.0e}"[0] in "125"
    assert 0.6 < found / near < 1.7


@given(st.floats(0, 1e6), st.integers(0, 1000))
def test_a_few_huge_values_make_no_range_wider(huge: float, seed: int) -> None:
    cells = np.random.default_rng(seed).random(200)
    assert usual_range(np.append(cells, huge)) < 1.2


def test_where_nearly_all_are_alike_the_others_say_how_wide_they_spread() -> None:
    never = np.where(RNG.random(1_000) < 0.96, 999.0, RNG.integers(0, 28, 1_000))
    assert 20 < usual_range(never) < 35
    assert usual_range(np.full(50, 3.0)) == usual_range(np.empty(0)) == 0.0
    assert usual_range(np.append(np.zeros(50), 7.0)) == 7.0
