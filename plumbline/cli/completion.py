"""What a shell offers after TAB: names of attacks, defences, data sets, settings and runs.

Nothing here may fail or take long: a shell that asks is in the middle of a line.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from typer import Context


def attack_names(incomplete: str) -> list[str]:
    """List the attacks whose names begin so."""
    from attacks.registry import names

    return _starting(names(), incomplete)


def defence_names(incomplete: str) -> list[str]:
    """List the defences whose names begin so."""
    from defences.registry import names

    return _starting(names(), incomplete)


def plugin_names(incomplete: str) -> list[str]:
    """List the attacks and defences whose names begin so."""
    return [*attack_names(incomplete), *defence_names(incomplete)]


def listed_attacks(incomplete: str) -> list[str]:
    """List the lists of attacks that go on so: ``half,rc`` becomes ``half,rcc1`` or ``half,rcc2``."""
    from attacks.registry import names

    return _listed(["all", *names()], incomplete)


def listed_defences(incomplete: str) -> list[str]:
    """List the lists of defences that go on so."""
    from defences.registry import names

    return _listed(names(), incomplete)


def dataset_names(incomplete: str) -> list[str]:
    """List the registered data sets whose names begin so."""
    from vfl.data.catalogue import dataset_names

    return _starting(dataset_names(), incomplete)


def setting_names(incomplete: str) -> list[str]:
    """``NAME=`` of the settings whose names begin so."""
    from services.common.settings import Settings

    return _starting([f"{name}=" for name in Settings.model_fields], incomplete)


def run_names(context: Context, incomplete: str) -> list[str]:
    """List the folders of runs whose names begin so, newest first, and ``latest``."""
    folder = Path(context.params.get("runs") or "runs")
    try:
        names = sorted((one.name for one in folder.iterdir() if one.is_dir()), reverse=True)
    except OSError:
        names = []
    return _starting(["latest", *names], incomplete)


def _starting(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _listed(names: Sequence[str], incomplete: str) -> list[str]:
    """List what the last name of a comma-separated list may become; no name twice."""
    before, comma, last = incomplete.rpartition(",")
    earlier = before.split(",") if comma else []
    return [f"{before}{comma}{name}" for name in _starting(names, last) if name not in earlier]
