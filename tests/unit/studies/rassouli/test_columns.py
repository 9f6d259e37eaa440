"""Table I and Figure 6 on synthetic data."""

import numpy as np

from studies.measurements import SweepOptions
from studies.rassouli.columns import columns_section, described
from studies.simulation.scaled_tables import ScaledTable
from studies.study import StudyRun


def test_a_table_is_described() -> None:
    features = np.array([[0.0, 1.0], [1.0, 0.5], [0.5, 0.0]])
    table = ScaledTable("made up", features, np.array([0, 1, 1]), ("a", "b"), ("no", "yes"))
    found = described(table, draw=7)
    assert (found["records"], found["features"], found["classes"], found["draw"]) == (3, 2, 2, 7)
    assert found["mean"] == [0.5, 0.5]
    np.testing.assert_allclose(found["variance"], [1 / 6, 1 / 6])


def test_the_synthetic_data_are_of_the_papers_size_and_others_are_named_as_skipped() -> None:
    section = columns_section(StudyRun(SweepOptions(workers=1), quick=True))
    (row,) = section.summary.to_dict("records")
    assert (row["records"], row["columns"], row["classes"]) == (50_000, 10, 2)
    assert row["records"] == row["records (paper)"]
    assert section.data["draw"].nunique() == 3
    assert {note.split(" ")[0] for note in section.notes if "is skipped" in note} == {
        "bank",
        "robot",
        "satellite",
        "bank_code",
    }
    verdicts = {(one.source, one.subject): one.verdict for one in section.statements}
    assert verdicts["Table I", "synthetic"] == "reproduced"
    assert verdicts["Table I", "robot"] == "not measured"
