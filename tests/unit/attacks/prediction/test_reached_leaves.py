"""Reached leaves tell passive columns to who has some records in full, and those of other records tell nothing."""

from dataclasses import replace

import numpy as np
import pytest

from attacks.prediction.reached_leaves import Model, ReachedLeaves
from attacks.views import AuxiliaryRows, PredictionView, ViewError
from vfl.arrays import FloatArray

KNOWN, ASKED, TREES = 60, 80, 12


def reached() -> tuple[PredictionView, FloatArray]:
    """Predictions whose leaves say on which side of a few places two passive columns lie; and these columns."""
    generator = np.random.default_rng(3)
    passive, own = generator.random((KNOWN + ASKED, 2)), generator.random((KNOWN + ASKED, 1))
    places = generator.random((TREES, 2))
    leaves = (passive[:, None] > places).astype(np.float64) @ np.array([2.0, 1.0]) / 3
    labels = np.arange(KNOWN + ASKED) % 2
    auxiliary = AuxiliaryRows(
        own[:KNOWN], passive[:KNOWN], np.empty((KNOWN, 0)), labels[:KNOWN], received=leaves[:KNOWN]
    )
    view = PredictionView(
        features_active=own[KNOWN:],
        labels=labels[:KNOWN],
        features_train=own[:KNOWN],
        record_labels=labels[KNOWN:],
        passive_features=2,
        auxiliary=auxiliary,
        received=leaves[KNOWN:],
    )
    return view, passive[KNOWN:]


@pytest.mark.parametrize("model", ["regression", "imputation", "neighbours"])
def test_leaves_tell_columns_and_those_of_other_records_tell_nothing(model: Model) -> None:
    view, truth = reached()
    attack = ReachedLeaves(model=model)
    error = float(((attack.reconstruct(view) - truth) ** 2).mean())
    guess = float(((attack.without_scores(view) - truth) ** 2).mean())
    assert error < 0.3 * guess
    assert view.auxiliary is not None
    leaves, known_leaves = np.asarray(view.received), np.asarray(view.auxiliary.received)
    generator = np.random.default_rng(0)
    shuffled = replace(
        view,
        received=generator.permutation(leaves),
        auxiliary=replace(view.auxiliary, received=generator.permutation(known_leaves)),
    )
    assert float(((attack.reconstruct(shuffled) - truth) ** 2).mean()) > 0.9 * guess


def test_what_it_learns_from_must_be_there() -> None:
    view, _ = reached()
    assert view.auxiliary is not None
    with pytest.raises(ViewError, match="reached_leaves needs received, which this view lacks"):
        ReachedLeaves().reconstruct(replace(view, received=None))
    with pytest.raises(ViewError, match="leaves of complete records as well"):
        ReachedLeaves().reconstruct(replace(view, auxiliary=replace(view.auxiliary, received=None)))
    with pytest.raises(ValueError, match="model to be one of regression"):
        ReachedLeaves(model="guess")  # type: ignore[arg-type]
