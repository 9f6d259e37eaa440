"""One set of columns of an audited run, measured in one place."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from attacks import LEVELS, Level
from attacks.registry import ADAPTIVE
from plumbline.audit.clear_run import grows_trees, obstacles, run_in_one_place
from plumbline.audit.configuration import FILE, ConfigurationError, read_configuration
from plumbline.audit.folder import AuditFolder
from plumbline.audit.plan import ClearPlan, candidates, labels_of
from plumbline.audit.tables import JoinedTables, examine_tables
from plumbline.judge.column_sets import Change, ColumnSet, by_party, set_of
from plumbline.judge.federation_part import HEADLINE
from plumbline.judge.findings import Findings, read_findings
from plumbline.what_if.other_settings import with_settings
from services.common.identity import Role
from services.common.run_files import RunFolderError

# Who knows more is the audit's business: sets are compared at the headline's level.
UP_TO_HEADLINE: tuple[Level, ...] = LEVELS[: LEVELS.index(HEADLINE) + 1]


@dataclass(frozen=True, eq=False)
class AuditedRun:
    """A run of the past with the tables that it was made from.

    Attributes:
        folder: what the run wrote.
        plan: that of its federation.
        tables: of all parties.
        digest: of the request and of every party's columns.
    """

    folder: AuditFolder
    plan: ClearPlan
    tables: JoinedTables
    digest: str

    @property
    def grows(self) -> bool:
        """Whether it grows boosted trees: training is attacked too, and has settings that tell less."""
        return grows_trees(self.plan)


@lru_cache(maxsize=1)
def audited_run(path: Path) -> AuditedRun:
    """Read a run's request and the tables that it was made from.

    Raises:
        ValueError: for a run that can't be simulated, tables that aren't there or are others now, and broken files.
    """
    file = path / FILE
    if not file.exists():
        raise ValueError(f"{path} has no {FILE}, which says what it was made from: run the audit again.")
    try:
        request = read_configuration(file).request()
        limits = request.federation.said("table_megabytes", "table_columns", "table_cells")
    except ConfigurationError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"{file} asks for no audit that can be: {error} Run it again.") from error
    try:
        examined = examine_tables(request.tables, limits.table_limits)
        recipe = candidates(request).recipe(examined.settings).checked()
        tables = JoinedTables(recipe.parties, examined.tables)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{path} can't be simulated without the tables that it was made from: {error} Put them where {file} says, "
            "or audit them again."
        ) from error
    plan = ClearPlan(request, recipe, UP_TO_HEADLINE)
    if grows_trees(plan):
        # Which of two sources a column's answer is, what is told to who knows more decides.
        plan = replace(plan, levels=request.adversary.levels)
    if reasons := list(obstacles(plan)):
        raise ValueError(
            f"{path} can't be simulated: {'; '.join(reasons)}. Audit its tables as --learner linear --protocol hu, "
            "or boosted_trees, without such defences, and ask what if of that run."
        )
    folder = AuditFolder(path)
    _check_made_from(folder, tables)
    content = hashlib.sha256(file.read_bytes())
    for name in tables.settings:
        content.update(tables.aligned[name].features.tobytes())
    content.update(tables.labels.tobytes())
    return AuditedRun(folder, plan, tables, content.hexdigest())


def _check_made_from(run: AuditFolder, tables: JoinedTables) -> None:
    """Raise ValueError where the run has other records or columns than its tables have now."""
    alike = np.array_equal(run.parties.labels(), tables.labels)
    for name in tables.passive_names:
        written = run.parties.features(name)
        alike &= written.features.shape == tables.aligned[name].truth.shape
        alike = alike and bool(np.allclose(written.features, tables.aligned[name].truth, rtol=0, atol=1e-9))
    if not alike:
        raise RunFolderError(
            f"{run.path} was made from other tables than those that stand in their place now: put the old ones back, "
            "or audit the new ones."
        )


def measured(
    *,
    folder: str,
    digest: str,
    changes: Sequence[Sequence[str]],
    attacks: Sequence[str],
    records: int,
) -> Mapping[str, Any]:
    """Train a set of columns and attack it.

    Args:
        folder: of the run.
        digest: of its request and tables.
        changes: party, column and kind of each.
        attacks: their names.
        records: how many are attacked at most; 0 for as many as in the run.

    Returns:
        The set as ``ColumnSet`` has it: ``columns``, ``auc`` and ``is_measured``.

    Raises:
        ValueError: where the run's tables are others by now, or a party would have no column.
    """
    run = audited_run(Path(folder))
    if run.digest != digest:
        raise ValueError(f"The tables of {folder} have changed: start again.")
    columns = simulated(run, tuple(Change(*one) for one in changes), attacks, records)
    return {
        "columns": [astuple(one) for one in columns.columns],
        "auc": columns.auc,
        "is_measured": columns.is_measured,
    }


def simulated(run: AuditedRun, changes: tuple[Change, ...], attacks: Sequence[str], records: int = 0) -> ColumnSet:
    """Train a run's federation of a set of columns in one place, attack it, and judge it; see ``measured``."""
    tables = run.tables.changed(by_party(changes))
    plan = with_settings(run.plan, changes).on(tables)
    names = tuple(attacks)
    if ADAPTIVE in plan.request.adversary.attacks and not labels_of(names, plan.levels, plan.limit):
        # So few columns that one session is all: no attack on several stands beside those of one.
        names = tuple(dict.fromkeys((*names, ADAPTIVE)))
    settings = plan.request.federation.settings
    if records:
        attacked = run.plan.recipe.parties[Role.ACTIVE].attacked_records
        settings = {**settings, "attacked_records": min(records, attacked or records)}
    # Labels are for attacks on training, of which a linear model's set has none.
    known_labels = plan.request.adversary.known_labels if run.grows else 0
    request = plan.request.changed(attacks=names, known_labels=known_labels, settings=settings)
    recipe = replace(request.recipe(run.plan.recipe.tables), levels=plan.levels).checked()
    with tempfile.TemporaryDirectory(prefix="plumbline-what-if-") as scratch:
        place = AuditFolder(Path(scratch))
        run_in_one_place(replace(plan, request=request, recipe=recipe), tables, place)
        findings = read_findings(place.parties, request.tables.passive_names, request.title)
    return set_of(
        findings.answer, changes, findings.summary.auc, with_labels=run.grows, is_measured=_is_measured(plan, findings)
    )


def _is_measured(plan: ClearPlan, findings: Findings) -> bool:
    """Tell whether attacks could say something of all that trees tell: of what they can't, nothing is known.

    Kept parameters leave predictions of trees nothing to attack, and defended scores tell something all the same.
    """
    if not grows_trees(plan):
        return True
    is_on_scores = not any("scores" in one.spec.stages for one in plan.recipe.defences) or any(
        one.mse is not None for one in findings.predictions.attacks
    )
    return is_on_scores and all(one.levels for one in findings.training if one.kind == "labels")
