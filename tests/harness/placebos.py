"""Attacks on other records' predictions: what they seem to read can be no score's doing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attacks import PredictionAttack, PredictionView, ViewError
from plumbline.judge.evidence import gather_evidence
from plumbline.judge.federation_part import Comparison
from vfl.arrays import FloatArray

# What of a record is another one's: its scores, or with them all that belongs to it. Where only scores are, own columns
# and disclosed parameters stay and may tell by themselves what no level but ``records`` counts as known.
Permuted = Literal["scores", "records"]
_OF_RECORDS = ("scores", "features_active", "record_labels", "own_shift")


def permuted(view: PredictionView, what: Permuted, generator: np.random.Generator) -> PredictionView:
    """Give every record the scores of another one at random, or all that belongs to it.

    Raises ViewError for a view without scores.
    """
    if view.scores is None:
        raise ViewError("There are no scores to permute: run predictions first.")
    order = generator.permutation(view.n)
    pieces = {name: getattr(view, name) for name in (_OF_RECORDS if what == "records" else ("scores",))}
    return replace(view, **{name: piece[order] for name, piece in pieces.items() if piece is not None})


def placebo(
    view: PredictionView,
    truth: FloatArray,
    attacks_by_label: Mapping[str, PredictionAttack],
    *,
    what: Permuted = "records",
    generator: np.random.Generator,
) -> Comparison:
    """Compare attacks on other records' predictions with guesses without any: no part should be beyond chance.

    Args:
        view: what the adversary has.
        truth: (n, d) passive features of the attacked records.
        attacks_by_label: attacks by their labels.
        what: what is permuted.
        generator: draws the permutation.

    Raises:
        ViewError: when the view lacks scores, or what an attack needs.
    """
    evidence = gather_evidence(view, truth, attacks_by_label, attacked_view=permuted(view, what, generator))
    return evidence.compared()
