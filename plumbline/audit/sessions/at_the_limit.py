"""Attacks an audited session together with all further ones that the passive parties' owners would allow."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import attacks
from plumbline.audit.joined_tables import JoinedTables
from plumbline.audit.planning.owners_limit import labels_of
from plumbline.audit.planning.plan import AuditPlan
from plumbline.audit.runs.folder import AuditFolder
from plumbline.audit.sessions.clear_sessions import ClearSessions, without_training
from plumbline.job_progress import RunProgress
from services.adversary.predictions import AttackedBatch, Mounted
from services.adversary.prior_knowledge import read_moments
from services.common.identity import Role
from services.common.run_folder import RunFolder
from services.common.run_records import Estimates
from services.common.session_limit import SessionLimit
from vfl.arrays import FloatArray, IntArray
from vfl.data.faults import counted

# Of more columns an attack on many sessions may take minutes.
_MOST_SAMPLED = 64


def attack_at_the_limit(plan: AuditPlan, tables: JoinedTables, run: AuditFolder, progress: RunProgress) -> None:
    """Add to what a federation's attacks on predictions found what the same adversary finds after further sessions.

    Nothing is added where no attack on predictions ran, or further sessions tell no more; the run's folder says which.

    Args:
        plan: of the audit.
        tables: of all parties.
        run: the folder of a run whose federation is over.
        progress: told which session is made.

    Raises:
        RunFolderError: where something of the run is missing or broken.
    """
    folder, limit = run.parties, plan.limit
    outcomes = folder.prediction_outcomes()
    agreement = folder.record(Role.ACTIVE).agreement
    if limit is None or agreement is None or not any(one.batch == 0 for one in outcomes):
        return
    if mounted := labels_of(plan.request.attacks, plan.request.levels, limit):
        sessions = ClearSessions(tables, plan.recipe.parties, agreement)
        limit = replace(limit, records=len(sessions.training_rows))
        with _logged(run.logs / "auditor.log"):
            batch = _attacked(_seen_of_all(sessions, run, limit, progress), mounted, limit)
        found = folder.estimates(0)
        folder.write_estimates(0, Estimates(found.rows, found.by_attack | batch.arrays, found.auxiliary_rows))
        folder.write_prediction_outcomes([*outcomes, *batch.outcomes])
    folder.write_session_limit(limit)


def _without_values(view: attacks.PredictionView) -> attacks.PredictionView:
    """The view without what it tells of single values of columns, which takes minutes to weigh where there are many."""
    known = view.moments
    return view if known is None else replace(view, moments=replace(known, supports=(), frequencies=(), groups=()))


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """Write what services would log of an attack that fails to a file, and not on the console."""
    handler, log = logging.FileHandler(path, delay=True), logging.getLogger("services")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()


def _seen_of_all(
    sessions: ClearSessions, run: AuditFolder, limit: SessionLimit, progress: RunProgress
) -> attacks.PredictionView:
    """What the active party sees of the audited session, the last one, behind all others."""
    folder, estimates = run.parties, run.parties.estimates(0)
    rows, known = estimates.rows, estimates.auxiliary_rows
    asked = list(_asked_alone(limit))
    progress.stage("further sessions", "sessions")
    earlier = []
    for number, name in enumerate(asked):
        progress.at(number, len(asked))
        generator = np.random.default_rng((sessions.agreement.plan.seed, number))
        earlier.append(without_training(sessions.seen(sessions.trained([name], generator), rows, known)))
    names = [party.name for party in sessions.agreement.parties]
    last = sessions.seen(
        sessions.models({name: folder.weights(name).weights for name in names}),
        rows,
        known,
        scores=_delivered(folder, rows),
        moments=read_moments(run.prior_knowledge),
    )
    return replace(last, earlier=tuple(earlier))


def _asked_alone(limit: SessionLimit) -> Iterator[str]:
    """The passive party of each further session: one at a time, for sums of several parties' forms tell less."""
    for party in limit.parties:
        yield from [party.name] * (party.sessions - 1)


def _delivered(folder: RunFolder, rows: IntArray) -> FloatArray:
    """The audited session's scores of these rows, as the active party got them."""
    record = folder.record(Role.ACTIVE)
    place = {row: number for number, row in enumerate(record.test_rows or ())}
    return np.array(record.test_scores)[[place[row] for row in rows.tolist()]]


def _attacked(
    view: attacks.PredictionView, mounted: Mapping[str, tuple[str, Mapping[str, Any]]], limit: SessionLimit
) -> AttackedBatch:
    """What each attack finds at each level, in the words of a hosted one."""
    batch = AttackedBatch(0, view.n)
    is_wide = view.d > _MOST_SAMPLED
    seen = _without_values(view) if is_wide else view
    for label, (name, options) in mounted.items():
        wide = attacks.spec_of(name).when_wide if is_wide else {}
        attack = attacks.load_prediction(name, **{**options, **wide})
        batch.mount(Mounted(label, attack, lambda: seen))
    made = len(view.earlier)
    simulated = (
        f"SIMULATED: {made} of the {made + 1} sessions were trained in the clear by the auditor, each in one epoch "
        f"over {counted(limit.records, 'record')}."
    )
    if is_wide:
        simulated += f" So many columns ({view.d}) were solved for at once, without their bounds and their few values."
    batch.outcomes = [
        replace(one, sessions=limit.sessions, notes=(simulated, *(one.notes or ()))) for one in batch.outcomes
    ]
    return batch
