"""Installs plugins as other packages would be, those that a page of docs shows among them."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def install(page: str, module: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the page's Python block of ``module`` into ``folder``, with its entry point of the TOML blocks.

    The entry point names the class or function, and that its block.
    """
    text = (DOCS / page).read_text()
    # A page may show the whole of a pyproject.toml: its next table begins with a bracket.
    groups = re.findall(r'^\[project\.entry-points\."([\w.]+)"\]\n([^\[`]*)', text, flags=re.MULTILINE)
    ((group, name, attribute),) = [
        (group, name, attribute)
        for group, entries in groups
        for name, found, attribute in re.findall(r'(\w+) = "(\w+):(\w+)"', entries)
        if found == module
    ]
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (code,) = [block for block in blocks if re.search(rf"^(?:class|def) {attribute}\b", block, re.MULTILINE)]
    lay_out(folder, module, code, {group: f"{name} = {module}:{attribute}"})
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)


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
