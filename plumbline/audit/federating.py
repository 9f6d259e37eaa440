"""The federation of an audit: prepared in the run's folder, started, trained, attacked, and stopped."""

import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from attacks import spec_of
from attacks.prediction.known_moments import known_moments
from defences.base import TrainingDefence
from plumbline.audit.folder import AuditFolder
from plumbline.audit.further_sessions import attack_at_the_limit
from plumbline.audit.malicious_attacks import malicious_attacks, mounting
from plumbline.audit.plan import AuditPlan, ClearPlan
from plumbline.audit.tables import JoinedTables
from plumbline.federation import Federation
from plumbline.job_progress import JobWatcher, RunProgress
from plumbline.processes import LocalProcesses
from plumbline.recipe import changed
from services.adversary.load import load_attacks
from services.adversary.predictions import spread
from services.adversary.prior_knowledge import write_moments
from services.common.durable import write_durably
from services.common.identity import Role, role_of
from services.common.run_folder import RunFolder
from services.common.settings import Settings
from vfl.arrays import FloatArray, IntArray
from vfl.learning.networks import activation_named, save_network

# A passive party's attacks on training run after its last answer. An attack that takes longer than this is left behind.
_AWAIT_SECONDS = 300.0
_POLL_SECONDS = 0.2


def run_federation(plan: AuditPlan, tables: JoinedTables, run: AuditFolder, progress: RunProgress) -> None:
    """Run what is planned; everything of it is in the run's folder then.

    Attacks that send something else than the protocol says get a second session of the same parties and tables: what is
    judged of the first is then a model that was trained honestly.

    Raises:
        ValueError: where the model or the adversary's knowledge can't be prepared as asked.
        FederationFailed: when the federation refuses or fails.
        ProcessFailed: when a process ends by itself.
    """
    progress.stage("starting")
    settings = prepared(plan, tables, run)
    malicious = frozenset(malicious_attacks(settings))
    _train(mounting(settings, malicious, only=False) if malicious else settings, run.parties, run.logs, progress)
    if malicious:
        progress.stage("starting a session of other messages")
        folder = run.parties.malicious
        again = {name: one.model_copy(update={"run_dir": folder.path.resolve()}) for name, one in settings.items()}
        _train(mounting(again, malicious, only=True), folder, run.logs / "malicious", progress)
    attack_at_the_limit(plan, tables, run, progress)


def _train(settings: Mapping[str, Settings], folder: RunFolder, logs: Path, progress: RunProgress) -> None:
    """Train a federation of these processes, which write to the folder, with every attack that they mount."""
    # Keys stay outside the run's folder and go with the run.
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        logs.mkdir()
        processes = LocalProcesses(Path(scratch), settings, logs=logs)
        with Federation.start(processes) as federation:
            federation.train(watch=JobWatcher(progress))
            _await_attacks(folder, processes, progress)


def prepared(plan: AuditPlan | ClearPlan, tables: JoinedTables, run: AuditFolder) -> dict[str, Settings]:
    """Make the settings of every process, with the files that some of them name."""
    federation, adversary = plan.request.federation, plan.request.adversary
    settings = plan.recipe.settings(run.parties.path.resolve())
    if federation.hidden is not None:
        parts = install_network(
            tables,
            run.models,
            hidden=federation.hidden,
            activation=federation.activation,
            training=next(
                (cast(TrainingDefence, one) for one in plan.recipe.defences if "training" in one.spec.stages), None
            ),
        )
        settings |= {name: changed(name, settings[name], model=part) for name, part in parts.items()}
    if adversary.uses_records:
        learner, specs = settings[Role.ACTIVE].plan().family, map(spec_of, adversary.attacks)
        trained = any("known_records" in spec.needs and spec.is_on(learner.name) for spec in specs)
        shows_training = trained or learner.spec.answers != "scores"
        knowledge = write_knowledge(tables, run, adversary.auxiliary, trained=shows_training)
        settings[Role.ACTIVE] = changed(Role.ACTIVE, settings[Role.ACTIVE], **knowledge)
    if adversary.known_labels:
        path = write_known_labels(tables, run, adversary.known_labels)
        settings |= {name: changed(name, settings[name], known_labels=path) for name in tables.passive_names}
    return settings


def _await_attacks(folder: RunFolder, processes: LocalProcesses, progress: RunProgress) -> None:
    """Wait until every passive party has written what its attacks on training found."""
    mounting = [
        name
        for name, settings in processes.settings.items()
        if role_of(name) is Role.PASSIVE and not settings.model
        # Those on predictions, and those on training.
        if load_attacks(settings.attacks, settings.attack_options, Role.PASSIVE)[1]
    ]
    if not mounting:
        return
    progress.stage("attacking", "parties")
    deadline = time.monotonic() + _AWAIT_SECONDS
    for number, name in enumerate(mounting):
        progress.at(number, len(mounting), name)
        while time.monotonic() < deadline and not folder.has_training_outcomes(name):
            processes.check()
            time.sleep(_POLL_SECONDS)


