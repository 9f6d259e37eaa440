"""The federation of an audit: prepared in the run's folder, started, trained, attacked, and stopped."""

import tempfile
import time
from pathlib import Path

from defences.dp_sgd import DpSgd
from plumbline.audit.installed_models import install_network
from plumbline.audit.joined_tables import JoinedTables
from plumbline.audit.known_beforehand import write_knowledge
from plumbline.audit.planning.plan import AuditPlan
from plumbline.audit.runs.folder import AuditFolder
from plumbline.audit.sessions.at_the_limit import attack_at_the_limit
from plumbline.federation import Federation
from plumbline.job_progress import JobWatcher, RunProgress
from plumbline.processes import LocalProcesses
from plumbline.recipe import changed
from services.adversary.load import load_attacks
from services.common.identity import Role, role_of
from services.common.settings import Settings

# A passive party's attacks on training run after its last answer. An attack that takes longer than this is left behind.
_AWAIT_SECONDS = 300.0
_POLL_SECONDS = 0.2


def run_federation(plan: AuditPlan, tables: JoinedTables, run: AuditFolder, progress: RunProgress) -> None:
    """Run what is planned; everything of it is in the run's folder then.

    Raises:
        ValueError: where the model or the adversary's knowledge can't be prepared as asked.
        FederationFailed: when the federation refuses or fails.
        ProcessFailed: when a process ends by itself.
    """
    progress.stage("starting")
    settings = _prepared(plan, tables, run)
    # Keys stay outside the run's folder and go with the run.
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        run.logs.mkdir()
        processes = LocalProcesses(Path(scratch), settings, logs=run.logs)
        with Federation.start(processes) as federation:
            federation.train(watch=JobWatcher(progress))
            _await_attacks(run, processes, progress)
    attack_at_the_limit(plan, tables, run, progress)


def _prepared(plan: AuditPlan, tables: JoinedTables, run: AuditFolder) -> dict[str, Settings]:
    """The settings of every process, with the files that some of them name."""
    request, settings = plan.request, plan.recipe.settings(run.parties.path.resolve())
    if request.hidden is not None:
        parts = install_network(
            tables,
            run.models,
            hidden=request.hidden,
            activation=request.activation,
            training=next((one for one in plan.recipe.defences if isinstance(one, DpSgd)), None),
        )
        settings |= {name: changed(name, settings[name], model=part) for name, part in parts.items()}
    if request.attacks_predictions:
        known = write_knowledge(tables, run, request.auxiliary)
        settings[Role.ACTIVE] = changed(Role.ACTIVE, settings[Role.ACTIVE], **known)
    return settings


def _await_attacks(run: AuditFolder, processes: LocalProcesses, progress: RunProgress) -> None:
    """Wait until every passive party has written what its attacks on training found."""
    mounting = [name for name, settings in processes.settings.items() if _mounts_in_training(name, settings)]
    if not mounting:
        return
    progress.stage("attacking", "parties")
    deadline = time.monotonic() + _AWAIT_SECONDS
    for number, name in enumerate(mounting):
        progress.at(number, len(mounting), name)
        while time.monotonic() < deadline and not run.parties.has_training_outcomes(name):
            processes.check()
            time.sleep(_POLL_SECONDS)


def _mounts_in_training(name: str, settings: Settings) -> bool:
    role = role_of(name)
    if role is not Role.PASSIVE or settings.model:
        return False
    _, in_training = load_attacks(settings.attacks, settings.attack_options, role)
    return bool(in_training)
