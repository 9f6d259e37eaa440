"""docs/benchmarks.md is what the results say, and targets are compared, not typed."""

from dataclasses import replace

import pytest

from studies.speed.page import PAGE, Results, Target, page_of, read_results, targets
from studies.speed.result import Result, ResultTable, Spread, columns_of


def results(one_hot: float, dense: float) -> Results:
    columns = columns_of(variant="variant", product="product")
    tables = tuple(
        ResultTable(key, key, columns, ({"variant": "ours, portable", "product": Spread(seconds, 0.1, 9.0, 3)},))
        for key, seconds in (("one-hot 100", one_hot), ("dense 100", dense))
    )
    return {"he": Result("he", "plumbline bench he", tables)}


def test_the_page_is_made_from_the_results() -> None:
    assert PAGE.read_text() == page_of(read_results()), "stale: run `python -m studies.speed.page`"


@pytest.mark.parametrize(("one_hot", "shown"), [(0.1, "| 10.0 | yes |"), (0.5, "| 2.00 | **no** |")])
def test_a_target_is_compared_with_what_was_found(one_hot: float, shown: str) -> None:
    page = page_of(results(one_hot, 1.0))
    (line,) = [line for line in page.splitlines() if "100 one-hot columns: times" in line]
    assert line.endswith(f"| ≥ 5 {shown}")


def test_what_was_not_measured_neither_holds_nor_fails() -> None:
    page = page_of({})
    assert "not measured" in page
    assert "yes" not in page.partition("## What was asked for")[2]


def test_native_targets_need_the_instructions() -> None:
    found = results(0.1, 1.0)
    machine = found["he"].machine
    without = {"he": replace(found["he"], machine=replace(machine, flags=()))}
    with_them = {"he": replace(found["he"], machine=replace(machine, flags=("avx512ifma",)))}
    assert sum("(native)" in one.words for one in targets(without)) < sum(
        "(native)" in one.words for one in targets(with_them)
    )


def test_a_limit_holds_at_its_end() -> None:
    least, most = Target("", 2, None, None), Target("", None, 2, None)
    assert (least.holds(2), least.holds(1.99), most.holds(2), most.holds(2.01)) == (True, False, True, False)
    assert (least.asked, most.asked) == ("≥ 2", "≤ 2")
