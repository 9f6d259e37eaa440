"""Private set intersection of two parties' ids by Diffie-Hellman on Curve25519: both roles, without a network.

The server sends its ids under its key, shuffled (`setup`). The client puts its own key on those as well
(`receive_setup`) and sends its own ids under its key, shuffled (`request`). The server puts its key on them
(`respond`), and the client compares (`intersect`). Powers of two keys commute, so the same id gives the same 32 bytes.

The client learns which of its ids the server has, and the size of the server's table. The server learns the size of the
client's table and nothing else. Ids outside the intersection stay hidden as long as one-more Diffie-Hellman is hard on
Curve25519 and one key is used for one alignment. Hence each object has a fresh key (`vfl.crypto.curve25519`). Both
sides map ids to points under a context, the alignment's name: another alignment's points can't be passed off as its.

The protocol cannot stop a client that asks for guessed ids. It holds the client to the number of ids that it declared,
and to one query, which is read to its end before the first answer: no answer helps to choose what is asked. Nor can it
stop a server that answers wrongly: the client then takes some of its ids for common that aren't.

Blinded ids travel in chunks of whole coordinates. A chunk is checked before a secret key touches it. Chunks are
blinded on several cores, a few ahead of the one that is given on; messages, refusals and their order are those of one.

A million ids take some 100 MB: ids, their orders and points are arrays, and nothing is a Python object per id.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np

from vfl.arrays import IntArray
from vfl.cores.cores import Cores, OneCore
from vfl.crypto.curve25519 import (
    COORDINATE_BYTES,
    BlindingKey,
    NotOnCurve,
    SmallOrder,
    check_coordinate,
    coordinates,
)
from vfl.data.id_array import MOST_ID_BYTES, IdArray, IdIndex
from vfl.data.point_set import PointSet

# An upper limit of either table, so that a peer's declaration bounds this party's memory.
MOST_IDS = 8_000_000
# 64 kB on the wire, a tenth of a second of work, and a peer's chunk is no larger.
CHUNK_IDS = 2048

_SUITE = b"plumbline-psi-v2-with-curve25519_XMD:SHA-512_ELL2_NU_"


class PsiError(ValueError):
    """An alignment was refused, or a message is malformed; the text says what to do and never shows an id.

    Examples:
        >>> PsiServer(["anna", "anna"])
        Traceback (most recent call last):
            ...
        vfl.data.psi.PsiError: The ids are not distinct: keep one row per id.
    """


@dataclass(frozen=True)
class BlindedIds:
    """A table's ids under a secret key, on their way.

    Attributes:
        count: how many there are.
        chunks: their coordinates, 32 bytes each, a whole number of them in every chunk.
        close: ends the stream that they come from, read to its end, half-way or not at all. A `with` block calls it.

    Examples:
        >>> with PsiServer(["anna", "ben"]).setup(client_count=1) as blinded:
        ...     print(blinded.count, sum(len(chunk) for chunk in blinded.chunks))
        2 64
    """

    count: int
    chunks: Iterable[bytes]
    close: Callable[[], object] = field(default=lambda: None, repr=False, compare=False)

    def __enter__(self) -> BlindedIds:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class PsiServer:
    """The side whose ids are asked for, in one alignment with one client.

    An object answers one request: answering a second would let the client test further ids for membership. The next
    alignment takes a new object, and so a new key.

    Examples:
        >>> server = PsiServer(["anna", "ben"])
        >>> server.setup(client_count=9).count, server.most_common
        (2, 2)
    """

    def __init__(self, ids: Iterable[str], context: str = "", cores: Cores | None = None) -> None:
        """Take the distinct ids of this side's table.

        Args:
            ids: distinct, at least one.
            context: the name of the alignment, the same at both sides.
            cores: of this machine, which blind with this side's key. None for the one that calls.

        Raises:
            PsiError: if there are none, or an id is there twice.
        """
        self._ids = _checked_ids(ids)
        self._blinding = _Blinding(BlindingKey(), _domain(context), cores or OneCore())
        self._client_count: int | None = None
        self._answered = False
        self._is_done = False
        # Two requests at a time must not both be the first.
        self._lock = threading.Lock()

    @property
    def client_count(self) -> int:
        """How many ids the client has declared; 0 before `setup`."""
        return self._client_count or 0

    @property
    def most_common(self) -> int:
        """The largest intersection that there can be: of the declared ids and this side's own. 0 before `setup`."""
        return min(self.client_count, len(self._ids))

    @property
    def is_done(self) -> bool:
        """Whether the client's request was answered to its end."""
        return self._is_done

    def setup(self, client_count: int) -> BlindedIds:
        """Send the server's blinded ids, in a random order that says nothing.

        Args:
            client_count: how many ids the client declares, and has to send to `respond`.

        Raises:
            PsiError: for a count below 1 or beyond MOST_IDS, and when called twice: the number must not move.
        """
        if not 1 <= client_count <= MOST_IDS:
            raise PsiError(f"Expected a client with 1 to {MOST_IDS} ids, got {client_count}: check the client's table.")
        with self._lock:
            if self._client_count is not None:
                raise PsiError("This alignment is already set up: start a new one.")
            self._client_count = client_count
        return BlindedIds(len(self._ids), self._blinding.of_ids(self._ids, _random_order(len(self._ids))))

    def close(self) -> None:
        """End the alignment, wherever it is: no worker keeps the key, though somebody holds a half-read stream."""
        self._blinding.end()

    def respond(self, request: Iterable[bytes]) -> Iterator[bytes]:
        """Blind the client's blinded ids with this key too, in the client's order.

        Raises:
            PsiError: at once before `setup` and for a second request; before the first answer for bytes that are no
                points and another number of ids than the client declared; before the answer concerned for an id that
                comes twice.
        """
        if self._client_count is None:
            raise PsiError("The client's request came before the set-up: call setup first.")
        with self._lock:
            if self._answered:
                raise PsiError("One alignment answers one request: start a new alignment.")
            self._answered = True
        return self._answers(BlindedIds(self._client_count, request))

    def _answers(self, request: BlindedIds) -> Iterator[bytes]:
        # All of it first: with an answer in hand the client could choose what to ask next.
        points = bytearray()
        for chunk in _on_curve(_whole_chunks(request, "request"), "request"):
            points += chunk
        distinct = _DistinctPoints("request", request.count)
        for answer in self._blinding.of_points(_cut(points), "request", check=False):
            distinct.add(answer)
            yield answer
        self._is_done = True


