"""Sets of columns in words: what one changes, which is chosen, and where a simulation isn't what a federation gave."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from plumbline.judge.column_sets import (
    Change,
    ColumnPart,
    WhatIf,
    change_words,
    differs,
    least_leaking,
    row_of,
    sentences,
)
from services.common.run_files import parsed
from tests.harness.column_sets import CLOSED, FOUND, WHOLE, WITHOUT, columns


def test_a_change_is_said_as_a_person_compares_it() -> None:
    assert change_words(WHOLE, WITHOUT) == ("without employed: part 65 % (employed) -> 12 % (rate), AUC .792 -> .781")
    both = columns(0.7, "age", Change("passive", "employed", "bins4"), rate=None)
    assert row_of(both) == ("without age; employed as bins4", "not measured", "0 of 1", "0.7000")


def test_a_step_of_the_frontier_says_what_it_adds() -> None:
    (title, rows), (_, without), (_, coarser) = FOUND.groups
    assert title == "One column after another left out"
    assert [row[0] for row in rows] == ["all columns", "without employed", "and without rate"]
    assert without == [row_of(WITHOUT)]
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
        "without employed, rate: part 65 % (employed) -> 0 % (age), AUC .792 -> .750: nothing leaks a tenth or more.",
        "A federation without employed, rate was run: part 4 % (age), AUC .744, but the simulation differs: age 0 % in "
        "place of 4 %, AUC .750 in place of .744.",
    ]
    off = sentences(replace(FOUND, run=replace(WHOLE, auc=0.8)))
    assert off[0].startswith("The simulation of all columns isn't the audit: AUC .792 in place of .800.")
    safe = columns(0.7, age=0.0)
    assert sentences(WhatIf(safe, safe)) == [
        "No column of the audited federation leaks a tenth or more: none has to be left out."
    ]


def test_what_is_written_is_read_again() -> None:
    assert parsed(WhatIf, json.loads(json.dumps(asdict(FOUND))), Path("whatif.json")) == FOUND
