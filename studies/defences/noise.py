"""``dp_noise`` at work: Hu, Figures 2 to 4, with every calibration of sigma and what theory predicts of each.

SIMULATION, as in ``hu.trainings``: training runs in one place in float64, and the label attack is given f + Z^A as
its equations determine it. The noise is seeded.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from studies.defences.noise_trainings import (
    DEFAULT,
    DELTAS,
    EPSILONS,
    GRADIENT_BOUND,
    INITIALISATIONS,
    PAPER,
    VARIANTS,
    NoiseCase,
    run_case,
)
from studies.page.plots import Curve, Panel, Plot, error_curve
from studies.page.section import Section
from studies.simulation.records import SIMULATION_WORDS, Reading, Records
from studies.simulation.rounds import told
from studies.study import StudyRun
from vfl.data import DatasetNotFound, encode_labels, load_dataset
from vfl.theory.dp_noise import norm_bound

_SEEDS, _QUICK_SEEDS, _QUICK_EPOCHS = 5, 2, 3

_CASES = (
    NoiseCase("mnist01", "MNIST, digits 0 and 1", Reading("unit-norm rows", "whole_row_unit_norm", False), 30),
    NoiseCase(
        "mnist01", "MNIST, digits 0 and 1", Reading("unit-norm rows, intercept", "whole_row_unit_norm", True), 30
    ),
    NoiseCase("credit", "Default of credit card clients", Reading("standardised, intercept", "standardise", True), 10),
    NoiseCase("credit", "Default of credit card clients", Reading("bounded rows, intercept", "bounded", True), 10),
)

# As measured, one of its features is longer than all others together: standardised first.
_FALLBACK = NoiseCase("breast_cancer", "Breast cancer", Reading("bounded rows", "bounded", False), 30, 32)


def noise_section(run: StudyRun) -> Section:
    """Measure accuracy, the label attack and ||theta|| without noise and at epsilon 0.1, 0.2, 0.5.

    For each: the exact mechanism (with and without keeping the norm that it assumes), the lemma and the printed
    formula, at delta = 0.1 as in the paper and at 1 / (10 n). Five seeds from ``seed`` on, batches and epochs of the
    paper. quick: two seeds, three epochs, one preparation per data set. Without the raw files of MNIST and credit,
    breast_cancer takes their place.

    ``data`` has one row per training and epoch. success_step is Criterion 4.2 on f + Z^A in that epoch, success_summed
    on the sum of the label party's shares of a record so far (``label_recovery``'s), success_kept the majority of the
    steps' signs; each predicted one is the probability given the true f. From first_product_step on, columns are of the
    whole training. ``summary`` has 95 % intervals over seeds (Student's t).
    """
    cases, records, missing = _available(run.data_dir)
    if run.quick:
        first = {name: next(case for case in cases if case.dataset == name) for name in _names(cases)}
        cases = [replace(case, epochs=_QUICK_EPOCHS) for case in first.values()]
    seeds = range(run.seed, run.seed + (_QUICK_SEEDS if run.quick else _SEEDS))
    parts = [run_case(case, records[case.dataset], seeds) for case in told(cases, run.done)]
    data = pd.concat(parts, ignore_index=True)
    summary = summary_of_noise(data)
    return Section(
        name="defences_noise",
        title="Noise on the residuals (Hu, Algorithm 3)",
        data=data,
        summary=summary,
        plots=tuple(noise_plot(case, part) for case, part in zip(cases, parts, strict=True)),
        notes=(*missing, *noise_notes(data, summary, cases)),
    )


def _available(data_dir: Path | None) -> tuple[list[NoiseCase], dict[str, Records], list[str]]:
    """The cases whose raw files are there, else the fallback; their records; what to say about those that aren't."""
    records: dict[str, Records] = {}
    said = []
    for name in _names(_CASES):
        try:
            records[name] = _load(name, data_dir)
        except DatasetNotFound as missing:
            said.append(f"{name} was left out. {missing}")
    if records:
        return [case for case in _CASES if case.dataset in records], records, said
    said.append("breast_cancer takes their place, in batches of 32: its numbers are not the paper's.")
    return [_FALLBACK], {_FALLBACK.dataset: _load(_FALLBACK.dataset, data_dir)}, said


def _names(cases: Sequence[NoiseCase]) -> list[str]:
    return list(dict.fromkeys(case.dataset for case in cases))


def _load(name: str, data_dir: Path | None) -> Records:
    table = load_dataset(name, data_dir)
    return Records(table.features, encode_labels(table.labels)[0], table.train_rows)


KEYS = ["dataset", "preparation", "initialisation", "calibration", "delta", "epsilon"]
_NAMES = tuple(variant.name for variant in VARIANTS)
_WITH_INTERVALS = ("accuracy_test", "success_summed", "success_kept")


def summary_of_noise(data: pd.DataFrame) -> pd.DataFrame:
    """Summarise each training over seeds: the end of it, but for success_step, which is of all epochs.

    _low and _high are the ends of 95 % intervals of the means over seeds, no further than 0 and 1. first_product_step
    and first_wrong_step are the earliest over seeds, -1 when it never happened.
    """
    last = data[data["epoch"] == data.groupby(["dataset", "preparation"])["epoch"].transform("max")]
    ends, everything = last.groupby(KEYS, sort=False), data.groupby(KEYS, sort=False)
    table = ends[["sigma_active", "sigma_passive", "attained_epsilon"]].first()
    for measure in _WITH_INTERVALS:
        mean, seeds = ends[measure].mean(), ends[measure].count()
        half = ends[measure].sem() * student.ppf(0.975, seeds - 1)
        table[measure] = mean
        table[f"{measure}_low"], table[f"{measure}_high"] = (mean - half).clip(0, 1), (mean + half).clip(0, 1)
    for measure in ("success_step", "success_step_predicted"):
        table[measure] = everything[measure].mean()
    of_ends = ("accuracy_test_predicted", "success_summed_predicted", "success_bound", "own_part_auc", "theta_norm")
    for measure in of_ends:
        table[measure] = ends[measure].mean()
    table["guaranteed_steps"] = ends["guaranteed_steps"].min()
    for measure in ("first_product_step", "first_wrong_step"):
        table[measure] = ends[measure].agg(_earliest)
    return table.reset_index()


def _earliest(steps: pd.Series) -> int:
    happened = steps[steps >= 0]
    return -1 if happened.empty else int(happened.min())


# --- what the numbers say ------------------------------------------------------------------------------------------


def noise_notes(data: pd.DataFrame, summary: pd.DataFrame, cases: Sequence[NoiseCase]) -> list[str]:
    """Compare the measurements with what the paper and theory say, in sentences."""
    scalings = {case.reading.scaling for case in cases}
    notes = [
        "Training ran in one place in float64 and the attack was given f + Z^A as its equations determine it; no "
        "ciphertext was made, and the noise is seeded.",
        *(words for scaling, words in SIMULATION_WORDS.items() if scaling in scalings),
        "Calibration: exact is the least sigma of the Gaussian mechanism; projected, the parties keep the norm that it "
        "assumes besides; lemma is what Lemma D.4 proves, sigma = sqrt(2 ln(5 / (4 delta))) Delta / epsilon; printed "
        f"is (71)-(72) with the root over everything. delta = {PAPER} as in the paper, or {DEFAULT} as dp_noise has it "
        f"by itself; G = {GRADIENT_BOUND:g}, T the number of steps.",
    ]
    for case in cases:
        chosen, whole = (
            table[(table["dataset"] == case.dataset) & (table["preparation"] == case.reading.name)]
            for table in (summary, data)
        )
        said = [_utility(chosen), _privacy(chosen), *_target(case, chosen), _theory_held(whole), _bounds(chosen)]
        notes += [f"{case.title}, {case.reading.name}: {sentence}" for sentence in said]
    latest = int(data[data["calibration"] != "none"]["first_wrong_step"].max())
    return [
        *notes,
        *(_worth(summary, calibration) for calibration in ("lemma", "printed")),
        "Theorem 6.6 bounds theta^T x only. What the passive party sees is f plus the noise on its own record: in "
        f"every training with noise its sign was wrong for some record by step {latest}, counted from 0.",
    ]


def _worth(summary: pd.DataFrame, calibration: str) -> str:
    at = summary[(summary["calibration"] == calibration) & (summary["delta"] == PAPER)]
    worth = at.groupby("epsilon")["attained_epsilon"].max()
    values = ", ".join(f"{value:.2f} instead of {asked}" for asked, value in worth.items())
    return f"The Gaussian mechanism with {calibration}'s sigma has epsilon = {values} at delta = {PAPER}, exactly."


def _row(chosen: pd.DataFrame, calibration: str, delta: str, epsilon: float, start: str) -> Any:
    """The training of a preparation's summary, its columns as attributes."""
    wanted = {"calibration": calibration, "delta": delta, "epsilon": epsilon, "initialisation": start}
    return next(chosen[(chosen[list(wanted)] == pd.Series(wanted)).all(axis=1)].itertuples())


def _without_noise(chosen: pd.DataFrame, start: str) -> Any:
    return _row(chosen, "none", "none", float("inf"), start)


def _utility(chosen: pd.DataFrame) -> str:
    parts = [
        f"{name} at delta = {delta} from {start} {row.accuracy_test:.3f} [{row.accuracy_test_low:.3f}, "
        f"{row.accuracy_test_high:.3f}] (mean over all noise, computed: {row.accuracy_test_predicted:.3f})"
        for delta, name, start in product(DELTAS, _NAMES, INITIALISATIONS)
        for row in [_row(chosen, name, delta, 0.2, start)]
    ]
    return (
        "Hu, Figures 2 and 4: accuracy with noise is comparable, even at epsilon = 0.2. Test accuracy there, after "
        f"{_without_noise(chosen, 'xavier').accuracy_test:.3f} without noise: {'; '.join(parts)}."
    )


def _privacy(chosen: pd.DataFrame) -> str:
    parts = [
        f"{name} at delta = {delta} {row.success_step:.3f} by step, {row.success_kept:.3f} by the vote of the steps, "
        f"{row.success_summed:.3f} on sums over epochs ({row.success_bound:.3f} for who knows theta^T x)"
        for delta, name in product(DELTAS, _NAMES)
        for row in [_row(chosen, name, delta, 0.5, "xavier")]
    ]
    none, exact = _without_noise(chosen, "xavier"), _row(chosen, "exact", PAPER, 0.5, "xavier")
    return (
        "Hu, Figures 3 and 4: at epsilon = 0.5 the label attack is a random guess. Success from xavier, after "
        f"{none.success_step:.3f} by step without noise: {'; '.join(parts)}. What noise doesn't stop: the passive "
        "party's own part of the model tells training labels apart with an area under the curve of "
        f"{exact.own_part_auc:.3f} (exact, delta = {PAPER}; {none.own_part_auc:.3f} without noise; 0.5 is chance)."
    )


def _target(case: NoiseCase, chosen: pd.DataFrame) -> list[str]:
    """The project's own numbers, which are about MNIST."""
    if case.dataset != "mnist01":
        return []
    said = []
    for delta, name, start in product(DELTAS, _NAMES, INITIALISATIONS):
        rows = [_row(chosen, name, delta, epsilon, start) for epsilon in EPSILONS]
        success = max((value for row in rows for value in (row.success_step, row.success_summed)), key=_from_chance)
        accuracy = _row(chosen, name, delta, 0.2, start).accuracy_test
        met = _from_chance(success) <= 0.03 and accuracy > 0.9
        how = "meets" if met else "misses"
        said.append(f"{name} at delta = {delta} from {start} {how} it ({success:.3f}, {accuracy:.3f})")
    return [
        "Target: label recovery at 0.5 ± 0.03 at every epsilon, by step and on sums, and a test accuracy above 0.9 at "
        f"epsilon = 0.2: {'; '.join(said)}."
    ]


def _from_chance(success: float) -> float:
    return abs(success - 0.5)


def _theory_held(whole: pd.DataFrame) -> str:
    noisy = whole[whole["calibration"] != "none"]
    steps, ends = noisy.groupby(KEYS), noisy[noisy["epoch"] == noisy["epoch"].max()].groupby(KEYS)
    by_step = (steps["success_step"].mean() - steps["success_step_predicted"].mean()).abs().max()
    on_sums = (ends["success_summed"].mean() - ends["success_summed_predicted"].mean()).abs().max()
    return (
        f"The attack's success, mean over seeds, is off what theory gives by {by_step:.4f} at most by step, by "
        f"{on_sums:.4f} on sums."
    )


def _bounds(chosen: pd.DataFrame) -> str:
    row = _row(chosen, "exact", PAPER, 0.5, "zero")
    reached = f"at step {row.first_product_step}" if row.first_product_step >= 0 else "never"
    longest = chosen.groupby(["calibration", "delta"])["theta_norm"].max()
    ended = [f"{longest[name, delta]:.1f} with {name} at delta = {delta}" for delta, name in product(DELTAS, _NAMES)]
    bound = norm_bound(GRADIENT_BOUND)
    return (
        f"T~ of Theorem 6.6, in steps, is {row.guaranteed_steps} (exact, delta = {PAPER}, epsilon = 0.5, zero); "
        f"|theta^T x| reached 2 {reached}. ||theta|| is to stay within 4 G - 2 = {bound:g}: it ended "
        f"at {longest['none', 'none']:.1f} without noise, at up to {', '.join(ended)}."
    )


# --- drawing -------------------------------------------------------------------------------------------------------

_PANELS = (
    ("accuracy_train", "training accuracy", ""),
    ("accuracy_test", "test accuracy", ""),
    ("success_step", "attack success by step", "success_step_predicted"),
    ("success_summed", "attack success on sums", "success_summed_predicted"),
    ("theta_norm", "||theta||", ""),
)


def noise_plot(case: NoiseCase, data: pd.DataFrame) -> Plot:
    """Draw panels from xavier at the paper's delta, a row per calibration: mean over seeds, standard error shaded."""
    shown = data[data["delta"].isin(["none", PAPER]) & (data["initialisation"] == "xavier")]
    ends = (1.0, float(data["epoch"].max()))
    panels = []
    for name, (measure, title, predicted) in product(_NAMES, _PANELS):
        of_line = shown[shown["calibration"].isin(["none", name])]
        curves = []
        for epsilon in (float("inf"), *EPSILONS):
            rows = of_line[of_line["epsilon"] == epsilon]
            label = "none" if np.isinf(epsilon) else f"epsilon {epsilon:g}"
            curves.append(error_curve(rows, "epoch", label, measure=measure))
            if predicted and np.isfinite(epsilon):
                theory = error_curve(rows, "epoch", f"{label}, theory", measure=predicted)
                curves.append(replace(theory, low=(), high=()))
        if measure == "theta_norm":
            curves.append(Curve("4 G - 2", ends, (norm_bound(GRADIENT_BOUND),) * 2))
        panels.append(Panel(f"{name}: {title}", "epoch", title, tuple(curves)))
    return Plot(
        f"defences_noise-{case.dataset}-{'-'.join(case.reading.name.replace(',', '').split())}",
        panels,
        f"{case.title}, {case.reading.name} (Hu, Figures 2 to 4), from xavier, delta = {PAPER}: mean and standard "
        "error over seeds, and the success that theory gives. 4 G - 2 bounds the norm.",
        columns=len(_PANELS),
    )
