"""What the terminal shows of the verdict: at 80 columns nothing is cut, and quiet is one sentence."""

import io

import numpy as np
import pytest
from rich.console import Console

from plumbline.audit.request import AuditRequest, Verbosity
from plumbline.audit.verdict import print_findings
from plumbline.judge.findings import Findings, read_findings
from services.common.run_records import NOT_APPLICABLE
from tests.harness.judged_runs import NAMES, Feature, add_label_attack, outcome, typed, write_run

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


def test_a_terminal_of_80_columns_shows_whole_numbers_and_whole_names(findings: Findings) -> None:
    lines = shown(findings, "normal")
    assert max(map(len, lines)) <= 80
    age = next(line for line in lines if line.startswith("age "))
    assert "within 5" in age
    assert "100 % (100 to 100)" in age
    begin = next(at for at, line in enumerate(lines) if line.startswith("What becomes"))
    assert not any("…" in line for line in lines[begin:])
    (long,) = [at for at, line in enumerate(lines) if line.startswith("number of times")]
    assert "100 % (100 to 100)" in lines[long]
    name = " ".join(line[:20].strip() for line in lines[long : long + 4])
    assert name.startswith("number of times that the client was contacted before")
    for heading in ("column", "is known", "guess", "attack", "part (95 %)", "best attack"):
        assert any(heading in line for line in lines)
    assert "posterior" in age
    assert any(line.strip().startswith("(prior=covariance,") for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_lights_have_words_for_who_sees_no_colour(findings: Findings) -> None:
    lines = shown(findings, "normal")
    assert any(line.startswith(" RED    bank: fintech can tell 95 % of the labels") for line in lines)
    assert any(line.startswith(" RED    fintech: 2 of its 2 columns") for line in lines)


def test_what_cannot_apply_is_one_line_by_reason(findings: Findings) -> None:
    text = " ".join(shown(findings, "normal"))
    assert text.count("Not applicable") == 1
    assert "Not applicable: ls, cls: needs the disclosed parameters" in text


def test_milliseconds_and_bytes_are_for_who_asks(findings: Findings) -> None:
    assert not any("Bytes on the wire" in line for line in shown(findings, "normal"))
    assert any("Bytes on the wire" in line for line in shown(findings, "verbose"))


def test_quiet_is_the_sentence(findings: Findings) -> None:
    assert " ".join(shown(findings, "quiet")) == findings.answer.sentence


def test_parties_are_called_by_their_tables_where_these_tell_them_apart() -> None:
    def titles(active: str, *passive: str) -> dict[str, str]:
        return AuditRequest.of(active=active, passive=passive, label="y").tables.titles

    assert titles("data/bank.csv", "fintech.parquet") == {"active": "bank", "passive": "fintech"}
    assert titles("a/table.csv", "b/table.csv") == {}
    assert titles("bank.csv", "postgresql://host/base?table=t") == {}
    assert AuditRequest.of(data="wine").tables.titles == {}