class PsiClient:
    """The side that learns the intersection, in one alignment with one server.

    Examples:
        >>> server, client = PsiServer(["anna", "ben"]), PsiClient(["ben", "carl"])
        >>> client.receive_setup(server.setup(client_count=2))
        >>> client.intersect(server.respond(client.request()))
        ['ben']
    """

    def __init__(self, ids: Iterable[str], context: str = "", cores: Cores | None = None) -> None:
        """Take the distinct ids of this side's table.

        Args:
            ids: distinct, at least one.
            context: the name of the alignment, the same at both sides.
            cores: of this machine, which blind with this side's key. None for the one that calls.

        Raises:
            PsiError: if there are none, or an id is there twice.
        """
        self._ids = _checked_ids(ids)
        self._blinding = _Blinding(BlindingKey(), _domain(context), cores or OneCore())
        # What is asked about, as rows of the table.
        self._asked = _random_order(len(self._ids))
        self._server_points: PointSet | None = None

    def receive_setup(self, setup: BlindedIds) -> None:
        """Put this side's key on the server's blinded ids.

        Raises:
            PsiError: for no id or more than MOST_IDS, bytes that are no points, an id that comes twice, and another
                number of ids than announced.
        """
        if not 1 <= setup.count <= MOST_IDS:
            raise PsiError(f"Expected a set-up of 1 to {MOST_IDS} ids, got {setup.count}: check the server's table.")
        distinct = _DistinctPoints("set-up", setup.count)
        for powers in self._blinding.of_points(_whole_chunks(setup, "set-up"), "set-up", check=True):
            distinct.add(powers)
        self._server_points = distinct.points

    def request(self) -> Iterator[bytes]:
        """Send this side's ids, blinded under its fresh key, in a random order of its own."""
        return self._blinding.of_ids(self._ids, self._asked)

    def close(self) -> None:
        """End the alignment, wherever it is: no worker keeps the key, though somebody holds a half-read stream."""
        self._blinding.end()

    def intersect(self, response: Iterable[bytes]) -> list[str]:
        """Find this side's ids that the server has too, in this side's order; may be empty.

        Raises:
            PsiError: as ``common_rows``.
        """
        return list(self._ids.take(self.common_rows(response)))

    def common_rows(self, response: Iterable[bytes]) -> IntArray:
        """Find which of this side's ids the server has too: their places among the ids, ascending; may be none.

        Raises:
            PsiError: before `receive_setup`, and for bytes that are no points, an id that comes twice, and another
                number of ids than the request had.
        """
        if self._server_points is None:
            raise PsiError("The server's set-up is missing: call receive_setup first.")
        count = len(self._ids)
        distinct, is_common = _DistinctPoints("response", count), np.zeros(count, dtype=np.bool_)
        place = 0
        for chunk in _on_curve(_whole_chunks(BlindedIds(count, response), "response"), "response"):
            distinct.add(chunk)
            are_common = self._server_points.holds(chunk)
            is_common[self._asked[place : place + len(are_common)]] = are_common
            place += len(are_common)
        return np.flatnonzero(is_common)


