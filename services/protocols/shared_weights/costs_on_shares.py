"""What training on shared weights computes, and keeps in memory."""

from services.common.agreement import Agreement
from services.common.costs import Cost, Operations
from services.protocols.shared.share_messages import Kind, MessageSizes
from services.protocols.shared.shared_terms import SharedTerms
from vfl.crypto.kernels.counts import product_cost


def cost_of_shares(agreement: Agreement) -> Cost:
    """Count a training's operations: a party answers about its V of others, and about others' gradients.

    Each party encrypts its features before, and others keep them.

    Raises:
        InvalidMessage: where what is kept would fill a memory.
        PackingImpossible: where numbers don't fit a key.
    """
    terms, rows, outputs = SharedTerms(agreement), agreement.plan.batch_size, agreement.residual_columns
    sizes, names = MessageSizes(terms), [party.name for party in agreement.parties]
    sizes.check()
    forward, backward = outputs * terms.formats.ring, outputs * terms.formats.residual_bits
    blocks = terms.schedule.blocks_of_step(0)
    of_step = {}
    for name in names:
        owners, groups = terms.held_by(name), sum(terms.groups(peer.name) for peer in agreement.peers_of(name))
        products = sum(blocks * product_cost(terms.columns(owner), forward, forward) for owner in owners)
        products += groups * product_cost(rows, backward, backward)
        of_step[name] = Operations(0, products, outputs * (blocks * len(owners) + groups))
    return Cost(
        of_step,
        {name: Operations(sum(sizes.features(kind, name) for kind in (Kind.ROWS, Kind.BLOCKS))) for name in names},
        {name: sizes.kept_bytes(name) for name in names},
    )
