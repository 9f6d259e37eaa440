"""A claim of a paper, beside the test that a run's rows are put to: what is said of it follows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pandas as pd

from studies.claims.statement import Statement, verdict_of

# What a statement without a verdict says.
NOT_HERE = "Not in this run: the data set is missing, or a quick run leaves it out."


@dataclass(frozen=True)
class Finding:
    """What a test found.

    Attributes:
        held: whether each of the things that were tested held; empty where nothing was there to test.
        measured: this run's numbers in words.
        reason: why it is so, where the numbers tell it; shown with every verdict.
    """

    held: Sequence[bool] = ()
    measured: str = ""
    reason: str = ""


NOTHING = Finding()
Test: TypeAlias = Callable[[pd.DataFrame], Finding]


@dataclass(frozen=True)
class Claim:
    """One thing that a paper says of its experiments, and how it is judged.

    Attributes:
        source: where: "Figure 4, Remark 8".
        paper: what it says, in our words.
        test: of a run's rows, of which there is one at least.
        reason: why it may come out otherwise, where that is known; shown where it does.
        subject: of what.
        dataset: whose rows are tested; empty for all.
    """

    source: str
    paper: str
    test: Test
    reason: str = ""
    subject: str = "all data sets"
    dataset: str = ""

    def on(self, *datasets: str) -> tuple["Claim", ...]:
        """The same of each of these data sets."""
        return tuple(replace(self, subject=name, dataset=name) for name in datasets)

    def judged(self, rows: pd.DataFrame) -> Statement:
        """Put rows to the test; without any, it is not measured."""
        own = rows[rows["dataset"] == self.dataset] if self.dataset and len(rows) else rows
        found = self.test(own) if len(own) else NOTHING
        verdict = verdict_of(found.held)
        differs = verdict in ("in part", "differs")
        measured = found.measured if found.held else found.measured or NOT_HERE
        reason = found.reason or (self.reason if differs else "")
        return Statement(self.source, self.subject, self.paper, verdict, measured, reason)


def judged(claims: Iterable[Claim], rows: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge claims by the same rows."""
    return tuple(claim.judged(rows) for claim in claims)


def judged_here(claims: Iterable[Claim], rows: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge claims by the same rows, but for those on data sets of which there are none."""
    there = set(rows["dataset"]) if len(rows) else set()
    return judged((claim for claim in claims if claim.dataset in {"", *there}), rows)
