"""The page on the matrix: a heat map per case, and what its numbers say."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from attacks import LEVELS
from plumbline.figures.defences.against_training import EXTENDED, LISTENING, UNMASKED
from plumbline.figures.defences.cases import NONE, Plan
from plumbline.figures.defences.remaining import over_models
from plumbline.figures.defences.steering import STEERED_QUERIES
from plumbline.figures.page.elements import svg_text
from plumbline.figures.page.section import Plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LIVE = {
    "label_recovery": "labels, listening",
    "feature_order": "a feature, listening",
    "averaged_products": "logits, listening",
    "auxiliary_ciphertext": "labels, Algorithm 2",
    "randomiser_channel": "features, randomiser",
}


def matrix_plots(parts: pd.DataFrame, trained: pd.DataFrame) -> Iterator[Plot]:
    """Draw the part that remains, a heat map per case; and what training attacks got right, where federations ran."""
    for case in parts["case"].unique():
        yield _remaining_plot(parts[parts["case"] == case], str(case))
    if len(trained):
        yield _training_plot(trained)


def _remaining_plot(at: pd.DataFrame, case: str) -> Plot:
    """Trials by level and optimiser, the undefended first."""
    trials, optimisers = list(at["trial"].unique()), list(at["optimiser"].unique())
    cells = at.set_index(["trial", "level", "optimiser"])
    columns = [(level, optimiser) for level in LEVELS for optimiser in optimisers]
    shares = np.array([[_of(cells, (trial, *column), "part") for column in columns] for trial in trials])
    texts = [[_cell(cells, (trial, *column)) for column in columns] for trial in trials]
    headings = [
        f"{level}\n{optimiser}\nwithout scores {_of(cells, (trials[0], level, optimiser), 'e0'):.4f}"
        for level, optimiser in columns
    ]
    return Plot(
        _file_stem(case),
        _heat_map(shares, texts, trials, headings),
        f"{case}: the federation's part that remains, 1 - e / e0, with its 95 % interval over splits: e is the error "
        "of the best adversary who knows the defence, e0 that of the best guess without scores (mean squared "
        "errors per feature). Columns: what both know beforehand, and the model's optimiser. 0: the federation adds "
        "nothing to that. 1: it gives the records away. Dash: not measured, or hardly anything is left to give away.",
    )


def _of(cells: pd.DataFrame, key: tuple[str, ...], name: str) -> float:
    return float(cells[name].to_dict().get(key, np.nan))


def _cell(cells: pd.DataFrame, key: tuple[str, ...]) -> str:
    return interval_words(*(_of(cells, key, name) for name in ("part", "low", "high")))


def interval_words(part: float, low: float, high: float) -> str:
    """A share and its interval, in two decimals."""
    return "–" if np.isnan(part) else f"{part:.2f} ({low:.2f}–{high:.2f})"


def _heat_map(shares: np.ndarray, texts: list[list[str]], rows: Sequence[str], columns: Sequence[str]) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 + 1.25 * len(columns), 1.2 + 0.3 * len(rows)), layout="constrained")
    axes: Axes = figure.subplots()
    axes.imshow(np.nan_to_num(shares), cmap="Reds", vmin=0, vmax=1.6, aspect="auto")
    for row, column in np.ndindex(shares.shape):
        axes.text(column, row, texts[row][column], ha="center", va="center", fontsize=7.5)
    _frame(axes, rows, columns)
    axes.axhline(0.5, color="#1d2733", linewidth=0.8)
    return svg_text(figure)


def _training_plot(trained: pd.DataFrame) -> Plot:
    """Shares that training attacks got right, in the federations that were run."""
    from matplotlib.figure import Figure

    columns = [attack for attack in _LIVE if attack in set(trained["attack"])]
    names = list(trained["defence"].unique())
    shares = np.array(
        [
            [
                trained[(trained["defence"] == name) & (trained["attack"] == attack)]["right"].mean()
                for attack in columns
            ]
            for name in names
        ]
    )
    figure = Figure(figsize=(8.5, 1.2 + 0.36 * len(names)), layout="constrained")
    axes: Axes = figure.subplots()
    axes.imshow(np.nan_to_num(shares), cmap="Reds", vmin=0, vmax=1.6, aspect="auto")
    for row, column in np.ndindex(shares.shape):
        value = shares[row, column]
        axes.text(column, row, "–" if np.isnan(value) else f"{value:.0%}", ha="center", va="center", fontsize=8.5)
    _frame(axes, names, [_LIVE[attack] for attack in columns])
    return Plot(
        "training",
        svg_text(figure),
        "Real federations, 2,048-bit keys, mTLS: the share that each training attack got right. Labels: "
        "half right is a fair coin. A single feature: of all records, of which 80 % took part in training. Features by "
        "the randomiser: of those read. Dash: the defence is not about this attack, or was not run against it.",
    )


def _frame(axes: "Axes", rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.set_xticks(range(len(columns)), columns, fontsize=8)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _file_stem(case: str) -> str:
    return "-".join("".join(letter if letter.isalnum() else " " for letter in case).split())


# --- words --------------------------------------------------------------------------------------------------------


def matrix_notes(predicted: pd.DataFrame, parts: pd.DataFrame, trained: pd.DataFrame, plan: Plan) -> list[str]:
    """Say what was measured and what came out, in sentences."""
    models = plan.seeds * len(plan.trainings)
    notes = [
        f"Predictions are a SIMULATION: {models} models per case are trained in one place ({plan.seeds} splits, each "
        f"by {' and '.join(plan.trainings)}; dp_sgd by its own optimiser, shown with {plan.trainings[0]}), and scores "
        f"pass the defences as the coordinator applies them. {plan.records} records are attacked.",
        "What an adversary knows beforehand: nothing but public ranges; marginals, each passive column's mean and "
        f"variance; the covariance of the passive columns; {plan.auxiliary} complete records, on which nothing was "
        "trained. At each level it has its own columns and labels, and the weaker levels' attacks.",
        "The best adversary is the best of published attacks that know nothing of the defence, of those that undo it, "
        "and of posterior, which expects the defence's channel; where scores are changed for good it may choose the "
        "share that it sends with its one question. Options of a defence are known, its secrets aren't.",
    ]
    notes += [_case_words(parts[parts["case"] == case], str(case)) for case in parts["case"].unique()]
    notes += [_apart_words(parts[parts["case"] == case], str(case)) for case in parts["case"].unique()]
    notes += _refusal_words(predicted)
    return notes + [
        _training_words(trained, attack) for attack in _LIVE if len(trained) and attack in set(trained["attack"])
    ]


def _case_words(at: pd.DataFrame, case: str) -> str:
    """How much there is to defend, and what the best attack and the best guess are."""
    said = []
    for row in at[at["trial"] == NONE].to_dict("records"):
        part = interval_words(row["part"], row["low"], row["high"])
        said.append(
            f"{row['level']}, {row['optimiser']}: {part} (e0 {row['e0']:.4f} by {row['guess']}, e {row['error']:.4f} "
            f"by {row['attack']})"
        )
    return f"{case}, undefended: {'; '.join(said)}."


def _apart_words(at: pd.DataFrame, case: str) -> str:
    """Where the optimiser decides what a defence leaves: intervals that don't meet."""
    apart = []
    for (trial, level), own in at.groupby(["trial", "level"], sort=False):
        if own["low"].max() > own["high"].min():
            shares = ", ".join(f"{row['part']:.2f} by {row['optimiser']}" for row in own.to_dict("records"))
            apart.append(f"{trial}, {level} ({shares})")
    return (
        f"{case}: the optimiser decides for {'; '.join(apart)}." if apart else f"{case}: optimisers agree throughout."
    )


