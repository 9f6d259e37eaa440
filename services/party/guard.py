"""The guard counts what each peer could learn from a party's answers, before the first one is given."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import OutOfOrder
from services.common.run_records import ChannelRecord
from services.protocol1.formats import CipherFormats
from vfl.crypto import AnswerCapacity, PackingImpossible
from vfl.learning import smallest_batch

Mode = Literal["warn", "refuse", "off"]

# One equation tells several labels while weights are near their start. Measured: docs/decisions/0005.
LABELS_PER_EQUATION = 4

# Learning rate times steps in which weights move by about what they are. Measured: docs/decisions/0005.
STANDSTILL = 1.0


@dataclass(frozen=True)
class Channel:
    """The decryption channel from a key holder to one peer, and how many equations its answers hold.

    Attributes:
        key_holder: the party that decrypts.
        peer: the party that asks for decryptions.
        rows: records of the smallest batch. A column of residuals has as many unknowns.
        capacity: how many equations the answers of one step hold.
        unknowns_per_equation: 1 for residuals, LABELS_PER_EQUATION where they tell labels.
        steps_per_epoch: steps in which each record comes once.
        remedies: what the key holder can do about too few rows, in words. None where nothing is needed.
    """

    key_holder: str
    peer: str
    rows: int
    capacity: AnswerCapacity
    unknowns_per_equation: int
    steps_per_epoch: int
    remedies: tuple[str, ...] = ()

    @property
    def is_solvable(self) -> bool:
        """Whether the answers of one step hold as many equations as there are unknowns (Hu 3.2, 5.2)."""
        return self.rows <= self.capacity.equations

    @property
    def is_telling(self) -> bool:
        """Whether the answers of one step hold enough equations for the residuals, or for the labels behind them."""
        return self.rows <= self.capacity.equations * self.unknowns_per_equation

    @property
    def steps_until_told(self) -> int:
        """Steps whose answers together hold enough equations for every record, if residuals stay what they are."""
        epochs = -(-self.rows // (self.capacity.equations * self.unknowns_per_equation))
        return epochs * self.steps_per_epoch

    @property
    def warning(self) -> str:
        """A sentence about what the peer can do, and what would prevent it."""
        consequence = (
            f"it can solve for the residuals of {self.key_holder} (Hu, section 5.2)."
            if self.is_solvable
            else f"too few to solve for the residuals of {self.key_holder}, but its labels follow from fewer equations "
            f"than rows while weights are near their start, up to {self.unknowns_per_equation} from each."
        )
        return (
            f"{self.peer} can put {self.capacity.equations} equations into the answers of one step, a batch has "
            f"{self.rows} rows: {consequence} To prevent it, {', or '.join(self.remedies)}."
        )

    def facts(self) -> ChannelRecord:
        """The channel's counts, for the run's record."""
        return ChannelRecord(
            key_holder=self.key_holder,
            peer=self.peer,
            rows=self.rows,
            answers=len(self.capacity.answer_bits),
            answer_bits=sum(self.capacity.answer_bits),
            sums=self.capacity.sums,
            sum_bits=self.capacity.sum_bits,
            residual_bits=self.capacity.residual_bits,
            equations=self.capacity.equations,
            spare_bits=self.capacity.spare_bits,
            spare_equations=self.capacity.spare_equations,
        )


def channels_of(agreement: Agreement, key_holder: str, training_rows: int) -> tuple[Channel, ...]:
    """One channel per peer of the key holder. None where nothing is encrypted or nothing is trained."""
    if agreement.plan.cipher != "paillier" or agreement.plan.installed_model:
        return ()
    return tuple(_channel(agreement, key_holder, peer.name, training_rows) for peer in agreement.peers_of(key_holder))


def guard(agreement: Agreement, channels: Sequence[Channel], mode: Mode, *, noisy: bool = False) -> list[str]:
    """Warn of channels whose answers hold too many equations.

    Args:
        agreement: the session's terms.
        channels: the key holder's, one per peer.
        mode: warn, refuse (raises instead) or off.
        noisy: whether the key holder adds noise to its residuals. A count doesn't tell whether the noise is enough.
            The guard then warns and doesn't refuse.

    Returns:
        One sentence per warning.

    Raises:
        OutOfOrder: the first warning, where the mode is refuse and residuals carry no noise.
    """
    if mode == "off":
        return []
    warnings = [channel.warning for channel in channels if channel.is_telling]
    for channel in channels:
        warnings += _standstill_warnings(agreement, channel)
    if any(channel.key_holder == agreement.active.name for channel in channels):
        warnings += _first_step_warnings(agreement)
    if warnings and mode == "refuse" and not noisy:
        raise OutOfOrder(f"{warnings[0]} (PLUMBLINE_GUARD=refuse)")
    return warnings


def _first_step_warnings(agreement: Agreement) -> list[str]:
    """From zero weights the label party's first shares are its labels, exactly and from very few equations."""
    if agreement.plan.initialisation != "zero":
        return []
    return [
        f"initialisation=zero: the first residuals of {agreement.active.name} are its labels alone, and exact signs "
        "follow from far fewer equations than there are rows (Hu, Theorem 4.1). To prevent it, choose "
        "initialisation=xavier."
    ]


