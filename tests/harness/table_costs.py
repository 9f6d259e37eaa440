"""Reads tables as a party does that starts to serve, each in a fork of its own, and tells what each costs and says.

    python -m tests.harness.table_costs FOLDER

A line of JSON for each of `tests.harness.hostile_tables.TABLES`. One interpreter imports the libraries for all, and has
one thread.
"""

import json
import logging
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

# What a party reads a table with, so that no fork imports it anew.
import openpyxl  # noqa: F401
import pyarrow.csv
import pyarrow.parquet  # noqa: F401
import sqlalchemy  # noqa: F401

import vfl.data.inference
import vfl.data.workbooks  # noqa: F401
from services.common.logs import configure_log
from services.common.settings import Settings, settings_of
from services.party.features import load_party_data
from tests.harness.hostile_tables import TABLES


@dataclass(frozen=True)
class Outcome:
    """Attributes:
    name: of the table.
    seconds: of the processor.
    megabytes: at the peak, the interpreter's own included.
    ended: how the process did; 0 is well.
    refused: the sentences that refuse the table; empty where it is read.
    told: all that was logged and printed.
    """

    name: str
    seconds: float
    megabytes: float
    ended: int
    refused: str
    told: str


def read_as_a_party(settings: Settings) -> str:
    """Load a table and log its columns; returns what its owner is told where it can't be used."""
    try:
        load_party_data(settings, with_bias=False).log_columns()
    except ValueError as error:
        return str(error)
    return ""


def _settings(source: str, name: str) -> Settings:
    return settings_of({"data": source, "label_column": "label" if name.startswith("labels") else ""})


def _outcome(name: str, folder: Path) -> Outcome:
    source, told, refused = (folder / what for what in ("source", "told", "refused"))
    refused.write_text("")
    _forked(lambda: source.write_text(TABLES[name](folder)), folder / "built")
    settings = _settings(source.read_text(), name)
    ended, seconds, peak = _forked(lambda: refused.write_text(read_as_a_party(settings)), told)
    return Outcome(name, seconds, peak, ended, refused.read_text(), told.read_text(errors="replace"))


def _forked(work: Callable[[], object], told: Path) -> tuple[int, float, float]:
    """Do work in a fork whose output goes into a file: its status, processor seconds and peak megabytes."""
    child = os.fork()
    if not child:
        with told.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        configure_log(settings_of({}), "passive")
        # Whoever fails doesn't take the machine down.
        resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        status = 0
        try:
            work()
        except BaseException:  # the parent tells, whatever it is
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        logging.shutdown()
        os._exit(status)
    _, status, used = os.wait4(child, 0)
    return status, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    """Print a line for each table."""
    for name in TABLES:
        print(json.dumps(asdict(_outcome(name, Path(sys.argv[1])))), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
