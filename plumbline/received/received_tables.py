"""Own, received and secret tables, read and joined as an audit's are, and as features that a judge compares."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from plumbline.audit.tables import ExaminedTables, examine_tables
from plumbline.judge.answer import listed
from plumbline.judge.clusters import Clusters
from plumbline.judge.federation_part import LEAST_KNOWN
from plumbline.judge.lights import LEAST_RECORDS
from plumbline.received.assumptions import doubts
from plumbline.received.judge_request import OWN, RECEIVED, SECRET, JudgeRequest
from plumbline.received.kinds import ReceivedColumn, encoded, kinds_of, of_kind, scores_of
from plumbline.received.known_records import PREFIX, is_known
from plumbline.received.model_files import with_model
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.run_records import PartyFeatures
from vfl.arrays import FloatArray, IntArray
from vfl.data import TypedTable, common_order, encode_labels, fit_columns, rows_of
from vfl.data.faults import TableError, counted, quoted
from vfl.data.labels import NO_LABEL

if TYPE_CHECKING:
    import pandas as pd

# So many records are judged at most; those of more are drawn.
MOST_JUDGED = 20_000
# Who keeps a model secret still meets who learns it: as many known records as columns teach linear weights.
_HAS_MODEL = ("The receiver is taken to have the model: the scores of a linear one are equations to it.",)
# Of distinct values, from which on a received column can be told to be the secret's own.
_LEAST_VALUES = 3
# Of more values than this share of the records they aren't names that could be changed.
_MOST_NAMES = 0.2


@dataclass(frozen=True)
class JudgeFacts:
    """What a judge's run says of itself besides estimates.

    Attributes:
        title: of the run.
        received: what the received table is called.
        secret: what the secret table is called.
        known: how many records the receiver has in full.
        columns: what each received column was taken for.
        left_out: received columns that tell nothing, each with the reason.
        notes: sentences on the tables that their owner should know.
        label: which secret column is the sender's label; empty for none.
        trained: which secret column says who was trained on; empty for none.
    """

    title: str
    received: str
    secret: str
    known: int
    columns: tuple[ReceivedColumn, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    label: str = ""
    trained: str = ""


@dataclass(frozen=True, eq=False)
class ReceivedRecords:
    """The records of all three tables.

    Attributes:
        own: the receiver's features of all records, labels among them where it has any.
        secret: features of what it must not learn.
        frame: what was received as it came, a row for each of the records.
        facts: what its columns are, and what else is said of the tables.
        known: (t,) records that the receiver has in full.
        judged: (n,) those of other persons.
        is_model_told: whether the receiver was given the model of what it received.
    """

    own: PartyFeatures
    secret: PartyFeatures
    frame: "pd.DataFrame"
    facts: JudgeFacts
    known: IntArray
    judged: IntArray
    is_model_told: bool = False

    @cached_property
    def received(self) -> FloatArray:
        """What was received, as an adversary reads it: (records, m)."""
        return encoded(self.frame, self.facts.columns, self.known)

    @property
    def leaves(self) -> FloatArray:
        """The received categories, NaN for none: (records, c)."""
        return of_kind(self.frame, self.facts.columns, "category")

    @property
    def gradients(self) -> FloatArray:
        """The received gradients, 0 for none: (records, g)."""
        return np.nan_to_num(of_kind(self.frame, self.facts.columns, "gradient"), posinf=0.0, neginf=0.0)

    @property
    def scores(self) -> FloatArray:
        """The received scores as they are read: (records, s)."""
        return scores_of(self.frame, self.facts.columns)

    @property
    def labelled(self) -> bool:
        """Whether the receiver has labels of its own."""
        return self.own.labels is not None and bool((self.own.labels != NO_LABEL).any())

    def write(self, folder: RunFolder) -> None:
        """Write both parties' features, as parties of an audit do."""
        folder.write_features(Role.ACTIVE, self.own)
        folder.write_features(SECRET, self.secret)


def read_received(request: JudgeRequest) -> tuple[ExaminedTables, ReceivedRecords]:
    """Read and join the tables, and choose who is known.

    Raises:
        TableError: a line for everything that is wrong with any of them; no line has a cell in it.
    """
    examined = examine_tables(request.tables, request.tables.limits)
    return examined, _joined(request, examined)


def _joined(request: JudgeRequest, examined: ExaminedTables) -> ReceivedRecords:
    tables = {
        part: table.with_roles(*(examined.settings[part].get(role, ()) for role in ("public", "sensitive")))
        for part, table in examined.tables.items()
    }
    tables, model_notes = with_model(request, tables)
    ids = common_order(set.intersection(*(set(table.ids) for table in tables.values())))
    rows = {part: rows_of(table.ids, ids) for part, table in tables.items()}
    labels = np.full(len(ids), NO_LABEL)
    if (own_labels := tables[OWN].labels) is not None:
        labels = encode_labels(own_labels[rows[OWN]])[0]
    own_features, secret = (_features(tables[part], rows[part]) for part in (OWN, SECRET))
    own_features = replace(own_features, labels=labels)
    _check_trained(secret, request.tables.trained)
    known_rows, judged_rows = _drawn(request, ids, np.hstack([own_features.features, secret.features]))
    names = {plan.name for part in (OWN, SECRET) for plan in tables[part].plans}
    received = tables[RECEIVED]
    columns = kinds_of(received, request.tables.kinds, names)
    # Who is handed scores and their model knows both; whose scores are computed here keeps its model.
    is_told = bool(request.tables.model and request.tables.passive[0])
    facts = JudgeFacts(
        title=request.title,
        received=request.title_of(RECEIVED),
        secret=request.title_of(SECRET),
        known=len(known_rows),
        columns=columns,
        left_out={plan.name: plan.becomes for plan in received.plans if plan.encoding == "drop"},
        notes=(
            *model_notes,
            *_HAS_MODEL[:is_told],
            *doubts(received, columns),
            *_same(tables, rows, labels, request),
            *_few(len(known_rows), len(judged_rows)),
        ),
        label=request.tables.secret_label,
        trained=request.tables.trained,
    )
    frame = received.frame.iloc[rows[RECEIVED]].reset_index(drop=True)
    return ReceivedRecords(own_features, secret, frame, facts, known_rows, judged_rows, is_model_told=is_told)


