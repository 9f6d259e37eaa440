"""``plumbline figures hu``: runs the experiments of Hu, section 7, and prints their summary."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from plumbline.figures.hu.experiments import HU_EXPERIMENTS, run_experiment, summary_of
from plumbline.figures.hu.page import shown, write_hu
from plumbline.simulation.records import Records
from vfl.data import (
    RegistryTable,
    encode_labels,
    load_dataset,
)


def run_hu(
    folder: Path,
    data_dir: Path | None,
    *,
    seeds: int = 5,
    epochs: Mapping[str, int] | None = None,
    datasets: Sequence[str] = tuple(HU_EXPERIMENTS),
    console: Console,
) -> Path:
    """Run the experiments, write them into ``folder`` and return the path of ``hu.html``.

    Written: ``hu.parquet`` (one row per data set, reading, initialisation, seed and epoch; rank and condition are of
        the epoch's first batch with Algorithm 2), ``hu.json`` (settings, means and standard errors, equations,
        statements), ``hu-DATASET.svg``, ``hu.html``. The same arguments give the same files.

    Args:
        folder: for the files.
        data_dir: of the raw files.
        seeds: how many.
        epochs: by data set, where other than the paper's (30 and 10).
        datasets: names.
        console: for progress.

    Raises:
        ValueError: for arguments out of range.
        DatasetNotFound: when raw files are missing; it says how to get them.
    """
    planned = _planned_epochs(seeds, epochs or {}, datasets)
    loaded = {name: _load(name, data_dir) for name in planned}
    folder.mkdir(parents=True, exist_ok=True)
    parts, facts = [], []
    with _progress(console) as progress:
        total = sum(seeds * planned[name] * len(HU_EXPERIMENTS[name].readings) for name in planned)
        task = progress.add_task("starting", total=total)
        for name, records in loaded.items():
            progress.update(task, description=name)
            results, found = run_experiment(
                name,
                HU_EXPERIMENTS[name],
                records,
                seeds=seeds,
                epochs=planned[name],
                advance=lambda: progress.advance(task),
            )
            parts.append(results)
            facts += found
    results = pd.concat(parts, ignore_index=True)
    page = write_hu(folder, results, facts)
    _print(console, summary_of(results))
    console.print(f"Report: {page}", highlight=False)
    return page


def _planned_epochs(seeds: int, epochs: Mapping[str, int], datasets: Sequence[str]) -> dict[str, int]:
    known = ", ".join(HU_EXPERIMENTS)
    if seeds < 1:
        raise ValueError(f"Expected at least 1 seed, got {seeds}.")
    if not datasets:
        raise ValueError(f"No data set was chosen: choose from {known}.")
    for name in (*datasets, *epochs):
        if name not in HU_EXPERIMENTS:
            raise ValueError(f"Hu has no experiment on {name!r}: choose from {known}.")
    planned = {name: epochs.get(name, HU_EXPERIMENTS[name].epochs) for name in datasets}
    for name, count in planned.items():
        if count < 1:
            raise ValueError(f"Expected at least 1 epoch for {name}, got {count}.")
    return planned


def _load(name: str, data_dir: Path | None) -> Records:
    table: RegistryTable = load_dataset(name, data_dir)
    return Records(table.features, encode_labels(table.labels)[0], table.train_rows)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} epochs"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _print(console: Console, summary: pd.DataFrame) -> None:
    for name, part in summary.groupby("dataset", sort=False):
        table = Table(
            title=HU_EXPERIMENTS[str(name)].title,
            caption="Mean over seeds. Success of the label attack: by step is Criterion 4.2 at each step of the epoch; "
            "kept is what LabelRecovery has after it.",
        )
        for heading in ("reading", "start", "epoch", "test accuracy", "by step", "kept", "||theta||"):
            table.add_column(heading, justify="left" if heading in ("reading", "start") else "right")
        for row in shown(part).itertuples():
            table.add_row(
                str(row.reading),
                str(row.initialisation),
                str(row.epoch),
                f"{row.accuracy_test:.4f}",
                f"{row.success_step:.4f}",
                f"{row.success_kept:.4f}",
                f"{row.theta_norm:.2f}",
            )
        console.print(table)
