"""The pages of experiments, in every look: small runs of real sections, and what only long runs have."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from plumbline.figures.defences.canaries import canaries_section
from plumbline.figures.defences.study import STUDY as DEFENCES
from plumbline.figures.hu.experiments import HU_EXPERIMENTS, run_experiment
from plumbline.figures.hu.page import write_hu
from plumbline.figures.page.elements import HeatMap, PageTable
from plumbline.figures.page.section import Section
from plumbline.figures.page.writing import write_study
from plumbline.figures.study import StudyRun
from plumbline.simulation.records import Records
from plumbline.sweep import SweepOptions
from tests.harness.pages import LOOKS, Look, problems_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

SETTINGS = {"seed": 0, "quick": True, "made": "2026-01-01 12:00", "versions": {"numpy": "2", "torch": "2"}}
ADVICE = PageTable(
    "Held: at most half of the federation's part remains.",
    ("against", "on", "without a defence", "use", "what is left", "what it costs", "these hold as well"),
    [
        ("reconstruction by who knows nothing beforehand", "satellite, d = 18", "0.60", "class_label", "0.1", "", ""),
        (
            "",
            "breast_cancer, d = 15",
            "0.57 (0.43–0.70)",
            "score_noise (sigma=0.01)",
            "0.2",
            "KL of 0.2",
            "purification",
        ),
    ],
)
LEVELS = ("nothing", "marginals", "covariance", "records")
MAP = HeatMap(
    "satellite, d = 18: the federation's part that remains",
    "1 - e / e0, with its 95 % interval over splits. " * 3,
    (
        "defence",
        *(f"{level}, {optimiser} (without scores 0.0828)" for level in LEVELS for optimiser in ("adam", "lbfgs")),
    ),
    tuple((f"feature_transform (kind={row}, at=training)", *["0.60 (0.39–0.81)"] * 7, "–") for row in range(12)),
    tuple((*[row / 11] * 7, None) for row in range(12)),
)


def wide_section() -> Section:
    """As many columns as the summary of dp_noise has."""
    names = ["dataset", "reading", "calibration", "delta", "initialisation", "first product step", "first wrong step"]
    text = pd.DataFrame([["credit", "standardised, intercept", "exact, projected", "1/(10 n)", "xavier"]] * 50)
    numbers = pd.DataFrame(np.full((50, 14), 0.99881) ** np.arange(1, 51)[:, None] ** 3)
    data = pd.concat([text, numbers], axis=1)
    data.columns = pd.Index([*names, *(f"success of {number}" for number in range(12))])
    return Section("wide", "As many columns as noise has", data, data, (), ("A note, " * 200,), ADVICE, (MAP,))


def hu_page(folder: Path) -> Path:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(120, 12))
    records = Records(values, (values @ generator.normal(size=12) > 0).astype(np.int64), None)
    runs = [
        run_experiment(name, replace(experiment, most_copies=None), records, seeds=2, epochs=3, batch_size=16)
        for name, experiment in HU_EXPERIMENTS.items()
    ]
    results = pd.concat([results for results, _ in runs], ignore_index=True)
    return write_hu(folder, results, [fact for _, facts in runs for fact in facts])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("figures")
    sections = {"canaries": canaries_section(StudyRun(SweepOptions(), quick=True)), "wide": wide_section()}
    return {"hu": hu_page(folder), "defences": write_study(folder, DEFENCES, sections, SETTINGS)}


@pytest.mark.parametrize("name", ["hu", "defences"])
@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_nothing_is_wrong_with_a_page(browser: "Browser", pages: dict[str, Path], name: str, look: Look) -> None:
    problems = problems_of(browser, pages[name], look)
    assert not problems, "\n".join(problems[:20])
