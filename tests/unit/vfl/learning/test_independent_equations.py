"""Counting equations: the numerical rank of all that a record was answered with, whatever the order and the units."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from vfl.arrays import FloatArray
from vfl.learning import class_rows
from vfl.learning.independent_equations import (
    AnsweredEquations,
    Basis,
    equations_of_weights,
    equations_per_model,
    most_equations,
)

KEYS: NDArray[np.uint64] = np.arange(10, 30, dtype=np.uint64) ** 5
NAMES = tuple("abcdef")


def drawn(seed: int, rows: int = 1) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, len(NAMES)))


@given(
    st.lists(st.tuples(st.integers(0, 2**20 - 1), st.integers(1, 3), st.integers(1, 3), st.booleans()), max_size=12),
    st.integers(0, 9),
)
def test_a_records_count_is_the_rank_of_its_equations(answers: list[tuple[int, int, int, bool]], seed: int) -> None:
    """Against numpy's rank of what each record was answered with, put together by hand."""
    generator, count = np.random.default_rng(seed), AnsweredEquations.none()
    units = 10.0 ** generator.integers(-6, 6, size=len(NAMES))
    told: list[list[FloatArray]] = [[] for _ in KEYS]
    for members, rows, rank, is_repeated in answers:
        chosen = [at for at in range(len(KEYS)) if members >> at & 1]
        equations = generator.normal(size=(rows, rank)) @ generator.normal(size=(rank, len(NAMES)))
        for _ in range(1 + is_repeated):
            count = count.answered(KEYS[chosen], NAMES, equations * units, len(NAMES))
        for at in chosen:
            told[at].append(equations)
    expected = [np.linalg.matrix_rank(np.vstack(equations)) if equations else 0 for equations in told]
    assert count.ranks(KEYS).tolist() == expected


def test_what_follows_from_before_changes_nothing() -> None:
    first = AnsweredEquations.none().answered(KEYS, NAMES, drawn(1, 2), len(NAMES))
    assert first.answered(KEYS[3:9], NAMES, np.array([[3.0, -2.0]]) @ drawn(1, 2), len(NAMES)) is first
    assert first.answered(KEYS, NAMES, np.zeros((1, 6)), len(NAMES)) is first
    assert first.answered(KEYS[:0], NAMES, drawn(2), len(NAMES)) is first


def test_the_least_difference_that_exact_scores_show_is_a_equation() -> None:
    """Sessions that hardly move weights would read a table otherwise: nothing is too near to count."""
    count = AnsweredEquations.none().answered(KEYS, NAMES, drawn(1), len(NAMES))
    for number in range(8):
        count = count.answered(KEYS, NAMES, drawn(1) + 1e-11 * drawn(2 + number), len(NAMES))
    assert count.ranks(KEYS).tolist() == [6] * len(KEYS)


def test_columns_that_come_and_go_are_told_apart_by_name() -> None:
    count = AnsweredEquations.none().answered(KEYS, ("age", "income"), np.array([[1.0, 2.0]]), len(NAMES))
    assert count.answered(KEYS, ("income", "age"), np.array([[2.0, 1.0]]), len(NAMES)) is count
    count = count.answered(KEYS, ("income", "rent"), np.array([[2.0, 1.0]]), len(NAMES))
    assert count.coordinates == ("age", "income", "rent")
    assert count.ranks(KEYS).tolist() == [2] * len(KEYS)


def test_records_are_counted_one_by_one_and_strangers_have_none() -> None:
    count = AnsweredEquations.none()
    for number in range(6):
        count = count.answered(KEYS[number:8], NAMES, drawn(number), len(NAMES))
    assert count.ranks(KEYS[:9]).tolist() == [1, 2, 3, 4, 5, 6, 6, 6, 0]
    assert count.ranks(np.array([0, 2**64 - 1], dtype=np.uint64)).tolist() == [0, 0]


def test_what_no_record_is_counted_by_is_forgotten() -> None:
    count = AnsweredEquations.none()
    for number in range(40):
        count = count.answered(KEYS, NAMES, drawn(number), len(NAMES))
    assert count.equations.shape == (6, 6)
    assert count.bases == (Basis((0, 1, 2, 3, 4, 5)),)


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_model_tells_one_equation_less_than_it_has_classes(classes: int) -> None:
    weights = np.random.default_rng(0).normal(size=(6, 1 if classes == 2 else classes))
    count = AnsweredEquations.none().answered(KEYS, NAMES, equations_of_weights(weights), len(NAMES))
    assert count.ranks(KEYS[:1]).tolist() == [equations_per_model(classes)]
    # By its class rows as well, as an installed model has them for two classes.
    assert count.answered(KEYS, NAMES, equations_of_weights(class_rows(weights).T), len(NAMES)) is count


