"""The command's verbs. Each imports what it needs when it runs: a service starts without the auditor's tools."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.markup import escape

from attacks.registry import names as attack_names
from defences.registry import names as defence_names
from services.common.identity import Role
from services.common.settings import Settings

app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode="rich", pretty_exceptions_enable=False)
_out = Console(soft_wrap=True, highlight=False, markup=False)
_ATTACKS, _DEFENCES = ", ".join(attack_names()), ", ".join(defence_names())
_errors = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        _out.print(f"plumbline {version('plumbline')}")
        raise typer.Exit


@app.callback()
def plumbline(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run a real vertical federation, attack it, defend it, and report what leaked."""


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Ends the command with one sentence for errors that the user can mend, and status 2."""
    from plumbline.federation import FederationFailed
    from plumbline.processes import ProcessFailed
    from services.common.errors import FederationError

    try:
        yield
    except (ValueError, OSError, FederationError, FederationFailed, ProcessFailed) as error:
        words = _system_words(error) if isinstance(error, OSError) else error
        _errors.print(f"plumbline: {words}", style="red")
        raise typer.Exit(2) from error


def _system_words(error: OSError) -> str:
    """What the operating system says, and what to do about it."""
    if error.filename is None or error.strerror is None:
        return str(error)
    return f"Cannot use {error.filename} ({error.strerror}): check the path, or choose a place that you can write to."


def _settings_help() -> str:
    lines = ["Settings are environment variables:"]
    for name, field in Settings.model_fields.items():
        facts = ["|".join(get_args(field.annotation))] if get_origin(field.annotation) is Literal else []
        if "default:" not in str(field.description):
            facts.append(f"default: {_default_words(field)}")
        shown = f" [{'; '.join(facts)}]" if facts else ""
        lines.append(f"PLUMBLINE_{name.upper()}{shown}: {field.description}")
    # A blank line between paragraphs keeps each setting on a line of its own; what isn't escaped is taken for markup.
    return escape("\n\n".join(lines))


def _default_words(field: FieldInfo) -> str:
    """A setting's default as one would write it into the environment."""
    default = field.get_default(call_default_factory=True)
    if isinstance(default, bool):
        return str(default).lower()
    return str(default) if default or default == 0 else "unset"


@app.command(epilog=_settings_help())
def serve(role: Annotated[Literal["coordinator", "active", "passive"], typer.Argument(help="What to run.")]) -> None:
    """Run one service of a federation until it is stopped.

    Example: PLUMBLINE_DATA=clients.csv PLUMBLINE_ID_COLUMN=client PLUMBLINE_CERTS=certs
    PLUMBLINE_PEERS=coordinator=10.0.0.1:50051,active=10.0.0.2:50051 plumbline serve passive
    """
    from services.common.bootstrap import configure_log
    from services.common.settings import check_role, load_settings

    with _plain_errors():
        settings = load_settings()
        check_role(settings, Role(role))
        configure_log(settings, settings.name or role)
        _runner(Role(role))(settings)


def _runner(role: Role) -> Callable[[Settings], None]:
    """The service's main function; imported late, so that a coordinator doesn't load a party's libraries."""
    if role is Role.COORDINATOR:
        from services.coordinator import server as coordinator

        return coordinator.run
    if role is Role.ACTIVE:
        from services.active import server as active

        return active.run
    from services.passive import server as passive

    return passive.run


@app.command()
def certs(
    out: Annotated[Path, typer.Option(help="Folder for the authority, certificates and keys.")] = Path("certs"),
    passive: Annotated[list[str] | None, typer.Option(help="Name of a passive party; repeat for more.")] = None,
    days: Annotated[int, typer.Option(min=1, help="Validity.")] = 365,
    if_missing: Annotated[bool, typer.Option("--if-missing", help="Keep those that are there.")] = False,
) -> None:
    """Make a certificate authority and one certificate per role: coordinator, active, passive parties, operator.

    Example: plumbline certs --out certs --passive clinic-a --passive clinic-b
    """
    from services.common.certificates import AUTHORITY, create_federation_certificates
    from services.common.identity import Identity, role_of

    names = [Role.COORDINATOR, Role.ACTIVE, *(passive or [Role.PASSIVE]), Role.OPERATOR]
    with _plain_errors():
        if if_missing and (out / f"{AUTHORITY}.crt").exists():
            _out.print(f"{out} has certificates already.")
            return
        create_federation_certificates(out, [Identity(role_of(name), str(name)) for name in names], days=days)
        _out.print(f"Made an authority and certificates for {', '.join(names)} in {out}, valid for {days} days.")
        _out.print(f"Give each party {AUTHORITY}.crt and its own .crt and .key; keep {AUTHORITY}.key offline.")


