"""A learner's half on shared weights: its own shares and those it holds of other parties' weights, trained as one."""

from dataclasses import replace
from typing import Any

import numpy as np

from services.common.learner_calls import LearnerCalls
from services.party.turned_columns import Turn
from services.protocols.shared.shared_terms import SharedTerms
from vfl.crypto.sharing.shares import Shares
from vfl.learning import Half, Learner, OwnData


def begin_half(learner: Learner, terms: SharedTerms, name: str, own_data: OwnData, turn: Turn) -> Half:
    """Begin a party's half; its weights are all its shares, stacked as ``SharedTerms.places`` says.

    First weights are the learner's, drawn by the owner of the features; whoever holds V of them begins with 0, as
    nothing is seen of the first step. The learner's steps work on shares as on arrays. Where its columns are turned, so
    are its weights.
    """
    calls, places = LearnerCalls(learner), terms.places(name)
    stacked = replace(
        own_data,
        features=sum(map(terms.columns, places)),
        holds_bias=terms.agreement.active.name in places,
        turned=turn.matrix is not None,
    )
    half = calls.begin(stacked)
    drawn_weights = calls.weights(half, stacked.features)
    first = np.zeros_like(drawn_weights)
    first[places[name]] = turn.weights_of_cells(drawn_weights[: own_data.features])
    shares: Any = Shares.of(first, terms.formats.product_fraction_bits)
    calls.set_weights(half, shares)
    return half
