"""Curve25519 for private set intersection: messages become points, points are blinded by a secret power.

Points are their u-coordinates, 32 bytes little-endian (RFC 7748). A power is X25519 of the `cryptography` package.
A message becomes a point by Elligator 2 (RFC 9380, suite curve25519_XMD:SHA-512_ELL2_NU_). X25519 multiplies by 8 times
a secret number, so the suite's last step, clearing the cofactor, is part of every power.

Guarantee: whoever sees powers under one secret key can't tell whose they are, as long as decisional Diffie-Hellman is
hard on Curve25519. Every message is on the curve. A hash taken as a coordinate would not do. Half of all 32-byte values
lie on the curve's twist, and X25519 accepts those too. A power of such a point stays on the twist, which tells a bit of
each message.

A key blinds many points on several cores, chunk by chunk. X25519 holds the interpreter's lock, so cores that gain are
processes: the secret travels to this process's own children, and to nobody else.

Not constant time: mapping a message (`encode_to_curve`) and checking a coordinate. The first happens to a party's own
messages in its own processes, the second to what anybody may know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import gmpy2
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from vfl.cores import Cores, OwnChildrenOnly
from vfl.cores.own_children import Rebuilt

COORDINATE_BYTES = 32

_PRIME = gmpy2.mpz(2**255 - 19)
# v^2 = u^3 + A u^2 + u
_A = 486662
# Of hash_to_field: 255 bits of the prime and 128 bits that make the bias negligible.
_UNIFORM_BYTES = 48
_PADDED_BLOCK = hashlib.sha512(bytes(128))


class NotOnCurve(ValueError):
    """The bytes are no point of Curve25519, or a point of small order."""


class SmallOrder(NotOnCurve):
    """A point whose power is zero under every key."""


def encode_to_curve(messages: Sequence[bytes], domain: bytes) -> list[bytes]:
    """Map messages to points, before any power.

    Args:
        messages: any bytes.
        domain: the application's name, at most 255 bytes; other applications get other points (RFC 9380, section 3.1).

    Returns:
        The points' u-coordinates, 32 bytes each.
    """
    elements = [_hash_to_field(message, domain) for message in messages]
    # 1 + 2 element^2 is never zero: -1/2 is no square modulo this prime.
    inverses = _inverses([1 + 2 * element * element for element in elements])
    return [_elligator2(inverse) for inverse in inverses]


def check_coordinate(coordinate: bytes) -> None:
    """Accept only 32 bytes of a canonical u < 2^255 - 19 on the curve, not on its twist.

    X25519 itself takes any 32 bytes and ignores the highest bit, so one point would have several names.

    Raises:
        NotOnCurve: for anything else.
    """
    if len(coordinate) != COORDINATE_BYTES:
        raise NotOnCurve(f"Expected {COORDINATE_BYTES} bytes of a coordinate, got {len(coordinate)}.")
    u = gmpy2.mpz.from_bytes(coordinate, "little")
    if u >= _PRIME or gmpy2.jacobi(_v_squared(u), _PRIME) != 1:
        raise NotOnCurve("A coordinate is not on Curve25519.")


def coordinates(points: bytes) -> list[bytes]:
    """Cut points that follow one another into coordinates; the last one is short where they aren't whole."""
    return [points[start : start + COORDINATE_BYTES] for start in range(0, len(points), COORDINATE_BYTES)]


