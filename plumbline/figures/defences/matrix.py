"""Each defence against each attack: error or success without and with it, by those who know of it and who don't."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import attacks
import defences
from plumbline.figures.defences.advice import GUESS, NONE, advice, best_errors
from plumbline.figures.defences.against_predictions import PREDICTION_ATTACKS, PSI, RECORDS, prediction_rows
from plumbline.figures.defences.against_training import DATASET, EXTENDED, LISTENING, UNMASKED, training_rows
from plumbline.figures.page.elements import svg_text
from plumbline.figures.page.section import Plot, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LIVE = {
    "label_recovery": "labels, listening",
    "feature_order": "a feature, listening",
    "auxiliary_ciphertext": "labels, Algorithm 2",
    "randomiser_channel": "features, randomiser",
}
# What a console shows, as many of the first as fit into its width.
_PRINTED = ("half_star", "rcc2", "gia", "gia from 1/2", "shadow", "clamped_ls", "agnostic")
_NAME_WIDTH, _NUMBER_WIDTH = 24, 15


def matrix_section(data_dir: Path | None, *, seed: int = 0, quick: bool = False, live: bool = True) -> Section:
    """Measure prediction attacks on centrally trained models and training attacks in real federations, or say why not.

    ``data`` has one row per case, trial (a defence with its options), adversary and attack:
    - adversary: "unaware", or what one who knows the defence does about it;
    - status: measured, unchanged, not applicable, or refused (what an adversary would get if a federation let it ask
      so), with the reason for the last three;
    - mse, of predictions, and right and answered, of training, each with the undefended value beside it;
    - kl: mean D(c || c~) in nats over all held-out records, infinite where a score became 0;
    - interpretability: g (Varasteh eq. 33) of the disclosed parameters and those that act on the true features.

    live: False leaves out the federations. quick: breast_cancer only, 40 records, two federations.
    """
    predicted, said = prediction_rows(data_dir, seed=seed, quick=quick)
    parts = [predicted]
    if live:
        trained = training_rows(quick=quick)
        parts += [trained, _unmeasured(trained)]
    data = pd.concat(parts, ignore_index=True)
    data.insert(0, "trial", [_trial_words(*key) for key in zip(data["defence"], data["options"], strict=True)])
    cases = list(predicted["case"].unique())
    plots = [_prediction_plot(data, case) for case in cases]
    if live:
        plots.append(_training_plot(data))
    # A single feature is a drawing's matter: the tables are wide enough.
    tabled = [case for case in cases if not case.endswith("d = 1")]
    return Section(
        name="matrix",
        title="Every defence against every attack",
        data=data,
        summary=_summary(data, tabled),
        plots=tuple(plots),
        notes=(*said, *_notes(data, cases)),
        advice=advice(data, tabled),
    )


# --- pairs that no federation was run for --------------------------------------------------------------------------


def _unmeasured(trained: pd.DataFrame) -> pd.DataFrame:
    """A row with the reason for each pair of a defence and a training attack that was not measured."""
    measured = set(zip(trained["defence"], trained["attack"], strict=True))
    plain = trained[trained["defence"] == NONE].set_index("attack")
    rows = []
    for defence in (PSI, *defences.names()):
        for attack in _training_attacks():
            if (defence, attack) in measured:
                continue
            status, reason = _why_not(defence)
            row: dict[str, Any] = {"phase": "training", "dataset": DATASET, "defence": defence, "options": "defaults"}
            row |= {"adversary": "unaware", "attack": attack, "status": status, "reason": reason}
            row["case"] = f"{DATASET}, live"
            if status == "unchanged" and attack in plain.index:
                for name in ("right", "answered"):
                    row |= {name: plain.loc[attack, name], f"{name}_undefended": plain.loc[attack, name]}
            rows.append(row)
    return pd.DataFrame(rows)


def _training_attacks() -> list[str]:
    return [name for name in attacks.names() if attacks.load(name).spec.phase == "training"]


def _why_not(defence: str) -> tuple[str, str]:
    if defence == PSI:
        return "unchanged", "Every federation here aligns by PSI: what is undefended is with it."
    spec = defences.load(defence).spec
    if "training" in spec.stages:
        return "not applicable", "It trains models in the lab; no federation does."
    if "scores" in spec.stages:
        return "unchanged", "It changes scores at the coordinator, which never sees a gradient or a ciphertext."
    if "features" in spec.stages:
        return "unchanged", "It hides its own party's features, not the residuals that this attack solves for."
    if "parameters" in spec.stages:
        return "unchanged", "It changes what is disclosed after training."
    return "not applicable", "This pair was left out of the quick run."


# --- summary ------------------------------------------------------------------------------------------------------


def _summary(data: pd.DataFrame, cases: Sequence[str]) -> pd.DataFrame:
    """One row per defence and options: the smallest error of all attacks, unaware and aware, and what it costs.

    Costs are those on the first case that it was measured on; shares are of live federations.
    """
    predicted = data[data["phase"] == "prediction"]
    live = data[(data["phase"] == "training") & (data["status"] == "measured")]
    rows: list[dict[str, Any]] = [{"defence": NONE, "options": ""}, {"defence": GUESS, "options": ""}]
    rows += predicted[["defence", "options"]].drop_duplicates().to_dict("records")  # type: ignore[arg-type]
    for row in rows:
        trial = _trial_words(row["defence"], row["options"])
        for case in cases:
            errors = best_errors(predicted[predicted["case"] == case], trial)
            row |= {f"{case}: {who}": value for who, value in errors.items()}
        of = predicted[(predicted["trial"] == trial) & (predicted["status"] != "not applicable")]
        if len(of):
            first = of.iloc[0]
            row["accuracy change"] = first["model_accuracy"] - first["model_accuracy_undefended"]
            row["KL"], row["g"] = first["kl"], first["interpretability"]
        # Federations ran with one set of options per defence, feature_transform with its features in training.
        if row["defence"] != "feature_transform" or "at=training" in row["options"]:
            shares = live[live["defence"] == row["defence"]].groupby("attack")["right"].mean()
            row |= {_LIVE[str(attack)]: share for attack, share in shares.items()}
    columns = ["defence", "options", *(f"{case}: {who}" for case in cases for who in ("unaware", "strongest"))]
    columns += ["accuracy change", "KL", "g", *_LIVE.values()]
    summary = pd.DataFrame(rows)
    return summary[[name for name in columns if name in summary]]


# --- plots --------------------------------------------------------------------------------------------------------


def _prediction_plot(data: pd.DataFrame, case: str) -> Plot:
    """Errors of all attacks under all defences, coloured by how much of the error of guessing 1/2 they gain."""
    at = data[data["case"] == case]
    half = float(at[at["attack"] == "half"]["mse"].iloc[0])
    labels = [label for label, *_ in PREDICTION_ATTACKS if at[at["attack"] == label]["mse"].notna().any()]
    undefended = [float(at[at["attack"] == label]["mse_undefended"].iloc[0]) for label in labels]
    best = best_errors(at, NONE)["strongest"]
    lines: list[tuple[str, list[float], list[float]]] = [(NONE, [*undefended, best], [0.0] * (len(labels) + 1))]
    for trial, part in at.groupby("trial", sort=False):
        plain = part[part["adversary"] == "unaware"].set_index("attack")
        errors = [float(plain["mse"].get(label, np.nan)) for label in labels]
        before = [float(plain["mse_undefended"].get(label, np.nan)) for label in labels]
        strongest = best_errors(at, str(trial))["strongest"]
        changes = [(after - old) / half for after, old in zip(errors, before, strict=True)]
        lines.append((str(trial), [*errors, strongest], [*changes, (strongest - best) / half]))
    return Plot(
        _file_stem(case),
        _heat_map(lines, [*labels, "strongest"], case),
        f"{case}: mean squared error per feature of {RECORDS} records at most. Blue: the attack got worse, red: "
        f"better, in units of the error of guessing one half ({half:.3f}). Strongest: the best of "
        "all attacks by an adversary who knows the defence and has complete records. Dash: it doesn't apply.",
    )


def _heat_map(lines: list[tuple[str, list[float], list[float]]], headings: Sequence[str], title: str) -> str:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 1.3 + 0.29 * len(lines)), layout="constrained")
    axes: Axes = figure.subplots()
    changes = np.array([np.nan_to_num(changes, nan=0.0) for _, _, changes in lines]).clip(-1, 1)
    axes.imshow(changes, cmap="RdBu", vmin=-2, vmax=2, aspect="auto")
    for row, (_, values, _) in enumerate(lines):
        for column, value in enumerate(values):
            axes.text(column, row, _short(value), ha="center", va="center", fontsize=7.5)
    _frame(axes, [name for name, *_ in lines], headings)
    axes.axvline(len(headings) - 1.5, color="#1d2733", linewidth=0.8)
    axes.set_title(title, fontsize=10, loc="left")
    return svg_text(figure)


def _training_plot(data: pd.DataFrame) -> Plot:
    """Shares that training attacks got right, in the federations that were run."""
    from matplotlib.figure import Figure

    live = data[(data["phase"] == "training") & (data["status"] == "measured")]
    columns = [attack for attack in _LIVE if attack in set(live["attack"])]
    names = list(live["defence"].unique())
    shares = np.array(
        [
            [live[(live["defence"] == name) & (live["attack"] == attack)]["right"].mean() for attack in columns]
            for name in names
        ]
    )
    figure = Figure(figsize=(8.5, 1.2 + 0.36 * len(names)), layout="constrained")
    axes: Axes = figure.subplots()
    axes.imshow(np.nan_to_num(shares), cmap="Reds", vmin=0, vmax=1.6, aspect="auto")
    for row, column in np.ndindex(shares.shape):
        value = shares[row, column]
        axes.text(column, row, "–" if np.isnan(value) else f"{value:.0%}", ha="center", va="center", fontsize=8.5)
    _frame(axes, names, [_LIVE[attack] for attack in columns], rotation=0)
    return Plot(
        "training",
        svg_text(figure),
        "Real federations, 2,048-bit keys, mTLS: the share that each training attack got right. Labels: "
        "half right is a fair coin. A single feature: of all records, of which 80 % took part in training. Features by "
        "the randomiser: of those read. Dash: the defence is not about this attack, or was not run against it.",
    )


def _frame(axes: "Axes", rows: Sequence[str], columns: Sequence[str], *, rotation: int = 30) -> None:
    ha = "left" if rotation else "center"
    axes.set_xticks(range(len(columns)), columns, rotation=rotation, ha=ha, rotation_mode="anchor", fontsize=8)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _short(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.3f}" if value < 9.9995 else f"{value:.1f}" if value < 100 else f"{value:.0e}".replace("e+0", "e")


def _trial_words(defence: str, options: str) -> str:
    return defence if options in ("", "defaults") else f"{defence} ({options})"


def _file_stem(case: str) -> str:
    return "-".join("".join(letter if letter.isalnum() else " " for letter in case).split())


# --- words --------------------------------------------------------------------------------------------------------


def _notes(data: pd.DataFrame, cases: Sequence[str]) -> list[str]:
    predicted = data[data["phase"] == "prediction"]
    notes = [
        "Predictions are a SIMULATION: models are trained in one place (Adam, early stopping) and scores pass the "
        "defences as the coordinator applies them. gia and shadow take 500 rounds at a rate of 0.02.",
        "An adversary who knows the defence knows its options as well, not its secrets. Those who regress need "
        "complete records with their scores, and so does shadow. The strongest adversary is all of them. Those who "
        "vary their own share of the logits are refused a second answer: what they would get is in the data only.",
    ]
    notes += [_case_words(predicted[predicted["case"] == case], case) for case in cases]
    psi = predicted[predicted["defence"] == PSI]
    if bool((psi["mse"].fillna(-1) == psi["mse_undefended"].fillna(-1)).all()):
        notes.append("Alignment by PSI does not help: it hides who is in one table only, and changes no score.")
    noisy = predicted[(predicted["defence"] == "dp_noise") & (predicted["status"] == "measured")]
    if len(noisy):
        first = noisy.iloc[0]
        notes.append(
            f"dp_noise's defaults on {first['case']}: model accuracy falls from "
            f"{first['model_accuracy_undefended']:.2f} to {first['model_accuracy']:.2f} (the median of 11 draws): a "
            "few hundred rows don't carry this noise. Predictions of the noisy model are inverted like any other's."
        )
    live = data[(data["phase"] == "training") & (data["status"] == "measured")]
    return notes + [_training_words(live, attack) for attack in _LIVE if attack in set(live["attack"])]


def _case_words(at: pd.DataFrame, case: str) -> str:
    """Which defences protect on this case: against the unaware, and against who knows."""
    before = best_errors(at, NONE)
    half = best_errors(at, GUESS)["unaware"]
    errors = {trial: best_errors(at, trial) for trial in at[at["status"] == "measured"]["trial"].unique()}
    guarded, safe = ([name for name, best in errors.items() if best[who] >= (before[who] + half) / 2] for who in before)
    return (
        f"{case}: undefended, the best attack errs by {before['unaware']:.4f} ({before['strongest']:.4f} with complete "
        f"records), guessing one half by {half:.4f}. At least half-way from the one to the other, {len(guarded)} of "
        f"{len(errors)} trials hold the unaware, and {', '.join(safe) or 'none'} the strongest adversary."
    )


_SETTING_OF = {
    "label_recovery": LISTENING,
    "feature_order": LISTENING,
    "auxiliary_ciphertext": EXTENDED,
    "randomiser_channel": UNMASKED,
}


def _training_words(live: pd.DataFrame, attack: str) -> str:
    of = live[live["attack"] == attack]
    shares = [f"{row.right:.0%} with {row.defence}" for row in of[of["defence"] != NONE].itertuples()]
    plain = of[of["defence"] == NONE].iloc[0]
    ending = " Fresh randomness, the default, closes it." if attack == "randomiser_channel" else ""
    return f"{attack} ({_SETTING_OF[attack]}): {plain['right']:.0%} right undefended, {', '.join(shares)}.{ending}"


def print_matrix(console: Console, data: pd.DataFrame) -> None:
    """Print one table per case: by how much each defence changes each attack's error."""
    predicted = data[data["phase"] == "prediction"]
    shown = _PRINTED[: max(1, (console.width - _NAME_WIDTH) // _NUMBER_WIDTH - 1)]
    for case, at in predicted.groupby("case", sort=False):
        table = Table(
            title=f"{case}: change of the mean squared error per feature",
            caption="Strongest: of all attacks, by who knows the defence and has complete records.",
        )
        table.add_column("defence", min_width=_NAME_WIDTH)
        for heading in (*shown, "strongest"):
            table.add_column(heading, justify="right", no_wrap=True)
        best = best_errors(at, NONE)["strongest"]
        for trial, part in at.groupby("trial", sort=False):
            plain = part[part["adversary"] == "unaware"].set_index("attack")
            changes = [
                float(plain["mse"].get(label, np.nan)) - float(plain["mse_undefended"].get(label, np.nan))
                for label in shown
            ]
            strongest = best_errors(at, str(trial))["strongest"] - best
            table.add_row(str(trial), *(_signed(change) for change in (*changes, strongest)))
        console.print(table)


def _signed(change: float) -> str:
    if np.isnan(change):
        return "-"
    return "=" if abs(change) < 5e-5 else f"{change:+.4f}" if abs(change) < 10 else f"{change:+.0e}"
