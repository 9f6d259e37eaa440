"""What an audit's page shows of leaks."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from plumbline.audit.report import write_report
from plumbline.judge.predictions import AttackFinding
from plumbline.judge.summary import PartyTiming, RunSummary
from plumbline.judge.training import TrainingFinding
from services.common.agreement import Agreement, PartyDescription, TrainingPlan
from services.common.run_records import FAILED, NOT_APPLICABLE, STAGES, EpochRecord
from tests.harness.findings import SIZES, attack, column, findings


def report(
    folder: Path,
    on_predictions: list[AttackFinding],
    training: Sequence[TrainingFinding] = (),
    epochs: tuple[EpochRecord, ...] = (),
    timings: tuple[PartyTiming, ...] = (),
) -> str:
    parties = tuple(PartyDescription(name, 2, 0, False, 10) for name in ("active", "passive"))
    summary = RunSummary(
        name="r",
        aligned_rows=10,
        test_rows=10,
        accuracy=0.5,
        auc=0.5,
        majority=0.5,
        epochs=epochs,
        kept_epoch=0,
        steps=0,
        timings=timings,
        bytes_by_message={},
        agreement=Agreement("0123456789", TrainingPlan(cipher="plain", batch_size=8), 2, parties),
        class_names=("0", "1"),
        warnings=(),
        simulation=(),
        transport="mtls",
        defences={},
        channels=(),
        predictions={},
    )
    facts = {"seconds": 1.0, "versions": {}}
    write_report(folder / "report.html", summary, findings(*on_predictions), list(training), facts)
    return (folder / "report.html").read_text()


def test_a_column_that_leaked_is_named_though_the_attack_errs_more_than_a_guess(tmp_path: Path) -> None:
    # Once: hidden behind columns that were reconstructed worse than by guessing.
    zero = replace(attack("zero", column("safe", 0.0)), sees_scores=False)
    html = report(
        tmp_path,
        [
            zero,
            attack("half_star", column("leaked", 0.06), column("safe", 0.9)),
            AttackFinding("gia", NOT_APPLICABLE, "needs a network", 10, 0.0),
        ],
    )
    assert (
        "leaked: the federation gives away 40 % (35 to 45) of what was unknown at level marginals, by half_star."
        in html
    )
    assert "safe: the federation" not in html
    assert html.index("<td>leaked</td>") < html.index("<td>safe</td>")
    assert "<code>half_star</code>, column by column" in html
    # What saw no score is a baseline.
    assert "<code>zero</code>" not in html
    assert "<code>gia</code>, column by column" not in html


def test_the_share_that_verdicts_quote_stands_beside_its_column(tmp_path: Path) -> None:
    """Once: to the right of long names of guesses and attacks, where a page has no room left."""
    html = report(tmp_path, [attack("half_star", column("leaked", 0.06))])
    assert '<td>leaked</td><td class="n">40 %</td><td class="n">40 % (35 to 45)</td><td>its mean</td>' in html


def test_what_attacks_say_of_their_results_is_shown_and_what_is_not_scored_is_no_number(tmp_path: Path) -> None:
    noted = replace(attack("rcc1", column("a", 0.9)), notes=("3 of 10 records are certified to equal rcc2.",))
    html = report(tmp_path, [noted], training=[SIZES])
    assert "<code>rcc1</code>: 3 of 10 records are certified to equal rcc2." in html
    assert "not scored: solved steps: 7; sizes: [0, 1, 2, 3, 4, 5, ...]" in html
    assert "nan" not in html


def test_an_attack_that_failed_is_not_said_to_be_inapplicable(tmp_path: Path) -> None:
    html = report(tmp_path, [AttackFinding("gia", FAILED, "gia failed with TypeError", 10, 0.0)])
    assert '<code>gia</code></td><td colspan="6">failed: gia failed with TypeError</td>' in html
    assert "not applicable" not in html


def test_the_same_findings_give_the_same_page_drawings_included(tmp_path: Path) -> None:
    epochs = tuple(EpochRecord(number, 0.5 / (number + 1), 1.0) for number in range(3))
    timings = (PartyTiming("active", dict.fromkeys(STAGES, 0.01), 1.0, 10**6),)
    first, second = (report(tmp_path, [], epochs=epochs, timings=timings) for _ in range(2))
    assert first.count("<svg") == 2
    # Once: every drawing had ids of its own.
    assert first == second
