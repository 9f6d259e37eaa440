"""A claim of a paper, beside the test that a run's rows are put to: what is said of it follows."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pandas as pd

from studies.claims.statement import Statement, Verdict, verdict_of

# The subject of a claim that names none.
ALL = "all data sets"
# What a statement without a verdict says.
NOT_HERE = "Not in this run: the data set is missing, or a quick run leaves it out."


@dataclass(frozen=True)
class Finding:
    """What a test found.

    Attributes:
        held: whether each of the things that were tested held; empty where nothing was there to test.
        measured: this run's numbers in words.
        reason: why it is so, where the numbers tell it; shown with every verdict.
        empty: whether what is claimed says nothing of these rows, such as a bound that none of them comes under.
    """

    held: Sequence[bool] = ()
    measured: str = ""
    reason: str = ""
    empty: bool = False


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
        possible: whether the paper says that it may be so: one case shows it, and no data refute it.
    """

    source: str
    paper: str
    test: Test
    reason: str = ""
    subject: str = ALL
    dataset: str = ""
    possible: bool = False

    def on(self, *datasets: str) -> tuple["Claim", ...]:
        """The same of each of these data sets."""
        return tuple(replace(self, subject=name, dataset=name) for name in datasets)

    def judged(self, rows: pd.DataFrame, of_paper: Sequence[str] = ()) -> Statement:
        """Put rows to the test; without any, it is not measured.

        A claim on all data sets isn't reproduced from some of the paper's: ``of_paper`` names these.
        """
        own = rows[rows["dataset"] == self.dataset] if self.dataset and len(rows) else rows
        found = self.test(own) if len(own) else NOTHING
        verdict, measured = self._verdict(found), found.measured if found.held else found.measured or NOT_HERE
        missing = (
            [name for name in of_paper if name not in _measured(rows)]
            if self.subject == ALL and found.held and not self.possible
            else ()
        )
        if missing:
            verdict = "in part" if verdict == "reproduced" else verdict
            measured = f"{measured} Of {len(of_paper)} data sets, {', '.join(missing)} not measured."
        reason = found.reason or (self.reason if verdict in ("in part", "differs", "not seen") else "")
        return Statement(self.source, self.subject, self.paper, verdict, measured, reason)

    def _verdict(self, found: Finding) -> Verdict:
        if found.empty and not found.held:
            return "empty"
        if self.possible and found.held:
            return "reproduced" if any(found.held) else "not seen"
        return verdict_of(found.held)


def _measured(rows: pd.DataFrame) -> set[str]:
    """The data sets of which something was measured."""
    done = rows[rows["status"] == "done"] if "status" in rows else rows
    return set(done["dataset"]) if "dataset" in done else set()


def judged(claims: Iterable[Claim], rows: pd.DataFrame, of_paper: Sequence[str] = ()) -> tuple[Statement, ...]:
    """Judge claims by the same rows; ``of_paper``: the data sets that the paper speaks of."""
    return tuple(claim.judged(rows, of_paper) for claim in claims)


def judged_here(claims: Iterable[Claim], rows: pd.DataFrame, of_paper: Sequence[str] = ()) -> tuple[Statement, ...]:
    """Judge claims by the same rows, but for those on data sets of which there are none."""
    there = set(rows["dataset"]) if len(rows) else set()
    return judged((claim for claim in claims if claim.dataset in {"", *there}), rows, of_paper)
