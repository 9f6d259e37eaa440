"""How many bits about a party's records others were opened, over all its sessions. Knows no network.

A retraining opens weights again, and what both openings carry adds up. Counted are whole words, whatever they carried,
for every record that took part. What can't be written is not opened.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.common.errors import OutOfOrder
from services.common.ledger_marks import LedgerMark
from services.common.state_folder import State, StateError, StateInMemory
from services.watching.measures import Measure
from vfl.arrays import BROKEN_ARRAYS, pack_arrays, unpack_arrays

LEDGER = "openings.npz"
# What an owner may do where the newest copy of it is lost.
REMEDY = f"delete {LEDGER}, which forgets what others were opened"
_VERSION = 1


@dataclass(frozen=True, eq=False)
class _Account:
    """What one owner of weights was opened: (records,) keys in order, and the bits about each."""

    records: NDArray[np.uint64]
    bits: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Raise ValueError for what `count` never wrote."""
        records, bits = self.records, self.bits
        if records.dtype != np.uint64 or bits.dtype != np.int64 or records.ndim != 1 or records.shape != bits.shape:
            raise ValueError("an account has a number for each record")
        if (records[1:] <= records[:-1]).any() or (bits < 0).any():
            raise ValueError("an account has records in order, and bits about them")

    def of(self, records: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Count the bits about these records; 0 for one that isn't known."""
        if not len(self.records):
            return np.zeros(len(records), dtype=np.int64)
        places = np.minimum(np.searchsorted(self.records, records), len(self.records) - 1)
        return np.where(self.records[places] == records, self.bits[places], 0)

    def opened(self, records: NDArray[np.uint64], bits: int) -> "_Account":
        """Add so many bits more about each of these records."""
        all_records = np.union1d(self.records, records)
        return _Account(all_records, self.of(all_records) + np.isin(all_records, records) * bits)


_NOTHING = _Account(np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class _Kept:
    """The ledger's content: what was counted last, everybody's account, and how far it is."""

    occasion: str
    accounts: Mapping[str, _Account]
    mark: LedgerMark


class OpeningLedger:
    """Counts what a session adds to what others were opened about its records.

    Attributes:
        state: of the party, where it counts, and keeps what it has opened.
    """

    def __init__(
        self,
        state: State,
        records: NDArray[np.uint64],
        tell: Callable[[str, int], object] = lambda *_: None,
        note: Callable[[LedgerMark], object] = lambda _: None,
    ) -> None:
        """Count in ``state`` for a session of these records: keys that stand for them in every session.

        ``tell`` is told of each owner, and how many bits more it is about to be opened; ``note`` raises where an older
        copy of the ledger was put back.
        """
        self.state, self._records, self._tell, self._note = state, records, tell, note

    @classmethod
    def in_memory(cls) -> "OpeningLedger":
        """Make one of no record, for a party that keeps nothing."""
        return cls(StateInMemory(), _NOTHING.records)

    def before(self, owner: str) -> int:
        """Bits that a party was opened in earlier sessions about the record that most was about.

        Raises:
            OutOfOrder: for a broken ledger.
        """
        accounts = _read(self.state).accounts
        return int(accounts.get(owner, _NOTHING).of(self._records).max(initial=0))

    def count(self, occasion: str, bits: Mapping[str, int]) -> None:
        """Count what is told, by owner, on disk when this returns. The same occasion again adds nothing.

        Raises:
            OutOfOrder: for a broken ledger, or an older copy of it.
            PeerVanished: where the coordinator can't be told how far it is. Nothing may be told then.
            StateNotKept: where it can't be written.
        """
        self._note(begin_ledger(self.state))
        ledger = _read(self.state)
        if ledger.occasion == occasion:
            return
        accounts = dict(ledger.accounts)
        for owner, added in bits.items():
            accounts[owner] = accounts.get(owner, _NOTHING).opened(self._records, added)
        mark = _write(self.state, _Kept(occasion, accounts, ledger.mark))
        for owner, added in bits.items():
            self._tell(owner, added)
        self._note(mark)


def begin_ledger(state: State) -> LedgerMark:
    """Make the ledger of a party that has none yet, so that a copy without it is an older one; say how far it is.

    Raises:
        OutOfOrder: for a broken ledger.
        StateNotKept: where it can't be written.
    """
    ledger = _read(state)
    return ledger.mark if ledger.mark.generation else _write(state, ledger)


def _read(state: State) -> _Kept:
    try:
        return _unpacked(state.read(LEDGER))
    except StateError as error:
        raise OutOfOrder(str(error)) from error


def _write(state: State, ledger: _Kept) -> LedgerMark:
    """Write the ledger, and give its mark then."""
    mark, accounts = ledger.mark.next(), ledger.accounts
    header = {"version": _VERSION, "session": ledger.occasion, "owners": list(accounts), **mark.header}
    arrays: dict[str, NDArray[Any]] = {}
    for number, account in enumerate(accounts.values()):
        arrays |= {f"{number}_records": account.records, f"{number}_bits": account.bits}
    state.write(LEDGER, pack_arrays(header, arrays))
    return mark


def opened_in(content: bytes) -> dict[str, int]:
    """Count what each owner was opened about the record that most was about; raises StateError for a broken one."""
    return {owner: int(account.bits.max(initial=0)) for owner, account in _unpacked(content).accounts.items()}


def measures_of(state: State) -> Iterator[Measure]:
    """Measure how much owners of weights were opened; nothing of a broken ledger, of which the next session tells."""
    with suppress(StateError):
        content = state.read(LEDGER)
        opened = {} if content is None else opened_in(content)
        yield Measure.by("peer", "opened_bits", "Bits told by openings, about the record with most.", opened)


def _unpacked(content: bytes | None) -> _Kept:
    if content is None:
        return _Kept("", {}, LedgerMark.drawn())
    try:
        header, arrays = unpack_arrays(content)
        if header["version"] != _VERSION:
            raise ValueError(f"version {header['version']}")
        accounts = {
            str(owner): _Account(arrays[f"{number}_records"], arrays[f"{number}_bits"])
            for number, owner in enumerate(header["owners"])
        }
        return _Kept(str(header["session"]), accounts, LedgerMark.of_header(header))
    except BROKEN_ARRAYS as error:
        # Not an empty ledger: who can break the file could open without end.
        raise StateError(
            f"{LEDGER} of this party's state is broken: put the folder back from a copy. Deleting it forgets what "
            "others were opened."
        ) from error
