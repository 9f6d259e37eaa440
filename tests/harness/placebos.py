"""Attacks on other records' predictions: what they seem to read can be no score's doing."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attacks import PredictionAttack, PredictionView, ViewError, level_of, reconstruct
from attacks.base import BaselinedAttack
from plumbline.judge.evidence import Evidence, Predictor, imputations
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


def gather_evidence(
    view: PredictionView,
    truth: FloatArray,
    attacks_by_label: Mapping[str, PredictionAttack],
    *,
    attacked_view: PredictionView | None = None,
) -> Evidence:
    """Mount attacks on a view beside what is guessed without scores, as an audit does with the parties' files.

    Args:
        view: what the adversary has; guesses are made of it.
        truth: (n, d) passive features of the attacked records.
        attacks_by_label: attacks by their labels; those that see no scores count as guesses.
        attacked_view: what attacks see in its place.

    Raises:
        ViewError: when a view lacks what an attack needs.
    """
    attacks = {label: one for label, one in attacks_by_label.items() if one.spec.sees_scores}
    guesses = {label: one for label, one in attacks_by_label.items() if not one.spec.sees_scores}
    withheld = [
        Predictor(f"{label}, scores withheld", level_of(one), one.without_scores(view))
        for label, one in attacks.items()
        if isinstance(one, BaselinedAttack)
    ]
    score_free = [*_predictors(guesses, view), *withheld, *imputations(view)]
    return Evidence.of(truth, _predictors(attacks, view if attacked_view is None else attacked_view), score_free)


def _predictors(attacks_by_label: Mapping[str, PredictionAttack], view: PredictionView) -> list[Predictor]:
    reconstructions = {label: reconstruct(one, view) for label, one in attacks_by_label.items()}
    return [
        Predictor(label, level_of(attacks_by_label[label]), one.estimate, one.densest)
        for label, one in reconstructions.items()
    ]


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
