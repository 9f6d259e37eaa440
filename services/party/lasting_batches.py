"""What a party remembers of a federation's batches, and how a session goes on from there. Knows no network.

    records are aligned   read    what was remembered of these parties
    terms are agreed to   after   that it isn't of an older copy, and batches against it; who refuses leaves it as it is
    keys are shown        keep    they are remembered, before the first answer

Records are remembered by a keyed hash of their ids. All parties have its key (``coin_toss``).
"""

import hashlib
import json
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import Agreement, TrainingPlan
from services.common.errors import InvalidMessage, OutOfOrder
from services.common.ledger_marks import LedgerMark
from services.common.roster import Roster
from services.common.state_folder import State, StateError, StateInMemory
from services.party.coin_toss import TOSSED_BYTES
from services.party.context import PartyContext
from services.party.table_hash import keys_of_records
from vfl.arrays import BROKEN_ARRAYS, IntArray, pack_arrays, unpack_arrays
from vfl.data.faults import counted
from vfl.learning import BatchSchedule, BlockSchedule, RowSplit
from vfl.learning.append_only import BatchChanged, BatchHistory, Names, Placement, in_sizes

_log = logging.getLogger(__name__)

BATCHES = "batches.npz"
# What owners may do where the newest copy of it is lost.
REMEDY = (
    f"delete {BATCHES} at every party, which draws all batches anew: sums of both tell labels of the few records that "
    "came or went in between"
)
_VERSION = 1


@dataclass(frozen=True, eq=False)
class Remembered:
    """What a party remembers of the batches of one federation.

    Attributes:
        key: of records' names.
        history: of batches.
        waiting: records that were in no role in the last session.
        drawn: `drawing` of the session whose public seed drew these batches, at the active party; empty once any
            changed.
    """

    key: bytes
    history: BatchHistory
    waiting: int = 0
    drawn: str = ""

    def order(self, ids: Iterable[str], unlabelled: NDArray[np.bool_], plan: TrainingPlan) -> tuple[IntArray, Roster]:
        """Order the records of another session: batch by batch, validation, test, in no role.

        Args:
            ids: of the common records.
            unlabelled: which of them have no label, (records,): they are tested, if they were before, or have no role.
            plan: says which part of newcomers validates and is tested.

        Returns:
            The places of the ordered records among ``ids``, and the counts of each kind.

        Raises:
            InvalidMessage: where no batch is left to train on.
        """
        names = _names_of(ids, self.key)
        is_unassigned = unlabelled & ~np.isin(names, self.history.test)
        placement = _placed(self.history, names[~is_unassigned], plan)
        if not placement.train:
            raise InvalidMessage(
                "None of the aligned records is left to train on: every batch of earlier sessions lacks one, and what "
                f"is left of it waits until {self.history.least} have come that were in no batch before. Put the "
                f"records back that are missing. Or begin anew: {REMEDY}."
            )
        parts = [*placement.train, *placement.validation, placement.test, placement.waiting, names[is_unassigned]]
        ordered, by_name = np.concatenate(parts), np.argsort(names)
        return by_name[np.searchsorted(names, ordered, sorter=by_name)], Roster(
            tuple(map(len, placement.train)),
            tuple(map(len, placement.validation)),
            len(placement.test),
            len(placement.waiting),
            int(is_unassigned.sum()),
            self.history.least,
        )


@dataclass(frozen=True)
class Waiting:
    """Who of a table's records would be in no role in a federation's next session.

    Attributes:
        parties: names of those of the federation.
        newcomers: records that were in no batch before.
        waiting: records in no role: newcomers while they are fewer than ``least``, and others of dissolved groups.
        least: so many newcomers fill a batch of their own.
    """

    parties: tuple[str, ...]
    newcomers: int
    waiting: int
    least: int

    @property
    def words(self) -> str:
        """Say who waits and for how many more, in a sentence or two."""
        new, lacking = counted(self.newcomers, "new row"), max(0, self.least - self.newcomers)
        if not self.newcomers:
            first, remainder = "no new one waits.", self.waiting
        elif lacking:
            first, remainder = f"{new} would wait: {lacking:,} more fill a batch.", self.waiting - self.newcomers
        else:
            first, remainder = f"{new} would fill batches of their own.", self.waiting
        rest = f" {counted(remainder, 'more row')} would wait, of groups that have lost a member." if remainder else ""
        return (
            f"In the batches of {', '.join(self.parties)} (PLUMBLINE_STATE_DIR), of this table's rows, as far as all "
            f"parties have them, {first}{rest}"
        )


