"""Curve25519 for blinding: the RFCs' vectors, an independent ladder, and what a naive map of messages would tell."""

from __future__ import annotations

import copy
import hashlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator

import gmpy2
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from vfl.cores.cores import OneCore, Result, Task
from vfl.cores.own_children import packed_for_child
from vfl.crypto.curve25519 import BlindingKey, NotOnCurve, SmallOrder, check_coordinate, encode_to_curve

P = 2**255 - 19
A = 486662
SUITE = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_"
MESSAGES = [b"", b"abc", b"abcdef0123456789", b"q128_" + b"q" * 128, b"a512_" + b"a" * 512]
# RFC 9380, appendix J.4.2: Q is the mapped point, P is 8 Q.
Q_X = [
    "51125222da5e763d97f3c10fcc92ea6860b9ccbbd2eb1285728f566721c1e65b",
    "7d56d1e08cb0ccb92baf069c18c49bb5a0dcd927eff8dcf75ca921ef7f3e6eeb",
    "3fbe66b9c9883d79e8407150e7c2a1c8680bee496c62fabe4619a72b3cabe90f",
    "227e0bb89de700385d19ec40e857db6e6a3e634b1c32962f370d26f84ff19683",
    "3bcd651ee54d5f7b6013898aab251ee8ecc0688166fce6e9548d38472f6bd196",
]
P_X = [
    "1bb913f0c9daefa0b3375378ffa534bda5526c97391952a7789eb976edfe4d08",
    "7c22950b7d900fa866334262fcaea47a441a578df43b894b4625c9b450f9a026",
    "31ad08a8b0deeb2a4d8b0206ca25f567ab4e042746f792f4b7973f3ae2096c52",
    "027877759d155b1997d0d84683a313eb78bdb493271d935b622900459d52ceaa",
    "5fd892c0958d1a75f54c3182a18d286efab784e774d1e017ba2fb252998b5dc1",
]
# On the curve: zero, orders 4 and 8. The last two are the curve's points of order 8.
SMALL_ORDERS = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]


def encoded(u: int) -> bytes:
    return u.to_bytes(32, "little")


def ladder(scalar: int, u: int) -> int:
    """The Montgomery ladder of RFC 7748, section 5, on any scalar; slow and independent of what is tested."""
    x2, z2, x3, z3 = 1, 0, u, 1
    for bit in bin(scalar)[2:]:
        if bit == "1":
            x2, x3, z2, z3 = x3, x2, z3, z2
        plus, minus = (x2 + z2) ** 2, (x2 - z2) ** 2
        cross = (x3 - z3) * (x2 + z2), (x3 + z3) * (x2 - z2)
        x3, z3 = (cross[0] + cross[1]) ** 2 % P, u * (cross[0] - cross[1]) ** 2 % P
        x2, z2 = plus * minus % P, (plus - minus) * (plus + 121665 * (plus - minus)) % P
        if bit == "1":
            x2, x3, z2, z3 = x3, x2, z3, z2
    return x2 * pow(z2, -1, P) % P


def is_on_curve(coordinate: bytes) -> bool:
    u = int.from_bytes(coordinate, "little")
    return bool(gmpy2.jacobi((u**3 + A * u * u + u) % P, P) == 1)


def test_vectors_of_rfc_9380() -> None:
    mapped = [int.from_bytes(point, "little") for point in encode_to_curve(MESSAGES, SUITE)]
    assert mapped == [int(value, 16) for value in Q_X]
    assert [ladder(8, u) for u in mapped] == [int(value, 16) for value in P_X]


def test_vectors_of_rfc_7748_hold_for_the_power_that_blinding_uses() -> None:
    for scalar, u, result in (
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
        ),
    ):
        key = BlindingKey()
        key._key = X25519PrivateKey.from_private_bytes(bytes.fromhex(scalar))
        assert key.blind(bytes.fromhex(u)).hex() == result


@given(st.binary(max_size=40), st.binary(min_size=32, max_size=32))
def test_a_blinded_point_is_the_ladders(message: bytes, secret: bytes) -> None:
    key = BlindingKey()
    key._key = X25519PrivateKey.from_private_bytes(secret)
    scalar = (int.from_bytes(secret, "little") & (2**254 - 8)) | 2**254
    (point,) = encode_to_curve([message], SUITE)
    assert int.from_bytes(key.blind(point), "little") == ladder(scalar, int.from_bytes(point, "little"))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=8))
def test_many_messages_are_mapped_as_each_alone_and_lie_on_the_curve(messages: list[bytes]) -> None:
    points = encode_to_curve(messages, SUITE)
    assert points == [encode_to_curve([message], SUITE)[0] for message in messages]
    for point in points:
        check_coordinate(point)
        assert is_on_curve(point)


