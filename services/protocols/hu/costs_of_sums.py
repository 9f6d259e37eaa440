"""What a step of Hu's messages computes, of linear learners as behind a forwarded layer."""

from dataclasses import replace

from services.ciphers.formats import CipherFormats
from services.common.agreement import Agreement
from services.common.costs import Cost, Operations
from vfl.crypto.kernels.counts import product_cost
from vfl.crypto.messages import MessageFormats
from vfl.crypto.widths import ColumnFormats


def products_of(formats: MessageFormats, rows: int, columns: ColumnFormats) -> int:
    """Count the modular products of encrypted residuals of so many rows and columns of these formats."""
    layout = formats.layout
    if layout is None:
        return formats.columns * product_cost(rows, columns.digits, columns.digits)
    horner_bits = sum(bits * count for bits, count in layout.fillings(columns))
    return product_cost(layout.ciphertexts_for(rows), columns.digits * layout.rows_per_ciphertext, horner_bits)


def cost_of_sums(agreement: Agreement) -> Cost:
    """Count a step's operations, under Paillier whatever the session's cipher is."""
    encrypted = replace(agreement, plan=agreement.plan.encrypted())
    formats, rows, senders = CipherFormats(encrypted), agreement.plan.batch_size, agreement.senders
    encryptions = formats.residual_ciphertexts(rows)
    of_step = {}
    for party in agreement.parties:
        peer_count = len(senders - {party.name})
        of_step[party.name] = Operations(
            encryptions if party.name in senders else 0,
            peer_count * products_of(formats.messages_of(party.name), rows, formats.columns_of(party.name)),
            peer_count * formats.sum_ciphertexts(party.name),
        )
    return Cost(of_step)
