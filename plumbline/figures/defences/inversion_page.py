"""The page on gradient inversion under score defences (Jiang, Figures 14 and 15), and what the paper claims."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from plumbline.figures.page.elements import svg_text
from plumbline.figures.page.section import Plot
from plumbline.simulation.score_measures import mean_where

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Falls of accuracy that count: of the attack, of the model.
_DISTINCT, _NEGLIGIBLE = 0.1, 0.02

_FAMILIES = {
    "none": "#000000",
    "psi": "#000000",
    "score_rounding": "#e9a23b",
    "score_noise": "#c8553d",
    "purification": "#2a9d8f",
    "class_label": "#7fb6d9",
    "dp_sgd": "#8e6bbf",
}

_MARKERS = ("o", "s", "^")
_UTILITY_FIGURES = {"linear": "14", "network": "15"}


def utility_plot(results: pd.DataFrame, model: str) -> Plot:
    """Draw the attack's accuracy and error against the model's accuracy, a row of panels per access."""
    from matplotlib.figure import Figure

    own = results[results["model"] == model]
    panels = [(name, measure) for name in own["dataset"].unique() for measure in ("attack_accuracy", "attack_error")]
    figure = Figure(figsize=(3.1 * len(panels) + 2.2, 6.2), layout="constrained")
    grid = figure.subplots(2, len(panels), squeeze=False)
    for line, access in zip(grid, ("white box", "black box"), strict=True):
        for axes, (name, measure) in zip(line, panels, strict=True):
            _utility_panel(axes, own[(own["dataset"] == name) & (own["access"] == access)], measure)
            axes.set_title(f"{name}, {access}", fontsize=10)
            axes.set_ylabel(measure.replace("_", " "))
    for axes in grid[-1]:
        axes.set_xlabel("model accuracy")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)
    return Plot(
        f"scores-{model}",
        svg_text(figure),
        f"Jiang, Figure {_UTILITY_FIGURES[model]}: gradient inversion of a {model} model, half the columns passive. "
        "Right and low accuracy, or high error, is what a defence should reach. Dashed: a guess that sees no scores.",
    )


def _utility_panel(axes: "Axes", results: pd.DataFrame, measure: str) -> None:
    """One access to one data set's model; means over splits."""
    means = results.groupby(["defence", "option"], sort=False)[["model_accuracy", measure]].mean().reset_index()
    axes.axhline(float(results.loc[results["defence"] == "guess", measure].mean()), color="#666666", linestyle="--")
    for family, colour in _FAMILIES.items():
        for marker, row in zip(_MARKERS, means[means["defence"] == family].to_dict("records"), strict=False):
            axes.plot(
                [row["model_accuracy"]],
                [row[measure]],
                color=colour,
                # PSI lies on "none": a ring around its dot.
                marker="o" if family == "psi" else "*" if family == "none" else marker,
                markersize=13 if family == "psi" else 7,
                fillstyle="none" if family == "psi" else "full",
                linestyle="",
                label=f"{family} {row['option']}".strip(),
            )
    axes.spines[["top", "right"]].set_visible(False)


# --- what the numbers say ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Claim:
    """What Jiang says of a defence (6.2). protects: attack accuracy falls; costs: the model's does; None: unsaid."""

    family: str
    option: str
    words: str
    protects: bool | None
    costs: bool | None


_CLAIMS = (
    _Claim("score_noise", "sigma 0.1", "a relatively good balance", True, False),
    _Claim("score_noise", "sigma 1.0", "too much noise costs utility", None, True),
    _Claim("score_rounding", "0 decimals", "only the label is left: a distinct reduction, free of cost", True, False),
    _Claim("class_label", "", "a distinct reduction of attack accuracy, free of cost", True, False),
    _Claim("purification", "random scores", "satisfactory at negligible loss of utility", True, False),
    _Claim("purification", "real scores", "satisfactory at negligible loss of utility", True, False),
    _Claim("dp_sgd", "epsilon 10", "a large budget doesn't prevent the attack", False, None),
    _Claim("dp_sgd", "epsilon 0.1", "attack accuracy falls, and model accuracy with it", True, True),
)


