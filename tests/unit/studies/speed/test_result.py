"""What a benchmark found is read back as it was written, and repeated runs are told with their spread."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.speed.result import Result, ResultTable, Spread, columns_of, middle, read_result, write_result

TABLE = ResultTable(
    "steps",
    "Steps",
    columns_of(kernel="kernel", step="step, s"),
    ({"kernel": "portable", "step": Spread(2.0, 1.0, 4.0, 3)}, {"kernel": "native", "step": 1.5, "note": None}),
    ("A note.",),
)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9))
def test_a_spread_is_between_its_ends(values: list[float]) -> None:
    found = Spread.of(values)
    assert found.least == min(values) <= found.median <= max(values) == found.most
    assert found.runs == len(values)
    assert found.scaled(2.0).median == 2 * found.median


def test_a_result_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    result = Result("federation", "plumbline bench federation", (TABLE,))
    write_result(result, tmp_path / "federation.json")
    assert read_result(tmp_path / "federation.json") == result


def test_a_result_names_neither_this_machine_nor_a_path(tmp_path: Path) -> None:
    import getpass
    import platform

    text = json.dumps(Result("he", "plumbline bench he", (TABLE,)).as_json())
    assert platform.node() not in text
    assert f'"{getpass.getuser()}"' not in text
    assert str(Path.home()) not in text
    assert str(Path.cwd()) not in text


@pytest.mark.parametrize("content", ["", "{}", '{"subject": "he"}'])
def test_what_is_no_result_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "he.json").write_text(content)
    with pytest.raises(ValueError, match=r"he\.json holds no benchmark's result"):
        read_result(tmp_path / "he.json")


def test_another_version_is_refused(tmp_path: Path) -> None:
    result = Result("he", "plumbline bench he", (TABLE,), schema=2)
    write_result(result, tmp_path / "he.json")
    with pytest.raises(ValueError, match="another version: run `plumbline bench he` again"):
        read_result(tmp_path / "he.json")


def test_rows_are_found_by_their_cells() -> None:
    assert middle((TABLE.row(kernel="portable") or {})["step"]) == 2.0
    assert middle((TABLE.row(kernel="native") or {})["step"]) == 1.5
    assert TABLE.row(kernel="another") is None
    assert middle("words") is None
