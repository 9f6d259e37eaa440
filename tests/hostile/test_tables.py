"""Tables of others: none ends in a traceback, none takes long or much, and no message holds a cell of one."""

import io
import json
import logging
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from services.common.settings import settings_of
from tests.harness.hostile_tables import CELL, TABLES
from tests.harness.table_costs import Outcome, read_as_a_party

# As processor seconds; the interpreter with its libraries takes 100 MB of the memory.
MOST_SECONDS, MOST_MEGABYTES = 10, 1_000
MOST_LETTERS, MOST_FAULTS = 500, 21
MUTATIONS = 110


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """What became of every table."""
    folder = tmp_path_factory.mktemp("tables")
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.table_costs", str(folder)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [Outcome(**json.loads(line)) for line in done.stdout.splitlines()]
    return {one.name: one for one in found}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_others_is_read_or_refused_in_sentences(outcomes: dict[str, Outcome], name: str) -> None:
    one = outcomes[name]
    assert one.ended == 0, one.told
    assert one.seconds <= MOST_SECONDS
    assert one.megabytes <= MOST_MEGABYTES
    assert "Traceback" not in one.told
    assert CELL.lower() not in f"{one.told}{one.refused}".lower()
    faults = one.refused.split("\n")
    assert len(faults) <= MOST_FAULTS
    assert max(map(len, faults)) <= MOST_LETTERS


# --- tables that a byte is wrong in ---------------------------------------------------------------------------


def cells_of_a_table(rows: int = 60) -> pd.DataFrame:
    """Text in every cell, none of it twice but for the categories: what of it is told shows."""
    return pd.DataFrame(
        {
            "id": [f"person{row}@{CELL}" for row in range(rows)],
            "town": [f"{CELL}town{row % 5}" for row in range(rows)],
            "note": [f"{CELL}note{row}" for row in range(rows)],
            "amount": [f"{7_310_000 + 977 * row}.25" for row in range(rows)],
        }
    )


def content_of(ending: str, frame: pd.DataFrame, folder: Path) -> bytes:
    path = folder / f"whole.{ending}"
    if ending == "xlsx":
        frame.to_excel(path, index=False)
    elif ending == "parquet":
        frame.to_parquet(path, index=False)
    elif ending == "db":
        with sqlite3.connect(path) as connection:
            frame.to_sql("t", connection, index=False)
        connection.close()
    else:
        encoding = "utf-16" if ending == "txt" else "utf-8"
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",", encoding=encoding)
    return path.read_bytes()


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Content with a few things wrong."""
    made = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        at = draw.randrange(len(made)) if draw.random() < 0.5 else draw.randrange(min(len(made), 80))
        what = draw.randrange(7)
        if what == 0:
            made[at] = draw.randrange(256)
        elif what == 1:
            made[at:at] = draw.choice([b"\x00", b'"', b"\n", b"\r", b",", b";", b"\xff\xfe", b"\t", b"\x1b[2J"])
        elif what == 2:
            del made[at]
        elif what == 3:
            del made[at : at + draw.randrange(1, 200)]
        elif what == 4:
            made[at:at] = made[: draw.randrange(1, 100)]
        elif what == 5:
            made[:0] = draw.choice([b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x1f\x8b", b"PK\x03\x04", b"\n", b'"'])
        else:
            made[at : at + 1] = draw.randbytes(draw.randrange(1, 40))
        made = made or bytearray(b"\n")
    return bytes(made)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """All that is logged."""
    told = io.StringIO()
    handler = logging.StreamHandler(told)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield told
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "xlsx", "parquet", "db"])
def test_no_cell_of_a_damaged_table_is_told(
    tmp_path: Path, ending: str, log: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = cells_of_a_table()
    content = content_of(ending, frame, tmp_path)
    draw = random.Random(1)  # noqa: S311 - the same damage each time
    cells = [str(cell) for column in frame for cell in frame[column]]
    path = tmp_path / f"t.{ending}"
    source = f"sqlite:///{path}?table=t" if ending == "db" else str(path)
    for number in range(MUTATIONS):
        path.write_bytes(mutated(content, draw))
        refused = read_as_a_party(settings_of({"data": source}))
        told = "".join([refused, log.getvalue(), *capfd.readouterr()])
        assert [cell for cell in cells if cell in told] == [], (number, told)
        assert max(map(len, refused.split("\n"))) <= MOST_LETTERS
        log.seek(0)
        log.truncate()
