"""The search among columns: each by itself, then greedily those that leak, and it ends."""

from collections.abc import Sequence

import pytest

from plumbline.judge.column_sets import Change, ColumnPart, ColumnSet
from plumbline.what_if.searching import each_left_out, frontier

# What each column tells, and is worth; b alone keeps c told.
TOLD = {"a": 0.3, "b": 0.9, "c": 0.6, "d": 0.02}
WORTH = {"a": 0.02, "b": 0.03, "c": 0.01, "d": 0.05}


def measured(changes: Sequence[Change], names: Sequence[str] = tuple(TOLD)) -> ColumnSet:
    gone = {one.column for one in changes}
    told = {name: part for name, part in TOLD.items() if name in names and name not in gone}
    if "b" in gone and "c" in told:
        told["c"] = 0.05
    columns = tuple(ColumnPart("passive", name, part, part >= 0.1) for name, part in told.items())
    return ColumnSet(tuple(changes), columns, 0.6 + sum(WORTH[name] for name in told))


def all_of(sets: Sequence[tuple[Change, ...]]) -> list[ColumnSet]:
    return [measured(one) for one in sets]


def left_out(found: ColumnSet) -> list[str]:
    return [one.column for one in found.changes]


def test_one_after_another_until_nothing_leaks() -> None:
    whole = measured(())
    without = each_left_out(whole, all_of)
    assert [left_out(one) for one in without] == [["a"], ["b"], ["c"], ["d"]]
    found = frontier(whole, without, all_of, all_of)
    assert [left_out(one) for one in found] == [[], ["b"], ["a", "b"]]
    assert found[-1].exposed == ()
    assert [one.auc for one in found] == pytest.approx([0.71, 0.68, 0.66])


def test_the_last_column_of_a_party_stays() -> None:
    def only_b(sets: Sequence[tuple[Change, ...]]) -> list[ColumnSet]:
        return [measured(one, ["b"]) for one in sets]

    whole = measured((), ["b"])
    assert each_left_out(whole, only_b) == ()
    assert frontier(whole, (), only_b, only_b) == (whole,)


def test_a_step_tries_what_leaks_most_only_and_measures_what_it_takes_again() -> None:
    asked: list[list[str]] = []

    def glance(sets: Sequence[tuple[Change, ...]]) -> list[ColumnSet]:
        asked.extend([one.column for one in changes] for changes in sets)
        return all_of(sets)

    whole = measured(())
    frontier(whole, each_left_out(whole, all_of), all_of, glance)
    assert asked == [["a", "b"]]