def test_powers_commute() -> None:
    first, second = BlindingKey(), BlindingKey()
    for point in encode_to_curve(MESSAGES, SUITE):
        assert first.blind(second.blind(point)) == second.blind(first.blind(point)) != first.blind(point)


def test_other_applications_get_other_points() -> None:
    assert encode_to_curve([b"id"], SUITE) != encode_to_curve([b"id"], b"another")


# -- what a naive map tells -------------------------------------------------------------------------------------------


def test_a_hash_taken_as_a_coordinate_tells_a_bit_of_each_message_through_every_blinding() -> None:
    messages = [b"%d" % number for number in range(300)]
    key = X25519PrivateKey.generate()
    naive = [hashlib.sha256(message).digest()[:31] + b"\0" for message in messages]
    blinded = [key.exchange(X25519PublicKey.from_public_bytes(point)) for point in naive]
    # Curve or twist is a message's own, and whoever guesses the message sees it in the blinded value.
    assert [is_on_curve(point) for point in blinded] == [is_on_curve(point) for point in naive]
    assert 90 < sum(map(is_on_curve, blinded)) < 210


def test_blinded_points_of_ours_tell_no_such_bit() -> None:
    key = BlindingKey()
    points = encode_to_curve([b"%d" % number for number in range(300)], SUITE)
    assert all(map(is_on_curve, points))
    assert all(is_on_curve(key.blind(point)) for point in points)


# -- what is received -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 31, 33])
def test_other_sizes_are_refused(size: int) -> None:
    with pytest.raises(NotOnCurve, match="32 bytes"):
        check_coordinate(bytes(size))


def test_only_canonical_coordinates_on_the_curve_are_taken() -> None:
    point = int.from_bytes(encode_to_curve([b"id"], SUITE)[0], "little")
    small = next(u for u in range(2, 40) if is_on_curve(encoded(u)))
    twist = next(u for u in range(2, 40) if not is_on_curve(encoded(u)))
    check_coordinate(encoded(point))
    check_coordinate(encoded(small))
    # X25519 takes each of these for a coordinate: bit 255 set, u + p under 2^255, the twist's.
    for bad in (point | 1 << 255, small + P if small < 19 else P + 1, P, twist):
        X25519PublicKey.from_public_bytes(encoded(bad))
        with pytest.raises(NotOnCurve):
            check_coordinate(encoded(bad))


@pytest.mark.parametrize("u", SMALL_ORDERS)
def test_points_of_small_order_are_refused_by_the_check_or_by_the_power(u: int) -> None:
    def receive(coordinate: bytes) -> None:
        check_coordinate(coordinate)
        BlindingKey().blind(coordinate)

    with pytest.raises(NotOnCurve):
        receive(encoded(u))


def test_the_check_agrees_with_the_curves_equation_on_random_bytes() -> None:
    verdicts = []
    for _ in range(400):
        value = os.urandom(32)
        try:
            check_coordinate(value)
            verdicts.append(True)
        except NotOnCurve:
            verdicts.append(False)
        assert verdicts[-1] == (int.from_bytes(value, "little") < P and is_on_curve(value))
    assert 40 < sum(verdicts) < 160


def test_a_key_leaves_its_process_for_its_own_workers_only() -> None:
    key = BlindingKey()
    for leave in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="own workers only"):
            leave(key)
    point = encode_to_curve([b"a"], SUITE)[0]
    assert pickle.loads(packed_for_child(key)).blind(point) == key.blind(point)  # noqa: S301


def test_no_task_of_a_core_shows_the_secret_or_a_message() -> None:
    class Seeing(OneCore):
        def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
            shown = list(tasks)
            seen.extend(map(repr, shown))
            return super().map(function, shown)

    seen: list[str] = []
    key = BlindingKey()
    messages = [b"alice", b"bob"]
    blinded = b"".join(key.powers_of_messages([messages[:1], messages[1:]], SUITE, Seeing()))
    assert blinded == b"".join(key.blind(point) for point in encode_to_curve(messages, SUITE))
    again = b"".join(key.powers([blinded], Seeing(), check=True))
    assert again == key.blind(blinded[:32]) + key.blind(blinded[32:])
    assert len(seen) == 3
    secret = key._key.private_bytes_raw()
    assert not any(part in one for one in seen for part in ("alice", str(secret)[2:-1], secret.hex()))


def test_what_is_no_point_is_refused_by_its_kind() -> None:
    key = BlindingKey()
    point = encode_to_curve([b"a"], SUITE)[0]
    for bad, kind in ((encoded(2), NotOnCurve), (point[:31], NotOnCurve), (encoded(1), SmallOrder)):
        with pytest.raises(kind) as caught:
            list(key.powers([point + bad], OneCore(), check=True))
        assert type(caught.value) is kind
