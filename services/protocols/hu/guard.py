"""The guard counts what each peer could learn from a party's answers, before the first one is given."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from services.ciphers.channels import Channel, tell_together
from services.ciphers.formats import CipherFormats
from services.common import limits
from services.common.agreement import FIXED, Agreement, TrainingPlan
from services.common.exposure import Mode, weighed
from services.watching.tally import Told
from vfl.crypto import PackingImpossible

# Learning rate times steps in which weights move by about what they are. Measured: docs/decisions/0005.
STANDSTILL = 1.0


def channels_of(agreement: Agreement, key_holder: str) -> tuple[Channel, ...]:
    """Make one channel per peer of the key holder. None where nothing is answered, encrypted or trained.

    Raises PackingImpossible for terms that don't fit the session's keys.
    """
    plan = agreement.plan
    if not plan.encryption.spec.counts_equations or not plan.family.spec.trains:
        return ()
    formats = CipherFormats(agreement)
    return tuple(formats.channel(key_holder, peer.name) for peer in agreement.peers_of(key_holder))


def told_by(channel: Channel) -> Told:
    """Say what a decryption tells a channel's peer, to who watches this party: of one step, not of several together."""
    most = max(channel.most_rows_told, channel.labels_beyond_weights)
    return Told(channel.capacity.equations, sum(channel.capacity.answer_bits), most / channel.rows)


def guard(agreement: Agreement, channels: Sequence[Channel], mode: Mode, *, noisy: bool = False) -> list[str]:
    """Warn of channels whose answers hold too many equations.

    Args:
        agreement: the session's terms.
        channels: the key holder's, one per peer.
        mode: warn, refuse (raises instead) or off.
        noisy: whether the key holder adds noise to its residuals. A count doesn't tell whether the noise is enough.
            The guard then warns and doesn't refuse.

    Returns:
        The warnings. The first sentence of each says who could learn what; numbers and what to do follow.

    Raises:
        OutOfOrder: the first warning, where the mode is refuse and residuals carry no noise.
    """
    if mode == "off":
        return []
    telling = [channel for channel in channels if _is_open(channel)]
    warnings = list(_warnings_of_one_step(agreement, telling))
    if not telling and tell_together(channels):
        warnings.append(_together(agreement, channels))
    for channel in channels:
        warnings += _standstill_warnings(agreement, channel) or _settled_warnings(agreement, channel)
    if any(channel.key_holder == agreement.active.name for channel in channels):
        warnings += _first_step_warnings(agreement, channels)
    warnings += _listening_warnings(agreement, channels)
    return weighed(warnings, mode, noisy=noisy)


def least_batch(agreement: Agreement) -> int:
    """Count the records of the smallest batch of which the guard says nothing at any party, by the answers of one step.

    The cipher doesn't count. Where no batch size hides anything it is the smallest that a plan chooses by itself.
    """
    try:
        formats = CipherFormats(agreement)
        channels = [
            [formats.channel(holder.name, peer.name) for peer in agreement.peers_of(holder.name)]
            for holder in agreement.parties
        ]
    except PackingImpossible:
        return limits.CHOSEN_BATCH
    most_rows = [sum(one.most_rows_told for one in of_holder) for of_holder in channels]
    return 1 + max(*most_rows, *(one.labels_beyond_weights for of_holder in channels for one in of_holder))


# -- what one step tells -----------------------------------------------------------------------------------------------


def _warnings_of_one_step(agreement: Agreement, telling: Sequence[Channel]) -> Iterator[str]:
    """Write one warning per channel, and a single sentence for all of those that no batch size helps."""
    hopeless = []
    for channel in telling:
        if remedies := _remedies(agreement, channel):
            yield _warning(agreement, channel, remedies)
        else:
            hopeless.append(channel)
    if hopeless:
        yield _too_small(agreement, hopeless)


def _is_open(channel: Channel) -> bool:
    return channel.is_telling or channel.is_heard


def _warning(agreement: Agreement, channel: Channel, remedies: Sequence[str]) -> str:
    holder = channel.key_holder
    if not channel.is_telling:
        return _beyond_weights(agreement, channel, remedies)
    if not channel.is_solvable:
        consequence = (
            f"too few to solve for {holder}'s residuals, but labels follow from fewer equations than records while "
            f"weights are near their start, up to {channel.unknowns_per_equation} from each"
        )
    else:
        consequence = f"enough to solve for {holder}'s residuals (Hu, section 5.2)"
    return (
        f"{channel.peer} could learn {_what(agreement, holder)} from the answers of one step. It can put "
        f"{channel.capacity.equations} equations into them, and a batch has {channel.rows} records: {consequence}. "
        f"To prevent it, {', or '.join(remedies)}."
    )


