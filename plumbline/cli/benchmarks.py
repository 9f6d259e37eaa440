"""``plumbline bench``: speed against other implementations."""

from dataclasses import asdict
from typing import Annotated

import typer

from plumbline.cli.output import AsJson, plain_errors, print_json

app = typer.Typer(no_args_is_help=True, help="Measure speed against other implementations, in one run.")


@app.callback()
def _bench() -> None:
    """Benchmarks."""


@app.command()
def he(
    batch: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 256,
    features: Annotated[list[int] | None, typer.Option(min=1, help="Feature counts; default 392 and 12.")] = None,
    key_bits: Annotated[int, typer.Option(help="Size of the modulus.")] = 2048,
    repetitions: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; the median is shown.")] = 3,
    as_json: AsJson = False,
) -> None:
    """One direction of Protocol 1 under Paillier: this project against phe and, where installed, HEU.

    Example: plumbline bench he --features 12 --repetitions 5
    """
    from plumbline.bench import print_table, run

    with plain_errors():
        results = run(tuple(features or (392, 12)), batch, key_bits, repetitions)
        if as_json:
            print_json([asdict(result) for result in results])
        else:
            print_table(results)