class BlindingKey(OwnChildrenOnly):
    """A secret power that blinds points. It comes from the operating system and stays in memory; use it once.

    It can't be pickled or copied. ``powers`` and ``powers_of_messages`` take it to this process's own workers.
    """

    def __init__(self) -> None:
        self._key = X25519PrivateKey.generate()

    def rebuilt_in_child(self) -> Rebuilt:
        """Make the same key in a worker."""
        return _key_of, (self._key.private_bytes_raw(),)

    def blind(self, coordinate: bytes) -> bytes:
        """Raise a point to this key's power; powers of two keys commute.

        Args:
            coordinate: 32 bytes that `check_coordinate` accepted.

        Raises:
            SmallOrder: where the power is zero: no honest point has a small order.
        """
        try:
            return self._key.exchange(X25519PublicKey.from_public_bytes(coordinate))
        except ValueError:
            raise SmallOrder("A coordinate is a point of small order.") from None

    def powers(self, chunks: Iterable[bytes], cores: Cores, *, check: bool) -> Iterator[bytes]:
        """Raise chunks of points to this key's power, in their order.

        Args:
            chunks: 32 bytes a point, whole points.
            cores: of this process.
            check: whether to check every point of a chunk before the secret touches the first of them. Else that was
                done.

        Raises:
            NotOnCurve: for the first chunk that holds no point (with ``check``).
            SmallOrder: for the first that holds one of small order.
        """
        return cores.map(_powers_of_points, (_Points(self, chunk, check) for chunk in chunks))

    def powers_of_messages(self, chunks: Iterable[Sequence[bytes]], domain: bytes, cores: Cores) -> Iterator[bytes]:
        """Map chunks of messages to points (`encode_to_curve`) and raise those to this key's power, in their order."""
        return cores.map(_powers_of_messages, (_PowerTask(self, tuple(chunk), domain) for chunk in chunks))


@dataclass(frozen=True)
class _Points:
    """A core's task: points, and the secret power."""

    key: BlindingKey
    points: bytes = field(repr=False)
    check: bool


@dataclass(frozen=True)
class _PowerTask:
    """A core's task: messages, and the secret power."""

    key: BlindingKey
    messages: tuple[bytes, ...] = field(repr=False)
    domain: bytes


def _key_of(secret: bytes) -> BlindingKey:
    key = BlindingKey.__new__(BlindingKey)
    key._key = X25519PrivateKey.from_private_bytes(secret)
    return key


def _powers_of_points(task: _Points) -> bytes:
    points = coordinates(task.points)
    if task.check:
        for point in points:
            check_coordinate(point)
    return b"".join(map(task.key.blind, points))


def _powers_of_messages(task: _PowerTask) -> bytes:
    return b"".join(map(task.key.blind, encode_to_curve(task.messages, task.domain)))


def _hash_to_field(message: bytes, domain: bytes) -> gmpy2.mpz:
    """RFC 9380, sections 5.2 and 5.3.1: expand_message_xmd with SHA-512, one field element."""
    suffix = domain + len(domain).to_bytes(1, "big")
    first = _PADDED_BLOCK.copy()
    first.update(message + _UNIFORM_BYTES.to_bytes(2, "big") + b"\x00" + suffix)
    uniform = hashlib.sha512(first.digest() + b"\x01" + suffix).digest()[:_UNIFORM_BYTES]
    return gmpy2.mpz.from_bytes(uniform, "big") % _PRIME


def _elligator2(inverse: gmpy2.mpz) -> bytes:
    """RFC 9380, section 6.7.1 with Z = 2, the u-coordinate only, from 1 / (1 + 2 element^2)."""
    u = -_A * inverse % _PRIME
    if gmpy2.jacobi(_v_squared(u), _PRIME) == -1:
        u = (-_A - u) % _PRIME
    encoded: bytes = u.to_bytes(COORDINATE_BYTES, "little")
    return encoded


def _inverses(values: Sequence[gmpy2.mpz]) -> list[gmpy2.mpz]:
    """Invert numbers modulo the prime, by one inversion for all (Montgomery's trick)."""
    products = [gmpy2.mpz(1)]
    for value in values:
        products.append(products[-1] * value % _PRIME)
    inverse = gmpy2.invert(products.pop(), _PRIME)
    inverses = []
    for value, product in zip(reversed(values), reversed(products), strict=True):
        inverses.append(inverse * product % _PRIME)
        inverse = inverse * value % _PRIME
    return inverses[::-1]


def _v_squared(u: gmpy2.mpz) -> gmpy2.mpz:
    """Not reduced: a Jacobi symbol starts with a division anyway."""
    return u * (u * (u + _A) + 1)
