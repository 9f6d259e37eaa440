"""Labels by listening to the same batches again and again, where the label party has few columns."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.solving.lattices import has_flint
from attacks.training.label_recovery import LabelRecovery
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training.unmoved_sums import about_the_same_rows, labels_of_unmoved_sums
from attacks.training_views import TrainingView
from tests.harness.agreements import agreed, channel
from tests.harness.listening import SHARE_STEP, planted, seen, trained, view_of
from vfl.arrays import IntArray
from vfl.theory.training import OracleRun

pytestmark = pytest.mark.skipif(not has_flint(), reason="needs python-flint, of the extra lab")


def fixed(label_columns: int, start: int = 0, epochs: int = 60) -> OracleRun:
    """Shuffled labels of 128 records in two batches of 64: no classifier knows them."""
    rows = np.random.default_rng(1).permutation(569)[:128]
    return trained(0, rows=rows, epochs=epochs, batch=64, reshuffled=False, label_columns=label_columns, start=start)


def joined(runs: list[OracleRun]) -> TrainingView:
    """The view of the last session, which remembers those before."""
    views = [replace(seen(run), records=np.arange(128)) for run in runs]
    return replace(views[-1], earlier=tuple(views[:-1]))


def is_heard(label_columns: int) -> bool:
    return channel(agreed(features=(label_columns + 1, 30 - label_columns), truncating=("active",)), rows=64).is_heard


@pytest.mark.parametrize("label_columns", [1, 3])
def test_few_columns_leave_all_labels_to_who_listens_and_the_guard_says_so(label_columns: int) -> None:
    run = fixed(label_columns)
    found = LabelRecovery().attack(seen(run))
    assert (found.labels == run.labels).all()
    assert found.guaranteed.all()
    assert is_heard(label_columns)


def test_sessions_of_the_same_batches_add_up_where_one_is_not_enough() -> None:
    runs = [fixed(10, start, epochs=8) for start in range(14)]
    assert (LabelRecovery().attack(seen(runs[-1])).labels == UNRESOLVED).all()
    assert (LabelRecovery().attack(joined(runs)).labels == runs[-1].labels).all()
    assert is_heard(10)


def test_as_many_columns_as_sums_leave_nothing_in_any_number_of_sessions() -> None:
    found = LabelRecovery().attack(joined([fixed(15, start, epochs=8) for start in range(18)]))
    assert (found.labels == UNRESOLVED).all()
    assert not is_heard(15)


def test_sums_of_other_numbers_than_labels_are_no_labels() -> None:
    view = seen(fixed(1))
    weights = np.random.default_rng(0).normal(size=(128, 1))
    noisy = tuple(replace(one, sums=one.sums + one.matrix.T @ weights[one.rows]) for one in view.equations)
    _, equations = about_the_same_rows(replace(view, equations=noisy))[0]
    assert labels_of_unmoved_sums(equations, 2, 2, SHARE_STEP, 320).reason == "no choice of labels that fits was found"


def test_each_of_several_classes_is_read() -> None:
    run = planted(rows=30, batch=30, parties=(1, 20), epochs=8, classes=3, initialisation="xavier", learning_rate=0.5)
    found = LabelRecovery().attack(view_of(run, 1, "xavier"))
    assert (found.labels == run.labels).all()


def test_one_class_and_equal_rows_end_in_an_answer_or_a_sentence() -> None:
    one_class: IntArray = np.ones(569, dtype=np.int64)
    run = trained(0, rows=np.arange(64), epochs=8, batch=64, label_columns=1, labels=one_class)
    assert set(LabelRecovery().attack(seen(run)).labels) <= {1, UNRESOLVED}
    view = seen(run)
    alike = np.tile(view.features[:1], (64, 1))
    equations = tuple(
        replace(one, matrix=alike, sums=alike.T @ np.full((64, 1), one.sums[0, 0])) for one in view.equations
    )
    found = LabelRecovery().attack(replace(view, features=alike, equations=equations))
    assert (found.labels == UNRESOLVED).all()


def test_ten_thousand_columns_of_which_most_are_zero_take_no_room() -> None:
    view = seen(fixed(1, epochs=3))
    wide = np.hstack([view.features[:, :2], np.zeros((128, 9_998))])
    equations = tuple(
        replace(one, matrix=wide[one.rows], sums=np.vstack([one.sums[:2], np.zeros((9_998, 1))]))
        for one in view.equations
    )
    _, told = about_the_same_rows(replace(view, features=wide, equations=equations))[0]
    assert labels_of_unmoved_sums(told, 2, 2, SHARE_STEP, 320).labels is None
