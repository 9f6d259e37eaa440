"""Batches over any history of arrivals and leavers: what lasts, what waits, and what is refused."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import null_space

from vfl.learning.append_only import BatchChanged, BatchHistory, Names, Placement, in_sizes

LEAST = 4
FRACTIONS = {"validation_fraction": 0.2, "test_fraction": 0.2}


def names(*values: int) -> Names:
    return np.array(values, dtype=np.uint64)


def first(records: int, batches: int, least: int = LEAST) -> tuple[Placement, BatchHistory]:
    """A first session: records 0 to 9 are validated with, 10 to 19 tested, the others trained on."""
    train = np.arange(20, 20 + records).astype(np.uint64)
    placement = Placement(tuple(np.array_split(train, batches)), (names(*range(10)),), names(*range(10, 20)))
    return placement, BatchHistory.begun(placement, least)


def everybody(placement: Placement) -> list[int]:
    parts = [*placement.train, *placement.validation, placement.test, placement.waiting]
    return [int(name) for part in parts for name in part]


def role_of(placement: Placement) -> dict[int, str]:
    roles = {"train": placement.train, "validation": placement.validation, "test": [placement.test]}
    return {int(name): role for role, parts in roles.items() for part in parts for name in part}


# Of each session: how many come, and which of those that are there go, by their place among them.
Sessions = st.lists(st.tuples(st.integers(0, 11), st.sets(st.integers(0, 79), max_size=3)), min_size=1, max_size=8)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[BatchHistory, Placement]]:
    """Each session with the history that it went on from; who has left may come back."""
    records, batches = draw(st.integers(8, 40)), draw(st.integers(1, 2))
    placement, history = first(records, batches)
    sessions = [(history, placement)]
    present = set(everybody(placement))
    gone: set[int] = set()
    # Names are hashes: newcomers stand anywhere among the others.
    fresh = iter(draw(st.permutations(range(1_000, 1_000 + 90))))
    for come, go in draw(Sessions):
        leave = {sorted(present)[at] for at in go if at < len(present)}
        back = {name for name in gone if draw(st.booleans())}
        gone = (gone - back) | leave
        present = (present - leave) | back | {next(fresh) for _ in range(come)}
        placement = history.place(names(*present), **FRACTIONS)
        sessions.append((history, placement))
        assert sorted(everybody(placement)) == sorted(present)
        history.check(placement)
        history = history.after(placement)
    return sessions


@given(histories())
def test_every_record_stands_in_one_place(sessions: list[tuple[BatchHistory, Placement]]) -> None:
    for _, placement in sessions:
        assert len(set(everybody(placement))) == len(everybody(placement))


@given(histories())
def test_no_batch_changes_by_fewer_than_the_guard_asks_for(sessions: list[tuple[BatchHistory, Placement]]) -> None:
    ever = [set(batch.tolist()) for _, placement in sessions for batch in (*placement.train, *placement.validation)]
    for one in ever:
        assert all(not (one ^ other) or len(one ^ other) >= LEAST for other in ever)
    whole = [{name for batch in placement.train for name in batch.tolist()} for _, placement in sessions]
    for one in whole:
        assert all(not (one ^ other) or len(one ^ other) >= LEAST for other in whole)


@given(histories())
def test_no_combination_of_sums_is_of_fewer_records(sessions: list[tuple[BatchHistory, Placement]]) -> None:
    """Whichever LEAST - 1 records one looks for: what all others' factors are 0 for is 0 for these as well."""
    ever = {frozenset(batch.tolist()) for _, placement in sessions for batch in placement.train}
    records = sorted(set().union(*ever))
    matrix = np.array([[record in batch for record in records] for batch in sorted(ever, key=sorted)], dtype=float)
    generator = np.random.default_rng(0)
    for _ in range(20):
        few = generator.choice(len(records), LEAST - 1, replace=False)
        others = np.delete(matrix, few, axis=1)
        unseen = null_space(others.T)
        assert np.abs(matrix[:, few].T @ unseen).max(initial=0) < 1e-9


@given(histories())
def test_roles_last_until_a_group_is_dissolved(sessions: list[tuple[BatchHistory, Placement]]) -> None:
    for (_, before), (history, after) in pairwise(sessions):
        old, new = role_of(before), role_of(after)
        dissolved = {int(name) for name in history.after(after).dissolved}
        for name in set(everybody(after)) & old.keys():
            assert (
                new.get(name) == old[name]
                or name in dissolved
                or (new.get(name), old[name])
                == (
                    "train",
                    "validation",
                )
            )


