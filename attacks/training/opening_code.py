"""The opening code: labels in the weights that training on shared weights opens to their owner (ours).

Until the opening a party sees ciphertexts and uniform numbers. A passive party encrypts its columns once, and nobody
can tell what they hold: zeros for products with weights, so that the model goes on without them, and a code for
products with residuals. What its weight then is, is a sum of the residuals of its choice with factors of its choice,

    W_j = -c sum_i B_ij f_i,        f_i = b - a [y_i = its class] + z_i

with public b and a (``ResidualScheme``), and c the learning rate times the scale of the gradient. Opened are w bits. Of
steps by own moments columns are turned before they are shared: a code stands in place of a turned one.

*From zero weights*, where no record of the first batch comes back, its z is 0. With c a B_ij = 2, 4, 8, ... units of
the word each bit of it is one label, but for the lowest: both halves of a word are rounded, which makes one unit. Of d
columns with k outputs this reads d (w - 1) records, each in k bits. Nothing can read more than d k w bits.

*Otherwise* z is unknown and larger than the digits below it: a column tells one record, by its sign.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from attacks.base import AttackSpec, Json, Scenario
from attacks.training.recovered_labels import UNRESOLVED
from attacks.training_attack import SharingTerms
from vfl.arrays import FloatArray, IntArray
from vfl.learning import TrainingColumns
from vfl.learning.linear.regression import LinearRegression
from vfl.learning.linear.scheme import ResidualScheme


@dataclass(frozen=True, eq=False)
class OpenedLabels:
    """Labels that opened weights told.

    Attributes:
        labels: (n,) class indices, or UNRESOLVED.
        rows: (m,) the records that steps used.
        bits: what these labels are, a bit for every output.
        bound: what the opening can carry.
        reason: why there is no label; empty when there is one.
    """

    kind: ClassVar[str] = "labels"
    labels: IntArray
    rows: IntArray
    bits: int
    bound: int
    reason: str = ""

    def facts(self) -> Mapping[str, Json]:
        """Tell how many bits were read, how many there are, and why there is no label."""
        return {"bits": self.bits, "bound": self.bound, "reason": self.reason}

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """Give labels of all records, and that they come at the end."""
        epoch = np.zeros(len(self.rows), dtype=np.int64)
        return {
            "labels": self.labels,
            "step_epoch": epoch,
            "step_rows": self.rows,
            "step_labels": self.labels[self.rows],
        }


@dataclass(frozen=True)
class OpeningCode:
    """Encrypts a code in place of a passive party's columns, and reads labels off what it is opened.

    Attributes:
        columns: how many of its columns, the last ones, are given up for it; 0 for all. The model does without them.
    """

    columns: int = 0

    name: ClassVar[str] = "opening_code"
    spec: ClassVar[AttackSpec] = AttackSpec(
        adversary="passive",
        phase="training",
        needs=(),
        source="ours",
        learners=("linear",),
        summary="reads labels off its opened weights, where weights are shared, by a code in place of its columns",
        cost="the columns: the model does without them",
        conduct="replaces_features",
        obstacle=lambda scenario: _obstacle(scenario),
    )

    def __post_init__(self) -> None:
        if self.columns < 0:
            raise ValueError(f"Expected columns >= 0, got {self.columns}.")

    def code(self, terms: SharingTerms) -> "CodedColumns":
        """Choose what the party encrypts in one session, and what it reads."""
        return CodedColumns(terms, self.columns)


def _obstacle(scenario: Scenario) -> str:
    return "" if scenario.protocol == "shared" else "reads what protocol=shared opens"


def _moved(learner: LinearRegression, parties: int, steps: int) -> float:
    """Tell how far so many steps against a gradient of 1 move a weight."""
    record, weight = TrainingColumns(np.ones((1, 1)), np.arange(1)), np.zeros((1, 1))
    descent = learner.descent(record, np.zeros((1, 1)), classes=2, parties=parties, turned=True)
    for _ in range(steps):
        weight = descent.moved(weight, descent.ahead(weight, record.rows), np.ones((1, 1)), record.rows)
    return -weight.item()


class CodedColumns:
    """One session's columns.

    Attributes:
        forward: (n, d), for products with weights.
        backward: (n, d), for products with residuals.
    """

    def __init__(self, terms: SharingTerms, columns: int) -> None:
        """Choose the records of the first batch that are read; raises ValueError for another learner than ours."""
        learner = terms.learner
        if not isinstance(learner, LinearRegression):
            raise ValueError(f"opening_code knows the steps of linear, not of {learner.name}.")
        n, d = terms.features.shape
        used = min(columns or d, d)
        self._terms, self._columns = terms, np.arange(d - used, d)
        first, visits = terms.batches[0], np.bincount(np.concatenate(terms.batches), minlength=n)
        self._seen = np.flatnonzero(visits)
        scale, parties = ResidualScheme(terms.classes).gradient_scale(len(first)), 1 + len(terms.peers)
        self._base, self._amplitude = (2.0, 4.0) if terms.outputs == 1 else (1.0, float(terms.classes))
        self._from_zero = learner.initialisation == "zero" and bool((visits[first] == 1).all())
        self._unit = 2.0**-terms.opening_fraction_bits
        self._digits = terms.opening_bits - 1 if self._from_zero else 1
        self._asked = first[: used * self._digits]
        self._column, self._digit = np.arange(len(self._asked)) % used, np.arange(len(self._asked)) // used
        if self._from_zero:
            shrunk = (1 - learner.learning_rate * learner.l2) ** (len(terms.batches) - 1)
            self._rate = scale * learner.rate(parties) * shrunk
            steps = self._unit * 2.0 ** (self._digit + 1)
        else:
            # Half the word's range, were the residual in every epoch as large as it may be at the start.
            self._rate = scale * _moved(learner, parties, int(visits[first].max()))
            steps = np.full(len(self._asked), 2.0 ** (terms.opening_bits - terms.opening_fraction_bits - 2))
        entries = np.zeros((n, used))
        entries[self._asked, self._column] = steps / (self._rate * self._amplitude)
        # On the grid that features are encrypted on.
        grid = 2.0**-terms.feature_fraction_bits
        self._entries = np.rint(entries / grid) * grid
        self.forward, self.backward = terms.features.copy(), terms.features.copy()
        self.forward[:, self._columns], self.backward[:, self._columns] = 0.0, self._entries
        self._labels = np.full(n, UNRESOLVED, dtype=np.int64)

    def read(self, opened: FloatArray) -> FloatArray:
        """Keep what (d, k) opened weights tell, and return those that the party goes on with: 0 in place of a code."""
        codes = opened[self._columns]
        answers = self._bits(codes) if self._from_zero else codes[self._column]
        if self._terms.outputs == 1:
            answers = np.column_stack([np.zeros(len(answers)), answers])
        self._labels[self._asked] = answers.argmax(axis=1)
        honest_weights = opened.copy()
        honest_weights[self._columns] = 0.0
        return honest_weights

    def result(self) -> OpenedLabels:
        """Give the labels that were read, once weights are opened."""
        terms = self._terms
        bound = terms.features.shape[1] * terms.outputs * terms.opening_bits
        bits = int((self._labels != UNRESOLVED).sum()) * terms.outputs
        return OpenedLabels(
            self._labels, self._seen, bits, bound, "" if bits else "Not possible: no weight was opened."
        )

    def _bits(self, codes: FloatArray) -> FloatArray:
        """Tell, (records, k), whether the residual of each asked record had its class's term in this output."""
        offset = self._rate * self._base * self._entries.sum(axis=0)[:, None]
        digits = np.rint((codes + offset) / (2 * self._unit)).astype(np.int64)
        bits: FloatArray = (digits[self._column] >> self._digit[:, None] & 1).astype(np.float64)
        return bits
