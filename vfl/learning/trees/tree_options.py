"""Options of boosted trees, named as XGBoost names them where it has them."""

from dataclasses import dataclass

_LARGEST = 1e9
MOST_TREES = 10_000
# Sums of so many bits are exact in a float64, in which bins are added up and gains computed.
_EXACT_BITS = 53


@dataclass(frozen=True)
class TreeOptions:
    """How trees are grown (Chen and Guestrin 2016, of the log loss).

    Attributes:
        n_estimators: Trees at most.
        max_depth: Divisions from a root to its deepest leaves, 3 to 6.
        learning_rate: What a leaf's weight is multiplied by.
        reg_lambda: Added to a sum of second derivatives wherever something is divided by it.
        gamma: The least gain of a division.
        min_child_weight: The least sum of second derivatives on either side of a division.
        min_rows_of_a_node: The fewest rows on either side of a division, so many that its second derivatives prove it.
            Sums over few rows tell most about each.
        subsample: Share of the training rows that each tree is grown on.
        colsample_bytree: Share of each party's columns that each tree may divide by, one column at least.
        max_bin: Bins of a column, 2 to 255; rows without a value have one more.
        early_stopping_rounds: Trees without a better log loss of the validation rows after which no more are grown;
            0 grows all of them.
        own_trees: Trees that the label party grows before these, on its own columns alone, and tells nobody of: what
            routes tell of labels is what these leave open.
        gradient_bits: Fraction bits of the first and second derivatives.
    """

    n_estimators: int = 100
    max_depth: int = 5
    learning_rate: float = 0.3
    reg_lambda: float = 1.0
    gamma: float = 0.0
    min_child_weight: float = 1.0
    min_rows_of_a_node: int = 20
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    max_bin: int = 32
    early_stopping_rounds: int = 0
    own_trees: int = 0
    gradient_bits: int = 18

    def __post_init__(self) -> None:
        _check_range("n_estimators", self.n_estimators, 1, MOST_TREES)
        _check_range("max_depth", self.max_depth, 3, 6)
        _check_range("reg_lambda", self.reg_lambda, 0, _LARGEST)
        _check_range("gamma", self.gamma, 0, _LARGEST)
        _check_range("min_child_weight", self.min_child_weight, 0, _LARGEST)
        _check_range("min_rows_of_a_node", self.min_rows_of_a_node, 1, _LARGEST)
        _check_range("max_bin", self.max_bin, 2, 255)
        _check_range("early_stopping_rounds", self.early_stopping_rounds, 0, 10_000)
        _check_range("own_trees", self.own_trees, 0, MOST_TREES)
        _check_range("gradient_bits", self.gradient_bits, 4, 30)
        for name in ("learning_rate", "subsample", "colsample_bytree"):
            if not 0 < (value := getattr(self, name)) <= 1:
                raise ValueError(f"Expected {name} to be positive, and 1 at most, got {value!r}.")

    @property
    def unit(self) -> int:
        """The whole number that stands for 1 on the grid of derivatives."""
        return 1 << self.gradient_bits

    def check_rows(self, rows: int) -> None:
        """Raise ValueError where sums over so many rows would not be exact."""
        if self.gradient_bits + rows.bit_length() > _EXACT_BITS:
            most = _EXACT_BITS - rows.bit_length()
            raise ValueError(f"Sums over {rows:,} rows are exact up to gradient_bits={most}: choose no more.")


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ValueError(f"Expected {name} to be from {least:g} to {most:g}, got {value!r}.")
