"""The opening: each owner is sent the other's share of its own weights, once. It is the only door of a training.

What is sent is w bits of each share, integer and fraction bits together, and the owner adds its own. A party that chose
what it encrypts reads so many bits of the other's data there and no more, wherever the point stands: `opened_bits`
counts them. A second opening of another step would tell the difference of both, so the word is kept before it is told,
and is itself what is sent again.
"""

import json
import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from services.common.agreement import Agreement, PartyDescription
from services.common.errors import OutOfOrder
from services.common.exposure import BitsBefore, Mode, weighed
from services.common.opening_options import SHARED, fraction_bits, opening_options
from services.common.state_folder import State
from vfl.arrays import FloatArray, IntArray
from vfl.crypto.sharing.shared_squares import WORD_BITS
from vfl.crypto.sharing.shares import Integers, Shares
from vfl.learning.calibration import SLOPE_BITS

_log = logging.getLogger(__name__)

_KEPT = "opening.json"


def word_of(share: Shares, bits: int) -> Integers:
    """Make what the holder of V sends of it: its lowest ``bits`` from the opening's fraction on."""
    word: Integers = share.rescaled(fraction_bits(bits)).integers % (1 << bits)
    return word


def opened(word: Integers, share: Shares, bits: int) -> FloatArray:
    """Read an owner's weights of the other's word and its own share: multiples of 2**-fraction_bits, below 2^7."""
    half = 1 << bits - 1
    total = (word_of(share, bits) + word + half) % (1 << bits) - half
    weights: FloatArray = total.astype(np.float64) / 2.0 ** fraction_bits(bits)
    return weights


def bits_of(agreement: Agreement) -> int:
    """Count the bits of every weight that its owner is opened."""
    return opening_options(agreement.plan.protocol_options).opening_bits


def opened_bits(agreement: Agreement, owner: str) -> int:
    """Count the bits that an owner is opened in a session."""
    return agreement.party(owner).feature_count * agreement.residual_columns * bits_of(agreement)


def opened_to(agreement: Agreement, name: str) -> dict[str, int]:
    """Count the bits a session opens that could be about a party's records, by who is opened them.

    The label party's labels are in all weights of others; a passive party's features in those of the label party.
    """
    active = agreement.active.name
    owners = [peer.name for peer in agreement.peers_of(active)] if name == active else [active]
    return {owner: opened_bits(agreement, owner) for owner in owners}


def kept_words(state: State, session_id: str, fresh_words: dict[str, Integers]) -> dict[str, Integers]:
    """Find the words that a session opens, by owner: those that were kept before, or these, once they are kept.

    Raises:
        StateNotKept: where they can't be. Nothing is told then.
        OutOfOrder: where what was kept is broken. Other words could be another opening.
    """
    content = state.read(_KEPT)
    try:
        record: Any = json.loads(content) if content else {"session": "", "words": {}}
        if record["session"] != session_id:
            record = {"session": session_id, "words": {owner: word.tolist() for owner, word in fresh_words.items()}}
            state.write(_KEPT, json.dumps(record).encode())
        return {
            owner: np.array(record["words"][owner], dtype=np.object_).reshape(word.shape)
            for owner, word in fresh_words.items()
        }
    except (ValueError, LookupError, TypeError) as error:
        raise OutOfOrder(
            f"{_KEPT} of this party's state is broken: put the folder back from a copy, or delete this file, and train "
            "again in a new session."
        ) from error


# Of all that labels tell, and of one record: what an opening may carry.
_TOLERATED = 0.05


@dataclass(frozen=True)
class _Threat:
    """What an opening could carry too much of.

    Attributes:
        about: whose data.
        owner: of the weights, who is opened them.
        reader: who could read what, and how many bits: all of it public.
        measure: of how many, without a stop. With a remedy it may follow from labels, and is their owner's.
        remedy: besides shared serving, with a comma before it; empty where there is none.
    """

    about: str
    owner: str
    reader: str
    measure: str
    remedy: str = ""

    @property
    def sentence(self) -> str:
        """All but the remedy, without a stop."""
        return self.reader + self.measure


