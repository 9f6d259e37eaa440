"""Labels from whole numbers: brute force on few rows, planted labels on many, and words where sums don't tell."""

import itertools
import sys

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from attacks.solving.lattice_labels import LatticeAnswer, RowSums
from attacks.solving.lattices import FlintMissing, block_reduced, has_flint, kernel_lattice, nearest_points
from vfl.arrays import BoolArray, IntArray
from vfl.theory.label_sums import log2_other_labels

pytestmark = pytest.mark.skipif(not has_flint(), reason="needs python-flint, of the extra lab")


def batch(rows: int, columns: int, bits: int, seed: int) -> tuple[IntArray, IntArray]:
    """Features of breast_cancer on a grid, (rows, columns), and labels."""
    features, labels = load_breast_cancer(return_X_y=True)
    scaled = (features - features.min(axis=0)) / np.ptp(features, axis=0)
    chosen = np.random.default_rng(seed).choice(len(labels), rows, replace=False)
    return np.rint(scaled[chosen][:, :columns] * 2**bits).astype(np.int64), labels[chosen].astype(np.int64)


def search(matrix: IntArray, labels: IntArray | BoolArray) -> LatticeAnswer:
    return RowSums(matrix).find(matrix.T @ labels)


# -- known answers ----------------------------------------------------------------------------------------------------


@given(st.integers(2, 11), st.integers(1, 4), st.sampled_from([1, 2, 6, 16, 24]), st.integers(0, 2**32))
def test_what_is_named_is_the_only_choice_that_fits_and_what_is_certain_to_be_alone_is_named(
    rows: int, columns: int, bits: int, seed: int
) -> None:
    """All 2^rows choices are gone through beside it."""
    generator = np.random.default_rng(seed)
    matrix = generator.integers(-(2**bits) if seed % 2 else 0, 2**bits, (rows, columns), endpoint=True)
    labels = generator.integers(0, 2, rows)
    answer = search(matrix, labels)
    choices = np.array(list(itertools.product([0, 1], repeat=rows)))
    fitting = choices[(choices @ matrix == matrix.T @ labels).all(axis=1)]
    if answer.rows is not None:
        assert len(fitting) == 1
        np.testing.assert_array_equal(answer.rows, labels == 1)
    else:
        assert answer.reason
        # The volume of all sums leaves no room for another choice: not to have found it would be a failed search.
        heights = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
        assume(heights.min() > 0.5)
        told = log2_other_labels(rows, len(heights), float(np.log2(heights).sum()), 0.5)
        assert told > -10 or len(fitting) > 1


@pytest.mark.parametrize(
    ("rows", "columns", "bits"),
    [(52, 13, 15), (52, 13, 8), (80, 13, 15), (60, 4, 32), (150, 30, 15)],
)
def test_all_labels_of_four_times_as_many_rows_as_sums_and_more(rows: int, columns: int, bits: int) -> None:
    for seed in range(3 if rows < 100 else 1):
        matrix, labels = batch(rows, columns, bits, seed)
        answer = search(matrix, labels)
        np.testing.assert_array_equal(answer.rows, labels == 1)
        assert answer.certain


def test_one_reduction_serves_all_classes() -> None:
    matrix, _ = batch(70, 13, 15, 0)
    labels = np.random.default_rng(0).integers(0, 4, 70)
    sums = RowSums(matrix)
    for label in range(4):
        np.testing.assert_array_equal(sums.find(matrix.T @ (labels == label)).rows, labels == label)


def test_columns_of_zeros_and_ones_repeated_and_dependent_ones_count_for_what_they_tell() -> None:
    generator = np.random.default_rng(1)
    ones = generator.integers(0, 2, (24, 12))
    labels = generator.integers(0, 2, 24)
    # Too few bits; 20 columns more tell, and copies of them nothing.
    assert search(ones * 2**16, labels).rows is None
    wide = np.hstack([ones, generator.integers(0, 2, (24, 20))])
    np.testing.assert_array_equal(search(np.hstack([wide, wide]) * 2**16, labels).rows, labels == 1)
    matrix, labels = batch(40, 6, 20, 1)
    dependent = np.hstack([matrix, matrix.sum(axis=1, keepdims=True), np.zeros((40, 1), dtype=np.int64)])
    np.testing.assert_array_equal(search(dependent, labels).rows, labels == 1)


def test_labels_that_are_all_alike_are_found_too() -> None:
    matrix, _ = batch(50, 13, 15, 2)
    for value in (0, 1):
        answer = search(matrix, np.full(50, value))
        assert answer.rows is not None
        assert (answer.rows == value).all()


# -- what isn't guessed -----------------------------------------------------------------------------------------------


def test_twins_of_different_labels_are_several_choices() -> None:
    matrix, labels = batch(50, 13, 15, 0)
    matrix[1], labels[0], labels[1] = matrix[0], 1, 0
    answer = search(matrix, labels)
    assert (answer.rows, answer.reason) == (None, "several choices of labels fit")


def test_sums_that_hold_fewer_bits_than_labels_are_told_before_anything_is_searched() -> None:
    matrix, labels = batch(400, 13, 15, 0)
    answer = search(matrix, labels)
    assert answer.rows is None
    assert answer.reason.startswith("about 2^")
    assert answer.reason.endswith("choices of labels fit")


