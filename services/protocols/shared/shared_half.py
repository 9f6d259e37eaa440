"""A learner's half on shared weights: its own shares and those it holds of other parties' weights, trained as one."""

from dataclasses import replace
from typing import Any

import numpy as np

from services.party.turned_columns import Turn
from services.protocols.shared.shared_terms import SharedTerms
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Half, OwnData


def begin_half(terms: SharedTerms, name: str, own_data: OwnData, turn: Turn, *, stacks: bool = True) -> Half:
    """Begin a party's half; its weights are all its shares, stacked as ``SharedTerms.places`` says.

    First weights are the learner's, drawn by the owner of the features; whoever holds V of them begins with 0, as
    nothing is seen of the first step. The learner's steps work on shares as on arrays. Where its columns are turned, so
    are its weights. Where only a first layer is shared, the learner knows of no stack (``stacks``).
    """
    calls, places = terms.agreement.plan.calls, terms.places(name)
    columns = sum(map(terms.columns, places))
    if stacks:
        holds_bias = terms.agreement.active.name in places
        data = replace(own_data, features=columns, holds_bias=holds_bias, turned=turn.matrix is not None)
    else:
        data = own_data
    half = calls.begin(data)
    drawn_weights = calls.weights(half, data.features)
    first = np.zeros((columns, drawn_weights.shape[1]))
    first[places[name]] = turn.weights_of_cells(drawn_weights[: own_data.features])
    shares: Any = Shares.of(first, terms.formats.product_fraction_bits)
    calls.set_weights(half, shares)
    return half
