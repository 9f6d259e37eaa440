"""Steps by the party's own moments: its gradient times the inverse of its own block of the loss's curvature.

The linear model's loss is quadratic. Of its curvature H = c X^T X / n + l2 each party P knows the block H_PP of its own
columns. A step by its inverse doesn't depend on how columns are scaled, nor on what a party's columns have in common.

*Centred.* What different parties' columns have in common is learned slowly, and nearly all columns have a constant in
common: their means. So each party takes its mean over the batch's records off its share of the residual, before it is
sent. Shares then add up to zero over a batch, which is what the best intercept makes of them, whatever weights are; and
sums of columns times shares are those of centred columns, though nobody has said its means: X^T f = (X - 1 m^T)^T f. So
X below is centred, over a batch by its own means. The intercept follows when training ends: the label party knows the
mean of its label terms, and each party what the means of its columns add to its products.

*Rate.* Let D hold the blocks H_PP of m parties, and 0 elsewhere. |sum_P X_P v_P|^2 <= m sum_P |X_P v_P|^2 gives v^T H v
<= m v^T D v: no eigenvalue of D^-1 H is above m, the number of blocks (Demmel 2023, "Nearly optimal block-Jacobi
preconditioning"). Columns that every party holds attain it. So a step of rate r < 2 / m doesn't grow the loss (Nesterov
2018, section 2.1.5); above 2 / m columns that are held alike diverge. Damping adds to D and keeps both.

*Momentum.* Where a batch is all training records, steps go on from weights that are carried ahead by t / (t + 3) of the
last step (Nesterov 2018, section 2.2; Chambolle and Dossal 2015). With r <= 1 / m the loss after t steps is above its
least by 2 |w_0 - w|_D^2 / (r (t + 1)^2) at most. It may grow from one step to the next. Batches of fewer records have
no momentum: it adds up what they differ by.

*Batches.* A batch may hold more of a column than the whole does: all of a rare one. The whole's block would overshoot
there, by as much as there are batches. So on a batch the block is raised, in the directions in which the batch's own is
larger, to as much. The bound on the rate then holds for every batch and its own loss; the loss of all records may grow.

*Damping* is a hundredth of each column's own moment, so that it doesn't depend on scales either. What columns have in
common up to that is learned by slower steps, and weights stay small.

*Turned columns.* With R R^T = D^-1 a plain step on weights v of the columns X R is this step on w = R v: v moves by
r R^T X^T f, and so w by r D^-1 X^T f. Whoever knows nothing of X can take it, such as the holder of a share of v. There
the row of a trained record has a norm of (n / c)^(1/2) at most: D >= c x x^T / n gives x^T D^-1 x <= n / c.

*Noise* that a party adds to what it sends, of standard deviation s for each record, moves scores of training records in
a step by r s sqrt(d / n) at most, in the root mean square, however small eigenvalues are: the inverse takes from scores
what it gives to weights. Only weights grow in directions that records hardly tell of, to the root of 1 / damping. Still
it is least squares with the noise of few answers: much of it needs a smaller rate, or plain steps, which average over
many.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy

from vfl.arrays import FloatArray, IntArray

# Of each column's own moment. Measured: docs/decisions/0026.
DAMPING = 0.01
# No mean of n numbers is off by more than n times as much of what it is (Higham 2002, section 4.2).
_ROUNDED = np.finfo(np.float64).eps


class OwnMoments:
    """The inverse of one party's block of the curvature: of all training records, and of batches.

    Examples:
        >>> moments = OwnMoments(np.array([[1.0], [3.0]]), np.arange(2), curvature=0.25, penalty=np.zeros((1, 1)))
        >>> moments.times(np.array([[0.2525]]), np.arange(2)).round(6)
        array([[1.]])
    """

    def __init__(self, table: FloatArray, trained: IntArray, curvature: float, penalty: FloatArray) -> None:
        """Compute the block of centred columns and its root, once.

        Args:
            table: (aligned records, d), the party's own columns.
            trained: which of them are trained on, (n,).
            curvature: c, the second derivative of a record's loss by its product.
            penalty: (d, 1) strength of the penalty on each weight.
        """
        self._table, self._curvature, self._penalty = table, curvature, penalty[:, 0]
        self._records, self._means = len(trained), table[trained].mean(axis=0)
        block = self._block(trained)
        # Of constant columns the gradient is 0, whatever it is multiplied by. Their mean is rounded: what they are off
        # it by isn't theirs, and its inverse would be some 10^30.
        moments, rounded = np.diag(block), curvature * (len(trained) * _ROUNDED * self._means) ** 2
        self._damping = np.diag(np.where(moments > rounded, DAMPING * moments, 1.0))
        self._root: FloatArray = scipy.linalg.cholesky(block + self._damping, lower=True)

    def is_whole(self, batch: IntArray) -> bool:
        """Tell whether a batch is all training records."""
        return len(batch) == self._records

    def times(self, gradient: FloatArray, batch: IntArray) -> FloatArray:
        """Multiply the gradient of a batch's loss by the inverse; (d, columns) in and out."""
        if self.is_whole(batch):
            product: FloatArray = scipy.linalg.cho_solve((self._root, True), gradient)
            return product
        # With P = L L^T and the batch's block B, of A = L^-1 B L^-T all eigenvalues above 1 count; the others are 1.
        block = self._block(batch) + self._damping
        half = scipy.linalg.solve_triangular(self._root, block, lower=True)
        sizes, directions = scipy.linalg.eigh(scipy.linalg.solve_triangular(self._root, half.T, lower=True))
        along = directions.T @ scipy.linalg.solve_triangular(self._root, gradient, lower=True)
        raised = directions @ (along / np.maximum(sizes, 1.0)[:, None])
        solved: FloatArray = scipy.linalg.solve_triangular(self._root, raised, lower=True, trans="T")
        return solved

    @property
    def turn(self) -> FloatArray:
        """The (d, d) R, upper triangular, whose R R^T is the inverse of the damped block of centred columns."""
        turn: FloatArray = scipy.linalg.solve_triangular(self._root, np.eye(len(self._root)), lower=True, trans="T")
        return turn

    def sent(self, share: FloatArray) -> FloatArray:
        """Centre a share of residuals over its batch, (s, columns)."""
        centred: FloatArray = share - share.mean(axis=0)
        return centred

    def constant(self, weights: FloatArray) -> FloatArray | None:
        """Give what centres the training records' products with weights, (columns,)."""
        constant: FloatArray = -(self._means @ weights)
        return constant

    def _block(self, rows: IntArray) -> FloatArray:
        records = self._table[rows] - self._table[rows].mean(axis=0)
        block: FloatArray = self._curvature / len(rows) * (records.T @ records) + np.diag(self._penalty)
        return block