def _beyond_weights(agreement: Agreement, channel: Channel, remedies: Sequence[str]) -> str:
    """Write one sentence about a label party whose few columns move few of a peer's sums."""
    columns = agreement.active.feature_count
    return (
        f"{channel.peer} could learn {_what(agreement, channel.key_holder)} by listening alone, from the answers about "
        f"one batch. {channel.key_holder} has {columns} column{'s' if columns > 1 else ''}, its bias included: as many "
        f"of {channel.peer}'s {channel.capacity.sums // agreement.residual_columns} sums of a batch move with its "
        "weights, and what doesn't move is sums of labels alone. They can hold those of "
        f"{channel.labels_beyond_weights} records, and a batch has {channel.rows}. To prevent it, "
        f"{', or '.join(remedies)}."
    )


def _together(agreement: Agreement, channels: Sequence[Channel]) -> str:
    """Write one sentence about peers of which none is told too much, but all together are."""
    holder, peers = channels[0].key_holder, " and ".join(channel.peer for channel in channels)
    larger = _sufficient_batch(agreement, channels)
    remedies = [*([f"choose {larger.words(agreement.plan)}"] if larger else []), f"turn on dp_noise at {holder}"]
    return (
        f"{peers} could learn {_what(agreement, holder)} from the answers of one step, if they put them together: each "
        f"is answered about the same residuals. Together they hold {sum(one.capacity.equations for one in channels)} "
        f"equations, from which as many as {sum(one.most_rows_told for one in channels)} records may follow, and a "
        f"batch has {channels[0].rows}. To prevent it, {', or '.join(remedies)} (this count then stays)."
    )


def _too_small(agreement: Agreement, channels: Sequence[Channel]) -> str:
    """Write one sentence about a table that is too small for any batch size."""
    holder = channels[0].key_holder
    needed = max(_rows_needed(agreement, channel) for channel in channels)
    return (
        f"{' and '.join(channel.peer for channel in channels)} could learn {_what(agreement, holder)} from the answers "
        f"of one step, whatever the batch size: train on {needed} records or more, where there are "
        f"{agreement.training_rows} now, or turn on dp_noise at {holder} (this count then stays)."
    )


def _what(agreement: Agreement, key_holder: str) -> str:
    """Say in plain words what the answers of a key holder tell."""
    if key_holder == agreement.active.name:
        return f"labels of {key_holder}'s records"
    return f"{key_holder}'s part of each record's score"


def _remedies(agreement: Agreement, channel: Channel) -> tuple[str, ...]:
    """Say what keeps the channel from telling too much, besides noise alone. Empty where nothing does."""
    name, plan, remedies = channel.key_holder, agreement.plan, []
    larger = _sufficient_batch(agreement, [channel])
    if larger:
        remedies.append(f"choose {larger.words(plan)}")
    if not agreement.party(name).truncates_answers:
        truncating = _truncating(agreement, name)
        truncated = _counted_if_possible(truncating, channel)
        if truncated and not _is_open(truncated):
            moving = _rate_words(truncating, truncated)
            remedies.append(f"set truncate_answers=true at {name} ({truncated.capacity.equations} equations){moving}")
        elif truncated:
            smaller = _sufficient_batch(truncating, [truncated])
            if smaller and (larger is None or smaller.size < larger.size):
                remedies.append(f"set truncate_answers=true at {name} with {smaller.words(plan)}")
    if remedies and not channel.is_solvable:
        # Only the key holder knows of its noise.
        remedies.append(f"turn on dp_noise at {name}, which hides residuals whatever is asked (this count then stays)")
    return tuple(remedies)


@dataclass(frozen=True)
class _Batch:
    """A batch size, and the session and the channel that it makes."""

    agreement: Agreement
    channel: Channel

    @property
    def size(self) -> int:
        return self.agreement.plan.batch_size

    def words(self, plan: TrainingPlan) -> str:
        return f"a batch_size of {self.size}{_rate_words(self.agreement, self.channel)}"


