"""Private set intersection of the parties' ids: the two roles of openmined's ECDH protocol, on bytes.

The server sends its encrypted ids (`setup`), the client its own (`request`), the server encrypts those again
(`respond`) and the client compares. The client learns which of its ids the server has and the size of the
server's table; the server learns the size of the client's table and nothing else. Ids outside the
intersection stay hidden as long as decisional Diffie-Hellman is hard on P-256 and one key is used for one
alignment, hence a fresh key per object. What the protocol cannot prevent: a client that asks for guessed ids.
It is held to the number of ids that it declared, and to one query.

The elements are compared as they are (no Bloom filter): no false positives. Cost: about 0.05 ms per id and
message on one core, in native code that releases the interpreter lock: run it in a thread, not on an event
loop.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import private_set_intersection.python as openmined
from google.protobuf.message import DecodeError

# Unused by the raw representation, required by openmined's signature.
_FALSE_POSITIVE_RATE = 1e-9


class PsiError(ValueError):
    """An alignment was refused or a message is malformed; the message says what to do. Never shows an id."""


class EmptyIntersection(PsiError):
    """The parties have no id in common."""


class PsiServer:
    """The side whose ids are asked for, for one alignment with one client.

    One object answers one request: answering a second would let the client test further ids for membership.
    Make a new object, and so a new key, for the next alignment.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        """ids: distinct, non-empty collection. Raises PsiError otherwise."""
        self._ids = _checked_ids(ids)
        self._server = openmined.server.CreateWithNewKey(True)
        self._client_count: int | None = None
        self._answered = False
        # The native calls release the interpreter lock: two requests at a time must not both be the first.
        self._lock = threading.Lock()

    def setup(self, client_count: int) -> bytes:
        """The server's encrypted ids, sorted by ciphertext so that their order says nothing.

        client_count: the number of ids the client declares, its limit in `respond`. Raises PsiError for a
        count below 1 and when called twice (the limit must not move).
        """
        if client_count < 1:
            raise PsiError(f"Expected a client with at least one id, got {client_count}: check the client's table.")
        with self._lock:
            if self._client_count is not None:
                raise PsiError("This alignment is already set up: start a new one.")
            self._client_count = client_count
        message = self._server.CreateSetupMessage(
            _FALSE_POSITIVE_RATE, client_count, self._ids, openmined.DataStructure.RAW
        )
        data: bytes = message.SerializeToString()
        return data

    def respond(self, request: bytes) -> bytes:
        """The client's encrypted ids, encrypted again, in the client's order and as many.

        Raises PsiError: before `setup`; a second request; malformed bytes; more ids than the client declared.
        """
        if self._client_count is None:
            raise PsiError("The client's request came before the set-up: call setup first.")
        message = _parsed(openmined.Request, request, "request")
        count = len(message.encrypted_elements)
        if count == 0 or not message.reveal_intersection:
            raise PsiError("The request asks for nothing or for a size only: send the request of a PsiClient.")
        if count > self._client_count:
            raise PsiError(
                f"The request holds {count} ids but the client declared {self._client_count}: "
                "declare the true number of rows."
            )
        with self._lock:
            if self._answered:
                raise PsiError("One alignment answers one request: start a new alignment.")
            self._answered = True
        try:
            response = self._server.ProcessRequest(message)
        except RuntimeError:
            raise PsiError("The request holds an element that is not on the curve: start a new alignment.") from None
        if len(response.encrypted_elements) != count:
            raise PsiError("The answer lost or gained elements: start a new alignment.")
        data: bytes = response.SerializeToString()
        return data


class PsiClient:
    """The side that learns the intersection, for one alignment with one server."""

    def __init__(self, ids: Iterable[str]) -> None:
        """ids: distinct, non-empty collection. Raises PsiError otherwise."""
        self._ids = _checked_ids(ids)
        self._client = openmined.client.CreateWithNewKey(True)

    def request(self) -> bytes:
        """This side's ids, encrypted under its fresh key."""
        data: bytes = self._client.CreateRequest(self._ids).SerializeToString()
        return data

    def intersect(self, setup: bytes, response: bytes) -> list[str]:
        """This side's ids that the server has too, in this side's order; may be empty.

        Raises PsiError: malformed bytes, a set-up in another representation than raw elements, a response
        with another number of elements than the request had.
        """
        setup_message = _parsed(openmined.ServerSetup, setup, "set-up")
        if setup_message.WhichOneof("data_structure") != "raw":
            # The compressed ones have false positives, and malformed parameters reach unchecked native code.
            raise PsiError("The set-up does not hold raw elements: use the set-up of a PsiServer.")
        response_message = _parsed(openmined.Response, response, "response")
        if len(response_message.encrypted_elements) != len(self._ids):
            raise PsiError(
                f"The response holds {len(response_message.encrypted_elements)} elements for "
                f"{len(self._ids)} ids: "
                "start a new alignment."
            )
        try:
            found = self._client.GetIntersection(setup_message, response_message)
        except RuntimeError:
            raise PsiError("The response holds an element that is not on the curve: start a new alignment.") from None
        return [self._ids[index] for index in sorted(found)]


def common_order(intersection: Iterable[str]) -> list[str]:
    """The public order of the common rows: the ids sorted by code point, so that no file's order shows.

    Raises EmptyIntersection when there is no id.
    """
    ids = sorted(set(intersection))
    if not ids:
        raise EmptyIntersection(
            "The parties have no id in common: check that all use the same id, written the same way "
            "(leading zeros, upper and lower case, accents)."
        )
    return ids


def rows_of(table_ids: Sequence[str], common_ids: Sequence[str]) -> npt.NDArray[np.int64]:
    """The row numbers (m,), counted from 0, of the m common ids in a table, in the order of common_ids.

    Raises PsiError when the table lacks one of them.
    """
    row_of = {value: row for row, value in enumerate(table_ids)}
    missing = sum(value not in row_of for value in common_ids)
    if missing:
        raise PsiError(f"This table lacks {missing} of the {len(common_ids)} common ids: align the tables again.")
    return np.array([row_of[value] for value in common_ids], dtype=np.int64)


def _checked_ids(ids: Iterable[str]) -> list[str]:
    values = list(ids)
    if not values:
        raise PsiError("There are no ids to align: check the table.")
    if len(set(values)) < len(values):
        raise PsiError("The ids are not distinct: keep one row per id.")
    try:
        for value in values:
            value.encode()
    except UnicodeEncodeError:
        raise PsiError("An id is not valid Unicode text: repair the id column.") from None
    return values


def _parsed(message_type: Any, data: bytes, what: str) -> Any:
    """An openmined message from bytes; the package has no types."""
    try:
        return message_type.FromString(data)
    except DecodeError:
        raise PsiError(f"The {what} is malformed: check that both sides run the same version.") from None
