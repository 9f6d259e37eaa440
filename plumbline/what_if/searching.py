"""Which columns to leave out: each by itself, and one after another as long as anything leaks."""

from collections.abc import Callable, Sequence

from plumbline.judge.column_sets import DROP, Change, ColumnSet, least_leaking

# Measures federations with these changes, in their order.
Measure = Callable[[Sequence[tuple[Change, ...]]], Sequence[ColumnSet]]
# Of the columns that still leak, so many are tried in a step: those that leak most.
MOST_TRIED = 4


def each_left_out(all_columns: ColumnSet, measure: Measure) -> tuple[ColumnSet, ...]:
    """Measure the federation without each column by itself; a party's only column stays."""
    return tuple(measure([(one,) for one in removals(all_columns).values()]))


def most_sets(columns: int) -> int:
    """Bound how many sets a search measures that has so many columns before it: any may come to leak, and go."""
    return sum(1 + min(MOST_TRIED, left) for left in range(1, columns + 1))


def frontier(
    all_columns: ColumnSet,
    without: Sequence[ColumnSet],
    measure: Measure,
    glance: Measure,
    expect: Callable[[int], None] = lambda _: None,
) -> tuple[ColumnSet, ...]:
    """Leave one column after another out, each time the one whose absence leaves least, until nothing leaks.

    A step tries the columns that leak. It is greedy: two that only help together are not found.

    Args:
        all_columns: the federation of all columns.
        without: the same without each column by itself.
        measure: measures sets.
        glance: measures them in less time, to choose among.
        expect: told before a step how many sets are still to be measured, at most.

    Returns:
        The whole, and the set after each step.
    """
    path, tried = [all_columns], tuple(without)
    while path[-1].exposed and tried:
        best = least_leaking(tried)
        path += [best] if best in without else measure([best.changes])
        removable = removals(path[-1])
        leaking = [removable[one.party, one.column] for one in path[-1].exposed if (one.party, one.column) in removable]
        expect(most_sets(len(removable)) if leaking else 0)
        tried = tuple(glance([tuple(sorted((*path[-1].changes, one))) for one in leaking[:MOST_TRIED]]))
    return tuple(path)


def removals(columns: ColumnSet) -> dict[tuple[str, str], Change]:
    """List what leaves a column out, by party and column, of every column whose party has others."""
    owners = [one.party for one in columns.columns]
    return {
        (one.party, one.column): Change(one.party, one.column, DROP)
        for one in columns.columns
        if owners.count(one.party) > 1
    }
