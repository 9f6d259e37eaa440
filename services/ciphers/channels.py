"""Decryption channels: what the answers of one step have room for, from each key holder to each of its peers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from services.common.agreement import Agreement, PartyDescription
from services.common.run_records import ChannelRecord
from vfl.crypto import AnswerCapacity, FixedPoint, PackingLayout, StepProduct, answer_capacity, count_equations
from vfl.crypto.widths import ColumnFormats
from vfl.theory.label_sums import most_labels_told


@dataclass(frozen=True)
class Channel:
    """The decryption channel from a key holder to one peer, and how many equations its answers hold.

    Attributes:
        key_holder: the party that decrypts.
        peer: the party that asks for decryptions.
        rows: records of the smallest batch. A column of residuals has as many unknowns.
        capacity: how many equations the answers of one step hold.
        unknowns_per_equation: 1 for residuals, what the learner says where they tell labels.
        labels_from_zero: the most records whose labels the honest sums determine if residuals are labels alone,
            and each label as frequent as any.
        labels_beyond_weights: the most records whose labels the honest sums determine that no weight of the key holder
            moves: all but as many as it has features. 0 where it has no labels, or where learners mix them otherwise.
    """

    key_holder: str
    peer: str
    rows: int
    capacity: AnswerCapacity
    unknowns_per_equation: int
    labels_from_zero: int
    labels_beyond_weights: int

    @property
    def is_solvable(self) -> bool:
        """Whether the answers of one step hold as many equations as there are unknowns (Hu 3.2, 5.2)."""
        return self.rows <= self.capacity.equations

    @property
    def most_rows_told(self) -> int:
        """The largest batch whose residuals, or the labels behind them, the answers of one step may tell."""
        return self.capacity.equations * self.unknowns_per_equation

    @property
    def is_telling(self) -> bool:
        """Whether the answers of one step hold enough equations for the residuals, or for the labels behind them."""
        return self.rows <= self.most_rows_told

    @property
    def is_heard(self) -> bool:
        """Whether honest sums about one batch hold enough of labels alone, whatever weights do."""
        return self.rows <= self.labels_beyond_weights

    def facts(self) -> ChannelRecord:
        """Give the channel's counts, for the run's record."""
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


@dataclass(frozen=True, order=True)
class Exposure:
    """How many channels of a session tell too much in one step; less is better, what can be solved for counts first.

    Attributes:
        solvable: channels whose residuals can be solved for.
        telling: channels that tell residuals or labels.
        heard: channels that tell labels to who only listens, since few weights move few sums.
        together: key holders whose peers are told as much by putting their answers together.
        settled: channels that tell too much by a plan's last steps, where weights don't move any more, and not by one.
    """

    solvable: int
    telling: int
    heard: int
    together: int
    settled: int = 0

    @property
    def is_none(self) -> bool:
        """Whether the guard has nothing to say of any channel."""
        return self.telling == self.heard == self.together == self.settled == 0


def tell_together(channels: Sequence[Channel]) -> bool:
    """Tell whether a key holder's answers of one step to all of these peers hold enough, put together.

    Each peer has a right to an answer of its own about the same residuals.
    """
    return len(channels) > 1 and channels[0].rows <= sum(channel.most_rows_told for channel in channels)


def residual_format(agreement: Agreement) -> FixedPoint:
    """Make the fixed point of residuals, as the plan says."""
    plan = agreement.plan
    return FixedPoint(plan.residual_fraction_bits, plan.residual_integer_bits)


def feature_format(agreement: Agreement) -> FixedPoint:
    """Make the fixed point that holds every party's full columns."""
    return FixedPoint(
        agreement.plan.feature_fraction_bits,
        max(party.feature_integer_bits for party in agreement.parties),
        signed=any(party.features_signed for party in agreement.parties),
    )


def column_formats(agreement: Agreement, party: PartyDescription) -> ColumnFormats:
    """List the formats of a party's columns in wire order, as it described them."""
    return party.widths.formats(feature_format(agreement).entries)


def channel(agreement: Agreement, layout: PackingLayout | None, key_holder: str, peer: str) -> Channel:
    """Count the channel from a key holder to a peer under one layout; None is one sum per answer."""
    holder, features = agreement.party(key_holder), column_formats(agreement, agreement.party(peer))
    return Channel(
        key_holder,
        peer,
        agreement.plan.smallest_batch(agreement.training_rows),
        answer_capacity(
            _product(agreement, layout, features),
            capacity=agreement.plan.encryption.capacity,
            truncated=holder.truncates_answers,
        ),
        _unknowns_per_equation(agreement, holder),
        most_labels_told(features.total, _mean_bits(features), agreement.classes),
        _labels_beyond_weights(agreement, holder, features),
    )


def exposure(agreement: Agreement, layout: PackingLayout | None) -> Exposure:
    """Count the channels of all parties that tell too much under one layout."""
    plan = agreement.plan
    rows, capacity = plan.smallest_batch(agreement.training_rows), plan.encryption.capacity

    @cache
    def equations(features: ColumnFormats, truncated: bool) -> int:
        return count_equations(_product(agreement, layout, features), capacity=capacity, truncated=truncated)

    labels_beyond_weights = cache(partial(_labels_beyond_weights, agreement))

    solvable = telling = heard = together = settled = 0
    steps = plan.steps_per_epoch(agreement.training_rows)
    settled_after = plan.leakage.settled_after
    further = 0 if settled_after is None else plan.epochs * steps - settled_after
    for holder in agreement.parties:
        peers, all_told = agreement.peers_of(holder.name), 0
        for peer in peers:
            features = column_formats(agreement, peer)
            equation_count = equations(features, holder.truncates_answers)
            most_told = equation_count * _unknowns_per_equation(agreement, holder)
            solvable += rows <= equation_count
            telling += rows <= most_told
            settled += rows > most_told and further >= -(-rows // most_told) * steps
            heard += rows <= labels_beyond_weights(holder, features)
            all_told += most_told
        together += len(peers) > 1 and rows <= all_told
    return Exposure(solvable, telling, heard, together, settled)


def _product(agreement: Agreement, layout: PackingLayout | None, features: ColumnFormats) -> StepProduct:
    """Describe what a peer of such features asks for in one step."""
    return StepProduct(
        rows=agreement.plan.batch_size,
        features=features,
        columns=agreement.residual_columns,
        layout=layout,
        residual_format=residual_format(agreement),
    )


def _mean_bits(features: ColumnFormats) -> float:
    """log2 of the largest entry of a column, on average."""
    return sum(count * math.log2(entry.bound) for entry, count in features.runs) / features.total


def _labels_beyond_weights(agreement: Agreement, key_holder: PartyDescription, features: ColumnFormats) -> int:
    if key_holder != agreement.active or not agreement.plan.leakage.is_affine:
        return 0
    unmoved = max(0, features.total - key_holder.feature_count)
    return most_labels_told(unmoved, _mean_bits(features), agreement.classes)


def _unknowns_per_equation(agreement: Agreement, key_holder: PartyDescription) -> int:
    if key_holder != agreement.active:
        return 1
    return agreement.plan.leakage.labels
