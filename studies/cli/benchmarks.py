"""``plumbline bench``: speed against other implementations, and against what can be counted."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plumbline.cli.output import MENDABLE, AsJson, console_errors, console_out, plain_errors, print_json

if TYPE_CHECKING:
    from studies.speed.estimate import Estimate
    from studies.speed.result import Result

app = typer.Typer(invoke_without_command=True)

Repetitions = Annotated[int, typer.Option(min=1, help="How often, in turns; medians are shown.")]
Out = Annotated[Path | None, typer.Option(help="Write the result into this folder as well, as SUBJECT.json.")]


@app.callback()
def bench(
    context: typer.Context,
    sizes: Annotated[
        tuple[int, int] | None,
        typer.Option("--estimate", metavar="ROWS COLUMNS", help="How long a federation of such tables will take here."),
    ] = None,
    one_hot: Annotated[float, typer.Option(min=0, max=1, help="With --estimate: share of 0/1 columns.")] = 0.0,
    byte: Annotated[float, typer.Option(min=0, max=1, help="With --estimate: share of columns of 0 to 255.")] = 0.0,
    parties: Annotated[int, typer.Option(min=2, max=16, help="With --estimate: that share the columns.")] = 2,
    classes: Annotated[int, typer.Option(min=2, help="With --estimate: of the labels.")] = 2,
    batch: Annotated[int, typer.Option(min=0, help="With --estimate: rows per batch; 0: as a session takes.")] = 0,
    epochs: Annotated[int, typer.Option(min=0, help="With --estimate: of the training; 0: as the table asks.")] = 0,
    key_bits: Annotated[int, typer.Option(help="With --estimate: size of the moduli.")] = 2048,
    kernel: Annotated[str, typer.Option(help="With --estimate: auto, native or portable.")] = "auto",
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="With --estimate: of each party; default: all cores.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure speed against other implementations, in one run, or estimate what a federation will take here.

    Example: plumbline bench --estimate 30000 24 --one-hot 0.5
    """
    if context.invoked_subcommand is not None:
        if sizes is not None:
            raise typer.BadParameter(f"--estimate measures by itself: leave out {context.invoked_subcommand}.")
        return
    if sizes is None:
        console_out.print(context.get_help())
        raise typer.Exit(MENDABLE)
    from studies.speed.estimate import EstimateAsked, estimate

    with plain_errors():
        asked = EstimateAsked(*sizes, one_hot, byte, parties, classes, batch, epochs, key_bits, kernel, workers)
        found = estimate(asked)
        if as_json:
            print_json(asdict(found))
        else:
            _print_estimate(found)


