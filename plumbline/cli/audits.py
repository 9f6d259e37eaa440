"""``plumbline audit``: a request's options."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from attacks.registry import names as attack_names
from defences.registry import names as defence_names
from plumbline.cli.output import plain_errors
from services.common.settings import Settings
from vfl.data.columns import ENCODINGS

_ATTACKS, _DEFENCES = ", ".join(attack_names()), ", ".join(defence_names())


def _meaning(name: str) -> str:
    """What a setting says of itself."""
    return str(Settings.model_fields[name].description)


def audit(
    data: Annotated[str, typer.Option(help="A registered data set to deal out; see `plumbline datasets`.")] = "",
    active: Annotated[str, typer.Option(help="Or: the active party's table (.csv, .parquet or a database URL).")] = "",
    passive: Annotated[list[str] | None, typer.Option(help="A passive party's table; repeat for more.")] = None,
    label: Annotated[str, typer.Option(help="Label column of the active party's table.")] = "",
    id_column: Annotated[str, typer.Option("--id", help="Id column of all tables.")] = "id",
    columns: Annotated[str, typer.Option(help="NAME,NAME of the columns to use, also patterns such as c*.")] = "",
    drop: Annotated[str, typer.Option(help="NAME,NAME of columns to leave out, also patterns.")] = "",
    encode: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=KIND", help=f"What a column becomes: {', '.join(ENCODINGS)}; repeat for more."),
    ] = None,
    active_columns: Annotated[
        str, typer.Option(help="With --data FILE: the active party's columns, also patterns; the rest is passive.")
    ] = "",
    parties: Annotated[int, typer.Option(min=2, help="Parties that a registered data set is dealt out to.")] = 2,
    attacks: Annotated[str, typer.Option(help=f"NAME,NAME or none; default: all that apply. Known: {_ATTACKS}.")] = "",
    defences: Annotated[str, typer.Option(help=f"NAME,NAME, in the order to apply them. Known: {_DEFENCES}.")] = "",
    adversary: Annotated[str, typer.Option(help="Who mounts what either side can: active or passive.")] = "active",
    black_box: Annotated[bool, typer.Option("--black-box", help="Passive parties disclose no parameters.")] = False,
    auxiliary: Annotated[
        int, typer.Option(min=0, help="Complete records that the adversary has, neither trained on nor judged.")
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
    epochs: Annotated[int | None, typer.Option(help=_meaning("epochs"))] = None,
    batch_size: Annotated[int | None, typer.Option(help=_meaning("batch_size"))] = None,
    learning_rate: Annotated[float | None, typer.Option(help=_meaning("learning_rate"))] = None,
    cipher: Annotated[
        Literal["auto", "paillier", "plain"],
        typer.Option(help="paillier, plain (INSECURE: no encryption), or auto: paillier where it is quick."),
    ] = "auto",
    packing: Annotated[bool | None, typer.Option(help="Several values per plaintext, or one as in the paper.")] = None,
    seed: Annotated[int | None, typer.Option(help="Batches, row split and initial weights.")] = None,
    assume_yes: Annotated[bool, typer.Option("--yes", help="Start without asking, however long it takes.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done and how long it takes.")] = False,
    try_defences: Annotated[
        bool, typer.Option("--try-defences", help="Run the candidate defences too: which is the cheapest that holds?")
    ] = False,
    fail_above: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit with 3 when a column's federation's part is above.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="The verdict and the report's path only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Bytes by message and times as well.")] = False,
) -> None:
    """Run a federation of local processes (mTLS, real Paillier) end to end and report on it.

    Example: plumbline audit --data breast_cancer --parties 3 --epochs 10
    Example: plumbline audit --data satellite --attacks half_star,rcc2 --defences score_scheme1,response_truncation
    Example: plumbline audit --active bank.csv --passive fintech.csv --label default --id client
    """
    from plumbline.audit.request import AuditRequest
    from plumbline.audit.run import prepare, run_audit

    given = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "packing": packing,
        "seed": seed,
    }
    with plain_errors():
        request = AuditRequest(
            data=data,
            active=active,
            passive=tuple(passive or ()),
            label=label,
            id_column=id_column,
            columns=_names(columns),
            drop=_names(drop),
            encode=_encodings(encode or []),
            active_columns=_names(active_columns),
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
            cipher=cipher,
            assume_yes=assume_yes,
            dry_run=dry_run,
            try_defences=try_defences,
            fail_above=fail_above,
            verbosity=_verbosity(quiet, verbose),
            settings={**_pairs(setting or []), **{key: value for key, value in given.items() if value is not None}},
        )
        if request.dry_run:
            prepare(request, Console())
        else:
            run_audit(request, Console())


def _attack_names(text: str) -> tuple[str, ...]:
    """``all``, also unsaid, stands for every attack that can apply; ``none`` for none."""
    return {"": ("all",), "none": ()}.get(text, _names(text))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _encodings(entries: list[str]) -> dict[str, str]:
    """``age=number``, ``job=onehot``: a column of any name becomes one of the kinds there are."""
    pairs = [entry.rpartition("=") for text in entries for entry in text.split(",") if entry.strip()]
    for column, _, kind in pairs:
        if not column or kind not in ENCODINGS:
            raise ValueError(
                f"--encode takes COLUMN=KIND, where KIND is {' or '.join(ENCODINGS)}, got {column}={kind}."
            )
    return {column.strip(): kind for column, _, kind in pairs}


def _verbosity(quiet: bool, verbose: bool) -> Literal["quiet", "normal", "verbose"]:
    if quiet and verbose:
        raise ValueError("--quiet contradicts --verbose: give one of them.")
    return "quiet" if quiet else "verbose" if verbose else "normal"


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
