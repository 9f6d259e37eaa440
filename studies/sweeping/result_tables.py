"""A sweep's results on a terminal: mean errors by attack and d, and what became of the cells."""

from collections.abc import Sequence

import pandas as pd
from rich.console import Console
from rich.table import Table

from plumbline.terminal import shown_text
from studies.sweeping.sweeping import means_of, tally_of

# As wide as a terminal: more values of d stand in the file.
_MOST_SIZES = 7
_MOST_REASONS = 12


def print_results(console: Console, results: pd.DataFrame) -> None:
    """Show mean errors with the number of cells behind each, and why cells have none."""
    means = means_of(results)
    for dataset, own in means.groupby("dataset", sort=False):
        console.print(_table(str(dataset), own.drop(columns="dataset")))
    tally = tally_of(results)
    counts = f"{tally.done:,} cells done, {tally.not_applicable:,} not applicable, {tally.failed:,} failed."
    console.print(counts, highlight=False, style="bold" if not tally.failed else "bold red")
    for status, reason, count in tally.reasons[:_MOST_REASONS]:
        console.print(shown_text(f"{count:,} {status}: {reason}"), highlight=False, soft_wrap=True)
    if (more := len(tally.reasons) - _MOST_REASONS) > 0:
        console.print(f"{more} more reasons stand in the results.", highlight=False)


def _table(dataset: str, means: pd.DataFrame) -> Table:
    """One data set: a row per attack and all else that varies, a column per d."""
    sizes = _spread(sorted(means["d"].unique()))
    shown = Table(
        title=f"{dataset}: mean squared error per feature (cells)",
        caption="" if len(sizes) == means["d"].nunique() else "Some d; the results have all.",
    )
    keys = [name for name in means.columns if name not in ("d", "mse", "guess", "federation_part", "cells")]
    for name in keys:
        shown.add_column(name, overflow="fold")
    for size in sizes:
        shown.add_column(f"d = {size}", justify="right")
    for values, own in means.groupby(keys, sort=False):
        at = own.set_index("d")
        cells = (f"{at.mse[size]:.4f} ({at.cells[size]})" if size in at.index else "" for size in sizes)
        shown.add_row(*(shown_text(str(value)) for value in values), *cells)
    return shown


def _spread(sizes: Sequence[int]) -> list[int]:
    """At most so many of them, the first and the last among them."""
    if len(sizes) <= _MOST_SIZES:
        return list(sizes)
    last = len(sizes) - 1
    return [sizes[round(step * last / (_MOST_SIZES - 1))] for step in range(_MOST_SIZES)]
