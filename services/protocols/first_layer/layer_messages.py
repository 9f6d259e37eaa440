"""Messages of a first layer on shared weights: who sends which, and their public numbers of values and bytes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from services.common import limits
from services.common.errors import InvalidMessage
from services.exchange.declared_messages import ASKS, DeclaredMessage, Tells, answers, declared
from services.protocols.first_layer.layer_terms import LayerTerms
from services.protocols.shared.opening import validates_on_shares
from services.protocols.shared.share_messages import Kind
from vfl.crypto.pairwise_masks import MASK_BITS

# What is handed on in the clear completes products, which stand under masks that cancel in the sum of all parties'.
MESSAGES = declared(
    (
        *(DeclaredMessage(kind, right=ASKS) for kind in (Kind.WEIGHT_PADS, Kind.SIGNAL_PADS)),
        DeclaredMessage(Kind.WEIGHT_DIFFERENCES),
        DeclaredMessage(Kind.SIGNAL_DIFFERENCES),
        DeclaredMessage(Kind.FORWARD, right=answers(Kind.WEIGHT_PADS)),
        DeclaredMessage(Kind.HANDED, right=answers(Kind.WEIGHT_PADS), tells=Tells("equations", of="others")),
        DeclaredMessage(Kind.BACKWARD, right=answers(Kind.SIGNAL_PADS)),
        DeclaredMessage(Kind.FROZEN),
    )
)
# Of a step's, and of a validation's.
FORWARDING = (Kind.WEIGHT_PADS, Kind.WEIGHT_DIFFERENCES, Kind.FORWARD, Kind.HANDED)


@dataclass(frozen=True)
class LayerSizes:
    """Counts what a message from one party to another has to hold.

    Attributes:
        terms: of the session.
    """

    messages: ClassVar[Mapping[str, DeclaredMessage]] = MESSAGES
    terms: LayerTerms

    def shows_key(self, sender: str) -> bool:
        """Tell that the label party shows one: all ciphertexts are under its key."""
        return sender == self.terms.agreement.active.name

    def is_sent(self, kind: Kind, sender: str, receiver: str) -> bool:
        """Tell whether one party sends another such messages; passive ones answer the label party, and nobody else."""
        active = self.terms.agreement.active.name
        if kind not in MESSAGES or sender == receiver or active not in (sender, receiver):
            return False
        return bool(MESSAGES[kind].right.question) == (receiver == active)

    def count(self, kind: Kind, sender: str, receiver: str, step: int) -> int:
        """Count the values of a message of a step."""
        terms, units = self.terms, self.terms.formats.outputs
        passive = receiver if sender == terms.agreement.active.name else sender
        columns = terms.columns(passive)
        match kind:
            case Kind.WEIGHT_PADS:
                return terms.forward.pads(columns)
            case Kind.WEIGHT_DIFFERENCES | Kind.FROZEN:
                return columns * units
            case Kind.SIGNAL_PADS:
                return terms.backward.pads(terms.batches.rows_of_step(step))
            case Kind.SIGNAL_DIFFERENCES | Kind.HANDED:
                return terms.rows_of(step) * units
            case Kind.FORWARD:
                return terms.forward.answers(terms.rows_of(step))
            case Kind.BACKWARD:
                return terms.backward.answers(columns)
        raise InvalidMessage(f"A network's first layer has no {kind}.")

    def width(self, kind: Kind) -> int:
        """Count the bytes of each value: of a ciphertext, or of a residue."""
        match kind:
            case Kind.WEIGHT_DIFFERENCES | Kind.HANDED:
                return -(-self.terms.forward.ring // 8)
            case Kind.SIGNAL_DIFFERENCES:
                return -(-self.terms.backward.ring // 8)
        return 2 * self.terms.formats.key_bits // 8

    def check(self) -> None:
        """Refuse terms that no step works under.

        Raises:
            InvalidMessage: where a step's ciphertexts are more than a party may be sent at once, or where masks that
                cancel are shorter than what they are to hide.
            PackingImpossible: where numbers don't fit a key.
        """
        terms, active = self.terms, self.terms.agreement.active.name
        if len(terms.passive) > 1 and terms.forward.ring > MASK_BITS:
            raise InvalidMessage(
                f"Products of {terms.forward.ring} bits are longer than the masks of several passive parties, which "
                f"have {MASK_BITS}: lower feature_fraction_bits or residual_fraction_bits."
            )
        most = limits.VECTOR_BYTES
        for name in terms.passive:
            for kind in (Kind.WEIGHT_PADS, Kind.SIGNAL_PADS):
                if (size := self.count(kind, active, name, 0) * self.width(kind)) > most:
                    raise InvalidMessage(
                        f"A step's {kind} for {name} take {size >> 20} MiB, at most {most >> 20} can be sent: choose a "
                        "smaller batch_size or fewer hidden units."
                    )
            validated = self.count(Kind.FORWARD, name, active, terms.steps + 1) * self.width(Kind.FORWARD)
            if validates_on_shares(terms.agreement) and validated > most:
                raise InvalidMessage(
                    f"A validation's products of {name} take {validated >> 20} MiB, at most {most >> 20} can be sent: "
                    "choose a smaller validation_fraction or fewer hidden units, or set patience to 0."
                )