@app.command()
def audit(
    data: Annotated[str, typer.Option(help="A registered data set to deal out; see `plumbline datasets`.")] = "",
    active: Annotated[str, typer.Option(help="Or: the active party's table (.csv, .parquet or a database URL).")] = "",
    passive: Annotated[list[str] | None, typer.Option(help="A passive party's table; repeat for more.")] = None,
    label: Annotated[str, typer.Option(help="Label column of the active party's table.")] = "",
    id_column: Annotated[str, typer.Option("--id", help="Id column of all tables.")] = "id",
    parties: Annotated[int, typer.Option(min=2, help="Parties that a registered data set is dealt out to.")] = 2,
    attacks: Annotated[str, typer.Option(help=f"NAME,NAME; all: every one on predictions. Known: {_ATTACKS}.")] = "",
    defences: Annotated[str, typer.Option(help=f"NAME,NAME, in the order to apply them. Known: {_DEFENCES}.")] = "",
    adversary: Annotated[str, typer.Option(help="Who mounts what either side can: active or passive.")] = "active",
    black_box: Annotated[bool, typer.Option("--black-box", help="Passive parties disclose no parameters.")] = False,
    auxiliary: Annotated[
        int, typer.Option(min=0, help="Complete training records that the adversary is given (SIMULATION).")
    ] = 0,
    hidden: Annotated[
        str | None, typer.Option(help="Install a network trained in the lab, such as 8,8 (SIMULATION); '' is linear.")
    ] = None,
    activation: Annotated[str, typer.Option(help="Of its hidden layers: sigmoid, tanh or relu.")] = "sigmoid",
    name: Annotated[str, typer.Option(help="Name of the run; default: the data set's.")] = "",
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = Path("runs"),
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting of `plumbline serve --help`, for all parties; repeat for more.",
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the training rows.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Constant step size.")] = None,
    cipher: Annotated[str | None, typer.Option(help="paillier, or plain (INSECURE: no encryption).")] = None,
    packing: Annotated[bool | None, typer.Option(help="Several values per plaintext, or one as in the paper.")] = None,
    seed: Annotated[int | None, typer.Option(help="Batches, row split and initial weights.")] = None,
) -> None:
    """Run a federation of local processes (mTLS, real Paillier) end to end and report on it.

    Example: plumbline audit --data breast_cancer --parties 3 --epochs 10
    Example: plumbline audit --data satellite --attacks half_star,rcc2 --defences score_scheme1,response_truncation
    Example: plumbline audit --active bank.csv --passive fintech.csv --label default --id client
    """
    from plumbline.audit import AuditRequest, run_audit

    given = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "cipher": cipher,
        "packing": packing,
        "seed": seed,
    }
    with _plain_errors():
        request = AuditRequest(
            data=data,
            active=active,
            passive=tuple(passive or ()),
            label=label,
            id_column=id_column,
            parties=parties,
            attacks=_attack_names(attacks),
            defences=_names(defences),
            adversary=adversary,
            black_box=black_box,
            auxiliary=auxiliary,
            hidden=None if hidden is None else _layer_sizes(hidden),
            activation=activation,
            name=name,
            runs=runs,
            settings={**_pairs(setting or []), **{key: value for key, value in given.items() if value is not None}},
        )
        run_audit(request, Console())


def _attack_names(text: str) -> tuple[str, ...]:
    import attacks

    if text == "all":
        return tuple(name for name in attacks.names() if attacks.load(name).spec.phase == "prediction")
    return _names(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _layer_sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(",") if size.strip())
    except ValueError:
        raise ValueError(f"--hidden takes layer sizes such as 8,8, got {text!r}.") from None


def _pairs(settings: list[str]) -> dict[str, Any]:
    pairs = dict(entry.partition("=")[::2] for entry in settings)
    if unknown := set(pairs) - set(Settings.model_fields):
        raise ValueError(f"Unknown setting {', '.join(sorted(unknown))}. See `plumbline serve --help` for the list.")
    return pairs


