"""What the paper states of Figure 4: attacks compared in the white box (section VIII-A, Remarks 7 to 10).

Rows are as ``white_box_section`` gives them, of the models that the paper trains: a row per data set, split, window and
attack, with the columns dataset, seed, d, k, start, attack and mse.
"""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.claim import NOTHING, Claim, Finding, Test
from studies.claims.kinds import among
from studies.claims.statement import interval_of, interval_over, interval_words
from studies.page.elements import number_words
from studies.rassouli.claims.comparisons import ATTACKS, DATASETS, LABELS, hidden

_SOLVING = ("ls", "half_star", "rcc1", "rcc2", "cls")
_FIGURE = "Figure 4"
# An error below this is none: equations of float64, and parameters of a model that stopped early.
_NONE = 1e-6
# Two errors that a reader of the figure can't tell apart, as a share of the larger one; the same of a gap.
_CLOSE = 0.05
_VARIANCE = 1 / 12


def _determined(own: pd.DataFrame) -> Finding:
    exact = own["mse"] < _NONE
    return Finding(
        [bool(exact.mean() > 0.99), bool(exact.all())],
        f"{exact.sum()} of {len(own)} (attack, window) err by less than {_NONE:.0e}; the largest error is "
        f"{number_words(own['mse'].max())}",
    )


def _always_better(own: pd.DataFrame) -> Finding:
    better = ATTACKS.pairs(own, "random_guess", "half")["difference"] > 0
    held = [bool(better.all()), bool(better.mean() > 0.5)] if len(better) else []
    return Finding(held, f"in {int(better.sum())} of {len(better)} windows")


def _gap_of_guesses(own: pd.DataFrame) -> Finding:
    pairs = ATTACKS.pairs(own, "random_guess", "half")
    held = {d: abs(one.mean / _VARIANCE - 1) < _CLOSE for (_, d), one in ATTACKS.at(pairs).items()}
    failing = ", ".join(f"{d:g}" for d, one in held.items() if not one)
    words = (
        f"{interval_words(interval_over(pairs, 'difference'))}; within {_CLOSE:.0%} of it at {sum(held.values())} of "
    )
    return Finding(list(held.values()), f"{words}{len(held)} values of d{f', not at {failing}' if failing else ''}")


def _ordered(frame: pd.DataFrame) -> Finding:
    pairs = [ATTACKS.pairs(frame, *sides) for sides in (("half_star", "rcc2"), ("half", "half_star"))]
    held = [bool((own["difference"] >= -_NONE).all()) for own in pairs if len(own)]
    broken = sum(int((own["difference"] < -_NONE).sum()) for own in pairs)
    gains = [interval_words(interval_over(own, "difference")) if len(own) else "not measured" for own in pairs]
    return Finding(
        held,
        f"broken in {broken} of {sum(map(len, pairs))} pairs; on average RCC2 errs less than Half* by {gains[0]}, "
        f"Half* less than Half by {gains[1]}",
    )


def _sometimes_worse(attack: str) -> Test:
    def tested(frame: pd.DataFrame) -> Finding:
        pairs = ATTACKS.pairs(frame, attack, "half")
        worse = pairs[pairs["difference"] > 0]
        where = ", ".join(f"{name} {len(own)}" for name, own in worse.groupby("dataset"))
        words = f"worse in {len(worse)} of {len(pairs)} windows ({where or 'nowhere'})"
        return Finding([len(worse) > 0] if len(pairs) else [], words)

    return tested


def _by_staying_inside(own: pd.DataFrame) -> Finding:
    gains = ATTACKS.pairs(own, "ls", "gia").merge(
        ATTACKS.pairs(own, "ls", "clamped_ls"), on=["dataset", "seed", "d", "start"], suffixes=("", "_clamped")
    )
    if not len(gains):
        return NOTHING
    gained = interval_over(gains, "difference")
    if gained.low <= 0:
        return Finding((), f"GIA gains {interval_words(gained)}", "GIA doesn't improve over LS here.")
    share = gains["difference_clamped"].sum() / gains["difference"].sum()
    return Finding([bool(share > 0.5)], f"GIA gains {interval_words(gained)}, clamping alone {share:.0%} of it")


def _either_way(frame: pd.DataFrame) -> Finding:
    gaps = ATTACKS.pairs(frame, "rcc2", "rcc1")["difference"]
    first, second = (int((side > 1e-9).sum()) for side in (gaps, -gaps))
    words = f"RCC1 is better in {first} windows, RCC2 in {second}, equal in {len(gaps) - first - second}"
    return Finding([first > 0 and second > 0] if len(gaps) else [], words)


def _below_the_literature(*attacks: str) -> Test:
    """Against the better one of LS and GIA on each window, curve by curve: at each d one of them must be below it."""

    def tested(own: pd.DataFrame) -> Finding:
        table = own.pivot_table(index=["seed", "d", "start"], columns="attack", values="mse")
        if not {"ls", "gia", *attacks} <= set(table):
            return NOTHING
        table = table[["ls", "gia", *attacks]].dropna()
        before = table[["ls", "gia"]].min(axis=1)
        gains = {one: (before - table[one]).rename("difference").reset_index() for one in attacks}
        found = [ATTACKS.surely(pairs, f"{LABELS[one]} errs less by") for one, pairs in gains.items()]
        held = [any(at_d) for at_d in zip(*(one.held for one in found), strict=True)]
        return Finding(held, " ".join(one.measured for one in found))

    return tested


