"""What an audit lets the adversary of predictions know beforehand: statistics, and complete records where asked for.

None of it is of a record that is trained on or judged. It is hypothetical: no party of the federation makes or reads it
but the active party's attacks.
"""

from typing import Any

import numpy as np
import pandas as pd

from attacks.known_moments import known_moments
from plumbline.audit.joined_tables import JoinedTables
from plumbline.audit.runs.folder import AuditFolder
from services.adversary.prior_knowledge import write_moments
from services.common.durable import write_durably
from services.common.identity import Role
from vfl.arrays import FloatArray, IntArray


def write_knowledge(joined: JoinedTables, run: AuditFolder, records: int) -> dict[str, Any]:
    """Write the files of what the adversary knows into a run's folder.

    Args:
        joined: the tables of all parties.
        run: the folder.
        records: how many complete records the adversary gets; 0 for none.

    Returns:
        The active party's settings that name these files.

    Raises:
        ValueError: where there are too few records that are neither trained on nor all that could be judged.
    """
    given = auxiliary_rows(joined, records)
    others = np.setdiff1d(np.arange(len(joined.ids)), np.setdiff1d(joined.split.test, given))
    write_moments(run.prior_knowledge, known_moments(_passive(joined, others), _one_hot(joined)))
    changes: dict[str, Any] = {"prior_knowledge": run.prior_knowledge.resolve()}
    if records:
        _write_records(joined, given, run)
        changes["auxiliary"] = str(run.auxiliary.resolve())
    return changes


def auxiliary_rows(joined: JoinedTables, records: int) -> IntArray:
    """Rows of the common order that the adversary is given in full: validation rows first, then test rows.

    Raises:
        ValueError: when no test row would be left to judge.
    """
    free: IntArray = np.concatenate([joined.split.validation, joined.split.test])
    if records and records >= len(free):
        raise ValueError(
            f"--auxiliary {records}: there are {len(free)} validation and test records, and at least one must be left "
            "to judge. Ask for fewer, or set validation_fraction and test_fraction higher."
        )
    return free[:records]


def _passive(joined: JoinedTables, rows: IntArray) -> FloatArray:
    return np.hstack([joined.features(name, rows) for name in joined.passive_names])


def _one_hot(joined: JoinedTables) -> list[IntArray]:
    """The passive features that are categories of one column, a gap among them: groups of indices."""
    groups: dict[tuple[str, str], list[int]] = {}
    columns = [(name, one) for name in joined.passive_names for one in joined.columns(name)]
    for index, (name, one) in enumerate(columns):
        # Where whole rows are scaled together, no feature is 0 or 1 any more.
        if one.kind in ("category", "missing") and one.scale == 1:
            groups.setdefault((name, one.source), []).append(index)
    return [np.array(group) for group in groups.values() if len(group) > 1]


def _write_records(joined: JoinedTables, rows: IntArray, run: AuditFolder) -> None:
    names = [f"{name}: {column.name}" for name in joined.passive_names for column in joined.columns(name)]
    table = pd.DataFrame(_passive(joined, rows), columns=names)
    table.insert(0, joined.settings[Role.ACTIVE].id_column, joined.ids_of(rows))
    write_durably(run.auxiliary, lambda file: table.to_parquet(file, index=False))
