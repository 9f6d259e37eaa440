"""What Jiang 5.2.2 says of Figures 7, 9 and 10, and how a run is put to it."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import pandas as pd

from studies.claims.claim import Claim, Finding
from studies.claims.kinds import for_most, listed, where
from studies.claims.statement import Statement, interval_over, interval_words
from studies.jiang.inversion.contenders import GIA, GIA_HALF, GRN, MOMENTS, RANDOM, RANGES
from studies.jiang.inversion.curve_tests import ALIKE, ALIKE_AT_LEAST, CURVES, all_of, below, near, of_each, with_errors
from studies.jiang.inversion.inversion_setting import size_of

_SMALL = 0.1
_NOT_INVERTIBLE = (
    "Theirs on robot and satellite: some searches from zeros are caught where hidden units are saturated, and five "
    "times as many rounds change little. Ours on drive, whose searches are unfinished: they halve its error. Not tried "
    "on bank."
)
_FEW_WINDOWS = "Ours, in part: three windows at each r, and which columns are passive matters more than how many."
_FIGURE_7, _FIGURE_9, _FIGURE_10 = "Figure 7, 5.2.2", "Figure 9, 5.2.2.2", "Figure 10, 5.2.2.3"


def _few(name: str) -> int:
    return size_of(name, _SMALL)


NETWORK_CLAIMS = (
    Claim(
        _FIGURE_7,
        "The attack error is close to 0 for r <= 0.1.",
        with_errors(near((GIA,), _few), GIA, GIA_HALF, RANGES, MOMENTS, ratio=_SMALL),
        _NOT_INVERTIBLE,
    ),
    Claim(
        _FIGURE_7,
        "The attack error grows with r.",
        CURVES.grows(GIA),
        _FEW_WINDOWS,
    ),
    Claim(
        _FIGURE_7,
        "Gradient inversion errs less than the generative network throughout.",
        with_errors(below(GIA, GRN), GIA, GRN, GIA_HALF, RANGES, MOMENTS),
        "Theirs: what it finds stays near where it starts. From zeros it is worse than from one half, near which the "
        "generator stays.",
    ),
    Claim(
        _FIGURE_7,
        "Features are reconstructed precisely at small r: an attack accuracy near 1.",
        near((GIA,), _few, "attack_accuracy"),
        _NOT_INVERTIBLE,
    ),
    Claim(
        _FIGURE_7,
        "Gradient inversion has a higher attack accuracy than the generative network.",
        below(GIA, GRN, "attack_accuracy"),
        "Theirs: what it finds stays near where it starts.",
    ),
)


def statements_on_sizes(results: pd.DataFrame, attacks: Sequence[str]) -> tuple[Statement, ...]:
    """Judge what is said of Figure 9; curves of the attack come in the order of the networks' depth."""
    claims = (
        Claim(
            _FIGURE_9,
            "At the same r the error is the larger, the more hidden layers a network has.",
            with_errors(all_of(*(below(few, more) for few, more in pairwise(attacks))), *attacks),
            "A deeper network is more saturated, so that the attack stays nearer to its start; whether this costs it "
            "anything depends on where the features are.",
        ),
        Claim(
            _FIGURE_9,
            "The error is distinctly smaller than that of a random guess, for every depth.",
            with_errors(all_of(*(below(attack, RANDOM) for attack in attacks)), *attacks),
            "Where features lie far from the start at zero, the start alone errs more than a random guess.",
        ),
    )
    return of_each(claims, results)


def statements_on_activations(results: pd.DataFrame, attacks: Mapping[str, str]) -> tuple[Statement, ...]:
    """Judge what is said of Figure 10; curves of the attack by activation: sigmoid, tanh, relu."""
    sigmoid, tanh, relu = (attacks[name] for name in ("sigmoid", "tanh", "relu"))
    similar = Claim(
        _FIGURE_10,
        "The attack performs similarly under sigmoid, tanh and relu.",
        with_errors(
            all_of(*(CURVES.alike(other, sigmoid, ALIKE, ALIKE_AT_LEAST) for other in (tanh, relu))), *attacks.values()
        ),
        "Sigmoid and tanh units saturate, relu units pass what is positive: with them the search leaves its start.",
    )
    worse = Claim(
        _FIGURE_10,
        "For most data sets the error is slightly larger with relu than with sigmoid and tanh.",
        partial(_mostly_worse, relu, {"sigmoid": sigmoid, "tanh": tanh}),
        "A relu unit that is off hides its input, one that is on hides nothing; sigmoid units hide by saturating. "
        "Which weighs more depends on the data and on the training.",
    )
    return (*of_each([similar], results), worse.judged(where(results)))


def _mostly_worse(attack: str, others: Mapping[str, str], rows: pd.DataFrame) -> Finding:
    found = {
        f"{name}, {words}": interval_over(pairs, "difference")
        for name, own in rows.groupby("dataset", sort=False)
        for words, other in others.items()
        if len(pairs := CURVES.pairs(own, attack, other))
    }
    return for_most(listed(f"{attack} errs more than under", found, lambda one: one.low > 0, interval_words))
