"""The key of a cell: a digest of its description, its data and the versions of all that computes it.

Two cells with one key have one result. What no result depends on (workers, a cluster, where files lie) is in none.
"""

import hashlib
import json
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

import numpy as np

from attacks.registry import attack_class
from defences.registry import defence_class
from plumbline.cells.cells import AttackCell, Cell, DataChoice, ModelChoice, plain
from plumbline.cells.source_digests import OURS, WHOLE, common_digest, imports_torch, module_digest
from vfl.data import load_dataset

_LIBRARIES = ("numpy", "scipy", "scikit-learn")
_SYNTHETIC = "synthetic"


def key_of(cell: Cell, data_digest: str) -> str:
    """Digest what a cell's result depends on: 64 hexadecimal digits.

    Args:
        cell: whose content is digested, defaults included.
        data_digest: of what it is measured on (``digest_of_data``).
    """
    return _sha256({"cell": plain(cell), "data": data_digest, "versions": versions_of(cell)})


def canonical(value: Any) -> str:
    """Write JSON in the one form in which equal content is equal text; 1 and 1.0 and true are different content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def data_of(cell: Cell) -> DataChoice | None:
    """The data set that a cell is measured on; None for a task without."""
    on = shared_of(cell)
    return on.data if isinstance(on, ModelChoice) else on


def shared_of(cell: Cell) -> ModelChoice | DataChoice | None:
    """The model or data set that a cell is measured on; None for a task without."""
    return cell.model if isinstance(cell, AttackCell) else cell.on


def digest_of_data(choice: DataChoice | None, data_dir: Path | None) -> str:
    """Digest a data set as it is loaded, so that a sample isn't taken for the whole; empty for what has no files.

    Raises:
        DatasetNotFound: when raw files are missing.
    """
    if choice is None or choice.name == _SYNTHETIC:
        return ""
    return _digest_of_files(choice.name, data_dir)


@cache
def _digest_of_files(name: str, data_dir: Path | None) -> str:
    table = load_dataset(name, data_dir)
    digest = hashlib.sha256(canonical([table.features.shape, table.feature_names]).encode())
    digest.update(np.ascontiguousarray(table.features).tobytes())
    digest.update(canonical([str(label) for label in table.labels]).encode())
    return digest.hexdigest()


def versions_of(cell: Cell) -> dict[str, str]:
    """List the versions that a cell's result may depend on: of Python, of libraries, and of our source by its digest.

    torch is among them where the cell may use it, plugins of other packages with their distribution and source.
    """
    if isinstance(cell, AttackCell):
        attack, torch = _versions_of_plugin("attack", cell.attack.name)
        found, uses_torch = attack, torch
        for defence in cell.defences:
            more, torch = _versions_of_plugin("defence", defence.name)
            found, uses_torch = found | more, uses_torch or torch
    else:
        found, uses_torch = _versions_of_module(cell.function.partition(":")[0]), True
    model = versions_of_model(shared_of(cell))
    return model | found | (_torch() if uses_torch else {})


def versions_of_model(on: ModelChoice | DataChoice | None) -> dict[str, str]:
    """List the versions that a trained model may depend on."""
    if not isinstance(on, ModelChoice):
        return dict(_common())
    plugin = {} if on.defence is None else _versions_of_plugin("defence", on.defence.name)[0]
    torch = on.kind != "linear" or on.trainer != "lbfgs" or on.defence is not None
    return _common() | plugin | (_torch() if torch else {})


def key_of_model(model: ModelChoice, data_digest: str) -> str:
    """Digest what a trained model depends on."""
    return _sha256({"model": plain(model), "data": data_digest, "versions": versions_of_model(model)})


def _sha256(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(content).encode()).hexdigest()


@cache
def _common() -> dict[str, str]:
    python = ".".join(platform.python_version_tuple()[:2])
    return {"python": python, "source": common_digest()} | {name: version(name) for name in _LIBRARIES}


@cache
def _torch() -> dict[str, str]:
    try:
        return {"torch": version("torch")}
    except PackageNotFoundError:
        return {}


@cache
def _versions_of_plugin(kind: str, name: str) -> tuple[dict[str, str], bool]:
    """The versions of a plugin, and whether it may use torch.

    One that can't be found has none: measuring its cell says what is wrong.
    """
    try:
        module = (attack_class if kind == "attack" else defence_class)(name).__module__
    except Exception:
        return {}, True
    ours = module.partition(".")[0] in OURS
    # Another package may load torch in ways that can't be seen.
    return _versions_of_module(module), not ours or imports_torch(module)


@cache
def _versions_of_module(module: str) -> dict[str, str]:
    top = module.partition(".")[0]
    if top in WHOLE:
        return {}
    # Ours is known by its source.
    distributions = [] if top in OURS else _distributions().get(top, [])
    return {name: version(name) for name in sorted(set(distributions))} | {module: module_digest(module)}


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())