def stays_shared(agreement: Agreement) -> bool:
    """Tell whether weights stay shared after training: by the plan, or since a party refuses that they are opened.

    Of a learner that forwards they always do. It follows from the agreement alone. So all know it before they train,
    and it tells of nobody's data.
    """
    return _stays_by_plan(agreement) or any(_refusals(agreement))


def _stays_by_plan(agreement: Agreement) -> bool:
    plan = agreement.plan
    return opening_options(plan.protocol_options).serving == SHARED or plan.family.spec.forwards


def validates_on_shares(agreement: Agreement) -> bool:
    """Tell whether the label party is shown a validation loss of weights that are shared, after epochs."""
    return agreement.plan.patience > 0 and agreement.row_counts.validation > 0


def _refusals(agreement: Agreement) -> Iterator[_Threat]:
    """Say what an opening could tell too much of, at parties whose owners don't let it be all the same.

    Of labels only the number of classes is public, so they are taken as even: uneven ones have fewer bits.
    """
    for party in agreement.parties:
        yield from _refused_by(agreement, party, _told(agreement, party.name))


def _refused_by(agreement: Agreement, party: PartyDescription, bits: Mapping[str, int]) -> Iterator[_Threat]:
    """Say what so many bits, by who is opened them, could tell too much of at a party that refuses that."""
    if party.opens_always:
        return
    even = agreement.training_rows * math.log2(agreement.classes)
    is_active = party == agreement.active
    yield from _about_labels(agreement, even, bits) if is_active else _about_a_record(agreement, party.name, bits)


def guard_opening(
    agreement: Agreement, name: str, labels: IntArray | None, mode: Mode, ledger: BitsBefore
) -> list[str]:
    """Warn of what this party's data may tell those who are opened their weights, or say why nobody is.

    The label party compares each passive party's opened bits with the entropy of its training labels; a passive party
    compares the label party's with the bits of one of its records. What earlier sessions opened is added.

    Args:
        agreement: the session's terms.
        name: the party's.
        labels: class indices of the aligned records; the label party's only.
        mode: warn, refuse (raises instead) or off. Of an opening, nothing is raised where weights stay shared.
        ledger: of what earlier sessions opened about the same records.

    Raises:
        OutOfOrder: in any mode where this opening and earlier ones are together what the owner refuses;
            where the mode is refuse, the first warning without what follows from labels, as peers are told it.
    """
    if stays_shared(agreement):
        warnings = [] if labels is not None or mode == "off" else list(_about_validations(agreement, name, ledger))
        return weighed(warnings, mode) + [
            f"Weights stay shared after training, and scores are computed on shares. Were weights opened, "
            f"{threat.sentence}. To have them opened all the same, set PLUMBLINE_OPENING=always at {threat.about}"
            f"{threat.remedy}."
            for threat in (() if _stays_by_plan(agreement) else _refusals(agreement))
        ]
    bits = {owner: of + ledger.before(owner) for owner, of in _told(agreement, name).items()}
    for threat in _refused_by(agreement, agreement.party(name), bits):
        raise OutOfOrder(
            f"{threat.sentence}. {ledger.before(threat.owner)} of them were counted before: an opening counts, "
            f"whatever became of its session. {name}'s owner may set PLUMBLINE_SERVING=shared (nothing is opened), "
            f"train with other records (each counts by its id), join no session with {threat.owner} if it broke those "
            "off, or set PLUMBLINE_OPENING=always (all is opened)."
        )
    if mode == "off":
        return []
    threats = list(
        _about_a_record(agreement, name, bits)
        if labels is None
        else _about_labels(agreement, agreement.training_rows * _entropy(labels), bits)
    )
    validated = " and patience to 0" if labels is None and validates_on_shares(agreement) else ""
    remedy = f"PLUMBLINE_SERVING=shared{validated}"
    warnings = [f"{one.sentence}. To prevent it, set {remedy}{one.remedy}." for one in threats]
    if threats and mode == "refuse":
        _log.warning("%s", warnings[0])
        raise OutOfOrder(f"{threats[0].reader}. Set {remedy} to prevent it. (PLUMBLINE_GUARD=refuse)")
    return warnings


