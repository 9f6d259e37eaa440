"""Sets of columns in words: what one changes, which is chosen, and where a simulation isn't what a federation gave."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from plumbline.judge.column_sets import (
    LABELS,
    Change,
    ColumnPart,
    ColumnSet,
    WhatIf,
    change_words,
    differs,
    least_leaking,
    proposals,
    row_of,
    sentences,
)
from services.common.run_files import parsed
from tests.harness.column_sets import CLOSED, COARSER, FOUND, WHOLE, WITHOUT, columns


def test_a_change_is_said_as_a_person_compares_it() -> None:
    assert change_words(WHOLE, WITHOUT) == ("without employed: part 65 % (employed) -> 12 % (rate), AUC .792 -> .781")
    both = columns(0.7, "age", Change("passive", "employed", "bins4"), rate=None)
    assert row_of(both) == ("without age; employed as bins4", "not measured", "0 of 1", "0.7000")


def test_a_step_of_the_frontier_says_what_it_adds() -> None:
    (title, rows), (_, without), (_, coarser) = FOUND.groups
    assert title == "One column after another left out"
    assert [row[0] for row in rows] == ["all columns", "without employed", "and without rate"]
    assert without == [("without employed", "12 % (rate) ± 0", "1 of 2", "0.7812")]
    assert coarser[0][0] == "employed as bins2"


def test_the_best_set_of_which_nothing_leaks_is_chosen() -> None:
    assert FOUND.chosen == CLOSED
    better = columns(0.76, Change("passive", "employed", "bins2"), employed=0.05, rate=0.05, age=0.0)
    assert replace(FOUND, coarser=(better,)).chosen == better
    # Where each leaks, the one that leaks least; where all do as much, none.
    assert replace(FOUND, frontier=(), coarser=()).chosen == WITHOUT
    assert WhatIf(WHOLE, WHOLE).chosen is None
    assert replace(FOUND, asked=(WITHOUT,)).chosen is None
    near = replace(WITHOUT, columns=(ColumnPart("passive", "rate", 0.13, True),), auc=0.79)
    assert least_leaking([WITHOUT, near]) == near


def test_what_a_federation_gave_is_held_against_its_simulation() -> None:
    ran = columns(0.744, "employed", "rate", age=0.04)
    assert differs(CLOSED, columns(0.7549, "employed", "rate", age=0.03)) == ""
    assert differs(CLOSED, ran) == "age 0 % in place of 4 %, AUC .750 in place of .744"
    told = sentences(replace(FOUND, confirmed=(ran,)))
    assert told == [
        "Replayed on the audit's own columns, the simulation is off by 0 points at most.",
        "without employed, rate: part 65 % (employed) -> 4 % (age), AUC .792 -> .744: nothing is shown to leak a tenth "
        "or more.",
        "A federation without employed, rate was run: part 4 % (age), AUC .744, but the simulation differs: age 0 % in "
        "place of 4 %, AUC .750 in place of .744.",
    ]
    off = sentences(replace(FOUND, run=replace(WHOLE, auc=0.8)))
    assert off[0] == "Replayed on the audit's own columns, the simulation is off: AUC .792 in place of .800."
    assert off[1].startswith("Not proposed before a federation of it has been run, since the replay was off: without")
    assert sentences(replace(FOUND, run=replace(WHOLE, auc=0.8), confirmed=(ran,)))[1].startswith("without employed")
    safe = columns(0.7, age=0.0)
    assert sentences(WhatIf(safe, safe))[1:] == [
        "No column of the audited federation is shown to leak a tenth or more: none has to be left out."
    ]


def test_what_the_replay_was_off_by_stands_beside_each_set_of_the_columns_that_it_has() -> None:
    audited = columns(0.7921, employed=0.654, rate=0.12, age=0.06)
    found = replace(FOUND, run=audited)
    assert found.off(WHOLE) == pytest.approx(0.05)
    assert found.row(WITHOUT)[1] == "12 % (rate) ± 5"
    only = columns(0.7, "rate", "age", employed=0.6)
    assert found.row(only)[1] == "60 % (employed) ± 0"
    assert (found.is_trusted(only), found.is_trusted(WITHOUT)) == (True, False)
    # What an audit didn't measure was replayed by nothing.
    unmeasured = replace(FOUND, run=columns(0.7921, employed=None, rate=None, age=None))
    assert (unmeasured.off(WHOLE), unmeasured.is_trusted(WHOLE)) == (None, False)
    assert unmeasured.row(WITHOUT) == row_of(WITHOUT)
    assert "could not be held against the audit" in sentences(unmeasured)[0]


def test_coarser_columns_that_tell_more_are_not_proposed_and_said_why() -> None:
    """All columns as bins2 told more columns than as they were, and were proposed for their smaller largest part."""
    bins = [Change("passive", name, "bins2") for name in ("employed", "rate")]
    others = columns(0.78, *bins, employed=0.3, rate=0.05, age=0.42)
    found = WhatIf(WHOLE, WHOLE, coarser=(others,))
    assert found.chosen is None
    assert proposals(found) == [
        "No column that can be left out or coarser makes it leak less.",
        "Coarser columns aren't proposed as bins2: as bins2 they tell more of 1 column, such as age (1 % -> 42 %). "
        "The model weighs all columns anew, and who knows that some take few values is left with fewer that fit.",
    ]
    itself = columns(0.78, bins[1], employed=0.654, rate=0.3, age=0.01)
    _, told = proposals(WhatIf(WHOLE, WHOLE, coarser=(itself,)))
    assert "such as rate (12 % -> 30 %)." in told
    # Within what the replay was off by nothing is told more; and one that tells less stays a proposal.
    near = WhatIf(replace(WHOLE, columns=(*WHOLE.columns[:2], ColumnPart("passive", "age", 0.5, True))), WHOLE)
    assert replace(near, coarser=(others,)).raised(others) == ()
    assert WhatIf(WHOLE, WHOLE, coarser=(COARSER,)).chosen == COARSER
    assert "tell more" in sentences(WhatIf(WHOLE, WHOLE, asked=(others,)))[-1]


def with_labels(auc: float, setting: str, labels: float | None, **parts: float) -> ColumnSet:
    of_labels = ColumnPart("", LABELS, labels, (labels or 0) >= 0.1)
    changes = [Change("", *setting.split("="))] if setting else []
    of_columns = columns(auc, *changes, **parts)
    return replace(of_columns, columns=(*of_columns.columns, of_labels))


def test_labels_and_settings_stand_beside_columns() -> None:
    whole = with_labels(0.79, "", 0.8, employed=0.6, rate=0.12)
    own, flipped = (
        with_labels(0.78, "own_trees=30", 0.3, employed=0.6),
        with_labels(0.7, "flipped=defence", 0.3, rate=0.6),
    )
    assert row_of(own) == ("with own_trees=30", "60 % (employed), 30 % (labels)", "2 of 2", "0.7800")
    found = WhatIf(whole, whole, settings=(own, flipped))
    assert found.groups == (("Other settings", [found.row(own), found.row(flipped)]),)
    # Columns leak as much as before: what is left of labels decides, and then the AUC.
    assert found.chosen == own
    assert proposals(found) == [
        "with own_trees=30: part 60 % (employed), 80 % (labels) -> 60 % (employed), 30 % (labels), AUC .790 -> .780: "
        "60 % (employed), 30 % (labels) still leaks."
    ]
    # What attacks say nothing of is no remedy.
    assert replace(found, settings=(replace(own, is_measured=False), flipped)).chosen == flipped
    assert proposals(replace(found, settings=(whole,))) == [
        "No column that can be left out or coarser, and no other setting, makes it leak less."
    ]


def test_what_is_written_is_read_again() -> None:
    assert parsed(WhatIf, json.loads(json.dumps(asdict(FOUND))), Path("whatif.json")) == FOUND
