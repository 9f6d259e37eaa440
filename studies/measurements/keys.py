"""The key of a measurement: a digest of its description, its data and the versions and source of all that computes it.

Two with one key have one result. What no result depends on (workers, a cluster, where files lie) is in none.
"""

import ast
import hashlib
import json
import platform
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from attacks.registry import attack_class
from defences.registry import defence_class
from studies.measurements.descriptions import AttackMeasurement, DataChoice, ModelChoice, TaskMeasurement, Work, plain
from vfl.data import load_dataset

# Plugins and trainings are found by name, so all of these may compute a measurement.
WHOLE = ("attacks", "defences", "vfl")
# What makes a measurement; the rest of it is followed from here.
_MEASURING = "studies.measurements.jobs"
# These show, run and keep what was measured; another package names its own as ``ASIDE`` at its top. The names without a
# dot beneath are what a package brings at its top.
_ASIDE = ("plumbline.charts", "plumbline.report.html")
_TOPS = ("plumbline", "studies", "studies.measurements")
OURS = ("plumbline", "services", "protos", "studies", *WHOLE)
_MODULE = re.compile(r"[a-z_]\w*(\.\w+)+(:\w+)?")


@cache
def common_digest() -> str:
    """Digest what may compute any measurement: measuring, and the packages of attacks, defences and training."""
    files = {path for package in WHOLE for kind in ("py", "toml") for path in _folder_of(package).rglob(f"*.{kind}")}
    return _digest(files | _files_of(reached(_MEASURING)))


@cache
def module_digest(module: str) -> str:
    """Digest what a module may compute with beyond that: itself, and what it imports of its own package or of ours."""
    return _digest(_files_of(one for one in reached(module) if one.partition(".")[0] not in WHOLE))


@cache
def reached(module: str) -> frozenset[str]:
    """List the modules that a module imports, directly or not, of its own package and of ours; pages and charts apart.

    A text that names a module counts as an import: some are imported when they are needed.
    """
    followed = {*OURS, module.partition(".")[0]}
    modules, waiting = {module}, [module]
    while waiting:
        for name in _imports(waiting.pop()):
            if name not in modules and name.partition(".")[0] in followed and not _aside(name):
                modules.add(name)
                waiting.append(name)
    return frozenset(modules)


@cache
def imports_torch(module: str) -> bool:
    """Tell whether a module or one that it imports has an ``import torch``; texts don't count."""
    return any(
        name.partition(".")[0] in ("torch", "opacus")
        for one in reached(module)
        if (path := _file_of(one))
        for name in _statements(ast.parse(path.read_text()))
    )


def _aside(name: str) -> bool:
    aside = (*_ASIDE, *_named_aside(name.partition(".")[0]))
    return name in _TOPS or any(name == one or name.startswith(f"{one}.") for one in aside)


@cache
def _named_aside(package: str) -> tuple[str, ...]:
    """List what a package says of itself that it only shows."""
    try:
        return tuple(getattr(import_module(package), "ASIDE", ()))
    except Exception:
        return ()  # what is wrong with it is said where it is used


@cache
def _imports(module: str) -> tuple[str, ...]:
    """List the modules that a module names in imports and in texts, those that are files."""
    path = _file_of(module)
    if path is None:
        return ()
    tree = ast.parse(path.read_text())
    return tuple(sorted({name for name in (*_statements(tree), *_texts(tree)) if _file_of(name)}))


def _statements(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            yield node.value.partition(":")[0]


@cache
def _file_of(module: str) -> Path | None:
    """Find the source file of a module without importing it; None for what isn't one."""
    package, _, _ = module.partition(".")
    try:
        folder = _folder_of(package)
    except LookupError:
        return None
    path = folder.joinpath(*module.split(".")[1:])
    files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
    return next((file for file in files if file.is_file()), None)


@cache
def _folder_of(package: str) -> Path:
    """Find the folder of a top package, that of a single file included; raises LookupError."""
    try:
        spec = find_spec(package)
    except (ValueError, ImportError):
        spec = None
    if spec is not None and spec.origin is None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    if spec is None or spec.origin in (None, "built-in", "frozen"):
        raise LookupError(package)
    path = Path(str(spec.origin))
    return path.parent if path.name == "__init__.py" else path.with_suffix("")


def _files_of(modules: Iterable[str]) -> set[Path]:
    return {path for one in modules if (path := _file_of(one))}


def _digest(files: Iterable[Path]) -> str:
    """Digest of files by their content, in an order that doesn't depend on where they lie."""
    each = sorted(f"{path.parent.name}/{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)
    return hashlib.sha256("\n".join(each).encode()).hexdigest()


_LIBRARIES = ("numpy", "scipy", "scikit-learn")
_SYNTHETIC = "synthetic"


def key_of(work: Work, data_digest: str) -> str:
    """Digest what the result of a measurement or a training depends on: 64 hexadecimal digits.

    Args:
        work: whose content is digested, defaults included.
        data_digest: of what it is done on (``digest_of_data``).
    """
    content = {"cell": plain(work), "data": data_digest, "versions": versions_of(work)}
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def canonical(value: Any) -> str:
    """Write JSON in the one form in which equal content is equal text; 1 and 1.0 and true are different content."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def data_of(work: Work) -> DataChoice | None:
    """Find the data set that a measurement is made on, or a model is trained on; None for a task without."""
    on = shared_of(work)
    return on.data if isinstance(on, ModelChoice) else on


def shared_of(work: Work) -> ModelChoice | DataChoice | None:
    """Find the model or data set that a measurement is made on, a model itself; None for a task without."""
    if isinstance(work, ModelChoice):
        return work
    return work.model if isinstance(work, AttackMeasurement) else work.on


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


def versions_of(work: Work) -> dict[str, str]:
    """List the versions that a result may depend on: of Python, of libraries, and of our source by its digest.

    torch is among them where the work may use it, plugins of other packages with their distribution and source.
    """
    on, versions, uses_torch = shared_of(work), dict(_common()), False
    plugins: list[tuple[str, str]] = []
    if isinstance(on, ModelChoice):
        uses_torch = on.kind != "linear" or on.trainer != "lbfgs" or on.defence is not None
        plugins += [("defence", on.defence.name)] if on.defence else []
    if isinstance(work, AttackMeasurement):
        plugins += [("attack", work.attack.name), *(("defence", defence.name) for defence in work.defences)]
    elif isinstance(work, TaskMeasurement):
        versions, uses_torch = versions | _versions_of_module(work.function.partition(":")[0]), True
    for kind, name in plugins:
        more, torch = _versions_of_plugin(kind, name)
        versions, uses_torch = versions | more, uses_torch or torch
    return versions | (_torch() if uses_torch else {})


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


def _versions_of_plugin(kind: str, name: str) -> tuple[dict[str, str], bool]:
    """List the versions of a plugin, and whether it may use torch.

    One that can't be found has none: the measurement says what is wrong. That isn't kept, as it may come to be.
    """
    try:
        module = (attack_class if kind == "attack" else defence_class)(name).__module__
    except Exception:
        return {}, True
    return _versions_of_plugin_module(module)


@cache
def _versions_of_plugin_module(module: str) -> tuple[dict[str, str], bool]:
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
