"""Newcomers between sessions: read where they join a batch of before, and a sentence where there is none to read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from attacks.training.newcomer import Newcomer
from attacks.training.recovered_labels import UNRESOLVED, EstimatedLabels
from attacks.training_views import TrainingView
from attacks.views import ViewError
from tests.harness.listening import planted, seen, trained, view_of
from vfl.arrays import IntArray
from vfl.learning import BatchSchedule, GradientDescent, VerticalData
from vfl.theory.training import simulate_oracle

ATTACK = Newcomer()
TRUTH = np.random.default_rng(5).integers(0, 2, 569)
FIRST = np.arange(300)


def sessions(*rows: IntArray, batch: int = 569, reshuffled: bool = False) -> TrainingView:
    """The last of several sessions on these records, with those before."""
    runs = [
        trained(
            labels=TRUTH,
            shuffled=False,
            rows=own,
            batch=batch,
            reshuffled=reshuffled,
            start=number,
            label_columns=10,
        )
        for number, own in enumerate(rows)
    ]
    *earlier, view = [replace(seen(run), records=own) for run, own in zip(runs, rows, strict=True)]
    return replace(view, earlier=tuple(earlier))


def with_sums(view: TrainingView, factor: float) -> TrainingView:
    equations = tuple(replace(one, sums=factor * one.sums) for one in view.equations)
    return replace(view, equations=equations, earlier=tuple(with_sums(one, factor) for one in view.earlier))


def named(found: EstimatedLabels) -> IntArray:
    return np.flatnonzero(found.labels != UNRESOLVED)


def test_a_newcomer_of_each_retraining_is_read_and_nobody_else() -> None:
    view = sessions(*(np.arange(300 + number) for number in range(7)))
    found = ATTACK.attack(view)
    assert named(found).tolist() == [300, 301, 302, 303, 304, 305]
    assert (found.labels[300:] == TRUTH[300:306]).mean() >= 0.83
    assert found.details["sessions"] == 7
    assert not found.reason


def test_who_left_a_batch_and_is_aligned_still_is_read() -> None:
    view = sessions(FIRST, FIRST[:-1])
    # Who left validates now.
    last = replace(
        view,
        records=FIRST,
        features=np.vstack([view.features, view.earlier[0].features[-1:]]),
    )
    found = ATTACK.attack(last)
    assert named(found).tolist() == [299]


def test_one_of_several_classes_is_read() -> None:
    right = []
    for seed in range(12):
        table = planted(rows=91, batch=91, epochs=1, classes=3, parties=(3, 9), seed=seed)
        runs = [
            simulate_oracle(
                VerticalData([block[:count] for block in table.blocks], table.labels[:count], classes=3),
                [np.random.default_rng([seed, count]).normal(0, 0.3, one.shape) for one in table.weights],
                GradientDescent(BatchSchedule(np.arange(count), count, 0), 40, 0.5),
            )
            for count in (90, 91)
        ]
        first, second = (replace(view_of(run, 1), records=np.arange(len(run.labels))) for run in runs)
        found = ATTACK.attack(replace(second, earlier=(first,)))
        assert set(named(found)) <= {90}
        right.append(found.labels[90] == table.labels[90])
    assert np.mean(right) >= 0.8


def test_the_same_sums_under_another_id_tell_of_nobody() -> None:
    view = sessions(FIRST, FIRST)
    renamed = replace(view.earlier[0], records=np.append(FIRST[:-1], 700))
    found = ATTACK.attack(replace(view, earlier=(renamed,)))
    assert found.reason or len(named(found)) <= 1


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ((FIRST,), "this is the first"),
        ((FIRST, FIRST), "nobody has joined"),
        ((FIRST, np.arange(250, 500)), "but for fewer records"),
        ((FIRST, np.append(np.arange(100), np.arange(400, 500))), "but for fewer records"),
    ],
)
def test_without_a_newcomer_a_sentence_says_so(rows: Sequence[IntArray], sentence: str) -> None:
    found = ATTACK.attack(sessions(*rows))
    assert sentence in found.reason
    assert found.reason.startswith("Not possible: ")
    assert not len(named(found))


def test_batches_that_all_change_tell_no_newcomer() -> None:
    found = ATTACK.attack(sessions(FIRST, np.arange(301), batch=100, reshuffled=True))
    assert "but for fewer records" in found.reason


def test_an_id_behind_all_others_moves_few_records_to_other_batches_and_they_are_read() -> None:
    found = ATTACK.attack(sessions(FIRST, np.arange(301), batch=100))
    moved = named(found)
    assert 300 in moved
    assert len(moved) < 100
    assert (found.labels[moved] == TRUTH[moved]).mean() >= 0.7


def test_messages_all_zero_tell_nothing() -> None:
    found = ATTACK.attack(with_sums(sessions(FIRST, np.arange(301)), 0.0))
    assert found.reason.startswith("Not possible: ")
    assert not len(named(found))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_records_end_in_an_answer_or_a_sentence(rows: int) -> None:
    found = ATTACK.attack(sessions(np.arange(rows), np.arange(rows + 1)))
    assert found.reason or np.isfinite(found.probabilities[named(found)]).all()


def test_rows_that_are_all_alike_tell_nothing_or_say_how_likely() -> None:
    view = sessions(FIRST, np.arange(301))

    def alike(one: TrainingView) -> TrainingView:
        equations = tuple(
            replace(told, matrix=np.ones_like(told.matrix), sums=np.full_like(told.sums, told.sums.sum()))
            for told in one.equations
        )
        features = np.ones_like(one.features)
        return replace(one, features=features, equations=equations, earlier=tuple(map(alike, one.earlier)))

    found = ATTACK.attack(alike(view))
    assert found.reason or np.isfinite(found.probabilities[named(found)]).all()


def test_columns_that_are_scaled_otherwise_are_not_compared() -> None:
    view = sessions(FIRST, np.arange(301))
    other = view.earlier[0]
    scaled = replace(other, equations=tuple(replace(one, matrix=2 * one.matrix) for one in other.equations))
    assert ATTACK.attack(replace(view, earlier=(scaled,))).reason


def test_the_label_party_is_refused() -> None:
    with pytest.raises(ViewError, match="newcomer is a passive party's attack"):
        ATTACK.attack(view_of(planted(), 0))
