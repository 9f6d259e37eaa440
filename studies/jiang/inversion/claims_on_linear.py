"""What Jiang 5.2.1 says of Figure 5, and how a run is put to it."""

import pandas as pd

from studies.claims.claim import Claim
from studies.claims.statement import Statement
from studies.jiang.inversion.contenders import CLAMPED, ESA, GIA, GIA_KLD, RANDOM
from studies.jiang.inversion.curve_tests import (
    ALIKE,
    ALIKE_AT_LEAST,
    CURVES,
    approaches,
    below,
    fewer_times,
    near,
    of_each,
    with_errors,
)
from vfl.data import dataset

_FIGURE = "Figure 5, 5.2.1"
_UNFINISHED = (
    "The equations determine the features, and equation solving finds them. Gradient inversion goes the same way "
    "by small steps: the squared distance of scores is flat where they are near 0 or 1, so that many records are still "
    "on their way after the last round."
)
_COLUMNS = "Which columns are passive matters more than how many."
_STARTS = (
    "Both start from zero, where equation solving stays nearest; what the descent gains is mostly that it stays within "
    "the range."
)
_ALL, _TOLD = (ESA, GIA, GIA_KLD), (ESA, CLAMPED, GIA, GIA_KLD)


def _determined(name: str) -> int:
    """So many passive columns follow from the equations of a data set's classes."""
    return dataset(name).classes - 1


_CLAIMS = (
    Claim(_FIGURE, "The attack error of both attacks is 0 while d <= k - 1.", near(_ALL, _determined), _UNFINISHED),
    Claim(_FIGURE, "The attack error of both rises with d.", CURVES.grows(ESA, GIA), _COLUMNS),
    Claim(
        _FIGURE,
        "The attack error of both gradually approaches a random guess.",
        approaches((ESA, GIA), RANDOM),
        "A uniform guess is no ceiling: it errs as one half does and by the uniform variance, 1/12, besides (Rassouli, "
        "Lemma 1). What starts from zeros errs more than it where features lie far from zero, and least squares leave "
        "the range.",
    ),
    Claim(
        _FIGURE,
        "Gradient inversion mostly errs less than equation solving.",
        with_errors(below(GIA, ESA, mostly=True, above=_determined), *_TOLD),
        _STARTS,
    ),
    Claim(
        _FIGURE,
        "The squared and the KL distance hardly differ.",
        CURVES.alike(GIA, GIA_KLD, ALIKE, ALIKE_AT_LEAST),
        "They have the same solutions, but the squared distance is flat where scores are saturated, and its "
        "search is behind after as many rounds.",
    ),
    Claim(
        _FIGURE, "The attack accuracy is 1 while d <= k - 1.", near(_ALL, _determined, "attack_accuracy"), _UNFINISHED
    ),
    Claim(
        _FIGURE,
        "The attack accuracy falls with r.",
        CURVES.grows(GIA, measure="attack_accuracy", falls=True),
        _COLUMNS,
    ),
    Claim(
        _FIGURE,
        "Gradient inversion has a higher attack accuracy than equation solving.",
        below(GIA, ESA, "attack_accuracy", above=_determined),
        _STARTS,
    ),
    *Claim(
        f"{_FIGURE}; abstract",
        "At r = 0.9 gradient inversion errs half or a third as much as equation solving.",
        with_errors(fewer_times(GIA, ESA, ratio=0.9, least=2.0), *_TOLD, ratio=0.9),
        _STARTS,
    ).on("satellite", "drive"),
)


def statements_on_linear(results: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge the claims on a frame of Figure 5: dataset, d, ratio, seed, start, curve, status, mse, accuracy."""
    return of_each(_CLAIMS, results, _FIGURE)
