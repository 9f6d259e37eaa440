"""Known answers of the judge on columns of the parties' own tables, and their parity with naive loops."""

import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from plumbline.judge.columns import indicators_of
from plumbline.judge.federation_part import LevelVerdict, at
from plumbline.judge.findings import Findings, read_findings
from plumbline.judge.lights import LEAST_RECORDS
from plumbline.judge.predictions import PredictionFindings
from plumbline.judge.summary import RunSummary
from plumbline.notebook import NotebookFindings
from services.common.run_files import RunFolderError
from services.common.run_folder import RunFolder
from services.common.run_records import FAILED, NOT_APPLICABLE, PartyFeatures
from tests.harness.judged_runs import NAMES, Feature, add_label_attack, outcome, typed, write_run
from vfl.arrays import FloatArray

COUNT = 120
RNG = np.random.default_rng(2)
AGE: FloatArray = np.round(RNG.random(COUNT) * 81) / 81
AGE[:2] = 0, 1
JOB = RNG.integers(0, 3, COUNT)
COLUMNS = typed(
    [
        Feature(AGE, "age", offset=17, scale=81),
        *(Feature(np.where(value == JOB, 1.0, 0.0), "job", "category", name=f"job={value}") for value in range(3)),
    ]
)


def found(run: RunFolder) -> Findings:
    return read_findings(run, ["passive"], "run", titles=NAMES)


def headline(levels: tuple[LevelVerdict, ...]) -> LevelVerdict:
    return at(levels, "marginals")


def noisy(width: float) -> FloatArray:
    """Estimates of which the job is right in four of five records."""
    estimate = COLUMNS.features + width * np.random.default_rng(1).normal(size=COLUMNS.features.shape)
    named = np.where(np.arange(COUNT) % 5 == 0, (JOB + 1) % 3, JOB)
    estimate[:, 1:] = np.eye(3)[named]
    return estimate


def test_a_number_and_a_category_by_naive_loops(tmp_path: Path) -> None:
    estimate = noisy(0.05)
    findings = found(
        write_run(tmp_path, {"passive": COLUMNS}, [outcome("half_star")], estimates={"half_star": estimate})
    )
    answers = {one.column: one for one in findings.answer.columns}
    age, job = answers["age"], answers["job"]
    assert (age.kind, age.features, job.kind, job.features) == ("number", (0,), "category", (1, 2, 3))
    # Each record is judged by an attack that others chose: all count.
    judging = range(COUNT)
    years = 17 + 81 * AGE
    told = [abs(17 + 81 * estimate[row, 0] - (17 + 81 * AGE[row])) <= 5 for row in judging]
    assert 1 - (headline(age.known).error or 0) == pytest.approx(sum(told) / len(judging))
    best = max(sum(abs(value - place) <= 5 for value in years) for place in np.arange(17, 98.01, 0.5))
    assert 1 - headline(age.known).e0 == pytest.approx(best / len(judging))
    e, e0 = ((estimate[:, 0] - AGE) ** 2).mean(), AGE.var()
    part = headline(age.levels).part
    assert part is not None
    # Of some records the others may choose a half, which is as good a guess as the mean.
    assert part.mean == pytest.approx(1 - e / e0, abs=1e-3)
    right = [int(estimate[row, 1:].argmax()) == JOB[row] for row in judging]
    assert 1 - (headline(job.levels).error or 0) == pytest.approx(sum(right) / len(judging))
    frequent = max(sum(JOB[row] == value for row in judging) for value in range(3))
    assert 1 - headline(job.levels).e0 == pytest.approx(frequent / len(judging))


def test_sentences_speak_of_the_tables_own_units(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"passive": COLUMNS}, [outcome("half_star")], estimates={"half_star": noisy(0.01)})
    sentences = [one.sentence for one in found(run).answer.columns]
    assert sentences[0] == (
        "age: ± 24.1 by guessing, ± 0.725 with the federation; within 5 in 100 % of records, 18 % by guessing; 52 % of "
        "records read nearly exactly, 4 % by guessing"
    )
    assert sentences[1] == "job: 40 % right by guessing, 80 % right with the federation"


