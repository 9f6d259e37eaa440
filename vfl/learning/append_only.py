"""Append-only batches: which records are in which batch, over all sessions of one federation. Pure functions.

Guarantee: any linear combination of the sums of all batches, of all sessions, is of no record or of at least ``least``,
as long as the first session's batches had as many. So no difference of sums is one record's, whoever comes and goes.

Proof: a batch of a first session is made of *groups* of ``least`` records or more, and changes by whole groups. A batch
that comes later has at least ``least`` records that were in none before. Of those batches that a combination counts
with other than nothing, take the latest: on its new records the combination is that factor, not 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from vfl.arrays import IntArray

# What stands for records, the same at all parties: a keyed hash of each id.
Names: TypeAlias = NDArray[np.uint64]

# In place of a group's number: of records that are in no batch.
_NEW, _TESTED, _DISSOLVED = -1, -2, -3


def _nobody() -> Names:
    return np.empty(0, dtype=np.uint64)


class BatchChanged(ValueError):
    """Batches of a session that don't go on from those of earlier ones; the text says which and by how much."""


@dataclass(frozen=True, eq=False)
class Placement:
    """What each record is in one session.

    Attributes:
        train: batches of training records.
        validation: batches of validation records.
        test: test records.
        waiting: records in no role.
    """

    train: tuple[Names, ...]
    validation: tuple[Names, ...]
    test: Names
    waiting: Names = field(default_factory=_nobody)


