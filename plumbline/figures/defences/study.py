"""``plumbline figures defences``: every defence against every attack, its cost, and the papers' figures, redrawn."""

import logging
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from plumbline.figures.defences.page import stored_sections, write_defences
from plumbline.figures.page.section import Section

# Modules are imported when their section runs: some need torch.
SECTIONS: dict[str, str] = {
    "matrix": "plumbline.figures.defences.matrix:matrix_section",
    "cost": "plumbline.figures.defences.cost:cost_section",
    "noise": "plumbline.figures.defences.noise:noise_section",
    "canaries": "plumbline.figures.defences.canaries:canaries_section",
    "transform": "plumbline.figures.defences.transform:transform_section",
    "scores": "plumbline.figures.defences.scores:scores_section",
}
# About how long each takes beside the others, for the time that is left.
_SHARES = {"matrix": 15.0, "cost": 2.0, "noise": 2.0, "canaries": 1.0, "transform": 1.0, "scores": 4.0}

_VERSIONS = ("plumbline", "numpy", "scipy", "scikit-learn", "pymanopt", "torch", "opacus")


def run_defences(
    folder: Path,
    data_dir: Path | None,
    *,
    seed: int = 0,
    quick: bool = False,
    sections: Sequence[str] | None = None,
    console: Console,
) -> Path:
    """Run the sections, write them into ``folder`` and return the path of ``defences.html``.

    Written, for each section NAME: ``defences-NAME.parquet``, one row per measurement, and ``defences-NAME-PLOT.svg``.
        For
    all of them together: ``defences.json`` (settings, summaries, notes) and ``defences.html``, which keep the other
        sections of earlier runs. The same arguments give the same files, but for times and for keys of live
        federations.

    Args:
        folder: for the files.
        data_dir: of the raw files.
        seed: of everything that is simulated.
        quick: small samples and few repetitions, to see that everything works.
        sections: names; all by default.
        console: for progress, and the time that is left.

    Raises:
        ValueError: for a section that isn't known, and as ``stored_sections``.
    """
    chosen = list(dict.fromkeys(SECTIONS if sections is None else sections))
    if not chosen:
        raise ValueError(f"No section was chosen: choose from {', '.join(SECTIONS)}.")
    for name in chosen:
        if name not in SECTIONS:
            raise ValueError(f"The evaluation has no section {name!r}: choose from {', '.join(SECTIONS)}.")
    stored_sections(folder)  # a folder that can't be used is refused before anything is measured
    with _progress(console) as progress, _without_chatter():
        bar = progress.add_task("", total=sum(_SHARES[name] for name in chosen))
        for number, name in enumerate(chosen):
            behind = sum(_SHARES[one] for one in chosen[:number])
            progress.update(bar, description=name, completed=behind)
            start = time.perf_counter()

            def done(share: float, behind: float = behind, name: str = name) -> None:
                progress.update(bar, completed=behind + share * _SHARES[name])

            section = _function(name)(data_dir, seed=seed, quick=quick, done=done)
            made = datetime.now().isoformat(" ", "minutes")
            settings = {"seed": seed, "quick": quick, "made": made, "versions": _versions()}
            # Written each time: what is done stays when a later section fails or is stopped.
            page = write_defences(folder, {name: section}, settings)
            console.print(f"{name}: {time.perf_counter() - start:.0f} s", highlight=False)
            if name == "matrix":
                from plumbline.figures.defences.matrix_page import print_matrix

                print_matrix(console, section.summary)
    console.print(f"Report: {page}", highlight=False)
    return page


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Distorted equations often have no solution; that attacks then take longer is not worth a line each time."""
    logger = logging.getLogger("attacks")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _function(name: str) -> Callable[..., Section]:
    module, _, attribute = SECTIONS[name].partition(":")
    function: Callable[..., Section] = getattr(import_module(module), attribute)
    return function


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
