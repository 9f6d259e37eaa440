"""Purification (Jiang 6.1.3.3, eq. 26): scores pass an autoencoder too narrow to keep what tells records apart.

Training needs torch (the ``lab`` extra). Applying the trained autoencoder needs numpy alone.
"""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from defences.base import DefenceError, DefenceSpec, ScoreContext
from vfl.arrays import FloatArray
from vfl.channels import Purifier, Undeclared
from vfl.learning import confidence_scores

# One epoch passes over this many rows; a shorter history is repeated until it has them.
_ROWS = 10_000
_BATCH_SIZE = 256
_LEARNING_RATE = 0.01
# Beyond what helps; a party that is told these options trains G as well, which takes it half a minute at most.
_MOST_EPOCHS, _MOST_HIDDEN = 200, 100


@dataclass(frozen=True)
class Purification:
    """Delivers G(c) in place of scores c, where G is an autoencoder trained to give back scores through a narrow layer.

    Only the distance of eq. 26 is trained (lambda = 0, as in Jiang): the decision is *not* kept. It changes most with
    few classes and on random training scores.

    What it doesn't stop: G's outputs lie on a surface of ``hidden`` dimensions, and G is no secret. An adversary who
    knows G still gets up to that many equations per record, by inverting its last layer or by searching through it as
    gradient inversion does. Saturated scores, where c barely moves, tell least.

    The first use for a number of classes trains, and later ones reuse it (a file is read once per process): call
    ``fit`` beforehand where the first answer must not wait.

    Attributes:
        scores: a .npy file of (n, k) real confidence scores, such as a coordinator's history, to train on. "" trains on
            random ones, which needs no history: standard Gaussian logits, as Jiang says, put through a softmax. No
            other party is told the file's name, or what it holds.
        hidden: units of the hidden layer, 1 to 100; None is half the classes, at least 1.
        epochs: of Adam over 10,000 rows, 1 to 200.
        seed: of the random scores, first weights and batches. It isn't secret: with random scores, anyone can train the
            same G.

    Raises:
        ValueError: for options out of range, or a file that is missing or holds something else.
    """

    name: ClassVar[str] = "purification"
    spec: ClassVar[DefenceSpec] = DefenceSpec(
        sits=("coordinator",),
        stages=("scores",),
        keeps="nothing",
        source="Jiang 6.1.3.3, eq. 26",
        summary="an autoencoder smooths scores towards what is typical",
        cost="accuracy; seconds of training, with torch",
        replaces="scores",
        stops=("columns",) if find_spec("torch") else (),
    )
    private_options: ClassVar[tuple[str, ...]] = ("scores",)

    scores: str = ""
    hidden: int | None = None
    epochs: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        if self.hidden is not None and not 1 <= self.hidden <= _MOST_HIDDEN:
            raise ValueError(
                f"Expected hidden to be from 1 to {_MOST_HIDDEN}, or none for half the classes, got {self.hidden}."
            )
        if self.epochs < 1 or self.epochs > _MOST_EPOCHS:
            raise ValueError(f"Expected epochs to be from 1 to {_MOST_EPOCHS}, got {self.epochs}.")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"Expected seed to be from 0 to 2^64 - 1, which is what torch takes, got {self.seed}.")
        if self.scores:
            _read_scores(self.scores)

    def fit(self, classes: int) -> Purifier:
        """Train the autoencoder for so many classes, once per process and options.

        Raises:
            DefenceError: without torch, for fewer than two classes, or when the file holds scores of another number of
                classes.
        """
        if classes < 2:
            raise DefenceError(f"Expected at least 2 classes, got {classes}.")
        return _fitted(self.scores, self.hidden, self.epochs, self.seed, classes)

    def channel(self, classes: int) -> Purifier | Undeclared:
        """Say what both sides know of it: G where anyone can train it, nothing where it was trained on private history.

        Raises:
            DefenceError: as ``fit``.
        """
        return Undeclared(self.name) if self.scores else self.fit(classes)

    def protect_scores(self, scores: FloatArray, context: ScoreContext) -> FloatArray:
        """Purify scores: (n, k) in, (n, k) rows that sum to 1 out.

        Raises:
            DefenceError: as ``fit``.
        """
        return self.fit(scores.shape[1]).purify(scores)


def random_scores(rows: int, classes: int, seed: int) -> FloatArray:
    """Draw training scores where there is no history: softmax of standard Gaussian logits, (rows, classes)."""
    return confidence_scores(np.random.default_rng(seed).standard_normal((rows, classes)))


def fit_autoencoder(training_scores: FloatArray, hidden: int | None, epochs: int, seed: int) -> Purifier:
    """Train G on (n, k) scores by the squared l2 distance between c and G(c) (Jiang eq. 26 with lambda = 0).

    Args:
        training_scores: (n, k).
        hidden: units; None for half of k, at least 1.
        epochs: passes over 10,000 rows.
        seed: repeats a training.

    Raises:
        ValueError: for scores of another shape than (n >= 1, k >= 2).
        DefenceError: without torch.
    """
    if training_scores.ndim != 2 or len(training_scores) < 1 or training_scores.shape[1] < 2:
        raise ValueError(f"Expected training scores of shape (records, classes), got {training_scores.shape}.")
    try:
        import torch

        from vfl.learning.torch_training import as_tensor, dense_network, initial_layers, torch_partial_scores
    except ModuleNotFoundError as error:
        raise DefenceError("purification needs torch: pip install 'plumbline[lab]'") from error

    k = training_scores.shape[1]
    generator = torch.Generator().manual_seed(seed)
    layers = initial_layers([k, max(1, k // 2) if hidden is None else hidden, k], generator)
    parameters = [tensor.requires_grad_() for layer in layers for tensor in layer]
    optimiser = torch.optim.Adam(parameters, lr=_LEARNING_RATE)
    rows = as_tensor(np.tile(training_scores, (-(-_ROWS // len(training_scores)), 1)))
    for _ in range(epochs):
        for batch in torch.split(rows[torch.randperm(len(rows), generator=generator)], _BATCH_SIZE):
            purified = torch.softmax(torch_partial_scores(layers, "tanh", batch), dim=1)
            loss = (purified - batch).square().sum(dim=1).mean()
            for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                parameter.grad = gradient
            optimiser.step()
    return Purifier(dense_network(layers, "tanh"))


@cache
def _fitted(scores: str, hidden: int | None, epochs: int, seed: int, classes: int) -> Purifier:
    if not scores:
        return fit_autoencoder(random_scores(_ROWS, classes, seed), hidden, epochs, seed)
    history = _read_scores(scores)
    if history.shape[1] != classes:
        raise DefenceError(
            f"{scores} holds scores of {history.shape[1]} classes, and this model has {classes}: give the history of "
            "the same model, or leave scores empty to train on random ones."
        )
    return fit_autoencoder(history, hidden, epochs, seed)


def _read_scores(path: str) -> FloatArray:
    """(n, k) scores of a .npy file; raises ValueError, with the remedy, for anything else."""
    remedy = "Give a .npy file of (n, k) confidence scores in [0, 1], or leave scores empty to train on random ones."
    try:
        with Path(path).open("rb") as file:
            history: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} can't be read: {error}. {remedy}") from error
    if history.ndim != 2 or not history.size or history.shape[1] < 2:
        raise ValueError(f"{path} doesn't hold a matrix of scores. {remedy}")
    if history.dtype.kind not in "fiu" or not (history.min() >= 0 and history.max() <= 1):  # NaN fails both
        raise ValueError(f"{path} holds values that are not numbers in [0, 1]. {remedy}")
    return history.astype(np.float64)