def turn_of(records: FloatArray, curvature: float) -> FloatArray:
    """Make the (d, d) R, upper triangular, of (n, d) training records: R R^T is the inverse of their damped block.

    Examples:
        >>> turn_of(np.array([[1.0], [3.0]]), curvature=0.25).round(4)
        array([[0.89]])
    """
    block = curvature / len(records) * (records.T @ records)
    moments = np.diag(block)
    root = scipy.linalg.cholesky(block + np.diag(np.where(moments > 0, DAMPING * moments, 1.0)), lower=True)
    turn: FloatArray = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True, trans="T")
    return turn


class TurnedMoments:
    """What takes the place of moments where the party's columns are turned: nothing is left to multiply by."""

    def __init__(self, trained: IntArray) -> None:
        """Take the records that are trained on, (n,)."""
        self._trained = np.sort(trained)

    def is_whole(self, batch: IntArray) -> bool:
        """Tell whether a batch is all training records; validation records may be as many."""
        return np.array_equal(np.sort(batch), self._trained)

    def times(self, gradient: FloatArray, batch: IntArray) -> FloatArray:
        """Give the gradient of a batch's loss, (d, columns): every step is on all training records."""
        return gradient

    def sent(self, share: FloatArray) -> FloatArray:
        """Give a share of residuals, (s, columns), as it is: turned columns aren't centred."""
        return share

    def constant(self, weights: FloatArray) -> FloatArray | None:
        """Give nothing to add."""
        return None


class PlainDescent:
    """One party's plain steps: the gradient is taken at its weights, and moves them by the rate.

    It adds, and multiplies by public numbers, so that weights and gradients may be shares.

    Attributes:
        state: what it remembers from step to step: nothing.
    """

    def __init__(self, rate: float) -> None:
        """Take the rate."""
        self._rate = rate
        self.state: Mapping[str, Any] = {}

    def ahead(self, weights: FloatArray, batch: IntArray) -> FloatArray:
        """Give the weights, (d, columns), at which a batch's gradient is taken: these."""
        return weights

    def sent(self, share: FloatArray) -> FloatArray:
        """Give what is sent of a share of a batch's residuals, (s, columns): all of it."""
        return share

    def moved(self, weights: FloatArray, ahead: FloatArray, gradient: FloatArray, batch: IntArray) -> FloatArray:
        """Move against the gradient of a batch's loss; all (d, columns)."""
        return weights - self._rate * gradient

    def constant(self, weights: FloatArray) -> FloatArray | None:
        """Give what is added to products with these weights until training ends, (columns,): nothing."""
        return None


class OwnMomentsDescent:
    """One party's steps: at which weights the gradient is taken, and where it moves them.

    Attributes:
        state: what it remembers from step to step: the weights before the last step, and how many were taken.

    Examples:
        >>> moments = OwnMoments(np.array([[1.0], [3.0]]), np.arange(2), curvature=0.25, penalty=np.zeros((1, 1)))
        >>> descent, start, all_records = OwnMomentsDescent(moments, rate=0.5), np.zeros((1, 1)), np.arange(2)
        >>> first = descent.moved(start, start, np.array([[-0.2525]]), all_records)
        >>> descent.ahead(first, all_records).round(6)
        array([[0.625]])
    """

    def __init__(self, moments: OwnMoments | TurnedMoments, rate: float) -> None:
        """Take the party's moments, and a rate up to 1 / parties. With turned ones, weights may be shares."""
        self._moments, self._rate = moments, rate
        self.state: Mapping[str, Any] = {}

    def ahead(self, weights: FloatArray, batch: IntArray) -> FloatArray:
        """Carry weights on, (d, columns), to where a batch's gradient is taken."""
        if not self.state or not self._moments.is_whole(batch):
            return weights
        count = int(self.state["taken"])
        carried: FloatArray = weights + count / (count + 3) * (weights - self.state["before"])
        return carried

    def sent(self, share: FloatArray) -> FloatArray:
        """Give what is sent of a share of a batch's residuals, (s, columns): centred, where columns are."""
        return self._moments.sent(share)

    def moved(self, weights: FloatArray, ahead: FloatArray, gradient: FloatArray, batch: IntArray) -> FloatArray:
        """Move against the gradient of a batch's loss at ``ahead``; all (d, columns)."""
        self.state = {"before": weights, "taken": np.array(int(self.state["taken"]) + 1 if self.state else 1)}
        return ahead - self._rate * self._moments.times(gradient, batch)

    def constant(self, weights: FloatArray) -> FloatArray | None:
        """Give what is added to products with these weights until training ends, (columns,); None for nothing."""
        return self._moments.constant(weights)