@app.command()
def he(
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", metavar="KIND:NUMBER", help="Columns of one exchange; KIND: dense, byte, one-hot."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 256,
    key_bits: Annotated[int, typer.Option(help="Size of the modulus.")] = 2048,
    repetitions: Repetitions = 3,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Measure 1, 2, 4 ... and so many workers too.")] = 0,
    scaling: Annotated[bool, typer.Option("--scaling", help="Measure how a product grows too.")] = False,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """One direction of Protocol 1 under Paillier: this project against phe and, where installed, HEU.

    Example: plumbline bench he --columns one-hot:100 --repetitions 5
    """
    from studies.speed.exchange.he_subject import ExchangesAsked, measure_exchanges, parse_exchanges

    with plain_errors():
        exchanges = {"exchanges": parse_exchanges(columns)} if columns else {}
        asked = ExchangesAsked(
            batch=batch, key_bits=key_bits, repetitions=repetitions, workers=workers, scaling=scaling, **exchanges
        )
        _show(measure_exchanges(asked, _say), out, as_json=as_json)


@app.command()
def shared(
    columns: Annotated[list[int] | None, typer.Option(min=1, help="Columns of one exchange; default: 12, 100.")] = None,
    batch: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 256,
    key_bits: Annotated[int, typer.Option(help="Size of the modulus.")] = 2048,
    repetitions: Repetitions = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """One direction of a step of training on shared weights, beside one of Protocol 1.

    Example: plumbline bench shared --columns 30 --repetitions 5
    """
    from studies.speed.exchange.shared_subject import SharingAsked, measure_sharing

    with plain_errors():
        asked = SharingAsked(batch=batch, key_bits=key_bits, repetitions=repetitions).with_columns(columns)
        _show(measure_sharing(asked, _say), out, as_json=as_json)


@app.command()
def network(
    columns: Annotated[list[int] | None, typer.Option(min=1, help="Columns of each party; default: 12, 100.")] = None,
    hidden: Annotated[int, typer.Option(min=1, max=1024, help="Units of the first layer.")] = 16,
    batch: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 256,
    key_bits: Annotated[int, typer.Option(help="Size of the modulus.")] = 2048,
    repetitions: Repetitions = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A step of a network's training on each encrypted rung, beside one of a linear model under Protocol 1.

    Example: plumbline bench network --columns 30 --hidden 8
    """
    from studies.speed.federations.network_subject import NetworksAsked, measure_networks

    with plain_errors():
        asked = NetworksAsked(hidden=hidden, batch=batch, key_bits=key_bits, repetitions=repetitions)
        _show(measure_networks(asked.with_columns(columns), _say), out, as_json=as_json)


@app.command()
def trees(
    rows: Annotated[int, typer.Option(min=100, help="Of the table.")] = 41_188,
    columns: Annotated[int, typer.Option(min=1, help="Of the passive party.")] = 10,
    depth: Annotated[int, typer.Option(min=3, max=6, help="Of the tree.")] = 5,
    bins: Annotated[int, typer.Option(min=2, max=255, help="Of a column.")] = 32,
    key_bits: Annotated[int, typer.Option(help="Size of the modulus.")] = 2048,
    scaling: Annotated[bool, typer.Option("--scaling", help="Measure how a tree grows with rows and columns.")] = False,
    repetitions: Repetitions = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A boosted tree under ciphertexts, beside plain trees of this project, XGBoost and scikit-learn.

    Example: plumbline bench trees --rows 5000 --columns 6
    """
    from studies.speed.exchange.trees_subject import TreesAsked, measure_trees

    with plain_errors():
        asked = TreesAsked(rows, columns, depth, bins, key_bits, repetitions, scaling)
        _show(measure_trees(asked, _say), out, as_json=as_json)


@app.command()
def psi(
    ids: Annotated[int, typer.Option(min=2, help="Ids on each side, message by message.")] = 50_000,
    whole: Annotated[
        list[int] | None, typer.Option(min=2, help="Ids on each side of a whole alignment in two processes.")
    ] = None,
    repetitions: Repetitions = 3,
    workers: Annotated[int, typer.Option(min=0, max=256, help="Measure 1, 2, 4 ... and so many workers too.")] = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Aligning two tables: each side's time and memory, beside openmined-psi where it is installed.

    Example: plumbline bench psi --ids 20000 --whole 1000000
    """
    from studies.speed.alignment.psi_subject import PsiAsked, measure_psi

    with plain_errors():
        asked = PsiAsked(
            ids=ids, repetitions=repetitions, workers=workers, **({"whole": tuple(whole)} if whole else {})
        )
        _show(measure_psi(asked, _say), out, as_json=as_json)


@app.command()
def federation(
    batch: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 256,
    epochs: Annotated[int, typer.Option(min=2, help="Epochs of a training; the first one warms up.")] = 3,
    key_bits: Annotated[int, typer.Option(help="Size of the moduli.")] = 2048,
    repetitions: Repetitions = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """A step of a federation of three processes over mTLS, beside its own cryptography by itself.

    Example: plumbline bench federation --epochs 5
    """
    from studies.speed.federations.step_subject import StepsAsked, measure_steps

    with plain_errors():
        asked = StepsAsked(batch=batch, epochs=epochs, key_bits=key_bits, repetitions=repetitions)
        _show(measure_steps(asked, _say), out, as_json=as_json)


@app.command()
def predict(
    records: Annotated[int, typer.Option(min=100, help="Of one request in bulk.")] = 100_000,
    columns: Annotated[int, typer.Option(min=1, help="Columns of each party.")] = 10,
    rate: Annotated[int, typer.Option(min=1, max=2_000, help="Requests of one record a second.")] = 500,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long these keep coming.")] = 5.0,
    repetitions: Repetitions = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Scores from three processes: records a second in bulk, and one record's p50 and p99.

    Example: plumbline bench predict --records 20000 --rate 100
    """
    from studies.speed.federations.serving_subject import ServingAsked, measure_serving

    with plain_errors():
        asked = ServingAsked(records=records, columns=columns, repetitions=repetitions, rate=rate, seconds=seconds)
        _show(measure_serving(asked, _say), out, as_json=as_json)


@app.command()
def attacks(
    names: Annotated[list[str] | None, typer.Argument(help="Attacks on predictions; default: all.")] = None,
    records: Annotated[int, typer.Option(min=10, help="Attacked predictions.")] = 1_000,
    judged: Annotated[int, typer.Option(min=20, help="Records of the runs that are judged.")] = 8_000,
    repetitions: Repetitions = 3,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Every attack on predictions of a standard table, and judging runs of many attacks.

    Example: plumbline bench attacks rcc1 posterior --records 500
    """
    from studies.speed.attacking.attack_subject import AttacksAsked, measure_attacks

    with plain_errors():
        asked = AttacksAsked(records=records, names=tuple(names or ()), repetitions=repetitions).with_judged(judged)
        _show(measure_attacks(asked, _say), out, as_json=as_json)


def _print_estimate(found: "Estimate") -> None:
    console_out.print(f"{found.rows:,} rows, {found.columns:,} columns; {found.kernel}, {found.cores} cores")
    for name, what in (
        ("alignment", ""),
        ("step", f"{found.batch:,} rows"),
        ("epoch", f"{found.steps:,} steps"),
        ("training", "all epochs, and keys"),
        ("prediction", "all rows, in bulk"),
    ):
        console_out.print(f"  {name:<12}{_seconds(getattr(found, name)):>12}  {what}".rstrip())


def _seconds(seconds: float) -> str:
    from plumbline.telling.numbers import seconds as duration

    return duration(seconds) if seconds >= 1 else f"{1e3 * seconds:.0f} ms"


def _say(what: str) -> None:
    """Tell who waits what is being measured; documents stay clean."""
    console_errors.print(f"measuring {what} ...")


def _show(result: "Result", out: Path | None, *, as_json: bool) -> None:
    from studies.speed.result import print_result, write_result

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_result(result, out / f"{result.subject}.json")
    if as_json:
        print_json(result.as_json())
    else:
        print_result(result, console_out)
