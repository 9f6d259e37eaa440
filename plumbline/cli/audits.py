"""``plumbline audit``: a request's options, from the command line and from a file."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from plumbline.cli.completion import dataset_names, listed_attacks, listed_defences, setting_names
from plumbline.cli.output import ABOVE_THRESHOLD, MENDABLE, console_errors, plain_errors, print_json
from plumbline.training_terms import SETTINGS_AS_OPTIONS, with_terms
from services.common.setting_texts import listed, listed_labels
from services.common.settings import Settings
from vfl.data.cell_forms import ID_FORMS, LABEL_FORMS
from vfl.data.columns import ENCODINGS
from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    from plumbline.audit.configuration import AuditOptions

# An option in one of the help's panels.
_tables = partial(typer.Option, rich_help_panel="What to audit")
_plugins = partial(typer.Option, rich_help_panel="Attacks and defences")
_training = partial(typer.Option, rich_help_panel="Training")
_output = partial(typer.Option, rich_help_panel="Output")


@with_terms("cipher", metavars={int: "N", float: "RATE"}, rich_help_panel="Training")
def audit(
    context: typer.Context,
    active: Annotated[str, _tables(metavar="TABLE", help="The active party's table: a file or a database URL.")] = "",
    passive: Annotated[
        list[str] | None,
        _tables(metavar="TABLE", help="A passive party's table; repeat for more."),
    ] = None,
    label: Annotated[str, _tables(metavar="COLUMN", help="The active party's column of labels.")] = "",
    id_column: Annotated[str, _tables("--id", metavar="COLUMN", help="Column of the ids in all tables.")] = "id",
    data: Annotated[
        str,
        _tables(
            metavar="NAME",
            help="Or: a data set of `plumbline datasets`, dealt out; with --active-columns a file.",
            autocompletion=dataset_names,
        ),
    ] = "",
    parties: Annotated[int, _tables(metavar="N", min=2, help="Parties that --data is dealt out to.")] = 2,
    active_columns: Annotated[
        str,
        _tables(metavar="NAME,NAME", help="Of one table in --data: the active party's columns; the rest is passive."),
    ] = "",
    passive_columns: Annotated[
        list[str] | None,
        _tables(metavar="NAME,NAME", help="Of one table in --data: a passive party's columns; repeat for several."),
    ] = None,
    columns: Annotated[
        str,
        _tables(metavar="NAME,NAME", help="Use these columns only; c* is all with c."),
    ] = "",
    drop: Annotated[str, _tables(metavar="NAME,NAME", help="Leave these columns out.")] = "",
    public: Annotated[
        str, _tables(metavar="NAME,NAME", help="Columns of published figures: no secret, and known to any guess.")
    ] = "",
    sensitive: Annotated[
        str, _tables(metavar="NAME,NAME", help="Columns to protect first: they come first in the verdict.")
    ] = "",
    encode: Annotated[
        list[str] | None,
        _tables(metavar="COLUMN=KIND", help=f"Make a column {', '.join(ENCODINGS)}; repeat."),
    ] = None,
    missing: Annotated[
        str,
        _tables(metavar="VALUE,VALUE", help="What stands for no value: --missing=-9999, or age=-1 of one column."),
    ] = "",
    encoding: Annotated[
        str, _tables(metavar="NAME", help="Of text files, where it isn't found out; passive:gb18030 of one party's.")
    ] = "",
    sheet: Annotated[
        list[str] | None, _tables(metavar="NAME", help="Of workbooks; passive:NAME of one party's; repeat.")
    ] = None,
    unlabelled: Annotated[
        str, _tables(metavar="refuse|predict", help="Rows without a label: predict them, and train on the others.")
    ] = "refuse",
    ignore_in_labels: Annotated[
        str,
        _tables(metavar="NAME,NAME", help=f"Classes that differ by this alone are one: {', '.join(LABEL_FORMS)}."),
    ] = "",
    ignore_in_ids: Annotated[
        str,
        _tables(metavar="NAME,NAME", help=f"Ids that differ by this alone are one: {', '.join(ID_FORMS)}."),
    ] = "",
    attacks: Annotated[
        str,
        _plugins(
            metavar="NAME,NAME",
            help="Attacks, with options as in 'gia(init=half)', or none; else all that can apply.",
            autocompletion=listed_attacks,
        ),
    ] = "",
    defences: Annotated[
        str,
        _plugins(
            metavar="NAME,NAME",
            help="Defences, in the order to apply them. See `plumbline defences`.",
            autocompletion=listed_defences,
        ),
    ] = "",
    try_defences: Annotated[
        bool,
        _plugins("--try-defences", help="Try candidates: which is the cheapest that holds?"),
    ] = False,
    adversary: Annotated[
        str,
        _plugins(metavar="ROLE", help="Who mounts what either side can: active, passive or both."),
    ] = "both",
    black_box: Annotated[
        bool,
        _plugins("--black-box", help="Passive parties disclose no parameters."),
    ] = False,
    auxiliary: Annotated[
        int,
        _plugins(metavar="N", min=0, help="Complete records that the adversary has beforehand."),
    ] = 0,
    known_labels: Annotated[
        int,
        _plugins(metavar="N", min=0, help="Labels that passive parties' adversaries have beforehand."),
    ] = 0,
    most_forms: Annotated[
        float | None,
        _plugins(
            metavar="SHARE",
            min=0,
            max=1,
            help="Sessions add up: of a record's independent sums, the share that passive parties' owners let be told.",
        ),
    ] = None,
    cipher: Annotated[
        str,
        _training(metavar="NAME", help="paillier, plain (INSECURE), or auto: paillier where it is quick."),
    ] = "auto",
    packing: Annotated[bool | None, _training(help="Several values per plaintext, or one.")] = None,
    seed: Annotated[int | None, _training(metavar="N", help="Batches, row split, initial weights.")] = None,
    hidden: Annotated[
        str | None,
        _training(metavar="8,8", help="SIMULATION: install a network trained in the lab; '' is linear."),
    ] = None,
    activation: Annotated[str, _training(metavar="NAME", help="Of its layers: sigmoid, tanh or relu.")] = "sigmoid",
    setting: Annotated[
        list[str] | None,
        _training(
            "--set",
            metavar="NAME=VALUE",
            help="Any setting of `plumbline serve --help`, for all parties; repeat.",
            autocompletion=setting_names,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        _output(metavar="FILE", help="Read options from a file, such as a run's audit.toml."),
    ] = None,
    name: Annotated[str, _output(metavar="NAME", help="Name of the run; else the data set's.")] = "",
    runs: Annotated[Path, _output(metavar="FOLDER", help="Folder of all runs.")] = Path("runs"),
    dry_run: Annotated[
        bool,
        _output("--dry-run", help="Say what would be done, and how long it takes."),
    ] = False,
    assume_yes: Annotated[bool, _output("--yes", help="Start unasked, however long it takes.")] = False,
    fail_above: Annotated[
        float | None,
        _output(
            metavar="PART", min=0, max=1, help="Exit with 3 where more than this part leaks of a column, or of labels."
        ),
    ] = None,
    quiet: Annotated[bool, _output("--quiet", help="The verdict and the report's path only.")] = False,
    verbose: Annotated[bool, _output("--verbose", help="Bytes by message and times as well.")] = False,
    as_json: Annotated[
        bool,
        _output("--json", help="Print the results as one JSON document at the end."),
    ] = False,
    **terms: Any,
) -> None:
    """Run a federation of local processes, attack it, and report what leaked.

    Processes speak mutual TLS and train under real Paillier encryption. An option on the command line wins over the
    same one in --config. Every run's folder has an audit.toml that repeats it.

    Example: plumbline audit --active bank.csv --passive fintech.csv --label default --id client
    Example: plumbline audit --data breast_cancer --parties 3 --epochs 10
    Example: plumbline audit --data satellite --attacks half_star,rcc2 --defences score_scheme1,response_truncation
    Example: plumbline audit --config runs/latest.toml --fail-above .5 --quiet
    """
    # Every option by its name, before this function has names of its own.
    given = {option: value for option, value in {**locals(), **terms}.items() if _is_given(context, option)}
    with plain_errors(context=context):
        from plumbline.audit.configuration import AuditOptions, read_configuration
        from plumbline.audit.folder import AuditFolder
        from plumbline.audit.plan import plan_facts
        from plumbline.audit.run import prepare, run_audit

        asked = _on_the_command_line(given).over(read_configuration(config) if config else AuditOptions())
        request, wants_json = asked.request(), "json" in asked.said
        console = Console(stderr=wants_json)
        if request.output.dry_run:
            plan, _ = prepare(request, console)
            if wants_json:
                print_json(plan_facts(plan))
            return
        check_place(request.output.runs)
        run = AuditFolder(run_audit(request, console))
        results = json.loads(run.results.read_text())
        if wants_json:
            print_json({"run": str(run.path), "report": str(run.report), **results})
        check_threshold(request.output.fail_above, results)
        _check_trials(results["trials"])


def _is_given(context: typer.Context, option: str) -> bool:
    """Tell whether an option stands on the command line, rather than having its default."""
    source = context.get_parameter_source(option)
    return source is not None and not source.name.startswith("DEFAULT")


def _on_the_command_line(given: Mapping[str, Any]) -> AuditOptions:
    """List the options of the command line as a file would have them."""
    from plumbline.audit.configuration import asked_of

    options = {name: _READ.get(name, lambda value: value)(value) for name, value in given.items()}
    settings = _pairs(options.pop("setting", []))
    for name in SETTINGS_AS_OPTIONS:
        if name in options and name in settings:
            raise ValueError(f"--{name.replace('_', '-')} and --set {name}= say the same: give one of them.")
        if name in options:
            settings[name] = options.pop(name)
    options.pop("config", None)
    said = frozenset(word for word in ("quiet", "verbose") if options.pop(word, False))
    return asked_of(options, settings, said | ({"json"} if options.pop("as_json", False) else set()))


def encodings(entries: list[str]) -> dict[str, str]:
    """``age=number``, ``job=onehot``: a column of any name becomes one of the kinds there are."""
    pairs = [entry.rpartition("=") for text in entries for entry in text.split(",") if entry.strip()]
    for column, _, kind in pairs:
        if not column or kind not in ENCODINGS:
            meant = did_you_mean(kind, ENCODINGS)
            raise ValueError(
                f"--encode takes COLUMN=KIND with KIND one of {', '.join(ENCODINGS)}, got {kind!r}.{meant}"
            )
    return {column.strip(): kind for column, _, kind in pairs}


def _layer_sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in text.split(",") if size.strip())
    except ValueError:
        raise ValueError(f"--hidden takes layer sizes such as 8,8, got {text!r}.") from None


def _pairs(settings: list[str]) -> dict[str, Any]:
    pairs = dict(entry.partition("=")[::2] for entry in settings)
    for name in pairs:
        if name not in Settings.model_fields:
            hint = did_you_mean(name, Settings.model_fields) or " See `plumbline serve --help` for the list."
            raise ValueError(f"There is no setting {name!r}.{hint}")
    return pairs


# How the options of the command line are read that a request has in another form.
_READ: Mapping[str, Callable[[Any], Any]] = {
    "passive": tuple,
    "passive_columns": tuple,
    "sheet": tuple,
    **dict.fromkeys(
        (
            *("columns", "drop", "public", "sensitive", "active_columns", "defences"),
            *("ignore_in_labels", "ignore_in_ids", "missing", "encoding"),
        ),
        lambda text: tuple(listed(text)),
    ),
    "encode": encodings,
    "attacks": lambda text: tuple(listed_labels(text)),
    "hidden": _layer_sizes,
}


def check_place(folder: Path) -> None:
    """Refuse a folder that can't be written to before anything is calculated; raises OSError."""
    standing = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    if not standing.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    if not os.access(standing, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def _check_trials(trials: Sequence[Mapping[str, Any]]) -> None:
    """End with a status that says so where most of the defences that were to be tried weren't run."""
    missing = [one for one in trials if one["accuracy"] is None]
    if 2 * len(missing) > len(trials):
        console_errors.print(
            f"plumbline: {len(missing)} of {len(trials)} defences weren't run: {missing[0]['reason']}",
            style="red",
        )
        raise typer.Exit(MENDABLE)


def check_threshold(limit: float | None, results: Mapping[str, Any], teller: str = "The federation") -> None:
    """End with a status of its own where more leaked than the limit, or where nobody can say how much."""
    if limit is None:
        return
    from plumbline.judge.lights import LEAST_RECORDS

    largest = results["largest_part"]
    if largest is not None and largest <= limit:
        if any(one["light"] == "grey" for one in results["answer"]["columns"] + results["answer"]["parties"]):
            words = "Nothing that was measured is above --fail-above, but not all was measured: see what is grey."
            console_errors.print(f"plumbline: {words}")
        return
    if largest is None:
        words = (
            f"Nothing was measured on {LEAST_RECORDS} records or more, so that nothing can be said to be below "
            "--fail-above: mount attacks (--attacks), or bring more records."
        )
    else:
        words = f"{teller} gives away {largest:.0%} of what was unknown, above the {limit:.0%} of --fail-above."
    console_errors.print(f"plumbline: {words}", style="red")
    raise typer.Exit(ABOVE_THRESHOLD)
