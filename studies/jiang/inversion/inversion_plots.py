"""What sections on gradient inversion show: curves against the ratio r, a table of errors, what is left."""

from collections.abc import Mapping, Sequence

import pandas as pd

from studies.claims.kinds import where
from studies.page.elements import number_words
from studies.page.plots import Panel, Plot, mean_curve

# Of an adversary with scores: what the same one guesses without them.
WITHOUT_SCORES = {"Bayes, ranges": "no score, ranges", "Bayes, moments": "no score, moments"}
_RATIO, _SHOWN = "share of passive columns, r", (0.1, 0.5, 0.9)
MEASURES = {"mse": "attack error", "attack_accuracy": "attack accuracy"}


def with_guesses(results: pd.DataFrame, without_scores: Mapping[str, str] = WITHOUT_SCORES) -> pd.DataFrame:
    """Add what adversaries guess without scores, by the labels of their curves with and without."""
    guesses = [
        results[(results["curve"] == curve) & results["baseline"].notna()].assign(
            curve=label, mse=lambda rows: rows["baseline"], attack_accuracy=float("nan")
        )
        for curve, label in without_scores.items()
    ]
    return pd.concat([results, *guesses], ignore_index=True)


def ratio_panels(results: pd.DataFrame, measure: str, *, complete: bool = False) -> tuple[Panel, ...]:
    """A panel for each data set: a measure against r, with intervals over windows and seeds.

    Arguments:
        results: a frame with a row for each measurement.
        measure: of ``MEASURES``.
        complete: whether to mark how many columns a linear model's scores determine.
    """
    return tuple(
        Panel(
            title=str(name),
            x_label=_RATIO,
            y_label=MEASURES[measure],
            curves=tuple(
                mean_curve(drawn, "ratio", label, measure=measure, ours=bool(drawn["ours"].iloc[0]))
                for label in part["curve"].unique()
                if len(drawn := where(part, curve=label).dropna(subset=measure))
            ),
            marks=((float((part["classes"].iloc[0] - 1) / part["columns"].iloc[0]), "d = k - 1"),) if complete else (),
        )
        for name, part in results.groupby("dataset", sort=False)
    )


def plots_of(name: str, panels: Sequence[Panel], caption: str) -> tuple[Plot, ...]:
    """Panels as a plot; none where nothing was measured."""
    return (Plot(name, panels, caption),) if panels else ()


def errors_table(results: pd.DataFrame, shown: Sequence[float] = _SHOWN) -> pd.DataFrame:
    """Mean errors for reading: a row for each data set and some ratios, a column for each curve."""
    done = results[results["status"] == "done"]
    if done.empty:
        return pd.DataFrame(columns=["dataset", "ratio", "d"])
    sizes = {columns: {max(1, round(ratio * columns)) for ratio in shown} for columns in done["columns"].unique()}
    kept = done[[d in sizes[columns] for d, columns in zip(done["d"], done["columns"], strict=True)]]
    means = kept.groupby(["dataset", "ratio", "d", "curve"], sort=False)["mse"].mean().unstack("curve")
    table = means[[curve for curve in results["curve"].unique() if curve in means]].map(number_words).reset_index()
    return table.assign(ratio=table["ratio"].map(lambda ratio: f"{ratio:.2f}"))


def left_on_the_table(results: pd.DataFrame, published: Sequence[str]) -> tuple[str, ...]:
    """A sentence for each data set, at its largest r: the best published attack, ours, and a guess without scores."""
    return tuple(sentence for name in results["dataset"].unique() if (sentence := _left(results, str(name), published)))


def _left(results: pd.DataFrame, name: str, published: Sequence[str]) -> str:
    done = results[(results["dataset"] == name) & (results["status"] == "done")]
    if done.empty:
        return ""
    errors = done[done["ratio"] == done["ratio"].max()].groupby("curve")["mse"].mean()
    there = [curve for curve in published if curve in errors]
    if not there:
        return ""
    best = min(there, key=lambda curve: float(errors[curve]))
    known = [
        f"{curve.removeprefix('Bayes, ')} {number_words(errors[curve])} with the scores and "
        f"{number_words(errors[guess])} without any (the federation's part is "
        f"{max(0.0, 1 - errors[curve] / errors[guess]):.0%})"
        for curve, guess in WITHOUT_SCORES.items()
        if curve in errors and guess in errors
    ]
    ours = f" A Bayesian adversary errs by this much, by what it knows beforehand: {'; '.join(known)}." if known else ""
    place = f"{name}, r = {done['ratio'].max():.2f}"
    return f"{place}: the best published attack is {best}, {number_words(errors[best])}.{ours}"
