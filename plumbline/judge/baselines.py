"""What can be guessed of passive columns without any score: constants, and imputations from complete records."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

import attacks
from attacks import AuxiliaryRows, Level, PassiveMoments, PredictionView
from plumbline.judge.federation_part import Losses
from plumbline.judge.measures import misses, squared_errors
from vfl.arrays import FloatArray, IntArray

# How many complete records an adversary holds, as far as an audit declares so many.
IMPUTATION_RECORDS = (30, 100, 1_000)
# What can be guessed of a column whose public range is [0, 1].
_PUBLIC = {"guessing 0": 0.0, "guessing 1/2": 0.5, "guessing 1": 1.0}
# Values to which this much of floating point's noise is no difference.
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class Predictor:
    """What one adversary takes every judged cell for.

    Attributes:
        name: of the attack, or of the guess without scores.
        level: what its adversary knows beforehand.
        estimate: (n, d), on the columns' encoded scale.
    """

    name: str
    level: Level
    estimate: FloatArray

    def of_records(self, rows: IntArray) -> "Predictor":
        """The same guess of some of the records."""
        return Predictor(self.name, self.level, self.estimate[rows])


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What an active party has besides scores, for guesses that see none.

    Attributes:
        features_active: (n, d_a) its own columns of the judged records, in [0, 1].
        labels: (n,) classes of these records, as indices; None where it has none.
        auxiliary_active: (t, d_a) its own columns of the complete records that it is declared to hold.
        auxiliary_passive: (t, d) the passive columns of those.
        auxiliary_labels: (t,) classes of those; None where it has none.
        groups: which passive columns are the one-hot features of one category, exactly one of which is 1.
    """

    features_active: FloatArray
    labels: IntArray | None
    auxiliary_active: FloatArray
    auxiliary_passive: FloatArray
    auxiliary_labels: IntArray | None
    groups: tuple[IntArray, ...] = ()


def imputations(knowledge: Knowledge) -> list[Predictor]:
    """Predict the passive columns from what the active party owns, with 30, 100 and 1,000 of its complete records.

    Where it holds fewer, all of them are taken once; where it holds none, nothing is predicted.
    """
    held = len(knowledge.auxiliary_passive)
    counts = sorted({count for count in IMPUTATION_RECORDS if count <= held} | ({held} if held else set()))
    with threadpool_limits(1):  # hundreds of small fits, which several threads only keep each other from
        return [_imputation(knowledge, count) for count in counts]


def _imputation(knowledge: Knowledge, count: int) -> Predictor:
    labels = knowledge.auxiliary_labels
    view = PredictionView(
        features_active=knowledge.features_active,
        record_labels=knowledge.labels,
        passive_features=knowledge.auxiliary_passive.shape[1],
        moments=PassiveMoments(
            knowledge.auxiliary_passive[:count].mean(axis=0),
            knowledge.auxiliary_passive[:count].var(axis=0),
            groups=knowledge.groups,
        ),
        auxiliary=AuxiliaryRows(
            knowledge.auxiliary_active[:count],
            knowledge.auxiliary_passive[:count],
            np.empty((count, 0)),  # it looks at no score
            None if labels is None else labels[:count],
        ),
    )
    estimate = attacks.load_prediction("imputation").reconstruct(view)
    return Predictor(f"imputation from {count:,} records", "records", estimate)


def squared_losses(truth: FloatArray, predictors: Sequence[Predictor]) -> list[Losses]:
    """Squared errors of predictors of (n, d) cells."""
    return [Losses(one.name, one.level, squared_errors(truth, one.estimate)) for one in predictors]


def missing_losses(truth: FloatArray, predictors: Sequence[Predictor], tolerance: FloatArray) -> list[Losses]:
    """1 where predictors of (n, d) cells are off by more than their column's (d,) tolerance, else 0."""
    return [Losses(one.name, one.level, misses(truth, one.estimate, tolerance)) for one in predictors]


def constants(truth: FloatArray) -> list[Predictor]:
    """Guess one value for all records: what public ranges suggest and, for who knows marginals, each column's mean.

    The mean is that of the judged (n, d) cells themselves: no other constant has a smaller squared error on them.
    """
    mean = Predictor("its mean", "marginals", np.broadcast_to(truth.mean(axis=0), truth.shape))
    return [*_public_guesses(truth), mean]


def densest_constants(truth: FloatArray, tolerance: FloatArray) -> list[Predictor]:
    """Guess one value for all records, to be within a (d,) tolerance: public ranges, the mean, the densest place.

    The densest place is that of the judged (n, d) cells themselves: no other constant is as often within tolerance.
    """
    places = [_densest(column, width) for column, width in zip(truth.T, tolerance, strict=True)]
    densest = Predictor("its densest place", "marginals", np.broadcast_to(np.array(places), truth.shape))
    return [*constants(truth), densest]


def _public_guesses(truth: FloatArray) -> list[Predictor]:
    return [Predictor(name, "nothing", np.full_like(truth, value)) for name, value in _PUBLIC.items()]


def _densest(column: FloatArray, tolerance: float) -> float:
    """The middle of the interval of width 2 tolerance that holds most of a column's values."""
    ordered = np.sort(column)
    held = np.searchsorted(ordered, ordered + 2 * tolerance + _SAME, side="right") - np.arange(len(ordered))
    return float(ordered[held.argmax()] + tolerance)
