"""The opening: each owner is sent the other's share of its own weights, once. It is the only door of a training.

What is sent is w bits of each share, integer and fraction bits together, and the owner adds its own. A party that chose
what it encrypts reads so many bits of the other's data there and no more, wherever the point stands: `opened_bits`
counts them. A second opening of another step would tell the difference of both, so the word is kept before it is told,
and is itself what is sent again.
"""

import json
import math
from collections.abc import Iterator

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import OutOfOrder
from services.common.state_folder import State
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shares import Integers, Shares

# Of w, the plan's opening_bits: weights stay below 2^7 in magnitude, the others are fraction bits.
_WHOLE_BITS = 8
_KEPT = "opening.json"


def fraction_bits(bits: int) -> int:
    """How many of an opened word's bits are of the fraction."""
    return bits - _WHOLE_BITS


def word_of(share: Shares, bits: int) -> Integers:
    """What the holder of V sends of it: its lowest ``bits`` from the opening's fraction on."""
    word: Integers = share.rescaled(fraction_bits(bits)).integers % (1 << bits)
    return word


def opened(word: Integers, share: Shares, bits: int) -> FloatArray:
    """An owner's weights, of the other's word and its own share: multiples of 2**-fraction_bits, below 2^7."""
    half = 1 << bits - 1
    total = (word_of(share, bits) + word + half) % (1 << bits) - half
    weights: FloatArray = total.astype(np.float64) / 2.0 ** fraction_bits(bits)
    return weights


def opened_bits(agreement: Agreement, owner: str) -> int:
    """How many bits an owner is opened in a session."""
    return agreement.party(owner).feature_count * agreement.residual_columns * agreement.plan.opening_bits


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


# Of all that labels tell, and of one record: what an opening may carry without a word.
_TOLERATED = 0.05


def guard_opening(agreement: Agreement, name: str, labels: IntArray | None, mode: str) -> list[str]:
    """Warn of what this party's data may tell those who are opened their weights.

    The label party compares each passive party's opened bits with the entropy of its training labels; a passive party
    compares the label party's with the bits of one of its records.

    Args:
        agreement: the session's terms.
        name: the party's.
        labels: class indices of the aligned records; the label party's only.
        mode: warn, refuse (raises instead) or off.

    Raises:
        OutOfOrder: the first warning, where the mode is refuse.
    """
    if mode == "off" or not agreement.plan.shares_weights:
        return []
    warnings = list(_about_a_record(agreement, name) if labels is None else _about_labels(agreement, labels))
    if warnings and mode == "refuse":
        raise OutOfOrder(f"{warnings[0]} (PLUMBLINE_GUARD=refuse)")
    return warnings


def _about_labels(agreement: Agreement, labels: IntArray) -> Iterator[str]:
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    entropy = float(-(shares * np.log2(shares)).sum())
    rows = agreement.training_rows
    for peer in agreement.peers_of(agreement.active.name):
        bits = opened_bits(agreement, peer.name)
        if bits > _TOLERATED * rows * entropy:
            yield (
                f"{peer.name} could read labels of {agreement.active.name} from its opened weights, if it encrypts "
                f"other columns than its own: up to {bits} bits of the {rows * entropy:.0f} that {rows} records have. "
                f"To prevent it, train on {math.ceil(bits / (_TOLERATED * entropy))} records or more, or let "
                f"{peer.name} bring fewer columns."
            )


def _about_a_record(agreement: Agreement, name: str) -> Iterator[str]:
    own, plan = agreement.party(name), agreement.plan
    record = own.feature_count * (plan.feature_fraction_bits + own.feature_integer_bits + own.features_signed)
    bits, active = opened_bits(agreement, agreement.active.name), agreement.active.name
    if bits > _TOLERATED * record:
        yield (
            f"{active} could read features of {name} from its opened weights, if it encrypts other columns than its "
            f"own: up to {bits} bits, where a record has {record}. To prevent it, don't train with a party that would."
        )
