"""``plumbline attacks`` and ``plumbline defences``: what there is, what each needs, and its options."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from plumbline.terminal import folded_table
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
    _show(ATTACKS, name, _attack_facts, "phase", _PHASES, as_json=as_json)


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
    _show(DEFENCES, name, _defence_facts, "sits", {}, as_json=as_json)


def _show(
    registry: PluginRegistry,
    name: str,
    facts_of: Callable[[str], dict[str, Any]],
    fact: str,
    titles: Mapping[str, str],
    *,
    as_json: bool,
) -> None:
    """Show one plugin, or a table of all for each value of a fact that has a title, one in all without titles.

    Of which a list doesn't know the fact, as it isn't imported or can't be, it has a line below.
    """
    with plain_errors():
        if name:
            _show_one(registry, name, facts_of, as_json)
            return
        entries = _listed(registry, facts_of)
        if as_json:
            print_json(entries)
            return
        for value, title in (titles or {"": f"{registry.kind.capitalize()}s"}).items():
            _print_table(title, [entry for entry in entries if fact in entry and value in ("", entry[fact])])
        for entry in entries:
            if fact not in entry:
                typer.echo(f"{entry['name']}: {entry['summary']}")


def _listed(registry: PluginRegistry, facts_of: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """Say what a list says of each plugin. Other packages' aren't imported for it: their code may do anything."""
    for reason in registry.left_out():
        typer.echo(f"Left out: {reason}", err=True)
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
        defence = DEFENCES.class_of(name)
    except ImportError:
        return {"name": name, "summary": _MISSING_LIBRARY}
    spec = defence_spec(name)
    facts = {one: getattr(spec, one) for one in ("sits", "stages", "keeps", "needs", "cost", "source")}
    listed = {one: list(value) if isinstance(value, tuple) else value for one, value in facts.items()}
    return {"name": name, "summary": spec.summary or first_line(defence), **listed}


def _print_table(title: str, entries: Sequence[dict[str, Any]]) -> None:
    """Print a row for each, of two lines: what it does, and below what it takes."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for entry in entries:
        table.add_row(Text(entry["name"]), Text(entry["summary"]))
        table.add_row("", Text("; ".join(filter(None, _terms(entry))), style="dim"))
    Console().print(table)


def _terms(entry: dict[str, Any]) -> Iterator[str]:
    """Say what an attack needs, or where a defence sits and what it keeps, and what each costs."""
    if "adversary" in entry:
        yield f"needs {', '.join(entry['needs']) or 'nothing'}"
        yield "by either party" if entry["adversary"] == "either" else f"by the {entry['adversary']} party"
    else:
        yield f"at {' or '.join(entry['sits'])}"
        yield f"keeps {entry['keeps']}"
    yield f"cost: {entry['cost']}" if entry["cost"] else ""


def _show_one(registry: PluginRegistry, name: str, facts_of: Callable[[str], dict[str, Any]], as_json: bool) -> None:
    plugin = registry.class_of(name)
    facts, options = facts_of(name), options_of(plugin)
    if as_json:
        print_json({**facts, "options": [asdict(one) for one in options]})
        return
    console = Console(highlight=False, markup=False)
    console.print(f"{name}: {facts.pop('summary')}\n", style="bold")
    for key, value in facts.items():
        # What a forecast computes of an extent has its words in `cost`.
        if key != "name" and value and not callable(value):
            console.print(f"{key.replace('_', ' '):<13} {_fact_words(value)}")
    _print_options(console, registry.kind, name, options)


def _fact_words(value: Any) -> str:
    """Write a fact as it stands in a list: ``yes``, ``scores, parameters``, ``nothing: prior=half; ...``."""
    if isinstance(value, Mapping):
        inner = {name: one if isinstance(one, str | Mapping) else json.dumps(one) for name, one in value.items()}
        return "; ".join(
            f"{name}={one}" if isinstance(one, str) else f"{name}: {_fact_words(one)}" for name, one in inner.items()
        )
    return ", ".join(value) if isinstance(value, list | tuple) else "yes" if value is True else str(value)


def _print_options(console: Console, kind: str, name: str, options: Sequence[PluginOption]) -> None:
    if not options:
        console.print("\nIt has no options.")
        return
    defaults = ["(give it)" if one.is_required else json.dumps(one.default, default=str) for one in options]
    rows = [(one.name, one.kind, default, one.meaning) for one, default in zip(options, defaults, strict=True)]
    console.print("", folded_table("Options", ("name", "takes", "default", "meaning"), rows))
    example = next((one for one in options if one.default is not None), options[0])
    example_options = json.dumps({name: {example.name: example.default}}, default=str)
    console.print(f"Give them with --set {kind}_options='{example_options}',")
    console.print(f"or in a file for --config as a table [{kind}-options.{name}].")