def _entropy(labels: IntArray) -> float:
    """Bits of one label."""
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    return float(-(shares * np.log2(shares)).sum())


def _about_labels(agreement: Agreement, label_bits: float, opening: Mapping[str, int]) -> Iterator[_Threat]:
    """Weigh opened bits against all that labels tell, at the label party."""
    rows, active = agreement.training_rows, agreement.active.name
    for peer, bits in opening.items():
        if bits > _TOLERATED * label_bits:
            yield _Threat(
                active,
                peer,
                _reader(agreement, peer, bits, "labels", active),
                f" of the {label_bits:.0f} that {rows} records have",
                f", train on {math.ceil(bits * rows / (_TOLERATED * label_bits))} records or more, or let {peer} "
                "bring fewer columns",
            )


def _about_a_record(agreement: Agreement, name: str, opening: Mapping[str, int]) -> Iterator[_Threat]:
    """Weigh opened bits against what a record tells, at a passive party."""
    record = agreement.record_bits(name)
    for active, bits in opening.items():
        if bits > _TOLERATED * record:
            reader = _reader(agreement, active, bits, "features", name)
            yield _Threat(name, active, reader, f", where a record has {record}")


def _about_validations(agreement: Agreement, name: str, ledger: BitsBefore) -> Iterator[str]:
    """Weigh them at a passive party, whose shares a validation is of: its label party chooses what multiplies them."""
    active, record = agreement.active.name, agreement.record_bits(name)
    shown_bits, earlier = validation_bits(agreement), ledger.before(agreement.active.name)
    if shown_bits and shown_bits + earlier > _TOLERATED * record:
        before = " of this session and what earlier ones opened" if earlier else ""
        yield (
            f"{active} could read features of {name} from the validation losses{before}, if it sends other numbers "
            f"than its own: up to {shown_bits + earlier} bits, where a record has {record}. To prevent it, set "
            "patience to 0."
        )


def _told(agreement: Agreement, name: str) -> dict[str, int]:
    """Count what a session opens that could be about a party's records, and what its validations tell, in bits."""
    epoch_bits = kept_epoch_bits(agreement) + slope_bits(agreement)
    shown_bits = epoch_bits if name == agreement.active.name else validation_bits(agreement)
    return {owner: bits + shown_bits for owner, bits in opened_to(agreement, name).items()}


def validation_bits(agreement: Agreement) -> int:
    """Count the bits that the label party is shown by validations of weights that are shared, at most.

    None where a layer is forwarded: it is shown sums of validation records as of all others, and computes the loss.
    """
    is_shown = validates_on_shares(agreement) and not agreement.plan.family.spec.forwards
    return WORD_BITS * agreement.validated_epochs if is_shown else 0


def kept_epoch_bits(agreement: Agreement) -> int:
    """Count the bits about labels that the other party is told by the epoch that is kept after such validations."""
    return (agreement.validated_epochs - 1).bit_length() if validates_on_shares(agreement) else 0


def slope_bits(agreement: Agreement) -> int:
    """Count the bits about labels that the others are told by a slope of opened weights, at most."""
    calibrates = agreement.plan.calls.calibrates()
    return SLOPE_BITS if calibrates and not validates_on_shares(agreement) else 0


def _reader(agreement: Agreement, owner: str, bits: int, what: str, of: str) -> str:
    """Say who could read what, and how many bits."""
    earlier = " of this session and earlier ones" if bits > _told(agreement, of)[owner] else ""
    label_source = "the slope of calibrated scores" if slope_bits(agreement) else "the epoch that is kept"
    source = label_source if of == agreement.active.name else "validation losses"
    addition = f" and {source}" if _told(agreement, of) != opened_to(agreement, of) else ""
    return (
        f"{owner} could read {what} of {of} from its opened weights{addition}{earlier}, if it encrypts other columns "
        f"than its own: up to {bits} bits"
    )
