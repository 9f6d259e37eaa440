"""The numbers behind a session's ciphertexts: fixed point, packing, widths. Public, the same at every party."""

from dataclasses import dataclass
from functools import cached_property

from services.common import limits
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage
from vfl.crypto import (
    WRAP_BITS,
    AnswerCapacity,
    FixedPoint,
    PackingImpossible,
    PackingLayout,
    StepProduct,
    answer_capacity,
    choose_layout,
    ciphertext_count,
)
from vfl.crypto.messages import MessageFormats


@dataclass(frozen=True)
class CipherFormats:
    """Derives the numbers behind ciphertexts from an agreement with cipher=paillier.

    Raises PackingImpossible where packing can't work.
    """

    agreement: Agreement

    def messages_of(self, party: str) -> MessageFormats:
        """The formats of one party's messages."""
        peers = [peer.name for peer in self.agreement.peers_of(party)]
        return MessageFormats(
            columns=self.agreement.residual_columns,
            residual=self.residual,
            feature=self.feature,
            layout=self.layout,
            rerandomise=self.agreement.plan.rerandomise,
            asked_bits={peer: self.answer_bits(peer, party) for peer in peers},
            given_bits={peer: self.answer_bits(party, peer) for peer in peers},
        )

    @cached_property
    def residual(self) -> FixedPoint:
        """The fixed point of residuals, as the plan says."""
        plan = self.agreement.plan
        return FixedPoint(plan.residual_fraction_bits, plan.residual_integer_bits)

    @cached_property
    def feature(self) -> FixedPoint:
        """The fixed point that holds every party's features."""
        parties = self.agreement.parties
        return FixedPoint(
            self.agreement.plan.feature_fraction_bits,
            max(party.feature_integer_bits for party in parties),
            signed=any(party.features_signed for party in parties),
        )

    @cached_property
    def layout(self) -> PackingLayout | None:
        """How values share a ciphertext; None without packing."""
        plan, parties = self.agreement.plan, self.agreement.parties
        if not plan.packing:
            return None
        return choose_layout(
            batch_size=plan.batch_size,
            features=max(party.feature_count for party in parties),
            classes=self.agreement.residual_columns,
            residual_format=self.residual,
            feature_format=self.feature,
            key_bits=plan.key_bits,
            reserved_bits=WRAP_BITS if any(party.truncates_answers for party in parties) else 0,
        )

    def answer_bits(self, key_holder: str, peer: str) -> tuple[int, ...] | None:
        """w of each answer to this peer where the key holder answers modulo 2^w; None where it answers modulo n."""
        if not self.agreement.party(key_holder).truncates_answers:
            return None
        return self.capacity(key_holder, peer).answer_bits

    def answer_bytes(self, key_holder: str, peer: str) -> int:
        """Bytes of each of these answers."""
        bits = self.answer_bits(key_holder, peer)
        return -(-(self.agreement.plan.key_bits if bits is None else max(bits)) // 8)

    def capacity(self, key_holder: str, peer: str) -> AnswerCapacity:
        """What the key holder's answers of one step to this peer have room for."""
        product = StepProduct(
            rows=self.agreement.plan.batch_size,
            features=self.agreement.party(peer).feature_count,
            columns=self.agreement.residual_columns,
            layout=self.layout,
            residual_format=self.residual,
            feature_format=self.feature,
        )
        return answer_capacity(
            product,
            key_bits=self.agreement.plan.key_bits,
            truncated=self.agreement.party(key_holder).truncates_answers,
        )


def check_vector_sizes(agreement: Agreement) -> None:
    """Refuse terms under which one message of a step would be larger than a party may be made to hold.

    Raises:
        InvalidMessage: for too large a vector, and where packing can't work.
    """
    plan, columns = agreement.plan, agreement.residual_columns
    is_plain = plan.cipher == "plain"
    try:
        layout = None if is_plain else CipherFormats(agreement).layout
    except PackingImpossible as error:
        raise InvalidMessage(str(error)) from error
    width = 8 if is_plain else 2 * plan.key_bits // 8
    residuals = ciphertext_count((plan.batch_size, columns), layout) * width
    features = max(party.feature_count for party in agreement.parties)
    sums = ciphertext_count((features, columns), layout, is_product=True) * width
    for size, remedy in ((residuals, "a smaller batch_size"), (sums, "fewer columns")):
        if size > limits.VECTOR_BYTES:
            raise InvalidMessage(
                f"One message of a step would have {size >> 20} MiB, at most {limits.VECTOR_BYTES >> 20} can be sent: "
                f"choose {remedy}, or packing=on."
            )
