"""The roster of a session: how many of its records are in which batch, where batches last over sessions."""

from dataclasses import dataclass

import numpy as np

from protos.v1 import common_pb2
from services.common import limits
from services.common.errors import InvalidMessage
from vfl.data.faults import counted
from vfl.learning import RowCounts, RowSplit


@dataclass(frozen=True)
class Roster:
    """Counts of a session's records, in the common order: batch by batch, validation, test, and those in no role.

    A first session has none: its records are split and its batches drawn by the public seed.

    Attributes:
        batches: records of each training batch, the oldest first.
        validation: of each batch of validation records.
        test: test records.
        waiting: those that wait for others to fill a batch with.
        held: those without a label, which can have no role yet.
        least: records that a batch of newcomers has at least.
    """

    batches: tuple[int, ...]
    validation: tuple[int, ...]
    test: int
    waiting: int
    held: int
    least: int

    @classmethod
    def from_message(cls, message: common_pb2.Roster) -> "Roster":
        """Read and check a roster; raises InvalidMessage."""
        limits.check_count(message.batches, limits.STEPS, "batches in a roster", least=1)
        limits.check_count(message.validation, limits.STEPS, "batches in a roster")
        roster = cls(
            tuple(message.batches),
            tuple(message.validation),
            message.test,
            message.waiting,
            message.held,
            message.least,
        )
        if min(*roster.batches, *roster.validation, roster.least) < 1:
            raise InvalidMessage("A roster has an empty batch: run one version of Plumbline everywhere.")
        limits.check_count(roster.total, limits.ALIGNED_ROWS, "records in a roster")
        return roster

    @property
    def total(self) -> int:
        """All records of the common order."""
        return sum(self.counts) + self.waiting + self.held

    @property
    def counts(self) -> RowCounts:
        """Records of each role."""
        return RowCounts(sum(self.batches), sum(self.validation), self.test)

    @property
    def rows(self) -> RowSplit:
        """Rows of the common order by role."""
        train, validation, test = self.counts
        rows = np.arange(train + validation + test)
        return RowSplit(rows[:train], rows[train : train + validation], rows[train + validation :])

    @property
    def sentences(self) -> list[str]:
        """Say how many records are in no role, why, and from which number on they are."""
        lines = []
        if self.waiting:
            lines.append(
                f"In no role yet: {counted(self.waiting, 'record')} of {self.total}. A batch keeps its members over "
                "all sessions, or the difference of two sums would tell a newcomer's label. Newcomers join as a batch "
                f"of their own, once {self.least} have come that were in no batch before."
            )
        if self.held:
            lines.append(f"In no role until they have a label: {counted(self.held, 'record')} of {self.total}.")
        return lines
