"""What the rows of each protocol's tables tell, its exposures count, and nothing else: of real parties' tables."""

import re
from pathlib import Path
from typing import Any

import pytest

from services.common.agreement import Agreement
from services.common.exposure import Exposure
from services.exchange.declared_messages import DeclaredMessage
from services.protocols.first_layer import layer_messages
from services.protocols.hu import gradient_exchange as hu
from services.protocols.shared import share_messages
from tests.harness.documented_plugin import DOCS, install
from tests.harness.every_protocol import SESSIONS, session_of

Told = tuple[str, str, str]


def told_by_tables(agreement: Agreement, tables: dict[str, Any]) -> set[Told]:
    found = set[Told]()

    def add(reader: str, sender: str, message: DeclaredMessage) -> None:
        if message.tells is not None:
            others = "" if reader == agreement.active.name else agreement.active.name
            found.add((reader, sender if message.tells.of == "sender" else others, message.tells.unit))

    for name, table in tables.items():
        for row in table._rows.values():
            add(name, row.sender, row.declared)
        for row in table._question_rows.values():
            for message in table._messages.values():
                if message.right.question == row.declared.name:
                    add(row.sender, name, message)
    return found


def counted(exposures: tuple[Exposure, ...]) -> set[Told]:
    return {
        (one.party, one.owner, "bits" if one.bits else "equations") for one in exposures if one.bits or one.equations
    }


@pytest.mark.parametrize(("name", "parties"), SESSIONS)
def test_exposures_count_what_tables_tell_and_nothing_else(
    name: str, parties: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "pairwise_sums":
        install("adding-a-protocol.md", name, tmp_path, monkeypatch)
    with session_of(name, parties) as (agreement, trainings):
        told = told_by_tables(agreement, {one: training.exchange for one, training in trainings.items()})
    assert told == counted(agreement.plan.training.exposures(agreement))
    assert bool(told) == (name != "shared, unopened")


DOCUMENTED = {
    "`hu`": hu.MESSAGES,
    "`hu`, read directly": hu.READ_DIRECTLY,
    "`shared`": share_messages.MESSAGES,
    "`shared`, a learner that forwards": layer_messages.MESSAGES,
}


def described(message: DeclaredMessage) -> tuple[str, str]:
    """Its right and what it tells, as docs have them."""
    right, tells = message.right, message.tells
    words = [*([f"answers {right.question}"] if right.question else []), *(["asks"] if right.is_asked else [])]
    return " and ".join(words), f"{tells.unit} of {tells.of}" if tells else ""


def cells_of(cell: str, kinds: int) -> list[str]:
    """What a cell says of so many kinds: the same of all, or of each by itself."""
    parts = [part if part not in ("none", "nothing") else "" for part in cell.split(", ")]
    return parts if len(parts) == kinds else parts * kinds


def test_docs_list_every_kind_with_its_right_and_what_it_tells() -> None:
    (table,) = re.findall(
        r"^\| protocol \| kind .*\n[|-]+\n((?:\|.*\n)+)", (DOCS / "protocol.md").read_text(), re.MULTILINE
    )
    found, of_protocol = dict[str, dict[str, tuple[str, str]]](), dict[str, tuple[str, str]]()
    for line in table.splitlines():
        protocol, kinds, _, rights, tells = (cell.strip() for cell in line.split("|")[1:6])
        of_protocol = found.setdefault(protocol, {}) if protocol else of_protocol
        names = kinds.split(", ")
        for name, *cells in zip(names, *(cells_of(cell, len(names)) for cell in (rights, tells)), strict=True):
            if not name.endswith("key"):
                of_protocol[name] = (cells[0], cells[1])
    # Products are forwarded alike whatever residuals are read by, and trees declare theirs for each level.
    found["`hu`, read directly"]["products"] = found["`hu`"]["products"]
    del found["`trees`"]
    assert found == {
        protocol: {name: described(one) for name, one in messages.items()} for protocol, messages in DOCUMENTED.items()
    }
