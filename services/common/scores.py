"""One party's part of the scores of some records, and its place on the wire."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from protos.v1 import common_pb2
from services.common import limits
from services.common.errors import InvalidMessage
from vfl.arrays import FloatArray

# Shares of logits, (rows, columns): numbers, or residues modulo 2**64 where weights stay shared.
Products: TypeAlias = FloatArray | NDArray[np.uint64]

# A Python integer of 64 bits in a tuple.
_TOKEN_BYTES = 44
_NONE = np.empty((0, 0))
# Of a score: more than rounding moves it.
SLACK = 1e-6


@dataclass(frozen=True, eq=False)
class PartialScores:
    """What a party sends to the coordinator for one request.

    Attributes:
        products: its share of the logits, (rows, columns); residues where weights stay shared.
        parameter_gram: (classes, classes), W W^T of a passive party's class rows W, where the agreement wants it and
            the model is linear.
        record_tokens: a passive party's pseudonym of each row's record, where scores are defended.
        submissions_seen: how many shares of the session the coordinator has told a passive party of, where scores are
            defended.
    """

    products: Products
    parameter_gram: FloatArray | None = None
    record_tokens: tuple[int, ...] = ()
    submissions_seen: int = 0

    @property
    def nbytes(self) -> int:
        """What it holds in memory, about."""
        gram = 0 if self.parameter_gram is None else self.parameter_gram.nbytes
        return self.products.nbytes + gram + _TOKEN_BYTES * len(self.record_tokens)

    def same_as(self, other: "PartialScores") -> bool:
        """Tell whether both say the same of the scores, bit for bit."""
        if self is other:
            return True
        mine, theirs = (_NONE if part.parameter_gram is None else part.parameter_gram for part in (self, other))
        is_alike = np.array_equal(self.products, other.products) and np.array_equal(mine, theirs)
        return is_alike and self.record_tokens == other.record_tokens

    def to_message(self, session_id: str, request_id: int) -> common_pb2.PartialScores:
        """Write the share as a message, for one request of a session."""
        rows, columns = self.products.shape
        return common_pb2.PartialScores(
            session_id=session_id,
            request_id=request_id,
            rows=rows,
            columns=columns,
            values=[] if are_residues(self.products) else self.products.ravel(),
            residues=self.products.ravel() if are_residues(self.products) else [],
            parameter_gram=[] if self.parameter_gram is None else self.parameter_gram.ravel(),
            record_tokens=self.record_tokens,
            submissions_seen=self.submissions_seen,
        )

    @classmethod
    def from_message(cls, message: common_pb2.PartialScores) -> "PartialScores":
        """Raise InvalidMessage when sizes don't fit or a value isn't finite."""
        limits.check_count(message.rows, limits.PREDICTION_ROWS, "rows of partial scores", least=1)
        limits.check_count(message.columns, limits.SHARE_VALUES, "columns of partial scores", least=1)
        limits.check_count(message.record_tokens, limits.PREDICTION_ROWS, "pseudonyms of records")
        limits.check_count(message.parameter_gram, limits.CLASSES**2, "values of a Gram matrix")
        classes = math.isqrt(len(message.parameter_gram))
        if message.residues and message.values:
            raise InvalidMessage("Expected scores as numbers or as residues, got both.")
        return cls(
            _residues_of(message) if message.residues else matrix_of(message.rows, message.columns, message.values),
            matrix_of(classes, classes, message.parameter_gram) if message.parameter_gram else None,
            tuple(message.record_tokens),
            message.submissions_seen,
        )


def are_residues(products: Products) -> bool:
    """Tell whether shares of logits are residues."""
    return products.dtype == np.uint64


def _residues_of(message: common_pb2.PartialScores) -> NDArray[np.uint64]:
    count = message.rows * message.columns
    if len(message.residues) != count:
        raise InvalidMessage(f"Expected {message.rows} x {message.columns} scores, got {len(message.residues)} values.")
    return np.fromiter(message.residues, dtype=np.uint64, count=count).reshape(message.rows, message.columns)


def matrix_of(rows: int, columns: int, values: Sequence[float]) -> FloatArray:
    """Read a (rows, columns) matrix.

    Raises:
        InvalidMessage: when the sizes don't fit, or for a value that isn't finite or beyond LARGEST_SHARE.
    """
    if len(values) != rows * columns or not values:
        raise InvalidMessage(f"Expected {rows} x {columns} scores, got {len(values)} values.")
    matrix = np.fromiter(values, dtype=np.float64, count=rows * columns).reshape(rows, columns)
    check_magnitude(matrix)
    return matrix


def check_magnitude(values: Products) -> None:
    """Raise InvalidMessage unless all are finite and at most LARGEST_SHARE: sums of them stay finite."""
    # Not "any above": a comparison with NaN is false.
    if not (np.abs(values) <= limits.LARGEST_SHARE).all():
        raise InvalidMessage(f"Scores must be finite numbers, at most {limits.LARGEST_SHARE:g} in magnitude.")


def check_confidence_scores(scores: FloatArray, shape: tuple[int, int], *, are_defended: bool) -> None:
    """Raise InvalidMessage for what no coordinator may answer with.

    Args:
        scores: the answer.
        shape: rows that were asked for, and classes.
        are_defended: whether a defence may have moved what each row sums to.
    """
    if scores.shape != shape:
        raise InvalidMessage(f"The coordinator answers with scores of shape {scores.shape}, expected {shape}.")
    is_range = bool(((scores >= -SLACK) & (scores <= 1 + SLACK)).all())
    if not is_range or not (are_defended or np.allclose(scores.sum(axis=1), 1, atol=SLACK)):
        raise InvalidMessage("The coordinator answers with numbers that are no confidence scores.")
