"""What counts as a category, and when a guess names it right."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judge.columns import find_categories, values_of
from plumbline.judge.evidence import Predictor, prior_losses, wrong_losses
from vfl.arrays import FloatArray

RNG = np.random.default_rng(2)
COLOURS = RNG.choice(3, size=200, p=[0.5, 0.3, 0.2])
# A number, a one-hot encoded colour, a flag, a constant.
CELLS = np.column_stack([RNG.random(200), np.eye(3)[COLOURS], RNG.integers(0, 2, 200), np.ones(200)])
OWNERS = ["a"] * 6


def test_a_one_hot_group_is_one_category_and_numbers_and_constants_are_none() -> None:
    assert [one.columns.tolist() for one in find_categories(CELLS, OWNERS)] == [[1, 2, 3], [4]]


def test_no_group_is_shared_by_two_parties() -> None:
    owners = ["a", "a", "a", "b", "b", "b"]
    assert [one.columns.tolist() for one in find_categories(CELLS, owners)] == [[1], [2], [3], [4]]


def groups_by_definition(features: FloatArray, owners: list[str]) -> list[list[int]]:
    """Every run of one party's varying columns whose sum is 1 in each record; of two that begin alike the shorter."""
    varies = ((features == 0) | (features == 1)).all(axis=0) & (np.ptp(features, axis=0) > 0)
    groups, start = list[list[int]](), 0
    while start < len(owners):
        ends = [
            end
            for end in range(start + 2, len(owners) + 1)
            if varies[start:end].all()
            and len(set(owners[start:end])) == 1
            and (features[:, start:end].sum(axis=1) == 1).all()
        ]
        groups += [list(range(start, ends[0]))] if ends else []
        start = ends[0] if ends else start + 1
    return groups


@given(
    st.integers(0, 2**32 - 1), st.integers(1, 4), st.lists(st.sampled_from(["group", "flags", "number"]), min_size=1)
)
def test_groups_are_found_as_they_are_defined(seed: int, records: int, kinds: list[str]) -> None:
    generator = np.random.default_rng(seed)
    drawn = {"group": lambda: np.eye(3)[generator.integers(0, 3, records)][:, : generator.integers(1, 4)]}
    drawn["flags"] = lambda: generator.integers(0, 2, (records, 2)).astype(float)
    drawn["number"] = lambda: generator.integers(0, 3, (records, 1)).astype(float)
    features = np.column_stack([drawn[kind]() for kind in kinds])
    owners = [str(one) for one in np.sort(generator.integers(0, 2, features.shape[1]))]
    found = [one.columns.tolist() for one in find_categories(features, owners) if len(one.columns) > 1]
    assert found == groups_by_definition(features, owners)


def test_flags_that_are_no_group_stay_alone() -> None:
    flags = RNG.integers(0, 2, (200, 3)).astype(float)
    assert [one.columns.tolist() for one in find_categories(flags, ["a"] * 3)] == [[0], [1], [2]]


def test_the_nearest_value_and_the_largest_of_a_group_are_named() -> None:
    categories = find_categories(CELLS, OWNERS)
    # Blurred, and the flag inverted in every record: the group is right throughout, the flag nowhere.
    estimate = 0.2 + 0.3 * CELLS
    estimate[:, 4] = 0.9 - 0.8 * CELLS[:, 4]
    (losses,) = wrong_losses(CELLS, [Predictor("a", "nothing", estimate)], categories)
    assert losses.values.mean(axis=0).tolist() == [0.0, 1.0]
    # Whose densest places are others names a single column by them, and a group by its estimate.
    (losses,) = wrong_losses(CELLS, [Predictor("a", "nothing", estimate, 1 - estimate)], categories)
    assert losses.values.mean(axis=0).tolist() == [0.0, 0.0]


def test_without_scores_the_most_frequent_value_is_named_once_frequencies_are_known() -> None:
    blind, mode = prior_losses(CELLS, find_categories(CELLS, OWNERS))
    assert (blind.level, mode.level) == ("nothing", "marginals")
    np.testing.assert_allclose(blind.values.mean(axis=0), [2 / 3, 1 / 2])
    assert mode.values[:, 0].mean() == (COLOURS != 0).mean()


def test_columns_without_categories_have_no_losses() -> None:
    cells = RNG.random((50, 2))
    assert find_categories(cells, ["a", "a"]) == []


def test_nobody_names_what_has_no_code_of_its_own() -> None:
    # Half of the records have values that no training record had: one number for all of them says none of them.
    codes = np.array([-1.0] * 50 + [0.0] * 20 + [1.0] * 30)[:, None]
    town = values_of(codes, 0, has_nameless=True)
    assert town.count == 2
    blind, mode = (one.values.mean() for one in prior_losses(codes, [town]))
    assert (blind, mode) == (0.75, 0.7)
    unseen = codes[:50]
    assert [one.values.mean() for one in prior_losses(unseen, [values_of(unseen, 0, has_nameless=True)])] == [1.0, 1.0]
    (exact,) = wrong_losses(codes, [Predictor("a", "nothing", codes)], [town])
    assert exact.values.mean() == 0.5
