"""Ciphers by name: those built in, and those that other packages register under ``plumbline.ciphers``.

A session's plan names one, with its options. What a party does under it belongs to the protocol that it is used in.
"""

import math
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Protocol

from vfl.crypto.keys import MINIMUM_SECURE_BITS
from vfl.plugin_options import described, expected_of, from_to
from vfl.plugin_registry import PluginRegistry

# Longer keys take 25 s to generate and 300 MB of tables per session, at 8,192 bits; these 1.5 s and 100 MB. 3,072 bits
# are as strong as AES-128.
MOST_KEY_BITS = 4_096


class UnknownCipher(ValueError):
    """No cipher has this name; the message lists those there are."""


@dataclass(frozen=True)
class CipherSpec:
    """What every party may rely on before a session begins.

    Attributes:
        is_encrypted: whether only the key holder can read what travels.
        counts_equations: whether who asks for a decryption decides what is decrypted: then its room is counted.
    """

    is_encrypted: bool
    counts_equations: bool


class Cipher(Protocol):
    """A cipher with its options: a frozen dataclass, whose fields are the options, all of them public."""

    name: ClassVar[str]
    spec: ClassVar[CipherSpec]

    def __str__(self) -> str:
        """Name the cipher in a person's words."""

    @property
    def weakness(self) -> str:
        """Why these options protect nothing, as the begin of a sentence; empty where they do."""

    @property
    def residual_limit(self) -> float:
        """Residuals stay below it."""

    @property
    def residual_step(self) -> float:
        """Residuals travel as multiples of it; 0 where they are float64."""

    @property
    def capacity(self) -> int:
        """Bits that an answer has room for, where the key holder doesn't cut it."""

    @property
    def value_bytes(self) -> int:
        """Bytes of what travels, each."""


@dataclass(frozen=True)
class _FixedPointCipher:
    """The options of both ciphers, and their checks.

    Raises:
        ValueError: for an option out of its range.
    """

    packing: bool = described(
        True, "As many values per plaintext as are fast and tell nothing. off: one, the paper's protocol to the letter."
    )
    key_bits: int = described(
        2048,
        "Size of the Paillier modulus.",
        lambda value: 256 <= value <= MOST_KEY_BITS and value % 8 == 0,
        f"a multiple of 8 from 256 to {MOST_KEY_BITS}",
    )
    feature_fraction_bits: int = described(
        16,
        "Fixed point of features; a multiple of 4.",
        lambda value: value in range(4, 33, 4),
        "a multiple of 4 from 4 to 32",
    )
    residual_fraction_bits: int = described(
        32,
        "Fixed point of residuals; a multiple of 4.",
        lambda value: value in range(8, 49, 4),
        "a multiple of 4 from 8 to 48",
    )
    residual_integer_bits: int = described(7, "Residuals stay below 2 to this power.", *from_to(1, 14))
    rerandomise: bool = described(True, "off: INSECURE, answers keep the key holder's randomness.")

    def __post_init__(self) -> None:
        for option in fields(self):
            if expected := expected_of(option, value := getattr(self, option.name)):
                raise ValueError(f"Expected {option.name} to be {expected}, got {value!r}.")
        if self.residual_fraction_bits + self.residual_integer_bits > 52:
            raise ValueError("residual_fraction_bits + residual_integer_bits must be at most 52: lower one of them.")

    @property
    def capacity(self) -> int:
        """All plaintexts below the modulus."""
        return self.key_bits - 1


@dataclass(frozen=True)
class Paillier(_FixedPointCipher):
    """Paillier in fixed point, one key pair per party and session."""

    name: ClassVar[str] = "paillier"
    spec: ClassVar[CipherSpec] = CipherSpec(is_encrypted=True, counts_equations=True)

    def __str__(self) -> str:
        return f"Paillier, {self.key_bits}-bit keys, packing {'on' if self.packing else 'off'}"

    @property
    def weakness(self) -> str:
        """Short keys can be broken."""
        return "" if self.key_bits >= MINIMUM_SECURE_BITS else f"{self.key_bits}-bit Paillier keys can be broken"

    @property
    def residual_limit(self) -> float:
        """The end of the fixed point."""
        return 2.0**self.residual_integer_bits

    @property
    def residual_step(self) -> float:
        """The last digit of the fixed point."""
        return 2.0**-self.residual_fraction_bits

    @property
    def value_bytes(self) -> int:
        """A ciphertext is twice as long as the modulus."""
        return 2 * self.key_bits // 8


@dataclass(frozen=True)
class Plain(_FixedPointCipher):
    """INSECURE: float64 values in the clear. Its options are those of the encrypted session that it stands for.

    Batches, the grids of features and the ledger follow from them, so that both train alike.
    """

    name: ClassVar[str] = "plain"
    spec: ClassVar[CipherSpec] = CipherSpec(is_encrypted=False, counts_equations=False)
    weakness: ClassVar[str] = ""
    residual_limit: ClassVar[float] = math.inf
    residual_step: ClassVar[float] = 0.0
    value_bytes: ClassVar[int] = 8

    def __str__(self) -> str:
        return "INSECURE: none (cipher=plain)"


# What a session in the clear is compared with, and what an audit may take in its place.
ENCRYPTED, IN_THE_CLEAR = Paillier.name, Plain.name
_BUILT_IN = {cipher.name: f"{__name__}:{cipher.__name__}" for cipher in (Paillier, Plain)}

_MEMBERS = ("name", "weakness", "residual_limit", "residual_step", "capacity", "value_bytes")
ENTRY_POINT_GROUP = "plumbline.ciphers"
REGISTRY = PluginRegistry("cipher", ENTRY_POINT_GROUP, _BUILT_IN, UnknownCipher)

names = REGISTRY.names


def spec_of(name: str) -> CipherSpec:
    """Look up what a cipher declares; raises UnknownCipher, and ValueError for a plugin that declares nothing."""
    spec: CipherSpec = _class_of(name).spec
    return spec


def option_names(name: str) -> tuple[str, ...]:
    """List the names of a cipher's options; raises as ``spec_of``."""
    return tuple(one.name for one in fields(_class_of(name)) if one.init)


def load(name: str, /, **options: Any) -> Cipher:
    """Make a cipher from its name and options.

    Raises:
        UnknownCipher: for a name that no cipher has.
        ValueError: for options that it doesn't take, and where it lacks what its session asks for.
    """
    _class_of(name)
    cipher: Cipher = REGISTRY.load(name, **options)
    return cipher


def _class_of(name: str) -> Any:
    cipher = REGISTRY.class_of(name)
    if not is_dataclass(cipher) or not isinstance(getattr(cipher, "spec", None), CipherSpec):
        raise ValueError(f"{name} is no cipher: make it a frozen dataclass with a spec, a CipherSpec.")
    if lacking := [member for member in _MEMBERS if not hasattr(cipher, member)]:
        raise ValueError(f"{name} lacks {', '.join(lacking)}, which its session asks for.")
    return cipher
