"""What the paper states of Figure 4: attacks compared in the white box (section VIII-A, Remarks 7 to 10).

Every function takes rows as ``white_box_section`` gives them, of the models that the paper trains: a row per data set,
split, window and attack, with the columns dataset, seed, d, k, start, attack and mse.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pandas as pd

from plumbline.judge.measures import Interval
from studies.claims.statement import Statement, interval_over, interval_words, verdict_of
from studies.page.elements import number_words
from studies.rassouli.statements.comparisons import (
    below_at,
    below_words,
    difference_by_d,
    each,
    hidden,
    paired,
)

_DATASETS = ("bank", "robot", "satellite", "synthetic")
_SOLVING = ("ls", "half_star", "rcc1", "rcc2", "cls")
_FIGURE = "Figure 4"
# An error below this is none: equations of float64, and parameters of a model that stopped early.
_NONE = 1e-6
# Two errors that a reader of the figure can't tell apart, as a share of the smaller one; the same of a gap.
_CLOSE = 0.05
_VARIANCE = 1 / 12
_ADAM = (
    "Adam's steps are about as long in every coordinate, so a search from 0 doesn't end in the solution of minimum "
    "norm; plain gradient descent would, and then only clamping were left."
)


def reconstruction_statements(frame: pd.DataFrame) -> tuple[Statement, ...]:
    """All statements of the figure, each computed from the rows."""
    return (
        *_determined(frame),
        *_random_guess(frame),
        *_half_beats_the_literature(frame),
        _theorem_1(frame),
        *_no_guarantee(frame),
        *_clamping(frame),
        *_feasibility(frame),
        *_two_centres(frame),
        *_proposed(frame),
        *_zero_is_large(frame),
        _no_trend(frame),
    )


def _determined(frame: pd.DataFrame) -> Iterator[Statement]:
    solved = frame[(frame["d"] < frame["k"]) & frame["attack"].isin(_SOLVING)]
    for name, own in each(solved, _DATASETS):
        exact = own["mse"] < _NONE
        yield Statement(
            _FIGURE,
            name,
            "For d < k the error is 0: the equations have one solution.",
            verdict_of([bool(exact.mean() > 0.99), bool(exact.all())]),
            f"{exact.sum()} of {len(own)} (attack, window) err by less than {_NONE:.0e}; the largest error is "
            f"{number_words(own['mse'].max())}",
            ""
            if exact.all()
            else "Likely because A is nearly singular or a score saturates there: that wasn't measured.",
        )


def _random_guess(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(frame, _DATASETS):
        pairs = paired(own, "half", "random_guess")
        if not len(pairs):
            continue
        yield Statement(
            "Remark 8",
            name,
            "Half is always better than RG.",
            verdict_of([bool((pairs["difference"] > 0).all()), bool((pairs["difference"] > 0).mean() > 0.5)]),
            f"in {int((pairs['difference'] > 0).sum())} of {len(pairs)} windows",
        )
        gap, gaps = interval_over(pairs, "difference"), difference_by_d(pairs)
        same = [abs(one.mean / _VARIANCE - 1) < _CLOSE for one in gaps.values()]
        yield Statement(
            "Remark 8",
            name,
            "The gap between RG and Half is always 1/12 = 0.0833.",
            verdict_of(same),
            f"{interval_words(gap)}; within {_CLOSE:.0%} of it at {sum(same)} of {len(same)} values of d",
            "" if all(same) else f"Not so at d = {_failing(gaps, same)}: RG is drawn once for each record and window.",
        )


def _failing(by_d: Iterable[int], held: Sequence[bool]) -> str:
    return ", ".join(str(d) for d, one in zip(by_d, held, strict=True) if not one)


def _half_beats_the_literature(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(hidden(frame), ("bank", "satellite", "synthetic")):
        for attack, words in (("ls", "LS (ESA)"), ("gia", "GIA")):
            pairs = paired(own, "half", attack)
            held = below_at(pairs)
            yield Statement(
                "Remark 8",
                name,
                f"Half outperforms {words} for the most part, without any side information.",
                verdict_of([sum(held) > len(held) / 2] if held else []),
                below_words(pairs) if held else "",
            )


def _theorem_1(frame: pd.DataFrame) -> Statement:
    pairs = [paired(frame, *sides) for sides in (("rcc2", "half_star"), ("half_star", "half"))]
    held = [bool((own["difference"] >= -_NONE).all()) for own in pairs if len(own)]
    broken = sum(int((own["difference"] < -_NONE).sum()) for own in pairs)
    gains = [interval_words(interval_over(own, "difference")) if len(own) else "not measured" for own in pairs]
    return Statement(
        "Figure 4, Theorem 1",
        "all data sets",
        "RCC2 is never worse than Half*, and Half* never worse than Half.",
        verdict_of(held),
        f"broken in {broken} of {sum(map(len, pairs))} pairs; on average RCC2 errs less than Half* by {gains[0]}, "
        f"Half* less than Half by {gains[1]}",
    )


def _no_guarantee(frame: pd.DataFrame) -> Iterator[Statement]:
    for attack, words in (("cls", "CLS"), ("ls", "LS (ESA)"), ("gia", "GIA")):
        pairs = paired(frame, "half", attack)
        worse = pairs[pairs["difference"] > 0]
        where = ", ".join(f"{name} {len(own)}" for name, own in worse.groupby("dataset"))
        yield Statement(
            _FIGURE,
            "all data sets",
            f"There is no guarantee that {words} is better than the blind Half.",
            verdict_of([len(worse) > 0] if len(pairs) else []),
            f"worse in {len(worse)} of {len(pairs)} windows ({where or 'nowhere'})",
        )


def _clamping(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(hidden(frame), _DATASETS):
        pairs = paired(own, "clamped_ls", "ls")
        held = below_at(pairs)
        yield Statement(
            _FIGURE, name, "Clamped LS performs better than LS (ESA).", verdict_of(held), below_words(pairs)
        )


def _feasibility(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(hidden(frame), _DATASETS):
        gains = paired(own, "gia", "ls").merge(
            paired(own, "clamped_ls", "ls"), on=["dataset", "seed", "d", "start"], suffixes=("", "_clamped")
        )
        if not len(gains):
            continue
        gained = interval_over(gains, "difference")
        if gained.low <= 0:
            held, reason = [], "GIA doesn't improve over LS here."
        else:
            held = [gains["difference_clamped"].sum() > gains["difference"].sum() / 2]
            reason = "" if held[0] else _ADAM
        share = gains["difference_clamped"].sum() / gains["difference"].sum() if held else float("nan")
        yield Statement(
            "Remark 7",
            name,
            "What GIA gains over LS (ESA) is mainly due to its staying in [0, 1].",
            verdict_of([bool(one) for one in held]),
            f"GIA gains {interval_words(gained)}" + (f", clamping alone {share:.0%} of it" if held else ""),
            reason,
        )


def _two_centres(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(hidden(frame), _DATASETS):
        pairs = paired(own, "rcc1", "rcc2")
        if not len(pairs):
            continue
        means = pairs.groupby("d")[["left", "right"]].mean()
        apart = (means["left"] - means["right"]).abs() / means.min(axis=1)
        half = own[own["attack"] == "half"]["mse"].mean()
        yield Statement(
            _FIGURE,
            name,
            "RCC1 and RCC2 are close.",
            verdict_of((apart < _CLOSE).tolist()),
            f"their curves are {apart.mean():.2%} of the lower one apart on average over d, {apart.max():.1%} at most; "
            f"within {_CLOSE:.0%} at {int((apart < _CLOSE).sum())} of {len(apart)} values of d. RCC2 errs "
            f"{number_words(float(means['left'].mean()))}, Half {number_words(float(half))}",
            "" if (apart < _CLOSE).all() else f"Not so at d = {_failing(apart.index, (apart < _CLOSE).tolist())}.",
        )
    pairs = paired(frame, "rcc1", "rcc2")
    first, second = (int((side > 1e-9).sum()) for side in (pairs["difference"], -pairs["difference"]))
    yield Statement(
        _FIGURE,
        "all data sets",
        "No general claim can be made as to which of RCC1 and RCC2 is better.",
        verdict_of([first > 0 and second > 0] if len(pairs) else []),
        f"RCC1 is better in {first} windows, RCC2 in {second}, equal in {len(pairs) - first - second}",
    )


def _proposed(frame: pd.DataFrame) -> Iterator[Statement]:
    """Against the better one of LS and GIA on each window, curve by curve: at each d one of them must be below it."""
    for name, own in each(hidden(frame), _DATASETS):
        table = own.pivot_table(index=["seed", "d", "start"], columns="attack", values="mse")
        needed = ["ls", "gia", "cls", "half_star", "rcc2"]
        if not set(needed) <= set(table):
            continue
        table = table[needed].dropna()
        before = table[["ls", "gia"]].min(axis=1)
        for source, paper, attacks in (
            (_FIGURE, "Either CLS or Half* outperforms the literature.", ("cls", "half_star")),
            ("Abstract, Figure 4", "The proposed attacks are superior to those of the literature (RCC2).", ("rcc2",)),
        ):
            pairs = {one: (before - table[one]).rename("difference").reset_index() for one in attacks}
            held = [any(of_d) for of_d in zip(*map(below_at, pairs.values()), strict=True)]
            sizes = sorted(table.index.unique("d").tolist())
            yield Statement(
                source,
                name,
                paper,
                verdict_of(held),
                "; ".join(f"{_LEGEND[one]}: {below_words(both)}" for one, both in pairs.items()),
                "" if all(held) else f"Not so at d = {_failing(sizes, held)}.",
            )


_LEGEND = {"cls": "CLS", "half_star": "Half*", "rcc2": "RCC2"}


def _zero_is_large(frame: pd.DataFrame) -> Iterator[Statement]:
    """Beside every attack of the figure, window by window; what a user brings is none of them."""
    for name, own in each(hidden(frame), ("satellite", "synthetic")):
        pairs = {one: paired(own, one, "zero") for one in (*_SOLVING, "clamped_ls", "gia", "half", "random_guess")}
        found = {one: below_at(both) for one, both in pairs.items() if len(both)}
        held = [one for of_attack in found.values() for one in of_attack]
        if not held:
            continue
        beaten = [attack for attack, one in found.items() if not all(one)]
        zero = own.loc[own["attack"] == "zero", "mse"].mean()
        yield Statement(
            "Figure 4, footnote 20",
            name,
            "Zero errs more than all other attacks.",
            verdict_of(held),
            f"at {sum(held)} of {len(held)} (attack, d); {number_words(float(zero))} on average",
            f"Not surely more than {', '.join(beaten)} at every d." if beaten else "",
        )


def _no_trend(frame: pd.DataFrame) -> Statement:
    """Steps of the curves from one d to the next, on windows that begin alike: only what is sure counts."""
    solving = hidden(frame[frame["attack"].isin(_SOLVING)])
    steps = [step for _, own in solving.groupby(["dataset", "attack"]) for step in _steps(own)]
    rises, falls = sum(step.low > _NONE for step in steps), sum(step.high < -_NONE for step in steps)
    return Statement(
        "Remark 10",
        "all data sets",
        "The error per feature may rise or fall with d.",
        verdict_of([rises > 0 and falls > 0] if steps else []),
        f"it surely rises in {rises} of {len(steps)} steps of the curves, and surely falls in {falls}",
    )


def _steps(own: pd.DataFrame) -> Iterator[Interval]:
    """What one attack errs more at the next d, on the windows that both have, with its interval."""
    table = own.pivot_table(index=["seed", "start"], columns="d", values="mse")
    for fewer, more in pairwise(table.columns):
        change = (table[more] - table[fewer]).dropna().rename("change").reset_index()
        if len(change) > 1:
            yield interval_over(change, "change")
