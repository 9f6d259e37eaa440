"""The section on other expansions of the sigmoid: which a federation can train, and what each lets the parties read."""

from itertools import product
from typing import Any

import pandas as pd

from plumbline.cells import TaskCell
from studies.hu.expansion_claims import expansion_statements
from studies.hu.expansions import EXPANSIONS, UNIQUE_FROM
from studies.hu.experiments import HU_EXPERIMENTS, INITIALISATIONS, HuChoices, cell
from studies.page.elements import number_words
from studies.page.plots import Panel, Plot, error_curve
from studies.page.section import Section
from studies.study import StudyRun
from vfl.theory.expansions import minimax_coefficients, minimax_line
from vfl.theory.training import APPROXIMATIONS

# Rows of norm 1 at most, as the paper assumes, and credit as it was standardised.
_READINGS = {"mnist01": ("unit-norm rows",), "credit": ("standardised", "bounded rows")}
_FEATURE_SCALING = "bounded"
_MEASURED = ("accuracy_test", "success_step", "answered", "cross_share", "theta_norm")
_DRAWN = (("accuracy_test", "test accuracy"), ("success_step", "labels right, by step"))


def approximations(run: StudyRun) -> Section:
    """Appendices E and F beside the Taylor expansion: accuracy, labels by sign, a single feature."""
    choices = HuChoices.of(run)
    frame = run.measure(cells_of(choices))
    results = expanded_of(frame)
    features = frame[(frame["status"] == "done") & (frame["function"] == "single_feature")] if len(frame) else frame
    return Section(
        name="approximations",
        title="Other expansions of the sigmoid",
        data=results,
        summary=_summary(results),
        plots=(_plot(results),) if len(results) else (),
        notes=(*choices.skipped, *filter(None, (choices.words,)), *_notes(results)),
        statements=expansion_statements(results, features),
    )


def cells_of(choices: HuChoices) -> list[TaskCell]:
    """List the trainings by reading, expansion and seed; and, on credit, the attacks on a single feature."""
    cells = []
    for name in choices.datasets:
        readings = [one for one in HU_EXPERIMENTS[name].readings if one.name in _READINGS[name]]
        cells += [
            cell(
                "expansions:expanded",
                name,
                expansion=expansion,
                scaling=reading.scaling,
                seed=seed,
                epochs=choices.epochs[name],
            )
            for reading, expansion, seed in product(readings, EXPANSIONS, choices.seeds)
        ]
    if "credit" in choices.datasets:
        cells += [
            cell(
                "expansions:single_feature",
                "credit",
                approximation=approximation,
                scaling=_FEATURE_SCALING,
                seed=seed,
            )
            for approximation, seed in product(APPROXIMATIONS, choices.seeds)
        ]
    return cells


