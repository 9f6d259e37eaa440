"""Vectors as they travel, and a public key as it is shown."""

from collections.abc import Iterator
from dataclasses import dataclass

from services.common.errors import InvalidMessage, one_line
from services.common.wire import parts_of

# Of a fixed width each, big-endian: residues, ciphertexts, words.
INTEGERS = "integers"


@dataclass(frozen=True)
class VectorHeader:
    """What travels before a vector's values.

    Attributes:
        key_id: of the key that they are encrypted under; empty for none.
        count: how many there are.
        width: bytes of each value.
        exponent: of the fixed point.
        numbers: what values are: integers, big-endian, or a type of NumPy's, little-endian.
    """

    key_id: str
    count: int
    width: int
    exponent: int = 0
    numbers: str = INTEGERS

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return self.count * self.width

    def check(self, expected: "VectorHeader", kind: str = "") -> None:
        """Raise InvalidMessage when the header isn't the one that the session's terms demand; names the kind if any."""
        for name, value in vars(expected).items():
            if (actual_value := getattr(self, name)) != value:
                raise InvalidMessage(
                    f"Wrong {name.replace('_', ' ')}{kind and f' of {kind}'}: expected {value}, got "
                    f"{one_line(str(actual_value))}."
                )


@dataclass(frozen=True)
class WireVector:
    """A vector as it travels.

    Attributes:
        key_id: of the key that it is encrypted under; empty for none.
        count: how many values it has.
        width: bytes of each value.
        exponent: of the fixed point.
        data: the values, one after the other.
        numbers: what values are, as a header says it.
    """

    key_id: str
    count: int
    width: int
    exponent: int
    data: bytes
    numbers: str = INTEGERS

    @classmethod
    def of(cls, header: VectorHeader, data: bytes) -> "WireVector":
        """Put values behind their header."""
        return cls(header.key_id, header.count, header.width, header.exponent, data, header.numbers)

    @property
    def header(self) -> VectorHeader:
        """What travels before the values."""
        return VectorHeader(self.key_id, self.count, self.width, self.exponent, self.numbers)

    def parts(self) -> Iterator[bytes]:
        """Cut the values into parts that fit a message each."""
        return parts_of(self.data)

    def whole(self) -> "WireVector":
        """Give this vector: it is all there."""
        return self

    def check(self, expected: VectorHeader, kind: str = "") -> None:
        """Raise InvalidMessage unless this is a vector of the header that the session's terms demand."""
        self.header.check(expected, kind)
        if len(self.data) != expected.size:
            raise InvalidMessage(f"Expected {expected.size} bytes of {kind or 'values'}, got {len(self.data)}.")


@dataclass(frozen=True)
class DecryptedVector:
    """A key holder's answer. It is masked, so that the key holder can't read what it decrypts.

    Attributes:
        count: how many residues it has.
        width: bytes of each residue, big-endian.
        data: the residues, one after the other.
    """

    count: int
    width: int
    data: bytes


@dataclass(frozen=True)
class PublicKeyShown:
    """A public key as it travels.

    Attributes:
        key_id: the key's short name in messages.
        content: the key and its proof, as the cipher writes them.
        mask_key: what masks of forwarded products are agreed on with; empty from a party that forwards none.
        purpose: what it is for; empty for the training.
    """

    key_id: str
    content: bytes
    mask_key: bytes = b""
    purpose: str = ""