def test_sums_that_no_choice_makes_get_none() -> None:
    matrix, labels = batch(50, 13, 15, 0)
    sums = matrix.T @ labels
    sums[3] += 1
    assert RowSums(matrix).find(sums).reason == "no choice of labels that fits was found"
    # Even entries, an odd sum.
    assert RowSums(2 * matrix).find(sums).reason == "no choice of labels fits"


def test_more_rows_than_allowed_are_not_searched_unless_they_can_be_solved() -> None:
    matrix, labels = batch(60, 13, 15, 0)
    assert "lattice_rows allows 59 rows" in RowSums(matrix, most_rows=59).find(matrix.T @ labels).reason
    generator = np.random.default_rng(0)
    square = generator.integers(0, 2**16, (60, 61))
    answer = RowSums(square, most_rows=1).find(square.T @ labels)
    np.testing.assert_array_equal(answer.rows, labels == 1)
    assert answer.certain


def test_without_flint_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, labels = batch(50, 13, 15, 0)
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(FlintMissing, match=r'pip install "plumbline\[lab\]"'):
        search(matrix, labels)


def test_chance_solutions_are_as_many_as_counting_finds() -> None:
    """Four columns of four bits and 16 rows: the mean number of other choices, over 40 tables."""
    generator = np.random.default_rng(0)
    choices = np.array(list(itertools.product([0, 1], repeat=16)))
    counted, expected = [], []
    for _ in range(40):
        matrix = generator.integers(0, 6, (16, 4))
        labels = generator.permutation(np.repeat([0, 1], 8))
        counted.append((choices @ matrix == matrix.T @ labels).all(axis=1).sum() - 1)
        volume = kernel_lattice(matrix).log2_volume
        expected.append(2 ** log2_other_labels(16, 4, volume, 0.5))
    assert 0.6 < np.mean(expected) / np.mean(counted) < 1.6


# -- lattices ---------------------------------------------------------------------------------------------------------


@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 2**32))
def test_a_kernel_holds_every_vector_without_sums_and_reaches_every_other_sum(
    rows: int, columns: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.integers(-20, 20, (rows, columns))
    lattice = kernel_lattice(matrix)
    rank = np.linalg.matrix_rank(matrix)
    assert lattice.basis.shape == (rows - rank, rows)
    assert not (lattice.basis @ matrix).any()
    # Saturated: det(basis basis^T) times the index of the images is det of the matrix's own.
    if 0 < rank == columns:
        index = abs(round(float(np.linalg.det(lattice.images.astype(np.float64)))))
        whole = np.linalg.slogdet(matrix.T.astype(np.float64) @ matrix)[1] / np.log(4)
        assert lattice.log2_volume == pytest.approx(whole - np.log2(index), abs=1e-6)
    wanted = generator.integers(-5, 5, rows)
    point = lattice.point_with((matrix.T @ wanted).astype(object))
    assert point is not None
    assert (point @ matrix == matrix.T @ wanted).all()


def test_blocks_make_a_basis_of_the_same_lattice_shorter() -> None:
    matrix, _ = batch(90, 10, 15, 0)
    lattice = kernel_lattice(matrix)
    basis, changed = block_reduced(lattice.basis, block=20, width=100)
    assert changed
    assert not (basis @ matrix).any()
    volumes = [np.linalg.slogdet(one @ one.T)[1] for one in (lattice.basis, basis)]
    assert volumes[0] == pytest.approx(volumes[1])
    assert (basis**2).sum() < (lattice.basis**2).sum()


def test_a_wider_search_finds_the_nearest_of_all_points() -> None:
    generator = np.random.default_rng(3)
    basis = generator.integers(-6, 7, (4, 4))
    target = generator.uniform(-3, 3, 4) @ basis
    every = np.array(list(itertools.product(range(-9, 10), repeat=4))) @ basis
    nearest = every[((every - target) ** 2).sum(axis=1).argmin()]
    points = nearest_points(basis, target, width=2000)
    assert len(np.unique(points, axis=0)) == len(points)
    np.testing.assert_array_equal(points[((points - target) ** 2).sum(axis=1).argmin()], nearest)


# -- batches of a few different rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [0, 5])
def test_a_single_row_has_a_label_unless_all_that_is_known_of_it_is_zero(entry: int) -> None:
    answer = search(np.full((1, 3), entry), np.array([1]))
    if entry:
        assert answer.rows is not None
        assert answer.rows.all()
    else:
        assert answer.rows is None
        assert "several" in answer.reason


@pytest.mark.parametrize(("different", "columns", "bits"), [(3, 2, 32), (7, 6, 30), (5, 2, 45), (7, 6, 15)])
@pytest.mark.parametrize("copies", [1, 2])
def test_few_different_rows_of_many_bits_have_an_answer(different: int, columns: int, bits: int, copies: int) -> None:
    """All that makes their sums vanish is longer than whole numbers hold, but for rows that are alike."""
    generator = np.random.default_rng(0)
    matrix = np.tile(generator.integers(0, 2**bits, (different, columns)), (copies, 1))
    labels = generator.integers(0, 2, len(matrix))
    labels[0], labels[different * (copies - 1)] = 1, copies % 2
    answer = search(matrix, labels)
    if copies == 1:
        assert answer.rows is not None
        assert (answer.rows == labels).all()
    else:
        assert answer.rows is None
