"""What a failed call becomes, and what a caller is told of an error."""

from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from services.common.errors import (
    Diverged,
    FederationError,
    InvalidMessage,
    NotAllowed,
    OutOfOrder,
    PeerRefused,
    PeerVanished,
    UnknownRecord,
    described,
    is_expected,
    log_failure,
    one_line,
    told,
)
from services.common.identity import Identity, Role
from services.common.settings import SettingsError
from services.network.statuses import error_of, naming, naming_the_party, status_of
from tests.harness.parties import ACTIVE, house, small_settings
from vfl.data import PsiError

Code = grpc.StatusCode


class Refusal(grpc.RpcError, grpc.Call):
    """A call that ended with a status and words."""

    def __init__(self, status: grpc.StatusCode, words: str = "") -> None:
        self._status, self._words = status, words

    def code(self) -> grpc.StatusCode:
        return self._status

    def details(self) -> str:
        return self._words

    def is_active(self) -> bool:
        return False

    def time_remaining(self) -> float:
        return 0.0

    def cancel(self) -> bool:
        return False

    def add_callback(self, callback: Any) -> bool:
        return False

    def initial_metadata(self) -> Any:
        return ()

    def trailing_metadata(self) -> Any:
        return ()


@pytest.mark.parametrize("kind", [InvalidMessage, OutOfOrder, NotAllowed, UnknownRecord, FederationError])
def test_a_refusal_keeps_its_kind_and_names_who_refused(kind: type[FederationError]) -> None:
    error = error_of("clinic", Refusal(status_of(kind("why")), "Not so."))
    assert isinstance(error, PeerRefused)
    assert str(error) == "clinic: Not so."
    assert error.kind is kind
    # Whoever passes it on answers with the status that the peer gave.
    assert status_of(error) is status_of(kind("why"))


def test_an_unknown_status_is_a_refusal_of_no_known_kind() -> None:
    error = error_of("clinic", Refusal(Code.UNIMPLEMENTED))
    assert isinstance(error, PeerRefused)
    assert error.kind is FederationError
    assert str(error).endswith(".")


@pytest.mark.parametrize("status", [Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.CANCELLED])
def test_no_answer_names_the_party_and_no_status(status: grpc.StatusCode) -> None:
    with pytest.raises(PeerVanished) as error, naming("clinic"):
        raise Refusal(status, "ipv4:10.0.0.1:1: Socket closed")
    assert str(error.value).startswith("clinic does not answer: ")
    assert status.name not in str(error.value)
    assert "10.0.0.1" not in str(error.value)
    # UNAVAILABLE would be tried again, at every layer.
    assert status_of(error.value) is Code.FAILED_PRECONDITION


@pytest.mark.parametrize("status", [Code.UNKNOWN, Code.INTERNAL, Code.UNAVAILABLE])
def test_a_connection_that_ended_is_told_in_words(status: grpc.StatusCode) -> None:
    # Once: "Stream removed", which is all that an operator heard when the active party was killed.
    error = error_of("active", Refusal(status, "Stream removed"))
    assert isinstance(error, PeerVanished)
    assert str(error) == "active does not answer: its process has ended or the network to it is cut."


def test_an_error_without_a_class_of_its_own_here_has_the_status_of_its_base() -> None:
    class Narrower(Diverged):
        pass

    assert status_of(Narrower("too far")) is Code.FAILED_PRECONDITION


def test_every_public_method_of_a_link_names_its_party() -> None:
    @naming_the_party
    @dataclass
    class Link:
        name: str = "clinic"

        def ask(self) -> None:
            raise Refusal(Code.INVALID_ARGUMENT, "Not so.")

        def _ask_inside(self) -> None:
            raise Refusal(Code.INVALID_ARGUMENT, "Not so.")

    with pytest.raises(PeerRefused, match="clinic: Not so"):
        Link().ask()
    with pytest.raises(Refusal):
        Link()._ask_inside()


# -- another party's words --------------------------------------------------------------------------------------------

FORGED = ["No.\n12:00:00 active INFO all is well", "\x1b[2J\x1b]0;title\x07No.", "\u2028\u202eNo.\r", "No. " * 250_000]


def is_one_printable_line(text: str) -> bool:
    return text.isprintable() and len(text) <= 500


@pytest.mark.parametrize("words", FORGED, ids=["newline", "escape", "direction", "megabyte"])
def test_another_partys_words_become_one_printable_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, words: str
) -> None:
    caplog.set_level("INFO")
    assert is_one_printable_line(one_line(words))
    with pytest.raises(PeerRefused, match=r"No\.") as error, naming("clinic"):
        raise Refusal(Code.INVALID_ARGUMENT, words)
    assert is_one_printable_line(error.value.words)
    assert str(error.value) == f"clinic: {error.value.words}"
    with house(tmp_path, settings=small_settings(cipher="plain")) as home:
        plan = home.settings.plan()
        aligning = home.opened()
        home.passive["passive"].set_up_alignment(ACTIVE, aligning, 3)
        home.passive["passive"].end_session(ACTIVE, aligning, words)
        with pytest.raises(OutOfOrder) as at_passive:
            home.passive["passive"].join(ACTIVE, aligning)
        session_id = home.sessions.open(ACTIVE, plan, 2, ("passive",))
        home.sessions.end(Identity(Role.PASSIVE, "passive"), session_id, words)
        with pytest.raises(OutOfOrder) as at_coordinator:
            home.sessions.score(ACTIVE, session_id, 0, np.ones((1, 1)))
    for refusal in (at_passive, at_coordinator):
        assert str(refusal.value) == f"The session has ended: {one_line(words)}"
    assert caplog.messages
    assert all(message.isprintable() and len(message) < 600 for message in caplog.messages)


def test_words_that_fit_stay_as_they_are() -> None:
    assert one_line("Größe 3 — fine.") == "Größe 3 — fine."
    assert one_line("x" * 500) == "x" * 500
    assert one_line("x" * 501) == "x" * 499 + "…"


# -- what is told of an error, and what the own log has ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "others", "own", "expected"),
    [
        (OutOfOrder("Not now."), "Not now.", "Not now.", True),
        (PsiError("Row 3 is bad."), "PsiError", "Row 3 is bad.", True),
        (SettingsError("Row 3 is bad."), "SettingsError", "Row 3 is bad.", True),
        (ValueError("Row 3 is bad."), "ValueError", "ValueError: Row 3 is bad.", False),
        (UnicodeError("Row 3 is bad."), "UnicodeError", "UnicodeError: Row 3 is bad.", False),
        (OSError("Row 3 is bad."), "OSError", "OSError: Row 3 is bad.", False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_others_hear_less_of_an_error_than_the_own_log(error: Exception, others: str, own: str, expected: bool) -> None:
    assert (told(error), described(error), is_expected(error)) == (others, own, expected)


@pytest.mark.parametrize(
    ("error", "traced"), [(OSError("No space left."), True), (OutOfOrder("Not now."), False), (None, False)]
)
def test_what_nobody_waits_for_is_logged(
    caplog: pytest.LogCaptureFixture, error: Exception | None, traced: bool
) -> None:
    done = Future[None]()
    done.add_done_callback(log_failure)
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
    assert len(caplog.records) == (error is not None)
    assert [bool(record.exc_info) for record in caplog.records] == [traced] * (error is not None)
    if error is not None:
        assert str(error) in caplog.text
    cancelled = Future[None]()
    cancelled.add_done_callback(log_failure)
    assert cancelled.cancel()
    assert len(caplog.records) == (error is not None)
