"""``plumbline audit``: a federation of local processes from alignment to scores, and a report on it."""

import json
import math
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from attacks.registry import attack_class
from defences import Defence, load_all
from defences.dp_sgd import DpSgd
from plumbline.federation import Federation
from plumbline.findings import STAGES, Findings, expectations, read_findings
from plumbline.lab import install_network, write_auxiliary
from plumbline.leakage import AttackFinding, read_leakage
from plumbline.processes import LocalProcesses
from plumbline.report import write_report
from plumbline.training_leakage import TrainingFinding, read_training_leakage
from protos.v1 import active_pb2
from services.common.defences import load_defences
from services.common.identity import Role, role_of
from services.common.settings import Settings, check_role, load_settings
from services.party.defences import check_defences
from vfl.data import column_blocks, dataset

_VERSIONS = ("plumbline", "cryptography", "gmpy2", "grpcio", "numpy", "protobuf", "scikit-learn")
# What attacks on predictions work with.
_MET = frozenset({"scores", "parameters", "features"})


@dataclass(frozen=True)
class AuditRequest:
    """What to run: a registered data set dealt out to ``parties``, or one table per party; plus any settings."""

    data: str = ""
    active: str = ""
    passive: tuple[str, ...] = ()
    label: str = ""
    id_column: str = "id"
    parties: int = 2
    name: str = ""
    runs: Path = Path("runs")
    attacks: tuple[str, ...] = ()
    defences: tuple[str, ...] = ()
    adversary: str = "active"
    black_box: bool = False
    auxiliary: int = 0
    hidden: tuple[int, ...] | None = None
    activation: str = "sigmoid"
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tables = bool(self.active or self.passive or self.label)
        if self.data and tables:
            raise ValueError("--data contradicts --active, --passive and --label: give a data set or tables, not both.")
        if not self.data and not (self.active and self.passive and self.label):
            raise ValueError("Give --data NAME (see `plumbline datasets`), or all of --active, --passive and --label.")
        if self.adversary not in ("active", "passive"):
            raise ValueError(f"--adversary is active or passive, got {self.adversary!r}.")
        if self.name in (".", "..") or "/" in self.name or "\\" in self.name:
            raise ValueError(
                f"--name is part of the name of the run's folder, got {self.name!r}: leave out / and \\; "
                "--runs says where the folder goes."
            )
        if self.data:
            column_blocks(dataset(self.data).features, self.parties)

    @property
    def passive_names(self) -> list[str]:
        count = self.parties - 1 if self.data else len(self.passive)
        return ["passive"] if count == 1 else [f"passive-{number}" for number in range(1, count + 1)]

    def _mounted_by(self, party: str) -> tuple[str, ...]:
        """The attacks of this request that sit with ``party``; those that either can mount go to ``adversary``."""
        role = "active" if party == "active" else "passive"
        sides = {name: attack_class(name).spec.adversary for name in self.attacks}
        return tuple(name for name, side in sides.items() if role == (self.adversary if side == "either" else side))

    def loaded_defences(self) -> tuple[Defence, ...]:
        """The defences with their options; raises ValueError for those that contradict each other or this request."""
        loaded = load_all(self.defences, self._base_settings().defence_options)
        if any("lab" in defence.spec.sits for defence in loaded) and self.hidden is None:
            raise ValueError("dp_sgd trains models in the lab: give --hidden, such as 8,8 (or '' for a linear model).")
        return loaded

    def _base_settings(self) -> Settings:
        return load_settings(**{**self.settings, "attacks": self.attacks, "defences": self.defences})

    def _defence_settings(self, party: str) -> dict[str, Any]:
        """The defences of this request that sit with ``party``, in the order given, and their options."""
        applied = [defence.name for defence in self.loaded_defences() if role_of(party) in defence.spec.sits]
        given = self._base_settings().defence_options
        return {
            "defences": ",".join(applied),
            "defence_options": {name: given[name] for name in applied if name in given},
        }

    def party_settings(self, record_folder: Path) -> dict[str, dict[str, Any]]:
        """Settings of every process by party name; raises SettingsError before anything is started."""
        names = ["active", *self.passive_names]
        base = self._base_settings()
        not_common = {"peers", "listen", "name", "certs", "attacks", "attack_options", "defences", "defence_options"}
        chosen = {key: getattr(base, key) for key in base.model_fields_set - not_common}
        # The auditor of a simulation may see the truth; parties of a real federation write no features.
        common = {**chosen, "run_dir": record_folder, "record_features": bool(self.attacks)}
        private_seeds = np.random.SeedSequence(base.seed).generate_state(len(names) + 1).tolist()
        settings: dict[str, dict[str, Any]] = {
            "coordinator": {**common, "private_seed": private_seeds[-1], **self._defence_settings("coordinator")}
        }
        for number, name in enumerate(names):
            own: dict[str, Any] = {"private_seed": private_seeds[number], **self._defence_settings(name)}
            if self.data:
                own |= {"data": self.data, "share": f"{number + 1}/{len(names)}"}
            else:
                table = self.active if number == 0 else self.passive[number - 1]
                own |= {"data": table, "id_column": self.id_column}
                if number == 0:
                    own["label_column"] = self.label
            mounted = self._mounted_by(name)
            own |= {
                "attacks": ",".join(mounted),
                "attack_options": {one: base.attack_options[one] for one in mounted if one in base.attack_options},
            }
            if number > 0:
                own["disclose"] = bool(self.attacks) and not self.black_box
            settings[name] = {**common, **own}
        for name, values in settings.items():
            peers = dict.fromkeys(settings, "127.0.0.1:1")
            loaded = load_settings(**{**values, "peers": peers, "name": ""})
            check_role(loaded, role_of(name))
            if name != Role.COORDINATOR:
                check_defences(load_defences(loaded, role_of(name)), loaded)
        return settings


