"""What the paper states of Figure 4: attacks compared in the white box (section VIII-A, Remarks 7 to 10).

Every function takes rows as ``white_box_section`` gives them, of the models that the paper trains: a row per data set,
split, window and attack, with the columns dataset, seed, d, k, start, attack and mse.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from plumbline.figures.page.elements import number_words
from plumbline.figures.page.statement import Statement, interval_over, verdict_of
from plumbline.figures.rassouli.statements.comparisons import (
    below_at,
    below_words,
    each,
    hidden,
    interval_words,
    paired,
)

_DATASETS = ("bank", "robot", "satellite", "synthetic")
_SOLVING = ("ls", "half_star", "rcc1", "rcc2", "cls")
_FIGURE = "Figure 4"
# An error below this is none: equations of float64, and parameters of a model that stopped early.
_NONE = 1e-6
# Two errors that a reader of the figure can't tell apart, as a share of Half's.
_CLOSE = 0.05
_VARIANCE, _SAME = 1 / 12, 0.02
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
            "" if exact.all() else "Where A is nearly singular, or a score saturates, rounding is not small.",
        )


def _random_guess(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(frame, _DATASETS):
        pairs = paired(own, "half", "random_guess")
        if not len(pairs):
            continue
        gap = interval_over(pairs, "difference")
        yield Statement(
            "Remark 8",
            name,
            "Half is always better than RG.",
            verdict_of([bool((pairs["difference"] > 0).all()), bool((pairs["difference"] > 0).mean() > 0.5)]),
            f"in {int((pairs['difference'] > 0).sum())} of {len(pairs)} windows",
        )
        yield Statement(
            "Remark 8",
            name,
            "The gap between RG and Half is always 1/12 = 0.0833.",
            verdict_of([bool(gap.low <= _VARIANCE <= gap.high or abs(gap.mean / _VARIANCE - 1) < _SAME)]),
            interval_words(gap),
        )


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
        on = ["dataset", "seed", "d", "start"]
        half = own.loc[own["attack"] == "half", [*on, "mse"]]
        pairs = paired(own, "rcc1", "rcc2").merge(half, on=on)
        if not len(pairs):
            continue
        apart = pairs["difference"].abs() / pairs["mse"]
        yield Statement(
            _FIGURE,
            name,
            "RCC1 and RCC2 are close.",
            verdict_of([bool(apart.mean() < _CLOSE)]),
            f"{apart.mean():.2%} of Half's error apart on average, {apart.max():.1%} at most",
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
    """Against the better one of LS and GIA on each window."""
    for name, own in each(hidden(frame), _DATASETS):
        table = own.pivot_table(index=["seed", "d", "start"], columns="attack", values="mse")
        needed = ["ls", "gia", "cls", "half_star", "rcc2"]
        if not set(needed) <= set(table):
            continue
        table = table[needed].dropna().assign(before=lambda one: one[["ls", "gia"]].min(axis=1))
        for paper, ours in (
            ("Either CLS or Half* outperforms the literature.", table[["cls", "half_star"]].min(axis=1)),
            ("The proposed attacks are superior to those of the literature (RCC2).", table["rcc2"]),
        ):
            pairs = (table["before"] - ours).rename("difference").reset_index()
            yield Statement(
                _FIGURE if "CLS" in paper else "Abstract, Figure 4",
                name,
                paper,
                verdict_of(below_at(pairs)),
                below_words(pairs),
                _why_not(name, below_at(pairs)),
            )


def _why_not(name: str, held: list[bool]) -> str:
    if all(held):
        return ""
    if name == "robot":
        return "Robot's features lie far from 1/2 (Figure 6), which these attacks start from."
    return "At d = k the equations leave one direction open, and few windows were measured there."


def _zero_is_large(frame: pd.DataFrame) -> Iterator[Statement]:
    for name, own in each(hidden(frame), ("satellite", "synthetic")):
        others = own[~own["attack"].str.startswith(("posterior", "zero"))]
        means = others.pivot_table(index="d", columns="attack", values="mse").max(axis=1)
        zero = own[own["attack"] == "zero"].groupby("d")["mse"].mean()
        if not len(zero):
            continue
        larger = zero.reindex(means.index) > means
        yield Statement(
            "Figure 4, footnote 20",
            name,
            "Zero errs more than all other attacks.",
            verdict_of([bool(one) for one in larger]),
            f"at {int(larger.sum())} of {len(larger)} values of d; {number_words(zero.mean())} on average",
        )


def _no_trend(frame: pd.DataFrame) -> Statement:
    """Rising and falling steps of the curves of every attack that isn't a guess."""
    attacks = frame[frame["attack"].isin(_SOLVING)]
    steps = np.concatenate(
        [
            np.diff(own.groupby("d")["mse"].mean().to_numpy())
            for _, own in hidden(attacks).groupby(["dataset", "attack"])
        ]
        or [np.zeros(0)]
    )
    return Statement(
        "Remark 10",
        "all data sets",
        "The error per feature may rise or fall with d.",
        verdict_of([bool((steps > 0).any() and (steps < 0).any())] if len(steps) else []),
        f"it rises in {int((steps > 0).sum())} of {len(steps)} steps of the curves, and falls in "
        f"{int((steps < 0).sum())}",
    )
