"""What development is installed with: torch where there is a build without CUDA, and never gigabytes unasked."""

import subprocess
from pathlib import Path

import pytest

from scripts.platforms import ROOT

# Has torch or not, finds a build without CUDA or not, and writes down what it installs.
PYTHON = """#!/bin/sh
case "$*" in
*tomllib*) echo torch==9.9.9 ;;
*"import torch"*) exit {lacks_torch} ;;
*torch==9.9.9*) echo "$*"; exit {no_build} ;;
*) echo "$*" ;;
esac
"""
WITH_TORCH = "-m pip install --quiet --editable .[dev,postgres,torch]"
WITHOUT = "-m pip install --quiet --editable .[dev,postgres]"
BUILD = "-m pip install --quiet torch==9.9.9+cpu"


@pytest.mark.parametrize(
    ("system", "lacks_torch", "no_build", "installed"),
    [
        ("Linux", True, False, [BUILD, WITH_TORCH]),
        ("Linux", True, True, [BUILD, WITHOUT]),
        ("Linux", False, True, [WITH_TORCH]),
        ("Darwin", True, True, [WITH_TORCH]),
    ],
    ids=["an index has a build", "none has", "it was brought", "macOS has no CUDA"],
)
def test_torch_comes_only_without_cuda(
    tmp_path: Path, system: str, lacks_torch: bool, no_build: bool, installed: list[str]
) -> None:
    programs = {
        "python": PYTHON.format(lacks_torch=int(lacks_torch), no_build=int(no_build)),
        "uname": f"#!/bin/sh\necho {system}\n",
    }
    for name, content in programs.items():
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    command = ["/bin/sh", str(ROOT / "scripts" / "install-dev"), str(tmp_path / "python")]
    done = subprocess.run(command, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.splitlines() == installed
    assert ("what needs torch is not tested" in done.stderr) == (installed[-1] == WITHOUT)