def _standstill_warnings(agreement: Agreement, channel: Channel) -> list[str]:
    """Warn where weights hardly move: equations of different steps then have the same unknowns, and add up.

    Honest messages are enough for it. A channel that tells too much within one step has its warning already.
    """
    plan, needed = agreement.plan, channel.steps_until_told
    rate = _rate_needed(plan, channel)
    if rate is None:
        return []
    consequence = (
        "can solve for what one step hides"
        if channel.unknowns_per_equation == 1
        else "gets as many equations as labels take, though not enough to solve for the residuals"
    )
    return [
        f"learning_rate={plan.learning_rate:g} leaves weights almost where they are for {needed} steps, of "
        f"{plan.epochs * channel.steps_per_epoch} in this session: their answers are about the same residuals of "
        f"{channel.key_holder}, and {channel.peer} {consequence}. To prevent it, choose a learning_rate of "
        f"{_rounded_up(rate)} or more, or fewer than {needed // channel.steps_per_epoch} epochs."
    ]


def _rate_needed(plan: TrainingPlan, channel: Channel) -> float | None:
    """The smallest learning rate that moves the weights in time. None where the plan's does, or one step tells."""
    needed = channel.steps_until_told
    planned = plan.epochs * channel.steps_per_epoch
    if channel.is_telling or needed > planned or plan.learning_rate * needed >= STANDSTILL:
        return None
    return STANDSTILL / needed


def _rounded_up(value: float) -> str:
    """Two digits that are no less than the value."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step) * step:.2g}"


def _channel(agreement: Agreement, key_holder: str, peer: str, training_rows: int) -> Channel:
    found = _counted(agreement, key_holder, peer, training_rows)
    return replace(found, remedies=_remedies(agreement, found, training_rows)) if found.is_telling else found


def _counted(agreement: Agreement, key_holder: str, peer: str, training_rows: int) -> Channel:
    """Raises PackingImpossible for terms that don't fit the session's keys."""
    batch_size = agreement.plan.batch_size
    return Channel(
        key_holder,
        peer,
        smallest_batch(training_rows, batch_size),
        CipherFormats(agreement).capacity(key_holder, peer),
        LABELS_PER_EQUATION if key_holder == agreement.active.name else 1,
        -(-training_rows // batch_size),
    )


def _remedies(agreement: Agreement, channel: Channel, training_rows: int) -> tuple[str, ...]:
    """What keeps the channel from telling too much. Noise does where labels are told or nothing else helps."""
    name, plan, remedies = channel.key_holder, agreement.plan, []
    larger = _sufficient_batch(agreement, channel, training_rows)
    if larger:
        remedies.append(f"choose {larger.words(plan)}")
    truncating, truncates = _truncating(agreement, name), agreement.party(name).truncates_answers
    truncated = _counted_if_possible(truncating, channel, training_rows)
    if truncated and not truncated.is_telling:
        moving = _rate_words(plan, truncated)
        remedies.append(f"response_truncation at {name} ({truncated.capacity.equations} equations){moving}")
    elif truncated and not truncates:
        smaller = _sufficient_batch(truncating, truncated, training_rows)
        if smaller and (larger is None or smaller.size < larger.size):
            remedies.append(f"response_truncation at {name} with {smaller.words(plan)}")
    if not remedies and plan.packing:
        # Large batches are packed with several rows per ciphertext, and the slots between the wanted ones count.
        unpacked = replace(truncating, plan=replace(plan, packing=False))
        batch = _sufficient_batch(unpacked, _counted(unpacked, name, channel.peer, training_rows), training_rows)
        if batch:
            first = "choose" if truncates else f"response_truncation at {name} with"
            remedies.append(f"{first} packing=off and {batch.words(plan)}")
    if not remedies or not channel.is_solvable:
        # Only the key holder knows of its noise.
        remedies.append(f"dp_noise at {name}, which hides residuals whatever is asked (this count then stays)")
    return tuple(remedies)


@dataclass(frozen=True)
class _Batch:
    """A batch size, and the channel that it makes."""

    size: int
    channel: Channel

    def words(self, plan: TrainingPlan) -> str:
        return f"a batch_size of {self.size}{_rate_words(plan, self.channel)}"


def _rate_words(plan: TrainingPlan, channel: Channel) -> str:
    """The learning rate that a remedy needs besides, where weights would stand still for too many of its steps."""
    rate = _rate_needed(plan, channel)
    return f" and a learning_rate of {_rounded_up(rate)} or more" if rate else ""


def _sufficient_batch(agreement: Agreement, channel: Channel, training_rows: int) -> _Batch | None:
    """A batch size whose smallest batch has more rows than its answers tell. None when there is none.

    A larger batch may change widths and layout. The search begins with the largest number of steps that may do, and
    goes down by a hundredth.
    """
    steps = training_rows // (channel.capacity.equations * channel.unknowns_per_equation + 1)
    while steps > 0:
        batch_size = -(-training_rows // steps)
        larger = replace(agreement, plan=replace(agreement.plan, batch_size=batch_size))
        counted = _counted_if_possible(larger, channel, training_rows)
        if counted and not counted.is_telling:
            return _Batch(batch_size, counted)
        steps -= -(-steps // 100)
    return None


def _counted_if_possible(agreement: Agreement, channel: Channel, training_rows: int) -> Channel | None:
    """The same channel under other terms than the session's. None where these don't fit its keys."""
    try:
        return _counted(agreement, channel.key_holder, channel.peer, training_rows)
    except PackingImpossible:
        return None


def _truncating(agreement: Agreement, name: str) -> Agreement:
    parties = tuple(
        replace(party, truncates_answers=party.truncates_answers or party.name == name) for party in agreement.parties
    )
    return replace(agreement, parties=parties)
