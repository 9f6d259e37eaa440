"""Vertical logistic regression: linear model, first-order gradient, public batches (Hu, section 2); small networks."""

from vfl.learning.linear.initialisation import INITIALISATIONS, initial_weights
from vfl.learning.linear.scheme import ResidualScheme, class_rows, confidence_scores, log_loss, residual_columns
from vfl.learning.reference import GradientDescent, VerticalData, train_centrally
from vfl.learning.schedule import BatchSchedule, RowCounts, RowSplit, count_rows, smallest_batch, split_rows

__all__ = [
    "INITIALISATIONS",
    "BatchSchedule",
    "GradientDescent",
    "ResidualScheme",
    "RowCounts",
    "RowSplit",
    "VerticalData",
    "class_rows",
    "confidence_scores",
    "count_rows",
    "initial_weights",
    "log_loss",
    "residual_columns",
    "smallest_batch",
    "split_rows",
    "train_centrally",
]
