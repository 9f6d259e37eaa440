"""One party's part of the scores of some records, and its place on the wire."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from protos.v1 import common_pb2
from services.common.errors import InvalidMessage
from vfl.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class PartialScores:
    """What a party sends to the coordinator for one request.

    Attributes:
        products: its share of the logits, (rows, columns).
        parameter_gram: (classes, classes), W W^T of a passive party's class rows W, where the agreement wants it and
            the model is linear.
        record_tokens: a passive party's pseudonym of each row's record, where scores are defended.
        submissions_seen: how many shares of the session the coordinator has told a passive party of, where scores are
            defended.
    """

    products: FloatArray
    parameter_gram: FloatArray | None = None
    record_tokens: tuple[int, ...] = ()
    submissions_seen: int = 0

    def same_as(self, other: "PartialScores") -> bool:
        """Whether both say the same of the scores, bit for bit."""
        mine, theirs = (
            (part.products.tolist(), [] if part.parameter_gram is None else part.parameter_gram.tolist())
            for part in (self, other)
        )
        return mine == theirs and self.record_tokens == other.record_tokens

    def to_message(self, session_id: str, request_id: int) -> common_pb2.PartialScores:
        """Write the share as a message, for one request of a session."""
        rows, columns = self.products.shape
        return common_pb2.PartialScores(
            session_id=session_id,
            request_id=request_id,
            rows=rows,
            columns=columns,
            values=self.products.ravel().tolist(),
            parameter_gram=[] if self.parameter_gram is None else self.parameter_gram.ravel().tolist(),
            record_tokens=self.record_tokens,
            submissions_seen=self.submissions_seen,
        )

    @classmethod
    def from_message(cls, message: common_pb2.PartialScores) -> "PartialScores":
        """Raises InvalidMessage when sizes don't fit or a value isn't finite."""
        classes = math.isqrt(len(message.parameter_gram))
        return cls(
            matrix_of(message.rows, message.columns, message.values),
            matrix_of(classes, classes, message.parameter_gram) if message.parameter_gram else None,
            tuple(message.record_tokens),
            message.submissions_seen,
        )


def matrix_of(rows: int, columns: int, values: Iterable[float]) -> FloatArray:
    """Read a (rows, columns) matrix; raises InvalidMessage when the sizes don't fit or a value isn't finite."""
    flat = np.fromiter(values, dtype=np.float64)
    if flat.size != rows * columns or flat.size == 0:
        raise InvalidMessage(f"Expected {rows} x {columns} scores, got {flat.size} values.")
    if not np.isfinite(flat).all():
        raise InvalidMessage("Scores must be finite numbers.")
    return flat.reshape(rows, columns)
