"""The sections on Hu, Figures 2 to 4, without a defence: accuracy, label attack and ||theta||, epoch by epoch."""

from dataclasses import fields
from itertools import product
from typing import Any

import pandas as pd

from studies.hu.claims import credit_statements, mnist_statements
from studies.hu.equations import EquationFacts, fact_words
from studies.hu.experiments import HU_EXPERIMENTS, INITIALISATIONS, HuChoices, measurement, of_paper
from studies.measurements import TaskMeasurement
from studies.page.plots import Curve, Panel, Plot, error_curve
from studies.page.section import Section
from studies.simulation.records import SIMULATION_WORDS, Reading
from studies.simulation.side_by_side import BATCH_SIZE, LEARNING_RATE, MEASURES
from studies.study import StudyRun

# The paper tuned the rate over these, and chose the last.
LEARNING_RATES = (0.001, 0.003, 0.01)
# The criterion is said not to depend on the batch.
BATCH_SIZES = (64, 256, 1024)
_PER_TRAINING = ("majority_test", "guaranteed_steps", "first_wrong_step")
_DRAWN = (
    ("accuracy_train", "training accuracy"),
    ("accuracy_test", "test accuracy"),
    ("success_step", "labels right, by step"),
    ("theta_norm", "norm of theta"),
)
_SETTINGS = (
    f"Vertical logistic regression without a defence: batches of {BATCH_SIZE}, learning rate {LEARNING_RATE}. The "
    "first half of the features is the active party's, the last the passive party's, which attacks the labels. By step "
    "is the paper's measure: the share of an epoch's training records whose label is the sign of -f at the step that "
    "uses them (Criterion 4.2). Kept is what label_recovery holds after the epoch: a label that theory promises "
    "(T_eps), otherwise what most steps so far say.",
    "SIMULATION: training ran in one place in float64 with every party's features, and the attack was given f as its "
    "equations determine it with Algorithm 2; no ciphertext was made. --wire runs an epoch in a real federation.",
)


def mnist01(run: StudyRun) -> Section:
    """Figures 2 and 3, and the text on MNIST."""
    return _section(run, "mnist01")


def credit(run: StudyRun) -> Section:
    """Figure 4, and the text on credit."""
    return _section(run, "credit")


def _section(run: StudyRun, name: str) -> Section:
    choices, experiment = HuChoices.of(run), HU_EXPERIMENTS[name]
    if name not in choices.datasets:
        return absent(name, experiment.title, name, choices)
    frame = run.measure(measurements_of(name, choices))
    results, facts = epochs_of(frame), facts_of(frame)
    statements = mnist_statements if name == "mnist01" else credit_statements
    return Section(
        name=name,
        title=f"{experiment.title}: the label attack by epoch",
        data=results,
        summary=summary_of(results, name),
        plots=(_plot(results, name),),
        notes=(
            *filter(None, (choices.words,)),
            *_SETTINGS,
            *_reading_notes(name, results),
            *(f"Do the equations determine f? {row.reading}. {fact_words(row)}" for row in facts.itertuples()),
        ),
        statements=statements(results, facts),
    )


def absent(name: str, title: str, dataset: str, choices: HuChoices) -> Section:
    """A section without its data set: it wasn't asked for, or isn't there."""
    said = [words for words in choices.skipped if words.startswith(f"{dataset} ")]
    empty = pd.DataFrame()
    return Section(name, title, empty, empty, (), tuple(said or [f"{dataset} was not asked for (--datasets)."]))


# --- measurements -------------------------------------------------------------------------------------------------


def measurements_of(name: str, choices: HuChoices) -> list[TaskMeasurement]:
    """List what a section measures: trainings by reading and seed, the equations behind f, other rates and batches."""
    experiment, epochs = HU_EXPERIMENTS[name], choices.epochs[name]
    measurements = [
        training_measurement(name, reading, seed, epochs)
        for seed, reading in product(choices.seeds, experiment.readings)
    ]
    for scaling in dict.fromkeys(reading.scaling for reading in experiment.readings):
        terms: dict[str, Any] = {"scaling": scaling, "batch_size": BATCH_SIZE, "most_copies": experiment.most_copies}
        measurements += [
            measurement("trainings:ranks", name, seed=seed, epochs=epochs, **terms) for seed in choices.seeds
        ]
        measurements.append(measurement("trainings:facts", name, seed=choices.seeds[0], **terms))
    first, others = experiment.readings[0], [rate for rate in LEARNING_RATES if rate != LEARNING_RATE]
    measurements += [
        training_measurement(name, first, seed, epochs, rate=rate) for seed, rate in product(choices.seeds, others)
    ]
    sizes = [size for size in BATCH_SIZES if size != BATCH_SIZE] if name == "credit" else []
    measurements += [
        training_measurement(name, first, seed, epochs, batch_size=size) for seed, size in product(choices.seeds, sizes)
    ]
    return measurements


def training_measurement(
    name: str, reading: Reading, seed: int, epochs: int, *, batch_size: int = BATCH_SIZE, rate: float = LEARNING_RATE
) -> TaskMeasurement:
    """Describe a training of one reading from every initialisation."""
    return measurement(
        "trainings:training",
        name,
        scaling=reading.scaling,
        intercept=reading.intercept,
        seed=seed,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=rate,
    )


