"""Known answers of curves and points of labels."""

from dataclasses import replace
from pathlib import Path

from plumbline.charts.marks import Trace
from plumbline.report.page import label_curves
from tests.harness.charts import marks_of
from tests.harness.reported import findings_of, made_run


def test_an_attack_on_two_classes_is_a_point_of_what_it_answered(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    chart = label_curves(folder, findings_of(folder))
    assert chart is not None
    assert chart.title == "Who tells class 1 from class 0"
    # It is wrong on every tenth record, all of which are of class 0: 10 of 50.
    assert "label_recovery: 100 % true at 20 % false" in chart.description
    curve = next(one for one in marks_of(chart, Trace) if one.style == "s1")
    assert len(curve.points) <= 60


def test_points_of_several_parties_say_whose_they_are(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    found = findings_of(folder)
    agreement = found.summary.agreement
    third = replace(agreement.parties[-1], name="passive-2")
    agreement = replace(agreement, parties=(*agreement.parties, third))
    chart = label_curves(folder, replace(found, summary=replace(found.summary, agreement=agreement)))
    assert chart is not None
    assert "label_recovery by passive" in chart.description


def test_more_classes_have_a_curve_each_up_to_six(tmp_path: Path) -> None:
    folder = made_run(tmp_path, classes=7)
    chart = label_curves(folder, findings_of(folder))
    assert chart is not None
    assert [one.style for one in marks_of(chart, Trace) if one.style.startswith("s")] == [
        f"s{number}" for number in range(1, 7)
    ]
    assert "Points" not in chart.description
