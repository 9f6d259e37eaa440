"""Writes a run of the experiments: Parquet, JSON, a drawing per data set, and one self-contained page."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from plumbline.figures.hu.experiments import HU_EXPERIMENTS, INITIALISATIONS, IOTA, KEY_BITS, EquationFacts, summary_of
from plumbline.figures.hu.statements import statements_of
from plumbline.figures.page.elements import PageTable, inline, json_text, number_words, svg_text
from plumbline.html import template
from plumbline.simulation.records import SIMULATION_WORDS
from plumbline.simulation.side_by_side import BATCH_SIZE, LEARNING_RATE, MEASURES


def write_hu(folder: Path, results: pd.DataFrame, facts: Sequence[EquationFacts]) -> Path:
    """Write all files of ``run_hu`` from its results; returns the path of ``hu.html``."""
    summary, statements = summary_of(results), statements_of(results, facts)
    seeds = int(results["seed"].nunique())
    epochs = {str(name): int(count) for name, count in results.groupby("dataset", sort=False)["epoch"].max().items()}
    simulation = _simulation(results)
    results.to_parquet(folder / "hu.parquet", index=False)
    content = {
        "settings": {
            "seeds": seeds,
            "epochs": epochs,
            "batch_size": BATCH_SIZE,
            "learning_rate": LEARNING_RATE,
            "key_bits": KEY_BITS,
            "iota": IOTA,
        },
        "simulation": simulation,
        "statements": [asdict(statement) for statement in statements],
        "equations": [asdict(fact) for fact in facts],
        "summary": json.loads(summary.to_json(orient="records", double_precision=15)),
    }
    (folder / "hu.json").write_text(json_text(content))
    drawings = {}
    for name in epochs:
        drawings[name] = _draw(summary[summary["dataset"] == name])
        (folder / f"hu-{name}.svg").write_text(drawings[name])
    page = folder / "hu.html"
    page.write_text(
        template("hu.html").render(
            settings=content["settings"],
            simulation=simulation,
            sections=[
                {
                    "title": HU_EXPERIMENTS[name].title,
                    "plot": {
                        "drawing": inline(drawing, f"{HU_EXPERIMENTS[name].title}, epoch by epoch"),
                        "caption": "Mean over seeds; shaded: standard error. Dash-dotted: 2, the paper's bound of "
                        "||theta|| on MNIST.",
                    },
                    "statements": [statement for statement in statements if statement.dataset == name],
                    "numbers": _numbers_table(shown(summary[summary["dataset"] == name])),
                    "equations": _equations_table([fact for fact in facts if fact.dataset == name]),
                }
                for name, drawing in drawings.items()
            ],
        )
    )
    return page


def _numbers_table(shown: pd.DataFrame) -> PageTable:
    def cell(row: dict[Any, Any], measure: str) -> str:
        error = row[f"{measure}_se"]
        return f"{row[measure]:.4f}" + ("" if np.isnan(error) else f" ± {error:.4f}")

    return PageTable(
        "Mean ± standard error over seeds.",
        ("reading", "start", "epoch", *(title for _, title in _PANELS)),
        [
            (row["reading"], row["initialisation"], str(row["epoch"]), *(cell(row, measure) for measure in MEASURES))
            for row in shown.to_dict("records")
        ],
    )


def _equations_table(facts: Sequence[EquationFacts]) -> PageTable:
    return PageTable(
        "The passive party's equations, first batches of seed 0. u = 1 is the honest gradient, more is Algorithm 2. A "
        "planted share was to be recovered from each.",
        (
            "reading",
            "batch",
            "u",
            "equations",
            "bits per sum",
            f"fits {KEY_BITS} bits",
            "rank",
            "condition number",
            "recovered",
            "largest error",
        ),
        [
            (
                fact.reading,
                str(fact.batch_size),
                str(fact.copies),
                str(fact.equations),
                str(fact.sum_bits),
                "yes" if fact.fits else "no",
                fact.ranks,
                "" if fact.condition is None else number_words(fact.condition, 3),
                f"{fact.recovered} of {fact.batches}",
                "" if fact.error is None else number_words(fact.error),
            )
            for fact in facts
        ],
    )


def _simulation(results: pd.DataFrame) -> list[str]:
    notes = [
        "Training ran in one place in float64 with every party's features, and the attack was given f as its equations "
        "determine it with Algorithm 2; no ciphertext was made."
    ]
    used = {
        reading.scaling
        for name in results["dataset"].unique()
        for reading in HU_EXPERIMENTS[name].readings
        if reading.name in set(results["reading"])
    }
    return notes + [words for scaling, words in SIMULATION_WORDS.items() if scaling in used]


_COLOURS = {"zero": "#1b6ca8", "xavier": "#c8553d", "kaiming": "#2a9d8f"}
_STYLES = {"zero": "-", "xavier": "--", "kaiming": ":"}
_PANELS = (
    ("accuracy_train", "training accuracy"),
    ("accuracy_test", "test accuracy"),
    ("success_step", "attack success by step"),
    ("success_kept", "attack success, kept"),
    ("theta_norm", "||theta||"),
)


def _draw(summary: pd.DataFrame) -> str:
    """One row of panels per reading: mean over seeds, and the standard error as a shade. An SVG document."""
    from matplotlib.figure import Figure

    readings = list(summary["reading"].unique())
    figure = Figure(figsize=(3.0 * len(_PANELS), 0.5 + 2.3 * len(readings)), layout="constrained")
    grid = figure.subplots(len(readings), len(_PANELS), squeeze=False, sharex=True, sharey="col")
    for line, reading in zip(grid, readings, strict=True):
        for axes, (measure, _) in zip(line, _PANELS, strict=True):
            for kind in INITIALISATIONS:
                part = summary[(summary["reading"] == reading) & (summary["initialisation"] == kind)]
                epoch, mean = part["epoch"].to_numpy(), part[measure].to_numpy()
                error = part[f"{measure}_se"].fillna(0.0).to_numpy()
                axes.plot(epoch, mean, color=_COLOURS[kind], linestyle=_STYLES[kind], label=kind)
                axes.fill_between(epoch, mean - error, mean + error, color=_COLOURS[kind], alpha=0.2, linewidth=0)
            axes.spines[["top", "right"]].set_visible(False)
            axes.xaxis.get_major_locator().set_params(integer=True)
        line[0].set_ylabel(reading)
    for top, bottom, (_, title) in zip(grid[0], grid[-1], _PANELS, strict=True):
        top.set_title(title, fontsize=10)
        bottom.set_xlabel("epoch")
    for axes in grid[:, -1]:
        axes.axhline(2.0, color="#999999", linewidth=0.8, linestyle="-.")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return svg_text(figure)


def shown(part: pd.DataFrame) -> pd.DataFrame:
    """Choose the epochs that tables show: 1, 10, and the last."""
    return part[part["epoch"].isin({1, 10, part["epoch"].max()})]
