"""The opening: each owner is sent the other's share of its own weights, once. It is the only door of a training.

What is sent is w bits of each share, integer and fraction bits together, and the owner adds its own. A party that chose
what it encrypts reads so many bits of the other's data there and no more, wherever the point stands: `opened_bits`
counts them. A second opening of another step would tell the difference of both, so the word is kept before it is told,
and is itself what is sent again.
"""

import json

import numpy as np

from services.common.agreement import Agreement
from services.common.state_folder import State
from vfl.arrays import FloatArray
from vfl.crypto.sharing.shares import Integers, Shares

# w. Weights stay below 2^7 in magnitude.
OPENING_BITS = 24
OPENING_FRACTION_BITS = 16
_KEPT = "opening.json"


def word_of(share: Shares) -> Integers:
    """What the holder of V sends of it: its lowest w bits from the opening's fraction on."""
    return share.rescaled(OPENING_FRACTION_BITS).integers % (1 << OPENING_BITS)


def opened(word: Integers, share: Shares) -> FloatArray:
    """An owner's weights, of the other's word and its own share: multiples of 2**-OPENING_FRACTION_BITS."""
    half = 1 << OPENING_BITS - 1
    total = (word_of(share) + word + half) % (1 << OPENING_BITS) - half
    weights: FloatArray = total.astype(np.float64) / 2.0**OPENING_FRACTION_BITS
    return weights


def opened_bits(agreement: Agreement, owner: str) -> int:
    """How many bits an owner is opened in a session."""
    return agreement.party(owner).feature_count * agreement.residual_columns * OPENING_BITS


def kept_words(state: State, session_id: str, words: dict[str, Integers]) -> dict[str, Integers]:
    """The words that a session opens, by owner: those that were kept before, or these, once they are kept.

    Raises:
        StateNotKept: where they can't be. Nothing is told then.
    """
    found = state.read(_KEPT)
    kept = json.loads(found) if found else {}
    if kept.get("session") != session_id:
        kept = {"session": session_id, "words": {owner: word.tolist() for owner, word in words.items()}}
        state.write(_KEPT, json.dumps(kept).encode())
    return {owner: np.array(word, dtype=np.object_) for owner, word in kept["words"].items()}