def test_the_limit_is_a_share_of_the_columns_and_never_nothing() -> None:
    assert [most_equations(share, 15) for share in (0.01, 0.5, 0.99, 1.0)] == [1, 7, 14, 15]


def test_a_huge_weight_hides_no_other() -> None:
    """A record whose feature is 0 where the weight is huge shows the others to the last digit."""
    generator = np.random.default_rng(0)
    huge = [np.full(6, 1e16), *(np.r_[1e16, generator.normal(size=5)] for _ in range(5))]
    count = AnsweredEquations.none()
    for equation in [*huge, *huge]:
        count = count.answered(KEYS, NAMES, equation[None], len(NAMES))
    record = np.r_[0.0, generator.uniform(size=5)]
    solved = np.linalg.lstsq(np.array(huge[1:])[:, 1:], np.array(huge[1:]) @ record, rcond=None)[0]
    assert np.allclose(solved, record[1:], atol=1e-9)
    assert count.ranks(KEYS[:1]).tolist() == [6]


def test_huge_weights_told_again_are_no_further_equations() -> None:
    generator = np.random.default_rng(0)
    count = AnsweredEquations.none()
    equations = [np.full(6, 1e16), *(np.r_[1e16, generator.normal(size=5)] for _ in range(3))]
    for equation in [*equations, *equations, 3 * equations[1] - equations[2]]:
        count = count.answered(KEYS, NAMES, equation[None], len(NAMES))
    assert count.ranks(KEYS[:1]).tolist() == [4]


def test_no_more_is_counted_than_tells_the_whole_record() -> None:
    count = AnsweredEquations.none()
    for number in range(5):
        count = count.answered(KEYS, NAMES, drawn(number), 3)
    assert count.ranks(KEYS[:1]).tolist() == [3]


@given(st.integers(0, 10**6), st.sampled_from([2, 3, 7]), st.integers(2, 6))
def test_the_same_model_again_is_no_further_equation_whatever_other_sessions_were_of(
    seed: int, classes: int, sessions: int
) -> None:
    """Sessions with other ranges have columns of their own, of which a repeated equation has none."""
    generator, count = np.random.default_rng(seed), AnsweredEquations.none()
    models = []
    for session in range(sessions):
        weights = generator.normal(size=(30, 1 if classes == 2 else classes)) * 10.0 ** generator.integers(-4, 4)
        names = [f"c{at} {session if at % 2 else ''}" for at in range(30)]
        models.append((names, equations_of_weights(weights)))
        count = count.answered(KEYS, names, models[-1][1], 1000)
    assert count.ranks(KEYS[:1]).tolist() == [sessions * equations_per_model(classes)]
    for names, equations in models:
        assert count.answered(KEYS, names, equations, 1000) is count


OPAQUE_ANSWERS = st.lists(
    st.tuples(
        st.integers(0, 2**8 - 1), st.sampled_from(["network a", "network b", "model"]), st.integers(1, 5), st.integers()
    ),
    max_size=10,
)


@given(OPAQUE_ANSWERS, st.integers(1, 9))
def test_equations_of_which_nothing_is_known_count_as_columns_of_their_own(
    answers: list[tuple[int, str, int, int]], most: int
) -> None:
    """Against the same as unit vectors in coordinates of their own, as they were kept before.

    Of more equations than there are columns some follow from the others, up to rounding: a doubt that columns count.
    """
    assume(sum(count for _, name, count, _ in answers if name == "model") <= len(NAMES))
    counted, dense, keys = AnsweredEquations.none(), AnsweredEquations.none(), KEYS[:8]
    for members, name, count, seed in answers:
        records = keys[[at for at in range(len(keys)) if members >> at & 1]]
        if name == "model":
            equations = drawn(abs(seed) % 2**32, count)
            counted, dense = (one.answered(records, NAMES, equations, most) for one in (counted, dense))
            continue
        counted = counted.answered_opaque(records, name, count, most)
        dense = dense.answered(records, [f"{name} {number}" for number in range(count)], np.eye(count), most)
    assert counted.ranks(keys).tolist() == dense.ranks(keys).tolist()


def test_many_networks_of_a_wide_table_are_kept_as_numbers() -> None:
    """Twenty sessions of 16 units and 60 epochs each, of 1,000 columns: once a matrix of 1,000 by 19,200."""
    count = AnsweredEquations.none()
    for session in range(20):
        count = count.answered_opaque(KEYS, f"forwarded {session}", 960, 1_000)
        assert count.answered_opaque(KEYS, f"forwarded {session}", 960, 1_000) is count
    assert count.ranks(KEYS).tolist() == [1_000] * len(KEYS)
    assert count.equations.size == 0
    assert count.coordinates == ()
    assert count.bases == (Basis(opaque=(("forwarded 0", 960), ("forwarded 1", 40))),)
