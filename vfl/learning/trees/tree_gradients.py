"""First and second derivatives of the log loss, as whole numbers on a public grid."""

from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Gradients:
    """Derivatives of each row's log loss by its margin.

    Attributes:
        values: (n, 2) whole numbers: g in [-unit, unit], and h in [1, unit / 4].
        unit: what stands for 1.
    """

    values: IntArray
    unit: int

    @classmethod
    def of(cls, margins: FloatArray, labels: IntArray, unit: int) -> "Gradients":
        """Compute them of (n,) margins and labels 0 or 1.

        Every h is 1 at least. Sums of h grow by every row then, so that equal ones are over the same rows.

        Examples:
            >>> Gradients.of(np.array([0.0, 0.0]), np.array([0, 1]), unit=16).values.tolist()
            [[8, 4], [-8, 4]]
        """
        # Services start without it.
        from scipy.special import expit

        probabilities = expit(margins)
        first = np.rint((probabilities - labels) * unit)
        second = np.maximum(1, np.rint(probabilities * (1 - probabilities) * unit))
        return cls(np.column_stack([first, second]).astype(np.int64), unit)


def check_labels(labels: IntArray) -> None:
    """Raise ValueError for labels of other than two classes."""
    if not np.isin(labels, (0, 1)).all():
        classes = np.unique(labels).tolist()
        raise ValueError(
            f"Boosted trees tell two classes apart, labelled 0 and 1; these labels have {len(classes)}: "
            f"{', '.join(map(str, classes[:3]))}{' ...' if len(classes) > 3 else ''}."
        )


def first_margin(labels: IntArray) -> float:
    """Give the log odds of labels, as if each class had half a row more: finite where all are alike."""
    ones = float(labels.sum()) + 0.5
    return float(np.log(ones / (len(labels) + 1 - ones)))


def bin_sums(bins: IntArray, values: IntArray, max_bin: int) -> IntArray:
    """Sum whole numbers, (s, 2), over the bins of (s, d) rows: prefix sums in the order of bins, (d, max_bin, 2).

    What is missing is in none of them.
    """
    columns, places = bins.shape[1], max_bin + 1
    keys = (bins + np.arange(columns) * places).ravel()
    sums = [
        # Weights are float64, in which such sums are exact (`TreeOptions.check_rows`).
        np.bincount(keys, weights=np.repeat(values[:, part], columns), minlength=columns * places)
        for part in range(2)
    ]
    by_bin = np.stack(sums, axis=1).astype(np.int64).reshape(columns, places, 2)
    prefixes: IntArray = np.cumsum(by_bin[:, :max_bin], axis=1)
    return prefixes
