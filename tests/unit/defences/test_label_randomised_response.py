"""label_randomised_response: epsilon is exact and never more than asked for; a record's draw is its own, and stays."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import defences
from defences import NoiseSource, TrainingTerms
from defences.label_randomised_response import LabelRandomisedResponse
from vfl.arrays import IntArray

RECORDS = 60_000
IDS = [f"r{index}" for index in range(RECORDS)]


def terms(classes: int) -> TrainingTerms:
    return TrainingTerms("active", epochs=9, steps=90, rows=8, learning_rate=0.1, residual_limit=128.0, classes=classes)


def drawn(labels: IntArray, classes: int, epsilon: float = 1.0, seed: int = 0) -> IntArray:
    return LabelRandomisedResponse(epsilon).replace_labels(labels, IDS[: len(labels)], classes, NoiseSource(seed))


class Draws(NoiseSource):
    """Gives the draws that it is told."""

    def __init__(self, draws: list[int]) -> None:
        super().__init__(0)
        self._draws = draws

    def integers_per_text(self, texts: object, bits: int) -> IntArray:
        assert bits == 53
        return np.array(self._draws, dtype=np.int64)


@given(st.floats(1e-6, 20), st.integers(2, 300))
def test_epsilon_is_what_the_draws_say_exactly_and_never_more_than_asked_for(epsilon: float, classes: int) -> None:
    """Every other class stands for the same whole number of the 2^53 draws, and the true one for all that is left."""
    told = LabelRandomisedResponse(epsilon).prediction(terms(classes))
    replaced = Fraction(1 - Fraction(told.kept)) / (classes - 1)
    assert math.log(Fraction(told.kept) / replaced) == pytest.approx(told.epsilon, abs=1e-9)
    assert told.epsilon <= epsilon * (1 + 1e-12) + 1e-12
    assert told.epsilon == pytest.approx(epsilon, rel=1e-4, abs=1e-9)
    # Where one class's draws end the next one's begin, and the last draw of all keeps the label.
    each = int(replaced * 2**53)
    assert Fraction(each, 2**53) == replaced
    edges = [0, each - 1, each * (classes - 1) - 1, each * (classes - 1), 2**53 - 1]
    chosen = LabelRandomisedResponse(epsilon).replace_labels(
        np.zeros(5, dtype=np.int64), ["a"] * 5, classes, Draws(edges)
    )
    np.testing.assert_array_equal(chosen, [1, 1, classes - 1, 0, 0])


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_labels_are_replaced_as_often_as_told_by_each_other_class_alike(classes: int) -> None:
    labels = np.random.default_rng(1).integers(0, classes, RECORDS)
    kept = LabelRandomisedResponse(1.0).prediction(terms(classes)).kept
    assert kept == pytest.approx(math.e / (math.e + classes - 1))
    chosen = drawn(labels, classes)
    found = np.bincount((chosen - labels) % classes, minlength=classes) / RECORDS
    expected = np.array([kept, *[(1 - kept) / (classes - 1)] * (classes - 1)])
    assert np.abs(found - expected).max() < 5 * math.sqrt(0.25 / RECORDS)


def test_the_same_record_gets_the_same_label_in_every_session_wherever_it_stands() -> None:
    labels = np.arange(500) % 2
    defence, noise = LabelRandomisedResponse(1.0), NoiseSource()
    first = defence.replace_labels(labels, IDS[:500], 2, noise)
    order = np.random.default_rng(0).permutation(500)[:300]
    np.testing.assert_array_equal(
        defence.replace_labels(labels[order], [IDS[one] for one in order], 2, noise), first[order]
    )
    # Another party's, or process's, secret draws anew; and so does another label of the same record.
    assert (defence.replace_labels(labels, IDS[:500], 2, NoiseSource()) != first).any()
    turned = defence.replace_labels(1 - labels, IDS[:500], 2, noise)
    kept, kept_turned = first == labels, turned == 1 - labels
    assert abs(np.corrcoef(kept, kept_turned)[0, 1]) < 0.2


def test_a_large_epsilon_keeps_all_but_a_few() -> None:
    labels = np.random.default_rng(1).integers(0, 2, 5_000)
    np.testing.assert_array_equal(drawn(labels, 2, epsilon=20.0), labels)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 20.1])
def test_an_epsilon_that_means_nothing_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="Expected epsilon to be above 0 and at most 20"):
        defences.load("label_randomised_response", epsilon=epsilon)
