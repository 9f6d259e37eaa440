"""Plumbline: run a real vertical federation, attack it, defend it, report what leaked."""

from importlib.metadata import version

from plumbline.federation import Federation

__all__ = ["Federation", "__version__"]

# pyproject.toml is the only place that states it.
__version__ = version("plumbline")
