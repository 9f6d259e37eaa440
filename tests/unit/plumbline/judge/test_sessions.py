"""Lights after all sessions that an owner allows, beside what one alone tells; and runs that say nothing of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plumbline.judge.answer import Answer
from plumbline.judge.findings import read_findings
from plumbline.judge.lights import light_of
from plumbline.judge.session_sentences import label_limit_sentence
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.run_folder import RunFolder
from services.common.run_records import NOT_APPLICABLE
from services.common.session_limit import AskedParty, SessionLimit
from tests.harness.judged_runs import NAMES, Feature, add_attempts_on_ciphertexts, outcome, typed, write_run

COUNT = 100
RNG = np.random.default_rng(5)
PASSIVE = typed([Feature(RNG.random(COUNT), name, scale=100) for name in ("age", "income")])
TRUTH = PASSIVE.features
MEAN = np.broadcast_to(TRUTH.mean(axis=0), TRUTH.shape)
LIMIT = SessionLimit(share=0.5, parties=(AskedParty("passive", 14, 7, 7),), records=200)
ALL = replace(outcome("many_sessions(prior=mean)", level="marginals"), sessions=7)


def judged(path: Path, limit: SessionLimit | None, *more: object) -> Answer:
    """One session removes a fifth of what is unknown of the first column, all of them three quarters."""
    estimates = {"ls": TRUTH + np.array([0.9, 1.0]) * (MEAN - TRUTH)}
    estimates["many_sessions(prior=mean)"] = TRUTH + np.array([0.4, 1.0]) * (MEAN - TRUTH)
    outcomes = [outcome("ls"), *more]
    run: RunFolder = write_run(path, {"passive": PASSIVE}, outcomes, estimates=estimates)  # type: ignore[arg-type]
    if limit is not None:
        run.write_session_limit(limit)
    return read_findings(add_attempts_on_ciphertexts(run), ("passive",), "run", titles=NAMES).answer


def test_lights_are_of_the_limit_and_one_session_stands_beside(tmp_path: Path) -> None:
    answer = judged(tmp_path, LIMIT, ALL)
    first, second = answer.columns
    assert (first.column, first.light, light_of(first.one_session)) == ("age", "red", "amber")
    assert second.light == "green"
    assert answer.sentence.startswith(
        "After 7 sessions: if fintech joins with these 2 columns, bank can reconstruct 1 of"
    )
    assert " One session alone tells 1 of them somewhat better." in answer.sentence
    assert answer.parties[1].words.startswith("After 7 sessions: 1 of its 2 columns")
    assert (
        "PLUMBLINE_MOST_FORMS=0.5 allows (7 of a record's 14 forms; a session of 2 classes takes 1" in answer.sessions
    )
    assert answer.sessions.endswith("After one session alone: 1 amber, 1 green.")


def test_what_is_left_without_parameters_is_of_one_session(tmp_path: Path) -> None:
    kept = replace(outcome("ls"), sees_parameters=False)
    estimates = {"ls": TRUTH + np.array([0.4, 1.0]) * (MEAN - TRUTH)}
    estimates["many_sessions(prior=mean)"] = TRUTH + np.array([0.2, 1.0]) * (MEAN - TRUTH)
    run = write_run(tmp_path, {"passive": PASSIVE}, [kept, replace(ALL, sees_parameters=True)], estimates=estimates)
    run.write_session_limit(LIMIT)
    found = read_findings(add_attempts_on_ciphertexts(run), ("passive",), "run", titles=NAMES)
    after_one = " After one session: if fintech keeps its parameters, bank can reconstruct 1 of them (age) "
    assert after_one in found.answer.sentence
    rows = {one.name: one.words for one in found.persons.rows}
    for name in ("risk per record of passive", "attribute inference", "property inference"):
        assert rows[name].startswith("after 7 sessions, ")


def test_one_session_is_said_where_the_limit_allows_no_more(tmp_path: Path) -> None:
    answer = judged(tmp_path, replace(LIMIT, parties=(AskedParty("passive", 2, 1, 1),)))
    assert answer.sentence.startswith("If fintech joins")
    assert answer.sessions.startswith("The lights of columns are for one session: PLUMBLINE_MOST_FORMS=")


def test_a_reason_is_told(tmp_path: Path) -> None:
    answer = judged(tmp_path, replace(LIMIT, reason="The model is installed."))
    assert answer.sessions == "The lights of columns are for one session. The model is installed."


def test_what_was_not_tried_is_never_green(tmp_path: Path) -> None:
    failed = replace(ALL, status=NOT_APPLICABLE, reason="many_sessions can't.")
    estimates = {"ls": MEAN}
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls"), failed], estimates=estimates)
    run.write_session_limit(LIMIT)
    answer = read_findings(add_attempts_on_ciphertexts(run), ("passive",), "run", titles=NAMES).answer
    assert answer.parties[1].light == "grey"
    assert "What further sessions tell was not measured" in answer.parties[1].words
    assert "was not measured" in answer.sessions


@pytest.mark.parametrize(
    ("batch_size", "words"),
    [
        (22, "0.14 to a record, PLUMBLINE_MOST_SUMS=0.25 allows no second."),
        (44, "0.07 to a record, what 3 tell, as PLUMBLINE_MOST_SUMS=0.25 allows, was not measured."),
    ],
)
def test_sessions_that_labels_allow_are_told(batch_size: int, words: str) -> None:
    parties = tuple(PartyDescription(name, 3, 0, False, 44) for name in ("active", "passive"))
    plan = TrainingPlan().changed(batch_size=batch_size, epochs=2, validation_fraction=0.0, test_fraction=0.0)
    agreement = Agreement("0" * 32, plan, 2, parties)
    told = label_limit_sentence(replace(LIMIT, label_share=0.25), agreement)
    assert told.startswith("The light of labels is for one session.")
    assert told.endswith(words)
    assert label_limit_sentence(LIMIT, agreement) == label_limit_sentence(None, agreement) == ""


def test_runs_of_before_say_nothing_of_sessions(tmp_path: Path) -> None:
    answer = judged(tmp_path, None)
    assert answer.sentence.startswith("If fintech joins")
    assert answer.sessions == ""
    assert all(one.one_session == () for one in answer.columns)
