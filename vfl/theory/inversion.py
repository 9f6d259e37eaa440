"""How many auxiliary records an adversary needs to train a shadow model: Jiang's tau (section 4.3.2, eq. 21-22)."""

from collections.abc import Sequence
from itertools import pairwise


def auxiliary_threshold(features: int, classes: int, hidden: Sequence[int] = ()) -> int:
    """Count tau: the fewest auxiliary records whose scores give as many equations as the passive part has unknowns.

    Unknown are all weights and biases of a network. A linear part has no bias of its own: the active party holds the
    model's. A record gives k equations: d for a linear part (eq. 21), |phi| / k, rounded up, for a network (eq. 22).
    But scores sum to 1, so only k - 1 are independent: for networks it is a guide, not a bound (Jiang).

    Args:
        features: d >= 1 inputs.
        classes: k >= 2 outputs.
        hidden: units of the hidden layers of the passive part.

    Raises:
        ValueError: for numbers out of range.
    """
    if features < 1 or classes < 2 or any(units < 1 for units in hidden):
        raise ValueError(
            f"Expected features >= 1, classes >= 2, hidden units >= 1; got {features}, {classes}, {hidden}."
        )
    last = (hidden[-1] + 1 if hidden else features) * classes
    before = sum((inputs + 1) * outputs for inputs, outputs in pairwise([features, *hidden]))
    return -(-(before + last) // classes)
