"""Hu's Protocol 1, of learners whose parties all send residuals: each answer holds sums of these, and is counted."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from services.ciphers.channels import Channel
from services.common.agreement import Agreement
from services.common.exposure import Exposure, Guarded, GuardedParty
from services.party.share_guard import guard_shares, shares_of
from services.protocols.hu.cut_layer import CutLayer
from services.protocols.hu.decrypted_sums import DecryptedSums
from services.protocols.hu.guard import channels_of, epochs_until_heard, guard, least_batch, steps_until_told, told_by
from vfl.crypto import PackingImpossible
from vfl.learning import Learner


@dataclass(frozen=True)
class Protocol1(DecryptedSums):
    """Hu's Protocol 1."""

    def of(self, learner: Learner) -> DecryptedSums:
        """Split learning for a learner that forwards a first layer, this for others."""
        return CutLayer() if learner.spec.forwards else self

    def guard(self, agreement: Agreement, party: GuardedParty) -> Guarded:
        """Count equations of every answer, and what answers of all sessions tell of single records."""
        channels = channels_of(agreement, party.name)
        # A label party's shares hold its labels besides: what is told of these is counted by equations.
        of_features = () if party.name == agreement.active.name else channels
        return Guarded(
            (
                *guard(agreement, channels, party.mode, noisy=party.noisy),
                *guard_shares(agreement, of_features, party.features, party.earlier, party.mode, noisy=party.noisy),
            ),
            {channel.peer: told_by(channel) for channel in channels},
            {channel.peer: shares_of(agreement, channel) for channel in of_features},
            [channel.facts() for channel in channels],
        )

    def least_batch(self, agreement: Agreement) -> int:
        """Count by the guard's channels."""
        return least_batch(agreement)

    def exposures(self, agreement: Agreement) -> tuple[Exposure, ...]:
        """Count each channel; sessions in the clear as they would be under Paillier."""
        encrypted = replace(agreement, plan=agreement.plan.encrypted())
        return tuple(_of_channel(encrypted, channel) for channel in _channels(encrypted))


def _channels(agreement: Agreement) -> Iterator[Channel]:
    for holder in agreement.parties:
        try:
            yield from channels_of(agreement, holder.name)
        except PackingImpossible:
            continue


def _of_channel(agreement: Agreement, channel: Channel) -> Exposure:
    capacity = channel.capacity
    is_active = channel.key_holder == agreement.active.name
    secret = "residuals, and so the labels," if is_active else "part of the scores"
    answers = len(capacity.answer_bits)
    since, possible = _since(agreement, channel)
    return Exposure(
        party=channel.peer,
        owner=channel.key_holder,
        received=f"{answers} decrypted answer{'s' if answers > 1 else ''} in each training step: {capacity.sums} sums",
        about=f"{channel.key_holder}'s {secret} of one batch",
        equations=capacity.equations,
        unknowns=channel.rows,
        since=since,
        possible=possible,
    )


def _since(agreement: Agreement, channel: Channel) -> tuple[str, bool]:
    """From which step on the answers hold enough, and whether the session has so many."""
    if channel.is_solvable:
        return "From the first step: there are no more unknowns than equations.", True
    if channel.key_holder == agreement.active.name and agreement.plan.leakage.labels_alone:
        return "From the first step: with zero weights the first answers are about labels alone.", True
    if channel.is_telling:
        return "From the first step, by search: while weights are near their start, few equations tell labels.", True
    if channel.is_heard:
        return "From the first steps: few sums move with so few weights, and all others are about labels alone.", True
    plan = agreement.plan
    if (heard := epochs_until_heard(agreement, channel)) and heard <= plan.epochs:
        return (
            f"From epoch {heard:,} on, by listening: batches are reshuffled, and sums of different steps are about the "
            "same records.",
            True,
        )
    needed, planned = steps_until_told(agreement, channel), plan.epochs * plan.steps_per_epoch(agreement.training_rows)
    if needed <= planned:
        return f"From step {needed:,}, if weights hardly move until then: {planned:,} steps were planned.", True
    return f"Not within this session: {planned:,} steps, where {needed:,} are needed if weights stand still.", False