@dataclass(frozen=True)
class BatchMemory:
    """Keeps what a party remembers of each federation, in its state. A state without a folder remembers nothing.

    Attributes:
        context: what the party works with.
        parties: names of those of the federation.
    """

    context: PartyContext
    parties: Sequence[str]

    def read(self) -> Remembered | None:
        """Find what is remembered of this federation; None of a first session. Raises OutOfOrder for a broken file."""
        if isinstance(self.context.state, StateInMemory):
            _log.info(
                "Batches of earlier sessions aren't remembered: set PLUMBLINE_STATE_DIR, or each training draws all "
                "anew and a single newcomer changes every sum."
            )
            return None
        return _read(self.context.state)[0].get(self._federation)

    def check(self, session_id: str) -> None:
        """Raise OutOfOrder for an older copy of it, and PeerVanished where the coordinator can't be asked."""
        if not isinstance(self.context.state, StateInMemory):
            self._note(session_id, begin_batches(self.context.state))

    def keep(self, session_id: str, remembered: Remembered) -> None:
        """Remember a session's batches, on disk when this returns; raises as ``check``, and StateNotKept."""
        if not isinstance(self.context.state, StateInMemory):
            federations, mark = _read(self.context.state)
            self._note(session_id, _write(self.context.state, {**federations, self._federation: remembered}, mark))

    @property
    def _federation(self) -> str:
        return json.dumps(sorted(self.parties))

    def _note(self, session_id: str, mark: LedgerMark) -> None:
        self.context.anchor(BATCHES, REMEDY).note(session_id, mark)


@dataclass(frozen=True, eq=False)
class SessionBatches:
    """One session's records by name, at one party.

    Attributes:
        memory: of the party.
        remembered: what it knew before.
        key: of names.
        names: of the records in the common order.
        roster: how many of them are in each batch; None where the public seed draws these.
        drawn: as ``Remembered`` has it, of this session.
    """

    memory: BatchMemory
    remembered: Remembered | None
    key: bytes
    names: Names
    roster: Roster | None
    drawn: str = ""

    @classmethod
    def of(
        cls,
        memory: BatchMemory,
        remembered: Remembered | None,
        ids: Iterable[str],
        roster: Roster | None,
        keys: Sequence[bytes],
        drawn: str = "",
    ) -> "SessionBatches":
        """Name the records of a session.

        Args:
            memory: of this party.
            remembered: what it knows from before, whose key goes before all others.
            ids: of the records in the common order.
            roster: as the active party tells it.
            keys: that were told or tossed; empty ones are none.
            drawn: as ``Remembered`` has it, of this session.

        Raises:
            InvalidMessage: for a roster of other records, and a key of another length.
        """
        key = next(filter(None, [remembered.key if remembered else b"", *keys]), secrets.token_bytes(TOSSED_BYTES))
        if len(key) != TOSSED_BYTES:
            raise InvalidMessage(f"Expected a key of {TOSSED_BYTES} bytes for the names of records.")
        names = _names_of(ids, key)
        if roster is not None and roster.total != len(names):
            raise InvalidMessage("The roster is of other records than the order of this session.")
        return cls(memory, remembered, key, names, roster, drawn)

    def after(self, agreement: Agreement, schedule: BatchSchedule | BlockSchedule, rows: RowSplit) -> Remembered:
        """Check a session's batches against those of before; returns what is to be remembered with them.

        Raises:
            OutOfOrder: for batches that don't go on from those that this party knows, and where these are of an older
                copy, with what to do.
            PeerVanished: where the coordinator can't be asked about that.
        """
        self.memory.check(agreement.session_id)
        placement = self._placement(schedule, rows)
        if self.remembered is not None:
            self._check(agreement, self.remembered.history, placement)
            history = self.remembered.history.after(placement)
        elif self.roster is None:
            history = BatchHistory.begun(placement, agreement.plan.training.least_batch(agreement))
        else:
            _log.warning(
                "%s remembers batches that this party doesn't: they are taken as they are told.", agreement.active.name
            )
            history = BatchHistory.begun(placement, self.roster.least)
        return Remembered(self.key, history, len(placement.waiting), self.drawn)

    def _placement(self, schedule: BatchSchedule | BlockSchedule, rows: RowSplit) -> Placement:
        if self.roster is None:
            batches = tuple(self.names[schedule.rows_of(batch)] for batch in schedule.epoch(0))
            validation = (self.names[rows.validation],) if len(rows.validation) else ()
            return Placement(batches, validation, self.names[rows.test])
        roster = self.roster
        sizes = (*roster.batches, *roster.validation, roster.test, roster.waiting)
        parts = list(in_sizes(self.names, sizes))
        count = len(roster.batches)
        return Placement(tuple(parts[:count]), tuple(parts[count:-2]), parts[-2], parts[-1])

    def _check(self, agreement: Agreement, history: BatchHistory, placement: Placement) -> None:
        active, name = agreement.active.name, self.memory.context.name
        try:
            history.check(placement)
        except BatchChanged as error:
            raise OutOfOrder(
                f"The records that {active} lists don't go on from the batches that {name} remembers: {error}. The "
                f"difference of two sums would tell labels, so nothing is answered. Put the newest copy of {active}'s "
                f"state folder back (PLUMBLINE_STATE_DIR). Where that is lost, owners may {REMEDY}."
            ) from error
        if self.roster is None:
            return
        expected = _placed(history, self.names[: len(self.names) - self.roster.held], agreement.plan)
        if [set(batch.tolist()) for batch in expected.train] != [set(batch.tolist()) for batch in placement.train]:
            _log.warning(
                "%s forms other batches than %s would, and none that changes one of before: it may remember a session "
                "that this party doesn't.",
                active,
                name,
            )


