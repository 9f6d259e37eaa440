"""What is said of sums of labels that nobody had an answer from, and where it need not be."""

from dataclasses import replace

import pytest

from attacks.training.least_norm import TOO_FEW_SUMS
from plumbline.judge.federation_part import LevelVerdict
from plumbline.judge.training import TrainingFinding
from plumbline.judge.unread_sums import unread_sums
from services.common.agreement import TrainingPlan
from tests.harness.agreements import agreed
from tests.harness.findings import levels

SENT, KEPT = agreed(TrainingPlan(batch_size=64)), agreed(TrainingPlan(batch_size=64, protocol="shared"))
UNREAD = "What sums tell fintech of labels was not measured"


def finding(attack: str, *, judged: tuple[LevelVerdict, ...] = ()) -> TrainingFinding:
    return TrainingFinding(attack, "passive", "Not possible: too little.", 0.1, "labels", levels=judged)


JUDGED = tuple(levels("any", 0.1))


@pytest.mark.parametrize(
    ("findings", "told"),
    [
        ([], [f"{UNREAD}."]),
        # It reads no sums.
        ([finding("own_part", judged=JUDGED)], [f"{UNREAD}."]),
        (
            [finding("own_part", judged=JUDGED), finding("trajectory_labels")],
            [f"{UNREAD}: Not possible: too little."],
        ),
        ([finding("trajectory_labels"), finding("label_recovery", judged=JUDGED)], []),
        ([replace(finding("trajectory_labels(rounds=3)"), details={TOO_FEW_SUMS: True})], []),
        ([finding("of another package", judged=JUDGED)], []),
        ([replace(finding("trajectory_labels", judged=JUDGED), party="another")], [f"{UNREAD}."]),
    ],
)
def test_who_reads_sums_has_an_answer_or_it_is_said(findings: list[TrainingFinding], told: list[str]) -> None:
    assert unread_sums(findings, SENT, {"passive": "fintech"}) == told
    assert unread_sums(findings, KEPT, {"passive": "fintech"}) == []
