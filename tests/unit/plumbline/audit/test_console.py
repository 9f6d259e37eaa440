"""What an audit prints of its findings."""

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from plumbline.audit.console import (
    print_findings,
    print_table,
    print_verdict,
)
from plumbline.audit.request import AuditRequest, Verbosity
from plumbline.judge.findings import Findings, read_findings
from plumbline.judge.predictions import AttackFinding
from plumbline.telling.document import Table
from services.common.run_records import FAILED, NOT_APPLICABLE
from tests.harness.findings import SIZES, attack, column
from tests.harness.judged_runs import NAMES, Feature, add_label_attack, outcome, typed, write_run
from tests.harness.reported import findings_of, made_run

COUNT = 60
LONG = "number of times that the client was contacted before \x1b[31m[bold]"
CELLS = np.random.default_rng(4).random((COUNT, 2))


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    own = typed([Feature(CELLS[:, 0], LONG, scale=100), Feature(CELLS[:, 1], "age", scale=100)])
    lacking = "needs the disclosed parameters"
    outcomes = [
        outcome("posterior(prior=covariance, box=false)"),
        *(outcome(name, NOT_APPLICABLE, reason=f"{name} {lacking}") for name in ("ls", "cls")),
    ]
    estimates = {outcomes[0].attack: CELLS}
    run = write_run(tmp_path_factory.mktemp("run"), {"passive": own}, outcomes, estimates=estimates)
    return read_findings(add_label_attack(run, 3), ["passive"], "run", titles=NAMES)


def shown(findings: Findings, verbosity: Verbosity, width: int = 80) -> list[str]:
    text = io.StringIO()
    print_findings(Console(file=text, width=width), findings, 1.0, verbosity)
    return text.getvalue().splitlines()


def whole(findings: Findings) -> list[str]:
    """Show the verdict as it is where everything is asked for, on a terminal of 80 columns."""
    text = io.StringIO()
    print_verdict(Console(file=text, width=80), findings)
    return text.getvalue().splitlines()


