"""What the paper states of its data: Table I, and of Figure 6 in sections VIII-B and VIII-E.

Every function takes rows as ``columns_section`` gives them: a row per data set, draw and column.
"""

from collections.abc import Iterator

import pandas as pd

from studies.claims.statement import Statement, verdict_of
from studies.page.elements import number_words

_TABLE = {
    "bank": (41_188, 19, 2),
    "robot": (5_456, 24, 4),
    "satellite": (6_430, 36, 6),
    "synthetic": (50_000, 10, 2),
}
_WHY = {"satellite": "The source has 6,435 records; nothing in it tells which five the paper left out."}
_FAR = (
    "Single columns of {name} lie far to both sides, and only the mean of the means is near 1/2; their values vary by "
    "{variance} besides."
)
_NEAR_HALF = 0.1


def column_statements(frame: pd.DataFrame) -> tuple[Statement, ...]:
    """All statements on the data, each computed from the rows."""
    return (*_sizes(frame), *_near_half(frame), *_nearer_than_robot(frame))


def _sizes(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, paper in _TABLE.items():
        own = frame[frame["dataset"] == name]
        found = tuple(own[["records", "features", "classes"]].iloc[0].astype(int)) if len(own) else ()
        held = [ours == theirs for ours, theirs in zip(found, paper, strict=False)]
        yield Statement(
            "Table I",
            name,
            f"{paper[0]:,} records, {paper[1]} features, {paper[2]} classes.",
            verdict_of(held),
            f"{found[0]:,} records, {found[1]} features, {found[2]} classes" if found else "",
            "" if all(held) else _WHY.get(name, ""),
        )


def _distance(frame: pd.DataFrame, name: str) -> float | None:
    own = frame[frame["dataset"] == name]
    return float((own["mean"] - 0.5).abs().mean()) if len(own) else None


def _near_half(frame: pd.DataFrame) -> Iterator[Statement]:
    for name in ("satellite", "synthetic"):
        own = frame[frame["dataset"] == name]
        near = ((own["mean"] - 0.5).abs() < _NEAR_HALF).groupby(own["draw"]).mean()
        yield Statement(
            "Section VIII-B, Figure 6",
            name,
            "All the feature values are close to 1/2.",
            verdict_of([bool(share == 1) for share in near] + [bool(share > 0.5) for share in near]),
            f"the means of {near.mean():.0%} of the columns are within {_NEAR_HALF} of 1/2" if len(near) else "",
        )


def _nearer_than_robot(frame: pd.DataFrame) -> Iterator[Statement]:
    robot = _distance(frame, "robot")
    for name in ("bank", "satellite", "synthetic"):
        own = _distance(frame, name)
        measured = own is not None and robot is not None
        variance = float(frame.loc[frame["dataset"] == name, "variance"].mean()) if own is not None else 0.0
        yield Statement(
            "Section VIII-E, Figure 6",
            name,
            "Features have a mean close to 1/2, robot's are relatively far from it.",
            verdict_of([own < robot] if own is not None and robot is not None else []),
            f"on average {number_words(own or 0)} from 1/2, robot {number_words(robot or 0)}" if measured else "",
            ""
            if not measured or (own or 0) < (robot or 0)
            else _FAR.format(name=name, variance=number_words(variance)),
        )
