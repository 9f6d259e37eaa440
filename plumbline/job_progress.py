"""A training job as whoever waits for it sees it: a bar on a terminal, a line per stage and epoch elsewhere."""

import math

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from protos.v1 import active_pb2
from services.common.words import escaped

_MOST_SHOWN = 40


def job_progress(console: Console) -> Progress:
    """Make the progress bar of a training job."""
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


class JobWatcher:
    """Shows a job's events as a progress bar."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID = progress.add_task("starting", total=None, loss="")

    def __call__(self, event: active_pb2.JobEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "stage":
            self._progress.update(self._task, description=_stage(event))
        elif kind == "progress":
            done, planned = event.progress.steps_done, event.progress.steps_planned
            self._progress.update(self._task, completed=done, total=planned)
        elif kind == "epoch" and (loss := _loss(event.epoch)):
            self._progress.update(self._task, loss=loss)


class JobLines:
    """Prints a line for each stage and epoch of a job: for logs and pipes, where a bar can't move."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, event: active_pb2.JobEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "stage":
            self._console.print(f"{_stage(event)} ...")
        elif kind == "epoch":
            facts = [f"{event.epoch.seconds:.1f} s", *filter(None, [_loss(event.epoch)])]
            self._console.print(f"epoch {event.epoch.epoch + 1}: {', '.join(facts)}")


def _stage(event: active_pb2.JobEvent) -> str:
    """The stage's name: the active party's words, harmless to a terminal."""
    return escape(escaped(event.stage, _MOST_SHOWN))


def _loss(epoch: active_pb2.EpochResult) -> str:
    """The validation loss in words; empty without validation rows."""
    return "" if math.isnan(epoch.validation_loss) else f"validation loss {epoch.validation_loss:.4f}"
