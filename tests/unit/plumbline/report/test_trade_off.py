"""The report's section on sets of columns: every set, the frontier with what is chosen, and nothing of it unasked."""

from dataclasses import replace
from pathlib import Path

from plumbline.charts.marks import Trace
from plumbline.judge.column_sets import WhatIf
from plumbline.report.page import write_report
from plumbline.report.trade_off import trade_off
from tests.harness.column_sets import CLOSED, COARSER, FOUND, WHOLE, columns
from tests.harness.parsed import parsed
from tests.harness.reported import FACTS, findings_of, made_run


def test_every_set_is_a_point_and_the_chosen_one_stands_out() -> None:
    chart = trade_off(replace(FOUND, confirmed=(CLOSED,)))
    assert chart is not None
    traces = [one for one in chart.marks if isinstance(one, Trace)]
    assert sum(one.style == "found point" for one in traces) == 1
    assert sum(one.style == "s2 point" for one in traces) == 1
    (line,) = [one for one in traces if one.style == "s1"]
    assert len(line.points) == len(FOUND.frontier)
    # Less leaks to the left, and what is worth less is lower.
    (whole_x, whole_y), *_, (closed_x, closed_y) = line.points
    assert closed_x < whole_x
    assert closed_y > whole_y
    assert any(one.words.startswith("employed as bins2: part 65 %") for one in traces)
    nothing = columns(float("nan"), age=0.0)
    assert trade_off(WhatIf(nothing, nothing)) is None


def test_the_page_has_a_section_where_somebody_asked(tmp_path: Path) -> None:
    folder = made_run(tmp_path)
    findings, page = findings_of(folder), tmp_path / "report.html"
    write_report(page, findings, FACTS, folder)
    assert 'id="what-if"' not in page.read_text()
    hostile = columns(0.7, "<script>alert(1)</script>", age=0.0)
    found = WhatIf(WHOLE, WHOLE, asked=(hostile, COARSER), confirmed=(hostile,), attacks=("ls",))
    write_report(page, replace(findings, what_if=found), FACTS, folder)
    root = parsed(page.read_text())
    assert root.one("h2", id="what-if").text == "What if"
    text = " ".join(root.one("main").text.split())
    assert "A federation without <script>alert(1)</script> was run" in text
    assert "employed as bins2" in text
    assert "<script>alert" not in page.read_text()
