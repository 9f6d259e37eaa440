"""What the paper states of its data: Table I, and of Figure 6 in sections VIII-B and VIII-E.

Rows are as ``columns_section`` gives them: a row per data set, draw and column.
"""

from functools import partial

import pandas as pd

from studies.claims.claim import Claim, Finding
from studies.claims.kinds import equal
from studies.page.elements import number_words

# Records, columns and classes, as printed.
TABLE_1 = {"bank": (41_188, 19, 2), "robot": (5_456, 24, 4), "satellite": (6_430, 36, 6), "synthetic": (50_000, 10, 2)}
_WHY = {"satellite": "The source has 6,435 records; nothing in it tells which five the paper left out."}
_WORDS = "{records:,} records, {features} features, {classes} classes."
_NEAR_HALF = 0.1


def _near_half(own: pd.DataFrame) -> Finding:
    near = ((own["mean"] - 0.5).abs() < _NEAR_HALF).groupby(own["draw"]).mean()
    return Finding(
        [*(near == 1), *(near > 0.5)], f"the means of {near.mean():.0%} of the columns are within {_NEAR_HALF} of 1/2"
    )


def _nearer_than_robot(name: str, rows: pd.DataFrame) -> Finding:
    own, robot = (rows[rows["dataset"] == one] for one in (name, "robot"))
    if not (len(own) and len(robot)):
        return Finding()
    near, far = (float((one["mean"] - 0.5).abs().mean()) for one in (own, robot))
    words = f"on average {number_words(near)} from 1/2, robot {number_words(far)}; their values vary by "
    return Finding([near < far], words + number_words(float(own["variance"].mean())))


COLUMN_CLAIMS = (
    *(
        one
        for name, counts in TABLE_1.items()
        for printed in [dict(zip(("records", "features", "classes"), counts, strict=True))]
        for one in Claim(
            "Table I",
            _WORDS.format(**printed),
            equal(printed, lambda found: _WORDS.format(**found)),
            _WHY.get(name, ""),
        ).on(name)
    ),
    *Claim("Section VIII-B, Figure 6", "All the feature values are close to 1/2.", _near_half).on(
        "satellite", "synthetic"
    ),
    *(
        Claim(
            "Section VIII-E, Figure 6",
            "Features have a mean close to 1/2, robot's are relatively far from it.",
            partial(_nearer_than_robot, name),
            "Single columns lie far to both sides, and only the mean of the means is near 1/2.",
            name,
        )
        for name in ("bank", "satellite", "synthetic")
    ),
)
