"""Plumbline: run a real vertical federation, attack it, defend it, report what leaked.

Examples:
    What would a bank learn of the customers of a fintech that it trains with?

    >>> import pandas as pd
    >>> import plumbline
    >>> clients = range(400)
    >>> ages = [20 + 7 * one % 50 for one in clients]
    >>> bought = ["yes" if one % 9 > 3 else "no" for one in clients]
    >>> bank = pd.DataFrame({"client": clients, "age": ages, "bought": bought})
    >>> fintech = pd.DataFrame({"client": clients, "limit": [500 * (one % 9) for one in clients]})
    >>> how = dict(attacks="ls", epochs=5, verbosity="quiet")
    >>> found = plumbline.audit(bank, fintech, label="bought", id="client", **how)
    If the passive party joins with this one column and discloses its parameters, the active party can ...
    >>> found.to_frame()[["column", "light", "part"]]
      column light  part
    0  limit   red   1.0

    And what would the two of them have of it?

    >>> with plumbline.Federation.local(active=bank, passive=[fintech], label="bought", id="client") as federation:
    ...     outcome = federation.train(epochs=20)
    ...     scores = federation.predict([0, 7])
    >>> outcome.auc > 0.9
    True
    >>> list(scores.columns)
    ['no', 'yes', 'error']
    >>> bool(scores["yes"][0] < scores["yes"][7])
    True
"""

import os
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

# Before anything imports grpc, whose C core writes lines of its own: one for each stranger who knocks at a port, which
# could fill a log, and several beside the sentence that says what to do. Who wants them sets the variable.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

# The function takes its package's place here; the modules in it are reached with ``from plumbline.audit.run import``.
from plumbline.audit import audit
from plumbline.received import judge_received

if TYPE_CHECKING:
    from plumbline.federation import Federation

__all__ = ["Federation", "__version__", "audit", "judge_received"]

# pyproject.toml is the only place that states it.
__version__ = version("plumbline")


def __getattr__(name: str) -> Any:
    """Import what takes long when somebody asks for it: `plumbline --help` doesn't."""
    if name == "Federation":
        from plumbline.federation import Federation

        return Federation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
