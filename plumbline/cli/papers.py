"""``plumbline figures``: the papers' experiments, redrawn by one command each."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from plumbline.cli.output import plain_errors

app = typer.Typer(no_args_is_help=True, help="Redraw a paper's experiments by one command.")


@app.callback()
def _figures() -> None:
    """The papers' experiments, beside what the papers state."""


@app.command()
def hu(
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions; mean and standard error are drawn.")] = 5,
    datasets: Annotated[list[str] | None, typer.Option(help="mnist01 or credit; default both.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of raw files; default: PLUMBLINE_DATA_DIR or data.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("runs/figures-hu"),
) -> None:
    """Hu, section 7: label attack, accuracy and norm by epoch, on MNIST 0/1 and credit (SIMULATION, plain float64).

    Example: plumbline figures hu --datasets credit --seeds 2
    """
    from plumbline.figures.hu.experiments import HU_EXPERIMENTS
    from plumbline.figures.hu.study import run_hu
    from services.common.settings import load_settings

    with plain_errors():
        folder = data_dir or load_settings().data_dir
        run_hu(out, folder, seeds=seeds, datasets=tuple(datasets or HU_EXPERIMENTS), console=Console())


@app.command()
def defences(
    section: Annotated[
        list[str] | None, typer.Option(help="matrix, cost, noise, canaries, transform or scores; default all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small samples: to see that it works, not to quote.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of models, splits and simulated noise.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of raw files; default: PLUMBLINE_DATA_DIR or data.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where to write.")] = Path("runs/figures-defences"),
) -> None:
    """Every defence against every attack, with what it costs, and the papers' figures of defences.

    Example: plumbline figures defences --section matrix --section cost --quick
    """
    from plumbline.figures.defences.study import run_defences
    from services.common.settings import load_settings

    with plain_errors():
        folder = data_dir or load_settings().data_dir
        run_defences(out, folder, seed=seed, quick=quick, sections=section, console=Console())