def run_audit(request: AuditRequest, console: Console) -> Path:
    """Run the federation, print its findings, write them; returns the run's folder.

    Raises ValueError for a request that can't work, FederationFailed or ProcessFailed when the run fails; logs of all
    parties are in the run's folder either way.
    """
    name = request.name or request.data or "audit"
    request.party_settings(request.runs)  # what can't work is refused before anything is written
    run = _new_folder(request.runs, f"{datetime.now().strftime('%Y%m%d-%H%M%S')}-{name}")
    settings = request.party_settings((run / "parties").resolve())
    if request.hidden is not None:
        parts = install_network(
            settings,
            run / "models",
            hidden=request.hidden,
            activation=request.activation,
            training=next((one for one in request.loaded_defences() if isinstance(one, DpSgd)), None),
        )
        settings = {name: {**values, "model": parts.get(name, "")} for name, values in settings.items()}
    if request.auxiliary:
        table = write_auxiliary(settings, run / "auxiliary.parquet", request.auxiliary)
        settings["active"] = {**settings["active"], "auxiliary": table}
    # Keys stay outside the run's folder and go with the run.
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        (run / "logs").mkdir()
        processes = LocalProcesses(
            Path(scratch),
            settings,
            insecure_transport=request.settings.get("transport") == "insecure",
            logs=run / "logs",
        )
        start = time.perf_counter()
        with Federation.start(processes) as federation, _progress(console) as progress:
            federation.train(watch=_Watcher(progress))
        elapsed = time.perf_counter() - start
    findings = read_findings(run / "parties", name)
    if in_lab := [defence.name for defence in request.loaded_defences() if "lab" in defence.spec.sits]:
        findings = replace(findings, defences={**findings.defences, "the lab": in_lab})
    leakage = read_leakage(run / "parties", request.passive_names)
    training = read_training_leakage(run / "parties")
    unaware = unaware_words(request.loaded_defences())
    _write(run, request, findings, leakage, training, elapsed, unaware)
    _print(console, findings, elapsed)
    _print_leakage(console, leakage, unaware)
    _print_training_leakage(console, training)
    _print_predictions(console, findings)
    console.print(f"Report: {run / 'report.html'}", highlight=False)
    return run


