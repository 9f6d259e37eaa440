"""Views of a simulated training with noise on shares (Hu Algorithm 3), for attacks that meet it."""

from dataclasses import dataclass

import numpy as np

from attacks.training_views import Equations, OwnStep, TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.learning import BatchSchedule, ResidualScheme, initial_weights
from vfl.learning import registry as learners


@dataclass(frozen=True, eq=False)
class NoisyTraining:
    """What both parties saw, and the truth.

    Attributes:
        passive: view of the party without labels.
        active: view of the party with them.
        labels: (n,).
        sums: (n, columns), of the label party's shares over all epochs, without noise.
        products: (n, columns), of the passive party, at its last step with each record.
    """

    passive: TrainingView
    active: TrainingView
    labels: IntArray
    sums: FloatArray
    products: FloatArray


def noisy_training(
    *,
    sigmas: tuple[float, float] = (0.0, 0.0),
    rows: int = 480,
    epochs: int = 20,
    start: str = "zero",
    learning_rate: float = 0.05,
    classes: int = 2,
    seed: int = 0,
) -> NoisyTraining:
    """Train on rows of unit norm in batches of 10, with 11 columns and a bias of the label party and 12 of the other.

    Labels follow from the features but for a tenth of them. ``sigmas``: of the label party's noise, and of the other's.
    """
    generator, scheme = np.random.default_rng(seed), ResidualScheme(classes)
    features = generator.normal(size=(rows, 23))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    labels = (features @ generator.normal(size=(23, classes))).argmax(axis=1)
    labels = np.where(generator.random(rows) < 0.1, generator.integers(0, classes, rows), labels)
    blocks = np.hstack([features[:, :11], np.ones((rows, 1))]), features[:, 11:]
    thetas = [
        initial_weights(start, block.shape[1], scheme.columns, total_features=24, generator=generator)
        for block in blocks
    ]
    schedule = BatchSchedule(np.arange(rows), 10, seed)
    own: tuple[list[OwnStep], list[OwnStep]] = [], []
    equations: tuple[list[Equations], list[Equations]] = [], []
    sums, products = np.zeros((rows, scheme.columns)), np.zeros((rows, scheme.columns))
    names = ("active", "passive")
    for epoch in range(epochs):
        for number, batch in enumerate(schedule.epoch(epoch)):
            step = epoch * schedule.steps_per_epoch + number
            parts = [block[batch] @ theta for block, theta in zip(blocks, thetas, strict=True)]
            shares = [scheme.active_share(parts[0], labels[batch]), scheme.passive_share(parts[1])]
            sums[batch] += shares[0]
            products[batch] = shares[1]
            noisy = [
                share + sigma * generator.normal(size=share.shape) for share, sigma in zip(shares, sigmas, strict=True)
            ]
            for me in (0, 1):
                matrix, unknown = blocks[me][batch], noisy[1 - me]
                own[me].append(OwnStep(step, batch, shares[me]))
                equations[me].append(Equations(step, names[1 - me], batch, matrix, matrix.T @ unknown))
                gradient = scheme.gradient_scale(len(batch)) * matrix.T @ (shares[me] + unknown)
                thetas[me] = thetas[me] - learning_rate * gradient
    views = [
        TrainingView(
            role="active" if me == 0 else "passive",
            features=blocks[me],
            steps=tuple(own[me]),
            equations=tuple(equations[me]),
            peer_features={names[1 - me]: blocks[1 - me].shape[1]},
            label_party=None if me == 0 else "active",
            learner=learners.load("linear", learning_rate=learning_rate, initialisation=start),
            classes=classes,
            batch_size=10,
            labels=labels if me == 0 else None,
            share_step=0.0,
            steps_per_epoch=schedule.steps_per_epoch,
        )
        for me in (0, 1)
    ]
    return NoisyTraining(views[1], views[0], labels, sums, products)
