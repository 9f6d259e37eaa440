"""Which source files compute a cell, and a digest of them: a changed line makes another key."""

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

# Plugins and trainings are found by name, so all of these may compute a cell.
WHOLE = ("attacks", "defences", "vfl")
# What measures a cell; the rest of it is followed from here.
_MEASURING = "plumbline.cells.jobs"
# These show, run and keep what was measured; another package names its own as ``ASIDE`` at its top. The names without a
# dot beneath are what a package brings at its top.
_ASIDE = ("plumbline.charts", "plumbline.html")
_TOPS = ("plumbline", "plumbline.cells")
OURS = ("plumbline", "services", "protos", *WHOLE)
_MODULE = re.compile(r"[a-z_]\w*(\.\w+)+(:\w+)?")


@cache
def common_digest() -> str:
    """Digest what may compute any cell: measuring, and the packages of attacks, defences and training."""
    files = {path for package in WHOLE for path in _folder_of(package).rglob("*.py")}
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
    found, waiting = {module}, [module]
    while waiting:
        for name in _imports(waiting.pop()):
            if name not in found and name.partition(".")[0] in followed and not _aside(name):
                found.add(name)
                waiting.append(name)
    return frozenset(found)


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
    """What a package says of itself that it only shows."""
    try:
        return tuple(getattr(import_module(package), "ASIDE", ()))
    except Exception:
        return ()  # what is wrong with it is said where it is used


@cache
def _imports(module: str) -> tuple[str, ...]:
    """The modules that a module names in imports and in texts, those that are files."""
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
    """The source file of a module, found without importing it; None for what isn't one."""
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
    """The folder of a top package, that of a single file included; raises LookupError."""
    try:
        found = find_spec(package)
    except (ValueError, ImportError):
        found = None
    if found is not None and found.origin is None and found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations)))
    if found is None or found.origin in (None, "built-in", "frozen"):
        raise LookupError(package)
    path = Path(str(found.origin))
    return path.parent if path.name == "__init__.py" else path.with_suffix("")


def _files_of(modules: Iterable[str]) -> set[Path]:
    return {path for one in modules if (path := _file_of(one))}


def _digest(files: Iterable[Path]) -> str:
    """Digest of files by their content, in an order that doesn't depend on where they lie."""
    each = sorted(f"{path.parent.name}/{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files)
    return hashlib.sha256("\n".join(each).encode()).hexdigest()
