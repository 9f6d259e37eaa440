"""The section "rotation", run in quick form: what must hold whatever the data, and that it repeats bit for bit."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("torch")

from plumbline.figures.defences.rotation import rotation_section
from plumbline.figures.defences.rotation_page import (
    AS_DISCLOSED,
    CLAMPED,
    HALF,
    NAIVE,
    PREDICTED,
    REPEATS,
    RESCALES,
    SECRETS,
)
from plumbline.figures.page.section import Section
from plumbline.figures.study import StudyRun
from plumbline.simulation.informed import WITH_RECORDS
from plumbline.sweep import SweepOptions


@pytest.fixture(scope="module")
def section() -> Section:
    return rotation_section(StudyRun(SweepOptions(), quick=True))


def errors(section: Section, experiment: str, **where: object) -> pd.DataFrame:
    """By situation; adversaries as columns."""
    chosen = section.data[section.data["experiment"] == experiment]
    for column, value in where.items():
        chosen = chosen[chosen[column] == value]
    assert len(chosen)
    keys = ["dataset", "d", "case", "epsilon"]
    table: pd.DataFrame = chosen.pivot_table(index=keys, columns="adversary", values="mse", sort=False)
    return table


def test_every_case_is_there_and_meets_its_epsilon(section: Section) -> None:
    distorted = section.data[section.data["experiment"] != "secret"]
    assert set(distorted["case"]) == {"i", "ii", "iii", "iv"}
    reached, asked = distorted["reached"].to_numpy(), distorted["epsilon"].to_numpy()
    met = np.abs(reached - asked) < 1e-9
    assert met[asked <= 0.3].all()  # below every cap
    assert (reached <= asked + 1e-9).all()


def test_predictions_hold_for_held_out_records_about(section: Section) -> None:
    """25 held-out records; the closed forms are those of hundreds of training records."""
    table = errors(section, "trade-off")
    measured = table[NAIVE].to_numpy(np.float64)
    predicted = table[PREDICTED].to_numpy(np.float64)
    assert 0.7 < float(np.median(measured / predicted)) < 1.3
    assert (table[CLAMPED].to_numpy(np.float64) <= measured + 1e-12).all()


def test_two_classes_lose_more_to_free_parameters_than_to_rotations(section: Section) -> None:
    free, rotated = (
        errors(section, "trade-off", classes=2, case=case).droplevel("case")[PREDICTED] for case in ("iv", "i")
    )
    common = free.index.intersection(rotated.index)
    assert len(common) >= 3
    assert (free[common] >= rotated[common] - 1e-12).all()


def test_without_distortion_half_star_is_better_than_one_half(section: Section) -> None:
    plain = errors(section, "width", epsilon=0.0)
    assert plain[NAIVE].mean() < plain[HALF].mean()
    assert (errors(section, "width", epsilon=0.1)[PREDICTED].to_numpy() >= plain[PREDICTED].to_numpy() - 1e-9).all()


def test_complete_records_tell_what_was_hidden(section: Section) -> None:
    """Whatever epsilon was: the regression doesn't look at what was disclosed."""
    table = errors(section, "trade-off")
    table = table[table.index.get_level_values("case") != "i"]
    spread = table[[WITH_RECORDS]].groupby(level=["dataset", "d"]).agg(np.ptp)
    assert float(spread.max().iloc[0]) < 1e-9
    assert float(table[WITH_RECORDS].mean()) < float(table[NAIVE].mean())


def test_secrets_do_not_stop_who_knows_the_range_of_the_feature(section: Section) -> None:
    data = section.data[section.data["experiment"] == "secret"]
    means = data.groupby(["secret", "adversary"])["mse"].mean()
    assert means["none", REPEATS] < 1e-12
    assert means["epsilon", REPEATS] > 1e-4
    rescaled = [float(means[secret, RESCALES]) for secret in SECRETS]
    assert np.ptp(rescaled) < 1e-9
    assert rescaled[0] < float(means["none", AS_DISCLOSED])


def test_notes_name_the_substitutes_and_plots_are_drawn(section: Section) -> None:
    assert [note.split(" takes the place of ")[0] for note in section.notes[:2]] == ["digits", "breast_cancer"]
    assert [plot.name for plot in section.plots] == ["two-classes", "one-feature", "rotations", "two-features", "width"]
    assert all("<svg" in plot.svg and plot.caption for plot in section.plots)
    assert len(section.summary)


def test_the_same_arguments_give_the_same_section(section: Section) -> None:
    again = rotation_section(StudyRun(SweepOptions(), quick=True))
    pd.testing.assert_frame_equal(again.data, section.data, check_exact=True)
    assert again.plots == section.plots
    assert again.notes == section.notes