def install_network(
    joined_tables: JoinedTables,
    folder: Path,
    *,
    hidden: Sequence[int],
    activation: str,
    training: TrainingDefence | None = None,
) -> dict[str, Path]:
    """Train a network on what the active and the one passive party hold; returns each part's file, by party.

    Each part sees its party's own encoded columns, and only the training rows of the session's public split: the test
    rows are as new to the model as to any other. Raises ValueError for other than one passive party.

    Arguments:
        joined_tables: the tables of all parties.
        folder: where the parts go.
        hidden: layer sizes; none makes a linear model.
        activation: of the hidden layers.
        training: trains with differential privacy; None trains without.
    """
    from vfl.learning.torch_training import AdamTraining

    names = list(joined_tables.settings)
    if len(names) != 2:
        raise ValueError("A network is installed at one active and one passive party: use --parties 2.")
    rows = joined_tables.split.train
    network = (training or AdamTraining()).train_network(
        joined_tables.features(Role.ACTIVE, rows),
        joined_tables.features(names[1], rows),
        joined_tables.labels[rows],
        hidden=hidden,
        activation=activation_named(activation),
        classes=len(joined_tables.class_names),
        seed=joined_tables.settings[Role.ACTIVE].seed,
    )
    paths = {name: (folder / f"{name}-model.npz").resolve() for name in names}
    for path, part in zip(paths.values(), (network.active, network.passive), strict=True):
        write_durably(path, partial(save_network, network=part))
    return paths


def write_knowledge(
    joined_tables: JoinedTables, run: AuditFolder, records: int, *, trained: bool = False
) -> dict[str, Any]:
    """Write the files of what the adversary knows into a run's folder.

    Args:
        joined_tables: the tables of all parties.
        run: the folder.
        records: how many complete records the adversary gets; 0 for none.
        trained: whether they are training records.

    Returns:
        The active party's settings that name these files.

    Raises:
        ValueError: where there are too few records that are neither trained on nor all that could be judged.
    """
    auxiliary = auxiliary_rows(joined_tables, records, trained=trained)
    everybody, groups = np.arange(len(joined_tables.ids)), _one_hot(joined_tables)
    # None is over a record that is attacked: on predictions those of the test, and in training those trained on.
    unattacked, untrained = (
        np.setdiff1d(everybody, np.setdiff1d(attacked, auxiliary))
        for attacked in (joined_tables.split.test, joined_tables.split.train)
    )
    moments = known_moments(_passive(joined_tables, unattacked), groups)
    in_training = known_moments(_passive(joined_tables, untrained), groups) if len(untrained) else None
    write_moments(run.prior_knowledge, moments, in_training)
    changes: dict[str, Any] = {"prior_knowledge": run.prior_knowledge.resolve()}
    if records:
        _write_records(joined_tables, auxiliary, run)
        changes["auxiliary"] = str(run.auxiliary.resolve())
    return changes


def write_known_labels(joined_tables: JoinedTables, run: AuditFolder, labels: int) -> str:
    """Write the labels that passive parties' adversaries know, of training records spread evenly; returns the file.

    Raises ValueError where no label of a training record would be left to judge.
    """
    train = joined_tables.split.train
    if labels >= len(train):
        raise ValueError(
            f"--known-labels {labels}: there are {len(train)} training records, and at least one must be left to "
            "judge. Ask for fewer."
        )
    rows = train[spread(len(train), labels)]
    name = joined_tables.settings[Role.ACTIVE].id_column
    table = pd.DataFrame({name: joined_tables.ids_of(rows), f"class of {name}": joined_tables.labels[rows]})
    write_durably(run.known_labels, lambda file: table.to_parquet(file, index=False))
    return str(run.known_labels.resolve())


def auxiliary_rows(joined_tables: JoinedTables, records: int, *, trained: bool = False) -> IntArray:
    """Rows of the common order that the adversary is given in full: validation rows first, then test rows.

    They are spread evenly over each: ids often go with time, and the oldest records say little of later ones. Where an
    attack on training has them, or a first layer is forwarded, it is what training shows of a record that knowing it
    teaches to read: ``trained`` takes training rows.

    Raises:
        ValueError: when no test row would be left to judge, or there are fewer training rows.
    """
    if trained:
        rows = joined_tables.split.train
        if records > len(rows):
            raise ValueError(f"--auxiliary {records}: there are {len(rows)} training records. Ask for fewer.")
        return rows[spread(len(rows), records)] if records else rows[:0]
    validation, test = joined_tables.split.validation, joined_tables.split.test
    free = len(validation) + len(test)
    if records and records >= free:
        raise ValueError(
            f"--auxiliary {records}: there are {free} validation and test records, and at least one must be left "
            "to judge. Ask for fewer, or set validation_fraction and test_fraction higher."
        )
    of_test = max(0, records - len(validation))
    parts = (validation[spread(len(validation), records)], test[spread(len(test), of_test)])
    return np.concatenate(parts)


def _passive(tables: JoinedTables, rows: IntArray) -> FloatArray:
    return np.hstack([tables.features(name, rows) for name in tables.passive_names])


def _one_hot(tables: JoinedTables) -> list[IntArray]:
    """Find passive features that are categories of one column, a gap among them: groups of indices."""
    groups: dict[tuple[str, str], list[int]] = {}
    columns = [(name, one) for name in tables.passive_names for one in tables.columns(name)]
    for index, (name, column) in enumerate(columns):
        # Where whole rows are scaled together, no feature is 0 or 1 any more.
        if column.kind in ("category", "missing") and column.scale == 1:
            groups.setdefault((name, column.source), []).append(index)
    # Of a date, whether it is missing and whether it has no end may both be 0.
    of_categories = {(name, one.source) for name, one in columns if one.kind == "category"}
    return [np.array(group) for key, group in groups.items() if len(group) > 1 and key in of_categories]


def _write_records(tables: JoinedTables, rows: IntArray, run: AuditFolder) -> None:
    names = [f"{name}: {column.name}" for name in tables.passive_names for column in tables.columns(name)]
    table = pd.DataFrame(_passive(tables, rows), columns=names)
    table.insert(0, tables.settings[Role.ACTIVE].id_column, tables.ids_of(rows))
    write_durably(run.auxiliary, lambda file: table.to_parquet(file, index=False))
