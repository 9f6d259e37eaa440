"""Lights after all sessions that an owner allows, beside what one alone tells; and runs that say nothing of it."""

import html
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from plumbline.audit.console import print_verdict
from plumbline.judge.answer import Answer
from plumbline.judge.findings import read_findings
from plumbline.judge.lights import light_of
from plumbline.judge.session_sentences import label_limit_sentence, labels_untried
from plumbline.report.annex import RunPapers, annex_of
from plumbline.report.page import write_report
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.run_folder import RunFolder
from services.common.run_records import NOT_APPLICABLE
from services.common.session_limit import AskedParty, SessionLimit
from tests.harness.judged_runs import (
    NAMES,
    Feature,
    add_attempts_on_ciphertexts,
    add_label_attack,
    outcome,
    typed,
    write_run,
)
from tests.harness.reported import FACTS, findings_of, made_run

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
    assert " One session alone tells 1 of them, none far better." in answer.sentence
    assert answer.parties[1].words.startswith("After 7 sessions, of its 2 columns, bank can reconstruct 1 of them")
    assert (
        "PLUMBLINE_MOST_EQUATIONS=0.5 allows (7 of a record's 14 equations; a session of 2 classes takes 1"
        in answer.sessions
    )
    assert answer.sessions.endswith("over 200 records each (SIMULATED).")


def test_what_is_left_without_parameters_is_of_one_session(tmp_path: Path) -> None:
    kept = replace(outcome("ls"), sees_parameters=False)
    estimates = {"ls": TRUTH + np.array([0.4, 1.0]) * (MEAN - TRUTH)}
    estimates["many_sessions(prior=mean)"] = TRUTH + np.array([0.2, 1.0]) * (MEAN - TRUTH)
    run = write_run(tmp_path, {"passive": PASSIVE}, [kept, replace(ALL, sees_parameters=True)], estimates=estimates)
    run.write_session_limit(LIMIT)
    found = read_findings(add_attempts_on_ciphertexts(run), ("passive",), "run", titles=NAMES)
    after_one = " After one session: if fintech keeps its parameters, bank can reconstruct 1 of them far "
    assert after_one in found.answer.sentence
    rows = {one.name: one.words for one in found.persons.rows}
    for name in ("risk per record of passive", "attribute inference", "property inference"):
        assert rows[name].startswith("after 7 sessions, ")


def test_one_session_is_said_where_the_limit_allows_no_more(tmp_path: Path) -> None:
    answer = judged(tmp_path, replace(LIMIT, parties=(AskedParty("passive", 2, 1, 1),)))
    assert answer.sentence.startswith("If fintech joins")
    assert answer.sessions.startswith("The lights of columns are for one session: PLUMBLINE_MOST_EQUATIONS=")


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


LASTS = "The light of labels is for one session and for any number in the same batches, which last"
ONE = "The light of labels is for one session"
NETWORK: dict[str, object] = {"learner": "network", "learner_options": {"backward": "paillier", "hidden": 2}}


@pytest.mark.parametrize(
    ("terms", "begin", "end", "untried"),
    [
        ({"batch_size": 22}, LASTS, "0.14 sums of them to a record, PLUMBLINE_MOST_SUMS=0.25 allows no second.", ""),
        (
            {"batch_size": 44},
            LASTS,
            "0.07 sums of them to a record, what 3 tell, as PLUMBLINE_MOST_SUMS=0.25 allows, was not measured.",
            "",
        ),
        # One batch is the same in every epoch.
        ({"batch_size": 44, "batches": "reshuffled"}, LASTS, "was not measured.", ""),
        (
            {"batch_size": 22, "batches": "reshuffled", "epochs": 1},
            f"{ONE}: ",
            "allows no second, each with 0.14 sums of them to a record.",
            "",
        ),
        (
            {"rows": 440, "batch_size": 220, "batches": "reshuffled", "epochs": 1},
            f"{ONE}, and not green",
            "allows, was not measured.",
            "What 17 sessions tell of labels",
        ),
        (
            {"rows": 440, "batch_size": 440, "epochs": 2, **NETWORK},
            f"{ONE}, and not green",
            "allows, was not measured.",
            "What 8 sessions tell of labels",
        ),
        ({"batch_size": 44, **NETWORK}, f"{ONE}: ", "allows no second, each with 0.27 sums of them to a record.", ""),
    ],
)
def test_sessions_that_labels_allow_are_told(terms: dict[str, Any], begin: str, end: str, untried: str) -> None:
    agreement = trained(**terms)
    limit = replace(LIMIT, label_share=0.25)
    told = label_limit_sentence(limit, agreement)
    assert told.startswith(begin)
    assert told.endswith(end)
    assert labels_untried(limit, agreement).startswith(untried)
    assert bool(labels_untried(limit, agreement)) == bool(untried)
    assert label_limit_sentence(LIMIT, agreement) == label_limit_sentence(None, agreement) == ""
    # Where nobody says what an owner allows, any number may be.
    assert bool(labels_untried(None, agreement)) == (not begin.startswith(LASTS))