def _new_folder(parent: Path, name: str) -> Path:
    """Make a folder of this name, with -2, -3 and so on where audits of the same second have made theirs."""
    parent.mkdir(parents=True, exist_ok=True)
    folder, number = parent / name, 1
    while True:
        try:
            folder.mkdir()
        except FileExistsError:
            number += 1
            folder = parent / f"{name}-{number}"
        else:
            return folder


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} steps"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[loss]}"),
        console=console,
        transient=True,
    )


class _Watcher:
    """Shows a job's events as a progress bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("starting", total=None, loss="")

    def __call__(self, event: active_pb2.JobEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "stage":
            self._progress.update(self._task, description=event.stage)
        elif kind == "progress":
            done, planned = event.progress.steps_done, event.progress.steps_planned
            self._progress.update(self._task, completed=done, total=planned)
        elif kind == "epoch" and not math.isnan(event.epoch.validation_loss):
            self._progress.update(self._task, loss=f"validation loss {event.epoch.validation_loss:.4f}")


def _write(
    run: Path,
    request: AuditRequest,
    findings: Findings,
    leakage: list[AttackFinding],
    training: list[TrainingFinding],
    elapsed: float,
    unaware: str,
) -> None:
    facts = {
        "request": {key: str(value) if isinstance(value, Path) else value for key, value in asdict(request).items()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in _VERSIONS}},
        "seconds": elapsed,
    }
    (run / "config.json").write_text(json.dumps(facts, indent=1, default=str))
    results = {**asdict(findings), "attacks": [asdict(finding) for finding in leakage]}
    results["training_attacks"] = [asdict(finding) for finding in training]
    (run / "results.json").write_text(json.dumps(results, indent=1))
    write_report(run / "report.html", findings, leakage, training, facts, unaware)


def _print(console: Console, findings: Findings, elapsed: float) -> None:
    for warning in findings.warnings:
        console.print(f"[bold red]{warning}")
    for note in findings.simulation:
        console.print(f"[yellow]Simulation: {note}")
    plan = findings.agreement["plan"]
    table = Table(title=f"Federation {findings.name}", show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for party in findings.parties:
        table.add_row(party["name"], f"{party['feature_count']} features")
    table.add_row("records", f"{findings.aligned_rows:,} aligned by PSI, {findings.test_rows:,} for the test")
    table.add_row("cipher", cipher_words(plan))
    table.add_row("transport", findings.transport)
    for name, applied in findings.defences.items():
        table.add_row(f"defences of {name}", ", ".join(applied))
    training = (
        f"{len(findings.epochs)} epochs, {findings.steps} steps of {plan['batch_size']} records, "
        f"{findings.epoch_seconds:.1f} s per epoch"
    )
    table.add_row("training", training if findings.epochs else "none: an installed model")
    if findings.channels:
        table.add_row("answers of a step", "; ".join(channel_words(channel) for channel in findings.channels))
    table.add_row("test accuracy", f"{findings.accuracy:.4f} (largest class: {findings.majority:.4f})")
    table.add_row("test AUC", f"{findings.auc:.4f}")
    table.add_row("on the wire", f"{findings.total_bytes / 1e6:.1f} MB in all")
    table.add_row("whole run", f"{elapsed:.1f} s")
    console.print(table)

    if findings.timings:
        _print_stages(console, findings)
    traffic = Table(title="Bytes on the wire")
    traffic.add_column("call: message")
    traffic.add_column("bytes", justify="right")
    for message, size in findings.bytes_by_message.items():
        traffic.add_row(message, f"{size:,}")
    console.print(traffic)


def _print_stages(console: Console, findings: Findings) -> None:
    stages = Table(title="Milliseconds per iteration")
    stages.add_column("stage")
    for timing in findings.timings:
        stages.add_column(timing.name, justify="right")
    for stage in STAGES:
        stages.add_row(stage, *(f"{timing.seconds[stage] * 1e3:.1f}" for timing in findings.timings))
    stages.add_row("total", *(f"{timing.total * 1e3:.1f}" for timing in findings.timings), style="bold")
    stages.add_row("last quarter / first", *(f"{timing.pace:.2f}" for timing in findings.timings))
    stages.add_row("peak memory, MB", *(f"{timing.peak_memory_bytes / 1e6:.0f}" for timing in findings.timings))
    console.print(stages)


def _print_predictions(console: Console, findings: Findings) -> None:
    for party, predictions in findings.predictions.items():
        for prediction in predictions:
            numbers = ", ".join(f"{what} {value}" for what, value in expectations(prediction))
            console.print(f"{prediction['defence']} at {party} expects: {numbers}.", highlight=False)


def _print_leakage(console: Console, leakage: list[AttackFinding], unaware: str) -> None:
    """One line per attack; the report has every column. unaware: of the defences that these attacks don't know."""
    done = [finding for finding in leakage if finding.mse is not None]
    if done:
        if unaware:
            console.print(unaware, style="yellow", highlight=False, markup=False)
        table = Table(
            title="What the active party reconstructs",
            caption=f"Mean squared error per feature; guessing one half: {done[0].half:.4f}, zero: {done[0].zero:.4f}. "
            "Gain: the part of one half's error that is gone.",
        )
        table.add_column("attack", no_wrap=True)
        for heading in ("MSE", "95 %", "accuracy"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("most exposed column and its gain")
        for finding in done:
            table.add_row(*_leakage_cells(finding))
        console.print(table)
    for finding in leakage:
        if finding.mse is None:
            console.print(f"Not applicable: {finding.reason}", highlight=False, markup=False)


def _print_training_leakage(console: Console, training: list[TrainingFinding]) -> None:
    if not training:
        return
    table = Table(title="What training gave away", caption="Right: of what was attacked. Answered: right or not.")
    for heading in ("attack", "by", "of", "right", "answered", "first and last epoch"):
        table.add_column(heading, justify="right" if heading in ("right", "answered") else "left")
    for finding in training:
        if finding.kind:
            epochs = f"{finding.by_epoch[0]:.1%}, {finding.by_epoch[-1]:.1%}" if finding.by_epoch else ""
            table.add_row(
                finding.attack, finding.party, finding.kind, f"{finding.success:.1%}", f"{finding.resolved:.1%}", epochs
            )
    console.print(table)
    for finding in training:
        if finding.reason:
            console.print(f"{finding.attack} by {finding.party}: {finding.reason}", highlight=False, markup=False)


def _leakage_cells(finding: AttackFinding) -> tuple[str, ...]:
    assert finding.mse is not None  # noqa: S101 - the caller has picked those that ran
    worst = max(finding.columns, key=lambda column: column.gain)
    return (
        finding.attack,
        f"{finding.mse.mean:.4f}",
        f"{finding.mse.low:.3f} to {finding.mse.high:.3f}",
        f"{finding.accuracy:.2f}",
        f"{worst.column} {worst.gain:.0%}" if worst.gain > 0 else "none",
    )


def unaware_words(applied: Sequence[Defence]) -> str:
    """One sentence on the defences that attacks on predictions meet without knowing of them; empty without any."""
    met = [defence.name for defence in applied if not _MET.isdisjoint(defence.spec.stages)]
    if not met:
        return ""
    return (
        f"These attacks don't know of {' and '.join(met)}: an adversary who does may get more; see docs/defences.md, "
        '"What each one does not stop".'
    )


def channel_words(channel: dict[str, Any]) -> str:
    """The room of one decryption channel in words."""
    return (
        f"{channel['peer']} can fit {channel['equations']} equations about {channel['rows']} residuals of "
        f"{channel['key_holder']} ({channel['spare_bits']} bits spare)"
    )


def cipher_words(plan: dict[str, Any]) -> str:
    """The session's cipher in words."""
    if plan["cipher"] == "plain":
        return "INSECURE: none (cipher=plain)"
    return f"Paillier, {plan['key_bits']}-bit keys, packing {'on' if plan['packing'] else 'off'}"
