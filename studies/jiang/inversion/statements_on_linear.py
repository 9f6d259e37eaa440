"""What Jiang 5.2.1 says of Figure 5, judged on a run's measurements."""

import pandas as pd

from studies.claims.statement import Statement
from studies.jiang.inversion.contenders import CLAMPED, ESA, GIA, GIA_KLD, RANDOM
from studies.jiang.inversion.curve_findings import (
    absent,
    alike,
    approaches,
    below,
    data_sets_of,
    fewer_times,
    mean_errors,
    moves,
    near,
)
from vfl.data import dataset

_FIGURE = "Figure 5, 5.2.1"
_UNFINISHED = (
    "The equations determine the features, and equation solving finds them. Gradient inversion goes the same way "
    "by small steps: the squared distance of scores is flat where they are near 0 or 1, so that many records are still "
    "on their way after the last round."
)
_BEYOND = (
    "A uniform guess is no ceiling: it errs as one half does and by the uniform variance, 1/12, besides (Rassouli, "
    "Lemma 1). What starts from zeros errs more than it where features lie far from zero, and least squares leave the "
    "range."
)
_STARTS = (
    "Both start from zero, where equation solving stays nearest; what the descent gains is mostly that it stays within "
    "the range"
)


def statements_on_linear(results: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge every statement on a frame of Figure 5: dataset, d, ratio, seed, start, curve, status, mse, accuracy."""
    judged = [one for name in data_sets_of(results) for one in _of_data_set(results, name)]
    return (*judged, *absent(results, _FIGURE))


def _of_data_set(results: pd.DataFrame, name: str) -> list[Statement]:
    known = dataset(name).classes - 1
    both, errors = (ESA, GIA), mean_errors(results, name, (ESA, CLAMPED, GIA, GIA_KLD))
    found = [
        near(results, name, (*both, GIA_KLD), "mse", most_d=known).as_statement(
            _FIGURE, name, "The attack error of both attacks is 0 while d <= k - 1.", _UNFINISHED
        ),
        moves(results, name, both, "mse", up=True).as_statement(
            _FIGURE,
            name,
            "The attack error of both rises with d.",
            "Which columns are passive matters more than how many.",
        ),
        approaches(results, name, both, RANDOM).as_statement(
            _FIGURE, name, "The attack error of both gradually approaches a random guess.", _BEYOND
        ),
        below(results, name, GIA, ESA, mostly=True, above=known).as_statement(
            _FIGURE, name, "Gradient inversion mostly errs less than equation solving.", f"{_STARTS} ({errors})."
        ),
        alike(results, name, GIA, GIA_KLD).as_statement(
            _FIGURE,
            name,
            "The squared and the KL distance hardly differ.",
            "They have the same solutions, but the squared distance is flat where scores are saturated, and its "
            "search is behind after as many rounds.",
        ),
        near(results, name, (*both, GIA_KLD), "attack_accuracy", most_d=known).as_statement(
            _FIGURE, name, "The attack accuracy is 1 while d <= k - 1.", _UNFINISHED
        ),
        moves(results, name, (GIA,), "attack_accuracy", up=False).as_statement(
            _FIGURE, name, "The attack accuracy falls with r.", "Which columns are passive matters more than how many."
        ),
        below(results, name, GIA, ESA, "attack_accuracy", above=known).as_statement(
            _FIGURE, name, "Gradient inversion has a higher attack accuracy than equation solving.", f"{_STARTS}."
        ),
    ]
    if name in ("satellite", "drive"):
        found.append(
            fewer_times(results, name, GIA, ESA, ratio=0.9, least=2.0).as_statement(
                f"{_FIGURE}; abstract",
                name,
                "At r = 0.9 gradient inversion errs half or a third as much as equation solving.",
                f"{_STARTS} ({mean_errors(results, name, (ESA, CLAMPED, GIA, GIA_KLD), ratio=0.9)}).",
            )
        )
    return found
