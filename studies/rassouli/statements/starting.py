"""What the paper states of gradient inversion's start (section VIII-E, Figure 14).

Functions take rows as ``starts_section`` gives them: the column ``start_at`` is zero, half or random for gradient
inversion.
"""

from collections.abc import Iterator

import pandas as pd

from studies.claims.statement import Statement, verdict_of
from studies.rassouli.statements.comparisons import below_at, below_words, each, paired

_DATASETS = ("bank", "satellite", "synthetic")
_SEARCHES = ("zero", "half", "random")


def start_statements(frame: pd.DataFrame) -> tuple[Statement, ...]:
    """All statements on the start, each computed from the rows."""
    # Guesses of 0 and 1/2 are called as the starts are: only searches are compared with each other.
    searches = frame[frame["attack"].str.startswith("gia(")].assign(attack=lambda one: one["start_at"])
    return (*_half_is_best(searches), *_robot(searches), *_outperformed(frame))


def _against_others(own: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {other: paired(own, "half", other) for other in ("zero", "random")}


def _half_is_best(searches: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(searches, _DATASETS):
        pairs = _against_others(own)
        held = [one for both in pairs.values() for one in below_at(both)]
        yield Statement(
            "Figure 14",
            name,
            "Starting at 1/2 is the best.",
            verdict_of(held),
            "; ".join(f"beside {other}: {below_words(both)}" for other, both in pairs.items()),
            _where_not(pairs, name),
        )


def _where_not(pairs: dict[str, pd.DataFrame], name: str) -> str:
    lost = {
        other: [str(d) for d, one in zip(sorted(both["d"].unique()), below_at(both), strict=True) if not one]
        for other, both in pairs.items()
    }
    if not any(lost.values()):
        return ""
    listed = "; ".join(f"against {other} at d = {', '.join(where)}" for other, where in lost.items() if where)
    return f"Not so on {name} {listed}. For d < k every start can arrive at the one solution, and none may be nearer."


def _robot(searches: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(searches, ("robot",)):
        pairs = _against_others(own)
        held = [sum(found) > len(found) / 2 for both in pairs.values() if (found := below_at(both))]
        yield Statement(
            "Figure 14",
            name,
            "Starting at 1/2 still performs better for the most part.",
            verdict_of(held),
            "; ".join(f"beside {other}: {below_words(both)}" for other, both in pairs.items()),
            "" if all(held) else "Robot's features lie far from 1/2, many of them near 0, so 0 is the nearer start.",
        )


def _outperformed(frame: pd.DataFrame) -> Iterator[Statement]:
    hidden = frame[frame["d"] >= frame["k"]]
    searches = hidden["attack"].str.startswith("gia(")
    named = hidden.assign(attack=hidden["attack"].where(~searches, "gia from " + hidden["start_at"]))
    for name, own in each(named, ("bank", "robot", "satellite", "synthetic")):
        held, said = [], []
        for start in _SEARCHES:
            found = below_at(both := paired(own, "half_star", f"gia from {start}"))
            held += found
            said.append(f"{start}: {below_words(both)}" if found else "")
        yield Statement(
            "Section VIII-E",
            name,
            "GIA is outperformed by the proposed attacks (Half*), from whatever start.",
            verdict_of(held),
            "; ".join(one for one in said if one),
            "" if all(held) else "Where features lie near 0, a search that starts there has the better prior.",
        )
