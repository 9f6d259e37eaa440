"""Predicts the passive columns from the active ones, as some complete records teach it."""

from dataclasses import dataclass
from typing import ClassVar

from attacks.base import AttackSpec, require
from attacks.bayes.records import from_records
from attacks.views import PredictionView
from vfl.arrays import FloatArray


def check_records(attack: str, records: int | None) -> None:
    """Raises ValueError unless an option ``records`` is a positive number, or None for all."""
    if records is not None and records < 1:
        raise ValueError(f"{attack} can't learn from records={records}: take 1 or more, or none for all there are.")


@dataclass(frozen=True)
class Imputation:
    """Estimates what complete records predict for a record's own columns and, where known, its label. Sees no score.

    Numbers come from ridge regressions, mixed by their errors on records left out, and columns that take few values
    from a classifier as well: their estimate is the posterior mean, which for a one-hot column is its probability.
    Which columns take few values the view's moments tell, or else the records show. Labels serve where the records
    and the attacked ones have them.

    Attributes:
        records: learns from the first so many auxiliary records; None for all.

    Raises:
        ValueError: for records below 1.
    """

    name: ClassVar[str] = "imputation"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="prediction",
        knowledge="agnostic",
        needs=("auxiliary",),
        source="this project; Hoerl and Kennard 1970 with the leave-one-out errors of Allen 1974",
        summary="what complete records predict for a record, without any score: a baseline",
        cost="a second per 100 complete records",
        level="records",
        sees_scores=False,
        seconds=lambda _: 1.0,
    )

    records: int | None = None

    def __post_init__(self) -> None:
        check_records(self.name, self.records)

    def reconstruct(self, view: PredictionView) -> FloatArray:
        """Estimate features, (n, d) in [0, 1].

        Raises:
            ViewError: without auxiliary records, or where they don't fit the view.
        """
        require(self, view)
        return from_records(view, self.records).gaussian.mean
