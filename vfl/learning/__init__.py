"""Learners, and what is around them: batches and splits, scores, the yardstick in plain numbers.

A learner is a model family by name (``vfl.learning.registry``); ``docs/adding-a-learner.md`` has its contract, and
``vfl.learning.learner`` what a plugin promises. What stands here and there is public, the other modules are private.

Examples:
    A passive party's half of one step, answered as the training loop does:

    >>> import numpy as np
    >>> from vfl.learning import Half, OwnData, registry
    >>> own = OwnData(features=1, labels=None, classes=2, total_features=2, generator=np.random.default_rng())
    >>> half: Half = registry.load("linear", initialisation="zero").begin(own)
    >>> step = half.step(np.array([0, 1]))  # records of the aligned order
    >>> next(step)
    Forward(weights=array([[0.]]))
    >>> step.send(np.array([[0.5], [0.25]]))  # its columns times its weights
    Send(values=array([[0.5 ],
           [0.25]]))
    >>> step.send(None)
    Ask()
"""

from vfl.learning.confidence import class_rows, confidence_scores, log_loss
from vfl.learning.learner import (
    Ask,
    EquationLeakage,
    FewSteps,
    Forward,
    Half,
    Learner,
    LearnerError,
    LearnerSpec,
    OwnData,
    Part,
    Send,
    Step,
    TableSize,
    TrainingColumns,
)
from vfl.learning.linear.initialisation import INITIALISATIONS, initial_weights
from vfl.learning.linear.reference import (
    GradientDescent,
    VerticalData,
    train_by_epoch,
    train_by_sums,
    train_centrally,
)
from vfl.learning.linear.regression import LinearPart
from vfl.learning.linear.scheme import ResidualScheme, residual_columns
from vfl.learning.schedule import (
    BatchSchedule,
    BlockSchedule,
    RowCounts,
    RowSplit,
    count_rows,
    smallest_batch,
    split_rows,
)

__all__ = [
    "INITIALISATIONS",
    "Ask",
    "BatchSchedule",
    "BlockSchedule",
    "EquationLeakage",
    "FewSteps",
    "Forward",
    "GradientDescent",
    "Half",
    "Learner",
    "LearnerError",
    "LearnerSpec",
    "LinearPart",
    "OwnData",
    "Part",
    "ResidualScheme",
    "RowCounts",
    "RowSplit",
    "Send",
    "Step",
    "TableSize",
    "TrainingColumns",
    "VerticalData",
    "class_rows",
    "confidence_scores",
    "count_rows",
    "initial_weights",
    "log_loss",
    "residual_columns",
    "smallest_batch",
    "split_rows",
    "train_by_epoch",
    "train_by_sums",
    "train_centrally",
]
