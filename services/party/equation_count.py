"""What a party's answers told its peers of each record, in all its sessions. Knows no network.

A passive party counts the independent equations that active parties were answered with; the label party the sums of
labels that its peers were.

    a session is joined      room_for   refused where it would pass the owner's limit; a first one is let be
    it is agreed to          count_shares, beside those of scores: what training may tell of single records; at the
                             label party count_sums, which refuses as room_for does
    an epoch is validated    count      of the validation records, before the first of them is answered
    training ends            count      of all aligned records: any of them may be asked about from now on

What can't be written is not answered, and nothing of an older copy of the count.
"""

import hashlib
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.common.agreement import Agreement, ProposedTerms, TrainingPlan
from services.common.errors import Diverged, OutOfOrder
from services.common.ledger_marks import LedgerMark
from services.common.state_folder import State, StateError, StateInMemory, secret_of
from services.party.features import AlignedFeatures, PartyData
from services.party.label_sums import WHOLE, remedy_of, sums_of_session
from services.party.party_model import PartyModel
from services.party.share_count import ToldShares
from services.party.share_guard import SingleShares
from services.party.table_hash import hash_of_features, keys_of_records
from services.watching.measures import Measure
from vfl.arrays import BROKEN_ARRAYS, FloatArray, IntArray, pack_arrays, unpack_arrays
from vfl.data.faults import counted
from vfl.learning.independent_equations import AnsweredEquations, Basis, equations_of_weights, most_equations

_log = logging.getLogger(__name__)

EQUATIONS = "forms.npz"
# What an owner may do where the newest copy of it is lost.
REMEDY = f"delete {EQUATIONS}, which forgets what every peer was answered"
_VERSION = 2
# How version 1 named each equation of which nothing is known, as a coordinate of its own.
_OPAQUE_OF_1 = re.compile(r"(network [0-9a-f]{64}|forwarded \S+) \d+")

# Gives the count after some records, at most so many equations of each, were answered with more.
Answers = Callable[[AnsweredEquations, NDArray[np.uint64], int], AnsweredEquations]


@dataclass(frozen=True)
class Spent:
    """What one active party was answered with.

    Attributes:
        active: its name.
        records: how many records it was answered about.
        most: equations of the record that it was answered most about.
        row: that record's row in the table of then, from 0: ids stay in the table.
        features: this party's features then.
    """

    active: str
    records: int
    most: int
    row: int
    features: int


@dataclass(frozen=True, eq=False)
class _Account:
    """The count of one active party."""

    equations: AnsweredEquations
    spent: Spent


