"""The answer at a glance: a sentence of twenty words at most, and cells that never say less of more sessions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.judge.answer import PartyAnswer
from plumbline.judge.findings import read_findings
from plumbline.judge.glance import _capped, _persons, _sentence, glance_at
from plumbline.judge.measures import Interval
from plumbline.judge.persons import PersonFindings
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.record_risks import PersonRisk, RiskShare
from plumbline.telling.document import NOT_MEASURED, Cell, Glance, Light
from services.common.run_folder import RunFolder
from services.common.session_limit import AskedParty, SessionLimit
from tests.harness.judged_runs import NAMES, Feature, add_attempts_on_ciphertexts, outcome, typed, write_run

RNG = np.random.default_rng(5)
PASSIVE = typed([Feature(RNG.random(100), name, scale=100) for name in ("age", "income")])
TRUTH = PASSIVE.features
MEAN = np.broadcast_to(TRUTH.mean(axis=0), TRUTH.shape)
LIMIT = SessionLimit(share=0.5, parties=(AskedParty("passive", 14, 7, 7),), records=200)
GREY = Cell("grey", "not shown")
SEVERAL = "many_sessions(prior=mean)"
ALL = replace(outcome(SEVERAL, level="marginals"), sessions=7)


def glance(path: Path, removed: dict[str, float], outcomes: Sequence[object], limit: SessionLimit | None) -> Glance:
    """Judge a run in which each attack removes so much of the first column's deviation, and nothing of the second's."""
    estimates = {name: TRUTH + np.array([1 - share, 1.0]) * (MEAN - TRUTH) for name, share in removed.items()}
    run: RunFolder = write_run(path, {"passive": PASSIVE}, outcomes, estimates=estimates)  # type: ignore[arg-type]
    if limit is not None:
        run.write_session_limit(limit)
    found = read_findings(add_attempts_on_ciphertexts(run), ("passive",), "run", titles=NAMES)
    written = found.as_dict()["glance"]
    assert (written["sentence"], written["joining"]) == (found.glance.sentence, found.glance.joining)
    return found.glance


def cells(seen: Glance, row: str) -> tuple[Cell, ...]:
    return dict(seen.rows)[row]


def test_one_session_of_a_party_that_keeps_its_parameters_is_one_cell_beside_one_that_was_not_measured(
    tmp_path: Path,
) -> None:
    seen = glance(tmp_path, {"ls": 0.6}, [outcome("ls")], None)
    assert seen.sessions == (1,)
    assert cells(seen, "columns") == (Cell("red", "1 of 2"), NOT_MEASURED)
    assert seen.sentence.startswith("1 of 2 columns leaks much; ")
    columns, labels, persons = seen.learns
    assert (columns, labels) == ("how many bank learns of fintech", "how many fintech learns of bank")
    assert "bank learns half or more" in persons
    disclosed = "where it discloses them: columns, labels, persons"
    assert seen.unmeasured == f"Not measured where a party keeps its parameters: labels; {disclosed}."


def test_what_further_sessions_tell_is_counted_beside_one(tmp_path: Path) -> None:
    outcomes = [replace(outcome("ls"), sees_parameters=False), replace(ALL, sees_parameters=True)]
    seen = glance(tmp_path, {"ls": 0.1, SEVERAL: 0.6}, outcomes, LIMIT)
    assert (seen.parameters, seen.sessions) == (("keeps its parameters", "discloses them"), (1, 7))
    kept, more_kept, disclosed, more = cells(seen, "columns")
    assert (kept, disclosed, more) == (Cell("amber", "1 of 2"), Cell("amber", "1 of 2"), Cell("red", "1 of 2"))
    assert more_kept == Cell("amber", "1 of 2 or more")
    assert seen.sentence.startswith("After 7 sessions, 1 of 2 columns leaks much; ")


def test_what_was_not_tried_after_more_sessions_is_not_called_safe(tmp_path: Path) -> None:
    seen = glance(tmp_path, {"ls": 0.0}, [outcome("ls")], LIMIT)
    one, more, *_ = cells(seen, "columns")
    assert one.light in ("green", "grey")
    assert more == NOT_MEASURED
    assert cells(seen, "persons")[1] == NOT_MEASURED


def test_nothing_that_ran_is_not_measured_everywhere() -> None:
    seen = glance_at(PredictionFindings(records=0), (), (), (), PersonFindings())
    assert {cell for _, row in seen.rows for cell in row} == {NOT_MEASURED}
    assert seen.sentence == "Not measured: columns, labels and persons."


@pytest.mark.parametrize(
    ("cell", "besides", "capped"),
    [
        (Cell("green", "0 of 9"), "grey", Cell("grey", "not shown")),
        (Cell("green", "0 of 9"), "red", Cell("red", "told in training")),
        (Cell("green", "0 of 9"), "green", Cell("green", "0 of 9")),
        (Cell("amber", "2 of 9"), "red", Cell("red", "told in training")),
        (Cell("red", "9 of 9"), "amber", Cell("red", "9 of 9")),
        (Cell("amber", "2 of 9"), "grey", Cell("amber", "2 of 9")),
        (NOT_MEASURED, "grey", NOT_MEASURED),
        (NOT_MEASURED, "red", Cell("red", "told in training")),
    ],
)
def test_no_cell_is_greener_than_its_party(cell: Cell, besides: Light, capped: Cell) -> None:
    """A network's columns are told in training, where predictions tell none."""
    assert _capped(cell, [PartyAnswer("passive", "grey", "", besides=besides)]) == capped


