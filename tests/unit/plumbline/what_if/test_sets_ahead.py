"""A search's progress holds: what was promised only shrinks, no bar goes back, and the end is reached."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from plumbline.job_progress import RunProgress
from plumbline.judge.column_sets import Change, ColumnPart, ColumnSet
from plumbline.what_if.searching import frontier, most_sets, removals
from plumbline.what_if.sets_ahead import SetsAhead


class Told(RunProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.far: list[tuple[int, int]] = []

    def at(self, done: int, planned: int, what: str = "") -> None:
        self.far.append((done, planned))


def measured(told: Sequence[float], changes: Sequence[Change]) -> ColumnSet:
    gone = {one.column for one in changes}
    # What is left tells more as others go, so that some come to leak that didn't.
    parts = {str(at): min(1.0, part + 0.05 * len(gone)) for at, part in enumerate(told) if str(at) not in gone}
    columns = [ColumnPart("passive", name, part, part >= 0.1) for name, part in parts.items()]
    return ColumnSet(tuple(changes), tuple(columns), 0.7)


@settings(max_examples=20)
@given(told=st.lists(st.floats(0, 1), min_size=2, max_size=9))
def test_what_is_promised_only_shrinks_and_is_reached(told: list[float]) -> None:
    progress = Told()
    ahead = SetsAhead(progress)

    def measure(sets: Sequence[tuple[Change, ...]]) -> list[ColumnSet]:
        done = ahead.measuring(len(sets))
        for share in (0.0, 0.4, 1.0):
            done(share)
        return [measured(told, one) for one in sets]

    whole = measured(told, ())
    without = [measured(told, (change,)) for change in removals(whole).values()]
    ahead.expect(most_sets(len(without)))
    frontier(whole, without, measure, measure, ahead.expect)
    shares = [done / planned for done, planned in progress.far]
    assert shares == sorted(shares)
    planned = [planned for _, planned in progress.far]
    assert planned == sorted(planned, reverse=True)
    if len(planned) > 1:
        done, last = progress.far[-1]
        assert done == last


def test_more_than_was_promised_takes_nothing_back() -> None:
    progress = Told()
    ahead = SetsAhead(progress)
    ahead.expect(2)
    for _ in range(3):
        ahead.measuring(2)(1.0)
    assert progress.far == [(0, 2), (2, 2), (4, 4), (6, 6)]


def test_nothing_is_promised_before_anybody_knows() -> None:
    progress = Told()
    SetsAhead(progress).measuring(0)(1.0)
    assert progress.far == []
