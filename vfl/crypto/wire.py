"""Ciphertexts as bytes, and the checks of every ciphertext that arrives."""

import math
from collections.abc import Sequence

from gmpy2 import mpz

from vfl.crypto.kernels import InvalidCiphertext
from vfl.crypto.keys import PublicKey


def ciphertext_width(public_key: PublicKey) -> int:
    """Count the bytes of one ciphertext, an integer below n**2.

    Examples:
        >>> ciphertext_width(PublicKey(2**2047 + 1))
        512
    """
    return (2 * public_key.bits + 7) // 8


def to_bytes(values: Sequence[int], width: int) -> bytes:
    """Write non-negative integers as big-endian bytes, all of one width, so that lengths tell nothing of values.

    Raises:
        OverflowError: if a value is negative or needs more than `width` bytes.

    Examples:
        >>> to_bytes([65, 66], width=1)
        b'AB'
    """
    return b"".join(value.to_bytes(width, "big") for value in values)


def from_bytes(data: bytes, count: int, width: int) -> tuple[int, ...]:
    """Read what `to_bytes` wrote.

    Raises:
        InvalidCiphertext: if the data is not exactly `count` integers of `width` bytes.

    Examples:
        >>> from_bytes(b"AB", count=2, width=1)
        (65, 66)
    """
    if len(data) != count * width:
        raise InvalidCiphertext(f"Expected {count} integers of {width} bytes, {count * width} in all, got {len(data)}.")
    return tuple(int.from_bytes(data[i : i + width], "big") for i in range(0, len(data), width))


def check_ciphertexts(public_key: PublicKey, values: Sequence[int], expected_count: int) -> None:
    """Accept only elements of Z_{n**2}*: 0 < c < n**2 and gcd(c, n) = 1, in the expected number.

    Raises:
        InvalidCiphertext: says which index is wrong, and how.

    Examples:
        >>> check_ciphertexts(PublicKey(77), [7], expected_count=1)
        Traceback (most recent call last):
            ...
        vfl.crypto.kernels.kernel.InvalidCiphertext: Ciphertext 0 shares a factor with the modulus.
    """
    if len(values) != expected_count:
        raise InvalidCiphertext(f"Expected {expected_count} ciphertexts, got {len(values)}.")
    n = mpz(public_key.n)
    product = mpz(1)
    for index, value in enumerate(values):
        if not 0 < value < public_key.n_squared:
            raise InvalidCiphertext(f"Ciphertext {index} is not between 0 and n**2.")
        product = product * value % n
    if math.gcd(int(product), public_key.n) == 1:  # one gcd for all; a second look only where something is wrong
        return
    for index, value in enumerate(values):
        if math.gcd(value, public_key.n) != 1:
            raise InvalidCiphertext(f"Ciphertext {index} shares a factor with the modulus.")