def epochs_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Make the long table of a section: a row per reading, initialisation, seed, epoch, rate and batch size.

    rank and condition are of the epoch's first batch with Algorithm 2; first_wrong_step is missing where no step errs.
    """
    done = frame[frame["status"] == "done"]
    ranks = {(row["scaling"], row["seed"]): row for row in done[done["function"] == "ranks"].to_dict("records")}
    parts = [
        _epochs_of_training(row, ranks.get((row["scaling"], row["seed"])))
        for row in done[done["function"] == "training"].to_dict("records")
    ]
    return pd.concat(parts, ignore_index=True).astype({"first_wrong_step": "Int64"})


def _epochs_of_training(row: dict[Any, Any], ranks: dict[Any, Any] | None) -> pd.DataFrame:
    length = len(row["epoch"]) // len(INITIALISATIONS)
    measured = pd.DataFrame({name: row[name] for name in ("initialisation", "epoch", *MEASURES)})
    by_start = {name: [one for one in row[name] for _ in range(length)] for name in _PER_TRAINING[1:]}
    experiment = HU_EXPERIMENTS[row["dataset"]]
    reading = next(
        one for one in experiment.readings if (one.scaling, one.intercept) == (row["scaling"], row["intercept"])
    )
    described = {
        "dataset": row["dataset"],
        "reading": reading.name,
        "seed": int(row["seed"]),
        "learning_rate": row["learning_rate"],
        "batch_size": int(row["batch_size"]),
        "majority_test": row["majority_test"],
        "train_rows": sum(row["train_counts"]),
        "test_rows": sum(row["test_counts"]),
        "train_ones": row["train_counts"][1],
        "test_ones": row["test_counts"][1],
        "columns": int(row["columns"]),
    }
    found = measured.assign(**by_start, **described)
    wrong = found["first_wrong_step"].astype("Int64")
    found["first_wrong_step"] = wrong.mask(wrong < 0)
    starts = len(INITIALISATIONS)
    for name in ("rank", "condition"):
        found[name] = (ranks[name] * starts) if ranks else float("nan")
    return found


def facts_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Make a table of what the equations determine: a row per scaling, batch size and u (``EquationFacts``)."""
    parts = []
    for row in frame[(frame["status"] == "done") & (frame["function"] == "facts")].to_dict("records"):
        names = [one.name for one in HU_EXPERIMENTS[row["dataset"]].readings if one.scaling == row["scaling"]]
        own = {one.name: row[one.name] for one in fields(EquationFacts)}
        parts.append(pd.DataFrame(own).assign(reading=names[0]))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


# --- what is shown ----------------------------------------------------------------------------------------------


def summary_of(results: pd.DataFrame, name: str) -> pd.DataFrame:
    """Average over seeds what a page shows: the first epoch and the last, of every reading and initialisation."""
    chosen = of_paper(results)
    chosen = chosen[(chosen["dataset"] == name) & chosen["epoch"].isin({1, 10, chosen["epoch"].max()})]
    groups = chosen.groupby(["reading", "initialisation", "epoch"], sort=False)[list(MEASURES)]
    means, errors = groups.mean(), groups.sem()
    return means.join(errors.add_suffix("_se")).reset_index()


def _plot(results: pd.DataFrame, name: str) -> Plot:
    chosen = of_paper(results)
    panels = [
        Panel(f"{reading}: {title}", "epoch", title, _curves(chosen[chosen["reading"] == reading], measure))
        for reading in chosen["reading"].unique()
        for measure, title in _DRAWN
    ]
    caption = "Mean over seeds; shaded: standard error. Dashed: 2, the paper's bound of the norm on MNIST."
    return Plot(name, panels, caption, columns=len(_DRAWN))


def _curves(part: pd.DataFrame, measure: str) -> tuple[Curve, ...]:
    curves = [
        error_curve(part[part["initialisation"] == kind], "epoch", kind, measure=measure) for kind in INITIALISATIONS
    ]
    if measure == "theta_norm":
        epochs = (1.0, float(part["epoch"].max()))
        curves.append(Curve("the paper's bound", epochs, (2.0, 2.0), ours=True))
    return tuple(curves)


def _reading_notes(name: str, results: pd.DataFrame) -> list[str]:
    """What the paper leaves open and no statement of it covers."""
    scalings = dict.fromkeys(reading.scaling for reading in HU_EXPERIMENTS[name].readings)
    notes = [f"SIMULATION, {SIMULATION_WORDS[scaling]}" for scaling in scalings if scaling in SIMULATION_WORDS]
    chosen = of_paper(results)
    last = chosen[(chosen["epoch"] == chosen["epoch"].max()) & (chosen["initialisation"] == "zero")]
    means = last.groupby("reading", sort=False)["accuracy_test"].mean()
    accuracies = ", ".join(f"{reading} {value:.3f}" for reading, value in means.items())
    return [
        *notes,
        "The paper does not say whether there is an intercept, nor how rows are scaled on MNIST: each reading is "
        "shown, and all have an intercept but those that say otherwise. Test accuracy from zero after epoch "
        f"{chosen['epoch'].max()}: {accuracies}; the larger class alone gives {last['majority_test'].mean():.3f}.",
    ]