@given(histories(), st.randoms(use_true_random=False))
def test_all_parties_place_records_alike(sessions: list[tuple[BatchHistory, Placement]], random: object) -> None:
    for history, placement in sessions[1:]:
        present = np.array(everybody(placement), dtype=np.uint64)
        random.shuffle(present)  # type: ignore[attr-defined]
        again = history.place(present, **FRACTIONS)
        assert everybody(again) == everybody(placement)


def test_newcomers_wait_until_they_fill_a_batch() -> None:
    placement, history = first(12, 2)
    present = everybody(placement)
    alone = history.place(names(*present, 100, 101, 102), **FRACTIONS)
    assert alone.waiting.tolist() == [100, 101, 102]
    assert [batch.tolist() for batch in alone.train] == [batch.tolist() for batch in placement.train]
    enough = history.place(names(*present, 100, 101, 102, 103), **FRACTIONS)
    assert [batch.tolist() for batch in enough.train[2:]] == [[100, 101, 102, 103]]
    assert not len(enough.waiting)


def test_a_leaver_dissolves_its_group_alone() -> None:
    placement, history = first(16, 1)
    placed = history.place(names(*(set(everybody(placement)) - {21})), **FRACTIONS)
    assert placed.train[0].tolist() == list(range(24, 36))
    assert placed.waiting.tolist() == [20, 22, 23]
    later = history.after(placed)
    assert later.dissolved.tolist() == [20, 21, 22, 23]
    # With the leaver back they are as many as a batch takes, and have all been in one.
    assert later.place(names(*everybody(placement)), **FRACTIONS).waiting.tolist() == [20, 21, 22, 23]
    joined = later.place(names(*everybody(placed), 100, 101, 102, 103), **FRACTIONS)
    assert joined.train[1].tolist() == [20, 22, 23, 100, 101, 102, 103]


def test_a_role_is_filled_up_where_it_lacks_most() -> None:
    placement, history = first(12, 1)
    placed = history.place(names(*everybody(placement), *range(100, 116)), validation_fraction=0.5, test_fraction=0.5)
    assert [len(batch) for batch in placed.train] == [12]
    assert sorted(map(len, placed.validation)) == [4, 4, 10]
    assert len(placed.test) == 18


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            lambda was: Placement((was.train[0][1:], was.train[1]), was.validation, was.test),
            "8 records has changed by 1",
        ),
        (
            lambda was: Placement((np.append(was.train[0], names(900)), was.train[1]), was.validation, was.test),
            "has changed by 1",
        ),
        (lambda was: Placement((np.concatenate(was.train),), was.validation, was.test), "has changed by 8"),
        (
            lambda was: Placement((*was.train, names(900, 901, 902)), was.validation, was.test),
            "of a new batch 3 were in none",
        ),
        (
            lambda was: Placement((*was.train, names(900, 901, 902, 903, 11)), was.validation, was.test[:1]),
            "tested are in a batch now",
        ),
        (
            lambda was: Placement(was.train[:1], was.validation, np.concatenate([was.test, was.train[1]])),
            "of a batch are tested now",
        ),
        (
            lambda was: Placement(was.train[:1], (*was.validation, was.train[1]), was.test),
            "or the other way round",
        ),
    ],
)
def test_other_batches_are_refused(change: object, says: str) -> None:
    placement, history = first(16, 2)
    history.check(placement)
    with pytest.raises(BatchChanged, match=says):
        history.check(change(placement))  # type: ignore[operator]


def test_a_dissolved_record_is_neither_tested_nor_enough_for_a_batch() -> None:
    placement, history = first(16, 2)
    after = history.after(Placement(placement.train[1:], placement.validation, placement.test))
    gone = placement.train[0]
    with pytest.raises(BatchChanged, match="of a batch are tested now"):
        after.check(Placement(placement.train[1:], placement.validation, np.append(placement.test, gone[:1])))
    with pytest.raises(BatchChanged, match="of a new batch 1 were in none"):
        after.check(
            Placement((*placement.train[1:], np.append(gone[1:], names(900))), placement.validation, placement.test)
        )
    after.check(Placement((*placement.train[1:], np.append(gone[1:], names(*range(900, 904)))), (), placement.test))


def test_a_whole_group_may_go() -> None:
    placement, history = first(16, 2)
    history.check(Placement((placement.train[0][4:], placement.train[1]), placement.validation, placement.test))


def test_names_are_cut_in_order() -> None:
    assert [part.tolist() for part in in_sizes(names(1, 2, 3, 4), (1, 2))] == [[1], [2, 3]]
