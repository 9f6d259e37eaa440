"""The section "schemes", run in quick form on synthetic data: what must hold whatever the data."""

import pandas as pd
import pytest

pytest.importorskip("torch")

from studies.measurements import Choice, SweepOptions
from studies.page.section import Section
from studies.rassouli.schemes import CURVES, schemes_section
from studies.study import StudyRun


@pytest.fixture(scope="module")
def section() -> Section:
    rounding = Choice.of("score_rounding", decimals=1)
    return schemes_section(StudyRun(SweepOptions(workers=1), quick=True, defences=(rounding,)))


def test_schemes_keep_decisions_and_hurt_only_the_unaware(section: Section) -> None:
    schemes = section.data[section.data["strength"].notna()]
    assert (schemes["decisions_kept"] == 1).all()
    assert set(schemes["defence"]) == {curve.title for curve in CURVES}
    assert set(schemes["trainer"]) == {"adam", "lbfgs"}
    for _, part in section.data[section.data["trainer"] == "adam"].groupby(["d", "seed", "start"]):
        own = part.set_index(["defence", "strength", "adversary"])["attack_error"]
        none, guess = own["none"].iloc[0], own["guess"].iloc[0]
        for name, strength in (("scheme 1, +v", 64.0), ("scheme 1, -v", 64.0), ("scheme 3", 0.9)):
            assert own[name, strength, "unaware"] > none
            assert own[name, strength, "aware"] == pytest.approx(none, abs=1e-6)
        for name in ("scheme 2, +v", "scheme 2, -v"):
            assert none - 1e-9 <= own[name, 4.0, "aware"]
        assert none - 1e-9 <= own["class label", 1e-3, "aware"] <= guess


def test_scheme_1_stays_below_theorem_4(section: Section) -> None:
    limited = section.data[section.data["theorem_4"].notna()]
    assert len(limited)
    assert (limited["attack_error_unclamped"] <= limited["theorem_4"] * (1 + 1e-9)).all()


def test_a_plugin_stands_beside_the_schemes(section: Section) -> None:
    own = section.data[section.data["defence"] == "score_rounding(decimals=1)"]
    bare = section.data[section.data["defence"] == "none"]
    assert len(own) == len(bare)
    keys = ["trainer", "seed", "d", "start"]
    both = own.set_index(keys)["attack_error"] - bare.set_index(keys)["attack_error"]
    assert both.notna().all()
    labels = {curve.label for panel in section.plots[0].panels for curve in panel.curves}
    assert "score_rounding(decimals=1)" in labels


def test_the_section_has_its_drawings_and_verdicts(section: Section) -> None:
    assert [plot.name for plot in section.plots] == ["schemes-unaware", "schemes-aware", "schemes-alpha"]
    assert any(note.startswith("satellite is skipped") for note in section.notes)
    verdicts = {statement.paper: statement.verdict for statement in section.statements}
    assert (
        verdicts[
            "Schemes 1 to 3 and the class label preserve the model's accuracy: scheme 2 with a lead that eq. 94 lacks."
        ]
        == "reproduced"
    )
    assert isinstance(section.summary, pd.DataFrame)
    assert {"error, unaware", "error, aware", "kl"} <= set(section.summary)
