"""Plumbline: run a real vertical federation, attack it, defend it, report what leaked."""

import os
from importlib.metadata import version

# Before anything imports grpc, whose C core writes lines of its own: one for each stranger who knocks at a port, which
# could fill a log, and several beside the sentence that says what to do. Who wants them sets the variable.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# The function takes its package's place here; the modules in it are reached with ``from plumbline.audit.run import``.
from plumbline.audit import audit
from plumbline.federation import Federation

__all__ = ["Federation", "__version__", "audit"]

# pyproject.toml is the only place that states it.
__version__ = version("plumbline")
