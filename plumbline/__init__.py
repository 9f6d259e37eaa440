"""Plumbline: run a real vertical federation, attack it, defend it, report what leaked."""

import os
from importlib.metadata import version

# gRPC reads it when it is first imported. By default it writes a line of its own for each stranger who knocks at a
# port: whoever reaches one could fill the log of a service.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from plumbline.federation import Federation

__all__ = ["Federation", "__version__"]

# pyproject.toml is the only place that states it.
__version__ = version("plumbline")
