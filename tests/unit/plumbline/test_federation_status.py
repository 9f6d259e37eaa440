"""What an operator is told of a running federation in words."""

from dataclasses import replace

import pytest

from plumbline.audit.tables import digits_words
from plumbline.federation_status import (
    FederationStatus,
    JobStatus,
    PartyStatus,
    StatusNews,
    status_lines,
    trouble_lines,
)
from services.common.agreement import TrainingPlan
from vfl.data import Grid
from vfl.learning.score_quality import ScoreQuality

BINARY, BYTE = Grid(steps=1), Grid(steps=9)


@pytest.mark.parametrize(
    ("grids", "words"),
    [
        ([BYTE], "8"),
        ([None], "full"),
        ([BINARY, BINARY, BINARY], "1 each"),
        ([BYTE, BINARY], "8 and 1"),
        ([None, BINARY], "full and 1"),
    ],
)
def test_digits_of_the_features_of_one_column(grids: list[Grid | None], words: str) -> None:
    assert digits_words(grids) == words


IDLE = FederationStatus(
    stage="idle",
    failure="",
    obstacle="There is no trained model to ask (stage: idle). Train first.",
    session_id="",
    parties=(
        PartyStatus("active", None, None),
        PartyStatus("laboratory", None, True),
        PartyStatus("coordinator", None, False),
    ),
    aligned_rows=None,
    job=None,
    test=None,
    class_names=("no", "yes"),
    warnings=(),
    own_plan=TrainingPlan(),
)
TRAINING = replace(
    IDLE,
    stage="training",
    parties=(
        PartyStatus("active", 13, None),
        PartyStatus("laboratory", 8, True),
        PartyStatus("coordinator", None, True),
    ),
    aligned_rows=12_535,
    job=JobStatus(120, 400, 2, 10, 0.61234, 27.4),
)
SERVING = replace(TRAINING, stage="serving", obstacle="", job=None, test=ScoreQuality(107, 0.9302, 0.9711, (65, 42)))


def test_before_a_job_there_is_who_answers() -> None:
    assert status_lines(IDLE) == [
        "idle",
        "active is there.",
        "laboratory answers.",
        "coordinator does not answer.",
    ]
    assert trouble_lines(IDLE) == [IDLE.obstacle]


def test_a_party_says_how_many_of_its_columns_are_narrow() -> None:
    parties = (PartyStatus("active", 13, None, 4, 8), PartyStatus("laboratory", 8, True, 8))
    assert status_lines(replace(TRAINING, parties=parties))[2:] == [
        "active brings 13 features (4 binary, 8 byte).",
        "laboratory answers and brings 8 features (8 binary).",
    ]


def test_a_job_says_how_far_it_is_and_how_long_it_may_take() -> None:
    assert status_lines(TRAINING)[:3] == [
        "training: step 120 of 400, epoch 3 of 10, validation loss 0.6123, about 28 s left",
        "12,535 records are aligned.",
        "active brings 13 features.",
    ]
    # That no model answers yet is no trouble; that the one from before can't is.
    assert trouble_lines(TRAINING) == []
    again = replace(TRAINING, test=ScoreQuality(107, 0.9302, 0.9711, (65, 42)), obstacle="laboratory does not answer.")
    assert trouble_lines(again) == ["laboratory does not answer."]


def test_each_stage_counts_what_it_is_made_of() -> None:
    attacking = replace(TRAINING, stage="attacking", job=JobStatus(1, 14, 10, 10, 0.5, 75.0, "rcc2"))
    assert status_lines(attacking)[0] == (
        "attacking: attack 1 of 14, rcc2 is at work, validation loss 0.5000, about 75 s left"
    )
    aligning = replace(TRAINING, stage="aligning", job=JobStatus(2_000, 40_000))
    assert status_lines(aligning)[0] == "aligning: id 2,000 of 40,000"
    assert status_lines(replace(aligning, job=JobStatus()))[0] == "aligning"


def test_a_session_says_its_protocol_and_what_becomes_of_its_weights() -> None:
    assert not any("Protocol" in line for line in status_lines(TRAINING))
    told = [
        status_lines(replace(TRAINING, protocol=protocol, serving=serving))[2]
        for protocol, serving in [("hu", "opened"), ("shared", "opened"), ("shared", "shared")]
    ]
    assert told == [
        "Protocol: hu.",
        "Protocol: shared; weights are opened to their owners after training.",
        "Protocol: shared; weights stay shared, and scores are computed on shares.",
    ]


def test_a_model_says_what_it_is_worth() -> None:
    assert status_lines(SERVING)[0] == "serving"
    told = [
        status_lines(replace(SERVING, test=test))[-1]
        for test in (SERVING.test, ScoreQuality(3, 1.0, None, (3, 0)), ScoreQuality(107, 0.9302, 0.9711))
    ]
    assert told == [
        "The model that answers: accuracy 0.9302 on 107 test records, AUC 0.971 (95 %: 0.87 to 0.99), 42 positive "
        "records.",
        "The model that answers: accuracy 1.0000 on 3 test records, AUC not measured: a class has no test record.",
        # Of a release that didn't count them.
        "The model that answers: accuracy 0.9302 on 107 test records, AUC 0.97, of how many positive records wasn't "
        "kept.",
    ]
    failed = replace(SERVING, stage="failed", failure="laboratory does not answer.")
    assert trouble_lines(failed) == [
        "The last job: laboratory does not answer.",
        "Predictions are answered by the model from before.",
    ]


def test_a_party_cannot_write_to_the_operators_terminal() -> None:
    hostile = replace(
        SERVING,
        stage="\x1b]0;title\x07",
        warnings=("\x1b[2Jgone\nsecond line",),
        parties=(PartyStatus("a\x1b[31m", 1, True),),
    )
    text = "\n".join([*status_lines(hostile), *trouble_lines(hostile)])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "gone\nsecond" not in text


def test_only_what_is_new_is_told_and_steps_from_time_to_time() -> None:
    now = [0.0]
    news = StatusNews(lambda: now[0])

    def stepped(steps: int, epochs: int = 2) -> FederationStatus:
        assert TRAINING.job is not None
        return replace(
            TRAINING, job=replace(TRAINING.job, steps_done=steps, seconds_left=400.0 - steps, epochs_done=epochs)
        )

    assert news.of(IDLE) == [*status_lines(IDLE), IDLE.obstacle]
    assert news.of(IDLE) == []
    assert len(news.of(stepped(100))) == 5
    now[0] = 9
    assert news.of(stepped(101)) == []
    now[0] = 10
    assert news.of(stepped(102)) == [status_lines(stepped(102))[0]]
    now[0] = 11
    assert news.of(stepped(103)) == []
    assert news.of(stepped(104, epochs=3)) == [status_lines(stepped(104, epochs=3))[0]]
    gone = replace(SERVING, parties=(*SERVING.parties[:1], PartyStatus("laboratory", 8, False), *SERVING.parties[2:]))
    told = news.of(SERVING)
    assert told == ["serving", status_lines(SERVING)[-1]]
    assert news.of(gone) == ["laboratory does not answer and brings 8 features."]
    now[0] = 1_000
    assert news.of(gone) == []
