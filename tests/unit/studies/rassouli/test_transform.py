"""The section "transform", run in quick form: what must hold whatever the data, and that it repeats bit for bit."""

from io import BytesIO

import numpy as np
import pandas as pd
import pytest

from studies.measurements import Choice, SweepOptions
from studies.page.section import Section
from studies.rassouli.transform import ATTACKS, DEFENCES, HALF, NONE, transform_section
from studies.simulation.informed import CAUTIOUS, KNOWING, WITH_RECORDS
from studies.study import StudyRun


@pytest.fixture(scope="module")
def section() -> Section:
    return transform_section(StudyRun(SweepOptions(workers=1), quick=True))


def errors(section: Section) -> pd.DataFrame:
    """By data set and d; defence and adversary as columns."""
    table: pd.DataFrame = section.data.pivot_table(
        index=["dataset", "d"], columns=["defence", "adversary"], values="mse", sort=False
    )
    return table


def test_every_attack_meets_every_defence(section: Section) -> None:
    naive = section.data[section.data["adversary"].isin((*ATTACKS, CAUTIOUS, HALF))]
    assert set(naive["defence"]) == {NONE, *DEFENCES}
    assert (naive.groupby(["dataset", "d", "start", "defence"]).size() == len(ATTACKS) + 2).all()
    assert np.isfinite(section.data[["mse", "kl", "bound"]].to_numpy()).all()


def test_scores_are_kept_at_disclosure_and_to_the_optimiser_after_retraining(section: Section) -> None:
    largest = section.data.groupby("defence")["kl"].max()
    assert largest["random, disclosed"] == largest["H*, disclosed"] == largest[NONE]
    assert largest[NONE] < 1e-15
    assert largest["random, retrained"] < 1e-9
    assert largest["-I, retrained"] < 1e-9


def test_ls_errs_as_theorem_3_says(section: Section) -> None:
    """H* is found on the training records, the greatest error is of those attacked."""
    ls = section.data[section.data["adversary"] == "ls"]
    for name in ("random, disclosed", "H*, disclosed"):
        own = ls[ls["defence"] == name]
        ratio = own["mse"].to_numpy() / own["bound"].to_numpy()
        assert ratio.max() <= 1 + 1e-9
        if name.startswith("H*"):
            assert ratio.min() > 0.98


def test_negation_adds_what_the_paper_says(section: Section) -> None:
    table = section.data.pivot_table(index=["d", "start"], columns=["defence", "adversary"], values="mse")
    gain = section.data.groupby(["d", "start"])["gain"].first()
    for attack in ("ls", "half_star"):
        added = table["-I, retrained", attack] - table[NONE, attack]
        np.testing.assert_allclose(added, gain, rtol=1e-4)


def test_who_guesses_the_negation_or_has_records_is_back_where_it_was(section: Section) -> None:
    table = errors(section)
    bare = table[NONE, "half_star"].to_numpy(np.float64)
    assert (table["-I, retrained", KNOWING].to_numpy() < bare + 1e-6).all()
    for name in DEFENCES:
        assert (table[name, WITH_RECORDS].to_numpy() < bare + 0.05).all()


def test_who_sees_that_nothing_fits_does_better_to_say_one_half(section: Section) -> None:
    table = errors(section)
    cautious, rcc2, ls, half = (float(table["H*, disclosed", name].mean()) for name in (CAUTIOUS, "rcc2", "ls", HALF))
    assert cautious < rcc2
    assert ls > 2 * half


def test_notes_name_what_is_skipped_and_plots_are_drawn(section: Section) -> None:
    assert section.notes[0].startswith("bank is skipped")
    assert [plot.name for plot in section.plots] == ["mse-synthetic", "kl"]
    assert all(plot.panels and plot.caption for plot in section.plots)
    assert set(section.summary["defence"]) == {NONE, *DEFENCES}
    assert {one.verdict for one in section.statements if one.subject == "every window"} == {"reproduced"}


def test_the_same_arguments_give_the_same_section(section: Section) -> None:
    again = transform_section(StudyRun(SweepOptions(workers=1), quick=True))
    pd.testing.assert_frame_equal(again.data, section.data, check_exact=True)
    assert again.plots == section.plots
    assert again.notes == section.notes


def test_a_plugin_of_parameters_stands_beside_and_others_do_not() -> None:
    chosen = (Choice.of("feature_transform", at="training", kind="permutation"), Choice.of("score_rounding"))
    section = transform_section(StudyRun(SweepOptions(workers=1), quick=True, defences=chosen))
    assert set(section.data["defence"]) == {NONE, *DEFENCES, chosen[0].words}
    assert section.data.loc[section.data["defence"] == chosen[0].words, "kl"].max() < 1e-9
    section.data.to_parquet(BytesIO())
