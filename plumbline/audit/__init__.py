"""``plumbline audit``: a request, its run in local processes, and what is printed and written of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

# As `plumbline.audit` it must cost nothing to who only wants a federation: the rest is imported where it is used.
if TYPE_CHECKING:
    import pandas as pd

    from plumbline.notebook import NotebookFindings

# Of the request, those that the arguments say.
_ARGUMENTS = frozenset({"data", "active", "passive", "label", "id_column", "parties"})
# And those that say nothing here: how one table is split, what only prints, what decides the command's exit code.
_NOT_HERE = frozenset({"active_columns", "passive_columns", "dry_run", "fail_above"})


def audit(
    active: pd.DataFrame | str | Path, *passive: pd.DataFrame | str | Path, label: str, id: str = "id", **options: Any
) -> NotebookFindings:
    """Audit a federation of these tables: align, train, attack and judge, in processes of this machine.

    It is what ``plumbline audit`` does, and leaves the same folder behind. `plumbline` starts with an example.

    Args:
        active: the table of the party with the labels: a data frame (of pandas, or of a library that Arrow reads, such
            as polars), a file or a database URL. A file's name, or a frame's ``attrs["name"]``, is what its party is
            called.
        passive: each passive party's, one or more.
        label: column of the labels in ``active``.
        id: column of the record ids in every table; of a frame also its index, where that is called so.
        options: the command's, with ``_`` for ``-``, such as ``attacks="half_star,posterior"`` (else all that can
            apply), ``epochs=3``, ``drop=["phone"]``, ``encode={"zip": "onehot"}`` or ``runs="runs"``; others are
            settings of every process in ``settings``.

    Returns:
        What the run gave away; its ``folder`` holds what the parties wrote.

    Raises:
        ValueError: for what can't work, before anything is started.
        FederationFailed, ProcessFailed: when the run fails.
    """
    from rich.console import Console

    from plumbline.audit.request import AuditRequest
    from plumbline.audit.run import audited
    from plumbline.notebook import NotebookFindings
    from plumbline.own_frames import files_of
    from plumbline.recipe import party_names

    fields = _fields(options)
    with tempfile.TemporaryDirectory(prefix="plumbline-") as scratch:
        tables = [active, *passive]
        files, frames = files_of(dict(zip(party_names(len(tables)), tables, strict=True)), Path(scratch), id)
        request = AuditRequest.of(
            active=files[0], passive=tuple(files[1:]), label=label, id_column=id, frames=frames, **fields
        )
        return NotebookFindings.of(audited(request, Console())[1])


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as fields of a request; raises ValueError for one that there isn't."""
    from plumbline.audit.request import OPTIONS, attacks_to_mount
    from plumbline.options import SETTINGS_AS_OPTIONS
    from services.common.settings import by_present_names
    from vfl.suggestions import did_you_mean

    options = by_present_names(options)
    option_names = (set(OPTIONS) - _ARGUMENTS - _NOT_HERE) | {*SETTINGS_AS_OPTIONS, "yes", "settings", "verbosity"}
    if unknown := [name for name in options if name not in option_names]:
        raise ValueError(
            f"An audit has no option {unknown[0]!r}.{did_you_mean(unknown[0], option_names)} See `plumbline audit "
            "--help`; any other setting goes into settings={...}."
        )
    fields = {name: OPTIONS[name].read(value) if name in OPTIONS else value for name, value in options.items()}
    settings = {name: fields.pop(name) for name in SETTINGS_AS_OPTIONS if name in fields}
    fields["settings"] = {**fields.get("settings", {}), **settings}
    # Who calls has decided: a notebook has nobody to ask.
    fields["assume_yes"] = fields.pop("yes", fields.get("assume_yes", True))
    fields["runs"] = Path(fields.get("runs", "runs"))
    return fields | {"attacks": attacks_to_mount(fields.get("attacks"))}