@pytest.mark.parametrize(
    ("share", "control", "cell"),
    [
        ((0.6, 0.5, 0.7), (0.1, 0.0, 0.2), Cell("red", "60 % of them")),
        ((0.3, 0.2, 0.4), (0.1, 0.0, 0.15), Cell("amber", "30 % of them")),
        ((0.3, 0.2, 0.4), (0.2, 0.1, 0.3), Cell("grey", "not shown")),
        ((0.3, 0.2, 0.4), None, Cell("grey", "not shown")),
        ((0.0, 0.0, 0.03), (0.0, 0.0, 0.03), Cell("green", "0 % of them")),
    ],
)
def test_persons_count_where_they_are_told_beyond_the_control(
    share: tuple[float, ...], control: tuple[float, ...] | None, cell: Cell
) -> None:
    shares = RiskShare(0.5, Interval(*share), None if control is None else Interval(*control))
    assert _persons([PersonRisk("passive", 100, 80, (shares,))]) == cell


@given(
    red=st.integers(0, 2000),
    amber=st.integers(0, 2000),
    others=st.integers(1, 2000),
    light=st.sampled_from(["green", "grey"]),
    besides=st.sampled_from(["red", "amber", "green", "grey"]),
    labels=st.sampled_from([Cell("red", "76 %"), Cell("amber", "5 %"), Cell("green", "0 %"), GREY, NOT_MEASURED]),
    persons=st.sampled_from(
        [Cell("red", "60 % of them"), Cell("amber", "24 % of them"), Cell("green", "0 % of them"), GREY, NOT_MEASURED]
    ),
    sessions=st.integers(1, 10_000),
)
def test_the_sentence_has_twenty_words_at_most_and_names_all_that_can_leak(
    red: int, amber: int, others: int, light: str, besides: Light, labels: Cell, persons: Cell, sessions: int
) -> None:
    judged = SimpleNamespace(level="marginals", attack="ls")
    lights = [*["red"] * red, *["amber"] * amber, *[light] * others]
    columns = [SimpleNamespace(light=one, levels=[judged], headline="marginals") for one in lights]
    sentence = _sentence(columns, sessions, labels, persons, besides)  # type: ignore[arg-type]
    assert len(sentence.split()) <= 20
    assert all(word in sentence.lower() for word in ("column", "labels", "persons"))
    if red and besides != "red":
        assert sentence.index(" column") < min(sentence.lower().index("labels"), sentence.index("persons"))
    if persons.light == "red" and not red and labels.light != "red" and besides != "red":
        assert "60 % of persons leak much;" in sentence.partition(", ")[2 if sessions > 1 else 0]
