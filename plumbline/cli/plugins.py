"""``plumbline attacks`` and ``plumbline defences``: what there is, what each needs, and its options."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attacks.registry import REGISTRY as ATTACKS
from attacks.registry import spec_of
from defences.registry import REGISTRY as DEFENCES
from defences.registry import spec_of as defence_spec
from plumbline.cli.completion import attack_names, defence_names
from plumbline.cli.output import AsJson, plain_errors, print_json
from vfl.plugin_options import PluginOption, first_line, options_of
from vfl.plugin_registry import PluginRegistry

_PHASES = {"prediction": "On predictions", "training": "On training"}
# What a list calls the pieces of a view.
_PIECES = {
    "scores": "scores",
    "weights_active": "parameters",
    "weights_passive": "parameters",
    "bias": "parameters",
    "network": "a network",
    "network_active": "a network",
    "labels": "own labels",
    "features_train": "own labels",
    "record_labels": "own labels",
    "auxiliary": "complete records",
    "moments": "columns' statistics",
    "equations": "answers of training",
}
_MISSING_LIBRARY = "needs a library that isn't here: pip install 'plumbline[lab]'"


def attacks(
    name: Annotated[
        str, typer.Argument(help="An attack; none: list all.", autocompletion=attack_names, show_default=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the attacks, or show one with its options.

    Example: plumbline attacks
    Example: plumbline attacks gia
    """
    with plain_errors():
        if name:
            _show_one(ATTACKS, name, _attack_facts, as_json)
        elif as_json:
            print_json(_listed(ATTACKS, _attack_facts))
        else:
            found = _listed(ATTACKS, _attack_facts)
            for phase, title in _PHASES.items():
                _print_table(title, [one for one in found if one.get("phase") == phase])
            _print_untold(found, "phase")


def defences(
    name: Annotated[
        str, typer.Argument(help="A defence; none: list all.", autocompletion=defence_names, show_default=False)
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the defences, or show one with its options.

    Example: plumbline defences
    Example: plumbline defences dp_noise
    """
    with plain_errors():
        if name:
            _show_one(DEFENCES, name, _defence_facts, as_json)
            return
        found = _listed(DEFENCES, _defence_facts)
        if as_json:
            print_json(found)
            return
        _print_table("Defences", [one for one in found if "sits" in one])
        _print_untold(found, "sits")


def _listed(registry: PluginRegistry, facts_of: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Say what a list says of each plugin. Other packages' aren't imported for it: their code may do anything."""
    for words in registry.left_out():
        typer.echo(f"Left out: {words}", err=True)
    origins = registry.origins()
    return [
        {"name": name, "summary": f"of {origins[name]}; `plumbline {registry.kind}s {name}` imports it and says more"}
        if name in origins
        else facts_of(name)
        for name in registry.names()
    ]


def _attack_facts(name: str) -> dict[str, Any]:
    """Say what a list says of an attack; without a phase where its library isn't installed."""
    try:
        spec = spec_of(name)
    except ImportError:
        return {"name": name, "summary": _MISSING_LIBRARY}
    # In the words of a list, each once.
    pieces = [*(["parameters"] if spec.knowledge == "white_box" else []), *(_PIECES.get(one, "") for one in spec.needs)]
    needs = [*dict.fromkeys(filter(None, pieces))]
    return {**vars(spec), "name": name, "summary": spec.summary or first_line(ATTACKS.class_of(name)), "needs": needs}


def _defence_facts(name: str) -> dict[str, Any]:
    """Say what a list says of a defence; not where it sits where its library isn't installed."""
    try:
        chosen = DEFENCES.class_of(name)
    except ImportError:
        return {"name": name, "summary": _MISSING_LIBRARY}
    spec = defence_spec(name)
    told = {one: getattr(spec, one) for one in ("sits", "stages", "keeps", "needs", "cost", "source")}
    listed = {one: list(value) if isinstance(value, tuple) else value for one, value in told.items()}
    return {"name": name, "summary": spec.summary or first_line(chosen), **listed}


def _print_table(title: str, found: Sequence[dict[str, Any]]) -> None:
    """Print a row for each, of two lines: what it does, and below what it takes."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for one in found:
        table.add_row(Text(one["name"]), Text(one["summary"]))
        table.add_row("", Text("; ".join(filter(None, _terms(one))), style="dim"))
    Console().print(table)


def _terms(one: dict[str, Any]) -> Iterator[str]:
    """Say what an attack needs, or where a defence sits and what it keeps, and what each costs."""
    if "adversary" in one:
        yield f"needs {', '.join(one['needs']) or 'nothing'}"
        yield "by either party" if one["adversary"] == "either" else f"by the {one['adversary']} party"
    else:
        yield f"at {' or '.join(one['sits'])}"
        yield f"keeps {one['keeps']}"
    yield f"cost: {one['cost']}" if one["cost"] else ""


def _print_untold(found: Iterable[dict[str, Any]], fact: str) -> None:
    """Print a line for each of which a list doesn't know a fact: what isn't imported, or can't be."""
    for one in found:
        if fact not in one:
            typer.echo(f"{one['name']}: {one['summary']}")


def _show_one(registry: PluginRegistry, name: str, facts_of: Callable[[str], dict[str, Any]], as_json: bool) -> None:
    chosen = registry.class_of(name)
    facts, options = facts_of(name), options_of(chosen)
    if as_json:
        print_json({**facts, "options": [asdict(one) for one in options]})
        return
    console = Console(highlight=False, markup=False)
    console.print(f"{name}: {facts.pop('summary')}\n", style="bold")
    for key, value in facts.items():
        words = ", ".join(value) if isinstance(value, list | tuple) else "yes" if value is True else value
        # What a forecast computes of an extent has its words in `cost`.
        if key != "name" and words and not callable(words):
            console.print(f"{key.replace('_', ' '):<12} {words}")
    _print_options(console, registry.kind, name, options)


def _print_options(console: Console, kind: str, name: str, options: Sequence[PluginOption]) -> None:
    if not options:
        console.print("\nIt has no options.")
        return
    table = Table(title="Options", title_justify="left", pad_edge=False)
    for heading in ("name", "takes", "default", "meaning"):
        table.add_column(heading, overflow="fold")
    for one in options:
        default = "(give it)" if one.is_required else json.dumps(one.default, default=str)
        table.add_row(*(Text(words) for words in (one.name, one.kind, default, one.meaning)))
    console.print("", table)
    example = next((one for one in options if one.default is not None), options[0])
    given = json.dumps({name: {example.name: example.default}}, default=str)
    console.print(f"Give them with --set {kind}_options='{given}',")
    console.print(f"or in a file for --config as a table [{kind}-options.{name}].")
