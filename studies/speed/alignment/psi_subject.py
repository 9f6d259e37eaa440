"""``plumbline bench psi``: each message of an alignment beside openmined-psi, and whole alignments in two processes."""

import importlib.util
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass

from studies.speed.alignment.alignments import STAGES, Seconds, align_in_processes, openmined, ours, set_up
from studies.speed.repetition import doubled, in_turns, one_core
from studies.speed.result import Cell, Progress, Result, ResultTable, Spread, columns_of, silent
from vfl.cores import cores_for

_MICROSECONDS = 1e6
_MEGABYTES = 2**20
# Ids that have every worker start.
_WARM_UP = 20_000
_OURS, _OPENMINED = "plumbline", "openmined-psi"


@dataclass(frozen=True)
class PsiAsked:
    """What is measured.

    Attributes:
        ids: on each side, of the messages in turns.
        whole: on each side, of every alignment in two processes.
        repetitions: of the messages in turns.
        workers: cores of the longest curve; 0 for no curve.
    """

    ids: int = 50_000
    whole: tuple[int, ...] = (300_000,)
    repetitions: int = 3
    workers: int = 0


def measure_psi(asked: PsiAsked, progress: Progress = silent) -> Result:
    """Measure alignments. Raises WrongResult for an intersection that isn't that of the tables."""
    tables = [_messages(asked, progress), _whole(asked, progress), _shared_out(asked, progress)]
    command = f"plumbline bench psi --ids {asked.ids} --repetitions {asked.repetitions}"
    command += f" --workers {asked.workers}" if asked.workers else ""
    command += "".join(f" --whole {count}" for count in asked.whole)
    return Result("psi", command, tuple(table for table in tables if table.rows))


def _messages(asked: PsiAsked, progress: Progress) -> ResultTable:
    variants = {_OURS: lambda: ours(asked.ids)}
    notes = ["Seconds of process CPU on one pinned core, in turns; half of the ids are common."]
    if importlib.util.find_spec("private_set_intersection") is not None:
        variants[_OPENMINED] = lambda: openmined(asked.ids)
        notes.append("openmined-psi puts the client's key on the set-up when it compares.")
    else:
        notes.append("openmined-psi: skipped, not installed (pip install openmined-psi).")
    progress(f"messages of {asked.ids:,} ids")
    with one_core():
        runs = in_turns(variants, asked.repetitions)
    totals = {name: Spread.of([sum(one.values()) for one in found]).median for name, found in runs.items()}
    return ResultTable(
        "messages",
        f"Microseconds of CPU an id, {asked.ids:,} ids on each side",
        columns_of(
            variant="",
            **{_key(stage): f"{who}: {stage}" for stage, who in STAGES.items()},
            total="both sides",
            server_rate="server, ids/s",
            client_rate="client, ids/s",
            times="times ours",
        ),
        tuple(
            _message_row(name, found, asked.ids) | {"times": totals[name] / totals[_OURS]}
            for name, found in runs.items()
        ),
        tuple(notes),
    )


def _key(stage: str) -> str:
    return stage.replace("-", "_")


def _message_row(name: str, runs: Sequence[Seconds], count: int) -> dict[str, Cell]:
    each = _MICROSECONDS / count
    stages = {_key(stage): Spread.of([one[stage] for one in runs]).scaled(each) for stage in STAGES}
    rates = {
        f"{role}_rate": Spread.of(
            [count / sum(one[stage] for stage, who in STAGES.items() if who == role) for one in runs]
        )
        for role in ("server", "client")
    }
    return {"variant": name, **stages, "total": Spread.of([sum(one.values()) for one in runs]).scaled(each), **rates}


def _whole(asked: PsiAsked, progress: Progress) -> ResultTable:
    rows = list[dict[str, Cell]]()
    for count in asked.whole:
        progress(f"an alignment of {count:,} ids in two processes")
        for side in align_in_processes(count):
            row: dict[str, Cell] = {"ids": count, "role": side.role, "cpu": side.cpu_seconds, "wall": side.wall_seconds}
            rows.append(row | {"rate": count / side.wall_seconds, "memory": side.peak_bytes / _MEGABYTES})
    return ResultTable(
        "whole",
        "Whole alignments, each side a process of its own",
        columns_of(
            ids="ids on each side", role="side", cpu="CPU, s", wall="s", rate="ids/s", memory="memory at most, MB"
        ),
        tuple(rows),
        ("Both sides share this machine's cores. Memory is the process's own, workers' included.",),
    )


def _shared_out(asked: PsiAsked, progress: Progress) -> ResultTable:
    """One side's heaviest message with 1, 2, 4 ... and so many worker processes, by the clock."""
    with ExitStack() as stack:
        variants = dict[int, Callable[[], float]]()
        for count in doubled(asked.workers):
            progress(f"a set-up with {count} workers")
            cores = stack.enter_context(
                closing(cores_for(count, releases_gil=False, preload=["vfl.crypto.curve25519"]))
            )
            set_up(_WARM_UP, cores)
            variants[count] = lambda cores=cores: set_up(asked.ids, cores)  # type: ignore[misc]
        found = {count: Spread.of(runs) for count, runs in in_turns(variants, asked.repetitions).items()}
    return ResultTable(
        "workers",
        f"A server's set-up of {asked.ids:,} ids on several cores, by the clock",
        columns_of(workers="workers", seconds="s", rate="ids/s", gain="times one"),
        tuple(
            {
                "workers": count,
                "seconds": seconds,
                "rate": asked.ids / seconds.median,
                "gain": found[1].median / seconds.median,
            }
            for count, seconds in found.items()
        ),
        ("Workers are processes, and are there before the clock.",),
    )