@dataclass(frozen=True, eq=False)
class _Blinding:
    """One side's secret work: a key, the domain of its points, and the cores that do it."""

    key: BlindingKey
    domain: bytes
    cores: Cores
    _is_over: threading.Event = field(default_factory=threading.Event)

    def of_ids(self, ids: IdArray, order: IntArray) -> Iterator[bytes]:
        """Blind the ids, in this order, as points."""
        chunks = (
            [value.encode() for value in ids.take(order[start : start + CHUNK_IDS])]
            for start in range(0, len(order), CHUNK_IDS)
        )
        return self._then_forgotten(self.key.powers_of_messages(chunks, self.domain, self.cores))

    def of_points(self, chunks: Iterable[bytes], what: str, *, check: bool) -> Iterator[bytes]:
        """Raise the other side's points to the key, chunk by chunk.

        Cores draw chunks ahead of their turn. A chunk that is refused as it is drawn is refused in its turn, so that
        of several faults the first one is told, however many cores there are.
        """
        faults: list[PsiError] = []

        def until_a_fault() -> Iterator[bytes]:
            try:
                yield from chunks
            except PsiError as fault:
                faults.append(fault)

        with _in_words(what):
            yield from self._then_forgotten(self.key.powers(until_a_fault(), self.cores, check=check))
        if faults:
            raise faults[0]

    def _then_forgotten(self, powers: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the chunks on. No worker is left that has seen the key when they end, or nobody goes on with them."""
        try:
            for chunk in powers:
                # A thread that was drawing this one when the alignment ended has started workers again.
                self._check_open()
                yield chunk
        finally:
            self.cores.forget()

    def _check_open(self) -> None:
        if self._is_over.is_set():
            raise PsiError("This alignment has ended: start a new one.")

    def end(self) -> None:
        """Blind nothing more, and let workers forget the key."""
        self._is_over.set()
        self.cores.forget()


class _DistinctPoints:
    """Points of one message, each of which may come once: a table has distinct ids."""

    def __init__(self, what: str, most: int) -> None:
        self.points = PointSet(most)
        self._what = what

    def add(self, points: bytes) -> None:
        if not self.points.add(points):
            raise PsiError(f"The {self._what} holds an id twice: keep one row per id and start a new alignment.")


def _whole_chunks(blinded: BlindedIds, what: str) -> Iterator[bytes]:
    """Pass the chunks on as they come; raises PsiError for what can't be whole points, and for another count."""
    received = 0
    for chunk in blinded.chunks:
        if not chunk or len(chunk) % COORDINATE_BYTES or len(chunk) > COORDINATE_BYTES * CHUNK_IDS:
            raise PsiError(f"The {what} is malformed: check that both sides run the same version.")
        received += len(chunk) // COORDINATE_BYTES
        if received > blinded.count:
            raise PsiError(f"The {what} holds more ids than the {blinded.count} declared: declare the true number.")
        yield chunk
    if received < blinded.count:
        raise PsiError(f"The {what} holds {received} ids where {blinded.count} were declared: start a new alignment.")


def _on_curve(chunks: Iterable[bytes], what: str) -> Iterator[bytes]:
    """Pass the chunks on, once all of their points are checked; raises PsiError for what is none."""
    for chunk in chunks:
        with _in_words(what):
            for coordinate in coordinates(chunk):
                check_coordinate(coordinate)
        yield chunk


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    """Raise PsiError for what is no point, or none that an id has."""
    try:
        yield
    except SmallOrder:
        raise PsiError("An element has a small order, which no id has: start a new alignment.") from None
    except NotOnCurve:
        raise PsiError(f"The {what} holds an element that is not on the curve: start a new alignment.") from None


def _cut(points: bytearray) -> Iterator[bytes]:
    for start in range(0, len(points), COORDINATE_BYTES * CHUNK_IDS):
        yield bytes(points[start : start + COORDINATE_BYTES * CHUNK_IDS])


def _random_order(count: int) -> IntArray:
    """Draw an order from the operating system, each as likely: a table's own would tell who knows one place."""
    while True:
        draws = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)
        order = np.argsort(draws)
        # Distinct draws stand in every order equally often. Two that are equal, as seldom as they are, would not.
        ascending = draws[order]
        if (ascending[1:] != ascending[:-1]).all():
            return order