def test_the_answer_is_a_sentence_a_matrix_and_what_fits_a_screen(findings: Findings) -> None:
    lines = shown(findings, "normal")
    assert lines[0] == findings.glance.sentence == "2 of 2 columns leak much; labels leak much; not shown: persons."
    assert " ".join(" ".join(lines[1:3]).split()) == findings.glance.joining
    assert lines[3].split() == ["keeps", "its", "parameters", "discloses", "them"]
    assert lines[5].split() == ["columns", "RED", "2", "of", "2", "not", "measured"]
    assert lines[6].startswith("labels ")
    assert "columns: how many bank learns of fintech; labels: how many fintech learns of bank;" in " ".join(
        " ".join(lines).split()
    )
    assert len(lines) < 40
    assert any(line.startswith("Not measured where a party") for line in lines)
    assert any("“age”" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("with --verbose.")
    assert not any("\x1b" in line for line in lines)


def test_a_terminal_of_80_columns_shows_whole_numbers_and_whole_names(findings: Findings) -> None:
    lines = whole(findings)
    assert max(map(len, lines)) <= 80
    age = next(line for line in lines if line.startswith("age "))
    assert age.split()[1:5] == ["±", "25.6", "±", "0"]
    assert any(line.startswith("age: within 5 in 100 % of records") for line in lines)
    assert "100 % (100 to 100)" in age
    begin = next(at for at, line in enumerate(lines) if line.startswith("What becomes"))
    end = next(at for at, line in enumerate(lines) if line.startswith("How far"))
    assert not any("…" in line for line in lines[begin:end])
    long, *_ = [at for at, line in enumerate(lines) if line.startswith("number of times")]
    assert "100 % (100 to 100)" in lines[long]
    name = " ".join(re.split("  |±", line)[0].strip() for line in lines[long : long + 4])
    assert name.startswith("number of times that the client was contacted before")
    for heading in ("column", "guess", "attack", "part (95 %)", "best attack"):
        assert any(heading in line for line in lines)
    assert "posterior" in age
    assert any(line.strip().startswith("(prior=covariance,") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_lights_have_words_for_who_sees_no_colour(findings: Findings) -> None:
    lines = whole(findings)
    assert any(line.startswith(" RED    bank: fintech can tell 95 % of the labels") for line in lines)
    assert any(line.startswith(" RED    fintech: Of its 2 columns, bank can reconstruct all of them") for line in lines)


def test_what_cannot_apply_is_one_line_by_reason(findings: Findings) -> None:
    text = " ".join(whole(findings))
    assert text.count("Not applicable") == 1
    assert "Not applicable: ls, cls: needs the disclosed parameters" in text


def test_milliseconds_and_bytes_are_for_who_asks(tmp_path: Path) -> None:
    findings = findings_of(made_run(tmp_path))
    assert not any("Bytes on the wire" in line for line in shown(findings, "normal"))
    lines = shown(findings, "verbose")
    assert any("Bytes on the wire" in line for line in lines)
    assert any("Milliseconds by stage" in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_quiet_is_the_sentence(findings: Findings) -> None:
    assert " ".join(shown(findings, "quiet")) == findings.answer.sentence


def test_parties_are_called_by_their_tables_where_these_tell_them_apart() -> None:
    def titles(active: str, *passive: str) -> dict[str, str]:
        return AuditRequest.of(active=active, passive=passive, label="y").tables.titles

    assert titles("data/bank.csv", "fintech.parquet") == {"active": "bank", "passive": "fintech"}
    assert titles("bank.csv", "a/shop.csv", "b/telecom.csv")["passive-2"] == "telecom"
    # Frames of a notebook, the second with a name of its own.
    assert titles("x/active/active.parquet", "x/passive/fintech.parquet") == {"passive": "fintech"}
    assert titles("a/table.csv", "b/table.csv") == {}
    assert titles("bank.csv", "postgresql://host/base?table=t") == {}
    assert AuditRequest.of(data="wine").tables.titles == {}


def test_what_attacks_say_of_their_results_is_shown_and_what_is_not_scored_is_no_number(findings: Findings) -> None:
    noted = replace(attack("rcc1", column("a", 0.9)), notes=("3 of 10 records are certified to equal rcc2.",))
    predictions = replace(findings.predictions, attacks=(noted,))
    lines = shown(replace(findings, predictions=predictions, training=(SIZES,), folder=None), "verbose", 200)
    assert "rcc1: 3 of 10 records are certified to equal rcc2." in lines
    assert any("not scored: solved steps: 7" in line for line in lines)
    begin = next(number for number, line in enumerate(lines) if line.startswith("Attacks on training"))
    assert not any("nan" in line.split() for line in lines[begin : begin + 6])


def test_an_attack_that_failed_is_not_said_to_be_inapplicable(findings: Findings) -> None:
    failed = AttackFinding("gia", FAILED, "gia failed with TypeError: no", 10, 0.0)
    unable = AttackFinding("half_star", NOT_APPLICABLE, "half_star needs weights_passive", 10, 0.0)
    predictions = replace(findings.predictions, attacks=(failed, unable))
    lines = shown(replace(findings, predictions=predictions, folder=None), "verbose", 200)
    told = [line.split() for line in lines]
    assert ["gia", "failed", "gia", "failed", "with", "TypeError:", "no"] in told
    assert ["half_star", "not", "applicable", "half_star", "needs", "weights_passive"] in told


def test_names_leave_their_room_to_numbers_on_a_narrow_terminal() -> None:
    headings = "Attack|By|Knows beforehand|Best guess|>Wrong|>Wrong with the attack|>Federation's part"
    rows = [
        (
            "auxiliary_ciphertext",
            "passive",
            "marginals",
            "the most frequent class",
            "35.8 %",
            "32.9 %",
            "8 % (0 to 22)",
        ),
        ("own_part", "passive", "nothing", "any class", "50.0 %", "8.6 %", "100 % (100 to 100)"),
    ]
    text = io.StringIO()
    print_table(Console(file=text, width=80), Table.of("Labels", "How often.", headings, rows))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.rstrip().endswith("  8 % (0 to 22)") for line in lines)
    assert any(line.rstrip().endswith("100 % (100 to 100)") for line in lines)
