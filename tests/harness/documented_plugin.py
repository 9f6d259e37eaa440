"""Installs plugins as other packages would be, those that a page of docs shows among them."""

import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from plumbline.cli.new_plugins import Kind, plugin_files

DOCS = Path(__file__).parents[2] / "docs"


def install(page: str, module: str, folder: Path, monkeypatch: pytest.MonkeyPatch, end: str = "") -> None:
    """Write the page's Python block of ``module`` into ``folder``, with its entry point of the TOML blocks.

    The entry point names the class or function, and that its block. A page that shows the whole of a pyproject.toml
    says there what the package is called, and that it has the module. Of one that the page has written by
    ``plumbline new``, both are what that writes. ``end`` is put behind the block.
    """
    shown = {language: _blocks(page, language) for language in ("toml", "python")}
    if written := re.search(rf"^plumbline new (\w+) {module}$", "".join(_blocks(page, "console")), re.MULTILINE):
        files = plugin_files(Kind(written[1]), module)
        shown = {"toml": [files["pyproject.toml"]], "python": [files[f"{module}.py"]]}
    ((project, group, name, attribute),) = [
        (project, group, name, value.removeprefix(f"{module}:"))
        for project in map(tomllib.loads, shown["toml"])
        for group, entries in project.get("project", {}).get("entry-points", {}).items()
        for name, value in entries.items()
        if value.startswith(f"{module}:")
    ]
    metadata = None
    if "build-system" in project:
        assert module in project["tool"]["setuptools"]["py-modules"]
        of_project = project["project"]
        metadata = f"Metadata-Version: 2.1\nName: {of_project['name']}\nVersion: {of_project['version']}\n".encode()
    pattern = rf"^(?:class|def) {attribute}\b"
    (code,) = [block for block in shown["python"] if re.search(pattern, block, re.MULTILINE)]
    lay_out(folder, module, f"{code}{end}\n" if end else code, {group: f"{name} = {module}:{attribute}"}, metadata)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)


def audits(page: str) -> list[list[str]]:
    """List the words of each `plumbline audit` that a page's consoles show, without the program's name."""
    lines = "".join(_blocks(page, "console")).replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.startswith("plumbline audit ")]


def _blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)


def lay_out(
    folder: Path, module: str, code: str, entry_points: Mapping[str, str], metadata: bytes | None = None
) -> None:
    """Leave a distribution of one module as pip would, with lines of entry points by their group."""
    (folder / f"{module}.py").write_text(code)
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    stated = f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n".encode()
    (information / "METADATA").write_bytes(stated if metadata is None else metadata)
    groups = [f"[{group}]\n{lines}\n" for group, lines in entry_points.items()]
    (information / "entry_points.txt").write_text("".join(groups))