def _domain(context: str) -> bytes:
    """Name the domain of one alignment's points; a digest, since RFC 9380 allows 255 bytes."""
    return _SUITE + hashlib.sha256(context.encode()).digest()


def _checked_ids(ids: Iterable[str]) -> IdArray:
    try:
        values = IdArray.of(ids)
    except ValueError as error:
        raise PsiError(str(error)) from None
    if not values:
        raise PsiError("There are no ids to align: check the table.")
    if values.has_repeats:
        raise PsiError("The ids are not distinct: keep one row per id.")
    if values.longest > MOST_ID_BYTES:
        raise PsiError(
            f"An id has {values.longest} bytes, at most {MOST_ID_BYTES} can be aligned: choose another id column."
        )
    return values


class EmptyIntersection(PsiError):
    """The parties have no id in common.

    Examples:
        >>> common_order([])
        Traceback (most recent call last):
            ...
        vfl.data.psi.EmptyIntersection: The parties have no id in common: check that all use the same id, ...
    """


def common_order(intersection: Iterable[str]) -> list[str]:
    """Put the common rows in their public order: the ids sorted by code point, so that no file's order shows.

    Raises:
        EmptyIntersection: when there is no id.

    Examples:
        >>> common_order(["ben", "anna"])
        ['anna', 'ben']
    """
    ids = sorted(set(intersection))
    _check_any(len(ids))
    return ids


def rows_in_common_order(table_ids: IdArray, common_rows: IntArray) -> IntArray:
    """Put the rows of common ids (m,), numbers of a table's rows, in the order of `common_order`.

    Raises:
        EmptyIntersection: when there is none.

    Examples:
        >>> from vfl.data.id_array import IdArray
        >>> rows_in_common_order(IdArray.of(["carl", "ben", "anna"]), np.array([1, 2]))
        array([2, 1])
    """
    _check_any(len(common_rows))
    return common_rows[table_ids.take(common_rows).order()]


def _check_any(common: int) -> None:
    if not common:
        raise EmptyIntersection(
            "The parties have no id in common: check that all use the same id, written the same way "
            "(leading zeros, upper and lower case, accents)."
        )


def rows_of(table_ids: Sequence[str], common_ids: Sequence[str]) -> IntArray:
    """Find the row numbers (m,), from 0, of m common ids in a table, in the order of common_ids.

    Raises:
        PsiError: when the table lacks one of them.

    Examples:
        >>> rows_of(["carl", "ben", "anna"], ["anna", "ben"])
        array([2, 1])
    """
    rows = IdIndex(IdArray.of(table_ids)).rows(common_ids)
    if missing := int((rows < 0).sum()):
        raise PsiError(f"This table lacks {missing} of the {len(common_ids)} common ids: align the tables again.")
    return rows
