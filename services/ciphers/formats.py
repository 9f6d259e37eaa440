"""The numbers behind a session's ciphertexts: fixed point, packing, widths. Public, the same at every party."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from services.ciphers.channels import Channel, channel, column_formats, exposure, feature_format, residual_format
from services.common import limits
from services.common.agreement import Agreement
from services.common.errors import InvalidMessage, refusals_of
from vfl.crypto import WRAP_BITS, FixedPoint, PackingImpossible, PackingLayout, ciphertext_count, layouts_for
from vfl.crypto.messages import MessageFormats
from vfl.crypto.widths import ColumnFormats


@dataclass(frozen=True)
class CipherFormats:
    """Derives the numbers behind ciphertexts from an agreement with cipher=paillier.

    Raises PackingImpossible where packing can't work.
    """

    agreement: Agreement

    def messages_of(self, party: str) -> MessageFormats:
        """Describe the formats of one party's messages."""
        peers = {peer.name: peer.widths for peer in self.agreement.peers_of(party)}
        return MessageFormats(
            columns=self.agreement.residual_columns,
            residual=self.residual,
            feature=self.feature,
            widths=self.agreement.party(party).widths,
            peer_widths=peers,
            layout=self.layout,
            rerandomise=self.agreement.plan.rerandomise,
            asked_bits={peer: self.answer_bits(peer, party) for peer in peers},
            given_bits={peer: self.answer_bits(party, peer) for peer in peers},
        )

    @cached_property
    def residual(self) -> FixedPoint:
        """The fixed point of residuals, as the plan says."""
        return residual_format(self.agreement)

    @cached_property
    def feature(self) -> FixedPoint:
        """The fixed point that holds every party's full columns."""
        return feature_format(self.agreement)

    def columns_of(self, party: str) -> ColumnFormats:
        """List the formats of a party's columns, in wire order."""
        return column_formats(self.agreement, self.agreement.party(party))

    def residual_ciphertexts(self, rows: int) -> int:
        """Count the ciphertexts of encrypted residuals of so many rows."""
        return ciphertext_count((rows, self.agreement.residual_columns), self.layout)

    def sum_ciphertexts(self, party: str) -> int:
        """Count the ciphertexts of the masked sums that a party asks for."""
        columns = self.columns_of(party)
        shape = (columns.total, self.agreement.residual_columns)
        return ciphertext_count(shape, self.layout, is_product=True, columns=columns)

    @property
    def layout(self) -> PackingLayout | None:
        """How values share a ciphertext; None without packing."""
        return _safest_layout(self.agreement) if self.agreement.plan.packing else None

    def answer_bits(self, key_holder: str, peer: str) -> tuple[int, ...] | None:
        """w of each answer to this peer where the key holder answers modulo 2^w; None where it answers modulo n."""
        if not self.agreement.party(key_holder).truncates_answers:
            return None
        return self.channel(key_holder, peer).capacity.answer_bits

    def answer_bytes(self, key_holder: str, peer: str) -> int:
        """Count the bytes of each of these answers."""
        bits = self.answer_bits(key_holder, peer)
        return -(-(self.agreement.plan.key_bits if bits is None else max(bits)) // 8)

    def channel(self, key_holder: str, peer: str) -> Channel:
        """Count what the key holder's answers of one step to this peer have room for."""
        return channel(self.agreement, self.layout, key_holder, peer)


# The guard looks at many agreements to say what would help; one costs some milliseconds.
@lru_cache(maxsize=256)
def _safest_layout(agreement: Agreement) -> PackingLayout:
    """Choose the cheapest layout that leaves the guard silent about every channel, or about as many as any does.

    The more rows or columns share an answer, the more of its room is no honest sum's: the cheapest layout of all may
    tell what a slightly dearer one keeps.
    """
    plan, parties = agreement.plan, agreement.parties
    layouts = layouts_for(
        [column_formats(agreement, party) for party in parties],
        batch_size=plan.batch_size,
        classes=agreement.residual_columns,
        residual_format=residual_format(agreement),
        key_bits=plan.key_bits,
        reserved_bits=WRAP_BITS if any(party.truncates_answers for party in parties) else 0,
    )
    best, least = layouts[0], exposure(agreement, layouts[0])
    for layout in layouts[1:]:
        if least.is_none:
            break
        exposed = exposure(agreement, layout)
        if exposed < least:
            best, least = layout, exposed
    return best


def check_vector_sizes(agreement: Agreement) -> None:
    """Refuse terms under which one message of a step would be larger than a party may be made to hold.

    Raises:
        InvalidMessage: for too large a vector, and where packing can't work.
    """
    plan = agreement.plan
    residuals, sums = _most_ciphertexts(agreement) if plan.is_encrypted else _most_plain_values(agreement)
    width = plan.encryption.value_bytes
    for size, remedy in ((residuals * width, "a smaller batch_size"), (sums * width, "fewer columns")):
        if size > limits.VECTOR_BYTES:
            raise InvalidMessage(
                f"One message of a step would have {size >> 20} MiB, at most {limits.VECTOR_BYTES >> 20} can be sent: "
                f"choose {remedy}, or packing=on."
            )


def _most_plain_values(agreement: Agreement) -> tuple[int, int]:
    """Count the most values of residuals, and of sums, in one message."""
    columns = agreement.residual_columns
    return agreement.plan.batch_size * columns, max(party.feature_count for party in agreement.parties) * columns


def _most_ciphertexts(agreement: Agreement) -> tuple[int, int]:
    """Count the same in ciphertexts; raises InvalidMessage where packing can't work."""
    formats = CipherFormats(agreement)
    with refusals_of(PackingImpossible):
        residuals = formats.residual_ciphertexts(agreement.plan.batch_size)
        return residuals, max(formats.sum_ciphertexts(party.name) for party in agreement.parties)
