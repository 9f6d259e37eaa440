"""What a plan's tables tell before anything runs: too few records to judge by, and columns that are the label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from attacks import spec_of
from plumbline.audit.request import AdversaryOptions
from plumbline.audit.tables import JoinedTables
from plumbline.judge.federation_part import LEAST_KNOWN
from plumbline.judge.lights import LEAST_RECORDS
from plumbline.telling.numbers import percent
from services.common.identity import Role
from vfl.arrays import FloatArray, IntArray
from vfl.data.faults import bounded, counted, quoted
from vfl.data.labels import NO_LABEL
from vfl.learning.score_quality import FEW_POSITIVES, area_under_curve

# A column that errs no more than so often where the largest class errs once is nearly the label. Of more values than
# these it is ordered by them.
_NEARLY, _MOST_VALUES = 0.05, 20


def forewarnings(tables: JoinedTables, adversary: AdversaryOptions) -> Iterator[str]:
    """Say what a run of these tables can't measure, and what of it would measure something else."""
    yield from _few_records(tables, adversary)
    yield from _few_of_a_class(tables)
    yield from _columns_like_the_label(tables)


def _few_records(tables: JoinedTables, adversary: AdversaryOptions) -> Iterator[str]:
    test_records, trained = len(tables.split.test), len(tables.split.train)
    if adversary.attacks_predictions and test_records < LEAST_RECORDS:
        yield (
            f"{counted(test_records, 'test record')} will judge what predictions give away, and {LEAST_RECORDS} are "
            "needed: every column will be grey. Bring more records, or test more of them (--set test_fraction=.4)."
        )
    phases = {spec_of(name).phase for name in adversary.attacks if not adversary.mounts_all}
    if trained < LEAST_RECORDS and (adversary.mounts_all or "training" in phases):
        yield (
            f"{counted(trained, 'record')} will be trained on, and {LEAST_RECORDS} are needed to judge what training "
            "tells: it will be grey."
        )
    if 0 < adversary.auxiliary < LEAST_KNOWN:
        yield (
            f"--auxiliary {adversary.auxiliary}: from fewer than {LEAST_KNOWN} complete records an adversary learns "
            "little, so that what such attacks find of columns will be grey. Give it more, or none."
        )


def _few_of_a_class(tables: JoinedTables) -> Iterator[str]:
    tested = np.bincount(tables.labels[tables.split.test], minlength=len(tables.class_names))
    if tables.split.test.size and tested.min() < FEW_POSITIVES:
        name = bounded(tables.class_names[int(tested.argmin())])
        yield (
            f"Of the rarest class among test records, {name}, there will be {int(tested.min()):,}: an AUC says little "
            f"with fewer than {FEW_POSITIVES}."
        )


def _columns_like_the_label(tables: JoinedTables) -> Iterator[str]:
    labelled = np.flatnonzero(tables.labels != NO_LABEL)
    labels = tables.labels[labelled]
    if len(labels) < LEAST_RECORDS:
        return
    least = 1 - _NEARLY * (1 - np.bincount(labels).max() / len(labels))
    for party, data in tables.data.items():
        rows = tables.aligned[party].rows[labelled]
        for plan in data.table.kept if party != Role.ACTIVE else ():
            right = _told_by(_values(data.table.frame[plan.name].iloc[rows]), labels)
            if right >= least:
                yield (
                    f"Column {quoted(plan.name)} of {party} by itself tells the label of {percent(right, 1)} of the "
                    f"records: if it is the label, or made of it, leave it out (--drop {party}:{bounded(plan.name)})."
                )


def _values(column: pd.Series[Any]) -> FloatArray:
    """Write a typed column's values as numbers, (n,); a gap is a value like others."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.cat.codes, dtype=np.float64)
    values = column.to_numpy(dtype=np.float64)
    return np.where(np.isnan(values), np.finfo(np.float64).min, values)


def _told_by(values: FloatArray, labels: IntArray) -> float:
    """Share of records whose label a column tells, as one value for each class or, of two classes, as an order."""
    distinct, codes = np.unique(values, return_inverse=True)
    if len(distinct) <= _MOST_VALUES:
        table = np.zeros((len(distinct), int(labels.max()) + 1))
        np.add.at(table, (codes, labels), 1)
        return float(table.max(axis=1).sum() / len(labels))
    if labels.max() > 1:
        return 0.0
    ranks = codes / max(1, len(distinct) - 1)
    area = area_under_curve(np.column_stack([1 - ranks, ranks]), labels)
    return max(area, 1 - area)