@dataclass(frozen=True, eq=False)
class BatchHistory:
    """What is remembered of the batches of all sessions of one federation. Names in it are distinct.

    Attributes:
        least: records of the smallest batch that the guard is silent about, at least 1.
        train: batches of training records, the oldest first.
        validation: batches of validation records.
        test: test records, present or not.
        dissolved: records that were in a batch and are in none now.
    """

    least: int
    train: tuple[Names, ...]
    validation: tuple[Names, ...]
    test: Names
    dissolved: Names = field(default_factory=_nobody)

    @classmethod
    def begun(cls, placement: Placement, least: int) -> "BatchHistory":
        """Begin with the batches of a first session."""
        return cls(least, placement.train, placement.validation, placement.test)

    def newcomers(self, present: Names) -> Names:
        """Find the records that were in no batch before, and aren't tested, in the order of their names."""
        return np.setdiff1d(present, np.concatenate([*self.train, *self.validation, self.dissolved, self.test]))

    def place(self, present: Names, *, validation_fraction: float, test_fraction: float) -> Placement:
        """Place the records of another session: those of before as they were, newcomers in batches of their own.

        A group that lacks a member is dissolved, and its other members wait. Once ``least`` or more records have come
        that were in no batch before, they are cut into batches of ``least`` to 2 ``least`` - 1 in the order of their
        names. Each gets the role that lacks most records of its fraction. Those of a dissolved group fill up new
        training batches.

        Args:
            present: names of the session's records that may have a role, distinct, in any order.
            validation_fraction: of the records that have a role, so many validate.
            test_fraction: so many are tested.
        """
        train, validation = self._whole(self.train, present), self._whole(self.validation, present)
        test = self.test[np.isin(self.test, present)]
        before = np.concatenate([*self.train, *self.validation, self.dissolved])
        fresh = self.newcomers(present)
        returning = np.setdiff1d(np.intersect1d(present, before), _joined([*train, *validation]))
        first_new = len(train), len(validation)
        counts = np.array([sum(map(len, train)), sum(map(len, validation)), len(test)], dtype=float)
        fractions = np.array([1 - validation_fraction - test_fraction, validation_fraction, test_fraction])
        for batch in np.array_split(fresh, len(fresh) // self.least) if len(fresh) >= self.least else []:
            role = int(np.argmax(fractions * (counts.sum() + len(batch)) - counts))
            counts[role] += len(batch)
            if role == 2:
                test = np.concatenate([test, batch])
            else:
                (train, validation)[role].append(batch)
        for index in range(first_new[0], len(train)):
            room = 2 * self.least - 1 - len(train[index])
            train[index], returning = np.sort(np.concatenate([train[index], returning[:room]])), returning[room:]
        waiting = np.setdiff1d(present, _joined([*train, *validation, test]))
        return Placement(tuple(train), tuple(validation), test, waiting)

    def check(self, placement: Placement) -> None:
        """Raise BatchChanged for batches that the guarantee doesn't hold for, beside those of before."""
        groups = [(batch, group) for batch in (*self.train, *self.validation) for group in _groups(batch, self.least)]
        names = _joined([*(group for _, group in groups), self.test, self.dissolved])
        sizes = [*(len(group) for _, group in groups), len(self.test), len(self.dissolved)]
        owners = np.repeat([*range(len(groups)), _TESTED, _DISSOLVED], sizes)
        order = np.argsort(names)
        names, owners = names[order], owners[order]
        validates_from = sum(len(_groups(batch, self.least)) for batch in self.train)
        for role, batches in enumerate((placement.train, placement.validation)):
            for batch in batches:
                of = _looked_up(batch, names, owners)
                if not self._is_new(of):
                    self._check_kept(batch, of, groups)
                    if (of[0] >= validates_from) != bool(role):
                        raise BatchChanged("records that were trained on validate now, or the other way round")
        tested = _looked_up(placement.test, names, owners)
        if ((tested >= 0) | (tested == _DISSOLVED)).any():
            raise BatchChanged("records of a batch are tested now")

    def after(self, placement: Placement) -> "BatchHistory":
        """Remember a session's batches, which ``check`` has nothing against."""
        now = [*placement.train, *placement.validation]
        ever = np.concatenate([*self.train, *self.validation, self.dissolved])
        dissolved = np.setdiff1d(ever, _joined(now))
        test = np.concatenate([self.test, np.setdiff1d(placement.test, self.test)])
        return BatchHistory(self.least, placement.train, placement.validation, test, dissolved)

    def _whole(self, batches: Sequence[Names], present: Names) -> list[Names]:
        """Take of each batch the groups that are wholly present; a batch of none is left out."""
        is_present = np.split(np.isin(_joined(batches), present), np.cumsum([len(batch) for batch in batches])[:-1])
        complete = []
        for batch, here in zip(batches, is_present, strict=False):
            if here.all():
                complete.append(batch)
                continue
            missing = batch[~here]
            groups = [group for group in _groups(batch, self.least) if not np.isin(group, missing).any()]
            if groups:
                complete.append(np.concatenate(groups))
        return complete

    def _is_new(self, of: IntArray) -> bool:
        """Tell by each record's owner whether a batch has enough of none; raises BatchChanged for none of before."""
        if (of == _TESTED).any():
            raise BatchChanged("records that were tested are in a batch now")
        fresh = int((of == _NEW).sum())
        if fresh < self.least and (of < 0).all():
            raise BatchChanged(f"of a new batch {fresh} were in none before, fewer than {self.least}")
        return fresh >= self.least

    def _check_kept(self, batch: Names, of: IntArray, groups: Sequence[tuple[Names, Names]]) -> None:
        """Raise BatchChanged for a batch that isn't made of whole groups of one of before."""
        former = groups[int(np.bincount(of[of >= 0]).argmax())][0]
        owners, sizes = np.unique(of, return_counts=True)
        if owners[0] < 0 or any(
            groups[at][0] is not former or len(groups[at][1]) != size for at, size in zip(owners, sizes, strict=True)
        ):
            raise BatchChanged(
                f"a batch of {len(former)} records has changed by {len(np.setxor1d(batch, former))}, and batches "
                f"change by whole groups of {self.least} or more"
            )


def in_sizes(names: Names, sizes: Sequence[int]) -> Iterator[Names]:
    """Cut names into parts of these sizes, in order."""
    yield from np.split(names, np.cumsum(sizes))[: len(sizes)]


def _groups(batch: Names, least: int) -> list[Names]:
    """Cut a batch into groups of ``least`` to 2 ``least`` - 1, one of a smaller batch.

    A batch that has lost whole groups is cut into those that are left: the number of groups is the same quotient, and
    the longer ones come first.
    """
    return np.array_split(np.sort(batch), max(1, len(batch) // least))


def _joined(parts: Sequence[Names]) -> Names:
    return np.concatenate([_nobody(), *parts])


def _looked_up(names: Names, ordered: Names, owners: IntArray) -> IntArray:
    """Find the owner of each name among the sorted ``ordered`` ones, of which there are some."""
    places = np.minimum(np.searchsorted(ordered, names), len(ordered) - 1)
    return np.where(ordered[places] == names, owners[places], _NEW)
