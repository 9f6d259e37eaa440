"""torch, imported at its first use: who asks an attack for its terms doesn't wait a second for it.

Raises ModuleNotFoundError at once where it isn't installed.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

if find_spec("torch") is None:
    raise ModuleNotFoundError("No module named 'torch'", name="torch")


def __getattr__(name: str) -> Any:
    return getattr(import_module("torch"), name)