def _sufficient_batch(agreement: Agreement, channels: Sequence[Channel]) -> _Batch | None:
    """Find a larger batch size whose smallest batch has more rows than these answers tell. None when there is none.

    A larger batch may change widths and layout. The search begins with the largest number of steps that may do, and
    goes down by a hundredth. An honest sum takes more bits than a residual, so there are no fewer equations than sums.
    """
    rows = agreement.training_rows
    sums = sum(channel.capacity.sums * channel.unknowns_per_equation for channel in channels)
    fewest = 1 + max(sums, *(channel.labels_beyond_weights for channel in channels))
    steps = min(rows // fewest, _steps_per_epoch(agreement) - 1)
    while steps > 0:
        larger = _with_batch(agreement, -(-rows // steps))
        candidates = [candidate for channel in channels if (candidate := _counted_if_possible(larger, channel))]
        if len(candidates) == len(channels) and not (any(map(_is_open, candidates)) or tell_together(candidates)):
            return _Batch(larger, candidates[0])
        steps -= -(-steps // 100)
    return None


def _rows_needed(agreement: Agreement, channel: Channel) -> int:
    """Count the fewest training records of which truncated answers about one batch of all don't tell too much."""
    plan = replace(agreement.plan, validation_fraction=0.0, test_fraction=0.0)
    trained = _truncating(replace(agreement, plan=plan), channel.key_holder)

    def is_enough(rows: int) -> bool:
        parties = tuple(replace(party, aligned_rows=rows, roster=None) for party in trained.parties)
        trial_channel = _counted_if_possible(_with_batch(replace(trained, parties=parties), rows), channel)
        return trial_channel is None or not _is_open(trial_channel)

    most = 2 * channel.rows
    while not is_enough(most):
        most *= 2
    return bisect_left(range(most), True, lo=channel.rows, key=is_enough)


def _with_batch(agreement: Agreement, batch_size: int) -> Agreement:
    return replace(agreement, plan=replace(agreement.plan, batch_size=batch_size))


def _counted_if_possible(agreement: Agreement, channel: Channel) -> Channel | None:
    """Count the same channel under other terms than the session's. None where these don't fit its keys."""
    try:
        return CipherFormats(agreement).channel(channel.key_holder, channel.peer)
    except PackingImpossible:
        return None


def _truncating(agreement: Agreement, name: str) -> Agreement:
    parties = tuple(
        replace(party, truncates_answers=party.truncates_answers or party.name == name) for party in agreement.parties
    )
    return replace(agreement, parties=parties)


# -- what several steps tell together ----------------------------------------------------------------------------------


def _first_step_warnings(agreement: Agreement, channels: Sequence[Channel]) -> list[str]:
    """Warn where the label party's first shares are its labels: they follow exactly and from very few equations."""
    leakage = agreement.plan.leakage
    if not leakage.labels_alone:
        return []
    name = agreement.active.name
    widest = max(channels, key=lambda channel: (channel.labels_from_zero, sum(channel.capacity.answer_bits)))
    # A label takes one bit of an answer whose sender has chosen what to ask for.
    most_labels = max(widest.labels_from_zero, sum(widest.capacity.answer_bits))
    return [
        f"Every other party could learn labels of {name}'s records from the answers of the first step. "
        f"With {leakage.labels_alone} its first residuals are labels alone, and these follow from far fewer equations "
        f"than there are records (Hu, Theorem 4.1): {widest.peer}'s {widest.capacity.sums} honest sums can hold the "
        f"labels of {widest.labels_from_zero} records, those that it chooses for itself of {most_labels}, both "
        f"of more where a label is rare, and a batch has {widest.rows}. To prevent it, choose {leakage.remedy}."
    ]


def _standstill_warnings(agreement: Agreement, channel: Channel) -> list[str]:
    """Warn where weights hardly move: equations of different steps then have the same unknowns, and add up.

    Where batches are reshuffled, honest messages are enough for it. A channel that tells too much within one step has
    its warning already.
    """
    plan, needed, steps = agreement.plan, steps_until_told(agreement, channel), _steps_per_epoch(agreement)
    rate = _rate_needed(agreement, channel)
    if rate is None:
        return []
    what = _what(agreement, channel.key_holder)
    return [
        f"{channel.peer} could learn {what} from the answers of {needed} steps together. "
        f"learning_rate={plan.leakage.step_size:g} leaves weights almost where they are for so many, of "
        f"{plan.epochs * steps} in this session: their answers are about the same residuals of "
        f"{channel.key_holder}. To prevent it, choose a learning_rate of {_rounded_up(rate)} or more, or fewer than "
        f"{needed // steps} epochs."
    ]


def _settled_warnings(agreement: Agreement, channel: Channel) -> list[str]:
    """Warn where weights reach their end, and a peer that asks for other sums goes on asking about the same values."""
    plan, needed, steps = agreement.plan, steps_until_told(agreement, channel), _steps_per_epoch(agreement)
    planned, settled = plan.epochs * steps, plan.leakage.settled_after
    if channel.is_telling or settled is None or planned - settled < needed:
        return []
    return [
        f"{channel.peer} could learn {_what(agreement, channel.key_holder)} from the answers of {needed} steps "
        f"together. This learner's weights may be where they end after {settled} of {planned} steps: later answers are "
        f"about the same residuals of {channel.key_holder}. To prevent it, set epochs to "
        f"{(settled + needed - 1) // steps} or less."
    ]


def _listening_warnings(agreement: Agreement, channels: Sequence[Channel]) -> list[str]:
    """Warn where the honest sums of a whole plan tell of each record, by whichever peer hears most."""
    plan = agreement.plan
    heard = {channel: epochs for channel in channels if (epochs := epochs_until_heard(agreement, channel))}
    if not heard or (fewest := min(heard.values())) > plan.epochs:
        return []
    peers = [channel.peer for channel, epochs in heard.items() if epochs <= plan.epochs]
    fewer = f", or train for fewer than {fewest} epochs" if fewest > 1 else ""
    return [
        f"{' and '.join(peers)} could learn {_what(agreement, channels[0].key_holder)} by listening alone, from the "
        f"answers of {fewest} epochs together. What is summed of a record changes little from step to step, every "
        "epoch has other batches, and so its sums are further equations about the same records: "
        f"{_fresh_sums(agreement, min(heard, key=lambda one: heard[one]), fewest)} about {agreement.training_rows} by "
        f"then. To prevent it, set batches=fixed{fewer}."
    ]


def epochs_until_heard(agreement: Agreement, channel: Channel) -> int | None:
    """Epochs whose honest sums tell a peer labels, or products; None where they never do, since batches stay.

    The sums of one epoch's batches add up to the same total as those of any other, so that one batch says nothing new.
    As many labels follow from each as within one step, and one product. Measured: docs/decisions/0019.
    """
    steps = _steps_per_epoch(agreement)
    if agreement.plan.batches == FIXED or steps == 1:
        return None
    needed = -(-agreement.training_rows // channel.unknowns_per_equation)
    sums = channel.capacity.sums // agreement.residual_columns
    return max(1, math.ceil((needed - sums) / (sums * (steps - 1))))


def _fresh_sums(agreement: Agreement, channel: Channel, epochs: int) -> int:
    """Count the sums of a column of residuals, in so many epochs, that don't follow from the others."""
    sums = channel.capacity.sums // agreement.residual_columns
    return sums * (1 + epochs * (_steps_per_epoch(agreement) - 1))


def _steps_per_epoch(agreement: Agreement) -> int:
    return agreement.plan.steps_per_epoch(agreement.training_rows)


def steps_until_told(agreement: Agreement, channel: Channel) -> int:
    """Count the steps whose answers hold enough equations for every record, if residuals stay what they are."""
    return -(-channel.rows // channel.most_rows_told) * _steps_per_epoch(agreement)


def _rate_needed(agreement: Agreement, channel: Channel) -> float | None:
    """Find the smallest learning rate that moves the weights in time. None where the plan's does, or one step tells."""
    plan, needed = agreement.plan, steps_until_told(agreement, channel)
    planned = plan.epochs * _steps_per_epoch(agreement)
    step_size = plan.leakage.step_size
    if channel.is_telling or needed > planned or step_size is None or step_size * needed >= STANDSTILL:
        return None
    return STANDSTILL / needed


def _rate_words(agreement: Agreement, channel: Channel) -> str:
    """Say what learning rate a remedy needs besides, where weights would stand still for too many of its steps."""
    rate = _rate_needed(agreement, channel)
    return f" and a learning_rate of {_rounded_up(rate)} or more" if rate else ""


def _rounded_up(value: float) -> str:
    """Round up to two digits that are no less than the value."""
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step) * step:.2g}"
