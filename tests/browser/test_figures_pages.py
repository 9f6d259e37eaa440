"""The pages of experiments, in every look: small runs of real sections, and what only long runs have."""

from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
import pandas as pd
import pytest

from studies.catalogue import STUDIES, load_study
from studies.claims.statement import Statement, Verdict
from studies.defences.canaries import canaries_section
from studies.defences.study import STUDY as DEFENCES
from studies.figures.index_page import write_index
from studies.hu.approximations import approximations
from studies.hu.epochs import credit, mnist01
from studies.hu.study import STUDY as HU
from studies.hu.wire import wire
from studies.measurements import SweepOptions
from studies.page.elements import HeatMap, PageTable
from studies.page.plots import Curve, Panel, Plot
from studies.page.section import Section
from studies.page.writing import write_study
from studies.study import Study, StudyRun
from tests.harness.hu_run import MadeUpHu
from tests.harness.pages import LOOKS, Look, problems_of, visited

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


def long_section() -> Section:
    """Panels of a dozen curves with every kind of axes, and statements of every verdict."""
    generator = np.random.default_rng(0)
    at = tuple((np.arange(1, 36) / 6).tolist())

    def curve(label: str, *, ours: bool = False) -> Curve:
        y = generator.gamma(2, 0.05, 35)
        return Curve(label, at, tuple(y), tuple(0.9 * y), tuple(1.1 * y), ours)

    published = ["ls", "clamped_ls", "half", "half_star", "cls", "rcc1", "rcc2", "gia(init=half, distance=kld)"]
    own = [f"posterior(prior={prior})" for prior in ("half", "mean", "covariance", "imputation")]
    panels = [
        Panel(
            f"satellite, split {number}",
            "passive features d by classes k",
            "MSE per feature",
            (*map(curve, published), *(curve(one, ours=True) for one in own)),
            ((1.0, "d = k"), (5.5, "d = 33, and more words")),
            log_y=number % 3 == 0,
            log_x=number % 5 == 0,
            most_y=0.2 if number % 3 == 1 else None,
        )
        for number in range(7)
    ]
    statements = tuple(
        Statement(f"Figure {n}, Remark 8", "satellite, bank", "It errs less everywhere. " * (1 + n % 3), verdict, "0.5")
        for n, verdict in enumerate(get_args(Verdict) * 5)
    )
    statements += (Statement("Remark 9", "drive", "So it does.", "differs", "0.1 (0.05 to 0.2)", "A sample. " * 20),)
    data = pd.DataFrame({"attack": published, "mse": generator.random(8)})
    plots = (Plot("all", panels, "Errors of all.", columns=3), Plot("one", panels[:1], "Of one."))
    return Section(
        "long", "As many panels as a study has", data, data, plots, ("drive: skipped",), statements=statements
    )


def study_page(folder: Path) -> Path:
    """A study whose other sections have failed, or are not run."""
    cells = {"measured": 12345, "known": 7, "failed": ["gia on bank: it broke"], "not_applicable": ["cls: k = 2"]}
    settings = {**SETTINGS, "cells": cells, "command": "plumbline figures made_up --quick --with my_attack"}
    places = {name: f"nowhere:{name}" for name in ("long", "broken", "missing")}
    study = Study("made_up", "A study of nobody, with a title", "Nobody, Never, 2026", places, "It compares. " * 20)
    write_study(folder, study, {"long": long_section()}, settings)
    return write_study(folder, study, {}, settings, {"broken": "The disk is full: make room in /some/where."})


def index_page(folder: Path) -> Path:
    """The index of a study with verdicts, of one that failed, and of those that nobody ran."""
    first, *others = STUDIES
    write_study(folder / first, load_study(first), {"long": long_section()}, SETTINGS)
    write_study(folder / others[-1], load_study(others[-1]), {}, SETTINGS, {"broken": "It broke."})
    return write_index(folder)


def hu_page(folder: Path) -> Path:
    """All sections that start no federation, on data of nobody."""
    run = MadeUpHu(SweepOptions(), quick=True, options={"seeds": 2})
    sections = {
        "mnist01": mnist01(run),
        "credit": credit(run),
        "approximations": approximations(run),
        "wire": wire(run),
    }
    return write_study(folder, HU, sections, SETTINGS)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("figures")
    sections = {"canaries": canaries_section(StudyRun(SweepOptions(), quick=True)), "wide": wide_section()}
    return {
        "hu": hu_page(folder),
        "defences": write_study(folder, DEFENCES, sections, SETTINGS),
        "study": study_page(folder),
        "index": index_page(folder / "all"),
    }


@pytest.mark.parametrize("name", ["hu", "defences", "study", "index"])
@pytest.mark.parametrize(
    "look",
    [look if look in LOOKS[::4] else pytest.param(look, marks=pytest.mark.thorough) for look in LOOKS],
    ids=lambda look: look.name,
)
def test_nothing_is_wrong_with_a_page(browser: "Browser", pages: dict[str, Path], name: str, look: Look) -> None:
    problems = problems_of(browser, pages[name], look)
    assert not problems, "\n".join(problems[:20])


def test_a_count_of_verdicts_leads_to_its_statements_and_on_to_each(browser: "Browser", pages: dict[str, Path]) -> None:
    with visited(browser, pages["study"], LOOKS[0]) as visit:
        listed = visit.page.locator("#differs li")
        assert not listed.first.is_visible()
        visit.page.get_by_role("link", name="differs 6").click()
        assert listed.count() == 6
        assert listed.first.is_visible()
        listed.last.get_by_role("link").click()
        assert "So it does." in visit.page.evaluate("document.querySelector(':target').textContent")


def test_panels_stand_side_by_side_where_there_is_room(browser: "Browser", pages: dict[str, Path]) -> None:
    across = {}
    for look in LOOKS[0], LOOKS[2]:
        with visited(browser, pages["study"], look) as visit:
            boxes = [one.bounding_box() for one in visit.page.locator("figure.panels >> nth=0 >> svg.chart").all()]
            across[look.width] = len({round(box["x"]) for box in boxes if box})
    assert across == {1400: 3, 400: 1}
