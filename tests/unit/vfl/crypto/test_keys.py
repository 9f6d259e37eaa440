"""Key generation, the raw integer layer, and what a private key refuses to give away."""

import copy
import math
import pickle
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gmpy2
import phe
import pytest

from vfl.crypto import InsecureKey, MalformedKey, PrivateKey, PublicKey, keygen
from vfl.crypto.engine import Engine
from vfl.crypto.kernels import FixedBases, PortableKernel
from vfl.crypto.obfuscation import OwnerObfuscator

KeyPair = tuple[PublicKey, PrivateKey]


@pytest.mark.parametrize("bits", [128, 256, 520])
def test_keygen_makes_blum_moduli_of_exactly_the_asked_length(bits: int) -> None:
    public_key, private_key = keygen(bits, insecure=True)
    p, q = private_key.p, private_key.q
    assert public_key.n == p * q
    assert public_key.n.bit_length() == public_key.bits == bits
    assert gmpy2.is_prime(p)
    assert gmpy2.is_prime(q)
    assert p % 4 == q % 4 == 3
    assert math.gcd(p - 1, q - 1) == 2
    assert math.gcd(p * q, (p - 1) * (q - 1)) == 1


def test_keygen_never_repeats_a_prime() -> None:
    private_keys = [keygen(128, insecure=True)[1] for _ in range(20)]
    assert len({prime for key in private_keys for prime in (key.p, key.q)}) == 40


@pytest.mark.parametrize("bits", [1024, 2040])
def test_short_keys_are_refused_in_plain_words(bits: int) -> None:
    with pytest.raises(InsecureKey, match="2048"):
        keygen(bits)


@pytest.mark.parametrize("bits", [64, 129, 2049])
def test_impossible_lengths_are_refused(bits: int) -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        keygen(bits, insecure=True)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (7, 7),  # a square
        (7, 15),  # not a prime
        (13, 11),  # 13 = 1 mod 4
        (7, 19),  # gcd(6, 18) = 6
        (3, 7),  # 3 divides 7 - 1
    ],
)
def test_malformed_keys_are_refused(p: int, q: int) -> None:
    with pytest.raises(MalformedKey):
        PrivateKey(p, q)


def test_known_answer_by_hand() -> None:
    # n = 77, n**2 = 5929. 2**77 = 3791 mod 5929, and (1 + 3 * 77) * 3791 = 879512 = 2020 mod 5929.
    assert PublicKey(77).raw_encrypt(3, 2) == 2020
    assert PrivateKey(7, 11).raw_decrypt(2020) == 3
    assert PublicKey(77).raw_encrypt(-1, 1) == 1 + 76 * 77


def test_raw_encryption_agrees_with_phe(small_keys: KeyPair) -> None:
    public_key, private_key = small_keys
    other = phe.PaillierPublicKey(public_key.n)
    other_private = phe.PaillierPrivateKey(other, private_key.p, private_key.q)
    for plaintext, randomness in [(0, 1), (12345, 67891), (public_key.n - 1, public_key.n - 2)]:
        ciphertext = public_key.raw_encrypt(plaintext, randomness)
        assert ciphertext == other.raw_encrypt(plaintext, r_value=randomness)
        assert private_key.raw_decrypt(ciphertext) == other_private.raw_decrypt(ciphertext) == plaintext


def test_every_plaintext_of_a_tiny_key_survives() -> None:
    private_key = PrivateKey(7, 11)
    for plaintext in range(77):
        assert private_key.raw_decrypt(private_key.raw_encrypt(plaintext)) == plaintext


def test_owner_encryption_is_randomised(small_keys: KeyPair) -> None:
    assert len({small_keys[1].raw_encrypt(5) for _ in range(50)}) == 50


def test_key_id_is_a_function_of_the_modulus() -> None:
    # SHA-256 of the single byte 0x4d, the letter M.
    assert PublicKey(77).key_id == "08f271887ce94707"
    assert PublicKey(77) == PublicKey(77)
    assert hash(PublicKey(77)) == hash(PublicKey(77))
    assert PublicKey(77) != PublicKey(21)


def test_private_key_shows_no_secret(small_keys: KeyPair) -> None:
    private_key = small_keys[1]
    private_key.raw_encrypt(1)
    for text in (repr(private_key), str(private_key), f"{[private_key]}"):
        assert str(private_key.p) not in text
        assert str(private_key.q) not in text
        assert private_key.public_key.key_id in text


@pytest.mark.parametrize("leave", [pickle.dumps, copy.copy, copy.deepcopy])
def test_private_key_does_not_leave_its_process(small_keys: KeyPair, leave: Any) -> None:
    with pytest.raises(TypeError, match="never leaves"):
        leave(small_keys[1])


def test_public_key_can_be_pickled(small_keys: KeyPair) -> None:
    public_key = small_keys[0]
    assert pickle.loads(pickle.dumps(public_key)) == public_key  # noqa: S301


def test_owner_obfuscators_are_uniform_in_a_group_of_nth_powers() -> None:
    p, q = 23, 31  # gcd(22, 30) = 2; the group has at most 22 * 30 / 2 = 330 elements
    n = p * q
    obfuscator = OwnerObfuscator(p, q, PortableKernel())
    drawn = 30_000
    counts = Counter(obfuscator.draw(drawn))
    expected = drawn / len(counts)
    assert all(abs(count - expected) < 7 * expected**0.5 for count in counts.values())
    nth_powers = {pow(r, n, n * n) for r in range(1, n) if math.gcd(r, n) == 1}
    assert set(counts) <= nth_powers
    first = next(iter(counts))
    assert {first * other % (n * n) for other in counts} == set(counts)  # closed: nothing is missing
    assert {gmpy2.jacobi(element, n) for element in counts} == {1}
    assert {gmpy2.jacobi(element, p) for element in counts} == {1, -1}  # -x**2 reaches beyond the squares


def test_owner_tables_are_built_once_by_many_threads() -> None:
    built = []
    start = threading.Barrier(8)

    class Counting(PortableKernel):
        def fixed_bases(self, *arguments: Any) -> FixedBases:
            built.append(arguments)
            time.sleep(0.01)  # long enough for the other threads to come in
            return super().fixed_bases(*arguments)

    _, private_key = keygen(256, insecure=True)
    engine = Engine(Counting())

    def encrypt(plaintext: int) -> int:
        start.wait()
        return engine.encrypt(private_key, [plaintext])[0]

    with ThreadPoolExecutor(8) as pool:
        ciphertexts = list(pool.map(encrypt, range(8)))
    assert [private_key.raw_decrypt(c) for c in ciphertexts] == list(range(8))
    assert len(built) == 2  # one for each prime
