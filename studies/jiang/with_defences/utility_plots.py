"""The drawings of Figures 14 and 15: an attack's accuracy or error against the model's accuracy, by defence."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from studies.page.elements import svg_text
from studies.page.section import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = {
    "none": "#000000",
    "psi": "#000000",
    "score_rounding": "#e9a23b",
    "score_noise": "#c8553d",
    "purification": "#2a9d8f",
    "class_label": "#7fb6d9",
    "dp_sgd": "#8e6bbf",
}
_GIVEN = "#1b6ca8"
_MARKERS = ("o", "s", "^", "D")
_FIGURES = {"linear": "14", "network": "15"}
_WORDS = {"attack_accuracy": "attack accuracy", "mse": "MSE per feature"}
_KINDS = {"linear": "LR", "network": "networks"}
# Whose estimates a defence leaves, drawn hollow, and the lines of those who see no scores.
_OURS = "posterior, records"
_LINES = {"random guess": ":", "imputation": "--"}


def utility_plot(results: pd.DataFrame, model: str, measure: str) -> Plot:
    """Draw a measure of the attack against the model's accuracy: a panel per data set and access; means over splits.

    Full: the paper's attack; hollow: the Bayesian adversary who knows the defence and has tau records.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(results["dataset"]))
    figure = Figure(figsize=(2.6 * len(names) + 2.4, 5.6), layout="constrained")
    grid = figure.subplots(2, len(names), squeeze=False)
    for line, access in zip(grid, ("white box", "black box"), strict=True):
        for axes, name in zip(line, names, strict=True):
            _panel(axes, results[(results["dataset"] == name) & (results["access"] == access)], measure)
            axes.set_title(f"{name}, {access}", fontsize=9)
        line[0].set_ylabel(_WORDS[measure])
    for axes in grid[-1]:
        axes.set_xlabel("model accuracy")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)
    return Plot(f"trade-offs-{model}-{measure.replace('_', '-')}", svg_text(figure), _caption(model, measure))


def _caption(model: str, measure: str) -> str:
    better = "right and low" if measure == "attack_accuracy" else "right and high"
    return (
        f"Figure {_FIGURES[model]}: {_WORDS[measure]} on {_KINDS[model]} at r = 0.5, GIA above, shadow models below. "
        f"A defence should be {better}. Hollow, ours: the Bayesian adversary who knows the defence and tau complete "
        "records; dashed: these records alone; dotted: a random guess."
    )


def _panel(axes: "Axes", results: pd.DataFrame, measure: str) -> None:
    keys = ["defence", "option", "adversary"]
    means = results.groupby(keys, sort=False)[["model_accuracy", measure]].mean().reset_index()
    drawn = means[means["adversary"].isin(("inversion", _OURS))]
    options = {
        family: list(dict.fromkeys(drawn.loc[drawn["defence"] == family, "option"])) for family in drawn["defence"]
    }
    for row in drawn.to_dict("records"):
        number = options[row["defence"]].index(row["option"])
        _mark(axes, (row["model_accuracy"], row[measure]), row, number)
    for who, style in _LINES.items():
        level = means.loc[means["adversary"] == who, measure]
        if len(level):
            axes.axhline(float(level.iloc[0]), color="#666666", linestyle=style, linewidth=1, label=who)
    axes.spines[["top", "right"]].set_visible(False)


def _mark(axes: "Axes", at: tuple[float, float], row: Mapping[Any, Any], number: int) -> None:
    """One defence's mark; PSI lies on "none", and is a ring around its star."""
    family, ours = row["defence"], row["adversary"] == _OURS
    shape = {"psi": "o", "none": "*"}.get(family, _MARKERS[number % len(_MARKERS)])
    axes.plot(
        [at[0]],
        [at[1]],
        color=_COLOURS.get(family, _GIVEN),
        marker=shape,
        markersize=13 if family == "psi" else 7,
        fillstyle="none" if ours or family == "psi" else "full",
        linestyle="",
        label="_" if ours else f"{family} {row['option']}".strip(),
    )
