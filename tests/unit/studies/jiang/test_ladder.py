"""The ladder of networks trained in the federation, on data that scikit-learn brings."""

from typing import Any

import pytest

from studies.jiang.inversion.inversion_setting import Grid
from studies.jiang.ladder import GUESS, MODEL, RUNGS, ladder
from studies.measurements import SweepOptions
from studies.study import StudyRun

pytest.importorskip("torch")


def test_each_rung_shows_less_of_labels_and_all_but_the_last_as_much_of_columns() -> None:
    section = ladder(StudyRun(SweepOptions(workers=1), quick=True), Grid(("breast_cancer",), ratios=(0.5,), seeds=1))
    data: Any = section.data.set_index(["curve", "rung"])
    assert data.loc[MODEL, "auc"].nunique() == 1
    assert data.loc[MODEL, "auc"].iloc[0] > 0.95
    assert data.loc[("gradient_direction", "plain"), "label_auc"] > 0.99
    assert data.loc[("batch_inversion", "plain"), "label_auc"] > 0.99
    # Summed over a batch and encrypted, the signal still tells labels; shared it isn't read.
    assert data.loc[("batch_inversion", "paillier"), "label_auc"] > 0.9
    mounted = [(attack, rung) for attack, rung in data.index if data.loc[(attack, rung), "status"] == "done"]
    on_shared = {attack for attack, rung in mounted if rung == "shared"}
    assert on_shared == {MODEL, GUESS, "hidden_space"}
    # Sixteen sums of fifteen columns, with their weights: all is told, and by none where nobody has them.
    assert data.loc[("ls", "paillier"), "left"] < 1e-6
    assert data.loc["hidden_space", "left"].max() < 0.01
    assert len(section.plots[0].panels) == len(RUNGS)
    assert not section.summary.isna().any().any()
