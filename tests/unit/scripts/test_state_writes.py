"""What a step's write is measured by: the log's own writes, the same bytes each way."""

from pathlib import Path

from scripts.state_writes import compared, session_of


def test_each_way_writes_the_same_and_files_take_four_syncs_a_step(tmp_path: Path) -> None:
    in_rows, in_files, once = compared(session_of("breast_cancer", None), tmp_path, steps=6)
    assert in_files.syncs == 4
    assert in_rows.syncs is None
    assert abs(in_rows.bytes - in_files.bytes) < 8  # a number of steps or generations more
    assert once.bytes == in_files.bytes
    for spent in (in_rows, in_files, once):
        least, middle = spent.milliseconds
        assert 0 < least <= middle
    assert not list(tmp_path.iterdir())
