"""A job that starts by itself: its log is all that tells how it ended. What others are told of any job's end."""

import logging
from pathlib import Path

import numpy as np
import pytest

from plumbline.processes import UNEXPECTED
from services.active.server import train_unasked
from services.common.errors import OutOfOrder
from services.exchange.peer import Inbox
from services.party.party_training import PartyTraining
from services.protocols.hu.gradient_exchange import GradientExchange
from tests.harness.direct_parties import DirectPassive
from tests.harness.parties import ACTIVE, Watcher, house, small_settings

PLAIN = small_settings(cipher="plain")


def sends(exchange: Inbox) -> None:
    """Send residuals of the first step."""
    assert isinstance(exchange, GradientExchange)
    exchange.outgoing_residuals(0, np.ones((8, 1))).make()


def there() -> None:
    """Everyone is."""


def test_a_job_that_starts_by_itself_trains(tmp_path: Path) -> None:
    with house(tmp_path, settings=PLAIN) as home:
        train_unasked(home.active, PLAIN.plan(), there)
        assert home.active.stage == "serving"


def test_an_unexpected_error_of_it_is_logged_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Once: suppressed, so that `docker compose up` left "The job failed: KeyError: 'x'" and no place to look at.
    def broken(party: DirectPassive, session_id: str) -> None:
        raise KeyError("x")

    monkeypatch.setattr(DirectPassive, "show_public_key", broken)
    with house(tmp_path, settings=PLAIN) as home:
        train_unasked(home.active, PLAIN.plan(), there)
        assert home.active.failure == "KeyError"
    traced = [record for record in caplog.records if record.exc_info]
    # What LocalProcesses finds the log by.
    assert [record.getMessage() for record in traced] == [UNEXPECTED]
    assert "in broken" in caplog.text


def test_numpys_errors_are_unexpected_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Once: every ValueError counted as a sentence for a person, and this one left no place to look at.
    def broken(party: DirectPassive, session_id: str) -> None:
        np.ones(2) + np.ones(3)

    monkeypatch.setattr(DirectPassive, "show_public_key", broken)
    with house(tmp_path, settings=PLAIN) as home:
        train_unasked(home.active, PLAIN.plan(), there)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [UNEXPECTED]
    assert "in broken" in caplog.text


@pytest.mark.parametrize("error", [ValueError("row 3: secret"), KeyError("secret")], ids=["value", "key"])
@pytest.mark.parametrize("where", ["join", "run_epoch", "show_public_key", "own"])
def test_others_are_told_the_type_of_an_unexpected_error_and_the_own_log_has_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str, error: Exception
) -> None:
    def broken(*_: object) -> None:
        raise error

    if where == "own":
        monkeypatch.setattr(PartyTraining, "_run_step", broken)
    else:
        monkeypatch.setattr(DirectPassive, where, broken)
    with house(tmp_path, settings=PLAIN) as home:
        with pytest.raises(Exception, match=r".") as raised:
            home.active.train(PLAIN.plan(), Watcher())
        assert home.active.failure
        told = [home.active.failure, *(str(session.ended) for session in home.sessions._sessions.values())]
        passive = home.passive["passive"]
        for ask in (
            lambda: passive.join(ACTIVE, passive._session.session_id),  # type: ignore[union-attr]
            lambda: sends(passive.exchange_of(passive._session.session_id)),  # type: ignore[union-attr]
        ):
            with pytest.raises(OutOfOrder) as refusal:
                ask()
            told.append(str(refusal.value))
    assert "secret" not in " ".join(told)
    assert type(error).__name__ in " ".join([*told, str(raised.value)])
    assert "secret" in caplog.text


def test_an_expected_error_of_it_is_logged_as_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refusing(party: DirectPassive, session_id: str) -> None:
        raise OutOfOrder("The owner is on holiday.")

    monkeypatch.setattr(DirectPassive, "join", refusing)
    with house(tmp_path, settings=PLAIN) as home:
        train_unasked(home.active, PLAIN.plan(), there)
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert errors[0].getMessage().endswith("The owner is on holiday.")
    assert not any(record.exc_info for record in caplog.records)


def test_what_goes_wrong_before_the_job_is_logged_as_well(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def closed() -> None:
        raise RuntimeError("channel closed")

    with house(tmp_path, settings=PLAIN) as home:
        train_unasked(home.active, PLAIN.plan(), closed)
        assert home.active.stage == "idle"
    assert "RuntimeError: channel closed" in caplog.text
