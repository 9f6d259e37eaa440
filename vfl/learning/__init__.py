"""Vertical logistic regression: linear model, first-order gradient, public batches (Hu, section 2); small networks."""

from vfl.learning.approximation import ResidualScheme, class_rows, confidence_scores, log_loss, residual_columns
from vfl.learning.initialisation import INITIALISATIONS, initial_weights
from vfl.learning.reference import GradientDescent, VerticalData, train_centrally
from vfl.learning.schedule import BatchSchedule, RowSplit, smallest_batch, split_rows, training_rows

__all__ = [
    "INITIALISATIONS",
    "BatchSchedule",
    "GradientDescent",
    "ResidualScheme",
    "RowSplit",
    "VerticalData",
    "class_rows",
    "confidence_scores",
    "initial_weights",
    "log_loss",
    "residual_columns",
    "smallest_batch",
    "split_rows",
    "train_centrally",
    "training_rows",
]