def test_errors_are_those_of_the_mean_and_hits_those_of_the_densest_place(tmp_path: Path) -> None:
    estimate, exact = noisy(0.2), COLUMNS.features
    run = write_run(
        tmp_path,
        {"passive": COLUMNS},
        [outcome("posterior")],
        estimates={"posterior": estimate, "densest: posterior": exact},
    )
    age = next(one for one in found(run).answer.columns if one.column == "age")
    assert headline(age.levels).error == pytest.approx(((estimate - exact)[:, 0] ** 2).mean())
    assert (headline(age.known).error, headline(age.read).error) == (0.0, 0.0)
    assert age.sentence.startswith("age: ± ")


def test_a_missing_indicator_is_mentioned_when_it_is_exposed(tmp_path: Path) -> None:
    gaps = (np.arange(COUNT) % 4 == 0) * 1.0
    own = typed([Feature(AGE, "pay", scale=81), Feature(gaps, "pay", "missing", name="pay is missing")])
    guess = np.column_stack([np.full(COUNT, AGE.mean()), gaps])
    run = write_run(tmp_path, {"passive": own}, [outcome("ls")], estimates={"ls": guess})
    (pay,) = found(run).answer.columns
    assert pay.light == "amber"
    assert pay.sentence.endswith("; whether it is there is given away too")


def test_older_runs_have_a_column_per_feature(tmp_path: Path) -> None:
    older = PartyFeatures(COLUMNS.features, COLUMNS.names)
    findings = found(write_run(tmp_path, {"passive": older}, [outcome("ls")], estimates={"ls": noisy(0.01)}))
    assert sorted(one.column for one in findings.answer.columns) == ["age", "job=0", "job=1", "job=2"]
    assert [one.columns for one in findings.predictions.categories] == [("job=0", "job=1", "job=2")]


@pytest.mark.parametrize("count", [0, 1, 2, 3, LEAST_RECORDS - 1])
@pytest.mark.filterwarnings("error")
def test_too_few_records_are_said_to_be_too_few(tmp_path: Path, count: int) -> None:
    rows = np.arange(count)
    estimates = {"half_star": noisy(0.01)[rows]}
    run = write_run(tmp_path, {"passive": COLUMNS}, [outcome("half_star")], judged=rows, estimates=estimates)
    answer = found(run).answer
    assert f"{count} distinct, are too few to judge, {LEAST_RECORDS} are needed" in answer.sentence
    assert {one.light for one in answer.parties} == {"grey"}
    assert answer.largest_part is None


def test_a_constant_column_has_nothing_to_give_away(tmp_path: Path) -> None:
    own = typed([Feature(AGE, "age", scale=81), Feature(np.full(COUNT, 0.5), "same", scale=2)])
    run = write_run(tmp_path, {"passive": own}, [outcome("ls")], estimates={"ls": own.features})
    same = found(run).answer.columns[1]
    assert (same.column, same.light) == ("same", "grey")
    assert "nothing is left to give away" in same.sentence


@pytest.mark.filterwarnings("error")
def test_rows_all_alike_are_grey_whatever_was_attacked(tmp_path: Path) -> None:
    own = typed([Feature(np.full(COUNT, 0.5), "same", scale=2), Feature(np.ones(COUNT), "job", "category")])
    for number, estimate in enumerate((own.features, noisy(0.1)[:, :2])):
        run = write_run(tmp_path / str(number), {"passive": own}, [outcome("ls")], estimates={"ls": estimate})
        answer = found(run).answer
        assert {one.light for one in answer.columns} == {"grey"}
        assert "Nothing is left to give away of “same”, “job”." in answer.sentence


@pytest.mark.filterwarnings("error")
def test_labels_of_one_class_are_grey(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"passive": COLUMNS})
    features = run.features("active")
    run.write_features("active", PartyFeatures(features.features, features.names, np.zeros(COUNT, dtype=np.int64)))
    answer = found(add_label_attack(run, 0)).answer
    assert answer.parties[0].light == "grey"
    assert "nothing is left to give away" in answer.labels[0]


