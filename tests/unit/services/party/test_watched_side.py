"""Protocols of other packages: the page's toy trains as Protocol 1 does, and one that does its worst is named."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.common import protocol_calls
from services.common.agreement import TrainingPlan
from services.common.errors import FederationError, InvalidMessage, OutOfOrder
from services.common.exposure import GuardedParty
from services.exchange.opening_ledger import OpeningLedger
from tests.harness.agreements import agreed
from tests.harness.documented_plugin import install
from tests.harness.exchanges import SMALL_PLAN, random_problem, run_together, wired
from tests.harness.restarts import Town, town
from vfl import plugin_trial

TOY: dict[str, Any] = {"protocol": "pairwise_sums", "cipher": "plain"}
_END = """
import threading

def fail(*_):
    raise RuntimeError("secret")

def hang(*_):
    threading.Event().wait()

def leave(*_):
    raise SystemExit(1)

def at_one(wrong):
    right = MaskedStep.total
    return lambda step: (wrong if step.side.setting.name == "passive-1" else right)(step)
"""
# What is done in place of a step, and what is said of it.
WORST = {
    "raises": ("MaskedStep.total = fail", "protocol pairwise_sums failed with RuntimeError."),
    "exits": ("MaskedStep.total = leave", "protocol pairwise_sums failed with SystemExit."),
    "raises at one party": ("MaskedStep.total = at_one(fail)", "protocol pairwise_sums failed with RuntimeError."),
    "hangs": ("MaskedStep.total = hang", "protocol pairwise_sums takes longer than 2 s for a call."),
    # Who waits for it may be first to say so.
    "hangs at one party": ("MaskedStep.total = at_one(hang)", "protocol pairwise_sums"),
    "answers nothing": ("MaskedStep.answer = lambda *_: None", "protocol pairwise_sums gives products that aren't"),
    "sums too widely": (
        "MaskedStep.total = lambda step: np.zeros((len(step.rows), 2))",
        "protocol pairwise_sums gives sums that aren't 3 x 1 numbers of float64.",
    ),
    "sums no numbers": (
        "MaskedStep.total = lambda step: np.full((len(step.rows), 1), np.nan)",
        "protocol pairwise_sums gives sums that aren't finite.",
    ),
    "answers what is sent": ("MaskedStep.answer = lambda step, request: step.features[:, :1]", "answers what is only"),
    "sends too much": (
        "MaskedStep.total = at_one(lambda step: step.side.exchange.send('key', np.zeros(33, dtype=np.uint8)))",
        "protocol pairwise_sums sends what it hasn't declared. Expected key to be uint8 of shape (32,).",
    ),
    "sends in another's place": (
        "MaskedStep.total = at_one(lambda step: step.side.exchange.send('total', step.own, step.number))",
        "which it doesn't",
    ),
    "waits for what isn't": ("MaskedStep.total = lambda step: step.side.exchange.take('rest')", "no message rest"),
    "loses its rows": ("MaskedStep.rows = property(lambda _: 'secret', fail)", "protocol pairwise_sums failed with"),
}
# Elsewhere: a wrong answer, and what is said of it.
ELSEWHERE = {
    "PairwiseSums.check_parties": ("fail", "failed with RuntimeError"),
    "PairwiseSums.warnings": ("lambda *_: [5]", "gives a list that no warnings may be"),
    "PairwiseSums.guard": ("lambda *_: 'secret'", "gives a str that no guard may be"),
    "PairwiseSums.told_equations": (
        "lambda *_: ToldEquations('secret')",
        "gives a ToldEquations that no told_equations may be",
    ),
    "PairwiseSums.served": ("lambda *_: 'secret'", "gives a str as what is served, which lacks"),
    "PairwiseSums.told_rows": ("fail", "failed with RuntimeError"),
    "PairwiseSums.side": ("lambda *_: 5", "failed with AttributeError"),
    "MaskedSide.half": ("property(lambda _: 5, lambda *_: None)", "has no half of the learner"),
    "MaskedSide.exchange": ("property(lambda _: 5, lambda *_: None)", "gives a int as its exchange"),
    "MaskedSide.part": ("'secret'", "gives a str as its part"),
    "MaskedSide.schedule": ("'secret'", "protocol pairwise_sums"),
    "MaskedSide.left_range": ("'secret'", "gives a str as its left_range"),
    "MaskedSide.show_public_key": ("fail", "failed with RuntimeError"),
    "MaskedSide.begin_epoch": ("fail", "failed with RuntimeError"),
    "MaskedSide.complete_step": ("fail", "failed with RuntimeError"),
    "MaskedSide.step": ("fail", "failed with RuntimeError"),
    "MaskedStep.finish": ("fail", "failed with RuntimeError"),
    "MaskedStep.is_passed_over": ("'secret'", "gives a str as its is_passed_over"),
}


def install_toy(folder: Path, monkeypatch: pytest.MonkeyPatch, end: str = "") -> None:
    package = folder / "package"
    package.mkdir()
    install("adding-a-protocol.md", "pairwise_sums", package, monkeypatch, end=f"\n{_END}\n{end}" if end else "")
    # It is ours: no child process has to try it.
    monkeypatch.setattr(plugin_trial, "problem_of", lambda point: "")


def trained(terms: Mapping[str, Any], parties: int, classes: int) -> np.ndarray:
    plan = SMALL_PLAN.changed(**terms)
    with wired(random_problem(parties=parties, classes=classes, columns=9), plan) as trainings:
        return np.vstack(run_together(trainings, plan.epochs))


@pytest.mark.parametrize(("parties", "classes"), [(3, 2), (4, 3)])
def test_the_pages_protocol_trains_what_protocol_1_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parties: int, classes: int
) -> None:
    install_toy(tmp_path, monkeypatch)
    expected = trained({"cipher": "plain"}, parties, classes)
    np.testing.assert_allclose(trained(TOY, parties, classes), expected, atol=1e-7)


def test_it_is_refused_where_there_is_nothing_to_hide_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_toy(tmp_path, monkeypatch)
    with town(tmp_path, **TOY) as home, pytest.raises(InvalidMessage, match="two passive parties or more, here is one"):
        home.train()
    with pytest.raises(InvalidMessage, match="trains linear learners, with cipher=plain: set both"):
        TrainingPlan(protocol="pairwise_sums").check()


def test_what_it_tells_stands_in_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_toy(tmp_path, monkeypatch)
    agreement = agreed(TrainingPlan(epochs=3, batch_size=8, **TOY))
    of_features, of_labels = agreement.plan.training.exposures(agreement)
    assert (of_features.party, of_features.equations) == (agreement.active.name, 3)
    assert (of_labels.owner, of_labels.equations, of_labels.possible) == (agreement.active.name, 8, True)
    party = GuardedParty(agreement.active.name, np.zeros((1, 1)), None, "refuse", False, OpeningLedger.in_memory(), {})
    with pytest.raises(OutOfOrder, match=r"INSECURE: protocol=pairwise_sums tells .* \(PLUMBLINE_GUARD=refuse\)"):
        agreement.plan.training.guard(agreement, party)


def test_its_model_is_kept_scores_after_a_restart_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_toy(tmp_path, monkeypatch)
    with town(tmp_path, parties=3, **TOY) as home:
        home.train()
        before = home.scores()
        home.restart(*home.names)
        np.testing.assert_array_equal(home.scores(), before)
    np.testing.assert_allclose(before.sum(axis=1), 1)


def _goes_on(home: Town) -> None:
    """All services answer as before."""
    with pytest.raises(FederationError, match="pairwise_sums"):
        home.train()


@pytest.mark.parametrize("worst", WORST)
def test_one_that_does_its_worst_ends_its_session_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, worst: str
) -> None:
    line, words = WORST[worst]
    install_toy(tmp_path, monkeypatch, line)
    with town(tmp_path, parties=3, step_timeout=2.0, **TOY) as home:
        with caplog.at_level(logging.CRITICAL), pytest.raises(FederationError, match="pairwise_sums") as error:
            home.train()
        assert words in str(error.value)
        assert "secret" not in str(error.value)
        assert "Traceback" not in str(error.value)
        _goes_on(home)


@pytest.mark.parametrize(
    "where", ["MaskedStep.total = hang", "MaskedStep.total = at_one(hang)", "MaskedStep.answer = hang"]
)
def test_one_that_hangs_ends_the_session_at_every_party_with_its_name_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    install_toy(tmp_path, monkeypatch, where)
    with town(tmp_path, parties=3, step_timeout=2.0, **TOY) as home:
        with pytest.raises(FederationError, match="pairwise_sums"):
            home.train()
        for name in ("passive-1", "passive-2"):
            held = home.passive(name)._session
            assert held is not None
            assert held.ended is not None
            assert "pairwise_sums" in held.ended
        _goes_on(home)


@pytest.mark.parametrize("call", ELSEWHERE)
def test_whatever_else_it_does_ends_its_session_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    answer, words = ELSEWHERE[call]
    install_toy(tmp_path, monkeypatch, f"{call} = {answer}")
    monkeypatch.setattr(protocol_calls, "ANSWER_SECONDS", 2.0)
    with town(tmp_path, parties=3, step_timeout=2.0, **TOY) as home:
        with pytest.raises(FederationError, match="pairwise_sums") as error:
            home.train()
        assert words in str(error.value)
        assert "secret" not in str(error.value)
        _goes_on(home)
