"""A section of a page of experiments: its measurements, what is shown of them, and its plots."""

from dataclasses import dataclass

import pandas as pd

from studies.claims.statement import Statement
from studies.page.elements import HeatMap, PageTable
from studies.page.plots import Plot


@dataclass(frozen=True, eq=False)
class Section:
    """One part of a page.

    Attributes:
        name: file stem of the data.
        title: of the part.
        data: one row per measurement, tidy.
        summary: what the page shows as a table.
        plots: below it.
        notes: plain sentences: what the numbers say beside what the paper states, and what is simulated.
        maps: heat maps, above the plots.
        statements: what the paper says of this part, each with its verdict.
        advice: what a reader can act on, for the top of the page; None where a section has no choice to offer.
    """

    name: str
    title: str
    data: pd.DataFrame
    summary: pd.DataFrame
    plots: tuple[Plot, ...]
    notes: tuple[str, ...]
    advice: PageTable | None = None
    maps: tuple[HeatMap, ...] = ()
    statements: tuple[Statement, ...] = ()