def drawing(ids: Iterable[str], plan: TrainingPlan) -> str:
    """Stand for a drawing of batches by the public seed: the same plan about the same records draws the same ones.

    Where the plan says how large batches are, how long it trains, and by which learner's options, doesn't matter.
    """
    if plan.batch_size:
        plan = replace(plan, epochs=0, patience=0, learner_options={})
    digest = hashlib.sha256(plan.to_message().SerializeToString(deterministic=True))
    for record_id in ids:
        digest.update(f"{len(record_id)} {record_id}".encode())
    return digest.hexdigest()


def _names_of(ids: Iterable[str], key: bytes) -> Names:
    names = keys_of_records(ids, key)
    if len(np.unique(names)) < len(names):
        raise InvalidMessage("Two ids have the same name of 64 bits: give one of the records another id.")
    return names


def _placed(history: BatchHistory, names: Names, plan: TrainingPlan) -> Placement:
    return history.place(names, validation_fraction=plan.validation_fraction, test_fraction=plan.test_fraction)


# -- on disk -----------------------------------------------------------------------------------------------------------


def begin_batches(state: State) -> LedgerMark:
    """Make the file of a party that has none yet, so that a copy without it is an older one; say how far it is.

    Raises:
        OutOfOrder: for a broken file.
        StateNotKept: where it can't be written.
    """
    federations, mark = _read(state)
    return mark if mark.generation else _write(state, federations, mark)


def batches_in(content: bytes) -> list[dict[str, Any]]:
    """Count what is remembered of each federation, from a kept file; raises StateError for anything else."""
    return [
        {
            "parties": json.loads(parties),
            "batches": len(one.history.train),
            "records": sum(map(len, one.history.train)),
            "validation": sum(map(len, one.history.validation)),
            "test": len(one.history.test),
            "waiting": one.waiting,
            "least": one.history.least,
        }
        for parties, one in _unpacked(content)[0].items()
    ]


def waiting_in(content: bytes, ids: Iterable[str]) -> list[Waiting]:
    """Say who of these records would wait in each federation's next session, if all parties had them.

    Raises:
        StateError: for anything else than a kept file.
        InvalidMessage: where two ids have one name.
    """
    forecasts, record_ids = [], list(ids)
    for parties, batches in _unpacked(content)[0].items():
        names = _names_of(record_ids, batches.key)
        waiting, newcomers = _placed(batches.history, names, TrainingPlan()).waiting, batches.history.newcomers(names)
        forecasts.append(Waiting(tuple(json.loads(parties)), len(newcomers), len(waiting), batches.history.least))
    return forecasts


def _read(state: State) -> tuple[dict[str, Remembered], LedgerMark]:
    try:
        content = state.read(BATCHES)
        return ({}, LedgerMark.drawn()) if content is None else _unpacked(content)
    except StateError as error:
        raise OutOfOrder(str(error)) from error


def _write(state: State, federations: Mapping[str, Remembered], mark: LedgerMark) -> LedgerMark:
    mark = mark.next()
    header = {"version": _VERSION, **mark.header, "federations": []}
    arrays: dict[str, NDArray[Any]] = {}
    for number, (parties, remembered) in enumerate(federations.items()):
        history = remembered.history
        parts = [*history.train, *history.validation, history.test, history.dissolved]
        header["federations"].append(
            {
                "parties": parties,
                "key": remembered.key.hex(),
                "least": history.least,
                "waiting": remembered.waiting,
                "drawn": remembered.drawn,
                "batches": len(history.train),
                "sizes": [len(part) for part in parts],
            }
        )
        arrays[f"{number}_names"] = np.concatenate(parts)
    state.write(BATCHES, pack_arrays(header, arrays))
    return mark


def _unpacked(content: bytes) -> tuple[dict[str, Remembered], LedgerMark]:
    try:
        header, archive = unpack_arrays(content)
        if header["version"] != _VERSION:
            raise ValueError(f"version {header['version']}")
        federations = {}
        for number, entry in enumerate(header["federations"]):
            parts = list(in_sizes(archive[f"{number}_names"], entry["sizes"]))
            count = int(entry["batches"])
            history = BatchHistory(
                int(entry["least"]), tuple(parts[:count]), tuple(parts[count:-2]), parts[-2], parts[-1]
            )
            federations[str(entry["parties"])] = Remembered(
                bytes.fromhex(entry["key"]), history, int(entry["waiting"]), str(entry["drawn"])
            )
        return federations, LedgerMark.of_header(header)
    except BROKEN_ARRAYS as error:
        # Not an empty one: who can break the file could have all batches drawn anew.
        raise StateError(
            f"{BATCHES} of this party's state is broken: put the folder back from a copy. Where that is lost, owners "
            f"may {REMEDY}."
        ) from error
