"""Plumbline: run a real vertical federation, attack it, defend it, report what leaked."""

import os
from importlib.metadata import version

# gRPC's C core writes lines of its own, past every log and beside every sentence. It looks here when it is loaded; who
# wants them sets the variable.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from plumbline.federation import Federation

__all__ = ["Federation", "__version__"]

# pyproject.toml is the only place that states it.
__version__ = version("plumbline")
