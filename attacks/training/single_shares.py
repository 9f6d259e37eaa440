"""Single shares: whole records of passive parties from a linear training, by a label party that asks about few rows.

A passive party's share of a step is v_i = theta^T x_i for each row i of the batch, with the step's own theta. In place
of its d sums over the whole batch, the label party asks for the shares of d single rows, the same ones whenever they
come (ours; a question's room: Hu, section 5.2):

    S = (s, d) zeros but for a one in each column       # an honest question's shape, width and mask
    v = S^T share                                       # d single shares
    sums = X[rows]^T v                                  # of a smaller batch: its own training goes on

Some of the rows are of records that it knows in full, one more than passive columns have directions: they tell theta of
the step. Each of the other rows then has told one linear form of its record in every epoch, of known coefficients, and
as many equations as directions tell the record.

Passive weights move by the label party's own shares: stirred ones move them in every direction, where those of a
training that goes well soon move them in few.

Known records give the directions, and what records look like: estimates are the likeliest under a normal prior, so that
noise, or weights that hardly move, lead back to the known records' mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attacks.base import AttackSpec
from attacks.training.hidden_space import regressed
from attacks.training.recovered_values import EstimatedFeatures
from attacks.training_attack import HonestFactory, SessionTerms
from attacks.training_views import KnownRecords, TrainingView
from vfl.arrays import FloatArray, IntArray
from vfl.crypto import CipherVector
from vfl.crypto.messages import Combination, Question

# Known records of a batch that are asked about beyond those that tell theta: by them noise shows.
_SPARE = 2
# Keeps what is added to own shares apart from whatever else is drawn from the same seed.
_STREAM = 0x51C5
# Of the widest direction in which known records differ: one that others make up.
_DEPENDENT = 1e-9


@dataclass(frozen=True)
class SingleShares:
    """Reads whole records off the shares of single rows, in as many epochs as passive columns have directions.

    Attributes:
        stir: standard deviation of what is added to its own encrypted shares, whose sums move the passive weights: left
            alone, these soon move in few directions. 0 adds nothing. It costs the model as much as noise does.
    """

    stir: float = 1.0

    name: ClassVar[str] = "single_shares"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="active",
        phase="training",
        needs=("equations", "known_records"),
        source="ours; the question: Hu, section 5.2",
        learners=("linear",),
        summary="asks about the same few rows of each batch in every epoch, and solves for their whole records",
        cost="the model: its own shares are stirred, and its batches smaller",
        conduct="replaces_messages",
        level="records",
        seconds=lambda extent: 0.2 + 0.001 * extent.records,
    )

    def messages(self, terms: SessionTerms, honest: HonestFactory) -> "SingleShareMessages":
        """Make the messages of one session.

        Raises:
            ValueError: where nothing could follow: too few known records, own columns or epochs.
        """
        if self.stir < 0:
            raise ValueError(f"Expected stir >= 0, got {self.stir}.")
        if terms.known is None:
            raise ValueError("Not possible: no record is known in full, and these tell the weights of a step.")
        spaces = _spaces(terms.peers, terms.known)
        rank = max(space.rank for space in spaces.values())
        visits = np.bincount(np.concatenate(terms.batches))
        if (equations := int(visits.max()) * terms.formats.columns) < rank:
            raise ValueError(
                f"Not possible: each record tells {equations} sums of its columns in this training, and these have "
                f"{rank} directions."
            )
        if terms.features <= rank + 1:
            raise ValueError(
                f"Not possible: own columns ask about {terms.features} rows of a batch, and the weights of a step take "
                f"{rank + 1} known ones."
            )
        fullest = max(int(np.isin(batch, terms.known.rows).sum()) for batch in terms.batches)
        if fullest <= rank:
            raise ValueError(
                f"Not possible: a batch has {fullest} known records at most, and the weights of a step take {rank + 1}."
            )
        return SingleShareMessages(terms, spaces, honest, self.stir)


@dataclass(frozen=True, eq=False)
class _Space:
    """The directions in which a peer's known records differ, each of variance 1.

    Attributes:
        mean: (d,) of the known records.
        directions: (r, d), to be added to it.
        coordinates: (m, r) the known records in these directions.
    """

    mean: FloatArray
    directions: FloatArray
    coordinates: FloatArray

    @classmethod
    def of(cls, features: FloatArray) -> "_Space":
        """Find those of (m, d) features; raises ValueError where further records may have further ones."""
        mean = features.mean(axis=0)
        left_vectors, sizes, right = np.linalg.svd(features - mean, full_matrices=False)
        rank = int((sizes > _DEPENDENT * sizes.max(initial=0.0)).sum())
        m, d = features.shape
        if rank == 0 or (rank == m - 1 and rank < d):
            raise ValueError(f"Not possible: {m} known records don't tell in which directions {d} columns differ.")
        return cls(mean, right[:rank] * sizes[:rank, None] / np.sqrt(m), left_vectors[:, :rank] * np.sqrt(m))

    @property
    def rank(self) -> int:
        """r."""
        return len(self.directions)


def _spaces(peers: Mapping[str, int], records: KnownRecords) -> dict[str, _Space]:
    ends = np.cumsum(list(peers.values()))[:-1]
    return {peer: _Space.of(own) for peer, own in zip(peers, np.split(records.features, ends, axis=1), strict=True)}


class SingleShareMessages:
    """Asks for single shares in honest questions, and goes on with their sums as of a smaller batch."""

    def __init__(self, terms: SessionTerms, spaces: Mapping[str, _Space], honest: HonestFactory, stir: float) -> None:
        assert terms.known is not None  # noqa: S101 - who makes it has asked
        self._terms, self._known, self._spaces, self._stir = terms, terms.known, spaces, stir
        self._asked_known = max(space.rank for space in spaces.values()) + 1 + _SPARE
        self._told: dict[str, dict[int, FloatArray]] = {peer: {} for peer in spaces}
        self._honest = honest()
        self.private_key = self._honest.private_key
        self.answer = self._honest.answer

    def encrypt(self, step: int, residual: FloatArray) -> CipherVector:
        """Encrypt own shares stirred, within what their fixed point holds, so that others' weights move every way."""
        largest = 2.0 ** (self._terms.formats.residual.integer_bits - 1)
        stirred = residual + self._stir * np.random.default_rng((_STREAM, step)).standard_normal(residual.shape)
        return self._honest.encrypt(step, np.clip(stirred, -largest, largest) if self._stir else residual)

    def rows(self, step: int) -> IntArray:
        """Choose which rows of a step's batch are asked about, as indices into it: known ones first."""
        batch = self._terms.batches[step]
        is_known, order = np.isin(batch, self._known.rows), np.argsort(batch)
        # Known ones beyond those that are needed come last.
        needed = is_known & (np.cumsum(is_known[order])[np.argsort(order)] <= self._asked_known)
        urgency = np.where(needed, 0, np.where(is_known, 2, 1))
        return order[np.argsort(urgency[order], kind="stable")][: self._terms.features]

    def combine(self, step: int, peer: str, features: FloatArray, residuals: CipherVector) -> Combination:
        """Pick single shares; the matrix has the own features of their rows, and then which they are."""
        rows, (count, width) = self.rows(step), features.shape
        single = np.zeros((count, width))
        # Of a batch with fewer rows some are asked about twice.
        single[np.resize(rows, width), np.arange(width)] = 1
        own_rows = np.zeros((count, width))
        own_rows[rows] = features[rows]
        picked = self._honest.combine(step, peer, single, residuals)
        return replace(picked, matrix=np.hstack([own_rows, single]))

    def mask(self, step: int, peer: str, combination: Combination) -> Question:
        """Hide the shares as an honest party hides its sums."""
        width = combination.matrix.shape[1] // 2
        own_rows, single = combination.matrix[:, :width], combination.matrix[:, width:]
        question = self._honest.mask(step, peer, replace(combination, matrix=single))
        rows = self.rows(step)

        def read(residues: Sequence[int]) -> FloatArray:
            picked = question.read(residues)
            shares = picked[: len(rows)]
            # Of a step that is done again, the first answer is of its residuals.
            self._told[peer].setdefault(step, shares)
            return np.vstack([own_rows[rows].T @ shares, picked])

        return Question(question.masked, read)

    def result(self, view: TrainingView) -> EstimatedFeatures:
        """Solve for the records that were asked about; raises ValueError where none follows."""
        estimates = {peer: self._estimated(peer, space, view.share_step) for peer, space in self._spaces.items()}
        rows = np.array(sorted(set.intersection(*(set(found) for found in estimates.values()))), dtype=np.int64)
        if not rows.size or view.labels is None:
            raise ValueError(
                "Not possible: no record was asked about, beside enough known ones, in as many epochs as its columns "
                "have directions."
            )
        inputs = np.column_stack([view.features, np.eye(view.classes)[view.labels]])
        guess = regressed(inputs, self._known)[rows]
        ends = np.cumsum([len(space.mean) for space in self._spaces.values()])[:-1]
        return EstimatedFeatures(
            rows,
            {peer: np.array([found[row] for row in rows.tolist()]) for peer, found in estimates.items()},
            dict(zip(self._spaces, np.split(guess, ends, axis=1), strict=True)),
        )

    def _estimated(self, peer: str, space: _Space, grid: float) -> dict[int, FloatArray]:
        """Estimate a peer's columns of each record that told as many equations as they have directions, by row."""
        place = {row: number for number, row in enumerate(self._known.rows.tolist())}
        by_row: dict[int, list[tuple[FloatArray, FloatArray]]] = {}
        squared_error, spare, taught = 0.0, 0, []
        for step, shares in self._told[peer].items():
            rows = self._terms.batches[step][self.rows(step)]
            is_known = np.isin(rows, self._known.rows)
            matrix = np.column_stack(
                [space.coordinates[[place[row] for row in rows[is_known].tolist()]], np.ones(is_known.sum())]
            )
            weights, squares, rank, _ = np.linalg.lstsq(matrix, shares[is_known], rcond=_DEPENDENT)
            if rank <= space.rank:
                continue
            squared_error, spare = squared_error + float(squares.sum()), spare + (len(matrix) - rank) * shares.shape[1]
            taught.append(len(matrix))
            for row, share in zip(rows[~is_known].tolist(), shares[~is_known], strict=True):
                by_row.setdefault(row, []).append((weights[:-1].T, share - weights[-1]))
        if not taught:
            return {}
        # A share is rounded to the grid. How far theta is off counts as well, more where fewer known records told it.
        noise = max(squared_error / spare if spare else 0.0, grid**2 / 12, np.finfo(np.float64).tiny)
        noise *= 1 + (space.rank + 1) / max(1.0, float(np.mean(taught)) - space.rank - 2)
        estimates = {}
        for row, equations in by_row.items():
            coefficients, values = (np.concatenate(parts) for parts in zip(*equations, strict=True))
            if len(values) >= space.rank:
                estimates[row] = space.mean + _likeliest(coefficients, values, noise) @ space.directions
        return estimates


def _likeliest(coefficients: FloatArray, values: FloatArray, noise: float) -> FloatArray:
    """Find the likeliest (r,) numbers of variance 1 of which (f, r) coefficients give (f,) values with some noise."""
    size, count = np.sqrt(noise), coefficients.shape[1]
    matrix = np.vstack([coefficients / size, np.eye(count)])
    coordinates: FloatArray = np.linalg.lstsq(matrix, np.concatenate([values / size, np.zeros(count)]), rcond=None)[0]
    return coordinates
