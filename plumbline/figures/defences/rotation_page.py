"""The page on distorted parameters: a summary of its measurements, its plots, its words."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from defences.parameter_rotation import Secret
from plumbline.figures.page.elements import svg_text
from plumbline.figures.page.section import Plot
from plumbline.simulation.informed import CAUTIOUS, KNOWING, WITH_RECORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PREDICTED = "half*, predicted"
NAIVE = "half*"
CLAMPED = "half*, clamped"
HALF = "1/2"

SECRETS: tuple[Secret, ...] = ("none", "sign", "epsilon")
AS_DISCLOSED, REPEATS, RESCALES = "takes the parameters at their word", "repeats the optimisation", "rescales to [0, 1]"

# epsilon of the page's table, of the notes and of the secrets, in mean squared parameters.
TYPICAL = 0.3


def rotation_summary(data: pd.DataFrame) -> pd.DataFrame:
    """Summarise the trade-off at one epsilon, adversaries as columns."""
    part = data[(data["experiment"] == "trade-off") & (data["epsilon"] == TYPICAL)]
    keys = ["dataset", "d", "case", "epsilon"]
    table: pd.DataFrame = part.pivot_table(index=keys, columns="adversary", values="mse", sort=False).reset_index()
    return table


_COLOURS = {"i": "#c8553d", "ii": "#c8553d", "iii": "#1b6ca8", "iv": "#1b6ca8"}
_LINES = {PREDICTED: "-", NAIVE: "o", CLAMPED: "--", CAUTIOUS: ":"}
_LEVELS = ("#1b6ca8", "#2a9d8f", "#e0a030", "#c8553d")
# What is below is drawn here: without a defence, errors for d < k are 0.
_FLOOR = 1e-3


def rotation_plots(data: pd.DataFrame) -> Iterator[Plot]:
    """Draw errors against epsilon and against d."""
    trade_off = data[data["experiment"] == "trade-off"]
    two, more = (trade_off[(trade_off["classes"] == 2) == binary] for binary in (True, False))
    groups = (
        ("two-classes", two[two["d"] > 1], "Figure 9: two classes, free parameters (case iv) and a rotation (case i)."),
        ("one-feature", trade_off[trade_off["d"] == 1], "Figure 10: one passive feature (case iii)."),
        ("rotations", more[more["d"] > 2], "Figure 11: more than two classes, rotations (cases i and ii)."),
        ("two-features", more[more["d"] == 2], "Figure 13: two passive features, more than two classes (case ii)."),
    )
    for name, part, caption in groups:
        if len(part):
            yield _trade_off_plot(name, part, caption)
    yield _width_plot(data[data["experiment"] == "width"])


def _trade_off_plot(name: str, data: pd.DataFrame, caption: str) -> Plot:
    from matplotlib.figure import Figure

    panels = list(data.groupby(["dataset", "d"], sort=False))
    columns = min(len(panels), 3)
    figure = Figure(figsize=(3.3 * columns, 0.5 + 2.5 * -(-len(panels) // columns)), layout="constrained")
    grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False, sharey=True)
    for axes, (_, part) in zip(grid.flat, panels, strict=False):
        for case in part["case"].unique():
            for adversary, style in _LINES.items():
                line = part[(part["case"] == case) & (part["adversary"] == adversary)]
                label = f"case {case}: {adversary}"
                axes.plot(
                    line["epsilon"],
                    line["mse"].clip(lower=_FLOOR),
                    style,
                    color=_COLOURS[str(case)],
                    markersize=4,
                    label=label,
                )
        title = str(part["dataset"].iloc[0]) + f", d = {int(part['d'].max())}"
        _half_and_title(axes, part, title)
        axes.set_xscale("log")
        axes.set_xlabel("epsilon / mean squared parameter")
    for axes in grid.flat[len(panels) :]:
        axes.remove()
    _finish(figure, grid)
    note = " Lines: predicted for the training records; dots: held-out records."
    return Plot(name, svg_text(figure), caption + note)


def _width_plot(data: pd.DataFrame) -> Plot:
    from matplotlib.figure import Figure

    panels = list(data[data["adversary"] != PREDICTED].groupby("dataset", sort=False))
    figure = Figure(figsize=(3.3 * len(panels), 3.2), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)
    for axes, (_, part) in zip(grid.flat, panels, strict=True):
        for colour, epsilon in zip(_LEVELS, np.unique(part["epsilon"]).tolist(), strict=False):
            line = part[(part["adversary"] == NAIVE) & (part["epsilon"] == epsilon)]
            label = f"half*, epsilon {epsilon:g}" if epsilon else "half*, no defence"
            axes.plot(line["d"], line["mse"].clip(lower=_FLOOR), "o-", color=colour, markersize=4, label=label)
        _half_and_title(axes, part[part["epsilon"] == 0], str(part["dataset"].iloc[0]), along="d")
        axes.set_xlabel("passive features d")
    _finish(figure, grid)
    return Plot("width", svg_text(figure), "Figure 12: MSE against d for some epsilon, in mean squared parameters.")


def _half_and_title(axes: "Axes", part: pd.DataFrame, title: str, along: str = "epsilon") -> None:
    half = part[part["adversary"] == HALF].sort_values(along)
    axes.plot(half[along], half["mse"], color="#999999", linestyle="-.", linewidth=0.9, label=HALF)
    axes.set_yscale("log")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)


def _finish(figure: "Figure", grid: NDArray[np.object_]) -> None:
    """One legend for all panels."""
    for axes in grid[:, 0].tolist():
        axes.set_ylabel("MSE per feature")
    entries: dict[str, Any] = {}
    for axes in grid.ravel().tolist():
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, line)
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=grid.shape[1], frameon=False, fontsize=8
    )


# --- what the numbers say -----------------------------------------------------------------------------------------


def rotation_notes(data: pd.DataFrame) -> list[str]:
    """Write verdicts, from the numbers."""
    trade_off = data[data["experiment"] == "trade-off"]
    errors = trade_off.pivot_table(
        index=["classes", "dataset", "d", "case", "epsilon"], columns="adversary", values="mse", sort=False
    ).reset_index()
    apart = float((errors[NAIVE] / errors[PREDICTED] - 1).abs().max())
    typical = errors[errors["epsilon"] == TYPICAL]
    more, two = typical[typical["classes"] > 2], typical[(typical["case"] == "iv")]
    return [
        f"half*'s error on held-out records is within {apart:.1%} of what the closed forms say of the training "
        "records, for which they are exact.",
        *_case_notes(errors),
        f"At epsilon {TYPICAL}, who lets nothing leave [0, 1] errs by {more[CLAMPED].mean():.3f} with more than two "
        f"classes and {two[CLAMPED].mean():.3f} with two, where half* errs by {more[NAIVE].mean():.2f} and "
        f"{two[NAIVE].mean():.2f}; who says 1/2 where no x in [0, 1] fits, by {more[CAUTIOUS].mean():.3f} and "
        f"{two[CAUTIOUS].mean():.3f}; 1/2 for all, by {more[HALF].mean():.3f} and {two[HALF].mean():.3f}. What is "
        "beyond the last is no protection: nobody has to err more.",
        f"Who tries -I beside I, and keeps what more records fit, errs by {typical[KNOWING].mean():.3f}; who has "
        f"2 d + 2 complete records by {typical[WITH_RECORDS].mean():.3f}, for no W_n can change what those tell.",
        *_secret_notes(data[data["experiment"] == "secret"]),
        "Beside the paper: epsilon is in mean squared parameters, since g has their scale and the paper's weights "
        "aren't published; g is met exactly, without a penalty; cases iii and iv are global maxima; one window of "
        "columns for the trade-offs; no agnostic model, scores are exact.",
    ]


def _case_notes(errors: pd.DataFrame) -> list[str]:
    """The paper's statements about single cases, where there are numbers."""
    notes = []
    free, rotated = (errors[errors["case"] == case].set_index(["dataset", "d", "epsilon"]) for case in ("iv", "i"))
    both = free.index.intersection(rotated.index)
    if len(both):
        ratio = free.loc[both, PREDICTED] / rotated.loc[both, PREDICTED]
        below = free.loc[both, PREDICTED] <= free.loc[both, HALF]
        near = f"at most {ratio[below].max():.2f} times" if below.any() else "not measured"
        notes.append(
            "The paper, Figure 9: case i departs from case iv quickly, but they stay close where the error is below "
            f"1/2's. Case iv errs more in {int((ratio >= 1).sum())} of {len(ratio)}: below 1/2's level {near}, beyond "
            f"it up to {ratio.max():.1f} times case i's error."
        )
    correlations = []
    for _, part in errors[errors["case"] == "iii"].groupby("dataset"):
        below = part[part[PREDICTED] <= part[HALF]]
        if len(below) > 2:
            correlations.append(float(np.corrcoef(below["epsilon"], below[PREDICTED])[0, 1]))
    if correlations:
        notes.append(
            "The paper, Figure 10: for one feature the error is almost linear in epsilon up to 1/2's level. "
            f"Correlation there: {min(correlations):.3f} to {max(correlations):.3f}."
        )
    narrow = errors[(errors["classes"] > 2) & (errors["d"] == 2)]
    wide = errors[(errors["classes"] > 2) & (errors["d"] > 2)]
    if len(narrow) and len(wide):
        least = errors["epsilon"].min()
        few, many = (part.loc[part["epsilon"] == least, PREDICTED].mean() for part in (narrow, wide))
        notes.append(
            "The paper, Figures 12 and 13: with more than two classes, d = 2 needs much more epsilon than the other d. "
            f"At epsilon {least:g}, half* errs by {few:.4f} for d = 2 and {many:.4f} beyond."
        )
    return notes


def _secret_notes(data: pd.DataFrame) -> list[str]:
    if not len(data):
        return []
    means = data.groupby(["secret", "adversary"], sort=False)["mse"].mean()
    said = ", ".join(f"{means[secret, REPEATS]:.4f} ({secret})" for secret in SECRETS)
    rescaled = max(float(means[secret, RESCALES]) for secret in SECRETS)
    return [
        f"Remark 13, one feature and two classes, epsilon {TYPICAL}: who repeats the optimisation errs by {said}, 1/2 "
        f"for all by {means['none', HALF]:.4f}. No secret helps against who knows that features were scaled to [0, 1]: "
        f"whatever is disclosed, estimates are x but for a factor, which their extreme tells ({rescaled:.4f})."
    ]
