"""``plumbline audit``: a request's options, from the command line and from a file."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from plumbline.audit.request import OPTIONS, AdversaryOptions, FederationOptions, OutputOptions, TableOptions
from plumbline.cli.completion import dataset_names, listed_attacks, listed_defences, setting_names
from plumbline.cli.output import ABOVE_THRESHOLD, MENDABLE, console_errors, plain_errors, print_json
from plumbline.options import OF_ADVERSARIES, OF_TRAINING, TERMS, options_of, settings_of, with_options
from plumbline.telling.numbers import percent
from services.common.settings import Settings, by_present_names
from vfl.suggestions import did_you_mean

if TYPE_CHECKING:
    from plumbline.audit.configuration import AuditOptions

_COMPLETIONS = {"data": dataset_names, "attacks": listed_attacks, "defences": listed_defences}
_training = partial(typer.Option, rich_help_panel="Training")
_output = partial(typer.Option, rich_help_panel="Output")


@with_options(
    *options_of(TableOptions, AdversaryOptions, completions=_COMPLETIONS),
    *settings_of(OF_ADVERSARIES, panel="Attacks and defences"),
    *settings_of((*TERMS, *OF_TRAINING), panel="Training"),
    *options_of(FederationOptions, OutputOptions, completions=_COMPLETIONS),
)
def audit(
    context: typer.Context,
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
        Path | None, _output(metavar="FILE", help="Read options from a file, such as a run's audit.toml.")
    ] = None,
    quiet: Annotated[bool, _output("--quiet", help="The verdict and the report's path only.")] = False,
    verbose: Annotated[bool, _output("--verbose", help="Bytes by message and times as well.")] = False,
    as_json: Annotated[bool, _output("--json", help="Print the results as one JSON document at the end.")] = False,
    **options: Any,
) -> None:
    """Run a federation of local processes, attack it, and report what leaked.

    Processes speak mutual TLS and train under real Paillier encryption. An option on the command line wins over the
    same one in --config. Every run's folder has an audit.toml that repeats it.

    Example: plumbline audit --active bank.csv --passive fintech.csv --label default --id client
    Example: plumbline audit --data breast_cancer --parties 3 --epochs 10
    Example: plumbline audit --data satellite --attacks half_star,rcc2 --defences score_scheme1,response_truncation
    Example: plumbline audit --config runs/latest.toml --fail-above .5 --quiet
    """
    switches = frozenset(word for word, wanted in (("quiet", quiet), ("verbose", verbose), ("json", as_json)) if wanted)
    given_options = {name: value for name, value in options.items() if _is_given(context, name)}
    with plain_errors(context=context):
        from plumbline.audit.configuration import AuditOptions, read_configuration
        from plumbline.audit.folder import AuditFolder
        from plumbline.audit.plan import plan_facts
        from plumbline.audit.run import prepare, run_audit

        audit_options = _on_the_command_line(given_options, _pairs(setting or []), switches).over(
            read_configuration(config) if config else AuditOptions()
        )
        request, wants_json = audit_options.request(), "json" in audit_options.said
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


def _on_the_command_line(values: Mapping[str, Any], settings: dict[str, Any], switches: frozenset[str]) -> AuditOptions:
    """List the options of the command line as a file would have them."""
    from plumbline.audit.configuration import asked_of

    fields = {name: OPTIONS[name].read(value) for name, value in values.items() if name in OPTIONS}
    named_settings = {name: value for name, value in values.items() if name not in OPTIONS}
    if twice := named_settings.keys() & settings.keys():
        name = min(twice)
        raise ValueError(f"--{name.replace('_', '-')} and --set {name}= say the same: give one of them.")
    return asked_of(fields, settings | named_settings, switches)


def _pairs(settings: list[str]) -> dict[str, Any]:
    pairs = by_present_names(dict(entry.partition("=")[::2] for entry in settings))
    for name in pairs:
        if name not in Settings.model_fields:
            hint = did_you_mean(name, Settings.model_fields) or " See `plumbline serve --help` for the list."
            raise ValueError(f"There is no setting {name!r}.{hint}")
    return pairs


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
            f"plumbline: {len(missing)} of {len(trials)} defences weren't run: {missing[0]['reason']}", style="red"
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
            sentence = "Nothing that was measured is above --fail-above, but not all was measured: see what is grey."
            console_errors.print(f"plumbline: {sentence}")
        return
    if largest is None:
        sentence = (
            f"Nothing was measured on {LEAST_RECORDS} records or more, so that nothing can be said to be below "
            "--fail-above: mount attacks (--attacks), or bring more records."
        )
    else:
        sentence = (
            f"{teller} gives away {percent(largest)} of what was unknown, above the {percent(limit)} of --fail-above."
        )
    console_errors.print(f"plumbline: {sentence}", style="red")
    raise typer.Exit(ABOVE_THRESHOLD)
