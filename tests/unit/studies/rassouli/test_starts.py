"""Figure 14 run in quick form on synthetic data."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from studies.measurements import Choice, SweepOptions
from studies.rassouli.starts import _QUICK, STARTS, starts_section
from studies.study import StudyRun


@pytest.mark.thorough
def test_searches_are_compared_by_their_start_and_ours_stands_beside() -> None:
    run = StudyRun(SweepOptions(workers=1), attacks=(Choice.of("half"),))
    section = starts_section(run, replace(_QUICK, datasets=("synthetic",)))
    searches = section.data[section.data["attack"].str.startswith("gia(")]
    assert set(searches["start_at"]) == set(STARTS)
    # A guess that a user brings is called as a start is, and is none.
    assert set(section.data.loc[section.data["attack"] == "half", "start_at"]) == {"attack half"}
    means = searches[searches["d"] >= searches["k"]].groupby("start_at")["mse"].mean()
    # Synthetic columns lie about 1/2.
    assert means["half"] < means["random"] < means["zero"]
    assert section.summary.iloc[0]["half"] == pytest.approx(means["half"], abs=1e-4)
    verdicts = {(one.source, one.subject): one.verdict for one in section.statements}
    assert verdicts["Section VIII-E", "synthetic"] == "reproduced"
    labels = {curve.label for curve in section.plots[0].panels[0].curves if curve.ours}
    assert "posterior, knows records" in labels
    assert "guess, knows records" in labels