@pytest.mark.thorough
def test_ten_thousand_one_hot_features_are_one_column(tmp_path: Path) -> None:
    values = 10_000
    chosen = RNG.integers(0, values, COUNT)
    cells = np.zeros((COUNT, values))
    cells[np.arange(COUNT), chosen] = 1.0
    wide = PartyFeatures(
        cells,
        np.array([f"town={value}" for value in range(values)]),
        sources=np.full(values, "town"),
        kinds=np.full(values, "category"),
        offsets=np.zeros(values),
        scales=np.ones(values),
    )
    run = write_run(tmp_path, {"passive": wide}, [outcome("ls")], estimates={"ls": np.full_like(cells, 1e-4)})
    (town,) = found(run).answer.columns
    assert town.light in ("green", "grey")
    assert indicators_of(cells, np.arange(values)).values.size == values


def test_estimates_that_are_no_numbers_count_as_a_failed_attack(tmp_path: Path) -> None:
    broken = noisy(0.01)
    broken[3, 0] = np.nan
    estimates = {"gia": broken, "ls": noisy(0.2)}
    findings = found(write_run(tmp_path, {"passive": COLUMNS}, [outcome("gia"), outcome("ls")], estimates=estimates))
    gia = findings[0]
    assert "no numbers" in gia.reason
    assert findings.predictions.attacks[0].status == FAILED
    assert all(headline(one.levels).attack == "ls" for one in findings.answer.columns)
    assert "Failed, so that what they would have told is unknown: gia." in findings.answer.not_measured
    assert findings.in_short("").failed == ("gia",)


def test_estimates_of_another_shape_are_refused_by_name(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"passive": COLUMNS}, [outcome("ls")], estimates={"ls": noisy(0.1)[:, :2]})
    with pytest.raises(RunFolderError, match="estimates of ls of shape"):
        found(run)


def test_an_attack_that_guesses_as_it_would_without_scores_gives_nothing_away(tmp_path: Path) -> None:
    # Sums in single precision may differ in their last digits: rounding is no leak.
    guess = np.clip(noisy(0.1), 0, 1)
    arrays = {f"a{number}": guess for number in range(7)}
    arrays |= {f"withheld: a{number}": guess for number in range(7)}
    run = write_run(tmp_path, {"passive": COLUMNS}, [outcome(f"a{number}") for number in range(7)], estimates=arrays)
    assert {one.light for one in found(run).answer.columns} == {"green"}


def test_findings_are_a_sequence_a_table_and_json(tmp_path: Path) -> None:
    outcomes = [outcome("half_star"), outcome("cls", NOT_APPLICABLE, reason="no")]
    run = write_run(tmp_path, {"passive": COLUMNS}, outcomes, estimates={"half_star": noisy(0.01)})
    findings = found(add_label_attack(run, 12))
    assert [one.attack for one in findings] == ["half_star", "cls", "label_recovery"]
    assert (len(findings), findings[-1].attack, len(findings[:2])) == (3, "label_recovery", 2)
    frame = NotebookFindings.of(findings).to_frame("levels")
    assert len(frame) == 2 * 4
    row = frame[(frame.column == "age") & (frame.level == "marginals")].iloc[0]
    assert (row.party, row.known_as, row.attack, row.light) == ("passive", "within 5", "half_star", "red")
    assert row.part == pytest.approx(findings.answer.largest_part)
    assert json.loads(json.dumps(findings.as_dict()))["answer"]["sentence"] == findings.answer.sentence


def test_judging_says_how_far_it_is(tmp_path: Path) -> None:
    run = write_run(tmp_path, {"passive": COLUMNS}, [outcome("half_star")], estimates={"half_star": noisy(0.01)})
    told: list[tuple[str, int, int]] = []
    read_findings(add_label_attack(run, 0), ["passive"], "run", progress=lambda *step: told.append(step))
    names = [what for what, _, _ in told]
    assert names.index("half_star") < names.index("columns") < names.index("label_recovery")
    assert all(0 <= done < of for _, done, of in told)


def test_outcomes_of_a_party_that_was_not_in_the_session_are_refused_by_their_file(tmp_path: Path) -> None:
    run = add_label_attack(write_run(tmp_path, {"passive": COLUMNS}), 0, party="nobody")
    with pytest.raises(RunFolderError, match=r"training-nobody\.json.*wasn't in the session: remove it"):
        found(run)


def test_what_is_found_of_predictions_hides_no_other_number_of_results() -> None:
    """They stand side by side in results.json, and of two of one name the later one is written."""
    names = {one.name for one in fields(PredictionFindings)}
    assert not names & {one.name for kind in (RunSummary, Findings) for one in fields(kind)}
