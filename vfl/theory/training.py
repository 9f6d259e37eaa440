"""What the gradients of a vertical logistic regression leak, by theory (Hu, sections 3-5, appendices A, E, F).

The gradient is a multiple of sum_i f_i x_i, for z = theta^T x and y in {-1, +1}, with one of three residuals f:

- ``first_order``: f = z - 2 y, gradient 1/(4 s) (eq. 4-5). A sum over parties, so it can be computed under encryption.
- ``minimax``: f = n(z) - y/2 with n(z) = 0.197 z - 0.004 z^3, gradient 1/s (eq. 123-124).
- ``piecewise``: f = z - y/2 for |z| < 1/2, -y for y z <= -1/2, 0 for y z >= 1/2, gradient 1/s (eq. 139-140).

The last two need the whole of z in one place, which no party of Protocol 1 has. They exist with ``cipher=plain`` only:
``simulate_oracle`` plays the oracle of section 2.2 that hands every party its own gradient.

The paper assumes ||x|| <= 1. Where a bias feature or unscaled data break that, ``squared_norm`` takes its place: the
largest ||x||^2 of a whole row. The inner product of two rows is then at most that, and in Lemma 4.4 eta becomes
eta ||x||^2; nothing else changes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from vfl.arrays import BoolArray, FloatArray, IntArray
from vfl.learning.linear.reference import GradientDescent, PlainStep, PlainTraining, VerticalData
from vfl.learning.linear.scheme import ResidualScheme

Approximation = Literal["first_order", "minimax", "piecewise"]
APPROXIMATIONS: tuple[Approximation, ...] = ("first_order", "minimax", "piecewise")

_MINIMAX_LINEAR = 0.197
_MINIMAX_CUBIC = 0.004
# Hu E.2: |n(z)| < 1/2 for |z| < 3.2, so there the sign of f is that of -y.
_MINIMAX_THRESHOLD = 3.2
# The turning points of n are at +-TURNING_POINT; between them it rises, and every value has one preimage there.
TURNING_POINT = math.sqrt(_MINIMAX_LINEAR / (3 * _MINIMAX_CUBIC))
SATURATION = 0.5


# --- residuals -------------------------------------------------------------------------------------------------


def minimax_polynomial(products: FloatArray) -> FloatArray:
    """Compute n(z) = 0.197 z - 0.004 z^3 (Hu eq. 130): the minimax cubic of the sigmoid on [-5, 5], less 1/2."""
    return _MINIMAX_LINEAR * products - _MINIMAX_CUBIC * products**3


def minimax_residual(products: FloatArray, labels: IntArray) -> FloatArray:
    """Compute f = n(z) - y/2 (Hu eq. 124): (s, 1) products and (s,) class indices 0 or 1 in, (s, 1) out."""
    return minimax_polynomial(products) - 0.5 * _signs(labels)


def minimax_product(values: FloatArray) -> FloatArray:
    """Find the z in [-TURNING_POINT, TURNING_POINT] with n(z) = value; NaN where |value| > n(TURNING_POINT) = 0.532.

    Hu E.1 asks for a z that is unique among *all* reals, which needs |z| > 2 TURNING_POINT = 8.1: far outside the
    interval [-5, 5] that n approximates (and there C_t of eq. 128 should read "not in"). Where theory bounds |z| by
    less than TURNING_POINT, as Theorem E.3 does by 3.2, this one is the right one.
    """
    # Viete: z = 2 TURNING_POINT sin(a) turns n(z) = v into sin(3 a) = v / n(TURNING_POINT).
    top = float(minimax_polynomial(np.array(TURNING_POINT)))
    with np.errstate(invalid="ignore"):
        products: FloatArray = 2 * TURNING_POINT * np.sin(np.arcsin(values / top) / 3)
    return products


def piecewise_residual(products: FloatArray, labels: IntArray) -> FloatArray:
    """Compute f of Hu eq. 140: (s, 1) products and (s,) class indices 0 or 1 in, (s, 1) out."""
    signs = _signs(labels)
    inner = np.abs(products) < SATURATION
    wrong = signs * products <= -SATURATION
    return np.where(inner, products - 0.5 * signs, np.where(wrong, -signs, 0.0))


def residual(approximation: Approximation, products: FloatArray, labels: IntArray, classes: int = 2) -> FloatArray:
    """Compute the residual f of whole products: (s, columns) and (s,) class indices in, (s, columns) out.

    Raises:
        ValueError: for an unknown approximation, or a non-linear one with more than two classes.
    """
    check_approximation(approximation, classes)
    if approximation == "minimax":
        return minimax_residual(products, labels)
    if approximation == "piecewise":
        return piecewise_residual(products, labels)
    return ResidualScheme(classes).active_share(products, labels)


def gradient_scale(approximation: Approximation, rows: int, classes: int = 2) -> float:
    """Give the factor between sum_i f_i x_i and the gradient of ``rows`` records (Hu eq. 4, 123, 139)."""
    return ResidualScheme(classes).gradient_scale(rows) if approximation == "first_order" else 1.0 / rows


def check_approximation(approximation: str, classes: int) -> None:
    """Accept an approximation only if it is defined for so many classes.

    Raises:
        ValueError: for an unknown approximation, or a non-linear one with more than two classes.
    """
    if approximation not in APPROXIMATIONS:
        raise ValueError(f"Unknown approximation {approximation!r}. Choose one of: {', '.join(APPROXIMATIONS)}.")
    if approximation != "first_order" and classes != 2:
        raise ValueError(f"{approximation} is defined for 2 classes, got {classes}: use first_order.")


def _signs(labels: IntArray) -> FloatArray:
    return np.where(labels[:, None] == 1, 1.0, -1.0)


# --- how long the signs tell the labels ------------------------------------------------------------------------


def sign_threshold(approximation: Approximation, classes: int = 2) -> float:
    """Give the bound on max |theta^T x| below which the sign of f tells the label (Criterion 4.2).

    It is 2 (Hu eq. 19), k/2 for k > 2 classes, 3.2 for minimax (eq. 131). For k > 2 (ours) the products are centred
    over
    classes: f_c = z_c + 1 - k [y = c] is smallest at c = y as long as no two centred products are k apart.

    Raises:
        ValueError: for piecewise, whose every f tells by itself (Theorem F.2).
    """
    check_approximation(approximation, classes)
    if approximation == "piecewise":
        raise ValueError("piecewise has no threshold: Theorem F.2 decides by the size of each f.")
    if approximation == "minimax":
        return _MINIMAX_THRESHOLD
    return 2.0 if classes == 2 else classes / 2


def guaranteed_steps(
    learning_rate: float,
    epsilon: float,
    *,
    approximation: Approximation = "first_order",
    classes: int = 2,
    squared_norm: float = 1.0,
) -> int:
    """Count T_eps: the first steps at which Criterion 4.2 is certain (Hu Corollary 4.5, Theorems 4.6, 4.10, E.3).

    One record's share of the gradient is at most (|z| + c) / k' times its features, with (k', c) = (4, 2) for two
    classes, minimax included, and (k, k - 1) for k classes. Hence h_t = max |theta_{t-1}^T x| + c grows by at most
    1 + eta ||x||^2 / k' per step (Lemma 4.4), and the criterion holds at every t with t - 1 < log(h_failing / h_1).
    It also holds for the label party's share alone: |g^A| obeys the same recursion with the smaller ||x^A||^2. L2 on
    all weights but the bias keeps it as well, when epsilon also bounds the initial bias.

    Args:
        learning_rate: eta.
        epsilon: max_i |theta_0^T x_i|: 0 for zero initialisation (Theorem 4.6), or an ``initial_product_bound`` that
            holds with high probability. From the threshold on nothing is guaranteed: 0 steps.
        approximation: of the gradient.
        classes: k.
        squared_norm: the largest ||x||^2.

    Raises:
        ValueError: for a number out of range.
    """
    if not (learning_rate > 0 and epsilon >= 0 and squared_norm > 0):
        raise ValueError(
            f"Expected learning_rate > 0, epsilon >= 0, squared_norm > 0; "
            f"got {learning_rate}, {epsilon}, {squared_norm}."
        )
    threshold = sign_threshold(approximation, classes)
    if epsilon >= threshold:
        return 0
    divisor, margin = (4, 2.0) if classes == 2 else (classes, classes - 1.0)
    growth = math.log1p(learning_rate * squared_norm / divisor)
    return math.ceil(math.log((threshold + margin) / (margin + epsilon)) / growth)


def initial_product_bound(
    initialisation: str, total_features: int, rows: int, *, columns: int = 1, squared_norm: float = 1.0, failure: float
) -> float:
    """Bound max over ``rows`` of |theta_0^T x|, except with probability ``failure``.

    Hu's Lemma 4.7 has an unspecified constant. For the initialisations here there is an explicit bound. A weight
    uniform on +-b is sub-Gaussian with variance b^2/3, a normal one with its own variance, so that P(|theta_0^T x| >=
    eps) <= 2 exp(-eps^2 / (2 variance ||x||^2)). A union bound over rows and columns follows.

    Raises:
        ValueError: for an unknown initialisation.
    """
    if initialisation == "zero":
        return 0.0
    variances = {"xavier": 2.0 / (total_features + columns), "kaiming": 2.0 / total_features, "normal": 1e-4}
    if initialisation not in variances:
        raise ValueError(f"Unknown initialisation {initialisation!r}. Choose one of: zero, {', '.join(variances)}.")
    return math.sqrt(2 * variances[initialisation] * squared_norm * math.log(2 * rows * columns / failure))


# --- when batches sort -----------------------------------------------------------------------------------------


def sortable_epochs(batches: int) -> int:
    """Count the epochs that tell all ratios of a single feature with high probability: ceil(log2 m) + 1 (Lemma 3.4)."""
    if batches < 1:
        raise ValueError(f"Expected batches >= 1, got {batches}.")
    return (batches - 1).bit_length() + 1


# --- how many equations ----------------------------------------------------------------------------------------


def copies(key_bits: int, iota: int) -> int:
    """Count the sums of iota bits that one plaintext carries: u = floor((kappa - 1) / iota) (Hu 5.2).

    Raises:
        ValueError: when not even one fits.
    """
    if iota < 1 or key_bits - 1 < iota:
        raise ValueError(f"Expected 1 <= iota <= {key_bits - 1} for a {key_bits}-bit key, got {iota}.")
    return (key_bits - 1) // iota


def sum_bits(rows: int, residual_bound: int, feature_bound: int) -> int:
    """Count the bits that a signed sum of ``rows`` products takes: log2(rows) more than one product, and a sign.

    Residual integers stay below their bound, feature integers reach theirs. Hu's (37)-(38) count one product only.
    """
    return (rows * (residual_bound - 1) * feature_bound).bit_length() + 1


def solvable(rows: int, features: int, copies: int = 1) -> bool:
    """Tell whether s <= u d: equations suffice for features in general position (Corollary 3.2; section 5.2)."""
    return rows <= copies * features


# --- the oracle ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OracleRun:
    """A simulated training, from which ``attacks.training_views.simulated_view`` cuts a party's view.

    Attributes:
        blocks: per party, its features, (n, d_j).
        labels: (n,) class indices.
        label_party: index of the party that holds the labels.
        classes: k.
        approximation: of the gradient.
        learning_rate: eta.
        own_moments: whether gradients are multiplied by the inverses of parties' own second moments.
        l2: strength of the penalty on weights.
        batch_size: rows of the largest batch.
        steps: all steps, in order.
        weights: per party, its final weights, (d_j, columns).
    """

    blocks: tuple[FloatArray, ...]
    labels: IntArray
    label_party: int
    classes: int
    approximation: Approximation
    learning_rate: float
    l2: float
    batch_size: int
    steps: tuple[PlainStep, ...]
    weights: tuple[FloatArray, ...]
    own_moments: bool = False


def simulate_oracle(
    data: VerticalData,
    weights: Sequence[FloatArray],
    descent: GradientDescent,
    *,
    approximation: Approximation = "first_order",
    share_step: float = 0.0,
    l2: float = 0.0,
    unpenalised: Sequence[BoolArray] | None = None,
) -> OracleRun:
    """Train on the joined blocks in float64 and keep what each party would see (Hu eq. 3-6). INSECURE by nature.

    Args:
        data: every party's features, and the labels.
        weights: per party, its initial weights, (d_j, columns).
        descent: batches, epochs and learning rate.
        approximation: how the gradient is expanded.
        share_step: the grid that shares are rounded to, as Paillier's fixed point does; 0 for none. First order only.
        l2: strength of the penalty on weights.
        unpenalised: per party, a mask (d_j,) of features that the penalty spares.
    """
    blocks, labels, label_party = data.blocks, data.labels, data.label_party
    check_approximation(approximation, data.classes)
    training = PlainTraining(data, weights, descent, l2=l2, unpenalised=unpenalised)

    def expand(products: Sequence[FloatArray], rows: IntArray) -> tuple[Sequence[FloatArray], FloatArray]:
        if approximation != "first_order":
            return products, residual(approximation, np.sum(products, axis=0), labels[rows])
        shares, f = training.first_order(products, rows)
        if share_step:
            shares = [np.rint(share / share_step) * share_step for share in shares]
            f = np.add.reduce(shares)
        return shares, f

    scale = partial(gradient_scale, approximation, classes=data.classes)
    steps = [step for epoch in range(descent.epochs) for step in training.epoch(epoch, expand, scale)]
    return OracleRun(
        tuple(blocks),
        labels,
        label_party,
        data.classes,
        approximation,
        descent.learning_rate,
        l2,
        descent.schedule.batch_size,
        tuple(steps),
        tuple(training.model),
        descent.own_moments,
    )