def _features(table: TypedTable, rows: IntArray) -> PartyFeatures:
    """Encode a table's rows as an audit does, each number from 0 to 1 over the range that all of them have."""
    fitted = fit_columns(table, rows, "minmax")
    return PartyFeatures.of(fitted.transform(table)[rows], fitted.columns, table.plans)


def _check_trained(secret: PartyFeatures, trained: str) -> None:
    mine = secret.features[:, np.asarray(secret.sources) == trained] if trained else np.zeros((1, 0))
    if trained and (mine.shape[1] != 1 or len(np.unique(mine)) != 2):
        raise TableError(
            f"--trained: {quoted(trained)} has to say yes or no of each record, or 1 and 0, and some records each way."
        )


def _drawn(request: JudgeRequest, ids: Sequence[str], cells: FloatArray) -> tuple[IntArray, IntArray]:
    """Draw the known records, or take those of ``--known-from``; judged are those of other persons, as many as can be.

    Raises TableError where fewer than a judgement takes would be left.
    """
    order = np.random.default_rng(request.seed).permutation(len(cells))
    is_other = is_known(ids)[order] if request.tables.known_from else np.arange(len(order)) < request.known
    known_rows, remaining = order[is_other], order[~is_other]
    persons = Clusters.of(cells, np.zeros(cells.shape[1])).numbers
    # A person is who has the same cells, or the same id.
    bare = {ids[row].removeprefix(PREFIX) for row in known_rows}
    same = np.isin(persons[remaining], persons[known_rows]) | np.array(
        [ids[row] in bare for row in remaining], dtype=bool
    )
    candidates = remaining[~same]
    if len(candidates) < LEAST_RECORDS:
        beside, advice = f"--known {len(known_rows):,}", "Lower --known, or bring more records."
        if request.tables.known_from:
            beside, advice = f"the {len(known_rows):,} of --known-from", "Bring records of other persons."
        raise TableError(
            f"Of {counted(len(cells), 'record')} in all tables {len(candidates):,} are left to judge, beside {beside} "
            f"and their duplicates: {LEAST_RECORDS} are needed. {advice}"
        )
    return np.sort(known_rows), np.sort(candidates[:MOST_JUDGED])


def _few(known_count: int, judged_count: int) -> Iterator[str]:
    """Say where there are too few known records to learn from, and too many to judge all others."""
    if 0 < known_count < LEAST_KNOWN:
        yield f"{counted(known_count, 'known record')} teach next to nothing: {LEAST_KNOWN} and more make a judgement."
    if judged_count == MOST_JUDGED:
        yield f"{judged_count:,} of the other records are judged, drawn by --seed."


def _same(
    tables: Mapping[str, TypedTable], rows: Mapping[str, IntArray], labels: IntArray, request: JudgeRequest
) -> list[str]:
    """Say which received columns are a secret column or the label itself, under another name or on another scale."""
    ranked = {
        part: {plan.name: _ranks(tables[part], plan.name, rows[part]) for plan in tables[part].kept}
        for part in (RECEIVED, SECRET)
    }
    notes = []
    for name, ranks in ranked[RECEIVED].items():
        same = [other for other, secret in ranked[SECRET].items() if _is_one(ranks, secret)]
        if same:
            notes.append(f"What was received as {quoted(name)} is the secret column {listed(same)} itself.")
        elif _is_one(ranks, labels.astype(np.int64), least=2):
            notes.append(
                f"What was received as {quoted(name)} is the label {quoted(request.tables.label)} itself, which the "
                "receiver has: it tells nothing that its own table doesn't."
            )
    return notes


def _ranks(table: TypedTable, name: str, rows: IntArray) -> IntArray:
    """Count a column's values in their order: (records,) numbers, -1 for none."""
    import pandas as pd

    codes: IntArray = pd.factorize(table.frame[name].iloc[rows].astype(object), sort=True)[0].astype(np.int64)
    return codes


def _is_one(received: IntArray, other: IntArray, least: int = _LEAST_VALUES) -> bool:
    """Tell whether two columns have the same values in the same records, whatever these are called.

    Where hardly two records are alike, any two columns do: these must have the same order too, or the reverse.
    """
    last = int(received.max(initial=0))
    if last != other.max(initial=0):
        return False
    if last + 1 > _MOST_NAMES * len(received):
        is_reverse = np.array_equal(np.where(received < 0, -1, last - received), other)
        return np.array_equal(received, other) or is_reverse
    pairs = len(np.unique(received * (last + 2) + other))
    return pairs == len(np.unique(received)) == len(np.unique(other)) >= least
