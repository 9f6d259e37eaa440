"""The auditor of a compose federation that serves the model of a run: what it makes of the parties' folder."""

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from plumbline.audit.watching import observer
from plumbline.federation_status import FederationStatus
from services.common.agreement import TrainingPlan


class _Serving:
    """A federation that serves the model of this session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id

    @contextmanager
    def connect(self, *_: Any) -> Any:
        yield self

    def status(self) -> FederationStatus:
        return FederationStatus("serving", "", "", self.session_id, (), 1, None, None, (), (), TrainingPlan())


def observe(base: Path, run: Path, pages: Path) -> int:
    """Write the pages of a run's parties, as the auditor's process does; ``base`` is the run as it was."""
    agreement = json.loads((base / "parties" / "active.json").read_text())["agreement"]
    serving = _Serving(agreement["session_id"])
    with patch.multiple(observer, Federation=serving, _PATIENCE=0.0, _SECONDS_BETWEEN_LOOKS=0.0):
        status = observer.main(["--address", "127.0.0.1:1", "--pages", str(pages), str(run / "parties")])
    # What a reader of the pages is told.
    sys.stdout.write((pages / "index.html").read_text())
    return status
