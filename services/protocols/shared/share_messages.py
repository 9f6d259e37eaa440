"""Messages of training on shared weights: their kinds, and the public numbers of values and bytes that each has."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from services.common import limits
from services.common.errors import InvalidMessage
from services.exchange.declared_messages import ASKS, DeclaredMessage, Right, Tells, answers, declared
from services.protocols.shared.opening import bits_of, stays_shared, validates_on_shares
from services.protocols.shared.shared_terms import SharedTerms
from vfl.crypto.sharing.shared_squares import WORD_BITS


class Kind(StrEnum):
    """What a message carries.

    A header's step is the number of the training step, of a part, or of the steps that are taken.
    """

    # Once: a party's encrypted training rows, and the same by block, to who holds the other shares of its weights. Both
    # under its own key and in parts.
    ROWS = "rows"
    BLOCKS = "blocks"
    # Once per step, under the receiver's key: masked products of its blocks with the sender's shares of its weights,
    # and of its rows with the sender's shares of residuals.
    FORWARD = "forward"
    BACKWARD = "backward"
    # Once per step, of three parties or more: what such products have left the sender with, for the receiver, which
    # holds the other shares of their owners' weights. Uniform numbers in the clear.
    HANDED = "handed"
    # When training is over: the sender's shares of the receiver's weights, cut to the opening's bits, in the clear; or,
    # where weights stay shared, whole and under the sender's serving key, which encrypts nothing else.
    OPENED = "opened"
    FROZEN = "frozen"
    # Of two parties, after each epoch that is validated. As forward, of validation rows; by the passive party, pads of
    # its shares of residuals under its validation key, and the shares minus the pads, uniform numbers in the clear; by
    # the label party, a masked product of pads with its own shares; by the passive party, 16 bits of its share of the
    # sum of squares, in the clear.
    VALIDATION = "validation"
    PADS = "pads"
    DIFFERENCES = "differences"
    CROSSED = "crossed"
    WORD = "word"
    # Of a network's first layer, by the label party: pads of its shares of the receiver's weights, and of the backward
    # signal, under its own key, which has encrypted nothing but pads; shares minus pads, uniform numbers in the clear.
    # Forward and backward then come under the label party's key.
    WEIGHT_PADS = "weight pads"
    WEIGHT_DIFFERENCES = "weight differences"
    SIGNAL_PADS = "signal pads"
    SIGNAL_DIFFERENCES = "signal differences"

    @property
    def is_once(self) -> bool:
        """Whether a session has one, in parts; the others come with every step."""
        return self in (Kind.ROWS, Kind.BLOCKS)

    @property
    def is_of_validation(self) -> bool:
        """Whether it comes after some epochs only; its step is the number of steps that are taken then."""
        return self in (Kind.VALIDATION, Kind.PADS, Kind.DIFFERENCES, Kind.CROSSED, Kind.WORD)


# All else is uniform, or pads, or under a key. What an opening and a word tell has room for what their receiver chose
# to encrypt, and a ledger counts it.
_BITS = Tells("bits", of="others")
MESSAGES = declared(
    (
        *(DeclaredMessage(kind, right=ASKS) for kind in (Kind.ROWS, Kind.BLOCKS, Kind.PADS)),
        DeclaredMessage(Kind.FORWARD, right=answers(Kind.BLOCKS)),
        DeclaredMessage(Kind.VALIDATION, right=answers(Kind.BLOCKS)),
        DeclaredMessage(Kind.BACKWARD, right=answers(Kind.ROWS)),
        DeclaredMessage(Kind.HANDED),
        DeclaredMessage(Kind.DIFFERENCES),
        DeclaredMessage(Kind.CROSSED, right=Right(is_asked=True, question=Kind.PADS)),
        DeclaredMessage(Kind.WORD, right=answers(Kind.CROSSED), tells=_BITS),
        DeclaredMessage(Kind.OPENED, tells=_BITS),
        DeclaredMessage(Kind.FROZEN),
    )
)

# Of encrypted features: 8 MiB at 2,048 bits, of which one is made while another is on its way.
_VALUES_PER_PART = 1 << 14


@dataclass(frozen=True)
class MessageSizes:
    """Counts what a message from one party to another has to hold.

    Attributes:
        terms: of the session.
    """

    messages: ClassVar[Mapping[str, DeclaredMessage]] = MESSAGES
    terms: SharedTerms

    def shows_key(self, sender: str) -> bool:
        """Tell that every party does: its features are under a key of its own."""
        return True

    def is_sent(self, kind: Kind, sender: str, receiver: str) -> bool:
        """Tell whether one party sends another such messages."""
        if kind.is_of_validation and not validates_on_shares(self.terms.agreement):
            return False
        match kind:
            case Kind.BLOCKS:
                return self.terms.holder(sender) == receiver
            case Kind.VALIDATION:
                return self.terms.holder(receiver) == sender
            case Kind.PADS | Kind.DIFFERENCES | Kind.WORD:
                return receiver == self.terms.agreement.active.name != sender
            case Kind.CROSSED:
                return sender == self.terms.agreement.active.name != receiver
            case Kind.FORWARD:
                return self.terms.holder(receiver) == sender
            case Kind.OPENED | Kind.FROZEN:
                is_meant = stays_shared(self.terms.agreement) == (kind is Kind.FROZEN)
                return is_meant and self.terms.holder(receiver) == sender
            case Kind.HANDED:
                return bool(self.terms.handed_owners(sender, receiver))
            case Kind.ROWS | Kind.BACKWARD:
                return sender != receiver
        return False

    def parts(self, kind: Kind, sender: str) -> int:
        """Count the parts of a party's encrypted features."""
        return -(-self.features(kind, sender) // _VALUES_PER_PART)

    def part(self, number: int) -> slice:
        """Tell which of the values stand in a part of encrypted features."""
        return slice(number * _VALUES_PER_PART, (number + 1) * _VALUES_PER_PART)

    def count(self, kind: Kind, sender: str, receiver: str, step: int) -> int:
        """Count the values of a message of a step, or of a part."""
        terms, outputs = self.terms, self.terms.formats.outputs
        match kind:
            case Kind.ROWS | Kind.BLOCKS:
                return min(_VALUES_PER_PART, self.features(kind, sender) - step * _VALUES_PER_PART)
            case Kind.FORWARD:
                return terms.schedule.blocks_of_step(step) * outputs
            case Kind.BACKWARD:
                return terms.groups(receiver) * outputs
            case Kind.HANDED:
                return sum(map(terms.columns, terms.handed_owners(sender, receiver))) * outputs
            case Kind.OPENED | Kind.FROZEN:
                return terms.columns(receiver) * outputs
            case Kind.VALIDATION:
                return len(terms.validation) * outputs
            case Kind.PADS | Kind.DIFFERENCES:
                return terms.squares.values
            case Kind.CROSSED | Kind.WORD:
                return 1
        raise InvalidMessage(f"This session has no {kind}.")

    def width(self, kind: Kind) -> int:
        """Count the bytes of each value: of a ciphertext, a residue, an opened word."""
        formats = self.terms.formats
        match kind:
            case Kind.HANDED:
                return -(-formats.gradient_ring // 8)
            case Kind.OPENED:
                return -(-bits_of(self.terms.agreement) // 8)
            case Kind.DIFFERENCES:
                return -(-self.terms.squares.ring // 8)
            case Kind.WORD:
                return WORD_BITS // 8
        return 2 * formats.key_bits // 8

    def check(self) -> None:
        """Raise InvalidMessage where a party would keep more of others' encrypted features than it may be made to."""
        agreement = self.terms.agreement
        if validates_on_shares(agreement) and self.terms.squares.values > _VALUES_PER_PART:
            raise InvalidMessage(
                f"{agreement.row_counts.validation} validation records are too many for protocol=shared: choose a "
                "smaller validation_fraction, or set patience to 0."
            )
        for party in agreement.parties:
            if (memory := self.kept_bytes(party.name)) > limits.FEATURE_CIPHERTEXT_BYTES:
                raise InvalidMessage(
                    f"{party.name} would keep {memory >> 20} MiB of the others' encrypted features, at most "
                    f"{limits.FEATURE_CIPHERTEXT_BYTES >> 20} can be kept: align fewer records or choose fewer columns."
                )

    def kept_bytes(self, name: str) -> int:
        """Count the memory that the others' encrypted features take at a party, until the session ends."""
        peers = [peer.name for peer in self.terms.agreement.peers_of(name)]
        ciphertexts = sum(self.features(Kind.ROWS, peer) for peer in peers)
        ciphertexts += sum(self.features(Kind.BLOCKS, peer) for peer in self.terms.held_by(name))
        # As integers of Python: 30 bits in each 4 bytes, and 32 bytes more with their place in a list.
        return ciphertexts * (-(-8 * self.width(Kind.ROWS) // 30) * 4 + 32)

    def features(self, kind: Kind, sender: str) -> int:
        """Ciphertexts of a party's features."""
        terms = self.terms
        if kind is Kind.BLOCKS:
            return len(terms.blocks) * terms.columns(sender)
        return terms.agreement.training_rows * terms.groups(sender)
