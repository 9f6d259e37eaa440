"""Installs the plugins that a page of docs shows, as other packages would be."""

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def install(page: str, module: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the page's Python block of ``module`` into ``folder``, with its entry point of the TOML blocks.

    The entry point names the class, and the class its block.
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
    (code,) = [
        block for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if f"class {attribute}:" in block
    ]
    (folder / f"{module}.py").write_text(code)
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}:{attribute}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
