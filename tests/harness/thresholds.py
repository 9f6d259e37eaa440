"""Where the guard's two thresholds come from: labels per equation, and weights that stand still. A simulation.

Labels: breast_cancer, the label party's 15 columns and bias, Xavier and normal weights, 15 sums of the first step.
Mean of seeds 0 to 19.
Standing still: 200 rows in 4 steps of 50, 20 equations about the passive party's shares in each, 3 epochs: enough to
solve for one value per row, if it stayed what it was in the first epoch. By ridge regression about the mean, with
the best of some penalties. Mean of seeds 0 to 9.
"""

import itertools

import numpy as np
from sklearn.datasets import load_breast_cancer

from vfl.arrays import FloatArray, IntArray
from vfl.learning import BatchSchedule, ResidualScheme, initial_weights

SUMS = 15
STILL_EPOCHS, STILL_EQUATIONS = 3, 20
# What all shares may have in common besides labels, by initialisation.
_LARGEST = {"xavier": 1.9, "normal": 0.1}
_PENALTIES = 10.0 ** np.arange(-8, 4)


def labels_told(sums: FloatArray, per_equation: int, largest: float = 1.9) -> FloatArray:
    """Labels in {-1, 1} of groups of rows from one (groups,) sum of shares each, with coefficients 1, 1/2, 1/4, ...

    What all rows' shares have in common besides -2 y is searched for, up to ``largest``: it is the same for all groups.
    """
    coefficients = 2.0 ** -np.arange(per_equation)
    candidates = np.array(list(itertools.product([-1.0, 1.0], repeat=per_equation)))
    common = np.linspace(-largest, largest, round(400 * largest) + 1)
    expected = common[:, None] * coefficients.sum() - 2.0 * (candidates @ coefficients)
    distances = np.abs(sums[None, :, None] - expected[:, None, :])
    best = np.minimum(distances.min(axis=2), 0.5).sum(axis=1).argmin()
    labels: FloatArray = candidates[distances[best].argmin(axis=1)].ravel()
    return labels


def first_shares(rows: int, seed: int, initialisation: str = "xavier") -> tuple[FloatArray, IntArray]:
    """The label party's (rows, 1) shares of the first step on breast_cancer, and the labels in {-1, 1}."""
    features, labels = load_breast_cancer(return_X_y=True)
    low, high = features.min(axis=0), features.max(axis=0)
    own = np.hstack([((features - low) / (high - low))[:, :15], np.ones((len(features), 1))])
    generator = np.random.default_rng(seed)
    weights = initial_weights(initialisation, 16, 1, total_features=31, generator=generator)
    batch = generator.choice(len(own), rows, replace=False)
    return ResidualScheme(2).active_share(own[batch] @ weights, labels[batch]), 2 * labels[batch] - 1


def labels_right(per_equation: int, seeds: int = 20, initialisation: str = "xavier") -> float:
    """The share of labels that 15 sums tell, mean over seeds, with so many rows per sum."""
    right = []
    for seed in range(seeds):
        shares, labels = first_shares(SUMS * per_equation, seed, initialisation)
        sums = shares.reshape(SUMS, per_equation) @ 2.0 ** -np.arange(per_equation)
        right.append((labels_told(sums, per_equation, _LARGEST[initialisation]) == labels).mean())
    return float(np.mean(right))


def error_of_stillness(time: float, seeds: int = 10) -> float:
    """RMS error, over the values' spread, of who takes shares for constant; time: learning rate x steps in all."""
    errors = []
    for seed in range(seeds):
        generator = np.random.default_rng(seed)
        features, labels = generator.uniform(size=(200, 15)), generator.integers(0, 2, 200)
        weights = initial_weights("xavier", 15, 1, total_features=15, generator=generator)
        scheme, schedule = ResidualScheme(2), BatchSchedule(np.arange(200), 50, seed)
        rate = time / (STILL_EPOCHS * schedule.steps_per_epoch)
        start = features[:, 10:] @ weights[10:]
        matrix, answers = [], []
        for batch in itertools.chain.from_iterable(schedule.epoch(epoch) for epoch in range(STILL_EPOCHS)):
            coefficients = generator.uniform(size=(STILL_EQUATIONS, len(batch)))
            equations = np.zeros((STILL_EQUATIONS, 200))
            equations[:, batch] = coefficients
            matrix.append(equations)
            answers.append(coefficients @ features[batch, 10:] @ weights[10:])
            residual = scheme.active_share(features[batch] @ weights, labels[batch])
            weights = weights - rate * scheme.gradient_scale(len(batch)) * (features[batch].T @ residual)
        solutions = _ridge(np.vstack(matrix), np.vstack(answers))
        errors.append(min(np.sqrt(((solved - start) ** 2).mean()) for solved in solutions) / start.std())
    return float(np.mean(errors))


def _ridge(matrix: FloatArray, answers: FloatArray) -> list[FloatArray]:
    """Solutions that stay near one value for all rows, the stiffer the larger the penalty."""
    level = (answers.sum() / matrix.sum()) * np.ones((matrix.shape[1], 1))
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    rotated = left.T @ (answers - matrix @ level)
    return [level + right.T @ (values[:, None] / (values[:, None] ** 2 + penalty) * rotated) for penalty in _PENALTIES]
