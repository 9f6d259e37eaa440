"""A job that starts by itself: its log is all that tells how it ended."""

import logging
from pathlib import Path

import pytest

from plumbline.processes import UNEXPECTED
from services.active.server import train_unasked
from services.common.errors import OutOfOrder
from tests.harness.parties import DirectPassive, house, small_settings

PLAIN = small_settings(cipher="plain")


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
        assert home.active.failure == "KeyError: 'x'"
    traced = [record for record in caplog.records if record.exc_info]
    # What LocalProcesses finds the log by.
    assert [record.getMessage() for record in traced] == [UNEXPECTED]
    assert "in broken" in caplog.text


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
