"""Plumbline: run a real vertical federation, attack it, defend it, report what leaked."""

import os
from importlib.metadata import version

# Before anything imports grpc, whose own lines on each failed handshake would bury the sentence that says what to do.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from plumbline.federation import Federation

__all__ = ["Federation", "__version__"]

# pyproject.toml is the only place that states it.
__version__ = version("plumbline")
