"""Tables of a judge of received columns, written and read as its command does."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from plumbline.received.judge_request import JudgeRequest
from plumbline.received.judging import prepare
from plumbline.received.received_tables import JudgeFacts, ReceivedRecords

Tables = dict[str, pd.DataFrame]


def written(folder: Path, tables: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Write each table as CSV, and say where."""
    folder.mkdir(exist_ok=True)
    for name, frame in tables.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    return {name: str(folder / f"{name}.csv") for name in tables}


def prepared(folder: Path, tables: Mapping[str, pd.DataFrame], **more: Any) -> tuple[JudgeFacts, ReceivedRecords]:
    """Read tables whose ids are in ``client``, as options of the command say."""
    request = JudgeRequest.of(**{**written(folder, tables), "id_column": "client", "verbosity": "quiet", **more})
    records = prepare(request, Console(file=io.StringIO()))
    return records.facts, records