@app.command()
def predict(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Record ids; none: from standard input, one per line.")
    ] = None,
    address: Annotated[str, typer.Option(help="The active party, HOST:PORT.")] = "127.0.0.1:50051",
    certs: Annotated[Path, typer.Option(help="Folder of ca.crt, operator.crt and operator.key.")] = Path("certs"),
) -> None:
    """Ask a running federation for confidence scores, as CSV.

    Example: plumbline predict r000001 r000005 --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    with _plain_errors(), Federation.connect(address, certs) as federation:
        wanted = ids or [line.strip() for line in sys.stdin if line.strip()]
        federation.predict(wanted).to_csv(sys.stdout)


@app.command()
def status(
    address: Annotated[str, typer.Option(help="The active party, HOST:PORT.")] = "127.0.0.1:50051",
    certs: Annotated[Path, typer.Option(help="Folder of ca.crt, operator.crt and operator.key.")] = Path("certs"),
) -> None:
    """Show what a running federation is doing.

    Example: plumbline status --address localhost:50051 --certs certs
    """
    from plumbline.federation import Federation

    with _plain_errors(), Federation.connect(address, certs) as federation:
        reply = federation.status()
        _out.print(reply.stage)
        for line in (*([reply.failure] if reply.failure else []), *reply.warnings):
            _errors.print(line)


datasets = typer.Typer(
    no_args_is_help=False, invoke_without_command=True, help="List the registered data sets, or fetch one."
)
app.add_typer(datasets, name="datasets")


@datasets.callback()
def list_datasets(
    context: typer.Context,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of raw files; default: PLUMBLINE_DATA_DIR or data.")
    ] = None,
) -> None:
    """List the registered data sets.

    Example: plumbline datasets
    Example: plumbline datasets fetch bank
    """
    if context.invoked_subcommand is not None:
        return
    from rich.table import Table

    from services.common.settings import load_settings
    from vfl.data import DATASETS, missing_files

    with _plain_errors():
        folder = data_dir or load_settings().data_dir
        table = Table(title="Data sets", caption="Raw files are read from PLUMBLINE_DATA_DIR.")
        for heading in ("name", "rows", "features", "classes", "here", "simulation"):
            table.add_column(heading, justify="right" if heading in ("rows", "features", "classes") else "left")
        for dataset in DATASETS.values():
            here = "fetch it" if missing_files(dataset.name, folder) else "yes"
            table.add_row(
                dataset.name,
                f"{dataset.rows:,}",
                str(dataset.features),
                str(dataset.classes),
                here,
                " ".join(dataset.simulation),
            )
        Console().print(table)


@datasets.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the data set.")],
    data_dir: Annotated[Path | None, typer.Option(help="Where to put it; default: PLUMBLINE_DATA_DIR or data.")] = None,
) -> None:
    """Download a data set's raw files from OpenML or UCI and check their sums.

    Example: plumbline datasets fetch bank --data-dir data
    """
    from rich.progress import DownloadColumn, Progress, TimeRemainingColumn

    from services.common.settings import load_settings
    from vfl.data import dataset
    from vfl.data import fetch as fetch_files

    with _plain_errors():
        if not dataset(name).files:
            _out.print(f"{name} comes with scikit-learn: there is nothing to fetch.")
            return
    with _plain_errors(), Progress(*Progress.get_default_columns()[:3], DownloadColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task(name, total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total)

        folder = data_dir or load_settings().data_dir
        fetch_files(name, folder, show)
        bar.console.print(f"{name} is in {folder}.")


figures = typer.Typer(no_args_is_help=True, help="Redraw a paper's experiments by one command.")
app.add_typer(figures, name="figures")


@figures.callback()
def _figures() -> None:
    """The papers' experiments, beside what the papers state."""


@figures.command()
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
    from plumbline.figures.hu import run_hu
    from plumbline.figures.hu_experiments import HU_EXPERIMENTS
    from services.common.settings import load_settings

    with _plain_errors():
        folder = data_dir or load_settings().data_dir
        run_hu(out, folder, seeds=seeds, datasets=tuple(datasets or HU_EXPERIMENTS), console=Console())


@figures.command()
def defences(
    section: Annotated[
        list[str] | None, typer.Option(help="matrix, cost, noise, transform, rotation or scores; default all.")
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
    from plumbline.figures.defences import run_defences
    from services.common.settings import load_settings

    with _plain_errors():
        folder = data_dir or load_settings().data_dir
        run_defences(out, folder, seed=seed, quick=quick, sections=section, console=Console())


bench = typer.Typer(no_args_is_help=True, help="Measure speed against other implementations, in one run.")
app.add_typer(bench, name="bench")


@bench.callback()
def _bench() -> None:
    """Benchmarks."""


@bench.command()
def he(
    batch: Annotated[int, typer.Option(min=1, help="Rows per batch.")] = 256,
    features: Annotated[list[int] | None, typer.Option(min=1, help="Feature counts; default 392 and 12.")] = None,
    key_bits: Annotated[int, typer.Option(help="Size of the modulus.")] = 2048,
    repetitions: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; the median is shown.")] = 3,
) -> None:
    """One direction of Protocol 1 under Paillier: this project against phe and, where installed, HEU.

    Example: plumbline bench he --features 12 --repetitions 5
    """
    from plumbline.bench import print_table, run

    with _plain_errors():
        print_table(run(tuple(features or (392, 12)), batch, key_bits, repetitions))
