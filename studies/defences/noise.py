"""``dp_noise`` at work: Hu, Figures 2 to 4, with every calibration of sigma and what theory predicts of each.

SIMULATION, as in ``hu.trainings``: training runs in one place in float64, and the label attack is given f + Z^A as
its equations determine it. The noise is seeded.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from plumbline.simulation.records import Reading, Records
from plumbline.simulation.rounds import told
from studies.defences.noise_page import noise_notes, noise_plot, summary_of_noise
from studies.defences.noise_trainings import NoiseCase, run_case
from studies.page.section import Section
from studies.study import StudyRun
from vfl.data import DatasetNotFound, encode_labels, load_dataset

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