class EquationCount:
    """Counts the equations of a party's records by active party; safe to call from any thread.

    The count is by the record's id and by the column's name, range and rounding. Who appends rows to the table forgets
    nothing.
    """

    def __init__(
        self,
        name: str,
        data: PartyData,
        state: State,
        share: float,
        *,
        refuses_first: bool = False,
        note: Callable[[str, LedgerMark], object] = lambda *_: None,
    ) -> None:
        """Take up what ``state`` holds, and write an empty count where there is none: a copy without it is older.

        Args:
            name: the party's.
            data: its table.
            state: where the count is kept.
            share: of the party's features, so many equations of a record may be answered; 1 for all of them. At the
                label party so many sums of labels to a record.
            refuses_first: whether a first session is refused that passes the limit by itself.
            note: notes in a session how far the count is; raises where that is of an older copy.

        Raises:
            StateError: for a broken file.
            StateNotKept: where it can't be written.
        """
        self._name = name
        self._data = data
        self._state = state
        self._share = share
        self._refuses_first = refuses_first
        self._note = note
        # Held while the coordinator is told: it hears of writes in their order.
        self._lock = threading.Lock()
        content = state.read(EQUATIONS)
        self._accounts, self._shares, self._mark = (
            ({}, {}, LedgerMark.drawn()) if content is None else _unpacked(content)
        )
        if not self._mark.generation:
            self._write(self._accounts, self._shares)
        if isinstance(state, StateInMemory) and share < 1:
            _log.warning(
                "How often records were answered is counted since this start only: set PLUMBLINE_STATE_DIR, or every "
                "restart begins anew."
            )

    def room_for(self, terms: ProposedTerms, rows: IntArray) -> int:
        """Tell what a session adds to the equations of its records, and let it be where that is too much.

        Args:
            terms: what the session was opened with.
            rows: this party's row numbers of the session's records.

        Returns:
            In how many epochs its validation records may be scored; 0 for all. Half of what is left is kept for
            sessions to come.

        Raises:
            OutOfOrder: where the session would pass the limit, and isn't the first about these records; and where the
                count is of an older copy of the state.
            PeerVanished: where the coordinator can't be asked about that.
        """
        features = len(self._data.grids)
        added = _equations_of_session(terms.plan, terms.classes, features)
        most = most_equations(self._share, features)
        with self._lock:
            self._note(terms.session_id, self._mark)
            account = self._accounts.get(terms.active)
            before = 0 if account is None else int(account.equations.ranks(self._keys(rows)).max(initial=0))
        after = min(before + added, features)
        limit = (
            f"{most} of {features}, which is as many as {self._name}'s owner allows (PLUMBLINE_MOST_EQUATIONS="
            f"{self._share:g})"
        )
        sentence = (
            f"With this session {terms.active} is answered with {counted(after, 'independent sum')} of the columns "
            f"of a record, in all its sessions: {features} tell the whole record."
        )
        if after > most and (before or self._refuses_first):
            raise OutOfOrder(
                f"{sentence} No more than {limit} are answered. Go on with the model that is served, train with other "
                f"records, or ask {self._name}'s owner."
            )
        if after > most:
            _log.warning("%s That is more than %s; a first session is answered all the same.", sentence, limit)
        else:
            _log.info("%s The limit is %s.", sentence, limit)
        if terms.plan.training.told_equations(terms.plan, terms.classes).of_epoch:
            # A training record is answered about in every epoch, and a validation record tells no more.
            return 0
        return 0 if self._share >= 1 else max(1, (most - before) // added // 2)

    def count(self, model: PartyModel, aligned: AlignedFeatures, places: IntArray) -> None:
        """Count a model's equations of some aligned records, on disk when this returns.

        Args:
            model: which is about to answer.
            aligned: the records that it was made for.
            places: which of them, as rows of the common order.

        Raises:
            Diverged: for weights beyond numbers, whose equations can't be told.
            OutOfOrder: where a record would pass the limit, which a session's first look at it can't have seen: what
                another one was answered with may be counted after it; and for an older copy of the count.
            PeerVanished: where the coordinator can't be told how far the count is. It must not be answered then.
            StateNotKept: where it can't be written. Nothing has been counted then.
        """
        self._count(model.agreement, aligned.rows[places], self._equations_of(model, aligned))

    def count_forwarded(self, agreement: Agreement, aligned: AlignedFeatures, again: int = 0) -> None:
        """Count what a training is about to tell of its records, where its learner forwards; raises as ``count``.

        Each epoch has other weights, and as many sums of a record as a layer has units: of a validation record too,
        where these are forwarded. A step that is done ``again`` on shared weights counts as an epoch: who has a share
        of them may have chosen another one.
        """
        plan = agreement.plan
        equations, rows = plan.training.told_equations(plan, agreement.classes), plan.split(len(aligned.rows))
        forwarded_rows = aligned.rows[plan.training.told_rows(agreement, rows)]
        if not len(forwarded_rows):
            return
        count = equations.of_epoch * (plan.epochs + again)
        # Those of the kept model are still to come.
        to_come = equations.of_model if again else 0
        self._count(agreement, forwarded_rows, _opaque(f"forwarded {agreement.session_id}", count), to_come)

    def _equations_of(self, model: PartyModel, aligned: AlignedFeatures) -> Answers:
        """Find the equations that a model tells of a record; raises Diverged where they are no numbers."""
        rows = model.counted_part.class_rows
        if rows is None:
            # No equation of the features: each class's logit but one counts as an equation of its own.
            arrays = [one for one in model.part.arrays().values() if one.dtype.kind in "fu"]
            # A network is told by its weights, as it was counted before.
            values = [one.ravel() for one in arrays if one.ndim > 1] or [one.ravel() for one in arrays]
            name, agreement = f"network {hash_of_features(np.concatenate(values))}", model.agreement
            return _opaque(name, agreement.plan.training.told_equations(agreement.plan, agreement.classes).of_model)
        equations = equations_of_weights(rows.T)
        if not np.isfinite(equations).all():
            raise Diverged(f"{self._name}'s weights have grown beyond numbers: choose a smaller learning_rate or l2.")
        coordinates = _coordinates(aligned, model.agreement.plan.feature_fraction_bits)
        return lambda before, records, most: before.answered(records, coordinates, equations, most)

    def _count(self, agreement: Agreement, rows: IntArray, answers: Answers, to_come: int = 0) -> None:
        active = agreement.active.name
        # A first session may pass the owner's limit by itself, and by no more than what it tells.
        features = len(self._data.grids)
        session_equations = _equations_of_session(agreement.plan, agreement.classes, features)
        allowed = max(most_equations(self._share, features), session_equations)
        with self._lock:
            # What was written and not told, too: its answer may have been asked for again.
            self._note(agreement.session_id, self._mark)
            account = self._accounts.get(active)
            before = AnsweredEquations.none() if account is None else account.equations
            keys = self._keys(rows)
            after = answers(before, keys, features)
            if after is before:
                return
            ranks = after.ranks(keys)
            most = int(ranks.max())
            if self._share < 1 and min(most + to_come, features) > allowed:
                raise OutOfOrder(
                    f"This answer would be sum {most} of the columns of a record, and {self._name}'s owner allows "
                    f"{allowed} (PLUMBLINE_MOST_EQUATIONS={self._share:g})."
                )
            row = int(rows[ranks == most].min())
            spent = Spent(active, len(after.records), most, row, len(self._data.grids))
            if account is not None and account.spent.most > spent.most:
                spent = Spent(active, spent.records, account.spent.most, account.spent.row, spent.features)
            self._write({**self._accounts, active: _Account(after, spent)}, self._shares)
            self._note(agreement.session_id, self._mark)

    def _write(self, accounts: dict[str, _Account], shares: dict[str, ToldShares]) -> None:
        mark = self._mark.next()
        self._state.write(EQUATIONS, _packed(accounts, shares, mark))
        self._accounts, self._shares, self._mark = accounts, shares, mark

    def shares_of(self, rows: IntArray) -> dict[str, SingleShares]:
        """Tell what training's answers of all sessions may have told each peer of single ones of these records."""
        keys = self._keys(rows)
        with self._lock:
            return {peer: told.about(keys) for peer, told in self._shares.items()}

    def count_shares(self, session_id: str, rows: IntArray, session_shares: Mapping[str, SingleShares]) -> None:
        """Count what a training's answers may tell each peer of these records, on disk when this returns.

        Raises:
            OutOfOrder: for an older copy of the count.
            PeerVanished: where the coordinator can't be told how far the count is. It must not be answered then.
            StateNotKept: where it can't be written. Nothing has been counted then.
        """
        if not session_shares:
            return
        keys = self._keys(rows)
        with self._lock:
            shares = {
                peer: self._shares.get(peer, ToldShares.none()).after(keys, one) for peer, one in session_shares.items()
            }
            self._write(self._accounts, {**self._shares, **shares})
            self._note(session_id, self._mark)

    def count_sums(self, agreement: Agreement, rows: IntArray, *, is_noisy: bool = False) -> list[str]:
        """Count the sums of labels that a session's honest answers tell, on disk when this returns.

        Args:
            agreement: the session's terms.
            rows: this party's row numbers of the session's records.
            is_noisy: whether residuals carry noise. Sums are counted then, and not refused.

        Returns:
            The warning, where a first session passes the limit by itself, or noise is all that stands against it.

        Raises:
            OutOfOrder: where the session would pass the limit, and isn't the first about these records; and for an
                older copy of the count. Nothing has been counted then.
            PeerVanished: where the coordinator can't be told how far the count is. Nothing may be answered then.
            StateNotKept: where it can't be written.
        """
        if not (batches := sums_of_session(agreement)):
            return []
        with self._lock:
            self._note(agreement.session_id, self._mark)
            after, keys = dict(self._shares), self._keys(np.unique(np.concatenate([rows[one.rows] for one in batches])))
            for batch in batches:
                members = np.sort(self._keys(rows[batch.rows]))
                occasion = batch.session or hashlib.blake2b(members.tobytes(), digest_size=16).hexdigest()
                for peer, shares in batch.told.items():
                    after[peer] = after.get(peer, ToldShares.none()).after(members, shares, occasion)
            # Peers may put together what they are told.
            was, now = (
                np.sum([told.of(keys) for told in accounts.values()], axis=0, dtype=np.int64) + np.zeros(len(keys))
                for accounts in (self._shares, after)
            )
            beyond = self._share < 1 and bool(((now > self._share * WHOLE) & (now > was)).any())
            sentence = (
                f"With this session {' and '.join(batches[0].told)} can be told {now.max() / WHOLE:.2f} sums of "
                f"{self._name}'s labels to a record, in all sessions: 1 to a record tells every label"
            )
            remedy = (
                f"{self._name}'s owner allows {self._share:g} (PLUMBLINE_MOST_SUMS). To prevent it, "
                f"{remedy_of(agreement)}."
            )
            if beyond and not is_noisy and (was.any() or self._refuses_first):
                raise OutOfOrder(f"{sentence}. {remedy}")
            self._write(self._accounts, after)
            self._note(agreement.session_id, self._mark)
        _log.info("%s.", sentence)
        return [f"{sentence}. {remedy}"] if beyond else []

    def measures_of_labels(self) -> Iterator[Measure]:
        """Measure how many sums of labels peers were told to the record of which most were."""
        sums = {peer: int(account.shares.max(initial=0)) / WHOLE for peer, account in self._shares.items()}
        yield Measure.by(
            "peer", "label_sums", "Sums of labels to a record, in all sessions; 1 tells every label.", sums
        )
        yield Measure("label_sums_allowed", "As many as the owner allows.", {(): self._share})

    def measures(self) -> Iterator[Measure]:
        """Measure how much active parties were answered about the record that each was answered most about."""
        # Without the lock: who measures doesn't wait for the coordinator.
        most = {name: account.spent.most for name, account in self._accounts.items()}
        shares = {peer: int(told.shares.max()) for peer, told in self._shares.items()}
        features = len(self._data.grids)
        yield Measure.by("peer", "forms_answered", "Independent sums of one record's columns, the most.", most)
        yield Measure.by("peer", "training_forms", "Sums of one record's columns that training may tell.", shares)
        yield Measure("forms_allowed", "As many as the owner allows.", {(): most_equations(self._share, features)})
        yield Measure("forms_of_a_record", "As many tell a whole record.", {(): features})

    def _keys(self, rows: IntArray) -> NDArray[np.uint64]:
        """Stand for records whatever their place in the table, and tell nobody their ids."""
        keys: NDArray[np.uint64] = self._keys_of_table[rows]
        return keys

    @cached_property
    def _keys_of_table(self) -> NDArray[np.uint64]:
        return keys_of_records(self._data.ids, secret_of(self._state))


def spent_in(content: bytes) -> list[Spent]:
    """Read what each active party was answered with, from a kept count; raises StateError for anything else."""
    return [account.spent for account in _unpacked(content)[0].values()]


def shares_in(content: bytes) -> dict[str, SingleShares]:
    """Read what training may have told each peer of single records, from a kept count; raises as ``spent_in``."""
    return {peer: told.about(told.records) for peer, told in _unpacked(content)[1].items()}


def _opaque(name: str, count: int) -> Answers:
    """Equations of which nothing is known but that they are independent."""
    return lambda before, records, most: before.answered_opaque(records, name, count, most)


def _equations_of_session(plan: TrainingPlan, classes: int, features: int) -> int:
    """Count the equations of a record that a session tells: a model's, and those of every epoch that forwards some."""
    return min(plan.training.told_equations(plan, classes).of_session(plan.epochs or TrainingPlan.epochs), features)


def _coordinates(aligned: AlignedFeatures, fraction_bits: int) -> tuple[str, ...]:
    """Names of features as they are encoded, one for each range, rounding and meaning of a code.

    A value is cut to the range of the records that a session trains on, which the active party chooses: of another
    range, the same sum tells of a record on which side of it a value lies.
    """
    return tuple(
        f"{one.name} {hash_of_features(aligned.features[:, at])}"
        if one.kind == "code"
        else f"{one.name} {one.offset} {one.scale} {fraction_bits}"
        for at, one in enumerate(aligned.columns)
    )


def _packed(accounts: Mapping[str, _Account], shares: Mapping[str, ToldShares], mark: LedgerMark) -> bytes:
    header = {
        "version": _VERSION,
        **mark.header,
        "accounts": [
            {
                **vars(account.spent),
                "coordinates": account.equations.coordinates,
                "bases": [{"forms": basis.equations, "opaque": basis.opaque} for basis in account.equations.bases],
            }
            for account in accounts.values()
        ],
        "shares": [
            {"peer": peer, "in_answers": told.in_answers, "occasions": sorted(told.occasions)}
            for peer, told in shares.items()
        ],
    }
    arrays: dict[str, NDArray[Any]] = {}
    for number, account in enumerate(accounts.values()):
        equations = account.equations
        arrays |= {
            f"{number}_forms": equations.equations,
            f"{number}_records": equations.records,
            f"{number}_of_record": equations.of_record.astype(np.uint32),
        }
    for number, peer_shares in enumerate(shares.values()):
        arrays |= {f"shares_{number}_records": peer_shares.records, f"shares_{number}_of_record": peer_shares.shares}
    return pack_arrays(header, arrays)


def _unpacked(content: bytes) -> tuple[dict[str, _Account], dict[str, ToldShares], LedgerMark]:
    try:
        header, archive = unpack_arrays(content)
        if header["version"] not in (1, _VERSION):
            raise ValueError(f"version {header['version']}")
        read_equations = _unpacked_equations if header["version"] == _VERSION else _unpacked_equations_of_1
        accounts = {
            str(one["active"]): _Account(
                AnsweredEquations(
                    *read_equations(one, archive[f"{number}_forms"]),
                    archive[f"{number}_records"],
                    archive[f"{number}_of_record"].astype(np.int64),
                ),
                Spent(one["active"], one["records"], one["most"], one["row"], one["features"]),
            )
            for number, one in enumerate(header["accounts"])
        }
        # Version 1 had none.
        shares = {
            str(one["peer"]): ToldShares(
                archive[f"shares_{number}_records"],
                archive[f"shares_{number}_of_record"],
                int(one["in_answers"]),
                frozenset(map(str, one.get("occasions", ()))),
            )
            for number, one in enumerate(header.get("shares", ()))
        }
        return accounts, shares, LedgerMark.of_header(header)
    except BROKEN_ARRAYS as error:
        # Not an empty count: who can break the file could ask without end.
        raise StateError(
            f"{EQUATIONS} of this party's state is broken: put the folder back from a copy. Deleting it forgets what "
            "every peer was answered."
        ) from error


def _unpacked_equations(
    account: Mapping[str, Any], equations: FloatArray
) -> tuple[tuple[str, ...], FloatArray, tuple[Basis, ...]]:
    bases = (
        Basis(tuple(basis["forms"]), tuple((name, count) for name, count in basis["opaque"]))
        for basis in account["bases"]
    )
    return tuple(account["coordinates"]), equations, tuple(bases)


def _unpacked_equations_of_1(
    account: Mapping[str, Any], equations: FloatArray
) -> tuple[tuple[str, ...], FloatArray, tuple[Basis, ...]]:
    """Read what version 1 kept, where each equation of which nothing is known had a coordinate of its own."""
    names: list[str] = account["coordinates"]
    opaque = {at: match[1] for at, name in enumerate(names) if (match := _OPAQUE_OF_1.fullmatch(name))}
    told_by = {row: opaque.get(int(np.abs(equation).argmax())) for row, equation in enumerate(equations)}
    linear = {row: number for number, row in enumerate(row for row, name in told_by.items() if name is None)}
    bases = []
    for basis in account["bases"]:
        counts = Counter(name for row in basis if (name := told_by[row]) is not None)
        bases.append(Basis(tuple(linear[row] for row in basis if row in linear), tuple(sorted(counts.items()))))
    linear_places = [at for at in range(len(names)) if at not in opaque]
    return tuple(names[at] for at in linear_places), equations[np.ix_(list(linear), linear_places)], tuple(bases)
