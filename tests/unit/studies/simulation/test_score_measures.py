"""What defences do to scores, in known answers."""

import numpy as np
import pytest

from studies.simulation.score_measures import mean_divergence


def test_divergence_known_answers() -> None:
    scores = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert mean_divergence(scores, scores) == 0
    # Delivered rows count as if normalised; a score that was 0 adds nothing.
    assert mean_divergence(scores, np.array([[0.25, 0.75], [2.0, 2.0]])) == pytest.approx(
        (0.5 * np.log(2) + 0.5 * np.log(2 / 3) + np.log(2)) / 2
    )
    assert mean_divergence(scores, np.array([[1.0, 0.0], [1.0, 0.0]])) == np.inf
    assert mean_divergence(scores[:1], np.zeros((1, 2))) == 0  # zeros say as much as uniform scores