def utility_notes(results: pd.DataFrame) -> list[str]:
    """Compare the paper's claims with the measurements, in sentences."""
    splits = int(results["seed"].nunique())
    starts = results.loc[results["defence"] == "none", ["dataset", "model", "start"]].drop_duplicates()
    chosen = "; ".join(", ".join(row) for row in starts.astype(str).to_numpy().tolist())
    measured = ["attack_error", "attack_accuracy", "model_accuracy"]
    psi, none = (results.loc[results["defence"] == name, measured].to_numpy() for name in ("psi", "none"))
    equal = "equal" if np.array_equal(psi, none) else "NOT equal"
    notes = [
        f"Privacy and utility: {splits} split{'s' if splits > 1 else ''} of each data set, half the columns passive. "
        "Inversion by the KL distance from the start that does better on undefended scores of the split "
        f"({chosen}); Jiang starts at zero. The shadow has the real structure and tau auxiliary records, whose scores "
        "are defended like all others. Attack accuracy counts records that a classifier labels like the original; a "
        "guess gives all records one label. An attack error above the guess's says that trusting the scores misleads.",
        f"Alignment by PSI changes nothing: all measurements are {equal} to those without a defence. As Jiang says: "
        "who asks knows which record the scores belong to.",
    ]
    notes += [
        _verdict(results, claim) + " " + _effects(results, claim.family, claim.option)
        for claim in _CLAIMS
        if claim.family in set(results["defence"])
    ]
    if "dp_sgd" not in set(results["defence"]):
        notes.append(
            "dp_sgd is not shown: a quick run leaves it out, and it needs opacus (pip install 'plumbline[lab]')."
        )
    return notes


def _verdict(results: pd.DataFrame, claim: _Claim) -> str:
    """What the paper says, whether it is so here, and the mean changes that decide."""
    own = results[(results["defence"] == claim.family) & (results["option"] == claim.option)]

    def change(measure: str) -> float:
        return mean_where(own, measure) - mean_where(results, measure, defence="none")

    attack, model = change("attack_accuracy"), change("model_accuracy")
    agrees = claim.protects in (None, attack < -_DISTINCT) and claim.costs in (None, model < -_NEGLIGIBLE)
    name = f"{claim.family} {claim.option}".rstrip()
    return (
        f"{name}: Jiang says {claim.words}. {'Reproduced' if agrees else 'Not reproduced'}, counting falls of over "
        f"{_DISTINCT} of attack and {_NEGLIGIBLE} of model accuracy: mean changes {attack:+.3f} and {model:+.3f}, "
        "white and black box together. White box:"
    )


def _effects(results: pd.DataFrame, family: str, option: str) -> str:
    """Model accuracy, attack accuracy and attack error, from without to with the defence, beside a guess's."""
    said = []
    for name, model in results[["dataset", "model"]].drop_duplicates().to_numpy().tolist():
        chosen = (results["dataset"] == name) & (results["model"] == model) & (results["access"] == "white box")
        own = results[chosen]
        none, guess = own[own["defence"] == "none"], own[own["defence"] == "guess"]
        with_it = own[(own["defence"] == family) & (own["option"] == option)]
        said.append(
            f"{name}, {model}: model accuracy {none['model_accuracy'].mean():.3f} to "
            f"{with_it['model_accuracy'].mean():.3f}, attack accuracy {none['attack_accuracy'].mean():.2f} to "
            f"{with_it['attack_accuracy'].mean():.2f} (guess {guess['attack_accuracy'].mean():.2f}), attack error "
            f"{none['attack_error'].mean():.3f} to {with_it['attack_error'].mean():.3f} "
            f"(guess {guess['attack_error'].mean():.3f})"
        )
    return "; ".join(said) + "."
