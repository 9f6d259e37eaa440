"""What is left of received columns without what own ones make of them, where they follow exactly from all."""

import numpy as np
import pytest

from attacks import AuxiliaryRows, PredictionView
from attacks.prediction.received_columns import linear_weights, without_own_share

KNOWN, JUDGED = 30, 20


def drawn() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Own and secret columns; scores of both, of secret ones alone, of neither, and of own ones alone."""
    draw = np.random.default_rng(3)
    own, secret = draw.random((KNOWN + JUDGED, 2)), draw.random((KNOWN + JUDGED, 2))
    received = np.column_stack(
        [2 * own[:, 0] - own[:, 1] + secret[:, 0], secret[:, 1], np.sin(9 * secret[:, 0]), own[:, 0]]
    )
    return own, secret, (received - received.min(axis=0)) / np.ptp(received, axis=0)


def seen(own: np.ndarray, secret: np.ndarray, received: np.ndarray) -> PredictionView:
    known = AuxiliaryRows(own[:KNOWN], secret[:KNOWN], np.empty((KNOWN, 0)), received=received[:KNOWN])
    return PredictionView(features_active=own[KNOWN:], passive_features=2, auxiliary=known, received=received[KNOWN:])


def test_of_a_score_of_both_parties_the_senders_share_is_left() -> None:
    own, secret, received = drawn()
    left = without_own_share(seen(own, secret, received), linear_weights(own[:KNOWN], secret[:KNOWN], received[:KNOWN]))
    assert left.auxiliary is not None
    assert left.auxiliary.received is not None
    assert left.received is not None
    both = np.vstack([left.auxiliary.received, left.received])
    # One column more: others are of secret columns alone, of own ones alone, or follow from nothing.
    assert both.shape == (KNOWN + JUDGED, 5)
    np.testing.assert_array_equal(both[:, :4], received)
    assert np.corrcoef(both[:, 4], secret[:, 0])[0, 1] == pytest.approx(1.0)
    # Known and judged records are on one scale.
    assert (both[:, 4].min(), both[:, 4].max()) == (0.0, 1.0)


def test_where_nothing_follows_nothing_is_added() -> None:
    view = seen(*drawn())
    assert without_own_share(view, np.full((1 + 2 + 2, 4), np.nan)) is view
