"""One party's messages of Protocol 1 in numbers, step by step (Hu, section 5.1, eq. 34-35).

encrypted = own.encrypt(step, residual)                     # to every peer
combination = own.combine(step, peer, Z, their_residuals)   # Z.T @ residual, under the peer's key
question = own.mask(step, peer, combination)                # question.masked to the peer, who answers it
sums = question.read(residues)                              # Z.T @ residual
residues = own.answer(step, peer, their_question)           # to the peer, who asked

Features are whole numbers Z here, each column on a grid of its own, X = Z D with a step per column in the diagonal
matrix D. They stand in wire order: binary columns, then bytes, then full ones (`vfl.crypto.widths`). D and the order
are the party's own business: it multiplies the sums that come back by D, X.T @ g = D (Z.T @ g), and puts them in its
own order.

``Messages`` is the shape of these, ``HonestMessages`` follows the protocol. Bytes, headers and checks of what arrives
are not here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from vfl.arrays import FloatArray
from vfl.crypto.capacity import truncate
from vfl.crypto.engine import Engine
from vfl.crypto.fixed_point import FixedPoint
from vfl.crypto.keys import PrivateKey
from vfl.crypto.packing import PackingLayout
from vfl.crypto.vectors import CipherVector, decrypt_integers, encrypt_vector, mask_vector, matvec, unmask
from vfl.crypto.widths import ColumnFormats, ColumnWidths, EntryFormat

# w of each answer of a key holder that answers modulo 2^w; None where it answers modulo n.
AnswerBits = tuple[int, ...] | None


@dataclass(frozen=True)
class MessageFormats:
    """The public numbers behind one party's messages in a session.

    Attributes:
        columns: of a residual: 1 for two classes, otherwise one per class.
        residual: the fixed point of residuals.
        feature: the fixed point of full columns, the same for all parties.
        widths: of the party's own columns.
        peer_widths: by peer, the widths of its columns.
        layout: how values share a ciphertext, or None where each has its own.
        rerandomise: whether masked sums get a fresh rho**n; False is INSECURE.
        asked_bits: by peer, the bits of its answers to this party.
        given_bits: by peer, the bits of this party's answers to it.
    """

    columns: int
    residual: FixedPoint
    feature: FixedPoint
    widths: ColumnWidths
    peer_widths: Mapping[str, ColumnWidths]
    layout: PackingLayout | None
    rerandomise: bool
    asked_bits: Mapping[str, AnswerBits]
    given_bits: Mapping[str, AnswerBits]

    @property
    def full(self) -> EntryFormat:
        """Which integers the entries of full columns are."""
        return self.feature.entries

    @property
    def own(self) -> ColumnFormats:
        """The formats of the party's own columns, in wire order."""
        return self.widths.formats(self.full)

    def of_peer(self, peer: str) -> ColumnFormats:
        """Give the formats of a peer's columns, in wire order."""
        return self.peer_widths[peer].formats(self.full)


@dataclass(frozen=True, eq=False)
class Combination:
    """Encrypted sums on their way to be masked.

    Attributes:
        matrix: (s, D) whole numbers, what the residuals were multiplied by. Its first d columns are the party's own
            features in wire order, or stand for them: their sums are what its training goes on with.
        encrypted: matrix.T @ residuals under the peer's key, as it will be masked.
    """

    matrix: FloatArray
    encrypted: CipherVector


@dataclass(frozen=True, eq=False)
class Question:
    """Masked sums, and how to read the answer to them.

    Attributes:
        masked: what the peer is asked to decrypt; as many ciphertexts as the session's terms demand.
        read: takes the mask off the peer's residues: (D, columns) sums, in the order of the matrix's columns. Raises
            ValueError for an answer that can't be right. It holds the mask, so it never leaves its process.
    """

    masked: CipherVector
    read: Callable[[Sequence[int]], FloatArray]


class Messages(Protocol):
    """What one party sends in a session of Protocol 1, and how it reads what comes back. Steps count from 0."""

    @property
    def private_key(self) -> PrivateKey:
        """The party's key of the session."""

    def encrypt(self, step: int, residual: FloatArray) -> CipherVector:
        """Encrypt (s, columns) residuals under the own key; raises FixedPointOverflow where they don't fit."""

    def combine(self, step: int, peer: str, features: FloatArray, residuals: CipherVector) -> Combination:
        """Multiply a peer's encrypted residuals by (s, d) features: whole numbers in wire order."""

    def mask(self, step: int, peer: str, combination: Combination) -> Question:
        """Hide a combination from the peer, who holds the key, afresh at each call."""

    def answer(self, step: int, peer: str, sums: CipherVector) -> tuple[int, ...]:
        """Decrypt a peer's masked sums: one residue per ciphertext, in the agreed range."""


@dataclass(frozen=True)
class HonestMessages:
    """The messages that Protocol 1 prescribes.

    Attributes:
        formats: the session's, seen from this party.
        private_key: this party's, made for this session.
        engine: what computes; by default the best kernel there is, on one core.
    """

    formats: MessageFormats
    private_key: PrivateKey
    engine: Engine | None = None

    def encrypt(self, step: int, residual: FloatArray) -> CipherVector:
        """Encrypt (s, columns) residuals as they are; raises FixedPointOverflow."""
        formats = self.formats
        return encrypt_vector(
            self.private_key, residual, layout=formats.layout, fixed_point=formats.residual, engine=self.engine
        )

    def combine(self, step: int, peer: str, features: FloatArray, residuals: CipherVector) -> Combination:
        """Multiply a peer's encrypted residuals by the features and nothing else."""
        return Combination(features, matvec(features, residuals, columns=self.formats.own, engine=self.engine))

    def mask(self, step: int, peer: str, combination: Combination) -> Question:
        """Add a uniform mask and, unless the session leaves it out, a fresh rho**n to every sum."""
        masked, mask = mask_vector(combination.encrypted, rerandomise=self.formats.rerandomise, engine=self.engine)
        bits = self.formats.asked_bits[peer]
        return Question(masked, lambda residues: unmask(mask, residues, bits=bits))

    def answer(self, step: int, peer: str, sums: CipherVector) -> tuple[int, ...]:
        """Decrypt the sums, and cut them to the honest width where the session says so."""
        residues = decrypt_integers(self.private_key, sums, engine=self.engine)
        bits = self.formats.given_bits[peer]
        return residues if bits is None else truncate(residues, bits)