def expanded_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Make the long table of the trainings: a row per data set, reading, expansion, initialisation, seed and epoch."""
    if not len(frame):
        return frame
    rows = frame[(frame["status"] == "done") & (frame["function"] == "expanded")].to_dict("records")
    return pd.concat([_epochs(row) for row in rows], ignore_index=True) if rows else pd.DataFrame()


def _epochs(row: dict[Any, Any]) -> pd.DataFrame:
    lists = [name for name, value in row.items() if isinstance(value, list) and len(value) == len(row["epoch"])]
    length = len(row["epoch"]) // len(INITIALISATIONS)
    by_start = {
        name: [one for one in row[name] for _ in range(length)] for name in ("guaranteed_steps", "first_wrong_step")
    }
    reading = next(one.name for one in HU_EXPERIMENTS[row["dataset"]].readings if one.scaling == row["scaling"])
    found = pd.DataFrame({name: row[name] for name in lists}).assign(
        **by_start, dataset=row["dataset"], reading=reading, expansion=row["expansion"], seed=int(row["seed"])
    )
    return found.assign(diverged=found["theta_norm"].isna())


def _summary(results: pd.DataFrame) -> pd.DataFrame:
    if not len(results):
        return results
    ends = results[results["epoch"] == results.groupby("dataset")["epoch"].transform("max")]
    groups = ends.groupby(["dataset", "reading", "expansion", "initialisation"], sort=False)
    return groups[[*_MEASURED]].mean().join(groups["diverged"].sum().rename("diverged_seeds")).reset_index()


def _plot(results: pd.DataFrame) -> Plot:
    panels = []
    for (dataset, reading), part in results.groupby(["dataset", "reading"], sort=False):
        for kind, (measure, title) in product(("zero", "xavier"), _DRAWN):
            curves = tuple(
                error_curve(own, "epoch", str(name), measure=measure, ours=name == "minimax line")
                for name, own in part[part["initialisation"] == kind].groupby("expansion", sort=False)
            )
            panels.append(Panel(f"{dataset}, {reading}, {kind}", "epoch", title, curves))
    caption = "Mean over seeds, shaded: standard error. Where a line ends, weights grew without end."
    return Plot("approximations", panels, caption, columns=len(_DRAWN))


def _notes(results: pd.DataFrame) -> list[str]:
    line, (_, line_error) = minimax_line(), minimax_coefficients(1)
    notes = [
        "Protocol 1 adds up shares: each party computes its share of f from its own features, encrypts it, and the "
        "sums "
        "of both are the gradient. That needs f(z_A + z_B) = u(z_A) + v(z_B). Ask it at four points, f(a + b) - f(a) - "
        "f(b) + f(0) = 0, and only a straight line in z = theta^T x is left, whatever its slope.",
        f"So a federation trains the minimax line as it stands: S(z) ~ 1/2 + {line.slope:.4f} z is the best line on "
        f"[-5, 5] (largest error {line_error:.3f}), its residual a z - y/2 is the first order's in other units, and "
        f"learning_rate = {line.unit:.3f} eta from zero does it. Random initial weights would have to be drawn "
        f"{line.unit:.3f} times as large, which the settings don't offer. Section wire runs it. It tells labels for "
        "longer: the sign of f "
        f"is that of -y for |z| < {line.threshold:.2f}, instead of 2.",
        "SIMULATION: the cubic and the piecewise line are trained in one place, and attacks get f from the oracle that "
        "the appendices assume. The cubic's f has terms such as z_A z_B^2: a party would have to send the encrypted "
        "powers of its product beside the product, and the other to multiply each record's by its own. That is another "
        "protocol than the paper's. The piecewise line asks whether z_A + z_B is within (-1/2, 1/2), a comparison of "
        "two "
        "secrets, which additive encryption doesn't do at all.",
    ]
    for (dataset, reading), part in results.groupby(["dataset", "reading"], sort=False) if len(results) else ():
        notes += [f"{dataset}, {reading}: {_crossing(part)} {_accuracies(part)}"]
    return notes


def _crossing(part: pd.DataFrame) -> str:
    found = part[part["initialisation"] == "xavier"].groupby("expansion", sort=False)["cross_share"].mean()
    named = ", ".join(f"{name} {number_words(value)}" for name, value in found.items())
    return f"What is left of f when shares are added, root mean square beside that of f, from Xavier: {named}."


def _accuracies(part: pd.DataFrame) -> str:
    ends = part[(part["epoch"] == part["epoch"].max()) & (part["initialisation"] == "zero")]
    found = ends.groupby("expansion", sort=False)["accuracy_test"].mean()
    named = ", ".join(f"{name} {value:.4f}" if value == value else f"{name} none" for name, value in found.items())
    lost = part[part["diverged"]].drop_duplicates(["expansion", "initialisation", "seed"])
    counts = lost[["expansion", "initialisation"]].value_counts().reset_index().to_dict("records")
    words = "".join(
        f" {row['expansion']} from {row['initialisation']} diverges in {row['count']} of {part['seed'].nunique()} "
        f"seeds: some |theta^T x| gets beyond {UNIQUE_FROM:.1f}, where the cubic has turned and drives it further."
        for row in counts
    )
    return f"Test accuracy from zero after epoch {part['epoch'].max()}: {named}.{words}"