def test_what_hides_residuals_hides_less_with_every_session() -> None:
    limit, plan = replace(LIMIT, label_share=0.25), {"batch_size": 44}
    noisy = labels_untried(limit, trained(**plan), ("score_noise(sd=1)", "dp_noise(epsilon=1)"))
    assert (
        noisy == "What further sessions tell of labels was not measured: dp_noise(epsilon=1) hides less with every one."
    )
    assert labels_untried(limit, trained(**plan), ("of another package",))
    assert not labels_untried(limit, trained(**plan), ("score_noise(sd=1)",))
    assert not labels_untried(limit, trained(protocol="shared", **plan), ("dp_noise",))


def trained(*, rows: int = 44, **terms: Any) -> Agreement:
    parties = tuple(PartyDescription(name, 3, 0, False, rows) for name in ("active", "passive"))
    plan = TrainingPlan(**{"epochs": 2, **terms}, validation_fraction=0.0, test_fraction=0.0)
    return Agreement("0" * 32, plan, 2, parties)


@pytest.mark.parametrize(
    ("terms", "limit", "light"),
    [
        ({}, None, "green"),
        ({}, 0.25, "green"),
        ({"batches": "reshuffled"}, None, "grey"),
        # Two columns in six batches of one epoch: .22 sums to a record.
        ({"batches": "reshuffled"}, 0.25, "green"),
        ({"batches": "reshuffled"}, 0.5, "grey"),
        ({"learner": "network", "learner_options": {"backward": "paillier", "hidden": 1}}, 0.5, "grey"),
    ],
)
def test_labels_are_green_only_where_further_sessions_tell_no_more(
    terms: dict[str, Any], limit: float | None, light: str, tmp_path: Path
) -> None:
    run = write_run(tmp_path, {"passive": PASSIVE}, [outcome("ls")], estimates={"ls": TRUTH})
    record = run.record("active")
    assert record.agreement is not None
    plan = TrainingPlan(epochs=1, batch_size=10, **terms)
    run.write_record("active", replace(record, agreement=replace(record.agreement, plan=plan)))
    if limit is not None:
        run.write_session_limit(replace(LIMIT, label_share=limit))
    add_label_attack(add_attempts_on_ciphertexts(run), 4 * COUNT // 5)
    answer = read_findings(run, ("passive",), "run", titles=NAMES).answer
    assert answer.parties[0].light == light
    untold = [one for one in answer.not_measured if "of labels" in one]
    assert bool(untold) == (light == "grey")
    assert all(one in answer.parties[0].words for one in untold)


def test_page_console_results_and_annex_say_the_same_of_further_sessions(tmp_path: Path) -> None:
    run = made_run(tmp_path, plan=TrainingPlan(batch_size=100, epochs=1, batches="reshuffled"))
    run.write_session_limit(replace(LIMIT, label_share=0.25))
    found = findings_of(run)
    told, sentence = found.answer.sessions, labels_untried(found.predictions.limit, found.summary.agreement)
    assert sentence
    assert told.endswith(sentence)
    console = io.StringIO()
    print_verdict(Console(file=console, width=10_000), found)
    write_report(tmp_path / "report.html", found, FACTS, run)
    page = html.unescape((tmp_path / "report.html").read_text())
    for shown in (console.getvalue(), page, json.dumps(found.as_dict(), default=str)):
        assert told in shown
        assert sentence in shown.replace(told, "")
    annex = annex_of(found, RunPapers(FACTS, "2026-01-01T12:00:00", {}, run), 9)
    assert any(sentence in point for page in annex.pages for section in page for point in section.points)


def test_runs_of_before_say_nothing_of_sessions(tmp_path: Path) -> None:
    answer = judged(tmp_path, None)
    assert answer.sentence.startswith("If fintech joins")
    assert answer.sessions == ""
    assert all(one.one_session == () for one in answer.columns)