def _refusal_words(predicted: pd.DataFrame) -> Iterator[str]:
    """What one answer per record is worth."""
    for case, at in predicted[predicted["status"] == "refused"].groupby("case", sort=False):
        plain = predicted[(predicted["case"] == case) & (predicted["trial"] == NONE)]
        before = _mean_error(plain[plain["attack"] == "half_star"])
        errors = [f"{_mean_error(own)} with {trial}" for trial, own in at.groupby("trial", sort=False)]
        yield (
            f"{case}: who got {STEERED_QUERIES} answers about a record, and moved its own share until they were even, "
            f"would err by {', '.join(errors)}; by {before} without a defence (half_star). The coordinator answers "
            "once."
        )


def _mean_error(rows: pd.DataFrame) -> str:
    error = over_models(rows["mse"].to_numpy())
    return f"{error.mean:.4f} ({error.low:.4f}–{error.high:.4f})"


_SETTING_OF = {
    "label_recovery": LISTENING,
    "feature_order": LISTENING,
    "averaged_products": LISTENING,
    "auxiliary_ciphertext": EXTENDED,
    "randomiser_channel": UNMASKED,
}


def _training_words(trained: pd.DataFrame, attack: str) -> str:
    of = trained[trained["attack"] == attack]
    shares = [f"{row.right:.0%} with {row.defence}" for row in of[of["defence"] != NONE].itertuples()]
    plain = of[of["defence"] == NONE].iloc[0]
    ending = " Fresh randomness, the default, closes it." if attack == "randomiser_channel" else ""
    return f"{attack} ({_SETTING_OF[attack]}): {plain['right']:.0%} right undefended, {', '.join(shares)}.{ending}"


def print_matrix(console: Console, summary: pd.DataFrame) -> None:
    """Print one table per case: the part that remains under each defence, by level and optimiser."""
    for case, at in summary.groupby("case", sort=False):
        table = Table(
            title=f"{case}: the federation's part that remains",
            caption="0: it adds nothing to what is known beforehand. 1: it gives the records away.",
        )
        table.add_column("defence")
        optimisers = list(at["optimiser"].unique())
        for level in LEVELS:
            for optimiser in optimisers:
                table.add_column(f"{level}, {optimiser}", justify="right")
        for trial, own in at.groupby("trial", sort=False):
            by_level = [own.set_index("optimiser")[level].to_dict() for level in LEVELS]
            shares = [float(by.get(optimiser, np.nan)) for by in by_level for optimiser in optimisers]
            table.add_row(str(trial), *("–" if np.isnan(share) else f"{share:.2f}" for share in shares))
        console.print(table)
