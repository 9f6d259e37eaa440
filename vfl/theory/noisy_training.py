"""What the noise of Hu's Algorithm 3 does to the trained model (section 6): gradient errors, weights, accuracy.

The label party A adds N(0, sigma_A^2) to its shares of the residual, every other party B N(0, sigma_B^2). Each party's
part of the gradient carries the other's noise. `vfl.theory.dp_noise` computes both sigmas.
"""

import math

# Lemma 6.3 leaves c open. Laurent and Massart (2000, Lemma 1) bound a Gaussian quadratic form with Tr P <= s by
# s (1 + 2 sqrt(x) + 2 x) except with probability exp(-x); at x = c k this is below 4 k s for all k >= 1 with this c.
TAIL_CONSTANT = (math.sqrt(7) - 1) ** 2 / 4


def error_bound(sigma: float, rows: int, steps: int, failure: float, *, constant: float = TAIL_CONSTANT) -> float:
    """Bound ||e_t|| at all T steps, except with probability ``failure``: u = sqrt(ln(2 T / failure) / (c s)) sigma (eq.
    48).

    It holds for ||x|| <= 1; otherwise ||e_t|| <= u max ||x||.

    Args:
        sigma: the larger one.
        rows: s.
        steps: T.
        failure: in (0, 1).
        constant: c of Lemma 6.3, unspecified there; the default is proved (see TAIL_CONSTANT).

    Raises:
        ValueError: for numbers out of range, or so large a failure that Lemma 6.3 (k >= 1) says nothing.
    """
    if not (sigma >= 0 and rows >= 1 and steps >= 1 and 0 < failure < 1 and constant > 0):
        raise ValueError(
            f"Expected sigma >= 0, rows >= 1, steps >= 1, failure in (0, 1), constant > 0; "
            f"got {sigma}, {rows}, {steps}, {failure}, {constant}."
        )
    k = math.log(2 * steps / failure) / constant
    if k < 1:
        raise ValueError(f"Lemma 6.3 needs 2 T / failure >= e^c, got T = {steps}, failure = {failure}, c = {constant}.")
    return math.sqrt(k / rows) * sigma
