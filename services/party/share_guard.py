"""The guard of single shares: what a training's answers tell of a record over epochs, whoever asks about single ones.

A passive party's share of a step is a linear form of each record's columns, by the weights of that step. Who asks about
a few rows of a batch, the same ones in every epoch, is told one equation of each in every epoch. Answers have room for
so many shares, whosever they are.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from services.ciphers.channels import Channel
from services.common.agreement import Agreement
from services.common.exposure import Mode, weighed
from vfl.arrays import FloatArray
from vfl.data.faults import counted

_log = logging.getLogger(__name__)

# Of a column's variance: what is left by others that make it up.
_DEPENDENT = 1e-9


@dataclass(frozen=True)
class SingleShares:
    """Shares of single records that training's answers may tell a peer.

    Attributes:
        of_a_record: of the record that was sent most often.
        in_answers: of all records, as many as the answers have room for.
    """

    of_a_record: int = 0
    in_answers: int = 0

    def __add__(self, other: "SingleShares") -> "SingleShares":
        """Add those of another session."""
        return SingleShares(self.of_a_record + other.of_a_record, self.in_answers + other.in_answers)

    def whole_records(self, rank: int) -> int:
        """Count the records whose columns, of this rank, they tell at most; 0 where one is told too few."""
        return self.in_answers // rank if self.of_a_record >= rank else 0


def shares_of(agreement: Agreement, channel: Channel) -> SingleShares:
    """Count what one session's answers tell of single records: each is sent once in an epoch, a column per class."""
    steps = agreement.plan.steps_per_epoch(agreement.training_rows) * agreement.plan.epochs
    return SingleShares(agreement.residual_columns * agreement.plan.epochs, steps * channel.capacity.equations)


def rank_of(features: FloatArray) -> int:
    """Count the directions in which (n, d) records differ, at least one."""
    centred = features - features.mean(axis=0)
    spread = np.sqrt((centred**2).mean(axis=0))
    scaled = centred[:, spread > 0] / spread[spread > 0]
    return max(1, int((np.linalg.eigvalsh(scaled.T @ scaled / len(scaled)) > _DEPENDENT).sum()))


def guard_shares(
    agreement: Agreement,
    channels: Sequence[Channel],
    features: FloatArray,
    earlier: Mapping[str, SingleShares],
    mode: Mode,
    *,
    noisy: bool = False,
) -> list[str]:
    """Warn where training may tell as many shares of a record as its columns have directions.

    Peers may put together what they are told: it is added up.

    Args:
        agreement: the session's terms.
        channels: a passive party's, one per peer.
        features: its own, (n, d), of all records that were aligned.
        earlier: what each peer was told in earlier sessions: most about any record of this one, and in all.
        mode: warn, refuse (raises instead) or off.
        noisy: whether the party adds noise to its shares. The guard then warns and doesn't refuse.

    Returns:
        The warning, if any.

    Raises:
        OutOfOrder: the warning, where the mode is refuse and shares carry no noise.
    """
    if mode == "off" or not channels:
        return []
    name, rank = channels[0].key_holder, rank_of(features)
    peers = [channel.peer for channel in channels]
    before = [earlier.get(peer, SingleShares()) for peer in peers]
    totals = [one + shares_of(agreement, channel) for one, channel in zip(before, channels, strict=True)]
    together = SingleShares(max(one.of_a_record for one in totals), sum(one.in_answers for one in totals))
    each = agreement.residual_columns
    sentence = (
        f"Who asks about single records in each step is told {counted(each, 'sum')} of the columns of every record in "
        f"an epoch, {min(together.of_a_record, rank)} in all sessions where {rank} tell a whole record"
    )
    if not (whole_records := min(together.whole_records(rank), agreement.training_rows)):
        _log.info("%s.", sentence)
        return []
    epochs_left = -(-(rank - max(one.of_a_record for one in before)) // each)
    epochs = f"train for fewer than {counted(epochs_left, 'epoch')} with these records, " if epochs_left > 1 else ""
    warning = (
        f"{' and '.join(peers)} could learn whole records of {name} by sending other messages than the protocol's. "
        f"{sentence}: all columns of at most {whole_records} of {agreement.training_rows} records fit the answers. "
        f"To prevent it, {epochs}choose protocol=shared, or turn on dp_noise at {name} (this count then stays)."
    )
    return weighed([warning], mode, noisy=noisy)
