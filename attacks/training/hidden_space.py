"""Passive features from what a network's passive parties forward, by the label party that knows a few records.

A record x is forwarded as z = x W(t), h numbers in every epoch. Records that the label party knows in full teach a
linear map from all z of a record to x. That is exact where W stands still; it moves by

    W(t) = W(0) - sum of steps before t of change(X_batch^T delta / s)

with the label party's own delta and the owner's public optimiser. So an estimate of X gives the movement, the known
records then give W(0), and these give a better X, again and again (ours): with enough known records and h x epochs
beyond the number of columns it ends at the columns themselves.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec, require
from attacks.training.recovered_values import EstimatedFeatures, by_peer
from attacks.training_views import Forwarded, KnownRecords, TrainingView
from attacks.views import ViewError
from vfl.arrays import FloatArray
from vfl.learning.network import Network
from vfl.learning.network.optimisers import optimiser_named

# Numbers of what is forwarded that are looked at, and of each record.
_MOST_NUMBERS, _MOST_OF_RECORD = 50_000_000, 512
# Penalties of regressions, and of replays, relative to the mean square of what is seen.
_PENALTIES = 10.0 ** np.arange(-12, 3)
_REPLAY_PENALTIES = (1e-12, 1e-6, 1e-3)
# Every so many of the known records is left out to choose by; of fewer than these none is.
_LEFT_OUT, _FEWEST = 5, 10
_ROUNDS, _SETTLED, _FARTHEST = 20, 1e-13, 10.0
# Records whose weights are held at once.
_CHUNK = 512


@dataclass(frozen=True)
class HiddenSpace:
    """Regresses passive columns on all that was forwarded of a record and on what is owned, then replays how weights
    moved.

    Known records that are left out choose the way and its penalty: where noise is added to what is forwarded, or the
    optimiser isn't known, the regression stands.

    Attributes:
        epochs: how many of each record's uses are looked at, the first ones.
    """

    epochs: int = 8

    name: ClassVar[str] = "hidden_space"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=("forwarded", "known_records"),
        source="regression: Jiang 4.2.3 (shadow), on a layer; replay: ours",
        learners=("network",),
        summary="reads passive columns off a network's forwarded first layer, with some records known in full",
        cost="seconds per 10,000 records",
        level="records",
        seconds=lambda extent: 1.0 + 0.001 * extent.steps + 0.0005 * extent.records,
    )

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"Expected epochs >= 1, got {self.epochs}.")

    def attack(self, view: TrainingView) -> EstimatedFeatures:
        """Estimate the passive columns of all records that training used.

        Raises:
            ViewError: for a passive party's view, and where none of the known records was trained on.
        """
        require(self, view)
        trained = _TrainedRecords(view, self.epochs)
        records, columns = view.known_records, sum(view.peer_features.values())
        if records is None or view.labels is None:
            raise AssertionError  # require has refused such views; this tells the type checker
        records = trained.known_among(records)
        own_inputs = np.column_stack([view.features, np.eye(view.classes)[view.labels]])[trained.rows]
        inputs = np.column_stack([trained.inputs, own_inputs])
        errors: dict[str, float] = {}
        way, penalty = "regression", _REPLAY_PENALTIES[0]
        if len(records.rows) >= _FEWEST:
            is_left = np.arange(len(records.rows)) % _LEFT_OUT == 0
            taught = KnownRecords(records.rows[~is_left], records.features[~is_left])
            held_out, truth = records.rows[is_left], records.features[is_left]
            estimates = {("guess", 0.0): regressed(own_inputs, taught), ("regression", 0.0): regressed(inputs, taught)}
            if trained.can_replay and len(taught.rows) >= columns:
                for candidate in _REPLAY_PENALTIES:
                    estimates["replay", candidate] = trained.replayed(estimates["regression", 0.0], taught, candidate)
            losses = {key: float(((values[held_out] - truth) ** 2).mean()) for key, values in estimates.items()}
            way, penalty = min(losses, key=lambda key: losses[key])
            for (name, _), loss in losses.items():
                errors[name] = min(loss, errors.get(name, np.inf))
        guess = regressed(own_inputs, records)
        values = guess if way == "guess" else regressed(inputs, records)
        if way == "replay":
            values = trained.replayed(values, records, penalty)
        attacked = np.setdiff1d(np.arange(len(trained.rows)), records.rows)
        return EstimatedFeatures(
            trained.rows[attacked],
            by_peer(view.peer_features, values[attacked]),
            by_peer(view.peer_features, guess[attacked]),
            errors,
        )


class _TrainedRecords:
    """What was forwarded of each record in its first uses.

    Attributes:
        rows: (m,) which records, as indices in the common order.
        inputs: (m, uses h), all that was forwarded of a record.
    """

    def __init__(self, view: TrainingView, epochs: int) -> None:
        self._view, self._steps = view, view.forwarded
        visits = np.bincount(np.concatenate([one.rows for one in self._steps]), minlength=view.n)
        self.rows = np.flatnonzero(visits)
        h, m = view.columns, len(self.rows)
        most = max(1, min(_MOST_OF_RECORD // h, _MOST_NUMBERS // (m * h)))
        self._uses = int(min(epochs, visits[self.rows].min(), most))
        products, self._step_of = np.zeros((m, self._uses, h)), np.zeros((m, self._uses), dtype=np.int64)
        place, used = np.zeros(view.n, dtype=np.int64), np.zeros(view.n, dtype=np.int64)
        place[self.rows] = np.arange(m)
        for number, step in enumerate(self._steps):
            looked = used[step.rows] < self._uses
            rows = step.rows[looked]
            products[place[rows], used[rows]] = step.products[looked]
            self._step_of[place[rows], used[rows]] = number
            used[rows] += 1
        self._products, self._place = products, place
        self.inputs = products.reshape(m, -1)

    @property
    def can_replay(self) -> bool:
        """Whether it is known how weights move."""
        return isinstance(self._view.learner, Network)

    def known_among(self, records: KnownRecords) -> KnownRecords:
        """Find the known records that training used, as places in ``rows``. Raises ViewError where there is none."""
        used = np.isin(records.rows, self.rows)
        if not used.any():
            raise ViewError("None of known_records was trained on: give some that were.")
        return KnownRecords(self._place[records.rows[used]], records.features[used])

    def replayed(self, start: FloatArray, records: KnownRecords, penalty: float) -> FloatArray:
        """Move (m, d) estimates to what agrees with how they moved the weights.

        Args:
            start: by regression; what the equations leave open stays as it says.
            records: places in ``rows``, and features that span all columns.
            penalty: of leaving ``start``, relative.
        """
        # Far beyond what a feature may be: keeps what doesn't settle from growing out of numbers.
        largest = _FARTHEST * max(float(np.abs(records.features).max()), 1e-300)
        estimate = start.copy()
        estimate[records.rows] = records.features
        for _ in range(_ROUNDS):
            moved = self._movement(estimate)
            steps = self._step_of[records.rows]
            sums = self._products[records.rows] + np.einsum("md,mudh->muh", records.features, moved[steps])
            begin = np.linalg.lstsq(
                np.repeat(records.features, self._uses, axis=0), sums.reshape(-1, sums.shape[2]), rcond=None
            )[0]
            before, estimate = estimate, np.empty_like(estimate)
            for first in range(0, len(estimate), _CHUNK):
                part = slice(first, first + _CHUNK)
                weights = begin - moved[self._step_of[part]]
                estimate[part] = _solved(weights, self._products[part], start[part], penalty)
            estimate = np.clip(estimate, -largest, largest)
            estimate[records.rows] = records.features
            if float(((estimate - before) ** 2).mean()) <= _SETTLED * float((estimate**2).mean()):
                break
        return estimate

    def _movement(self, features: FloatArray) -> FloatArray:
        """Tell how far weights had moved before each step, (steps, d, h), were these (m, d) features the true ones."""
        learner = self._view.learner
        assert isinstance(learner, Network)  # noqa: S101 - can_replay
        optimiser = optimiser_named(learner.optimiser, learner.learning_rate)
        moved, path = np.zeros((features.shape[1], self._view.columns)), []
        steps: tuple[Forwarded, ...] = self._steps[: int(self._step_of.max()) + 1]
        for step in steps:
            path.append(moved)
            gradient = features[self._place[step.rows]].T @ step.backward / len(step.rows)
            moved = moved + optimiser.change(gradient)
        return np.array(path)


def _solved(weights: FloatArray, products: FloatArray, start: FloatArray, penalty: float) -> FloatArray:
    """Features x near start with x W = z: weights (m, uses, d, h), products (m, uses, h), start (m, d)."""
    matrix = np.moveaxis(weights, 2, 1).reshape(len(weights), start.shape[1], -1)
    residuals = products.reshape(len(products), -1) - np.einsum("md,mdz->mz", start, matrix)
    normal = matrix @ matrix.transpose(0, 2, 1)
    size = np.trace(normal, axis1=1, axis2=2)[:, None, None] / start.shape[1]
    normal = normal + (penalty * size + 1e-300) * np.eye(start.shape[1])
    return start + np.linalg.solve(normal, matrix @ residuals[:, :, None])[:, :, 0]


def regressed(inputs: FloatArray, records: KnownRecords) -> FloatArray:
    """Ridge regression of known features on (m, p) inputs, (m, d); its penalty has the least leave-one-out error."""
    centred = inputs - inputs[records.rows].mean(axis=0)
    taught, mean = centred[records.rows], records.features.mean(axis=0)
    gram, best = taught @ taught.T, (np.inf, np.zeros_like(records.features))
    size = max(float(np.trace(gram)) / len(gram), 1e-300)
    for penalty in _PENALTIES:
        inverse = np.linalg.inv(gram + penalty * size * np.eye(len(gram)))
        dual = inverse @ (records.features - mean)
        error = float(((dual / np.diag(inverse)[:, None]) ** 2).mean())
        if error < best[0]:
            best = (error, dual)
    estimate: FloatArray = mean + centred @ (taught.T @ best[1])
    return estimate
