"""Installs the plugin that a page of docs shows, as another package would be."""

import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def install(page: str, module: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the page's Python block as ``module`` into ``folder``, with the entry point of its TOML block."""
    blocks = dict(re.findall(r"```(python|toml)\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL))
    (folder / f"{module}.py").write_text(blocks["python"])
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    group, entry = re.findall(r'"([\w.]+)"\]\n(.+)', blocks["toml"])[0]
    (information / "entry_points.txt").write_text(f"[{group}]\n{entry.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, module, raising=False)
