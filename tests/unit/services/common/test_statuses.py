"""What a failed call becomes, and what a caller is told of an error."""

from dataclasses import dataclass
from typing import Any

import grpc
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
)
from services.common.statuses import error_of, naming, naming_the_party, status_of

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
