"""What Jiang 5.2.2 says of Figures 7, 9 and 10, judged on a run's measurements."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pandas as pd

from studies.claims.statement import Statement, Verdict, interval_over, interval_words, verdict_of
from studies.jiang.inversion.contenders import GIA, GIA_HALF, GRN, MOMENTS, RANDOM, RANGES
from studies.jiang.inversion.curve_comparisons import differences
from studies.jiang.inversion.curve_findings import (
    NOTHING,
    Finding,
    absent,
    alike,
    below,
    data_sets_of,
    joined,
    mean_errors,
    moves,
    near,
)
from studies.jiang.inversion.inversion_setting import size_of

_SMALL = 0.1
_NOT_INVERTIBLE = (
    "Few equations see the features through hidden units that saturate: many inputs give the same scores, and the "
    "descent stops at the one that is near its start"
)
_START = "What it finds stays near where it starts"


def statements_on_networks(results: pd.DataFrame) -> tuple[Statement, ...]:
    """Judge what is said of Figure 7, for each data set."""
    judged = [one for name in data_sets_of(results) for one in _of_figure_7(results, name)]
    return (*judged, *absent(results, "Figure 7, 5.2.2"))


def _of_figure_7(results: pd.DataFrame, name: str) -> list[Statement]:
    source, few = "Figure 7, 5.2.2", size_of(name, _SMALL)
    small = mean_errors(results, name, (GIA, GIA_HALF, RANGES, MOMENTS), ratio=_SMALL)
    overall = mean_errors(results, name, (GIA, GRN, GIA_HALF, RANGES, MOMENTS))
    return [
        near(results, name, (GIA,), most_d=few).as_statement(
            source, name, "The attack error is close to 0 for r <= 0.1.", f"{_NOT_INVERTIBLE} ({small})."
        ),
        moves(results, name, (GIA,), "mse", up=True).as_statement(
            source, name, "The attack error grows with r.", "Which columns are passive matters more than how many."
        ),
        below(results, name, GIA, GRN).as_statement(
            source,
            name,
            "Gradient inversion errs less than the generative network throughout.",
            f"{_START}: from zeros it is worse than from one half, near which the generator stays ({overall}).",
        ),
        near(results, name, (GIA,), "attack_accuracy", most_d=few).as_statement(
            source,
            name,
            "Features are reconstructed precisely at small r: an attack accuracy near 1.",
            _NOT_INVERTIBLE + ".",
        ),
        below(results, name, GIA, GRN, "attack_accuracy").as_statement(
            source, name, "Gradient inversion has a higher attack accuracy than the generative network.", f"{_START}."
        ),
    ]


def statements_on_sizes(results: pd.DataFrame, attacks: Sequence[str]) -> tuple[Statement, ...]:
    """Judge what is said of Figure 9; curves of the attack come in the order of the networks' depth."""
    judged = [one for name in data_sets_of(results) for one in _of_figure_9(results, name, attacks)]
    return (*judged, *absent(results, "Figure 9, 5.2.2.2"))


def _of_figure_9(results: pd.DataFrame, name: str, attacks: Sequence[str]) -> list[Statement]:
    source, errors = "Figure 9, 5.2.2.2", mean_errors(results, name, attacks)
    deeper = [below(results, name, few, more) for few, more in pairwise(attacks)]
    return [
        joined(deeper).as_statement(
            source,
            name,
            "At the same r the error is the larger, the more hidden layers a network has.",
            f"A deeper network is more saturated, so that the attack stays nearer to its start; whether this costs it "
            f"anything depends on where the features are ({errors}).",
        ),
        joined([below(results, name, attack, RANDOM) for attack in attacks]).as_statement(
            source,
            name,
            "The error is distinctly smaller than that of a random guess, for every depth.",
            f"Where features lie far from the start at zero, the start alone errs more than a random guess ({errors}).",
        ),
    ]


def statements_on_activations(results: pd.DataFrame, attacks: Mapping[str, str]) -> tuple[Statement, ...]:
    """Judge what is said of Figure 10; curves of the attack by activation: sigmoid, tanh, relu."""
    names = data_sets_of(results)
    each = [_similar(results, name, attacks) for name in names]
    return (*each, _relu_is_worse(results, names, attacks), *absent(results, "Figure 10, 5.2.2.3"))


def _similar(results: pd.DataFrame, name: str, attacks: Mapping[str, str]) -> Statement:
    found = joined([alike(results, name, attacks[other], attacks["sigmoid"]) for other in ("tanh", "relu")])
    return found.as_statement(
        "Figure 10, 5.2.2.3",
        name,
        "The attack performs similarly under sigmoid, tanh and relu.",
        "Sigmoid and tanh units saturate, relu units pass what is positive: with them the search leaves its start "
        f"({mean_errors(results, name, tuple(attacks.values()))}).",
    )


def _relu_is_worse(results: pd.DataFrame, names: Sequence[str], attacks: Mapping[str, str]) -> Statement:
    held, words = [], []
    for name in names:
        for other in ("sigmoid", "tanh"):
            pairs = differences(results, name, attacks["relu"], attacks[other])
            if len(pairs):
                more = interval_over(pairs, "difference")
                held.append(more.low > 0)
                words.append(f"{name}: {interval_words(more)} more than under {other}")
    finding = Finding(_for_most(held), f"{'; '.join(words)}.") if held else NOTHING
    return finding.as_statement(
        "Figure 10, 5.2.2.3",
        "all data sets",
        "For most data sets the error is slightly larger with relu than with sigmoid and tanh.",
        "A relu unit that is off hides its input, one that is on hides nothing; sigmoid units hide by saturating. "
        "Which weighs more depends on the data and on the training.",
    )


def _for_most(held: Sequence[bool]) -> Verdict:
    return "reproduced" if sum(held) > len(held) / 2 else verdict_of(held)
