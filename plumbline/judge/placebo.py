"""A placebo for the judge: attacks on predictions of other records have nothing to give away.

Each record gets the scores of another one, with or without that record's own columns. Whoever judges such attacks must
find no part of the federation's in any column of which the adversary knows the mean: a judge that does credits guesses.
Knowing public ranges only is another matter: anybody's scores tell what records are like on average.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from attacks import PredictionAttack, PredictionView, ViewError, level_of, reconstruct
from attacks.base import BaselinedAttack
from plumbline.judge.baselines import Knowledge, Predictor, imputations
from plumbline.judge.federation_part import Comparison
from plumbline.judge.verdicts import Evidence
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
    mounted: Mapping[str, PredictionAttack],
    *,
    seen: PredictionView | None = None,
) -> Evidence:
    """Mount attacks on a view beside what is guessed without scores, as an audit does with the parties' files.

    Args:
        view: what the adversary has; guesses are made of it.
        truth: (n, d) passive features of the attacked records.
        mounted: attacks by their labels; those that see no scores count as guesses.
        seen: what attacks see in its place.

    Raises:
        ViewError: when a view lacks what an attack needs.
    """
    attacks = {label: one for label, one in mounted.items() if one.spec.sees_scores}
    guesses = {label: one for label, one in mounted.items() if not one.spec.sees_scores}
    withheld = [
        Predictor(f"{label}, scores withheld", level_of(one), one.without_scores(view))
        for label, one in attacks.items()
        if isinstance(one, BaselinedAttack)
    ]
    score_free = [*_predictors(guesses, view), *withheld, *_imputations(view)]
    return Evidence.of(truth, _predictors(attacks, view if seen is None else seen), score_free)


def placebo(
    view: PredictionView,
    truth: FloatArray,
    mounted: Mapping[str, PredictionAttack],
    *,
    what: Permuted = "records",
    generator: np.random.Generator,
) -> Comparison:
    """Compare attacks on other records' predictions with guesses without any: no part should be beyond chance.

    Args:
        view: what the adversary has.
        truth: (n, d) passive features of the attacked records.
        mounted: attacks by their labels.
        what: what is permuted.
        generator: draws the permutation and the resamples.

    Raises:
        ViewError: when the view lacks scores, or what an attack needs.
    """
    evidence = gather_evidence(view, truth, mounted, seen=permuted(view, what, generator))
    return evidence.compared(generator=generator)


def _predictors(mounted: Mapping[str, PredictionAttack], view: PredictionView) -> list[Predictor]:
    return [Predictor(label, level_of(one), reconstruct(one, view).estimate) for label, one in mounted.items()]


def _imputations(view: PredictionView) -> list[Predictor]:
    """What the view's complete records tell, as the judge of an audit counts it."""
    known = view.auxiliary
    if known is None:
        return []
    return imputations(
        Knowledge(
            features_active=view.features_active,
            labels=view.record_labels,
            auxiliary_active=known.features_active,
            auxiliary_passive=known.features_passive,
            auxiliary_labels=known.labels,
        )
    )