def _zero_is_large(own: pd.DataFrame) -> Finding:
    """Beside every attack of the figure, window by window; what a user brings is none of them."""
    others = (*_SOLVING, "clamped_ls", "gia", "half", "random_guess")
    found = {one: list(ATTACKS.at(ATTACKS.pairs(own, "zero", one)).values()) for one in others}
    held = [at.low > 0 for one in found.values() for at in one]
    beaten = ", ".join(LABELS[one] for one, at in found.items() if not all(point.low > 0 for point in at))
    words = f"surely at {sum(held)} of {len(held)} (attack, d){f', not always more than {beaten}' if beaten else ''}; "
    return Finding(held, words + f"{number_words(float(ATTACKS.of(own, 'zero')['mse'].mean()))} on average")


def _rises_and_falls(frame: pd.DataFrame) -> Finding:
    """Steps of the curves from one d to the next, on windows that begin alike: only what is sure counts."""
    solving = frame[frame["attack"].isin(_SOLVING)]
    steps = [step for _, own in solving.groupby(["dataset", "attack"]) for step in _steps(own)]
    rises, falls = sum(step.low > _NONE for step in steps), sum(step.high < -_NONE for step in steps)
    words = f"it surely rises in {rises} of {len(steps)} steps of the curves, and surely falls in {falls}"
    return Finding([rises > 0 and falls > 0] if steps else [], words)


def _steps(own: pd.DataFrame) -> Iterator[Interval]:
    """What one attack errs more at the next d, on the windows that both have, with its interval."""
    table = own.pivot_table(index=["seed", "start"], columns="d", values="mse")
    for fewer, more in pairwise(table.columns):
        change = (table[more] - table[fewer]).dropna()
        if len(change) > 1:
            yield interval_of(change, ("seed", "start"))


RECONSTRUCTION_CLAIMS = (
    *Claim(
        _FIGURE,
        "For d < k the error is 0: the equations have one solution.",
        among(lambda rows: rows[(rows["d"] < rows["k"]) & rows["attack"].isin(_SOLVING)], _determined),
        "Likely because A is nearly singular or a score saturates there: that wasn't measured.",
    ).on(*DATASETS),
    *Claim("Remark 8", "Half is always better than RG.", _always_better).on(*DATASETS),
    *Claim(
        "Remark 8",
        "The gap between RG and Half is always 1/12 = 0.0833.",
        _gap_of_guesses,
        "RG is drawn once for each record and window.",
    ).on(*DATASETS),
    *(
        one
        for attack in ("ls", "gia")
        for one in Claim(
            "Remark 8",
            f"Half outperforms {LABELS[attack]} for the most part, without any side information.",
            among(hidden, ATTACKS.below("half", attack, mostly=True)),
        ).on("bank", "satellite", "synthetic")
    ),
    Claim("Figure 4, Theorem 1", "RCC2 is never worse than Half*, and Half* never worse than Half.", _ordered),
    *(
        Claim(
            _FIGURE,
            f"There is no guarantee that {LABELS[attack]} is better than the blind Half.",
            _sometimes_worse(attack),
            possible=True,
        )
        for attack in ("cls", "ls", "gia")
    ),
    *Claim(_FIGURE, "Clamped LS performs better than LS (ESA).", among(hidden, ATTACKS.below("clamped_ls", "ls"))).on(
        *DATASETS
    ),
    *Claim(
        "Remark 7",
        "What GIA gains over LS (ESA) is mainly due to its staying in [0, 1].",
        among(hidden, _by_staying_inside),
        "Adam's steps are about as long in every coordinate, so a search from 0 doesn't end in the solution of minimum "
        "norm; plain gradient descent would, and then only clamping were left.",
    ).on(*DATASETS),
    *Claim(_FIGURE, "RCC1 and RCC2 are close.", among(hidden, ATTACKS.alike("rcc1", "rcc2", _CLOSE))).on(*DATASETS),
    Claim(_FIGURE, "No general claim can be made as to which of RCC1 and RCC2 is better.", _either_way, possible=True),
    *Claim(
        _FIGURE,
        "Either CLS or Half* outperforms the literature.",
        among(hidden, _below_the_literature("cls", "half_star")),
    ).on(*DATASETS),
    *Claim(
        "Abstract, Figure 4",
        "The proposed attacks are superior to those of the literature (RCC2).",
        among(hidden, _below_the_literature("rcc2")),
    ).on(*DATASETS),
    *Claim("Figure 4, footnote 20", "Zero errs more than all other attacks.", among(hidden, _zero_is_large)).on(
        "satellite", "synthetic"
    ),
    Claim(
        "Remark 10", "The error per feature may rise or fall with d.", among(hidden, _rises_and_falls), possible=True
    ),
)
