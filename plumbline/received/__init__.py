"""Received columns, judged without any federation: what they tell of secret ones, whoever made them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

# It must cost nothing to who only wants a federation: the rest is imported where it is used.
if TYPE_CHECKING:
    import pandas as pd

    from plumbline.received.received_findings import ReceivedFindings


def judge_received(
    own: pd.DataFrame | str | Path,
    received: pd.DataFrame | str | Path | None,
    secret: pd.DataFrame | str | Path,
    *,
    known: int = 0,
    id: str = "id",
    **options: Any,
) -> ReceivedFindings:
    """Judge what columns that were received tell of secret ones; ``plumbline judge`` does the same.

    Args:
        own: what the receiver has of its own: a data frame, a file or a database URL.
        received: what it was handed about the same records; None with ``model``, whose scores are computed.
        secret: what it must not learn.
        known: how many records it has in full beforehand; none of these, nor a duplicate, is judged.
        id: column of the record ids in every table; of a frame also its index, where that is called so.
        options: the command's, with ``_`` for ``-``, such as ``label="default"``, ``kinds=["leaf*=category"]`` or
            ``seed=3``.

    Returns:
        What is told of each secret column; its ``folder`` holds what was computed.

    Raises:
        ValueError: for what can't work, before anything is computed.

    Examples:
        >>> clients = range(400)
        >>> bank = pd.DataFrame({"client": clients, "age": [20 + 7 * one % 50 for one in clients]})
        >>> score = pd.DataFrame({"client": clients, "score": [1 / (1 + one % 9) for one in clients]})
        >>> fintech = pd.DataFrame({"client": clients, "limit": [500 * (one % 9) for one in clients]})
        >>> told = judge_received(bank, score, fintech, id="client", known=50, verbosity="quiet")
        Who has 50 of these records in full and receives received can tell its one column (limit) far better ...
        >>> told.answer.light, told.control_words
        ('red', 'The control came out at 0: a shuffled copy of what was received tells ...')
    """
    import tempfile

    from rich.console import Console

    from plumbline.own_frames import files_of
    from plumbline.received.judge_request import PARTS, JudgeRequest
    from plumbline.received.judging import judge

    options = {"runs": Path(options.pop("runs", "runs")), **options}
    tables = dict(zip(PARTS, (own, "" if received is None else received, secret), strict=True))
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        files, _ = files_of(tables, Path(scratch), id)
        request = JudgeRequest.of(*files, known=known, id_column=id, **options)
        return judge(request, Console())[1]
