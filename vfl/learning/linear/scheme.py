"""The first-order expansion of sigmoid and softmax as a sum over parties (Hu eq. 4-6)."""

import math
from dataclasses import dataclass

import numpy as np

from vfl.arrays import FloatArray, IntArray


def residual_columns(classes: int) -> int:
    """Count columns of residuals, trained weights and partial scores: 1 for two classes, one per class otherwise.

    Examples:
        >>> residual_columns(2), residual_columns(3)
        (1, 3)
    """
    return 1 if classes == 2 else classes


@dataclass(frozen=True)
class ResidualScheme:
    """Turns each party's partial products theta^T x into its share of the residual f.

    The gradient is a multiple of sum_i f_i x_i.

    Binary (``classes == 2``): one column, labels y in {-1, +1}, f = theta^T x - 2 y and
    gradient = 1/(4 s) sum_i f_i x_i (Hu eq. 4-5).

    ``classes == k > 2``: k columns. Expanding softmax at 0 gives p_c ~ 1/k + (z_c - mean z)/k, hence
    f_c = z_c - mean z + 1 - k [y = c] and gradient_c = 1/(k s) sum_i f_ic x_i. For k = 2 this is Hu's f for
    theta = theta_1 - theta_0, up to the factor 1/2 by which two columns share it.

    f is a sum over parties. A passive party's share needs only its own features (``passive_share``); the active party
    adds the label term (``active_share``).

    Raises:
        ValueError: for fewer than two classes.

    Examples:
        >>> scheme = ResidualScheme(classes=2)
        >>> scheme.passive_share(np.array([[0.5]])) + scheme.active_share(np.array([[0.25]]), labels=np.array([1]))
        array([[-1.25]])
    """

    classes: int

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise ValueError(f"A classifier needs at least 2 classes, got {self.classes}.")

    @property
    def columns(self) -> int:
        """Columns of the residual and of the weights."""
        return residual_columns(self.classes)

    def passive_share(self, partial_products: FloatArray) -> FloatArray:
        """Compute a party's share of f without labels; (s, columns) in, (s, columns) out."""
        if self.columns == 1:
            return partial_products
        centred: FloatArray = partial_products - partial_products.mean(axis=1, keepdims=True)
        return centred

    def active_share(self, partial_products: FloatArray, labels: IntArray) -> FloatArray:
        """Compute the label party's share of f: (s, columns) products and (s,) class indices in, (s, columns) out."""
        if self.columns == 1:
            signs = 2.0 * labels[:, None] - 1.0
            return partial_products - 2.0 * signs
        return self.passive_share(partial_products) + 1.0 - self.classes * np.eye(self.classes)[labels]

    def intercept(self, labels: IntArray) -> FloatArray:
        """Give the products at which shares of these records' labels, (n,), have mean 0: (columns,)."""
        terms = self.active_share(np.zeros((len(labels), self.columns)), labels)
        intercept: FloatArray = -terms.mean(axis=0)
        return intercept

    def gradient_scale(self, rows: int) -> float:
        """Give the factor between sum_i f_i x_i and the gradient of a batch of ``rows`` records.

        Of one record it is c, by which X^T X bounds the loss's curvature: f is z itself for two classes, and for k what
        I - 1 1^T / k leaves of z, whose eigenvalues are 0 and 1.
        """
        return 1.0 / (self.classes * self.classes * rows) if self.columns == 1 else 1.0 / (self.classes * rows)

    def quadratic_loss(self, mean_square: float) -> float:
        """Give the loss whose gradient this is, in nats: of the mean over records of the sum of f_c^2.

        Two classes: log 2 + z^2/8 - (y - 1/2) z with y in {0, 1}, the log loss to second order at 0. Any k: log k +
        sum_c (z_c - mean z)^2 / (2 k) - (z_y - mean z).
        """
        at_zero = 4.0 if self.columns == 1 else self.classes * (self.classes - 1.0)
        return math.log(self.classes) + self.gradient_scale(1) / 2 * (mean_square - at_zero)
