"""What the paper states of gradient inversion's start (section VIII-E, Figure 14).

Rows are as ``starts_section`` gives them: the column ``start_at`` is zero, half or random for gradient inversion.
"""

import pandas as pd

from studies.claims.claim import Claim, Finding
from studies.claims.kinds import among, joined
from studies.rassouli.claims.comparisons import ATTACKS, DATASETS, hidden


def _named(frame: pd.DataFrame) -> pd.DataFrame:
    """Searches called by their starts, so that guesses of 0 and 1/2, which are called alike, aren't meant."""
    searches = frame["attack"].str.startswith("gia(")
    return frame.assign(attack=frame["attack"].where(~searches, "GIA from " + frame["start_at"].astype(str)))


_ZERO, _HALF, _RANDOM = (f"GIA from {start}" for start in ("zero", "half", "random"))


def _mostly_best(rows: pd.DataFrame) -> Finding:
    found = [ATTACKS.below(_HALF, other)(rows) for other in (_ZERO, _RANDOM)]
    held = [sum(one.held) > len(one.held) / 2 for one in found if one.held]
    return Finding(held, joined(found).measured)


START_CLAIMS = (
    *Claim(
        "Figure 14",
        "Starting at 1/2 is the best.",
        among(_named, ATTACKS.below(_HALF, _ZERO, _RANDOM)),
        "For d < k every start can arrive at the one solution, and none may be nearer.",
    ).on("bank", "satellite", "synthetic"),
    *Claim(
        "Figure 14",
        "Starting at 1/2 still performs better for the most part.",
        among(_named, _mostly_best),
        "Robot's features lie far from 1/2, many of them near 0, so 0 is the nearer start.",
    ).on("robot"),
    *Claim(
        "Section VIII-E",
        "GIA is outperformed by the proposed attacks (Half*), from whatever start.",
        among(lambda frame: _named(hidden(frame)), ATTACKS.below("half_star", _ZERO, _HALF, _RANDOM)),
        "Where features lie near 0, a search that starts there has the better prior.",
    ).on(*DATASETS),
)
