"""What a step of a first layer on shares computes."""

from services.common.agreement import Agreement
from services.common.costs import Cost, Operations
from services.protocols.first_layer.layer_messages import LayerSizes
from services.protocols.first_layer.layer_terms import LayerTerms
from vfl.crypto.kernels.counts import product_cost


def cost_of_first_layer(agreement: Agreement) -> Cost:
    """Count a step's operations of a first layer on shares, where the label party and the others await each other.

    Raises:
        InvalidMessage: where a step's messages are too large.
        PackingImpossible: where numbers don't fit a key.
    """
    terms, rows = LayerTerms(agreement), agreement.plan.batch_size
    LayerSizes(terms).check()
    forward, backward = terms.forward, terms.backward
    pads, of_step = backward.pads(rows), {}
    for name in terms.passive:
        columns = terms.columns(name)
        pads += forward.pads(columns)
        products = product_cost(columns, rows * forward.digits, rows * forward.digits) * len(forward.groups)
        products += product_cost(rows, columns * backward.digits, columns * backward.digits) * len(backward.groups)
        of_step[name] = Operations(0, products, forward.answers(rows) + backward.answers(columns))
    active = agreement.active.name
    return Cost({active: Operations(pads), **of_step}, awaited=active)
