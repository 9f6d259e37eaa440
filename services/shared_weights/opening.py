"""The opening: each owner is sent the other's share of its own weights, once. It is the only door of a training.

What is sent is w bits of each share, integer and fraction bits together, and the owner adds its own. A party that chose
what it encrypts reads so many bits of the other's data there and no more, wherever the point stands: `opened_bits`
counts them. A second opening of another step would tell the difference of both, so the word is kept before it is told,
and is itself what is sent again.
"""

import json
import math
from collections.abc import Iterator, Mapping

import numpy as np

from services.common.agreement import Agreement
from services.common.errors import OutOfOrder
from services.common.state_folder import State
from services.shared_weights.opening_ledger import OpeningLedger
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


def opened_to(agreement: Agreement, name: str) -> dict[str, int]:
    """How many bits a session opens that could be about a party's records, by who is opened them.

    The label party's labels are in all weights of others; a passive party's features in those of the label party.
    """
    active = agreement.active.name
    owners = [peer.name for peer in agreement.peers_of(active)] if name == active else [active]
    return {owner: opened_bits(agreement, owner) for owner in owners}


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


def guard_opening(
    agreement: Agreement, name: str, labels: IntArray | None, mode: str, ledger: OpeningLedger | None = None
) -> list[str]:
    """Warn of what this party's data may tell those who are opened their weights.

    The label party compares each passive party's opened bits with the entropy of its training labels; a passive party
    compares the label party's with the bits of one of its records. What earlier sessions opened is added.

    Args:
        agreement: the session's terms.
        name: the party's.
        labels: class indices of the aligned records; the label party's only.
        mode: warn, refuse (raises instead) or off.
        ledger: of what earlier sessions opened about the same records; None for nothing.

    Raises:
        OutOfOrder: the first warning, where the mode is refuse.
    """
    if mode == "off" or not agreement.plan.shares_weights:
        return []
    bits = {owner: of + (ledger.before(owner) if ledger else 0) for owner, of in opened_to(agreement, name).items()}
    warnings = list(
        _about_a_record(agreement, name, bits) if labels is None else _about_labels(agreement, labels, bits)
    )
    if warnings and mode == "refuse":
        raise OutOfOrder(f"{warnings[0]} (PLUMBLINE_GUARD=refuse)")
    return warnings


def _about_labels(agreement: Agreement, labels: IntArray, opening: Mapping[str, int]) -> Iterator[str]:
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    entropy = float(-(shares * np.log2(shares)).sum())
    rows = agreement.training_rows
    for peer, bits in opening.items():
        if bits > _TOLERATED * rows * entropy:
            yield (
                f"{_reader(agreement, peer, bits, 'labels', agreement.active.name)} of the {rows * entropy:.0f} that "
                f"{rows} records have. To prevent it, train on {math.ceil(bits / (_TOLERATED * entropy))} records or "
                f"more, or let {peer} bring fewer columns."
            )


def _about_a_record(agreement: Agreement, name: str, opening: Mapping[str, int]) -> Iterator[str]:
    own, plan = agreement.party(name), agreement.plan
    record = own.feature_count * (plan.feature_fraction_bits + own.feature_integer_bits + own.features_signed)
    for active, bits in opening.items():
        if bits > _TOLERATED * record:
            yield (
                f"{_reader(agreement, active, bits, 'features', name)}, where a record has {record}. To prevent it, "
                "don't train with a party that would."
            )


def _reader(agreement: Agreement, owner: str, bits: int, what: str, of: str) -> str:
    """Who could read what, and how many bits."""
    earlier = " of this session and earlier ones" if bits > opened_bits(agreement, owner) else ""
    return (
        f"{owner} could read {what} of {of} from its opened weights{earlier}, if it encrypts other columns than its "
        f"own: up to {bits} bits"
    )
