"""The federation's part that remains under each defence, with intervals over trained models.

A model is a split of the data set, trained by one optimiser; splits are what an interval is over. The best guess and
the best attack of a level are chosen on one half of the records, over all splits, and judged on the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t as student

from attacks import LEVELS, Level
from plumbline.judge.federation_part import FLOOR
from plumbline.judge.measures import Interval
from vfl.arrays import FloatArray

HALVES = ("mse_first", "mse_second")
_CONFIDENCE = 0.95
_KEYS = ["case", "optimiser", "trial"]


@dataclass(frozen=True)
class Remaining:
    """What is left of a federation's part.

    Attributes:
        e0: mean squared error of the best guess without scores.
        error: of the best attack.
        part: max(0, 1 - error / e0); None where e0 is below the judge's floor.
        guess: the best guess, or the two of them that the halves of the records chose.
        attack: the best attack, as ``guess``.
    """

    e0: Interval
    error: Interval
    part: Interval | None
    guess: str
    attack: str


def remaining_parts(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the part that remains, a row per case, optimiser, trial and level.

    Args:
        rows: one per case, optimiser, seed, trial and adversary, with the columns attack, level, awareness, and the
            mean squared errors of both halves of the records.

    Returns:
        Columns part, low, high (NaN where e0 is too small), e0, error (each with _low and _high), guess, attack.
    """
    tidy = []
    for keys, own in rows.groupby(_KEYS, sort=False):
        for level in LEVELS:
            found = remaining(own, level)
            part = found.part or Interval(np.nan, np.nan, np.nan)
            row = dict(zip(_KEYS, keys, strict=True))
            row |= {"level": level, "part": part.mean, "low": part.low, "high": part.high}
            for name, value in (("e0", found.e0), ("error", found.error)):
                row |= {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
            tidy.append(row | {"guess": found.guess, "attack": found.attack})
    return pd.DataFrame(tidy)


def remaining(rows: pd.DataFrame, level: Level) -> Remaining:
    """Measure what is left at one level of what an adversary knows beforehand; rows: of one trial and optimiser."""
    known = rows[rows["level"].isin(LEVELS[: LEVELS.index(level) + 1])]
    guesses = known["awareness"] == "guesses"
    e0, guess = _best(known[guesses])
    error, attack = _best(known[~guesses])
    part = over_models(1 - error / e0) if e0.mean() >= FLOOR else None
    if part is not None:
        part = Interval(*(min(max(end, 0.0), 1.0) for end in (part.mean, part.low, part.high)))
    return Remaining(over_models(e0), over_models(error), part, guess, attack)


def over_models(values: FloatArray | Sequence[float]) -> Interval:
    """Average (m,) numbers of m models, with Student's 95 % interval; one model has no width."""
    known = np.asarray(values, dtype=np.float64)
    mean = float(known.mean())
    if len(known) < 2 or not np.isfinite(known).all():
        return Interval(mean, mean, mean)
    reach = student.ppf((1 + _CONFIDENCE) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
    return Interval(mean, mean - float(reach), mean + float(reach))


def _best(rows: pd.DataFrame) -> tuple[FloatArray, str]:
    """Errors by model of the adversary that the other half of the records chose, and its name."""
    measured = rows[rows[HALVES[0]].notna()].assign(who=rows["attack"] + ", " + rows["awareness"])
    first, second = (measured.pivot(index="who", columns="seed", values=half) for half in HALVES)
    judged, names = [], []
    for choosing, judging in ((first, second), (second, first)):
        # Nobody is chosen who wasn't measured on all models.
        chosen = str(choosing.mean(axis=1, skipna=False).idxmin())
        judged.append(judging.loc[chosen].to_numpy(np.float64))
        names.append(chosen)
    return np.mean(judged, axis=0), " or ".join(dict.fromkeys(name.removesuffix(", guesses") for name in names))
