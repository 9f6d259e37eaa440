"""Frames as tables that people read."""

import numpy as np
import pandas as pd

from studies.page.elements import frame_table


def test_a_wide_table_has_its_first_columns_between_the_rows() -> None:
    frame = pd.DataFrame({"set": ["s"] * 3, "way": ["v", "v", "w"], "start": list("aab"), "x": list("cdd")})
    table = frame_table(frame.assign(**{f"number {number}": 1.5 for number in range(9)}))
    assert table.headings[:3] == ("start", "x", "number 0")
    assert table.right == set(range(2, 11))
    numbers = ("1.500",) * 9
    assert table.rows == [("s, v",), ("a", "c", *numbers), ("", "d", *numbers), ("s, w",), ("b", "d", *numbers)]


def test_tables_show_a_group_once_and_numbers_short() -> None:
    table = frame_table(
        pd.DataFrame(
            {
                "defence": ["one", "one", "two", "two"],
                "case": ["a", "b", "b", "b"],
                "kl": [0.012345, np.inf, np.nan, 2e-30],
                "records": [1000, 2, 3, 4],
            }
        )
    )
    assert table.rows == [
        ("one", "a", "0.0123", "1,000"),
        ("", "b", "∞", "2"),
        ("two", "b", "", "3"),
        ("", "", "0", "4"),
    ]
    assert table.right == {2, 3}
    frame = pd.DataFrame({"x": [0.5, 12.345, 1234.5, 2e-5, -0.25, 3.0e7], "ok": [True, False] * 3})
    assert [row[0] for row in frame_table(frame).rows] == [
        "0.5000",
        "12.3",
        "1,234",
        "0.000020",
        "-0.2500",
        "30,000,000",
    ]
    assert frame_table(frame).rows[1][1] == "no"
    ends = pd.DataFrame(
        {"part": [0.5, 1.0], "part_low": [0.25, 1.0], "part_high": [0.75, 1.0], "other_low": [2.5, 3.5]}
    )
    assert frame_table(ends).headings == ("part", "other low")
    assert frame_table(ends).rows == [("0.5000 (0.2500 to 0.7500)", "2.500"), ("1.000", "3.500")]
    errors = pd.DataFrame({"set_name": ["a"], "x_y": [0.5], "x_y_se": [0.01], "b_c, d": [1], "z_se": [0.25]})
    assert frame_table(errors).rows == [("a", "0.5000 ± 0.0100", "1", "0.2500")]
    assert frame_table(errors).headings == ("set name", "x y", "b_c, d", "z se")
